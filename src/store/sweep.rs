//! What goes in time: finished rows and old keys, and in memory all that is over. Runs in small
//! batches, so that no message waits long behind it; must never touch what is unfinished.

use std::sync::atomic::Ordering;

use rusqlite::params;

use super::error::StoreError;
use super::ticket::Kind;
use super::{journal, schema, Store, Tx};
use crate::base::clock::UnixMs;
use crate::base::sync::lock;

/// Rows looked at in one transaction: some milliseconds, also on a slow card.
pub(super) const BATCH: i64 = 500;

/// In memory, finished rows are looked through after so many messages.
const TRIM_EVERY: usize = 64;

/// What a sweep has taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Finished inbox and outbox rows.
    pub rows: u64,
    /// Keys that recognised duplicates.
    pub keys: u64,
}

/// How far keys have been cleared: nothing below has one that is out of its window.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    keys: i64,
}

/// In memory only: forgets what nobody needs any more, every so many messages. The newest
/// finished messages stay for those who repeat a key or ask by id; behind them only keys.
pub(super) fn trim(tx: &Tx<'_>) -> rusqlite::Result<()> {
    let over = tx.facts.over.fetch_add(1, Ordering::Relaxed);
    if tx.facts.path.is_some() || over % TRIM_EVERY != 0 {
        return Ok(());
    }
    let limits = &tx.facts.limits;
    let (kept, keys) = (
        i64::try_from(limits.memory_messages).unwrap_or(i64::MAX),
        i64::try_from(limits.memory_keys).unwrap_or(i64::MAX),
    );
    tx.prepare_cached(
        "DELETE FROM turns WHERE id <= (SELECT max(id) FROM turns) - 2 * ?1
           AND id NOT IN (SELECT turn FROM inbox WHERE state <= 1)
           AND id NOT IN (SELECT turn FROM outbox WHERE state = 0)",
    )?
    .execute([kept])?;
    tx.prepare_cached(
        "DELETE FROM outbox WHERE id <= (SELECT max(id) FROM outbox) - ?1 AND state <> 0",
    )?
    .execute([kept])?;
    tx.prepare_cached(
        "DELETE FROM inbox WHERE state > 1
           AND (id <= (SELECT max(id) FROM inbox) - ?2
             OR (id <= (SELECT max(id) FROM inbox) - ?1 AND dedup IS NULL))",
    )?
    .execute([kept, keys])?;
    journal::trim_audit(tx, kept)
}

/// Deletes finished rows of a table from its oldest end, up to the first one that is to stay.
/// Says how many went and whether more may be left.
fn drop_finished(tx: &Tx<'_>, table: Table, after: i64, before: UnixMs) -> rusqlite::Result<Batch> {
    let rows: Vec<(i64, Option<i64>)> = tx
        .prepare_cached(table.oldest())?
        .query_map(params![after, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut batch = Batch {
        last: after,
        gone: 0,
        more: rows.len() as i64 == BATCH,
    };
    for (id, finished) in rows {
        match finished {
            Some(at) if at >= before.0 => {
                batch.more = false;
                break;
            }
            Some(_) => {
                batch.gone += tx.prepare_cached(table.delete())?.execute([id])? as u64;
            }
            // Unfinished ones stay; there are never many.
            None => {}
        }
        batch.last = id;
    }
    Ok(batch)
}

/// The two tables of rows that finish.
#[derive(Clone, Copy)]
pub(super) enum Table {
    Inbox,
    Outbox,
}

impl Table {
    fn oldest(self) -> &'static str {
        match self {
            Table::Inbox => "SELECT id, finished_ms FROM inbox WHERE id > ?1 ORDER BY id LIMIT ?2",
            Table::Outbox => {
                "SELECT id, finished_ms FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2"
            }
        }
    }

    fn delete(self) -> &'static str {
        match self {
            Table::Inbox => "DELETE FROM inbox WHERE id = ?1",
            Table::Outbox => "DELETE FROM outbox WHERE id = ?1",
        }
    }

    pub(super) fn first(self) -> &'static str {
        match self {
            Table::Inbox => "SELECT min(id) FROM inbox",
            Table::Outbox => "SELECT min(id) FROM outbox",
        }
    }

    pub(super) fn delete_closed(self) -> &'static str {
        match self {
            Table::Inbox => {
                "DELETE FROM inbox WHERE id > ?1 AND id <= ?2 AND channel = ?3
                   AND conversation = ?4 AND state > 1"
            }
            Table::Outbox => {
                "DELETE FROM outbox WHERE id > ?1 AND id <= ?2 AND channel = ?3
                   AND conversation = ?4 AND state <> 0"
            }
        }
    }
}

/// How far one transaction of many has come.
pub(super) struct Batch {
    /// The last id looked at.
    pub last: i64,
    /// Rows changed.
    pub gone: u64,
    /// Whether there may be more behind it.
    pub more: bool,
}

/// Takes the keys that are out of their window from behind the row `after` on.
fn drop_keys(tx: &Tx<'_>, after: i64) -> rusqlite::Result<Batch> {
    let before = tx.now.minus(tx.facts.limits.dedup_window);
    let rows: Vec<(i64, i64)> = tx
        .prepare_cached("SELECT id, received_ms FROM inbox WHERE id > ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![after, BATCH], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut batch = Batch {
        last: after,
        gone: 0,
        more: rows.len() as i64 == BATCH,
    };
    for (id, received) in rows {
        if received > before.0 {
            batch.more = false;
            break;
        }
        batch.gone += tx
            .prepare_cached("UPDATE inbox SET dedup = NULL WHERE id = ?1 AND dedup IS NOT NULL")?
            .execute([id])? as u64;
        batch.last = id;
    }
    Ok(batch)
}

impl Store {
    /// Takes away finished rows that are older than `finished_rows_kept` and keys that are out of
    /// their window, then empties the write-ahead log.
    ///
    /// Blocks: for several short transactions.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn sweep(&self) -> Result<Swept, StoreError> {
        let limits = &self.facts.limits;
        let before = self.facts.clock.unix().minus(limits.finished_rows_kept);
        let audited = self.facts.clock.unix().minus(limits.audit_kept);
        while self.write(move |tx| journal::drop_audit(tx, audited, BATCH))? > 0 {}
        let mut swept = Swept {
            rows: self.finished(before)?,
            keys: 0,
        };
        let mut cursor = lock(&self.swept).keys;
        loop {
            let batch = self.write(move |tx| drop_keys(tx, cursor))?;
            swept.keys += batch.gone;
            cursor = batch.last;
            if !batch.more {
                break;
            }
        }
        lock(&self.swept).keys = cursor;
        self.checkpoint()?;
        Ok(swept)
    }

    /// Deletes rows that were finished before a moment.
    pub(super) fn finished(&self, before: UnixMs) -> Result<u64, StoreError> {
        let mut rows = 0;
        for table in [Table::Inbox, Table::Outbox] {
            let mut after = 0;
            loop {
                let batch = self.write(move |tx| drop_finished(tx, table, after, before))?;
                rows += batch.gone;
                after = batch.last;
                if !batch.more {
                    break;
                }
            }
        }
        Ok(rows)
    }

    /// Writes the log home and empties it, where no reader is in the way; says whether it did.
    ///
    /// Blocks: for the disk, and up to 5 s for readers.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn checkpoint(&self) -> Result<bool, StoreError> {
        if self.facts.path.is_none() {
            return Ok(true);
        }
        self.submit(Kind::Outside, |tx| schema::checkpoint(tx), |_| None)
    }
}
