//! The inbox: each accepted message from its commit to the one thing it ends in. Writes run on
//! the store's thread; nothing here decides what the answer is.

use std::sync::Arc;

use rusqlite::{params, Connection, OptionalExtension};

use super::error::StoreError;
use super::outbox::{self, Address, Delivery};
use super::queue::Lazy;
use super::turns::{self, Audience, NewTurn, TurnOutcome};
use super::{sweep, Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::ids::{ChannelName, Conversation, MessageId};
use crate::domain::message::{ChatKind, Inbound, Language, Outcome, Outgoing, Role};

/// Where a message stands. The numbers are stored; those up to 1 are unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Accepted, not begun.
    Waiting = 0,
    /// A run works on it.
    Working = 1,
    /// Ended in an answer or an acknowledgement.
    Answered = 2,
    /// Ended in an honest sentence.
    Excused = 3,
    /// Kept for the operator.
    Operator = 4,
    /// Cancelled by the user.
    Cancelled = 5,
    /// Given up after too many attempts.
    SetAside = 6,
}

impl State {
    /// The word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "queued",
            State::Working => "working",
            State::Answered => Outcome::Answered.word(),
            State::Excused => Outcome::Excused.word(),
            State::Operator => Outcome::Operator.word(),
            State::Cancelled => Outcome::Cancelled.word(),
            State::SetAside => Outcome::SetAside.word(),
        }
    }

    /// Whether something is still to come.
    #[must_use]
    pub fn open(self) -> bool {
        matches!(self, State::Waiting | State::Working)
    }

    fn of_number(number: i64) -> State {
        match number {
            0 => State::Waiting,
            1 => State::Working,
            2 => State::Answered,
            3 => State::Excused,
            4 => State::Operator,
            5 => State::Cancelled,
            _ => State::SetAside,
        }
    }
}

impl From<Outcome> for State {
    fn from(outcome: Outcome) -> State {
        match outcome {
            Outcome::Answered => State::Answered,
            Outcome::Excused => State::Excused,
            Outcome::Operator => State::Operator,
            Outcome::Cancelled => State::Cancelled,
            Outcome::SetAside => State::SetAside,
        }
    }
}

/// Whether an accepted message may be begun in the same commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Where its conversation has nothing unfinished: places for the run are held.
    IfIdle,
    /// Not: it waits.
    No,
}

/// The sentence for a message that finds too many before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excuse {
    /// What is said.
    pub text: String,
    /// The name that people see.
    pub sender_name: String,
}

/// What became of a message on its way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Committed.
    New {
        /// Its id.
        message_id: MessageId,
        /// Unfinished messages of its conversation, itself included.
        waiting: u32,
        /// The work on it, where it was claimed in the same commit.
        work: Option<Work>,
    },
    /// Too many wait in its conversation: committed as excused, with the sentence in the outbox.
    Busy {
        /// Its id.
        message_id: MessageId,
        /// The sentence.
        outgoing: Outgoing,
    },
    /// Known already; nothing was stored.
    Duplicate {
        /// The id of the first.
        message_id: MessageId,
    },
    /// The inbox has no room; nothing was stored.
    Full,
}

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
    /// Which attempt this is, from 1; already committed.
    pub attempt: u32,
}

/// How the work on a message ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// How it ended.
    pub outcome: Outcome,
    /// What is said, if anything is.
    pub reply: Option<Reply>,
    /// For whom question and answer are fit from now on; [`Audience::Private`] where a private
    /// brain had them or it is not known.
    pub audience: Audience,
}

/// What is said at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Who speaks: a brain, or Korvun itself.
    pub role: Role,
    /// The name that people see.
    pub sender_name: String,
    /// The brain that answers.
    pub brain: Option<String>,
    /// What is said.
    pub text: String,
}

/// What became of the end of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Closed, with all that belongs to it, in one commit.
    Closed {
        /// What is to be delivered.
        outgoing: Option<Outgoing>,
        /// Unfinished messages of the conversation.
        waiting: u32,
    },
    /// Refused: the row was not in work. Nothing was stored.
    NotWorking {
        /// Where it stands.
        state: State,
        /// Its first answer, where that is still to be delivered.
        outgoing: Option<Outgoing>,
    },
    /// Refused: the row is gone (its conversation was deleted). Nothing was stored.
    Gone,
}

/// Where a message stands, for those who ask by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageState {
    /// Where it stands.
    pub state: State,
    /// How far its answer's delivery (or its own) has come.
    pub delivery: Option<Delivery>,
    /// What was answered, as long as it is stored.
    pub answer: Option<Answer>,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its own id.
    pub message_id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// The name that people see.
    pub sender_name: String,
    /// What was said.
    pub text: String,
}

/// The id of an inbox row's message.
pub(super) fn inbox_id(epoch: &str, row: i64) -> MessageId {
    MessageId::new(&format!("{epoch}-i{row}"))
}

/// The id of an outbox row's message.
pub(super) fn outbox_id(epoch: &str, row: i64) -> MessageId {
    MessageId::new(&format!("{epoch}-o{row}"))
}

/// What an id speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Inbox(i64),
    Outbox(i64),
}

/// Reads an id back; none for all that this database never gave out.
fn parse_id(epoch: &str, id: &MessageId) -> Option<Known> {
    let rest = id.as_str().strip_prefix(epoch)?.strip_prefix('-')?;
    let digits = rest.get(1..)?;
    // One spelling for each id: no sign, no leading zero.
    if !digits.starts_with(|c: char| matches!(c, '1'..='9')) {
        return None;
    }
    let row = digits.parse().ok()?;
    match rest.as_bytes().first() {
        Some(b'i') => Some(Known::Inbox(row)),
        Some(b'o') => Some(Known::Outbox(row)),
        _ => None,
    }
}

fn chat_word(chat: ChatKind) -> &'static str {
    match chat {
        ChatKind::Direct => "direct",
        ChatKind::Group => "group",
        ChatKind::Program => "program",
    }
}

fn chat_of_word(word: &str) -> ChatKind {
    match word {
        "direct" => ChatKind::Direct,
        "program" => ChatKind::Program,
        // The most careful reading of an unknown word.
        _ => ChatKind::Group,
    }
}

/// Sets rows that were in work to waiting; when the store opens, nobody works.
pub(super) fn recover(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .execute(
            "UPDATE inbox SET state = 0 WHERE state <= 1 AND state = 1",
            [],
        )
        .map(|rows| rows as u64)
}

/// Unfinished rows in the whole database.
pub(super) fn count_open(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM inbox WHERE state <= 1", [], |row| {
        row.get(0)
    })
}

/// Unfinished rows of one conversation.
fn waiting(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<u32> {
    tx.prepare_cached(
        "SELECT count(*) FROM inbox WHERE channel = ?1 AND conversation = ?2 AND state <= 1",
    )?
    .query_row(
        params![conversation.channel.as_str(), &*conversation.id],
        |row| row.get(0),
    )
}

/// The row that had this key within the window. An older one loses it.
fn duplicate(tx: &Tx<'_>, inbound: &Inbound) -> rusqlite::Result<Option<i64>> {
    let Some(key) = &inbound.dedup else {
        return Ok(None);
    };
    let known = tx
        .prepare_cached("SELECT id, received_ms FROM inbox WHERE channel = ?1 AND dedup = ?2")?
        .query_row(params![inbound.conversation.channel.as_str(), key], |row| {
            Ok((row.get::<_, i64>(0)?, UnixMs(row.get(1)?)))
        })
        .optional()?;
    match known {
        Some((row, at)) if tx.now.since(at) >= tx.facts.limits.dedup_window => {
            tx.prepare_cached("UPDATE inbox SET dedup = NULL WHERE id = ?1")?
                .execute([row])?;
            Ok(None)
        }
        Some((row, _)) => Ok(Some(row)),
        None => Ok(None),
    }
}

fn accept(
    tx: &Tx<'_>,
    inbound: Inbound,
    claim: Claim,
    busy: &Excuse,
) -> rusqlite::Result<Accepted> {
    let limits = &tx.facts.limits;
    if let Some(row) = duplicate(tx, &inbound)? {
        return Ok(Accepted::Duplicate {
            message_id: inbox_id(&tx.facts.epoch, row),
        });
    }
    if tx.inbox_open() >= i64::from(limits.inbox_rows) {
        return Ok(Accepted::Full);
    }
    let before = waiting(tx, &inbound.conversation)?;
    // The first of them is in work, or about to be.
    if before > limits.waiting_per_conversation {
        return excuse(tx, &inbound, busy);
    }
    let turn = user_turn(tx, &inbound, None)?;
    let claimed = claim == Claim::IfIdle && before == 0;
    let state = if claimed {
        State::Working
    } else {
        State::Waiting
    };
    let row = insert(tx, &inbound, turn, state)?;
    tx.count_inbox(1);
    let message_id = inbox_id(&tx.facts.epoch, row);
    let work = claimed.then(|| Work {
        row,
        message_id: message_id.clone(),
        conversation: inbound.conversation,
        turn,
        session: 1,
        sender_id: inbound.sender_id,
        sender_name: inbound.sender_name,
        text: inbound.text,
        attachment: inbound.attachment,
        language: inbound.language,
        chat: inbound.chat,
        reply_to: inbound.reply_to,
        received_at: tx.now,
        attempt: 1,
    });
    Ok(Accepted::New {
        message_id,
        waiting: before + 1,
        work,
    })
}

fn excuse(tx: &Tx<'_>, inbound: &Inbound, busy: &Excuse) -> rusqlite::Result<Accepted> {
    let turn = user_turn(tx, inbound, Some(TurnOutcome::Failed))?;
    let row = insert(tx, inbound, turn, State::Excused)?;
    let sentence = NewTurn {
        conversation: &inbound.conversation,
        session: 1,
        role: Role::System,
        sender_name: &busy.sender_name,
        text: &busy.text,
        outcome: None,
        audience: None,
        brain: None,
        after: Some(turn),
    };
    let outgoing = outbox::queue(
        tx,
        Address {
            inbox: Some(row),
            reply_to: inbound.reply_to.clone(),
            turn: &sentence,
        },
    )?;
    close(tx, row, State::Excused, Some(outgoing.row))?;
    Ok(Accepted::Busy {
        message_id: inbox_id(&tx.facts.epoch, row),
        outgoing,
    })
}

fn user_turn(
    tx: &Tx<'_>,
    inbound: &Inbound,
    outcome: Option<TurnOutcome>,
) -> rusqlite::Result<i64> {
    turns::insert(
        tx,
        &NewTurn {
            conversation: &inbound.conversation,
            session: 1,
            role: Role::User,
            sender_name: &inbound.sender_name,
            text: &inbound.text,
            outcome,
            audience: None,
            brain: None,
            after: None,
        },
    )
}

fn insert(tx: &Tx<'_>, inbound: &Inbound, turn: i64, state: State) -> rusqlite::Result<i64> {
    tx.prepare_cached(
        "INSERT INTO inbox(turn, channel, conversation, dedup, sender_id, language, chat,
                           attachment, reply_to, received_ms, attempts, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?
    .insert(params![
        turn,
        inbound.conversation.channel.as_str(),
        &*inbound.conversation.id,
        inbound.dedup,
        inbound.sender_id,
        inbound.language.tag(),
        chat_word(inbound.chat),
        inbound.attachment,
        inbound.reply_to,
        tx.now.0,
        i64::from(state == State::Working),
        state as i64,
    ])
}

fn close(tx: &Tx<'_>, row: i64, state: State, answer: Option<i64>) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE inbox SET state = ?2, answer = ?3, finished_ms = ?4 WHERE id = ?1")?
        .execute(params![row, state as i64, answer, tx.now.0])
        .map(drop)
}

fn claim(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<Option<Work>> {
    let first = tx
        .prepare_cached(
            "SELECT i.id, i.state, i.turn, t.session, i.sender_id, t.sender_name, t.text,
                    i.attachment, i.language, i.chat, i.reply_to, i.received_ms, i.attempts
             FROM inbox i JOIN turns t ON t.id = i.turn
             WHERE i.channel = ?1 AND i.conversation = ?2 AND i.state <= 1
             ORDER BY i.id LIMIT 1",
        )?
        .query_row(
            params![conversation.channel.as_str(), &*conversation.id],
            |row| {
                let id = row.get(0)?;
                let work = Work {
                    row: id,
                    message_id: inbox_id(&tx.facts.epoch, id),
                    conversation: conversation.clone(),
                    turn: row.get(2)?,
                    session: row.get(3)?,
                    sender_id: row.get(4)?,
                    sender_name: row.get(5)?,
                    text: row.get(6)?,
                    attachment: row.get(7)?,
                    language: Language::of_tag(row.get_ref(8)?.as_str()?),
                    chat: chat_of_word(row.get_ref(9)?.as_str()?),
                    reply_to: row.get(10)?,
                    received_at: UnixMs(row.get(11)?),
                    attempt: row.get::<_, u32>(12)?.saturating_add(1),
                };
                Ok((State::of_number(row.get(1)?), work))
            },
        )
        .optional()?;
    // The lowest unfinished row is the one in work wherever there is one.
    let Some((State::Waiting, work)) = first else {
        return Ok(None);
    };
    tx.prepare_cached("UPDATE inbox SET state = 1, attempts = attempts + 1 WHERE id = ?1")?
        .execute([work.row])?;
    Ok(Some(work))
}

/// Sets a row in work back to waiting, its attempt given back.
fn give_back(tx: &Tx<'_>, row: i64) -> rusqlite::Result<bool> {
    tx.prepare_cached(
        "UPDATE inbox SET state = 0, attempts = max(attempts - 1, 0) WHERE id = ?1 AND state = 1",
    )?
    .execute([row])
    .map(|rows| rows > 0)
}

fn give_back_later(row: i64) -> Lazy {
    Box::new(move |tx| give_back(tx, row).map(drop))
}

fn finish(tx: &Tx<'_>, row: i64, end: &Finish) -> rusqlite::Result<Finished> {
    let found = tx
        .prepare_cached(
            "SELECT i.channel, i.conversation, i.state, i.turn, t.session, i.reply_to, i.answer
             FROM inbox i LEFT JOIN turns t ON t.id = i.turn WHERE i.id = ?1",
        )?
        .query_row([row], |columns| {
            let channel = ChannelName::new(columns.get_ref(0)?.as_str()?);
            Ok((
                Conversation::new(&channel, columns.get_ref(1)?.as_str()?),
                State::of_number(columns.get(2)?),
                columns.get::<_, i64>(3)?,
                columns.get::<_, Option<i64>>(4)?.unwrap_or(1),
                columns.get::<_, Option<String>>(5)?,
                columns.get::<_, Option<i64>>(6)?,
            ))
        })
        .optional()?;
    let Some((conversation, state, turn, session, reply_to, answer)) = found else {
        return Ok(Finished::Gone);
    };
    if state != State::Working {
        let outgoing = match answer {
            Some(answer) => outbox::outgoing(tx, &tx.facts.epoch, answer)?,
            None => None,
        };
        return Ok(Finished::NotWorking { state, outgoing });
    }
    turns::close(tx, turn, TurnOutcome::of(end.outcome), end.audience)?;
    let outgoing = match &end.reply {
        Some(reply) => Some(outbox::queue(
            tx,
            Address {
                inbox: Some(row),
                reply_to,
                turn: &NewTurn {
                    conversation: &conversation,
                    session,
                    role: reply.role,
                    sender_name: &reply.sender_name,
                    text: &reply.text,
                    outcome: None,
                    audience: Some(end.audience),
                    brain: reply.brain.as_deref(),
                    after: Some(turn),
                },
            },
        )?),
        None => None,
    };
    let answer = outgoing.as_ref().map(|outgoing| outgoing.row);
    close(tx, row, State::from(end.outcome), answer)?;
    tx.count_inbox(-1);
    sweep::trim(tx, row)?;
    Ok(Finished::Closed {
        outgoing,
        waiting: waiting(tx, &conversation)?,
    })
}

fn message(
    connection: &Connection,
    epoch: &str,
    id: &MessageId,
) -> rusqlite::Result<Option<MessageState>> {
    let (state, answer) = match parse_id(epoch, id) {
        None => return Ok(None),
        Some(Known::Outbox(row)) => {
            let found = connection
                .prepare_cached(
                    "SELECT i.state FROM outbox o LEFT JOIN inbox i ON i.id = o.inbox
                     WHERE o.id = ?1",
                )?
                .query_row([row], |columns| columns.get::<_, Option<i64>>(0))
                .optional()?;
            match found {
                None => return Ok(None),
                // What answers nothing was said by the operator.
                Some(state) => (state.map_or(State::Operator, State::of_number), Some(row)),
            }
        }
        Some(Known::Inbox(row)) => {
            let found = connection
                .prepare_cached("SELECT state, answer FROM inbox WHERE id = ?1")?
                .query_row([row], |columns| {
                    Ok((
                        State::of_number(columns.get(0)?),
                        columns.get::<_, Option<i64>>(1)?,
                    ))
                })
                .optional()?;
            match found {
                None => return Ok(None),
                Some(found) => found,
            }
        }
    };
    let said = match answer {
        None => None,
        Some(row) => connection
            .prepare_cached(
                "SELECT o.state, t.role, t.sender_name, t.text
                 FROM outbox o LEFT JOIN turns t ON t.id = o.turn WHERE o.id = ?1",
            )?
            .query_row([row], |columns| {
                let delivery = Delivery::of_number(columns.get(0)?);
                let Some(role) = columns.get_ref(1)?.as_str_or_null()? else {
                    return Ok((delivery, None));
                };
                let answer = Answer {
                    message_id: outbox_id(epoch, row),
                    role: turns::role(role),
                    sender_name: columns.get(2)?,
                    text: columns.get(3)?,
                };
                Ok((delivery, Some(answer)))
            })
            .optional()?,
    };
    let (delivery, answer) = match said {
        None => (None, None),
        Some((delivery, answer)) => (Some(delivery), answer),
    };
    Ok(Some(MessageState {
        state,
        delivery,
        answer,
    }))
}

impl Store {
    /// Takes a message in: all of it in one commit, with its duplicates recognised, its bounds
    /// kept and, where `claim` allows it and the conversation is idle, its work begun.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`]. A claim whose caller has gone by the time it is committed is given
    /// back; the message itself stays.
    pub fn accept(
        &self,
        inbound: &Inbound,
        claim: Claim,
        busy: &Excuse,
    ) -> Result<Accepted, StoreError> {
        let (inbound, busy) = (inbound.clone(), busy.clone());
        self.write_or(
            move |tx| accept(tx, inbound, claim, &busy),
            |accepted| match accepted {
                Accepted::New {
                    work: Some(work), ..
                } => Some(give_back_later(work.row)),
                _ => None,
            },
        )
    }

    /// Begins the work on the conversation's first waiting message, unless one is in work. The
    /// attempt is committed before this comes back.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`]. A claim whose caller has gone by the time it is committed is given
    /// back.
    pub fn claim(&self, conversation: &Conversation) -> Result<Option<Work>, StoreError> {
        let conversation = conversation.clone();
        self.write_or(
            move |tx| claim(tx, &conversation),
            |work| work.map(|work| give_back_later(work.row)),
        )
    }

    /// Ends the work on a message: outcome, answer, outbox and inbox in one commit.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`]. After any error it may be asked again; a second answer is never
    /// stored.
    pub fn finish(&self, row: i64, end: Finish) -> Result<Finished, StoreError> {
        self.write(move |tx| finish(tx, row, &end))
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

    /// Where a message stands; none for an id that is unknown or no longer kept.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn message(&self, id: &MessageId) -> Result<Option<MessageState>, StoreError> {
        let (facts, id) = (Arc::clone(&self.facts), id.clone());
        self.read(move |connection| message(connection, &facts.epoch, &id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_nothing_else_does() {
        let epoch = "00ff";
        for (id, known) in [
            ("00ff-i1", Some(Known::Inbox(1))),
            ("00ff-o9223372036854775807", Some(Known::Outbox(i64::MAX))),
            ("00ff-o9223372036854775808", None),
            ("00ff-i01", None),
            ("00ff-i+1", None),
            ("00ff-i0", None),
            ("00ff-i-1", None),
            ("00ff-i1 ", None),
            ("00ff-i", None),
            ("00ff-x1", None),
            ("00ff-ñ1", None),
            ("00ff-", None),
            ("00fe-i1", None),
            ("", None),
        ] {
            assert_eq!(parse_id(epoch, &MessageId::new(id)), known, "{id}");
        }
        assert_eq!(inbox_id(epoch, 7).as_str(), "00ff-i7");
        assert_eq!(outbox_id(epoch, 7).as_str(), "00ff-o7");
    }
}
