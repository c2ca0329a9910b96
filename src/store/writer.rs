//! The thread `store`, the only one that writes: takes what waits into one transaction, a
//! savepoint each, and answers after the commit. It must never wait for anything but its queue
//! and the disk.

use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error::StoreError;
use super::queue::{Next, Queue};
use super::ticket::{Job, Kind, Lazy};
use super::tx::{Facts, Tx};
use crate::base::clock::UnixMs;
use crate::base::sync::lock;

/// How often a store that has failed is tried again when nobody asks it for anything.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// How the store is, for those who watch it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    pub error: Option<StoreError>,
    pub last_commit: Option<UnixMs>,
    pub busy_since: Option<Instant>,
    pub commits: u64,
    pub inbox_open: i64,
    pub outbox_open: i64,
    pub lost: u64,
}

/// The store thread's own things.
pub(super) struct Writer {
    pub connection: Connection,
    pub facts: Arc<Facts>,
    pub queue: Arc<Queue>,
    pub pulse: Arc<Mutex<Pulse>>,
}

impl Drop for Writer {
    /// However the thread ends, nobody is left waiting for it.
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

/// How one job of a group went.
enum Ran {
    /// Done, and in the transaction.
    Done,
    /// Taken back alone; the transaction goes on.
    Alone(StoreError),
    /// The disk has failed under it: nothing of this transaction can be kept.
    Sunk(StoreError),
}

/// How a group went.
enum Committed {
    /// All is in the database.
    Yes,
    /// Nothing is.
    No(StoreError),
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(self) {
        let mut probe = None;
        loop {
            let Next::Group(lazy, mut urgent) = self.queue.take(probe) else {
                return;
            };
            urgent.retain(|job| job.wanted());
            let (outside, inside) = urgent
                .into_iter()
                .partition::<Vec<_>, _>(|job| job.kind() == Kind::Outside);
            lock(&self.pulse).busy_since = Some(Instant::now());
            let failing = self.group(lazy, inside, probe.is_some());
            for job in outside {
                self.alone(job);
            }
            lock(&self.pulse).busy_since = None;
            probe = failing.then(|| Instant::now() + PROBE_EVERY);
            if failing && self.queue.closing() {
                let lost = self.queue.abandon();
                self.count_lost(lost, "the store was closed while it could not commit");
                return;
            }
        }
    }

    /// Does one group and says whether the store is out of order now; `failing` says whether it
    /// was before.
    fn group(&self, mut lazy: Vec<Lazy>, urgent: Vec<Box<dyn Job>>, failing: bool) -> bool {
        if lazy.is_empty() && urgent.is_empty() && !failing {
            return false;
        }
        let changes = self.connection.total_changes();
        let mut open = {
            let pulse = lock(&self.pulse);
            (pulse.inbox_open, pulse.outbox_open)
        };
        let mut done = Vec::with_capacity(urgent.len());
        let mut left = urgent.into_iter();
        let committed = self.transaction(&mut open, &mut lazy, &mut left, &mut done, failing);
        match committed {
            Committed::Yes => {
                let wrote = self.connection.total_changes() != changes;
                {
                    let mut pulse = lock(&self.pulse);
                    (pulse.inbox_open, pulse.outbox_open) = open;
                    if wrote {
                        pulse.commits += 1;
                        pulse.last_commit = Some(self.facts.clock.unix());
                        if pulse.error.take().is_some() {
                            log::info!("store_commits_again");
                        }
                    }
                }
                for job in done {
                    self.settle(job, Ok(()));
                }
                false
            }
            Committed::No(error) => {
                if !self.connection.is_autocommit() {
                    // Nothing is lost by a failure here: the next BEGIN meets it and names it.
                    let _ = self.execute("ROLLBACK");
                }
                if lock(&self.pulse).error.replace(error.clone()).as_ref() != Some(&error) {
                    log::error!(error:% = error; "store_cannot_commit");
                }
                for job in done.into_iter().chain(left) {
                    self.settle(job, Err(error.clone()));
                }
                let lost = self.queue.put_back(lazy);
                self.count_lost(lost, "more marks wait for the store than it can hold");
                true
            }
        }
    }

    /// Runs jobs and commits. Jobs that fail alone are told at once; those that are in the
    /// transaction end in `lazy` and `done`, those not begun stay in `left`.
    ///
    /// The connection is never opened anew after a failed sync: the log's frames of the failed
    /// commit look whole, and a new connection would take them for committed, while this one
    /// writes over them.
    fn transaction(
        &self,
        open: &mut (i64, i64),
        lazy: &mut Vec<Lazy>,
        left: &mut dyn Iterator<Item = Box<dyn Job>>,
        done: &mut Vec<Box<dyn Job>>,
        failing: bool,
    ) -> Committed {
        let begun = self.facts.still_there();
        if let Err(error) = begun.and_then(|()| self.execute("BEGIN IMMEDIATE")) {
            return Committed::No(error);
        }
        let mut sunk = None;
        lazy.retain_mut(|job| {
            if sunk.is_some() {
                return true;
            }
            match self.one(open, |tx| job(tx)) {
                Ran::Done => true,
                Ran::Alone(error) => {
                    self.count_lost(1, &error.to_string());
                    false
                }
                Ran::Sunk(error) => {
                    sunk = Some(error);
                    true
                }
            }
        });
        if let Some(error) = sunk {
            return Committed::No(error);
        }
        for mut job in left {
            match self.one(open, |tx| job.run(tx)) {
                Ran::Done => done.push(job),
                Ran::Alone(error) => self.settle(job, Err(error)),
                Ran::Sunk(error) => {
                    done.push(job);
                    return Committed::No(error);
                }
            }
        }
        if failing {
            // Only a commit that writes shows that writing works again.
            if let Err(error) = self.execute(PROBE) {
                return Committed::No(error);
            }
        }
        match self.execute("COMMIT") {
            Ok(()) => Committed::Yes,
            Err(error) => Committed::No(error),
        }
    }

    /// Runs one job outside any transaction.
    fn alone(&self, mut job: Box<dyn Job>) {
        let tx = self.tx((0, 0));
        let verdict = match catch_unwind(AssertUnwindSafe(|| job.run(&tx))) {
            Ok(result) => result.map_err(|error| self.facts.error(&error)),
            Err(_) => Err(StoreError::Panicked),
        };
        self.settle(job, verdict);
    }

    fn tx(&self, open: (i64, i64)) -> Tx<'_> {
        Tx {
            connection: &self.connection,
            facts: &self.facts,
            now: self.facts.clock.unix(),
            inbox_open: Cell::new(open.0),
            outbox_open: Cell::new(open.1),
        }
    }

    /// Runs one job in a savepoint, so that its failure or panic spoils nothing beside it.
    fn one(&self, open: &mut (i64, i64), job: impl FnOnce(&Tx<'_>) -> rusqlite::Result<()>) -> Ran {
        let tx = self.tx(*open);
        if let Err(error) = self.execute("SAVEPOINT job") {
            return Ran::Sunk(error);
        }
        let error = match catch_unwind(AssertUnwindSafe(|| job(&tx))) {
            Ok(Ok(())) => {
                if let Err(error) = self.execute("RELEASE job") {
                    return Ran::Sunk(error);
                }
                *open = (tx.inbox_open.get(), tx.outbox_open.get());
                return Ran::Done;
            }
            Ok(Err(error)) => self.facts.error(&error),
            Err(_) => StoreError::Panicked,
        };
        if error.disk_failed() || self.connection.is_autocommit() {
            return Ran::Sunk(error);
        }
        match self
            .execute("ROLLBACK TO job")
            .and_then(|()| self.execute("RELEASE job"))
        {
            Ok(()) => Ran::Alone(error),
            Err(error) => Ran::Sunk(error),
        }
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| self.facts.error(&error))
    }

    fn settle(&self, job: Box<dyn Job>, verdict: Result<(), StoreError>) {
        if let Some(mend) = job.settle(verdict) {
            self.queue.push_own(mend);
        }
    }

    fn count_lost(&self, jobs: usize, why: &str) {
        if jobs > 0 {
            lock(&self.pulse).lost += jobs as u64;
            log::error!(marks = jobs, reason = why; "store_marks_lost");
        }
    }
}

/// A write that changes nothing but shows whether writing works.
const PROBE: &str = "INSERT INTO meta(key, value) VALUES ('probe', '1')
    ON CONFLICT(key) DO UPDATE SET value = CASE value WHEN '1' THEN '2' ELSE '1' END";
