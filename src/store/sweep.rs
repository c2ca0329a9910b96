//! What goes in time: finished rows, old keys, expired and deleted conversations. Runs in small
//! batches, so that no message waits long behind it; must never touch what is unfinished.

use rusqlite::params;

use super::error::StoreError;
use super::queue::Kind;
use super::{schema, Store, Tx};
use crate::base::clock::UnixMs;
use crate::base::sync::lock;
use crate::domain::ids::Conversation;

/// Rows looked at in one transaction: some milliseconds, also on a slow card.
const BATCH: i64 = 500;

/// In memory, finished rows are looked through after so many messages.
const TRIM_EVERY: i64 = 64;

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
pub(super) fn trim(tx: &Tx<'_>, row: i64) -> rusqlite::Result<()> {
    if tx.facts.path.is_some() || row % TRIM_EVERY != 0 {
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
    Ok(())
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

#[derive(Clone, Copy)]
enum Table {
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
}

struct Batch {
    last: i64,
    gone: u64,
    more: bool,
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

/// Deletes expired turns among the next ones behind `after`.
fn drop_turns(tx: &Tx<'_>, after: i64, before: UnixMs) -> rusqlite::Result<Batch> {
    let (last, seen, old): (Option<i64>, i64, i64) = tx
        .prepare_cached(
            "SELECT max(id), count(*), total(at_ms < ?2) > 0
             FROM (SELECT id, at_ms FROM turns WHERE id > ?1 ORDER BY id LIMIT ?3)",
        )?
        .query_row(params![after, before.0, BATCH], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let last = last.unwrap_or(after);
    let gone = tx
        .prepare_cached(
            "DELETE FROM turns WHERE id > ?1 AND id <= ?2 AND at_ms < ?3
               AND id NOT IN (SELECT turn FROM inbox WHERE state <= 1)
               AND id NOT IN (SELECT turn FROM outbox WHERE state = 0)",
        )?
        .execute(params![after, last, before.0])? as u64;
    Ok(Batch {
        last,
        gone,
        more: seen == BATCH && old > 0,
    })
}

/// The ends of the three tables when a deletion began; what comes later is not its business.
#[derive(Clone, Copy)]
struct Ends {
    turns: i64,
    inbox: i64,
    outbox: i64,
}

/// Takes a conversation's open rows, so that nothing works on it or delivers it any more.
fn drop_open(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<Ends> {
    let key = params![conversation.channel.as_str(), &*conversation.id];
    let open = tx
        .prepare_cached(
            "DELETE FROM inbox WHERE channel = ?1 AND conversation = ?2 AND state <= 1",
        )?
        .execute(key)?;
    tx.count_inbox(-(open as i64));
    let queued = tx
        .prepare_cached(
            "DELETE FROM outbox WHERE channel = ?1 AND conversation = ?2 AND state = 0",
        )?
        .execute(key)?;
    tx.count_outbox(-(queued as i64));
    tx.prepare_cached(
        "SELECT (SELECT coalesce(max(id), 0) FROM turns),
                (SELECT coalesce(max(id), 0) FROM inbox),
                (SELECT coalesce(max(id), 0) FROM outbox)",
    )?
    .query_row([], |row| {
        Ok(Ends {
            turns: row.get(0)?,
            inbox: row.get(1)?,
            outbox: row.get(2)?,
        })
    })
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

    fn finished(&self, before: UnixMs) -> Result<u64, StoreError> {
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

    /// Takes away all turns from before a moment, save those still in work or on their way out,
    /// with the finished rows of that time; afterwards no byte of their text is left in the
    /// files. Says how many turns went.
    ///
    /// Blocks: for several short transactions.
    ///
    /// # Errors
    /// As [`Store::write`]; [`StoreError::Locked`] where another program's reading kept the log
    /// from being emptied, so that text is left in it until the next time.
    pub fn expire(&self, before: UnixMs) -> Result<u64, StoreError> {
        self.finished(before)?;
        let (mut after, mut gone) = (0, 0);
        loop {
            let batch = self.write(move |tx| drop_turns(tx, after, before))?;
            gone += batch.gone;
            after = batch.last;
            if !batch.more {
                break;
            }
        }
        self.wipe_log()?;
        Ok(gone)
    }

    /// Takes away a conversation: turns, inbox and outbox, the unfinished ones too; afterwards no
    /// byte of its text is left in the files. Says how many turns went.
    ///
    /// Blocks: for several short transactions.
    ///
    /// # Errors
    /// As [`Store::expire`].
    pub fn delete_conversation(&self, conversation: &Conversation) -> Result<u64, StoreError> {
        let key = conversation.clone();
        let ends = self.write(move |tx| drop_open(tx, &key))?;
        for (sql, end) in [
            (
                "DELETE FROM inbox WHERE id > ?1 AND id <= ?2 AND channel = ?3
                   AND conversation = ?4 AND state > 1",
                ends.inbox,
            ),
            (
                "DELETE FROM outbox WHERE id > ?1 AND id <= ?2 AND channel = ?3
                   AND conversation = ?4 AND state <> 0",
                ends.outbox,
            ),
        ] {
            self.by_ranges(conversation, sql, end)?;
        }
        let mut gone = 0;
        loop {
            let key = conversation.clone();
            let batch = self.write(move |tx| {
                tx.prepare_cached(
                    "DELETE FROM turns WHERE id IN (SELECT id FROM turns
                       WHERE channel = ?1 AND conversation = ?2 AND id <= ?3 LIMIT ?4)",
                )?
                .execute(params![
                    key.channel.as_str(),
                    &*key.id,
                    ends.turns,
                    BATCH
                ])
            })?;
            gone += batch as u64;
            if batch == 0 {
                break;
            }
        }
        self.wipe_log()?;
        Ok(gone)
    }

    /// Runs a deletion that has no index of its own over the ids up to `end`, a range at a time.
    fn by_ranges(
        &self,
        conversation: &Conversation,
        sql: &'static str,
        end: i64,
    ) -> Result<(), StoreError> {
        let table = if sql.contains("FROM inbox") {
            "SELECT min(id) FROM inbox"
        } else {
            "SELECT min(id) FROM outbox"
        };
        let first: Option<i64> = self.read(move |c| c.query_row(table, [], |row| row.get(0)))?;
        let mut from = first.unwrap_or(end) - 1;
        while from < end {
            let to = from.saturating_add(20 * BATCH).min(end);
            let key = conversation.clone();
            self.write(move |tx| {
                tx.prepare_cached(sql)?
                    .execute(params![from, to, key.channel.as_str(), &*key.id])
            })?;
            from = to;
        }
        Ok(())
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

    fn wipe_log(&self) -> Result<(), StoreError> {
        match self.checkpoint()? {
            true => Ok(()),
            false => Err(StoreError::Locked),
        }
    }
}
