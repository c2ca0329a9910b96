//! Sessions of a conversation: which one is active, where it begins, and what dialogue the last one
//! had. Runs on the store's thread, within the transaction of the message that asks. A session is a
//! stretch of turns in the order of the conversation; the last one is active.

use rusqlite::{params, OptionalExtension};

use super::turns::{self, Audience, Turn};
use super::Tx;
use crate::base::clock::UnixMs;
use crate::domain::ids::Conversation;

/// The active session of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, from 1.
    pub number: i64,
    /// No turn that stands before this one belongs to it.
    pub first_turn: i64,
    /// When it began; unknown for the first one of a conversation.
    pub began: Option<UnixMs>,
}

/// The active session. The first of a conversation has no row.
pub(super) const ACTIVE: &str = "SELECT session, first_turn, began_ms FROM sessions
     WHERE channel = ?1 AND conversation = ?2 ORDER BY session DESC LIMIT 1";

/// The turn that was said last before another one, and not before a third.
pub(super) const LAST_SAID: &str = "SELECT at_ms FROM turns
     WHERE channel = ?1 AND conversation = ?2
       AND coalesce(after, id) >= ?3 AND coalesce(after, id) < ?4
     ORDER BY coalesce(after, id) DESC, id DESC LIMIT 1";

/// The active session of a conversation, on any connection.
pub(super) fn active(
    connection: &rusqlite::Connection,
    conversation: &Conversation,
) -> rusqlite::Result<Session> {
    let found = connection
        .prepare_cached(ACTIVE)?
        .query_row(
            params![conversation.channel.as_str(), &*conversation.id],
            |row| {
                Ok(Session {
                    number: row.get(0)?,
                    first_turn: row.get(1)?,
                    began: Some(UnixMs(row.get(2)?)),
                })
            },
        )
        .optional()?;
    Ok(found.unwrap_or(Session {
        number: 1,
        first_turn: 0,
        began: None,
    }))
}

/// Takes a conversation's sessions away with it.
pub(super) fn forget(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM sessions WHERE channel = ?1 AND conversation = ?2")?
        .execute(params![conversation.channel.as_str(), &*conversation.id])
        .map(drop)
}

impl Tx<'_> {
    /// The active session of a conversation.
    ///
    /// # Errors
    /// The database's.
    pub fn session(&self, conversation: &Conversation) -> rusqlite::Result<Session> {
        active(self, conversation)
    }

    /// Begins a session with the turn `first_turn`; asked again for the same turn, it is the same
    /// session.
    ///
    /// # Errors
    /// The database's.
    pub fn begin_session(
        &self,
        conversation: &Conversation,
        first_turn: i64,
        began: UnixMs,
    ) -> rusqlite::Result<Session> {
        let active = self.session(conversation)?;
        if active.first_turn == first_turn {
            return Ok(active);
        }
        let number = active.number + 1;
        self.prepare_cached(
            "INSERT INTO sessions(channel, conversation, session, first_turn, began_ms)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            conversation.channel.as_str(),
            &*conversation.id,
            number,
            first_turn,
            began.0
        ])?;
        Ok(Session {
            number,
            first_turn,
            began: Some(began),
        })
    }

    /// When something was last said in the active session before the turn `before`; none while it
    /// is empty.
    ///
    /// # Errors
    /// The database's.
    pub fn last_said(
        &self,
        conversation: &Conversation,
        session: &Session,
        before: i64,
    ) -> rusqlite::Result<Option<UnixMs>> {
        self.prepare_cached(LAST_SAID)?
            .query_row(
                params![
                    conversation.channel.as_str(),
                    &*conversation.id,
                    session.first_turn,
                    before
                ],
                |row| row.get(0).map(UnixMs),
            )
            .optional()
    }

    /// Whether the active session has dialogue before the turn `before`.
    ///
    /// # Errors
    /// The database's.
    pub fn has_dialogue(
        &self,
        conversation: &Conversation,
        session: &Session,
        before: i64,
    ) -> rusqlite::Result<bool> {
        let span = (session.first_turn, before);
        // Whoever may hear it: there was dialogue.
        let said = turns::dialogue(self, conversation, span, 1, Audience::Private)?;
        Ok(!said.is_empty())
    }

    /// The last `most` messages of dialogue of the last session before `session` that had any, the
    /// oldest first. A public audience is told nothing that came to or from a private brain.
    ///
    /// # Errors
    /// The database's.
    pub fn recall(
        &self,
        conversation: &Conversation,
        session: &Session,
        most: u32,
        audience: Audience,
    ) -> rusqlite::Result<Vec<Turn>> {
        let span = (0, session.first_turn);
        let mut said = turns::dialogue(self, conversation, span, most, audience)?;
        let last = said.last().map(|turn| turn.session);
        said.retain(|turn| Some(turn.session) == last);
        Ok(said)
    }
}
