//! `korvun serve`: runs the gateway until it is asked to stop.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::Arc;

use crate::base::clock::{Clock, SystemClock};
use crate::base::secret::Redactor;
use crate::config::problem::Problem;
use crate::daemon::notify::Notify;
use crate::daemon::{load, signal, Daemon, Ended, Options, StartError};
use crate::domain::limits::Limits;
use crate::net::http::Wire;
use crate::watch::logger;

use super::command::Serve;
use super::style::Style;
use super::{note, Exit, DEFAULT_CONFIG};

/// Runs the gateway.
///
/// Blocks: until it is asked to stop.
pub fn run(typed: &Serve, style: Style) -> Exit {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redactor = Redactor::new();
    start_log(style, "info", &redactor, &clock);
    let file = typed
        .config
        .clone()
        .unwrap_or_else(|| PathBuf::from(DEFAULT_CONFIG));
    let loaded = match load::load(&file, typed.env_file.as_deref(), &redactor) {
        Ok(loaded) => loaded,
        Err(problems) => return refuse(&file, &problems),
    };
    for warning in &loaded.warnings {
        log::warn!(path = warning.path.as_str(), line = warning.line, help = warning.help.as_str(); "{}", warning.message);
    }
    match serve(loaded, clock) {
        Ok(Ended::Stopped) => Exit::Done,
        Ok(Ended::Abandoned | Ended::Hurried) => Exit::Failed,
        Err(error) => {
            log::error!("{error}");
            Exit::Failed
        }
    }
}

fn serve(loaded: load::Loaded, clock: Arc<dyn Clock>) -> Result<Ended, StartError> {
    let limits = Limits::default();
    let (orders_in, orders) = channel();
    signal::listen(orders_in).map_err(|error| StartError {
        message: format!("cannot listen for signals: {error}"),
    })?;
    let runtime_dir = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    let daemon = Daemon::start(Options {
        wire: wire(&limits, &clock),
        notify: Notify::new(&|name| std::env::var_os(name), std::process::id()),
        plan: loaded.plan,
        secrets: loaded.secrets,
        skills: loaded.skills,
        forbidden: loaded.forbidden,
        clock,
        limits,
        runtime_dir,
    })?;
    Ok(daemon.serve(orders))
}

/// The way out as this process's environment says.
pub fn wire(limits: &Limits, clock: &Arc<dyn Clock>) -> Wire {
    let cert_file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    Wire::new(cert_file, limits, clock.clone())
}

/// Starts the log on standard error as the environment asks for it, else at `level`.
pub fn start_log(style: Style, level: &str, redactor: &Redactor, clock: &Arc<dyn Clock>) {
    let variable = |name: &str| std::env::var(name).ok();
    let form = logger::form(variable("KORVUN_LOG_FORMAT").as_deref(), style.coloured());
    // Only a second start in one process is refused, and then the log is there already.
    let _ = logger::start(
        variable("KORVUN_LOG").as_deref().or(Some(level)),
        form,
        redactor.clone(),
        clock.clone(),
    );
}

/// Tells every problem, and the way out for who is new here. A restart will not help.
fn refuse(file: &Path, problems: &[Problem]) -> Exit {
    for problem in problems {
        log::error!(
            file = file.display().to_string().as_str(), path = problem.path.as_str(), line = problem.line,
            column = problem.column, help = problem.help.as_str();
            "{}", problem.message
        );
    }
    note("korvun: this configuration cannot run. `korvun config check --preflight` shows it in full; korvun.example.json is one that works, and `korvun demo` needs none.");
    Exit::Config
}
