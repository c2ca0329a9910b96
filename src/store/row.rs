//! One row of the inbox: the message that stands first in its conversation, and the end of it. Pure
//! statements; they run on the store's thread.

use rusqlite::{params, OptionalExtension};

use super::ids::inbox_id;
use super::journal;
use super::state::State;
use super::turns::{without_lead, Audience};
use super::Tx;
use crate::base::clock::UnixMs;
use crate::domain::ids::{Conversation, MessageId};
use crate::domain::message::{ChatKind, Language};

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

fn chat_of_word(word: &str) -> ChatKind {
    match word {
        "direct" => ChatKind::Direct,
        "program" => ChatKind::Program,
        // The most careful reading of an unknown word.
        _ => ChatKind::Group,
    }
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

/// Counts unfinished rows of a conversation. `state <= 1` stands as in the index `inbox_open`.
pub(super) const WAITING: &str =
    "SELECT count(*) FROM inbox WHERE channel = ?1 AND conversation = ?2 AND state <= 1";

/// Unfinished rows of one conversation.
pub(super) fn waiting(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<u32> {
    tx.prepare_cached(WAITING)?.query_row(
        params![conversation.channel.as_str(), &*conversation.id],
        |row| row.get(0),
    )
}

/// Ends a row: its state, its answer, and what its run had written down.
pub(super) fn close(
    tx: &Tx<'_>,
    row: i64,
    state: State,
    answer: Option<i64>,
) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE inbox SET state = ?2, answer = ?3, finished_ms = ?4 WHERE id = ?1")?
        .execute(params![row, state as i64, answer, tx.now.0])?;
    journal::end(tx, row)
}
