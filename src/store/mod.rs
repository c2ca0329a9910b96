//! The durable table of messages: SQLite with one writing thread, in a file or in memory. Knows
//! nothing of channels, brains or HTTP.
//!
//! Every operation is a method of [`Store`] in the file of its topic. Writes come back after
//! their commit has been synced; what one group of callers asks for at the same time shares a
//! commit.

mod claim;
mod cursor;
mod customs;
mod erase;
mod error;
mod files;
mod finish;
mod ids;
mod inbox;
mod journal;
mod lookup;
mod notes;
mod outbox;
#[cfg(test)]
mod query_plans;
mod queue;
mod readers;
mod row;
mod schema;
mod scrub;
mod sessions;
mod state;
mod stop;
mod sweep;
mod ticket;
mod turns;
mod tx;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::Connection;

pub use claim::{recover, Claimed};
pub use customs::{Ack, Customs};
pub use error::StoreError;
pub use files::Lock;
pub use finish::{Finish, Finished, Reply};
pub use inbox::{Accepted, Claim, Excuse};
pub use journal::{AuditedCall, CallEnd, CallRecord, Rehearsed, Step};
pub use lookup::{Answer, MessageState};
pub use notes::{Listed, Notebook, Noted};
pub use outbox::{Delivery, Queued};
pub use row::Work;
pub use schema::inspect;
pub use sessions::Session;
pub use state::State;
pub use stop::{Acks, Stopped};
pub use sweep::Swept;
pub use turns::{Audience, Turn, TurnOutcome};
pub use tx::{Tx, TxResult};

use crate::base::clock::{Clock, UnixMs};
use crate::base::random;
use crate::base::sync::{lock, spawn};
use crate::domain::limits::Limits;
use files::Files;
use queue::{Queue, Refusal};
use readers::Readers;
use ticket::{Kind, Lazy, Ticket};
use tx::Facts;
use writer::{Pulse, Writer};

/// Stack of the store thread: SQLite's deepest paths take some 100 KiB.
const STACK_BYTES: usize = 512 * 1024;

/// Where a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file and the log files beside it.
    File(PathBuf),
    /// In memory, gone with the process.
    Memory,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why the last commit failed; none while commits work.
    pub error: Option<StoreError>,
    /// When something was last committed.
    pub last_commit: Option<UnixMs>,
    /// Since when the present commit has been in progress. One that lasts means a disk that hangs.
    pub busy_since: Option<Instant>,
    /// Whether what is committed outlives the process.
    pub durable: bool,
}

/// Numbers of the store, held in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages accepted and not finished.
    pub inbox_open: u64,
    /// Deliveries neither made nor given up.
    pub outbox_open: u64,
    /// Commits since the store was opened.
    pub commits: u64,
    /// Marks that could not be written; each may cost one delivery made twice after a restart.
    pub marks_lost: u64,
}

/// An open store. Dropping it closes it.
pub struct Store {
    facts: Arc<Facts>,
    queue: Arc<Queue>,
    pulse: Arc<Mutex<Pulse>>,
    readers: Option<Readers>,
    thread: Mutex<Option<JoinHandle<()>>>,
    warnings: Vec<String>,
    recovered: u64,
    swept: Mutex<sweep::Cursor>,
    held: Mutex<Option<Lock>>,
    customs: OnceLock<Arc<dyn Customs>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.facts.path)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store, makes what is missing, brings its schema up to date, and sets messages
    /// that were in work when the last process ended to waiting again, their attempts kept.
    ///
    /// Blocks: for disk work, and up to 5 s for another program's lock.
    ///
    /// # Errors
    /// The file cannot be made or opened, is in use, or is not ours; then nothing was changed.
    pub fn open(
        place: &Place,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Store, StoreError> {
        let (connection, files) = match place {
            Place::Memory => (schema::open_memory()?, None),
            Place::File(path) => {
                let files = files::prepare(path)?;
                (schema::open_file(&files.path)?, Some(files))
            }
        };
        let (path, warnings, held) = match files {
            Some(Files {
                path,
                warnings,
                lock,
            }) => (Some(path), warnings, Some(lock)),
            None => (None, Vec::new(), None),
        };
        let named = |error: rusqlite::Error| {
            StoreError::sqlite(path.as_deref().unwrap_or("".as_ref()), &error)
        };
        let recovered = claim::recover(&connection).map_err(named)?;
        journal::recover(&connection).map_err(named)?;
        let pulse = Pulse {
            inbox_open: inbox::count_open(&connection).map_err(named)?,
            outbox_open: outbox::count_open(&connection).map_err(named)?,
            ..Pulse::default()
        };
        let epoch = schema::epoch(&connection).map_err(named)?;
        let facts = Arc::new(Facts {
            epoch: epoch.unwrap_or_else(random::hex::<8>),
            identity: path.as_deref().and_then(tx::identity),
            path: path.clone(),
            limits: limits.clone(),
            clock,
            over: AtomicUsize::new(0),
        });
        let queue = Arc::new(Queue::new(
            limits.store_queue,
            limits.store_group,
            limits.store_lazy,
        ));
        let pulse = Arc::new(Mutex::new(pulse));
        let writer = Writer {
            connection,
            facts: Arc::clone(&facts),
            queue: Arc::clone(&queue),
            pulse: Arc::clone(&pulse),
        };
        let thread = spawn("store", STACK_BYTES, move || writer.run())
            .map_err(|error| StoreError::Io(format!("starting the store's thread: {error}")))?;
        Ok(Store {
            facts,
            queue,
            pulse,
            readers: path.map(|path| Readers::new(path, limits.store_readers)),
            thread: Mutex::new(Some(thread)),
            warnings,
            recovered,
            swept: Mutex::default(),
            held: Mutex::new(held),
            customs: OnceLock::new(),
        })
    }

    /// Does `job` in a transaction and comes back when it is committed and synced.
    ///
    /// Blocks: for one commit; `store_wait` at most.
    ///
    /// # Errors
    /// The job's own, or the commit's; then nothing of the job is stored. After
    /// [`StoreError::Hangs`] it may still be.
    pub fn write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.write_or(job, |_| None)
    }

    /// As [`Store::write`]; a result that comes after the caller has gone is put right by what
    /// `orphan` makes of it.
    fn write_or<T, F, O>(&self, job: F, orphan: O) -> Result<T, StoreError>
    where
        F: FnOnce(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
        O: FnOnce(T) -> Option<Lazy> + Send + 'static,
        T: Send + 'static,
    {
        self.submit(Kind::Inside, job, orphan)
    }

    fn submit<T, F, O>(&self, kind: Kind, job: F, orphan: O) -> Result<T, StoreError>
    where
        F: FnOnce(&Tx<'_>) -> rusqlite::Result<T> + Send + 'static,
        O: FnOnce(T) -> Option<Lazy> + Send + 'static,
        T: Send + 'static,
    {
        let wait = self.facts.limits.store_wait;
        let until = Instant::now() + wait;
        let (job, slot) = Ticket::job(kind, job, orphan);
        self.queue
            .push(job, until)
            .map_err(|refusal| self.refused(&refusal))?;
        slot.wait(until).unwrap_or(Err(StoreError::Hangs(wait)))
    }

    /// Leaves `job` to be committed with the next urgent write, or after `store_lazy` at the
    /// latest. It is tried again while the store cannot commit; a failure of its own is logged
    /// and counted in [`Counts::marks_lost`].
    ///
    /// Blocks: only while the queue is full, `store_wait` at most.
    pub fn write_later<F>(&self, job: F)
    where
        F: FnMut(&Tx<'_>) -> rusqlite::Result<()> + Send + 'static,
    {
        let until = Instant::now() + self.facts.limits.store_wait;
        if let Err(refusal) = self.queue.push_lazy(Box::new(job), until) {
            lock(&self.pulse).lost += 1;
            log::error!(error:% = self.refused(&refusal); "store_marks_lost");
        }
    }

    /// Reads. On a file this runs on the caller's thread beside all writing and sees what is
    /// committed; in memory it takes its turn on the store's thread.
    ///
    /// Blocks: up to `store_wait` for a connection, and for the read itself.
    ///
    /// # Errors
    /// No connection is free in time, or the read failed.
    pub fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.lend(self.facts.limits.store_wait, read),
            None => self.write(move |tx| read(tx)),
        }
    }

    fn refused(&self, refusal: &Refusal) -> StoreError {
        match refusal {
            Refusal::NoRoom => StoreError::Hangs(self.facts.limits.store_wait),
            Refusal::Closed => StoreError::Closed,
        }
    }

    /// How the store is.
    #[must_use]
    pub fn health(&self) -> Health {
        let pulse = lock(&self.pulse).clone();
        Health {
            error: pulse.error,
            last_commit: pulse.last_commit,
            busy_since: pulse.busy_since,
            durable: self.facts.path.is_some(),
        }
    }

    /// The numbers of the store, without a look at the disk.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let pulse = lock(&self.pulse);
        let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
        Counts {
            inbox_open: count(pulse.inbox_open),
            outbox_open: count(pulse.outbox_open),
            commits: pulse.commits,
            marks_lost: pulse.lost,
        }
    }

    /// Bytes of the database and its log on disk; 0 in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let Some(path) = &self.facts.path else {
            return 0;
        };
        [path.clone(), files::beside(path, "-wal")]
            .iter()
            .filter_map(|file| std::fs::metadata(file).ok())
            .map(|facts| facts.len())
            .sum()
    }

    /// What the operator should know about the files' permissions.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Messages that were in work when the last process ended and wait again.
    #[must_use]
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// Lets nothing more in, commits what waits, and closes the database. The second call does
    /// nothing.
    ///
    /// Blocks: for the writes that wait.
    pub fn close(&self) {
        // Readers first: the last connection to close writes the log home, and two that close at
        // the same moment each take the other for one that stays.
        if let Some(readers) = &self.readers {
            readers.close();
        }
        self.queue.close();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // Jobs' panics are contained; one of the thread itself has been printed already.
            let _ = thread.join();
        }
        lock(&self.held).take();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
