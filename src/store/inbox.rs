//! The inbox: accepting messages. Runs on the store's thread; nothing here decides what the
//! answer is.

use rusqlite::{params, Connection, OptionalExtension};

use super::claim::give_back_later;
use super::customs::{self, Given};
use super::error::StoreError;
use super::ids::inbox_id;
use super::outbox::{self, Address};
use super::row::{self, Work};
use super::state::State;
use super::turns::{self, Audience, NewTurn, TurnOutcome};
use super::{cursor, sweep, Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::cursor::Cursor;
use crate::domain::ids::MessageId;
use crate::domain::message::{ChatKind, Inbound, Outgoing, Role};

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
    /// A command: committed as answered, with its acknowledgement in the outbox.
    Answered {
        /// Its id.
        message_id: MessageId,
        /// The acknowledgement, and those of commands that waited behind what it stopped.
        said: Vec<Outgoing>,
    },
    /// Known already; nothing was stored.
    Duplicate {
        /// The id of the first.
        message_id: MessageId,
    },
    /// The inbox (or the outbox behind it) has no room; nothing was stored.
    Full,
    /// Too much that was said in its conversation could not be delivered yet; nothing was stored,
    /// and the message is left behind.
    Crowded,
}

fn chat_word(chat: ChatKind) -> &'static str {
    match chat {
        ChatKind::Direct => "direct",
        ChatKind::Group => "group",
        ChatKind::Program => "program",
    }
}

/// Unfinished rows in the whole database.
pub(super) fn count_open(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM inbox WHERE state <= 1", [], |row| {
        row.get(0)
    })
}

/// Finds a key.
pub(super) const SAME_KEY: &str =
    "SELECT id, received_ms FROM inbox WHERE channel = ?1 AND dedup = ?2";

/// The row that had this key within the window. An older one loses it.
pub(super) fn duplicate(tx: &Tx<'_>, inbound: &Inbound) -> rusqlite::Result<Option<i64>> {
    let Some(key) = &inbound.dedup else {
        return Ok(None);
    };
    let known = tx
        .prepare_cached(SAME_KEY)?
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
    customs: Given<'_>,
    inbound: Inbound,
    claim: Claim,
    meant_for: Option<Audience>,
    busy: &Excuse,
) -> rusqlite::Result<Accepted> {
    let limits = &tx.facts.limits;
    if let Some(row) = duplicate(tx, &inbound)? {
        return Ok(Accepted::Duplicate {
            message_id: inbox_id(&tx.facts.epoch, row),
        });
    }
    if tx.inbox_open() >= i64::from(limits.inbox_rows)
        || tx.outbox_open() >= i64::from(limits.outbox_rows)
    {
        return Ok(Accepted::Full);
    }
    if outbox::crowded(tx, &inbound.conversation)? {
        return Ok(Accepted::Crowded);
    }
    let before = row::waiting(tx, &inbound.conversation)?;
    // The first of them is in work, or about to be.
    if before > limits.waiting_per_conversation {
        return excuse(tx, &inbound, busy);
    }
    let mut work = store(tx, inbound, meant_for)?;
    let message_id = work.message_id.clone();
    if before == 0 {
        // Its turn has come at once.
        if let Some(outgoing) = customs::judge(tx, customs, &mut work)? {
            return Ok(Accepted::Answered {
                message_id,
                said: vec![outgoing],
            });
        }
    }
    tx.count_inbox(1);
    let claimed = claim == Claim::IfIdle && before == 0;
    if claimed {
        tx.prepare_cached("UPDATE inbox SET state = 1, attempts = 1 WHERE id = ?1")?
            .execute([work.row])?;
    }
    Ok(Accepted::New {
        message_id,
        waiting: before + 1,
        work: claimed.then_some(work),
    })
}

/// Stores a message that waits.
pub(super) fn store(
    tx: &Tx<'_>,
    inbound: Inbound,
    meant_for: Option<Audience>,
) -> rusqlite::Result<Work> {
    let session = tx.session(&inbound.conversation)?.number;
    let turn = user_turn(tx, &inbound, session, meant_for, None)?;
    let row = insert(tx, &inbound, turn, State::Waiting)?;
    Ok(Work {
        row,
        message_id: inbox_id(&tx.facts.epoch, row),
        conversation: inbound.conversation,
        turn,
        session,
        sender_id: inbound.sender_id,
        sender_name: inbound.sender_name,
        text: inbound.text,
        attachment: inbound.attachment,
        language: inbound.language,
        chat: inbound.chat,
        reply_to: inbound.reply_to,
        received_at: tx.now,
        meant_for,
        attempt: 1,
        led: false,
    })
}

fn excuse(tx: &Tx<'_>, inbound: &Inbound, busy: &Excuse) -> rusqlite::Result<Accepted> {
    // No brain ever has it: no model is shown it.
    let session = tx.session(&inbound.conversation)?.number;
    let turn = user_turn(tx, inbound, session, None, Some(TurnOutcome::Failed))?;
    let row = insert(tx, inbound, turn, State::Excused)?;
    let sentence = NewTurn {
        conversation: &inbound.conversation,
        session,
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
    row::close(tx, row, State::Excused, Some(outgoing.row))?;
    sweep::trim(tx)?;
    Ok(Accepted::Busy {
        message_id: inbox_id(&tx.facts.epoch, row),
        outgoing,
    })
}

fn user_turn(
    tx: &Tx<'_>,
    inbound: &Inbound,
    session: i64,
    audience: Option<Audience>,
    outcome: Option<TurnOutcome>,
) -> rusqlite::Result<i64> {
    turns::insert(
        tx,
        &NewTurn {
            conversation: &inbound.conversation,
            session,
            role: Role::User,
            sender_name: &inbound.sender_name,
            text: &inbound.text,
            outcome,
            audience,
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

impl Store {
    /// Takes a message in: all of it in one commit, with its duplicates recognised, its bounds
    /// kept and, where `claim` allows it and the conversation is idle, its work begun. `meant_for`
    /// is the audience of the brain that it is said to, where there is one: it stays with the
    /// message, whichever brain takes it up later.
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
        meant_for: Option<Audience>,
        busy: &Excuse,
    ) -> Result<Accepted, StoreError> {
        self.accept_at(inbound, None, claim, meant_for, busy)
    }

    /// As [`Store::accept`], and moves `cursor` in the same commit, unless there was no room.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::accept`].
    pub fn accept_at(
        &self,
        inbound: &Inbound,
        cursor: Option<&Cursor>,
        claim: Claim,
        meant_for: Option<Audience>,
        busy: &Excuse,
    ) -> Result<Accepted, StoreError> {
        let (inbound, cursor, busy) = (inbound.clone(), cursor.cloned(), busy.clone());
        let customs = self.customs();
        self.write_or(
            move |tx| {
                let channel = inbound.conversation.channel.clone();
                let accepted = accept(tx, customs.as_deref(), inbound, claim, meant_for, &busy)?;
                if let (Some(at), false) = (&cursor, accepted == Accepted::Full) {
                    cursor::set(tx, &channel, at)?;
                }
                Ok(accepted)
            },
            |accepted| match accepted {
                Accepted::New {
                    work: Some(work), ..
                } => Some(give_back_later(work.row)),
                _ => None,
            },
        )
    }
}
