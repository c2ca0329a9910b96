//! A message whose turn has come: expiry of its session and commands, by the customs that the
//! engine gives, in the transaction that brings its turn about. Runs on the store's thread; a
//! command's effect and its acknowledgement are one commit, whatever kills the process.

use std::sync::Arc;

use rusqlite::params;

use super::outbox::{self, Address};
use super::row::{self, Work};
use super::state::State;
use super::turns::{self, Audience, NewTurn, TurnOutcome};
use super::tx::TxResult;
use super::{sweep, Store, Tx};
use crate::domain::ids::Conversation;
use crate::domain::message::{Outgoing, Role};

/// What Korvun says to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The name that people see.
    pub sender_name: String,
    /// What is said.
    pub text: String,
    /// For whom the words are fit where they bring back an earlier session, which the model is
    /// shown too; `None` for all that is for people only.
    pub brings_back: Option<Audience>,
}

/// What is done with a message when its turn has come, before any brain has it.
pub trait Customs: Send + Sync + std::fmt::Debug {
    /// Judges the message whose turn it is and does in this transaction what it asks for. `None`
    /// leaves it to the brain, with whatever of `work` was changed; an acknowledgement closes it.
    /// It must never wait, and asked again for the same message it must come to the same.
    ///
    /// # Errors
    /// The database's; nothing of it is stored then.
    fn judge(&self, tx: &Tx<'_>, work: &mut Work) -> TxResult<Option<Ack>>;
}

/// The customs that somebody has given.
pub(super) type Given<'a> = Option<&'a dyn Customs>;

/// Closes a message with its acknowledgement.
pub(super) fn acknowledge(tx: &Tx<'_>, work: &Work, ack: &Ack) -> rusqlite::Result<Outgoing> {
    turns::close(
        tx,
        work.turn,
        Some(TurnOutcome::Ok),
        work.meant_for.unwrap_or(Audience::Private),
    )?;
    let outgoing = outbox::queue(
        tx,
        Address {
            inbox: Some(work.row),
            reply_to: work.reply_to.clone(),
            turn: &NewTurn {
                conversation: &work.conversation,
                session: work.session,
                role: Role::System,
                sender_name: &ack.sender_name,
                text: &ack.text,
                outcome: None,
                audience: ack.brings_back,
                brain: None,
                after: Some(work.turn),
            },
        },
    )?;
    if ack.brings_back.is_some() {
        let turn = tx
            .prepare_cached("SELECT turn FROM outbox WHERE id = ?1")?
            .query_row([outgoing.row], |row| row.get(0))?;
        let first = tx.session(&work.conversation)?.first_turn;
        turns::bring_back(tx, &work.conversation, first, turn)?;
    }
    row::close(tx, work.row, State::Answered, Some(outgoing.row))?;
    sweep::trim(tx)?;
    Ok(outgoing)
}

/// Judges the first message of a conversation; an acknowledgement has closed it. It stands in the
/// active session.
pub(super) fn judge(
    tx: &Tx<'_>,
    customs: Given<'_>,
    work: &mut Work,
) -> rusqlite::Result<Option<Outgoing>> {
    let Some(customs) = customs else {
        return Ok(None);
    };
    match customs.judge(tx, work)? {
        Some(ack) => acknowledge(tx, work, &ack).map(Some),
        None => Ok(None),
    }
}

/// Answers the commands that stand first in a conversation, up to the first message for a brain.
pub(super) fn settle(
    tx: &Tx<'_>,
    customs: Given<'_>,
    conversation: &Conversation,
) -> rusqlite::Result<Vec<Outgoing>> {
    let mut said = Vec::new();
    while let Some((State::Waiting, mut work)) = row::first(tx, conversation)? {
        tx.enter(&mut work, tx.session(conversation)?.number)?;
        match judge(tx, customs, &mut work)? {
            Some(outgoing) => {
                tx.count_inbox(-1);
                said.push(outgoing);
            }
            None => break,
        }
    }
    Ok(said)
}

impl Tx<'_> {
    /// Moves the message whose turn it is to the session `session`.
    ///
    /// # Errors
    /// The database's.
    pub fn enter(&self, work: &mut Work, session: i64) -> rusqlite::Result<()> {
        if work.session != session {
            self.prepare_cached("UPDATE turns SET session = ?2 WHERE id = ?1")?
                .execute(params![work.turn, session])?;
            work.session = session;
        }
        Ok(())
    }

    /// Notes that the first `lead` bytes of a message were a command that is done: only what
    /// stands behind them is said to the brain, and no command any more.
    ///
    /// # Errors
    /// The database's.
    pub fn lead(&self, work: &mut Work, lead: usize) -> rusqlite::Result<()> {
        self.prepare_cached("UPDATE turns SET lead = ?2 WHERE id = ?1")?
            .execute(params![work.turn, i64::try_from(lead).unwrap_or(i64::MAX)])?;
        work.text = work.text.get(lead..).unwrap_or_default().to_owned();
        work.led = true;
        Ok(())
    }
}

impl Store {
    /// Gives the customs by which messages are judged when their turn has come. Only the first
    /// call counts.
    pub fn follow(&self, customs: Arc<dyn Customs>) {
        // Whoever opened the store gives them once, before anything is accepted.
        let _ = self.customs.set(customs);
    }

    pub(super) fn customs(&self) -> Option<Arc<dyn Customs>> {
        self.customs.get().cloned()
    }
}
