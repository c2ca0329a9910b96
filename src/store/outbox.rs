//! The outbox: what is to be delivered, each row until it is confirmed or given up. Writes run on
//! the store's thread; nothing here sends anything.

use rusqlite::{params, Connection, OptionalExtension};

use super::error::StoreError;
use super::turns::{self, NewTurn};
use super::{ids, Store, Tx};
use crate::base::clock::UnixMs;
use crate::base::text::prefix;
use crate::domain::ids::{ChannelName, Conversation, MessageId};
use crate::domain::message::Outgoing;

/// Bytes of a delivery's error that are kept: enough for its first sentence.
const ERROR_BYTES: usize = 500;

/// How far a delivery has come. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Waits for its first or next try.
    Queued = 0,
    /// Confirmed by the channel.
    Sent = 1,
    /// Given up.
    Failed = 2,
}

impl Delivery {
    /// The word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Delivery::Queued => "queued",
            Delivery::Sent => "sent",
            Delivery::Failed => "failed",
        }
    }

    pub(super) fn of_number(number: i64) -> Delivery {
        match number {
            0 => Delivery::Queued,
            1 => Delivery::Sent,
            _ => Delivery::Failed,
        }
    }
}

/// Whether so much waits for delivery in a conversation that it takes no more. Looked up only
/// where the whole outbox holds that much.
pub(super) fn crowded(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<bool> {
    let most = i64::from(tx.facts.limits.outbox_per_conversation);
    if tx.outbox_open() < most {
        return Ok(false);
    }
    let queued: i64 = tx
        .prepare_cached(
            "SELECT count(*) FROM outbox WHERE state = 0 AND channel = ?1 AND conversation = ?2",
        )?
        .query_row(
            params![conversation.channel.as_str(), &*conversation.id],
            |row| row.get(0),
        )?;
    Ok(queued >= most)
}

/// A row that waits for delivery, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The outbox row.
    pub row: i64,
    /// Where to.
    pub conversation: Conversation,
    /// When it is due.
    pub next_at: UnixMs,
    /// Tries so far.
    pub attempts: u32,
    /// When it was put into the outbox.
    pub queued_at: UnixMs,
}

/// Where a new row belongs.
pub(super) struct Address<'a> {
    pub inbox: Option<i64>,
    pub reply_to: Option<String>,
    pub turn: &'a NewTurn<'a>,
}

/// Stores a turn and queues it for delivery.
pub(super) fn queue(tx: &Tx<'_>, address: Address<'_>) -> rusqlite::Result<Outgoing> {
    let turn = address.turn;
    let id = turns::insert(tx, turn)?;
    let row = tx
        .prepare_cached(
            "INSERT INTO outbox(turn, inbox, channel, conversation, reply_to, next_ms, queued_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .insert(params![
            id,
            address.inbox,
            turn.conversation.channel.as_str(),
            &*turn.conversation.id,
            address.reply_to,
            tx.now.0
        ])?;
    tx.count_outbox(1);
    Ok(Outgoing {
        row,
        message_id: ids::outbox_id(&tx.facts.epoch, row),
        in_reply_to: address.inbox.map(|row| ids::inbox_id(&tx.facts.epoch, row)),
        conversation: turn.conversation.clone(),
        role: turn.role,
        sender_name: turn.sender_name.to_owned(),
        text: turn.text.to_owned(),
        reply_to: address.reply_to,
        parts_sent: 0,
        queued_at: tx.now,
        attempts: 0,
    })
}

/// A queued row with its text.
pub(super) const OUTGOING: &str =
    "SELECT o.inbox, o.channel, o.conversation, t.role, t.sender_name, t.text, o.reply_to,
            o.parts_sent, o.queued_ms, o.attempts
     FROM outbox o JOIN turns t ON t.id = o.turn WHERE o.id = ?1 AND o.state = 0";

/// The queued rows of a channel. `state = 0` stands as in the index `outbox_queued`.
pub(super) const QUEUED: &str = "SELECT id, conversation, next_ms, attempts, queued_ms FROM outbox
     WHERE channel = ?1 AND state = 0 AND id > ?2 ORDER BY id LIMIT ?3";

/// A queued row as the channel needs it; none where it is finished or gone.
pub(super) fn outgoing(
    connection: &Connection,
    epoch: &str,
    row: i64,
) -> rusqlite::Result<Option<Outgoing>> {
    connection
        .prepare_cached(OUTGOING)?
        .query_row([row], |columns| {
            let channel = ChannelName::new(columns.get_ref(1)?.as_str()?);
            Ok(Outgoing {
                row,
                message_id: ids::outbox_id(epoch, row),
                in_reply_to: columns
                    .get::<_, Option<i64>>(0)?
                    .map(|row| ids::inbox_id(epoch, row)),
                conversation: Conversation::new(&channel, columns.get_ref(2)?.as_str()?),
                role: turns::role(columns.get_ref(3)?.as_str()?),
                sender_name: columns.get(4)?,
                text: columns.get(5)?,
                reply_to: columns.get(6)?,
                parts_sent: columns.get(7)?,
                queued_at: UnixMs(columns.get(8)?),
                attempts: columns.get(9)?,
            })
        })
        .optional()
}

/// Rows still queued in the whole database.
pub(super) fn count_open(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM outbox WHERE state = 0", [], |row| {
        row.get(0)
    })
}

fn finish(tx: &Tx<'_>, row: i64, how: Delivery, error: Option<&str>) -> rusqlite::Result<bool> {
    let closed = tx
        .prepare_cached(
            "UPDATE outbox SET state = ?2, finished_ms = ?3, last_error = ?4
             WHERE id = ?1 AND state = 0",
        )?
        .execute(params![row, how as i64, tx.now.0, error])?;
    tx.count_outbox(-i64::try_from(closed).unwrap_or(0));
    Ok(closed > 0)
}

impl Store {
    /// Rows of a channel that wait for delivery, in order, from behind the row `after`.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn queued(
        &self,
        channel: &ChannelName,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Queued>, StoreError> {
        let channel = channel.clone();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |connection| {
            connection
                .prepare_cached(QUEUED)?
                .query_map(params![channel.as_str(), after, limit], |row| {
                    Ok(Queued {
                        row: row.get(0)?,
                        conversation: Conversation::new(&channel, row.get_ref(1)?.as_str()?),
                        next_at: UnixMs(row.get(2)?),
                        attempts: row.get(3)?,
                        queued_at: UnixMs(row.get(4)?),
                    })
                })?
                .collect()
        })
    }

    /// A queued row with its text; none where it has been sent, given up or deleted.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn outgoing(&self, row: i64) -> Result<Option<Outgoing>, StoreError> {
        let facts = std::sync::Arc::clone(&self.facts);
        self.read(move |connection| outgoing(connection, &facts.epoch, row))
    }

    /// Marks a delivery as confirmed, with the next commit that comes along.
    ///
    /// Blocks: as [`Store::write_later`].
    pub fn sent(&self, row: i64) {
        self.write_later(move |tx| finish(tx, row, Delivery::Sent, None).map(drop));
    }

    /// Marks the first `parts` parts of a delivery as confirmed, with the next commit that comes
    /// along.
    ///
    /// Blocks: as [`Store::write_later`].
    pub fn part_sent(&self, row: i64, parts: u32) {
        self.write_later(move |tx| {
            tx.prepare_cached(
                "UPDATE outbox SET parts_sent = max(parts_sent, ?2) WHERE id = ?1 AND state = 0",
            )?
            .execute(params![row, parts])
            .map(drop)
        });
    }

    /// Notes that a try has failed and when the next one is due, with the next commit that comes
    /// along.
    ///
    /// Blocks: as [`Store::write_later`].
    pub fn retry(&self, row: i64, at: UnixMs, error: &str) {
        let error = prefix(error, ERROR_BYTES).to_owned();
        self.write_later(move |tx| {
            tx.prepare_cached(
                "UPDATE outbox SET attempts = attempts + 1, next_ms = ?2, last_error = ?3
                 WHERE id = ?1 AND state = 0",
            )?
            .execute(params![row, at.0, error])
            .map(drop)
        });
    }

    /// Gives a delivery up, and says whether it was still queued.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn failed(&self, row: i64, error: &str) -> Result<bool, StoreError> {
        let error = prefix(error, ERROR_BYTES).to_owned();
        self.write(move |tx| finish(tx, row, Delivery::Failed, Some(&error)))
    }

    /// The id of an outbox row's message.
    #[must_use]
    pub fn outgoing_id(&self, row: i64) -> MessageId {
        ids::outbox_id(&self.facts.epoch, row)
    }
}
