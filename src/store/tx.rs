//! What one job sees of the transaction that it runs in. Lives on the store's thread.

use std::cell::Cell;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use rusqlite::Connection;

use super::error::StoreError;
use crate::base::clock::{Clock, UnixMs};
use crate::domain::limits::Limits;

/// What a step of a transaction comes to: its error is the database's, and takes the whole
/// transaction back.
pub type TxResult<T> = rusqlite::Result<T>;

/// Device and number of a file; none where it is not there.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path).ok()?;
    Some((facts.dev(), facts.ino()))
}

/// What does not change while the store is open.
#[derive(Debug)]
pub(super) struct Facts {
    /// Makes message ids the database's own.
    pub epoch: String,
    /// The file; none in memory.
    pub path: Option<PathBuf>,
    /// The file's device and number on it, by which it is known to be the same.
    pub identity: Option<(u64, u64)>,
    /// All bounds.
    pub limits: Limits,
    /// The calendar.
    pub clock: Arc<dyn Clock>,
    /// Messages that have ended since the store was opened.
    pub over: AtomicUsize,
}

impl Facts {
    /// Refuses to go on where the file at the path is no longer the one that is open.
    pub(super) fn still_there(&self) -> Result<(), StoreError> {
        match &self.path {
            Some(path) if identity(path) != self.identity => {
                Err(StoreError::Replaced(path.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Names an error of SQLite.
    pub(super) fn error(&self, error: &rusqlite::Error) -> StoreError {
        let path = self.path.as_deref();
        StoreError::sqlite(path.unwrap_or(std::path::Path::new(":memory:")), error)
    }
}

/// One job's view of the transaction: the connection, the moment, and the counts of open rows,
/// which become everybody's with the commit.
pub struct Tx<'a> {
    pub(super) connection: &'a Connection,
    pub(super) facts: &'a Facts,
    /// The moment of this write.
    pub now: UnixMs,
    pub(super) inbox_open: Cell<i64>,
    pub(super) outbox_open: Cell<i64>,
}

impl Tx<'_> {
    /// Unfinished inbox rows, this transaction's included.
    #[must_use]
    pub fn inbox_open(&self) -> i64 {
        self.inbox_open.get()
    }

    /// Undelivered outbox rows, this transaction's included.
    #[must_use]
    pub fn outbox_open(&self) -> i64 {
        self.outbox_open.get()
    }

    /// Counts inbox rows that have been opened (or closed, where negative).
    pub(super) fn count_inbox(&self, rows: i64) {
        self.inbox_open.set(self.inbox_open.get() + rows);
    }

    /// Counts outbox rows that have been queued (or finished, where negative).
    pub(super) fn count_outbox(&self, rows: i64) {
        self.outbox_open.set(self.outbox_open.get() + rows);
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}
