//! The lives of the process under test: it is ended at the step that the schedule names, by the
//! thread that sees the step, and started again as soon as its last connection is closed.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};

use super::schedule::End;
use crate::support::daemon::{Daemon, Site};

/// How long a process may take to end, deliveries that hang included.
const END_WITHIN: Duration = Duration::from_secs(60);

/// The end of one life.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub struck: Instant,
    /// When nothing that it had begun was going on any more.
    pub over: Instant,
}

#[derive(Default)]
struct State {
    pid: Option<Pid>,
    struck: Option<(Instant, End)>,
    spared: bool,
    done: bool,
    deaths: Vec<Death>,
}

/// Who strikes and who raises.
#[derive(Default)]
pub struct Lives {
    state: Mutex<State>,
    changed: Condvar,
}

impl Lives {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the life that goes on; says whether one did.
    pub fn strike(&self, end: End) -> bool {
        let mut state = self.state();
        let Some(pid) = state.pid else { return false };
        if state.spared || state.struck.is_some() {
            return false;
        }
        let signal = match end {
            End::Kill => Signal::KILL,
            End::Stop => Signal::TERM,
        };
        // It is a child that nobody has waited for: its number cannot be another's.
        kill_process(pid, signal).expect("signal the daemon");
        state.struck = Some((Instant::now(), end));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// From now on it lives; says how many lives were over.
    pub fn spare(&self) -> usize {
        let mut state = self.state();
        state.spared = true;
        while state.struck.is_some() && !state.done {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.deaths.len()
    }

    /// It is over: the one who raises goes.
    pub fn finish(&self) {
        self.state().done = true;
        self.changed.notify_all();
    }

    pub fn deaths(&self) -> Vec<Death> {
        self.state().deaths.clone()
    }

    /// Starts the process, and starts it again when it was ended, `gone` being called between. The
    /// last life, and what those before it said.
    ///
    /// Blocks: until [`Lives::finish`].
    pub fn raise(&self, site: &Site, gone: impl Fn()) -> (Daemon, String) {
        let _finish = Finisher(self);
        let mut said = String::new();
        loop {
            let mut daemon = site.spawn(&[]);
            let mut state = self.state();
            state.pid = Pid::from_raw(i32::try_from(daemon.pid()).expect("pid"));
            state.struck = None;
            self.changed.notify_all();
            let (struck, end) = loop {
                if state.done {
                    return (daemon, said);
                }
                match state.struck {
                    Some(struck) => break struck,
                    None => {
                        state = self
                            .changed
                            .wait(state)
                            .unwrap_or_else(PoisonError::into_inner)
                    }
                }
            };
            state.pid = None;
            drop(state);
            let status = daemon.wait(END_WITHIN);
            said += &daemon.log();
            assert!(end == End::Kill || status.success(), "{status}\n{said}");
            gone();
            self.state().deaths.push(Death {
                struck,
                over: Instant::now(),
            });
        }
    }
}

/// Finishes also where the test fails.
pub struct Finisher<'a>(pub &'a Lives);

impl Drop for Finisher<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}
