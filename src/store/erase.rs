//! Forgetting text for good: expired turns and deleted conversations, with no byte left in the
//! files. Runs in small batches, so that no message waits long behind it.

use rusqlite::params;

use super::error::StoreError;
use super::sweep::{Batch, Table, BATCH};
use super::{journal, notes, sessions, Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::ids::Conversation;

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
    journal::drop_orphans(tx)?;
    notes::drop_conversation(tx, conversation)?;
    let queued = tx
        .prepare_cached(
            "DELETE FROM outbox WHERE channel = ?1 AND conversation = ?2 AND state = 0",
        )?
        .execute(key)?;
    tx.count_outbox(-(queued as i64));
    sessions::forget(tx, conversation)?;
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
    /// Takes away all turns from before a moment, save those still in work or on their way out,
    /// with the finished rows and the notes of that time; afterwards no byte of their text is left in the
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
        while self.write(move |tx| notes::drop_old(tx, before))? > 0 {}
        self.write(sessions::forget_old)?;
        self.wipe()?;
        Ok(gone)
    }

    /// Takes away a conversation: turns, inbox and outbox, the unfinished ones too, and notes; afterwards no
    /// byte of its text is left in the files. Says how many turns went.
    ///
    /// Blocks: for several short transactions.
    ///
    /// # Errors
    /// As [`Store::expire`].
    pub fn delete_conversation(&self, conversation: &Conversation) -> Result<u64, StoreError> {
        let key = conversation.clone();
        let ends = self.write(move |tx| drop_open(tx, &key))?;
        self.drop_closed(Table::Inbox, conversation, ends.inbox)?;
        self.drop_closed(Table::Outbox, conversation, ends.outbox)?;
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
        self.wipe()?;
        Ok(gone)
    }

    /// Takes a conversation's finished rows up to `end`. They have no index by conversation, so
    /// the table is gone through, a range at a time.
    fn drop_closed(
        &self,
        table: Table,
        conversation: &Conversation,
        end: i64,
    ) -> Result<(), StoreError> {
        let first: Option<i64> =
            self.read(move |connection| connection.query_row(table.first(), [], |row| row.get(0)))?;
        let mut from = first.unwrap_or(end) - 1;
        while from < end {
            let to = from.saturating_add(20 * BATCH).min(end);
            let key = conversation.clone();
            self.write(move |tx| {
                tx.prepare_cached(table.delete_closed())?.execute(params![
                    from,
                    to,
                    key.channel.as_str(),
                    &*key.id
                ])
            })?;
            from = to;
        }
        Ok(())
    }
}
