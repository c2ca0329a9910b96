//! Threads with a name and an end, and the two things they wait on: [`Stop`] and [`Bell`].

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Locks a mutex even when a thread has panicked while it held it: a contained panic must not
/// take the parts beside it down. Whoever guards data with this keeps it whole between statements.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread with a name and an explicit stack.
///
/// # Errors
/// The operating system's, when it refuses another thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(stack_bytes)
        .spawn(work)
}

/// A request to end that is raised once and never taken back. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// A fresh one, not raised.
    #[must_use]
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Raises it and wakes all who wait.
    pub fn raise(&self) {
        *lock(&self.0 .0) = true;
        self.0 .1.notify_all();
    }

    /// Whether it has been raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        *lock(&self.0 .0)
    }

    /// Waits up to `span` and says whether it was raised meanwhile.
    ///
    /// Blocks: for `span` at most.
    #[must_use]
    pub fn wait(&self, span: Duration) -> bool {
        let guard = lock(&self.0 .0);
        let (guard, _) = self
            .0
             .1
            .wait_timeout_while(guard, span, |raised| !*raised)
            .unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

/// Wakes one waiting thread when there is something to look at. Rings that nobody waits for are
/// kept as one. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl Bell {
    /// A fresh, silent one.
    #[must_use]
    pub fn new() -> Bell {
        Bell::default()
    }

    /// Rings: the waiting thread, or the next one to wait, looks up.
    pub fn ring(&self) {
        *lock(&self.0 .0) = true;
        self.0 .1.notify_one();
    }

    /// Waits for a ring, up to the moment `until` (without one: for as long as it takes), and
    /// says whether it rang.
    ///
    /// Blocks: until rung or until the moment given.
    pub fn wait(&self, until: Option<Instant>) -> bool {
        let mut guard = lock(&self.0 .0);
        loop {
            if std::mem::take(&mut *guard) {
                return true;
            }
            match until {
                None => {
                    guard = self
                        .0
                         .1
                        .wait(guard)
                        .unwrap_or_else(PoisonError::into_inner)
                }
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    guard = self
                        .0
                         .1
                        .wait_timeout(guard, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_kept_once() {
        let bell = Bell::new();
        bell.ring();
        bell.ring();
        let soon = Some(Instant::now() + Duration::from_millis(5));
        assert!(bell.wait(soon));
        assert!(!bell.wait(soon));
    }

    #[test]
    fn stop_wakes_a_sleeper_in_another_thread() {
        let stop = Stop::new();
        let theirs = stop.clone();
        let sleeper = spawn("sleeper", 64 * 1024, move || {
            theirs.wait(Duration::from_secs(60))
        })
        .expect("a thread");
        stop.raise();
        assert!(sleeper.join().expect("no panic"));
        assert!(stop.raised());
    }
}
