//! Makes messages move: what is accepted is stored, run, answered and delivered. Knows plug-ins by
//! their traits only.

mod agent;
mod commands;
pub mod delivery;
pub mod janitor;
pub mod lanes;
pub mod orchestrator;
mod run;
pub mod setup;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::base::clock::{Clock, Deadline};
use crate::base::sync::{lock, Stop};
use crate::channel::port::{Acceptance, Answer, Intake, Refusal};
use crate::domain::command::Command;
use crate::domain::cursor::{Cursor, Reached};
use crate::domain::excuse::Excuse;
use crate::domain::ids::{ChannelName, MessageId};
use crate::domain::lanes::After;
use crate::domain::limits::Limits;
use crate::domain::message::Inbound;
use crate::store::{self, Accepted, Claim, Store, StoreError};
use crate::watch::{metrics, Dropped, Fault, Watch};

use commands::{House, InWork};
use delivery::Delivery;
use lanes::Lanes;
use setup::{Current, Setup};

/// The engine. Clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

/// What the parts of the engine share.
struct Parts {
    store: Arc<Store>,
    watch: Watch,
    clock: Arc<dyn Clock>,
    limits: Limits,
    current: Arc<Current>,
    lanes: Lanes,
    delivery: Arc<Delivery>,
    /// Raised when nothing is taken in any more.
    closing: Stop,
    /// Raised when runs in work are cut.
    stop: Stop,
    /// Rows in work whose attempt has been given back already.
    forgiven: Mutex<BTreeSet<i64>>,
    /// Rows in work, for those who stop them.
    in_work: InWork,
    /// Raised when notes were cleared whose bytes are still in the files.
    cleared: Arc<AtomicBool>,
}

impl Engine {
    /// An engine over an open store. It takes messages at once; [`Engine::refill`] takes up what
    /// an earlier process left.
    #[must_use]
    pub fn new(
        setup: Setup,
        store: Arc<Store>,
        watch: Watch,
        clock: Arc<dyn Clock>,
        limits: &Limits,
    ) -> Engine {
        let delivery = Arc::new(Delivery::new(
            store.clone(),
            watch.clone(),
            clock.clone(),
            limits,
        ));
        let capacities: Vec<_> = setup.capacities().collect();
        let current = Arc::new(Current::new(setup));
        let cleared = Arc::new(AtomicBool::new(false));
        store.follow(Arc::new(House::new(current.clone(), cleared.clone())));
        let parts = Arc::new_cyclic(|weak: &std::sync::Weak<Parts>| {
            let weak = weak.clone();
            let lanes = Lanes::new(limits, clock.clone(), move |job| {
                if let Some(parts) = weak.upgrade() {
                    parts.perform(job);
                }
            });
            lanes.set_capacities(capacities);
            Parts {
                store,
                watch,
                clock,
                limits: limits.clone(),
                current,
                lanes,
                delivery,
                closing: Stop::new(),
                stop: Stop::new(),
                forgiven: Mutex::default(),
                in_work: InWork::default(),
                cleared,
            }
        });
        Engine(parts)
    }

    /// The setup in force.
    #[must_use]
    pub fn setup(&self) -> Arc<Setup> {
        self.0.current.load()
    }

    /// Puts a setup in force whose channels are the same: grants made stricter act at once, all else
    /// from the next run on.
    pub fn swap(&self, setup: Setup) {
        self.0
            .lanes
            .set_capacities(setup.capacities().collect::<Vec<_>>());
        drop(self.0.current.swap(setup));
    }

    /// The delivery of all channels.
    #[must_use]
    pub fn delivery(&self) -> &Arc<Delivery> {
        &self.0.delivery
    }

    /// The lanes, whose timer needs a thread.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    /// Queues every unfinished message and schedules every undelivered one that is not known yet:
    /// what an earlier process left, and what a hanging store committed after its caller had gone.
    /// Says how many conversations have something to do.
    ///
    /// Blocks: for a few reads of the store.
    ///
    /// # Errors
    /// The store's, when it cannot be read.
    pub fn refill(&self) -> Result<usize, StoreError> {
        let setup = self.setup();
        let open = self.0.store.open_conversations()?;
        for (conversation, _) in &open {
            self.0
                .lanes
                .queue(conversation, &setup.needs_of(conversation));
        }
        self.0.delivery.refill(self.0.store.counts().outbox_open)?;
        Ok(open.len())
    }

    /// Cuts what a stop in progress lets go on: runs give their messages back, deliveries stay in
    /// the outbox.
    pub fn hurry(&self) {
        self.0.stop.raise();
        self.0.lanes.cancel_all();
        self.0.delivery.hurry();
    }

    /// Stops: runs may go on for a while, then deliveries; what is left stays in the store. Says
    /// how many runs were cut. The channels must have stopped taking messages before. Attempts are
    /// given back first: whoever asked for the stop may lose patience and kill the process.
    ///
    /// Blocks: for `limits.stop_runs` and `limits.stop_deliveries` at most, and the moment that
    /// cut connections take.
    pub fn stop(&self) -> usize {
        let parts = &self.0;
        parts.closing.raise();
        parts.lanes.close();
        match parts.store.forgive() {
            Ok(rows) => lock(&parts.forgiven).extend(rows),
            Err(error) => {
                log::warn!(error = error.to_string().as_str(); "cannot give the attempts of messages in work back");
            }
        }
        let left = parts
            .lanes
            .drained(Deadline::after(Instant::now(), parts.limits.stop_runs));
        parts.stop.raise();
        parts.lanes.cancel_all();
        // Cut runs give their messages back; what is stuck in a name look-up is not waited for.
        let _ = parts
            .lanes
            .drained(Deadline::after(Instant::now(), parts.limits.stop_cut));
        parts.delivery.stop(Deadline::after(
            Instant::now(),
            parts.limits.stop_deliveries,
        ));
        left
    }
}

impl Intake for Engine {
    fn accept(&self, inbound: Inbound) -> Result<Acceptance, Refusal> {
        let channel = inbound.conversation.channel.clone();
        let taken = self.take(inbound, None);
        // It is gone unless its sender comes again.
        match taken {
            Ok(_) | Err(Refusal::Crowded) => {}
            Err(Refusal::Full) => self.0.watch.dropped(&channel, Dropped::QueueFull),
            Err(Refusal::Store) => self.0.watch.dropped(&channel, Dropped::Store),
        }
        taken
    }

    fn accept_kept(&self, inbound: Inbound) -> Result<Acceptance, Refusal> {
        self.take(inbound, None)
    }

    fn accept_at(&self, inbound: Inbound, cursor: &Cursor) -> Result<Acceptance, Refusal> {
        self.take(inbound, Some(cursor))
    }

    fn advance(&self, channel: &ChannelName, cursor: &Cursor) {
        self.0.store.advance(channel, cursor);
    }

    fn cursor(&self, channel: &ChannelName, account: &str) -> Result<Option<Reached>, Refusal> {
        self.0.store.cursor(channel, account).map_err(|error| {
            log::error!(channel = channel.as_str(), error = error.to_string().as_str(); "cannot read how far a channel has been taken");
            Refusal::Store
        })
    }

    fn answer(&self, message: &MessageId) -> Option<Answer> {
        let state = self.0.store.message(message).unwrap_or_else(|error| {
            log::warn!(error = error.to_string().as_str(); "cannot look up an answer");
            None
        });
        let store::Answer {
            message_id,
            role,
            sender_name,
            text,
        } = state?.answer?;
        Some(Answer {
            message_id,
            role,
            sender_name,
            text,
        })
    }
}

impl Engine {
    /// Takes a message in, and moves `cursor` in the same commit.
    fn take(&self, inbound: Inbound, cursor: Option<&Cursor>) -> Result<Acceptance, Refusal> {
        let parts = &self.0;
        if parts.closing.raised() {
            // Nobody would work on it before the next start.
            return Err(Refusal::Full);
        }
        let conversation = inbound.conversation.clone();
        let setup = parts.current.load();
        let command = commands::command_of(&setup, &inbound);
        if command == Some(Command::Stop) {
            return self.stop_run(&setup, &inbound, cursor);
        }
        commands::prepare(&setup, &conversation, command);
        let needs = setup.needs_of(&conversation);
        // A command needs no place, unless it leaves something to be said to the brain.
        let ticket = match command.is_none_or(|command| command.leaves_words(&inbound.text)) {
            true => parts.lanes.begin(&conversation, &needs),
            false => None,
        };
        let claim = if ticket.is_some() {
            Claim::IfIdle
        } else {
            Claim::No
        };
        let busy = store::Excuse {
            text: Excuse::Busy.text(inbound.language),
            sender_name: setup
                .brain_of(&conversation)
                .map_or("Korvun", |live| live.shown_name())
                .to_owned(),
        };
        let meant_for = setup.brain_of(&conversation).map(|live| live.audience());
        let mut accepted = parts
            .store
            .accept_at(&inbound, cursor, claim, meant_for, &busy);
        // The run begins before anything is counted.
        let (work, after) = match &mut accepted {
            Ok(Accepted::New { work, .. }) => (work.take(), After::Waiting),
            _ => (None, After::Idle),
        };
        match (ticket, work) {
            (Some(ticket), Some(work)) => parts.lanes.start(ticket, work),
            (ticket, _) => {
                parts
                    .lanes
                    .not_begun(ticket.as_ref(), &conversation, after, &needs);
            }
        }
        self.report(&conversation.channel, accepted)
    }

    /// Counts what became of a message, and says it to its channel.
    fn report(
        &self,
        channel: &ChannelName,
        accepted: Result<Accepted, StoreError>,
    ) -> Result<Acceptance, Refusal> {
        let parts = &self.0;
        match accepted {
            Ok(Accepted::New { message_id, .. }) => {
                parts.watch.received(channel, &message_id);
                self.turns_stored(1);
                Ok(Acceptance::New(message_id))
            }
            Ok(Accepted::Busy {
                message_id,
                outgoing,
            }) => {
                parts.delivery.push(&outgoing);
                parts.watch.received(channel, &message_id);
                self.turns_stored(2);
                Ok(Acceptance::New(message_id))
            }
            Ok(Accepted::Answered { message_id, said }) => {
                parts.tidy();
                for outgoing in &said {
                    parts.delivery.push(outgoing);
                }
                parts.watch.received(channel, &message_id);
                self.turns_stored(1 + said.len() as u64);
                Ok(Acceptance::New(message_id))
            }
            Ok(Accepted::Duplicate { message_id }) => {
                parts.watch.deduped(channel);
                Ok(Acceptance::Repeated(message_id))
            }
            Ok(Accepted::Full) => Err(Refusal::Full),
            Ok(Accepted::Crowded) => {
                parts.watch.dropped(channel, Dropped::QueueFull);
                Err(Refusal::Crowded)
            }
            Err(error) => {
                log::error!(channel = channel.as_str(), error = error.to_string().as_str(); "cannot store a message, it has to come again");
                parts.watch.fault(Fault::Store);
                Err(Refusal::Store)
            }
        }
    }

    fn turns_stored(&self, turns: u64) {
        if self.0.store.health().durable {
            self.0
                .watch
                .metrics
                .add(&metrics::TURNS_PERSISTED, &[], turns);
        }
    }
}
