//! A small pool of read-only connections, opened when first needed. Reads run on the caller's
//! thread; nothing here writes.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error::StoreError;
use super::schema;
use crate::base::sync::lock;

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    most: usize,
    state: Mutex<State>,
    back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
    closed: bool,
}

impl Readers {
    /// An empty pool for the database at `path`, of `most` connections.
    pub(super) fn new(path: PathBuf, most: usize) -> Readers {
        Readers {
            path,
            most: most.max(1),
            state: Mutex::default(),
            back: Condvar::new(),
        }
    }

    /// Lends a connection to `read`.
    ///
    /// Blocks: up to `wait` for a free one, then for the read itself.
    pub(super) fn lend<T>(
        &self,
        wait: Duration,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let lent = self.take(wait)?;
        match &lent.connection {
            Some(connection) => {
                read(connection).map_err(|error| StoreError::sqlite(&self.path, &error))
            }
            None => Err(StoreError::Closed),
        }
    }

    fn take(&self, wait: Duration) -> Result<Lent<'_>, StoreError> {
        let until = Instant::now() + wait;
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return Err(StoreError::Closed);
            }
            if let Some(connection) = state.idle.pop() {
                return Ok(Lent {
                    pool: self,
                    connection: Some(connection),
                });
            }
            if state.open < self.most {
                state.open += 1;
                drop(state);
                // From here on the count goes back with the value, whatever happens.
                let mut lent = Lent {
                    pool: self,
                    connection: None,
                };
                lent.connection = Some(schema::open_reader(&self.path)?);
                return Ok(lent);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(StoreError::Hangs(wait));
            }
            state = self
                .back
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Closes the idle connections and lends no more; those lent close as they come back.
    pub(super) fn close(&self) {
        let idle = {
            let mut state = lock(&self.state);
            state.closed = true;
            self.back.notify_all();
            std::mem::take(&mut state.idle)
        };
        drop(idle);
    }
}

/// A connection on loan.
struct Lent<'a> {
    pool: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        match self.connection.take() {
            // After a panic in the middle of a read the connection is not trusted again.
            Some(connection) if !state.closed && !std::thread::panicking() => {
                state.idle.push(connection);
            }
            given_up => {
                state.open -= 1;
                drop(state);
                drop(given_up);
            }
        }
        self.pool.back.notify_one();
    }
}
