//! Beginning the work on a message, and giving it back. Runs on the store's thread; the attempt is
//! counted before the work begins.

use rusqlite::Connection;

use super::customs::Given;
use super::error::StoreError;
use super::row::{self, Work};
use super::state::State;
use super::ticket::Lazy;
use super::{customs, Store, Tx};
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::message::Outgoing;

/// What came of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The work, where there is any.
    pub work: Option<Work>,
    /// Acknowledgements of commands that stood before it, to be delivered.
    pub said: Vec<Outgoing>,
}

/// Sets rows that were in work to waiting, as the opening of a store does: nobody works then. Says
/// how many.
///
/// # Errors
/// SQLite's, when it cannot write.
pub fn recover(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .execute(
            "UPDATE inbox SET state = 0 WHERE state <= 1 AND state = 1",
            [],
        )
        .map(|rows| rows as u64)
}

fn claim(
    tx: &Tx<'_>,
    customs: Given<'_>,
    conversation: &Conversation,
) -> rusqlite::Result<Claimed> {
    let mut claimed = Claimed::default();
    // The lowest unfinished row is the one in work wherever there is one.
    while let Some((State::Waiting, mut work)) = row::first(tx, conversation)? {
        tx.enter(&mut work, tx.session(conversation)?.number)?;
        if let Some(outgoing) = customs::judge(tx, customs, &mut work)? {
            tx.count_inbox(-1);
            claimed.said.push(outgoing);
            continue;
        }
        tx.prepare_cached("UPDATE inbox SET state = 1, attempts = attempts + 1 WHERE id = ?1")?
            .execute([work.row])?;
        claimed.work = Some(work);
        break;
    }
    Ok(claimed)
}

/// Sets a row in work back to waiting, its attempt given back.
fn give_back(tx: &Tx<'_>, row: i64) -> rusqlite::Result<bool> {
    tx.prepare_cached(
        "UPDATE inbox SET state = 0, attempts = max(attempts - 1, 0) WHERE id = ?1 AND state = 1",
    )?
    .execute([row])
    .map(|rows| rows > 0)
}

pub(super) fn give_back_later(row: i64) -> Lazy {
    Box::new(move |tx| give_back(tx, row).map(drop))
}

impl Store {
    /// Begins the work on the conversation's first waiting message for a brain, unless one is in
    /// work; commands before it are answered. The attempt is committed before this comes back.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`]. A claim whose caller has gone by the time it is committed is given
    /// back.
    pub fn claim(&self, conversation: &Conversation) -> Result<Claimed, StoreError> {
        let (conversation, customs) = (conversation.clone(), self.customs());
        self.write_or(
            move |tx| claim(tx, customs.as_deref(), &conversation),
            |claimed| claimed.work.map(|work| give_back_later(work.row)),
        )
    }

    /// Sets a message in work back to waiting and gives its attempt back, for a stop that was
    /// asked for; says whether it was in work.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn give_back(&self, row: i64) -> Result<bool, StoreError> {
        self.write(move |tx| give_back(tx, row))
    }

    /// Gives the attempts of all messages in work back and leaves them in work: a stop has been
    /// asked for, and from now on the process may be ended at any moment for that. Says which.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn forgive(&self) -> Result<Vec<i64>, StoreError> {
        self.write(|tx| {
            tx.prepare_cached(
                "UPDATE inbox SET attempts = max(attempts - 1, 0) WHERE state <= 1 AND state = 1
                 RETURNING id",
            )?
            .query_map([], |row| row.get(0))?
            .collect()
        })
    }

    /// Leaves a message in work to be set back to waiting for another attempt: the one that failed
    /// stays counted. It is done before any later write, and tried again while the store cannot
    /// commit.
    ///
    /// Blocks: as [`Store::write_later`].
    pub fn put_back(&self, row: i64) {
        self.write_later(move |tx| {
            tx.prepare_cached("UPDATE inbox SET state = 0 WHERE id = ?1 AND state = 1")?
                .execute([row])
                .map(drop)
        });
    }

    /// The conversations with unfinished messages and how many, the oldest first.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn open_conversations(&self) -> Result<Vec<(Conversation, u32)>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT channel, conversation, count(*) FROM inbox WHERE state <= 1
                     GROUP BY channel, conversation ORDER BY min(id)",
                )?
                .query_map([], |row| {
                    let channel = ChannelName::new(row.get_ref(0)?.as_str()?);
                    let conversation = Conversation::new(&channel, row.get_ref(1)?.as_str()?);
                    Ok((conversation, row.get(2)?))
                })?
                .collect()
        })
    }
}
