//! What a person types and reads: arguments, exit codes, human output. The main thread runs it.
//! Answers go to standard output, everything else to standard error.

pub mod command;
mod demo;
mod help;
mod serve;
pub mod style;

use std::ffi::OsString;
use std::io::Write;
use std::sync::Arc;

use crate::base::clock::{Clock, SystemClock};
use crate::base::secret::Redactor;

use command::{Command, Usage};
use style::{Role, Style, Wish};

/// The configuration file that is meant where none is named.
pub const DEFAULT_CONFIG: &str = "korvun.json";

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Did what was asked.
    Done,
    /// Failed while running, or what was asked about is not well.
    Failed,
    /// The command line, or the file that `config check` looked at, is wrong.
    Usage,
    /// `serve`: configuration or a named secret is wrong or missing; a restart will not help
    /// (`EX_CONFIG` of sysexits.h).
    Config,
}

impl Exit {
    /// The number that the system sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Config => 78,
        }
    }
}

/// Does what `args` ask for; the program's own name is not part of them.
///
/// Blocks: until it is done, which for `serve` and `demo` is until they are asked to stop.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    let typed = match command::parse(args) {
        Ok(typed) => typed,
        Err(usage) => return complain(&usage),
    };
    let style = Style::of_stdout(typed.colour);
    match typed.command {
        Command::Help(None) => answer(&help::list(style)),
        Command::Help(Some(entry)) => answer(&help::of(entry, style)),
        Command::Version => answer(&format!("korvun {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Serve(serve) => serve::run(&serve, Style::of_stderr(typed.colour)),
        Command::Demo => demo(Style::of_stderr(typed.colour)),
        Command::Check(_) | Command::Status(_) => complain(&Usage {
            problem: "this build does not have it yet".to_owned(),
            help: "`korvun help` lists what it has".to_owned(),
        }),
    }
}

/// Shows a message on its way; the log keeps to what a person must know.
fn demo(style: Style) -> Exit {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redactor = Redactor::new();
    serve::start_log(style, "warn", &redactor, &clock);
    match demo::run(&redactor, clock, &|text| {
        answer(text);
    }) {
        Ok(_) => Exit::Done,
        Err(message) => {
            note(&format!("korvun: {message}"));
            Exit::Failed
        }
    }
}

fn complain(usage: &Usage) -> Exit {
    let style = Style::of_stderr(Wish::Auto);
    note(&format!(
        "{} {}",
        style.paint(Role::Bad, "korvun:"),
        usage.problem
    ));
    note(&format!(
        "{} {}",
        style.paint(Role::Name, "help:"),
        usage.help
    ));
    Exit::Usage
}

/// Writes the answer to standard output. A reader that has left (`korvun help | head -1`) is no
/// failure.
fn answer(text: &str) -> Exit {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            note(&format!("korvun: cannot write to standard output: {error}"));
            Exit::Failed
        }
        _ => Exit::Done,
    }
}

/// Writes a line to standard error; where that is closed there is nobody to tell.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
