//! What is done with a message before any brain has it: the expiry of its session and commands.
//! [`House`] is asked on the store's thread, within the transaction that brings a message's turn
//! about, and must never wait; only a stop is carried out at once, on the thread that takes it in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::base::sync::lock;
use crate::channel::port::{Acceptance, Refusal};
use crate::domain::command::{self, Command, Said};
use crate::domain::cursor::Cursor;
use crate::domain::ids::Conversation;
use crate::domain::message::{Inbound, Language};
use crate::domain::session::{self, Expiry, Line, Span};
use crate::net::cancel::Cancel;
use crate::store::{Ack, Acks, Audience, Customs, Tx, TxResult, Work};

use super::setup::{Current, Setup};
use super::{run, Engine};

/// The command that a message is, if it is one.
pub(super) fn command_of(setup: &Setup, inbound: &Inbound) -> Option<Command> {
    command::read(
        &inbound.text,
        &setup.plan.offer(&inbound.conversation.channel),
    )
}

/// What Korvun says to a command, for people only.
fn ack(setup: &Setup, conversation: &Conversation, text: String) -> Ack {
    Ack {
        sender_name: setup
            .brain_of(conversation)
            .map_or("Korvun", |live| live.shown_name())
            .to_owned(),
        text,
        brings_back: None,
    }
}

/// What answers `/notes`, `/notes clear` and `/tools`. It is asked within the transaction that
/// stores the answer, so that what it changes and what it says are one commit.
fn of_the_brain(_tx: &Tx<'_>, _setup: &Setup, work: &Work, command: Command) -> TxResult<String> {
    let said = match command {
        Command::Tools => Said::NoTools,
        _ => Said::NoNotes,
    };
    Ok(said.text(work.language))
}

/// Judges messages by the configuration in force.
pub(super) struct House {
    current: Arc<Current>,
}

impl fmt::Debug for House {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("House")
    }
}

impl House {
    pub(super) fn new(current: Arc<Current>) -> House {
        House { current }
    }
}

impl Customs for House {
    fn judge(&self, tx: &Tx<'_>, work: &mut Work) -> TxResult<Option<Ack>> {
        let setup = self.current.load();
        expire(tx, &setup, work)?;
        if work.led {
            // Its command is done; this is what was said behind it.
            return Ok(None);
        }
        let offer = setup.plan.offer(&work.conversation.channel);
        let Some(command) = command::read(&work.text, &offer) else {
            return Ok(None);
        };
        let said = |said: Said<'_>| ack(&setup, &work.conversation, said.text(work.language));
        Ok(Some(match command {
            Command::New { rest } => {
                let ack = said(Said::Begun);
                begin(tx, work)?;
                if command.leaves_words(&work.text) {
                    tx.lead(work, rest)?;
                    return Ok(None);
                }
                ack
            }
            Command::Recall { most } => recall(tx, &setup, work, most.unwrap_or(u32::MAX))?,
            Command::Help => said(Said::Help(&offer)),
            Command::Start => said(Said::Start(&offer)),
            // One that waited after all: it was taken in before it was a command.
            Command::Stop => said(Said::NothingToStop),
            Command::Notes | Command::NotesClear | Command::Tools => ack(
                &setup,
                &work.conversation,
                of_the_brain(tx, &setup, work, command)?,
            ),
        }))
    }
}

/// Begins a new session where the message finds the active one over.
fn expire(tx: &Tx<'_>, setup: &Setup, work: &mut Work) -> TxResult<()> {
    let Some(settings) = &setup.plan.session else {
        return Ok(());
    };
    let expiry = Expiry {
        daily_at: settings.daily_at,
        idle: settings.idle,
    };
    if expiry == Expiry::default() {
        return Ok(());
    }
    let active = tx.session(&work.conversation)?;
    let said = tx.said(&work.conversation, &active, work.turn)?;
    let said = said.map(|(first, last)| Span { first, last });
    if session::over(&expiry, &setup.zone, said, work.received_at) {
        begin(tx, work)?;
    }
    Ok(())
}

/// Begins a session with this message.
fn begin(tx: &Tx<'_>, work: &mut Work) -> TxResult<()> {
    let session = tx.begin_session(&work.conversation, work.turn)?;
    tx.enter(work, session.number)
}

/// Brings the end of the last session back into one that has no dialogue yet.
fn recall(tx: &Tx<'_>, setup: &Setup, work: &Work, most: u32) -> TxResult<Ack> {
    let conversation = &work.conversation;
    let sentence = |said: Said<'_>| Ok(ack(setup, conversation, said.text(work.language)));
    let recall_max = setup.plan.offer(&conversation.channel).recall_max;
    if recall_max == 0 {
        return sentence(Said::RecallOff);
    }
    let active = tx.session(conversation)?;
    if tx.has_dialogue(conversation, &active, work.turn)? {
        return sentence(Said::RecallLate);
    }
    let audience = setup
        .brain_of(conversation)
        .map_or(Audience::Public, |live| run::audience_of(live));
    let turns = tx.recall(conversation, &active, most.clamp(1, recall_max), audience)?;
    if turns.is_empty() {
        return sentence(Said::RecallNothing);
    }
    let lines: Vec<Line> = turns
        .into_iter()
        .map(|turn| Line {
            role: turn.role,
            name: turn.sender_name,
            text: turn.text,
        })
        .collect();
    Ok(Ack {
        brings_back: Some(audience),
        ..ack(
            setup,
            conversation,
            session::recalled(&lines, work.chat, work.language),
        )
    })
}

/// The runs in work, by inbox row, so that a stop finds the one that it has cancelled.
#[derive(Default)]
pub(super) struct InWork(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    runs: BTreeMap<i64, Cancel>,
    stopped: BTreeSet<i64>,
}

/// Rows that were stopped before their run had said that it works on them: each is a run thread
/// between two statements.
const STOPPED_MOST: usize = 256;

impl InWork {
    /// A run works on `row` from now on, until what is returned goes.
    pub(super) fn enter<'a>(&'a self, row: i64, cancel: &Cancel) -> At<'a> {
        let mut rows = lock(&self.0);
        let stopped = rows.stopped.contains(&row);
        rows.runs.insert(row, cancel.clone());
        drop(rows);
        if stopped {
            cancel.raise();
        }
        At { rows: self, row }
    }

    /// Gives up the run on `row`, also one that has not yet begun.
    pub(super) fn stop(&self, row: i64) {
        let mut rows = lock(&self.0);
        rows.stopped.insert(row);
        if rows.stopped.len() > STOPPED_MOST {
            rows.stopped.pop_first();
        }
        let cancel = rows.runs.get(&row).cloned();
        drop(rows);
        if let Some(cancel) = cancel {
            cancel.raise();
        }
    }

    /// Whether the work on `row` was stopped.
    pub(super) fn stopped(&self, row: i64) -> bool {
        lock(&self.0).stopped.contains(&row)
    }
}

/// One run in work.
pub(super) struct At<'a> {
    rows: &'a InWork,
    row: i64,
}

impl Drop for At<'_> {
    fn drop(&mut self) {
        let mut rows = lock(&self.rows.0);
        rows.runs.remove(&self.row);
        rows.stopped.remove(&self.row);
    }
}

impl Engine {
    /// Carries out a stop: the message in work and its run are given up, those behind it go on.
    pub(super) fn stop_run(
        &self,
        setup: &Setup,
        inbound: &Inbound,
        cursor: Option<&Cursor>,
    ) -> Result<Acceptance, Refusal> {
        let parts = &self.0;
        let conversation = &inbound.conversation;
        let say =
            |said: Said<'_>, language: Language| ack(setup, conversation, said.text(language));
        let acks = Acks {
            stopped: say(Said::Stopped, inbound.language),
            nothing: say(Said::NothingToStop, inbound.language),
        };
        let meant_for = setup
            .brain_of(conversation)
            .map(|live| run::audience_of(live));
        let stopped = parts.store.stop_at(inbound, cursor, meant_for, acks);
        let accepted = stopped.map(|stopped| {
            match stopped.row {
                Some(row) => parts.in_work.stop(row),
                // What waited for a place may be what was cancelled.
                None => parts
                    .lanes
                    .renew(conversation, &setup.needs_of(conversation)),
            }
            stopped.accepted
        });
        self.report(&conversation.channel, accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_finds_its_run_before_and_after_it_begins() {
        let in_work = InWork::default();
        let (first, second) = (Cancel::new(), Cancel::new());
        in_work.stop(1);
        let at = in_work.enter(1, &first);
        assert!(first.raised() && in_work.stopped(1));
        drop(at);
        assert!(!in_work.stopped(1), "forgotten with its run");
        let at = in_work.enter(2, &second);
        assert!(!second.raised());
        in_work.stop(2);
        assert!(second.raised() && in_work.stopped(2));
        drop(at);
        for row in 0..2 * STOPPED_MOST as i64 {
            in_work.stop(row);
        }
        assert_eq!(lock(&in_work.0).stopped.len(), STOPPED_MOST);
    }
}
