//! What waits for the store thread: urgent jobs, whose submitters wait for the commit, and lazy
//! ones, which ride along. Any thread puts in, the store thread takes out; nothing here touches
//! the database.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ticket::{Job, Lazy};
use crate::base::sync::lock;

/// The queue itself.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Wakes the store thread.
    work: Condvar,
    /// Wakes submitters that wait for room.
    room: Condvar,
    size: usize,
    group: usize,
    lazy_wait: Duration,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Box<dyn Job>>,
    lazy: VecDeque<Lazy>,
    /// When the oldest lazy job must be done.
    lazy_due: Option<Instant>,
    /// Whether the store thread sleeps and needs to be woken.
    asleep: bool,
    waiting_for_room: usize,
    closing: bool,
}

/// What the store thread does next.
pub(super) enum Next {
    /// One group; both lists may be empty, which is a probe of a store that has failed.
    Group(Vec<Lazy>, Vec<Box<dyn Job>>),
    /// Nothing is left and nothing more comes.
    End,
}

impl Queue {
    /// An empty one.
    pub(super) fn new(size: usize, group: usize, lazy_wait: Duration) -> Queue {
        Queue {
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            size: size.max(1),
            group: group.max(1),
            lazy_wait,
        }
    }

    /// Puts in a job that somebody waits for.
    ///
    /// Blocks: until there is room, up to `until`.
    pub(super) fn push(&self, job: Box<dyn Job>, until: Instant) -> Result<(), Refusal> {
        let mut state = self.with_room(until, |state| state.urgent.len())?;
        state.urgent.push_back(job);
        self.wake(state);
        Ok(())
    }

    /// Puts in a job that nobody waits for.
    ///
    /// Blocks: until there is room, up to `until`.
    pub(super) fn push_lazy(&self, job: Lazy, until: Instant) -> Result<(), Refusal> {
        let mut state = self.with_room(until, |state| state.lazy.len())?;
        state.lazy.push_back(job);
        if state.lazy_due.is_none() {
            // The thread may sleep without an end: it must learn of the new moment.
            state.lazy_due = Some(Instant::now() + self.lazy_wait);
            self.wake(state);
        }
        Ok(())
    }

    fn with_room(
        &self,
        until: Instant,
        length: impl Fn(&State) -> usize,
    ) -> Result<MutexGuard<'_, State>, Refusal> {
        let mut state = lock(&self.state);
        loop {
            if state.closing {
                return Err(Refusal::Closed);
            }
            if length(&state) < self.size {
                return Ok(state);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::NoRoom);
            }
            state.waiting_for_room += 1;
            state = self
                .room
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.waiting_for_room -= 1;
        }
    }

    /// Gives the lock back and wakes the store thread where it sleeps; a busy one looks by itself.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.work.notify_one();
        }
    }

    /// Takes the next group. `probe` is when a store that has failed is to be tried again; until
    /// then lazy jobs wait for urgent company.
    ///
    /// Blocks: until there is work, or the queue has been closed and is empty.
    pub(super) fn take(&self, probe: Option<Instant>) -> Next {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            let due = probe.or(state.lazy_due);
            let many = probe.is_none() && state.lazy.len() >= self.group;
            if !state.urgent.is_empty() || many || due.is_some_and(|at| at <= now) {
                return self.group(&mut state);
            }
            if state.closing {
                if state.lazy.is_empty() {
                    return Next::End;
                }
                return self.group(&mut state);
            }
            state.asleep = true;
            state = match due {
                None => self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    self.work
                        .wait_timeout(state, at.saturating_duration_since(now))
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
            state.asleep = false;
        }
    }

    fn group(&self, state: &mut State) -> Next {
        let lazy: Vec<Lazy> = {
            let n = state.lazy.len().min(self.group);
            state.lazy.drain(..n).collect()
        };
        state.lazy_due = (!state.lazy.is_empty()).then(Instant::now);
        let n = state.urgent.len().min(self.group);
        let urgent = state.urgent.drain(..n).collect();
        if state.waiting_for_room > 0 {
            self.room.notify_all();
        }
        Next::Group(lazy, urgent)
    }

    /// Puts lazy jobs back that are to be tried again, before all others, and says how many are
    /// lost because there is no room for them. On the store thread.
    pub(super) fn put_back(&self, lazy: Vec<Lazy>) -> usize {
        if lazy.is_empty() {
            return 0;
        }
        let mut state = lock(&self.state);
        for job in lazy.into_iter().rev() {
            state.lazy.push_front(job);
        }
        // Submitters may have filled the room that the group had left.
        let kept = self.size + self.group;
        let lost = state.lazy.len().saturating_sub(kept);
        state.lazy.truncate(kept);
        state.lazy_due = Some(Instant::now() + self.lazy_wait);
        lost
    }

    /// Adds a job on the store thread itself, which must never wait for room.
    pub(super) fn push_own(&self, job: Lazy) {
        let mut state = lock(&self.state);
        state.lazy.push_back(job);
        state.lazy_due.get_or_insert(Instant::now());
    }

    /// Lets nothing more in; what is in is still done.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.closing = true;
        self.work.notify_one();
        self.room.notify_all();
    }

    /// Whether it has been closed.
    pub(super) fn closing(&self) -> bool {
        lock(&self.state).closing
    }

    /// Drops all that is left; whoever waits for it is told that the store is closed.
    pub(super) fn abandon(&self) -> usize {
        let (urgent, lazy) = {
            let mut state = lock(&self.state);
            state.closing = true;
            self.room.notify_all();
            (
                std::mem::take(&mut state.urgent),
                std::mem::take(&mut state.lazy),
            )
        };
        drop(urgent);
        lazy.len()
    }
}

/// Why a job was not let in.
pub(super) enum Refusal {
    /// The queue stayed full for as long as the submitter was willing to wait.
    NoRoom,
    /// The store is closed.
    Closed,
}
