//! The daemon in the bench's own binary: the same code, started with other bounds than the shipped one
//! has, which enter by value. For what Korvun itself holds back by a platform's rule.

use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::sync::Arc;

use korvun::base::clock::{Clock, SystemClock};
use korvun::base::secret::Redactor;
use korvun::daemon::notify::Notify;
use korvun::daemon::{load, signal, Daemon, Options};
use korvun::domain::limits::Limits;
use korvun::net::http::Wire;

/// `serve --config FILE`, with as many requests to Discord as anybody likes.
///
/// Blocks: until a signal.
pub fn run(words: &[String]) -> ExitCode {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let redactor = Redactor::new();
    let file = words.last().expect("a configuration");
    let loaded =
        load::load(Path::new(file), None, &redactor).expect("a configuration that is sound");
    let limits = Limits {
        discord_a_second: usize::MAX,
        ..Limits::default()
    };
    let (orders_in, orders) = channel();
    signal::listen(orders_in).expect("listen for signals");
    let daemon = Daemon::start(Options {
        wire: Wire::new(None, &limits, clock.clone()),
        notify: Notify::new(&|_| None, std::process::id()),
        plan: loaded.plan,
        secrets: loaded.secrets,
        skills: loaded.skills,
        forbidden: loaded.forbidden,
        clock,
        limits,
        runtime_dir: None,
    });
    daemon.expect("a daemon").serve(orders);
    ExitCode::SUCCESS
}
