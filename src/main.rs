//! Starts the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(korvun::cli::run(std::env::args_os().skip(1)).code())
}
