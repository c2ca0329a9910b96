//! What a person types and reads: arguments, exit codes, human output. The main thread runs it.
//! Answers go to standard output, everything else to standard error.

mod chat;
pub mod check;
pub mod command;
mod demo;
pub mod explain;
pub mod given;
mod help;
pub mod parse;
mod serve;
pub mod status;
pub mod style;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::clock::{Clock, SystemClock};
use crate::base::secret::Redactor;
use crate::base::text::printable;
use crate::config::folders;
use crate::config::missing::missing;
use crate::config::secrets::Sources;
use crate::config::skills;
use crate::daemon::load::catalogue;
use crate::daemon::preflight::{self, Preflight};
use crate::domain::limits::Limits;
use command::{Command, Reach};
use given::Usage;
use style::{Role, Style, Wish};

/// The configuration file that is meant where none is named.
pub const DEFAULT_CONFIG: &str = "korvun.json";
/// Where the admin server listens unless the configuration says otherwise.
const DEFAULT_ADMIN: &str = "127.0.0.1:2112";

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
    let args: Vec<OsString> = args.into_iter().collect();
    // Asked for here too, because a command line that makes no sense is complained of in colour.
    let wish = match args.iter().any(|arg| arg == "--no-color") {
        true => Wish::Plain,
        false => Wish::Auto,
    };
    let typed = match parse::parse(args) {
        Ok(typed) => typed,
        Err(usage) => return complain(&usage, wish),
    };
    let style = Style::of_stdout(typed.colour);
    match typed.command {
        Command::Help(None) => answer(&help::list(style), Exit::Done),
        Command::Help(Some(entry)) => answer(&help::of(entry, style), Exit::Done),
        Command::Version => answer(
            &format!("korvun {}\n", env!("CARGO_PKG_VERSION")),
            Exit::Done,
        ),
        Command::Check(typed) => config_check(&typed, style),
        Command::Status(typed) => status(&typed, style),
        Command::Serve(serve) => serve::run(&serve, Style::of_stderr(wish)),
        Command::Chat(typed) => chat::run(&typed, Style::of_stderr(wish)),
        Command::Explain(typed) => explain::run(&typed, style),
        Command::Demo => demo(Style::of_stderr(wish)),
    }
}

/// Shows a message on its way; the log keeps to what a person must know.
fn demo(style: Style) -> Exit {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redactor = Redactor::new();
    serve::start_log(style, "warn", &redactor, &clock);
    let say = |text: &str| {
        answer(text, Exit::Done);
    };
    match demo::run(&redactor, clock, &say) {
        Ok(_) => Exit::Done,
        Err(message) => {
            note(&format!("korvun: {message}"));
            Exit::Failed
        }
    }
}

fn config_check(typed: &command::Check, style: Style) -> Exit {
    let file = file_or_default(typed.file.as_deref());
    let catalogue = catalogue();
    let redactor = Redactor::new();
    let (mut problems, tried) = match check::look(&file, typed.env_file.as_deref(), &catalogue) {
        Ok(mut checked) => {
            let mut tried = Vec::new();
            if let Some(plan) = &checked.plan {
                let (found, odd) = skills::of_plan(plan, &checked.places, &Limits::default());
                tried = check::skills(&found);
                checked.problems.extend(odd);
                let absent = folders::absent(plan, &checked.places);
                checked.problems.extend(absent);
                checked.problems.sort_by_key(|odd| (odd.line, odd.column));
            }
            tried.extend(match (&checked.plan, typed.reach) {
                (Some(plan), Reach::Preflight) => preflight::run(&Preflight {
                    plan,
                    places: &checked.places,
                    catalogue: &catalogue,
                    sources: &Sources::of_process(typed.env_file.as_deref()),
                    redactor: &redactor,
                    wire: &serve::wire(&Limits::default(), &(Arc::new(SystemClock) as _)),
                }),
                (Some(plan), Reach::Offline) => {
                    // The file is good; that this build cannot run it yet is for a person to know.
                    for part in missing(plan, &catalogue) {
                        let path = printable(&part.path);
                        note(&format!(
                            "korvun: {path}: {}; `serve` will say so too",
                            part.sentence
                        ));
                    }
                    Vec::new()
                }
                (None, _) => Vec::new(),
            });
            (checked.problems, tried)
        }
        Err(problem) => (vec![problem], Vec::new()),
    };
    for problem in &mut problems {
        // The file itself may hold what a variable holds too.
        problem.message = redactor.clean(&problem.message).into_owned();
        problem.help = redactor.clean(&problem.help).into_owned();
    }
    let report = check::Report {
        file: &file,
        problems: &problems,
        tried: &tried,
    };
    answer(&report.write(typed.form, style), report.exit())
}

fn status(typed: &command::Status, style: Style) -> Exit {
    let addr = match &typed.addr {
        Some(addr) => Ok(addr.clone()),
        None => admin_address(typed.config.as_deref()),
    };
    let (addr, answer_of) = match addr {
        Ok(addr) => {
            let answer = status::ask(&addr);
            (addr, answer)
        }
        Err(error) => ("an unknown address".to_owned(), Err(error)),
    };
    let (text, exit) = status::show(&addr, &answer_of, typed.form, style);
    answer(&text, exit)
}

/// Where the admin server of a configuration is asked. Without any configuration the default's
/// address is tried, so that `korvun status` works anywhere on a box with one Korvun.
fn admin_address(config: Option<&Path>) -> Result<String, String> {
    let file = file_or_default(config);
    if config.is_none() && !file.exists() {
        note(&format!(
            "korvun: no {DEFAULT_CONFIG} here, asking {DEFAULT_ADMIN}; --config or --addr names another"
        ));
        return Ok(DEFAULT_ADMIN.to_owned());
    }
    let shown = file.display();
    let plan = check::look(&file, None, &catalogue())
        .map_err(|problem| problem.to_string())?
        .plan
        .ok_or_else(|| {
            format!(
                "{shown} has errors (`korvun config check` shows them); --addr names the address"
            )
        })?;
    match plan.observability.enabled {
        true => Ok(status::reachable(plan.observability.addr)),
        false => Err(format!(
            "{shown} switches the admin server off, so there is nobody to ask"
        )),
    }
}

fn file_or_default(typed: Option<&Path>) -> PathBuf {
    typed.map_or_else(|| PathBuf::from(DEFAULT_CONFIG), Path::to_path_buf)
}

fn complain(usage: &Usage, wish: Wish) -> Exit {
    let style = Style::of_stderr(wish);
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

/// Writes the answer to standard output and ends as `exit` says. A reader that has left
/// (`korvun help | head -1`) is no failure.
fn answer(text: &str, exit: Exit) -> Exit {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            note(&format!("korvun: cannot write to standard output: {error}"));
            Exit::Failed
        }
        _ => exit,
    }
}

/// Writes a line to standard error; where that is closed there is nobody to tell.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
