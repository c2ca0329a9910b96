//! Turns: every message that was said, with its text, which stands nowhere else. Pure statements;
//! writes run on the store's thread, reads on the caller's.

use rusqlite::{params, Connection, Row};

use super::Tx;
use crate::base::clock::UnixMs;
use crate::domain::ids::Conversation;
use crate::domain::message::{Outcome, Role};

/// For whom words are fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// For private brains only.
    Private,
    /// For every brain.
    Public,
}

impl Audience {
    /// By the column `private`.
    pub(super) fn of(private: bool) -> Audience {
        match private {
            true => Audience::Private,
            false => Audience::Public,
        }
    }
}

/// What became of a user's turn, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Answered, or a command.
    Ok,
    /// Excused.
    Failed,
    /// Cancelled by the user.
    Cancelled,
    /// Given up.
    SetAside,
}

impl TurnOutcome {
    /// The word in store and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            TurnOutcome::Ok => "ok",
            TurnOutcome::Failed => "failed",
            TurnOutcome::Cancelled => "cancelled",
            TurnOutcome::SetAside => "set_aside",
        }
    }

    fn of_word(word: &str) -> Option<TurnOutcome> {
        match word {
            "ok" => Some(TurnOutcome::Ok),
            "failed" => Some(TurnOutcome::Failed),
            "cancelled" => Some(TurnOutcome::Cancelled),
            "set_aside" => Some(TurnOutcome::SetAside),
            _ => None,
        }
    }

    /// What a message's outcome means for its turn: none while it is with the operator.
    pub(super) fn of(outcome: Outcome) -> Option<TurnOutcome> {
        match outcome {
            Outcome::Answered => Some(TurnOutcome::Ok),
            Outcome::Excused => Some(TurnOutcome::Failed),
            Outcome::Operator => None,
            Outcome::Cancelled => Some(TurnOutcome::Cancelled),
            Outcome::SetAside => Some(TurnOutcome::SetAside),
        }
    }
}

/// One stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Grows over the whole database.
    pub id: i64,
    /// The turn it answers, if it answers one.
    pub after: Option<i64>,
    /// The session of its conversation.
    pub session: i64,
    /// Who speaks.
    pub role: Role,
    /// The name that people see; may be empty.
    pub sender_name: String,
    /// What was said.
    pub text: String,
    /// When it was stored.
    pub at: UnixMs,
    /// What became of it; on user's turns only.
    pub outcome: Option<TurnOutcome>,
}

/// What is known of a turn as it is stored.
pub(super) struct NewTurn<'a> {
    pub conversation: &'a Conversation,
    pub session: i64,
    pub role: Role,
    pub sender_name: &'a str,
    pub text: &'a str,
    pub outcome: Option<TurnOutcome>,
    pub audience: Option<Audience>,
    pub brain: Option<&'a str>,
    pub after: Option<i64>,
}

/// Stores a turn and says its id.
pub(super) fn insert(tx: &Tx<'_>, turn: &NewTurn<'_>) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "INSERT INTO turns(channel, conversation, session, role, sender_name, text, at_ms,
                           outcome, private, brain, after)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .insert(params![
        turn.conversation.channel.as_str(),
        &*turn.conversation.id,
        turn.session,
        turn.role.word(),
        turn.sender_name,
        turn.text,
        tx.now.0,
        turn.outcome.map(TurnOutcome::word),
        turn.audience.map(private),
        turn.brain,
        turn.after,
    ])
}

/// Sets what became of a user's turn. One that was meant for a private brain stays private,
/// whoever ends it.
pub(super) fn close(
    tx: &Tx<'_>,
    turn: i64,
    outcome: Option<TurnOutcome>,
    audience: Audience,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE turns SET outcome = ?2, private = coalesce(private, 0) OR ?3 WHERE id = ?1",
    )?
    .execute(params![
        turn,
        outcome.map(TurnOutcome::word),
        private(audience)
    ])
    .map(drop)
}

fn private(audience: Audience) -> bool {
    audience == Audience::Private
}

/// The role of a stored word; a word of a later version reads as Korvun's own.
pub(super) fn role(word: &str) -> Role {
    [Role::User, Role::Assistant, Role::Operator]
        .into_iter()
        .find(|role| role.word() == word)
        .unwrap_or(Role::System)
}

/// A stored text without the command at its beginning.
pub(super) fn without_lead(text: &str, lead: i64) -> String {
    let lead = usize::try_from(lead).unwrap_or(0);
    text.get(lead..).unwrap_or(text).to_owned()
}

fn turn(row: &Row<'_>) -> rusqlite::Result<Turn> {
    Ok(Turn {
        id: row.get(0)?,
        after: row.get(1)?,
        session: row.get(2)?,
        role: role(row.get_ref(3)?.as_str()?),
        sender_name: row.get(4)?,
        text: without_lead(row.get_ref(5)?.as_str()?, row.get(8)?),
        at: UnixMs(row.get(6)?),
        outcome: row
            .get_ref(7)?
            .as_str_or_null()?
            .and_then(TurnOutcome::of_word),
    })
}

/// Dialogue. A user's turn counts when a brain answered it or the operator has it; commands,
/// failures and what is still open do not, nor do Korvun's own sentences.
macro_rules! dialogue {
    () => {
        "t.role IN ('assistant', 'operator')
        OR (t.role = 'user' AND t.outcome IS NULL
            AND t.id NOT IN (SELECT i.turn FROM inbox i
                WHERE i.channel = ?1 AND i.conversation = ?2 AND i.state <= 1))
        OR (t.role = 'user' AND t.outcome = 'ok' AND EXISTS (SELECT 1 FROM turns a
                WHERE a.channel = ?1 AND a.conversation = ?2
                  AND coalesce(a.after, a.id) = +t.id AND a.role = 'assistant'))"
    };
}

/// A stretch of a conversation's turns, the newest first. The expression of the order is that of
/// the index `turns_order`.
macro_rules! stretch {
    ($which:expr) => {
        concat!(
            "SELECT t.id, t.after, t.session, t.role, t.sender_name, t.text, t.at_ms, t.outcome,
                    t.lead
             FROM turns t
             WHERE t.channel = ?1 AND t.conversation = ?2
               AND coalesce(t.after, t.id) >= ?6 AND coalesce(t.after, t.id) < ?3
               AND (?4 OR t.private = 0) AND (",
            $which,
            ") ORDER BY coalesce(t.after, t.id) DESC, t.id DESC LIMIT ?5"
        )
    };
}

/// Dialogue alone.
pub(super) const DIALOGUE: &str = stretch!(dialogue!());

/// What a model may be shown: dialogue, and what was brought back of an earlier session.
pub(super) const HISTORY: &str = stretch!(concat!(
    dialogue!(),
    " OR (t.role = 'system' AND t.recalled)"
));

/// Turns of a stretch, the oldest first; `span` is the first turn that belongs to it and the first
/// behind it.
fn read(
    connection: &Connection,
    sql: &str,
    conversation: &Conversation,
    (from, before): (i64, i64),
    limit: u32,
    audience: Audience,
) -> rusqlite::Result<Vec<Turn>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(
        params![
            conversation.channel.as_str(),
            &*conversation.id,
            before,
            private(audience),
            limit,
            from
        ],
        turn,
    )?;
    let mut turns = rows.collect::<rusqlite::Result<Vec<Turn>>>()?;
    turns.reverse();
    Ok(turns)
}

/// The last of a stretch that a model may be shown.
pub(super) fn history(
    connection: &Connection,
    conversation: &Conversation,
    span: (i64, i64),
    limit: u32,
    audience: Audience,
) -> rusqlite::Result<Vec<Turn>> {
    read(connection, HISTORY, conversation, span, limit, audience)
}

/// The last dialogue of a stretch.
pub(super) fn dialogue(
    connection: &Connection,
    conversation: &Conversation,
    span: (i64, i64),
    limit: u32,
    audience: Audience,
) -> rusqlite::Result<Vec<Turn>> {
    read(connection, DIALOGUE, conversation, span, limit, audience)
}

/// Notes that a turn of Korvun's own brings back an earlier session: the model is shown it, in
/// place of an earlier one of that kind behind the turn `first`.
pub(super) fn bring_back(
    tx: &Tx<'_>,
    conversation: &Conversation,
    first: i64,
    turn: i64,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "UPDATE turns SET recalled = (id = ?4) WHERE channel = ?1 AND conversation = ?2
           AND coalesce(after, id) >= ?3 AND role = 'system' AND (recalled OR id = ?4)",
    )?
    .execute(params![
        conversation.channel.as_str(),
        &*conversation.id,
        first,
        turn
    ])
    .map(drop)
}
