//! Stopping: a message that never waits, and takes the one before all others with it. Runs on the
//! store's thread; what it cancels and what it says are one commit.

use super::customs::{self, Ack, Given};
use super::error::StoreError;
use super::ids::inbox_id;
use super::inbox::{self, Accepted};
use super::state::State;
use super::turns::{self, Audience, TurnOutcome};
use super::{cursor, outbox, row, Store, Tx};
use crate::domain::cursor::Cursor;
use crate::domain::ids::MessageId;
use crate::domain::message::Inbound;

/// What is said to a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks {
    /// A message was cancelled.
    pub stopped: Ack,
    /// There was none.
    pub nothing: Ack,
}

/// What became of a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// What became of the message that asked for it.
    pub accepted: Accepted,
    /// The inbox row that was in work and is cancelled: its run has nothing to do any more.
    pub row: Option<i64>,
    /// The message that is cancelled, with the name under which its sender waits where it does.
    pub given_up: Option<(MessageId, Option<String>)>,
}

fn stop(
    tx: &Tx<'_>,
    customs: Given<'_>,
    inbound: Inbound,
    meant_for: Option<Audience>,
    acks: &Acks,
) -> rusqlite::Result<Stopped> {
    let refused = |accepted| Stopped {
        accepted,
        row: None,
        given_up: None,
    };
    if let Some(row) = inbox::duplicate(tx, &inbound)? {
        return Ok(refused(Accepted::Duplicate {
            message_id: inbox_id(&tx.facts.epoch, row),
        }));
    }
    // It leaves nothing unfinished, so a full inbox is no reason to refuse it.
    if tx.outbox_open() >= i64::from(tx.facts.limits.outbox_rows) {
        return Ok(refused(Accepted::Full));
    }
    if outbox::crowded(tx, &inbound.conversation)? {
        return Ok(refused(Accepted::Crowded));
    }
    let conversation = inbound.conversation.clone();
    let first = row::first(tx, &conversation)?;
    let work = inbox::store(tx, inbound, meant_for)?;
    let ack = match &first {
        Some(_) => &acks.stopped,
        None => &acks.nothing,
    };
    let mut said = vec![customs::acknowledge(tx, &work, ack)?];
    let (mut working, mut given_up) = (None, None);
    if let Some((state, first)) = first {
        turns::close(
            tx,
            first.turn,
            Some(TurnOutcome::Cancelled),
            Audience::Private,
        )?;
        row::close(tx, first.row, State::Cancelled, None)?;
        tx.count_inbox(-1);
        working = (state == State::Working).then_some(first.row);
        said.extend(customs::settle(tx, customs, &conversation)?);
        given_up = Some((first.message_id, first.reply_to));
    }
    Ok(Stopped {
        accepted: Accepted::Answered {
            message_id: work.message_id,
            said,
        },
        row: working,
        given_up,
    })
}

impl Store {
    /// Takes in a message that asks to stop: it is answered, and the first unfinished message of
    /// its conversation, in work or next, is cancelled, in one commit that moves `cursor` too. A
    /// repetition does nothing.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn stop_at(
        &self,
        inbound: &Inbound,
        cursor: Option<&Cursor>,
        meant_for: Option<Audience>,
        acks: Acks,
    ) -> Result<Stopped, StoreError> {
        let (inbound, cursor) = (inbound.clone(), cursor.cloned());
        let customs = self.customs();
        self.write(move |tx| {
            let channel = inbound.conversation.channel.clone();
            let stopped = stop(tx, customs.as_deref(), inbound, meant_for, &acks)?;
            if let (Some(at), false) = (&cursor, stopped.accepted == Accepted::Full) {
                cursor::set(tx, &channel, at)?;
            }
            Ok(stopped)
        })
    }
}
