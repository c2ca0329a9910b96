//! One write on its way to the store thread and its answer on the way back. Any thread waits, the
//! store thread answers; a submitter is never left waiting for ever.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::error::StoreError;
use super::tx::Tx;
use crate::base::sync::lock;

/// A write whose submitter waits for the answer.
pub(super) trait Job: Send {
    /// Whether somebody still waits for it.
    fn wanted(&self) -> bool;
    /// Where it runs.
    fn kind(&self) -> Kind;
    /// Does the work; asked once.
    fn run(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()>;
    /// Tells the submitter, once it is certain. Where the submitter has gone meanwhile, the
    /// result is an orphan and what puts it right comes back.
    fn settle(self: Box<Self>, verdict: Result<(), StoreError>) -> Option<Lazy>;
}

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the group's transaction.
    Inside,
    /// After it, outside any transaction: a checkpoint.
    Outside,
}

/// A write that nobody waits for. It may run again after a commit that failed.
pub(super) type Lazy = Box<dyn FnMut(&Tx<'_>) -> rusqlite::Result<()> + Send>;

/// The place where an answer appears.
pub(super) struct Slot<T> {
    state: Mutex<Answer<T>>,
    told: Condvar,
}

enum Answer<T> {
    Awaited,
    Given(Result<T, StoreError>),
    Taken,
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot {
            state: Mutex::new(Answer::Awaited),
            told: Condvar::new(),
        }
    }

    /// Waits for the answer; gives up at `until`, for good.
    pub(super) fn wait(&self, until: Instant) -> Option<Result<T, StoreError>> {
        let mut state = lock(&self.state);
        loop {
            if matches!(*state, Answer::Given(_)) {
                let Answer::Given(answer) = std::mem::replace(&mut *state, Answer::Taken) else {
                    return None;
                };
                return Some(answer);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *state = Answer::Taken;
                return None;
            }
            state = self
                .told
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Gives the answer; hands it back where nobody waits any more.
    fn give(&self, answer: Result<T, StoreError>) -> Result<(), Result<T, StoreError>> {
        let mut state = lock(&self.state);
        if !matches!(*state, Answer::Awaited) {
            return Err(answer);
        }
        *state = Answer::Given(answer);
        // Woken under the lock, the caller would run into it.
        drop(state);
        self.told.notify_one();
        Ok(())
    }

    fn awaited(&self) -> bool {
        matches!(*lock(&self.state), Answer::Awaited)
    }
}

/// A closure with the slot for its result, and what to do with a result that nobody takes.
pub(super) struct Ticket<T, F, O> {
    kind: Kind,
    work: Option<F>,
    made: Option<T>,
    slot: Arc<Slot<T>>,
    orphan: Option<O>,
}

impl<T, F, O> Ticket<T, F, O>
where
    F: FnOnce(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    O: FnOnce(T) -> Option<Lazy> + Send + 'static,
    T: Send + 'static,
{
    /// The job, and the slot to wait at.
    pub(super) fn job(kind: Kind, work: F, orphan: O) -> (Box<dyn Job>, Arc<Slot<T>>) {
        let slot = Arc::new(Slot::new());
        let ticket = Ticket {
            kind,
            work: Some(work),
            made: None,
            slot: Arc::clone(&slot),
            orphan: Some(orphan),
        };
        (Box::new(ticket), slot)
    }
}

impl<T, F, O> Job for Ticket<T, F, O>
where
    F: FnOnce(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
    O: FnOnce(T) -> Option<Lazy> + Send + 'static,
    T: Send + 'static,
{
    fn wanted(&self) -> bool {
        self.slot.awaited()
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn run(&mut self, tx: &Tx<'_>) -> rusqlite::Result<()> {
        if let Some(work) = self.work.take() {
            self.made = Some(work(tx)?);
        }
        Ok(())
    }

    fn settle(mut self: Box<Self>, verdict: Result<(), StoreError>) -> Option<Lazy> {
        let answer = verdict.and_then(|()| self.made.take().ok_or(StoreError::Panicked));
        match (self.slot.give(answer), self.orphan.take()) {
            (Err(Ok(result)), Some(orphan)) => orphan(result),
            _ => None,
        }
    }
}

impl<T, F, O> Drop for Ticket<T, F, O> {
    /// A job that goes without a verdict (the store thread has ended) leaves nobody waiting.
    fn drop(&mut self) {
        let mut state = lock(&self.slot.state);
        if matches!(*state, Answer::Awaited) {
            *state = Answer::Given(Err(StoreError::Closed));
            self.slot.told.notify_one();
        }
    }
}
