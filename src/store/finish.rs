//! The end of the work on a message: outcome, answer, outbox and inbox in one commit. Runs on the
//! store's thread; a second answer to a message is never stored.

use rusqlite::OptionalExtension;

use super::customs::{self, Given};
use super::error::StoreError;
use super::outbox::{self, Address};
use super::state::State;
use super::turns::{self, Audience, NewTurn, TurnOutcome};
use super::{row, sweep, Store, Tx};
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::message::{Outcome, Outgoing, Role};

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
        /// Acknowledgements of commands that stood behind it, to be delivered too.
        said: Vec<Outgoing>,
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

fn finish(tx: &Tx<'_>, customs: Given<'_>, row: i64, end: &Finish) -> rusqlite::Result<Finished> {
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
    row::close(tx, row, State::from(end.outcome), answer)?;
    tx.count_inbox(-1);
    sweep::trim(tx)?;
    let mut waiting = row::waiting(tx, &conversation)?;
    let mut said = Vec::new();
    if waiting > 0 {
        said = customs::settle(tx, customs, &conversation)?;
        waiting = waiting.saturating_sub(u32::try_from(said.len()).unwrap_or(u32::MAX));
    }
    Ok(Finished::Closed {
        outgoing,
        said,
        waiting,
    })
}

impl Store {
    /// Ends the work on a message: outcome, answer, outbox and inbox in one commit.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`]. After any error it may be asked again; a second answer is never
    /// stored.
    pub fn finish(&self, row: i64, end: Finish) -> Result<Finished, StoreError> {
        let customs = self.customs();
        self.write(move |tx| finish(tx, customs.as_deref(), row, &end))
    }
}
