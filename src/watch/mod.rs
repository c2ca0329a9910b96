//! What every part above reports to: one fact, one call, and metrics, board and events agree.
//! Handles are passed in, never global. Holds metadata only: never text, sender or arguments.

pub mod board;
pub mod events;
pub mod logger;
pub mod metrics;

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::domain::audit::{Rule, ToolOutcome};
use crate::domain::completion::FailureKind;
use crate::domain::ids::{BrainName, ChannelName, MessageId};
use crate::domain::limits::Limits;

use board::{Board, ChannelState};
use events::{Event, Events};
use metrics::Metrics;

/// The three surfaces together. Clones share them.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Counters, gauges, histograms.
    pub metrics: Metrics,
    /// Health of every named part.
    pub board: Board,
    /// What happened last.
    pub events: Events,
    clock: Arc<dyn Clock>,
}

/// Why a message was dropped; the `reason` label of `korvun_channel_messages_dropped_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The inbox is full.
    QueueFull,
    /// The store cannot commit.
    Store,
    /// The message is too large.
    TooLarge,
}

impl Dropped {
    /// The word in metrics and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Dropped::QueueFull => "queue_full",
            Dropped::Store => "store",
            Dropped::TooLarge => "too_large",
        }
    }
}

/// Why a message was passed over by rule; the `reason` label of
/// `korvun_channel_messages_ignored_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Its sender is not in `allow_from`.
    NotAllowed,
    /// It was said in a group and not to the bot.
    NotAddressed,
    /// Another bot or a program said it.
    Bot,
    /// The bot itself said it.
    Own,
    /// It changes an earlier message.
    Edit,
    /// It is nothing that a person says: a service message, an unknown kind.
    Kind,
}

impl Ignored {
    /// The word in metrics and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Ignored::NotAllowed => "not_allowed",
            Ignored::NotAddressed => "not_addressed",
            Ignored::Bot => "bot",
            Ignored::Own => "own",
            Ignored::Edit => "edit",
            Ignored::Kind => "kind",
        }
    }
}

/// A fault of Korvun's own; the `kind` label of `korvun_router_errors_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A run failed by a fault of Korvun's own.
    Run,
    /// A delivery was given up.
    Send,
    /// The store could not do what was asked.
    Store,
    /// A message came on a channel without a route.
    Route,
}

impl Fault {
    fn word(self) -> &'static str {
        match self {
            Fault::Run => "run",
            Fault::Send => "send",
            Fault::Store => "store",
            Fault::Route => "route",
        }
    }
}

/// How a run ended, as counted and announced.
#[derive(Clone, Debug)]
pub struct RunFinished<'a> {
    /// The message it worked on.
    pub message_id: &'a MessageId,
    /// Where it came from.
    pub channel: &'a ChannelName,
    /// The brain that worked on it.
    pub brain: &'a BrainName,
    /// The policy's word; empty in an agent brain.
    pub policy: &'a str,
    /// The model that won; empty when none did.
    pub model: &'a str,
    /// Models dropped by privacy.
    pub dropped: usize,
    /// Earlier messages that did not fit the model's context.
    pub left_out: u32,
    /// `answered`, `excused`, `cancelled`, `failed` or `set_aside`.
    pub outcome: &'static str,
    /// From the start of the run to its end.
    pub latency: Duration,
    /// Of that, the time in which no model was being asked and no tool was at work.
    pub overhead: Duration,
}

/// A tool call that has ended, as counted and announced. Never its arguments, never its result.
#[derive(Clone, Debug)]
pub struct ToolCalled<'a> {
    /// The brain that made it.
    pub brain: &'a BrainName,
    /// The tool; `unknown` where the brain has none of that name.
    pub tool: &'a str,
    /// The channel of the message.
    pub channel: &'a ChannelName,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What refused it, or would have refused a rehearsed one.
    pub rule: Option<Rule>,
    /// How long it took.
    pub latency: Duration,
    /// The message it was made for.
    pub message_id: &'a MessageId,
}

impl Watch {
    /// Fresh surfaces.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: &Limits) -> Watch {
        let metrics = Metrics::new();
        metrics.set(&metrics::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1.0);
        for fault in [Fault::Run, Fault::Send, Fault::Store, Fault::Route] {
            metrics.add(&metrics::ROUTER_ERRORS, &[fault.word()], 0);
        }
        Watch {
            metrics,
            board: Board::new(),
            events: Events::new(clock.unix(), limits.events_kept),
            clock,
        }
    }

    /// A message has been accepted: it is committed.
    pub fn received(&self, channel: &ChannelName, message_id: &MessageId) {
        self.metrics
            .add(&metrics::MESSAGES_PROCESSED, &[channel.as_str()], 1);
        self.board.count(channel, |counts| counts.received += 1);
        self.event("message_received", |event| {
            event
                .text("channel", channel.as_str())
                .text("message_id", message_id.as_str())
        });
    }

    /// A repeated message has been recognised.
    pub fn deduped(&self, channel: &ChannelName) {
        self.metrics.add(&metrics::DEDUPED, &[channel.as_str()], 1);
    }

    /// A message could not be taken; its sender was told to come again.
    pub fn dropped(&self, channel: &ChannelName, reason: Dropped) {
        self.metrics.add(
            &metrics::MESSAGES_DROPPED,
            &[channel.as_str(), reason.word()],
            1,
        );
        self.board.count(channel, |counts| counts.dropped += 1);
        self.event("message_dropped", |event| {
            event
                .text("channel", channel.as_str())
                .text("reason", reason.word())
        });
    }

    /// A message was passed over by rule: nothing of it is kept.
    pub fn ignored(&self, channel: &ChannelName, reason: Ignored) {
        self.metrics.add(
            &metrics::MESSAGES_IGNORED,
            &[channel.as_str(), reason.word()],
            1,
        );
        self.board.count(channel, |counts| counts.ignored += 1);
        self.event("message_ignored", |event| {
            event
                .text("channel", channel.as_str())
                .text("reason", reason.word())
        });
    }

    /// An outbox row has been delivered.
    pub fn sent(&self, channel: &ChannelName, message_id: &MessageId) {
        self.board.count(channel, |counts| counts.sent += 1);
        self.event("reply_sent", |event| {
            event
                .text("channel", channel.as_str())
                .text("message_id", message_id.as_str())
        });
    }

    /// An outbox row has been given up.
    pub fn send_failed(&self, channel: &ChannelName, message_id: &MessageId, reason: &str) {
        self.board.count(channel, |counts| counts.failed += 1);
        self.fault(Fault::Send);
        self.event("reply_failed", |event| {
            event
                .text("channel", channel.as_str())
                .text("reason", reason)
                .text("message_id", message_id.as_str())
        });
    }

    /// A fault of Korvun's own.
    pub fn fault(&self, fault: Fault) {
        self.metrics
            .add(&metrics::ROUTER_ERRORS, &[fault.word()], 1);
    }

    /// A channel has changed its state; the same state again only refreshes the error.
    pub fn channel_state(&self, channel: &ChannelName, state: ChannelState, error: Option<&str>) {
        let before = self
            .board
            .set_channel_state(channel, state, error, self.clock.unix());
        if before == Some(state) {
            return;
        }
        if before.is_none() {
            self.start_at_zero(channel);
        }
        for each in ChannelState::ALL {
            let on = if each == state { 1.0 } else { 0.0 };
            self.metrics.set(
                &metrics::CHANNEL_STATE,
                &[channel.as_str(), each.word()],
                on,
            );
        }
        if state == ChannelState::Reconnecting {
            self.metrics
                .add(&metrics::CHANNEL_RECONNECTS, &[channel.as_str()], 1);
        }
        self.event("channel_state", |event| {
            event
                .text("channel", channel.as_str())
                .text("state", state.word())
        });
    }

    /// A new channel's counters stand at zero, so that the first event is a step and not a beginning.
    fn start_at_zero(&self, channel: &ChannelName) {
        let channel = channel.as_str();
        for family in [
            &metrics::MESSAGES_PROCESSED,
            &metrics::CHANNEL_RECONNECTS,
            &metrics::DEDUPED,
        ] {
            self.metrics.add(family, &[channel], 0);
        }
        for reason in [Dropped::QueueFull, Dropped::Store, Dropped::TooLarge] {
            self.metrics
                .add(&metrics::MESSAGES_DROPPED, &[channel, reason.word()], 0);
        }
    }

    /// One attempt at a model has ended.
    pub fn attempt(
        &self,
        provider: &str,
        model: &str,
        elapsed: Duration,
        failure: Option<FailureKind>,
        will_retry: bool,
    ) {
        if failure == Some(FailureKind::Cancelled) {
            return;
        }
        let outcome = if failure.is_some() { "error" } else { "ok" };
        self.metrics.observe(
            &metrics::PROVIDER_DURATION,
            &[provider, model, outcome],
            elapsed,
        );
        if let Some(kind) = failure {
            self.metrics.add(
                &metrics::PROVIDER_FAILURES,
                &[provider, model, kind.word()],
                1,
            );
        }
        if will_retry {
            self.metrics
                .add(&metrics::PROVIDER_RETRIES, &[provider, model], 1);
        }
    }

    /// A run has ended: one log line, one event, two histograms.
    pub fn run_finished(&self, run: &RunFinished<'_>) {
        let latency_ms = u64::try_from(run.latency.as_millis()).unwrap_or(u64::MAX);
        self.metrics.observe(
            &metrics::RUN_DURATION,
            &[run.brain.as_str(), run.outcome],
            run.latency,
        );
        self.metrics
            .observe(&metrics::GATEWAY_OVERHEAD, &[], run.overhead);
        log::info!(
            brain = run.brain.as_str(), policy = run.policy, model = run.model, dropped = run.dropped,
            left_out = run.left_out, outcome = run.outcome, latency_ms = latency_ms,
            channel = run.channel.as_str(), message_id = run.message_id.as_str();
            "run_finished"
        );
        self.event("run_finished", |event| {
            event
                .text("channel", run.channel.as_str())
                .text("brain", run.brain.as_str())
                .text("policy", run.policy)
                .text("model", run.model)
                .number("dropped", run.dropped as u64)
                .text("outcome", run.outcome)
                .number("latency_ms", latency_ms)
                .text("message_id", run.message_id.as_str())
        });
    }

    /// A tool call has ended: one log line, one event, a counter and a histogram.
    pub fn tool_called(&self, call: &ToolCalled<'_>) {
        let (outcome, rule) = (call.outcome.word(), call.rule.map_or("", Rule::word));
        let latency_ms = u64::try_from(call.latency.as_millis()).unwrap_or(u64::MAX);
        let name = match call.outcome {
            ToolOutcome::Ok | ToolOutcome::Error | ToolOutcome::Unknown => "tool_used",
            ToolOutcome::Denied => "tool_denied",
            ToolOutcome::Shadowed => "tool_shadowed",
        };
        self.metrics.add(
            &metrics::TOOL_CALLS,
            &[
                call.brain.as_str(),
                call.tool,
                call.channel.as_str(),
                outcome,
                rule,
            ],
            1,
        );
        self.metrics
            .observe(&metrics::TOOL_DURATION, &[call.tool, outcome], call.latency);
        log::info!(
            brain = call.brain.as_str(), tool = call.tool, channel = call.channel.as_str(),
            outcome = outcome, rule = rule, latency_ms = latency_ms,
            message_id = call.message_id.as_str();
            "{name}"
        );
        self.event(name, |event| {
            event
                .text("channel", call.channel.as_str())
                .text("brain", call.brain.as_str())
                .text("tool", call.tool)
                .text("outcome", outcome)
                .text("rule", rule)
                .number("latency_ms", latency_ms)
                .text("message_id", call.message_id.as_str())
        });
    }

    fn event(&self, name: &'static str, fill: impl FnOnce(Event) -> Event) {
        self.events.push(fill(Event::new(name, self.clock.unix())));
    }
}
