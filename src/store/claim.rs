//! Beginning the work on a message, and giving it back. Runs on the store's thread; the attempt is
//! counted before the work begins.

use rusqlite::{params, Connection, OptionalExtension};

use super::error::StoreError;
use super::ids::inbox_id;
use super::state::State;
use super::ticket::Lazy;
use super::turns::{without_lead, Audience};
use super::{customs, Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::ids::{ChannelName, Conversation, MessageId};
use crate::domain::message::{ChatKind, Language, Outgoing};

/// A message in work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The inbox row.
    pub row: i64,
    /// Its id.
    pub message_id: MessageId,
    /// Where it was said.
    pub conversation: Conversation,
    /// The user's turn.
    pub turn: i64,
    /// The session of its conversation.
    pub session: i64,
    /// Who said it, by the channel's id.
    pub sender_id: String,
    /// Who said it, by the name that people see.
    pub sender_name: String,
    /// What was said.
    pub text: String,
    /// The kind of thing beside or instead of text that cannot be read.
    pub attachment: Option<String>,
    /// The language of honest sentences.
    pub language: Language,
    /// The kind of chat.
    pub chat: ChatKind,
    /// What the channel needs to answer in place.
    pub reply_to: Option<String>,
    /// When it was accepted.
    pub received_at: UnixMs,
    /// The audience of the brain that it was said to, where there was one.
    pub meant_for: Option<Audience>,
    /// Which attempt this is, from 1; already committed.
    pub attempt: u32,
    /// Whether a command at the beginning is done and no part of `text` any more.
    pub led: bool,
}

/// What came of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The work, where there is any.
    pub work: Option<Work>,
    /// Acknowledgements of commands that stood before it, to be delivered.
    pub said: Vec<Outgoing>,
}

fn chat_of_word(word: &str) -> ChatKind {
    match word {
        "direct" => ChatKind::Direct,
        "program" => ChatKind::Program,
        // The most careful reading of an unknown word.
        _ => ChatKind::Group,
    }
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

/// The first unfinished message of a conversation.
pub(super) const FIRST: &str =
    "SELECT i.id, i.state, i.turn, t.session, i.sender_id, t.sender_name, t.text,
            i.attachment, i.language, i.chat, i.reply_to, i.received_ms, i.attempts, t.private,
            t.lead
     FROM inbox i JOIN turns t ON t.id = i.turn
     WHERE i.channel = ?1 AND i.conversation = ?2 AND i.state <= 1
     ORDER BY i.id LIMIT 1";

/// The first unfinished message of a conversation and where it stands.
pub(super) fn first(
    tx: &Tx<'_>,
    conversation: &Conversation,
) -> rusqlite::Result<Option<(State, Work)>> {
    tx.prepare_cached(FIRST)?
        .query_row(
            params![conversation.channel.as_str(), &*conversation.id],
            |row| {
                let id = row.get(0)?;
                let lead: i64 = row.get(14)?;
                let work = Work {
                    row: id,
                    message_id: inbox_id(&tx.facts.epoch, id),
                    conversation: conversation.clone(),
                    turn: row.get(2)?,
                    session: row.get(3)?,
                    sender_id: row.get(4)?,
                    sender_name: row.get(5)?,
                    text: without_lead(row.get_ref(6)?.as_str()?, lead),
                    attachment: row.get(7)?,
                    language: Language::of_tag(row.get_ref(8)?.as_str()?),
                    chat: chat_of_word(row.get_ref(9)?.as_str()?),
                    reply_to: row.get(10)?,
                    received_at: UnixMs(row.get(11)?),
                    meant_for: row.get::<_, Option<bool>>(13)?.map(Audience::of),
                    attempt: row.get::<_, u32>(12)?.saturating_add(1),
                    led: lead > 0,
                };
                Ok((State::of_number(row.get(1)?), work))
            },
        )
        .optional()
}

fn claim(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<Claimed> {
    let mut claimed = Claimed::default();
    // The lowest unfinished row is the one in work wherever there is one.
    while let Some((State::Waiting, mut work)) = first(tx, conversation)? {
        if let Some(outgoing) = customs::judge(tx, &mut work)? {
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
        let conversation = conversation.clone();
        self.write_or(
            move |tx| claim(tx, &conversation),
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
