//! Sessions of a conversation: which one is active, where it begins, and what dialogue the last one
//! had. Writes run on the store's thread, reads on the caller's too. A session is a
//! stretch of turns in the order of the conversation; the last one is active.

use rusqlite::{params, OptionalExtension};

use super::error::StoreError;
use super::turns::{self, Audience, Turn};
use super::{Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::ids::Conversation;

/// The active session of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number, from 1.
    pub number: i64,
    /// No turn that stands before this one belongs to it.
    pub first_turn: i64,
}

/// The active session. The first of a conversation has no row.
pub(super) const ACTIVE: &str = "SELECT session, first_turn FROM sessions
     WHERE channel = ?1 AND conversation = ?2 ORDER BY session DESC LIMIT 1";

/// When something was said first in a stretch of turns.
pub(super) const FIRST_SAID: &str = "SELECT at_ms FROM turns
     WHERE channel = ?1 AND conversation = ?2
       AND coalesce(after, id) >= ?3 AND coalesce(after, id) < ?4
     ORDER BY coalesce(after, id), id LIMIT 1";

/// When something was said last in it.
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
                })
            },
        )
        .optional()?;
    Ok(found.unwrap_or(Session {
        number: 1,
        first_turn: 0,
    }))
}

/// Takes a conversation's sessions away with it.
pub(super) fn forget(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM sessions WHERE channel = ?1 AND conversation = ?2")?
        .execute(params![conversation.channel.as_str(), &*conversation.id])
        .map(drop)
}

/// Takes away the sessions that ended before the oldest turn that is left.
pub(super) fn forget_old(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "DELETE FROM sessions WHERE EXISTS (SELECT 1 FROM sessions l
           WHERE l.channel = sessions.channel AND l.conversation = sessions.conversation
             AND l.session > sessions.session
             AND l.first_turn <= coalesce((SELECT min(id) FROM turns), l.first_turn))",
    )?
    .execute([])
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
    ) -> rusqlite::Result<Session> {
        let active = self.session(conversation)?;
        if active.first_turn == first_turn {
            return Ok(active);
        }
        let number = active.number + 1;
        self.prepare_cached(
            "INSERT INTO sessions(channel, conversation, session, first_turn)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            conversation.channel.as_str(),
            &*conversation.id,
            number,
            first_turn
        ])?;
        Ok(Session { number, first_turn })
    }

    /// When something was said first and last in the active session before the turn `before`; none
    /// while it is empty.
    ///
    /// # Errors
    /// The database's.
    pub fn said(
        &self,
        conversation: &Conversation,
        session: &Session,
        before: i64,
    ) -> rusqlite::Result<Option<(UnixMs, UnixMs)>> {
        let at = |sql: &str| {
            self.prepare_cached(sql)?
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
        };
        Ok(at(FIRST_SAID)?.zip(at(LAST_SAID)?))
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

impl Store {
    /// The last `limit` messages of a conversation's active session that a model may see, oldest
    /// first, each answer behind its question, all before the turn `before`. A public audience is shown
    /// nothing that came to or from a private brain.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn history(
        &self,
        conversation: &Conversation,
        before: i64,
        limit: u32,
        audience: Audience,
    ) -> Result<Vec<Turn>, StoreError> {
        let conversation = conversation.clone();
        self.read(move |connection| {
            let from = active(connection, &conversation)?.first_turn;
            let span = (from, before);
            turns::history(connection, &conversation, span, limit, audience)
        })
    }
}
