//! The virtual clock: moved by the simulation alone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use korvun::base::clock::{Clock, UnixMs};

/// When the calendar of each simulation begins.
const BEGIN: i64 = 1_790_000_000_000;

/// The clock that everything in a simulation reads.
#[derive(Debug)]
pub struct VirtualClock {
    /// Only differences to it matter.
    zero: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    passed: Duration,
    set_ms: i64,
}

impl VirtualClock {
    pub fn new() -> VirtualClock {
        VirtualClock {
            zero: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn with<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        ask(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Time passes up to that moment.
    pub fn reach(&self, passed: Duration) {
        self.with(|state| state.passed = passed);
    }

    /// Somebody sets the calendar.
    pub fn set(&self, by_ms: i64) {
        self.with(|state| state.set_ms += by_ms);
    }

    /// An instant as the moment.
    pub fn moment(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.zero)
    }
}

impl Clock for VirtualClock {
    fn unix(&self) -> UnixMs {
        let (passed, set) = self.with(|state| (state.passed, state.set_ms));
        UnixMs(BEGIN + set).plus(passed)
    }

    fn now(&self) -> Instant {
        self.zero + self.with(|state| state.passed)
    }
}
