//! The work on one message, on a run thread: claim it, ask its brain, commit the answer.
//! Whatever happens, the message ends in a stored answer, an honest sentence, or another attempt.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::base::sync::lock;
use crate::channel::port::Working;
use crate::domain::brain::{Brain, Sensitivity};
use crate::domain::completion::{Failure, FailureKind, Past, Said};
use crate::domain::excuse::Excuse;
use crate::domain::lanes::Needs;
use crate::domain::message::{Outcome, Outgoing, Role};
use crate::domain::prompt;
use crate::domain::work::{self, Attempt, Facts, First, Message, Over, Process, STORE_BACKOFF};
use crate::store::{
    Audience, Claimed, Finish, Finished, Reply, State, StoreError, TurnOutcome, Work,
};
use crate::watch::board::ModelState;
use crate::watch::{metrics, Fault, RunFinished};

use super::agent::{Errand, Stopped};
use super::lanes::{Job, Ticket};
use super::orchestrator::{self, Decision, Report};
use super::setup::{LiveAgent, LiveBrain, Setup};
use super::Parts;

/// How a run ends.
struct Ending<'a> {
    outcome: Outcome,
    /// The counted word; differs from the outcome's only for what it cannot say.
    word: &'static str,
    reply: Option<Reply>,
    live: Option<&'a LiveBrain>,
    model: String,
    left_out: u32,
    asking: Duration,
}

/// One run as it goes.
struct Run<'a> {
    ticket: &'a Ticket,
    work: &'a Work,
    needs: &'a Needs,
    started: Instant,
    /// Shows that an answer is being made; taken away before there is one.
    shown: Mutex<Option<Working>>,
}

impl Run<'_> {
    fn no_longer_shown(&self) {
        let shown = lock(&self.shown).take();
        drop(shown);
    }
}

impl Parts {
    /// Performs one run to its end.
    ///
    /// Blocks: until the brain's answer timeout at most; longer only while the store refuses the answer.
    pub(super) fn perform(&self, job: Job) {
        let setup = self.current.load();
        let Job {
            ticket,
            work,
            overdue,
        } = job;
        let conversation = &ticket.grant.conversation;
        let needs = setup.needs_of(conversation);
        let claimed = match work {
            Some(work) => Ok(Claimed {
                work: Some(work),
                said: Vec::new(),
            }),
            None => self.store.claim(conversation),
        };
        let Claimed { work, said } = match claimed {
            Ok(claimed) => claimed,
            Err(error) => {
                log::error!(error = error.to_string().as_str(); "cannot claim a message from the store");
                self.watch.fault(Fault::Store);
                let process = self.rest(STORE_BACKOFF.first);
                let (_, after) = work::last(Over::Unclaimed, process);
                return self.lanes.finish(&ticket, after, &needs);
            }
        };
        self.acknowledged(&said);
        let Some(work) = work else {
            let (_, after) = work::last(Over::Nothing, Process::GoesOn);
            return self.lanes.finish(&ticket, after, &needs);
        };
        let _at = self.in_work.enter(work.row, &ticket.cancel);
        let channel = setup.channels.get(&work.conversation.channel);
        let shown = channel.and_then(|channel| channel.working(&work.conversation));
        let run = Run {
            ticket: &ticket,
            work: &work,
            needs: &needs,
            started: self.clock.now(),
            shown: Mutex::new(shown),
        };
        self.watch
            .metrics
            .shift(&metrics::RUNS_IN_PROGRESS, &[], 1.0);
        if catch_unwind(AssertUnwindSafe(|| self.run(&setup, &run, overdue))).is_err() {
            self.failed(&setup, &run);
        }
        self.watch
            .metrics
            .shift(&metrics::RUNS_IN_PROGRESS, &[], -1.0);
    }

    fn run(&self, setup: &Setup, run: &Run<'_>, overdue: bool) {
        let work = run.work;
        let Some(live) = setup.brain_of(&work.conversation) else {
            self.watch.fault(Fault::Route);
            return self.excuse(run, None, Excuse::NoRoute);
        };
        let facts = Facts {
            attempt: work.attempt,
            text: &work.text,
            attachment: work.attachment.as_deref(),
            overdue,
            moved: (work.meant_for, audience_of(live))
                == (Some(Audience::Private), Audience::Public),
        };
        if let First::Excuse(excuse) = work::first(&facts, &self.limits) {
            self.log_excuse(work, live, &excuse);
            return self.excuse(run, Some(live), excuse);
        }
        match (self.dialogue(live, work), &live.agent) {
            (Ok((history, present)), None) => {
                let prompt = prompt::build(&live.brain, &work.conversation, history, present);
                self.ask(run, live, &prompt);
            }
            (Ok(dialogue), Some(agent)) => self.ask_agent(setup, run, live, agent, dialogue),
            (Err(error), _) => {
                log::error!(error = error.to_string().as_str(); "cannot read a conversation's history");
                self.failed(setup, run);
            }
        }
    }

    fn log_excuse(&self, work: &Work, live: &LiveBrain, excuse: &Excuse) {
        let id = work.message_id.as_str();
        match excuse {
            Excuse::SetAside => log::error!(
                message_id = id, channel = work.conversation.channel.as_str(), attempts = self.limits.attempts;
                "message set aside: each attempt at it ended this process or failed"
            ),
            Excuse::Moved => log::warn!(
                message_id = id, brain = live.brain.name.as_str();
                "message was said to a private brain and is not passed on to a public one"
            ),
            _ => {}
        }
    }

    /// What this brain may see of what was said before, and the message.
    fn dialogue(&self, live: &LiveBrain, work: &Work) -> Result<(Vec<Past>, Said), StoreError> {
        let stored = if self.store.health().durable {
            self.store.history(
                &work.conversation,
                work.turn,
                live.brain.history_turns,
                audience_of(live),
            )?
        } else {
            Vec::new()
        };
        // A question that got no answer is shown to people, not to the model.
        let dialogue = stored
            .iter()
            .filter(|turn| turn.role != Role::User || turn.outcome == Some(TurnOutcome::Ok));
        let history = dialogue
            .filter_map(|turn| match turn.role {
                // Of Korvun's own words a model is shown those that bring back an earlier session.
                Role::System => Some(prompt::recalled(turn.id, &turn.text)),
                role => prompt::past(turn.id, role, work.chat, &turn.sender_name, &turn.text),
            })
            .collect();
        let present = prompt::said_by_person(work.chat, &work.sender_name, &work.text);
        Ok((history, present))
    }

    /// What is counted and told of each attempt at a model of the brain.
    fn report<'a>(&'a self, live: &'a LiveBrain) -> impl Fn(&Report<'_>) + Sync + 'a {
        let brain = &live.brain;
        move |report: &Report<'_>| {
            let model = &brain.models[report.model];
            let failure = report.failure.map(|failure| failure.kind);
            self.watch.attempt(
                model.provider.as_str(),
                model.model_id.as_str(),
                report.elapsed,
                failure,
                report.will_retry,
            );
            match failure {
                Some(FailureKind::Cancelled) => {}
                Some(kind) => {
                    self.watch
                        .board
                        .set_model(&brain.name, report.model, ModelState::Failing);
                    let detail = report.failure.map_or("", |failure| told(brain, failure));
                    log::warn!(
                        brain = brain.name.as_str(), provider = model.provider.as_str(), model = model.model_id.as_str(),
                        kind = kind.word(), status = report.failure.and_then(|failure| failure.status).unwrap_or(0), will_retry = report.will_retry, error = detail;
                        "model attempt failed"
                    );
                }
                None => self
                    .watch
                    .board
                    .set_model(&brain.name, report.model, ModelState::Ok),
            }
        }
    }

    fn ask(
        &self,
        run: &Run<'_>,
        live: &Arc<LiveBrain>,
        prompt: &crate::domain::completion::Prompt,
    ) {
        let brain = &live.brain;
        let report = self.report(live);
        let asked = self.clock.now();
        orchestrator::answer(
            &orchestrator::Question {
                brain,
                providers: &live.providers,
                prompt,
                deadline: run.ticket.grant.deadline,
                cancel: &run.ticket.cancel,
                clock: &*self.clock,
            },
            &report,
            |decision| {
                let asking = self.clock.now().saturating_duration_since(asked);
                self.decided(run, live, decision, asking);
            },
        );
    }

    fn ask_agent(
        &self,
        setup: &Setup,
        run: &Run<'_>,
        live: &LiveBrain,
        agent: &LiveAgent,
        (history, present): (Vec<Past>, Said),
    ) {
        let went = self.perform_errand(&Errand {
            work: run.work,
            live,
            agent,
            deadline: run.ticket.grant.deadline,
            cancel: &run.ticket.cancel,
            history,
            present,
            report: &self.report(live),
        });
        match went {
            Ok((decision, asking)) => self.decided(run, live, decision, asking),
            Err(Stopped::Failed) => self.failed(setup, run),
            // Its user, or the operator, has closed the message meanwhile.
            Err(Stopped::Gone) => {
                run.no_longer_shown();
                self.over(run, Over::Before, Process::GoesOn);
                self.say(run, &cancelled(Some(live)));
            }
        }
    }

    /// Commits what the models came to. Called before stragglers are joined.
    fn decided(&self, run: &Run<'_>, live: &LiveBrain, decision: Decision, asking: Duration) {
        let Some(won) = decision.won else {
            if run.ticket.cancel.raised() {
                return self.cut(run, live);
            }
            return self.end(
                run,
                Ending {
                    outcome: Outcome::Excused,
                    word: Outcome::Excused.word(),
                    reply: Some(self.sentence(&decision.excuse, run.work, Some(live))),
                    live: Some(live),
                    model: String::new(),
                    left_out: decision.left_out,
                    asking,
                },
            );
        };
        let mut text = won.text;
        if won.cut {
            text.push_str("\n\n");
            text.push_str(&Excuse::CutMark.text(run.work.language));
        }
        let reply = Reply {
            role: Role::Assistant,
            sender_name: live.shown_name().to_owned(),
            brain: Some(live.brain.name.as_str().to_owned()),
            text,
        };
        self.end(
            run,
            Ending {
                outcome: Outcome::Answered,
                word: Outcome::Answered.word(),
                reply: Some(reply),
                live: Some(live),
                model: live.brain.models[won.model].model_id.as_str().to_owned(),
                left_out: decision.left_out,
                asking,
            },
        );
    }

    fn sentence(&self, excuse: &Excuse, work: &Work, live: Option<&LiveBrain>) -> Reply {
        Reply {
            role: Role::System,
            sender_name: live.map_or("Korvun", |live| live.shown_name()).to_owned(),
            brain: live.map(|live| live.brain.name.as_str().to_owned()),
            text: excuse.text(work.language),
        }
    }

    fn excuse(&self, run: &Run<'_>, live: Option<&LiveBrain>, excuse: Excuse) {
        let outcome = if excuse == Excuse::SetAside {
            Outcome::SetAside
        } else {
            Outcome::Excused
        };
        self.end(
            run,
            Ending {
                outcome,
                word: outcome.word(),
                reply: Some(self.sentence(&excuse, run.work, live)),
                live,
                model: String::new(),
                left_out: 0,
                asking: Duration::ZERO,
            },
        );
    }

    /// Commits an ending, hands the reply to delivery, gives lane and places back, and says so.
    /// While the store refuses, the answer is held and tried again: a full disk loses no answer.
    fn end(&self, run: &Run<'_>, ending: Ending<'_>) {
        run.no_longer_shown();
        // What no brain had is fit for whom the next brain is fit: unknown, hence private.
        let audience = ending.live.map_or(Audience::Private, audience_of);
        let mut tries = 0;
        let finished = loop {
            let finish = Finish {
                outcome: ending.outcome,
                reply: ending.reply.clone(),
                audience,
            };
            match self.store.finish(run.work.row, finish) {
                Ok(finished) => break finished,
                Err(error) => {
                    tries += 1;
                    log::error!(message_id = run.work.message_id.as_str(), attempt = tries, error = error.to_string().as_str(); "cannot store an answer, it is held and tried again");
                    self.watch.fault(Fault::Store);
                    if self.rest(STORE_BACKOFF.wait(tries, u32::MAX)) == Process::Stops {
                        return self.over(run, Over::Held, Process::Stops);
                    }
                }
            }
        };
        let (outgoing, said, over) = match finished {
            Finished::Closed {
                outgoing,
                said,
                waiting,
            } => (outgoing, said, Over::Stored { waiting }),
            Finished::NotWorking {
                state: State::Cancelled,
                ..
            } => {
                self.over(run, Over::Before, Process::GoesOn);
                return self.say(run, &cancelled(ending.live));
            }
            Finished::NotWorking { outgoing, .. } => (outgoing, Vec::new(), Over::Before),
            Finished::Gone => (None, Vec::new(), Over::Before),
        };
        if let Some(outgoing) = &outgoing {
            self.delivery.push(outgoing);
            if self.store.health().durable {
                self.watch.metrics.add(&metrics::TURNS_PERSISTED, &[], 1);
            }
        }
        self.acknowledged(&said);
        self.over(run, over, Process::GoesOn);
        self.say(run, &ending);
    }

    /// Hands the acknowledgements of commands to delivery.
    fn acknowledged(&self, said: &[Outgoing]) {
        for outgoing in said {
            self.delivery.push(outgoing);
        }
        if self.store.health().durable && !said.is_empty() {
            let turns = said.len() as u64;
            self.watch
                .metrics
                .add(&metrics::TURNS_PERSISTED, &[], turns);
        }
    }

    fn say(&self, run: &Run<'_>, ending: &Ending<'_>) {
        let Some(live) = ending.live else { return };
        let latency = self.clock.now().saturating_duration_since(run.started);
        self.watch.run_finished(&RunFinished {
            message_id: &run.work.message_id,
            channel: &run.work.conversation.channel,
            brain: &live.brain.name,
            policy: match (&live.agent, &live.brain.policy) {
                (None, Some(policy)) => policy.kind.word(),
                (Some(_), _) | (None, None) => "",
            },
            model: &ending.model,
            dropped: live
                .providers
                .iter()
                .filter(|provider| provider.is_none())
                .count(),
            left_out: ending.left_out,
            outcome: ending.word,
            latency,
            overhead: latency.saturating_sub(ending.asking),
        });
    }

    /// The run was cut: by its user, and the message is closed already; or by a stop of the whole
    /// process that was asked for, and message and attempt are given back.
    fn cut(&self, run: &Run<'_>, live: &LiveBrain) {
        run.no_longer_shown();
        if self.in_work.stopped(run.work.row) {
            self.over(run, Over::Before, Process::GoesOn);
            return self.say(run, &cancelled(Some(live)));
        }
        let attempt = match lock(&self.forgiven).contains(&run.work.row) {
            true => Attempt::Forgiven,
            false => Attempt::Counted,
        };
        self.over(run, Over::Cut(attempt), Process::Stops);
    }

    /// Does what is done last with a message, then gives its conversation the way.
    fn over(&self, run: &Run<'_>, over: Over, process: Process) {
        let (message, after) = work::last(over, process);
        let row = run.work.row;
        match message {
            Message::Stays => {}
            Message::PutBack => self.store.put_back(row),
            Message::GiveBack => {
                if let Err(error) = self.store.give_back(row) {
                    log::warn!(message_id = run.work.message_id.as_str(), error = error.to_string().as_str(); "cannot give a message back to the inbox, the next start takes it up");
                }
            }
        }
        self.lanes.finish(run.ticket, after, run.needs);
    }

    /// Waits, unless a stop cuts it short.
    pub(super) fn rest(&self, wait: Duration) -> Process {
        match self.stop.wait(wait) {
            true => Process::Stops,
            false => Process::GoesOn,
        }
    }

    /// A fault of Korvun's own: the message is tried again, the attempt stays counted.
    fn failed(&self, setup: &Setup, run: &Run<'_>) {
        run.no_longer_shown();
        self.watch.fault(Fault::Run);
        if let Some(live) = setup.brain_of(&run.work.conversation) {
            self.say(
                run,
                &Ending {
                    outcome: Outcome::Excused,
                    word: "failed",
                    reply: None,
                    live: Some(live),
                    model: String::new(),
                    left_out: 0,
                    asking: Duration::ZERO,
                },
            );
        }
        let process = self.rest(STORE_BACKOFF.wait(run.work.attempt, u32::MAX));
        self.over(run, Over::Failed, process);
    }
}

/// The end of a run that its user has stopped.
fn cancelled(live: Option<&LiveBrain>) -> Ending<'_> {
    Ending {
        outcome: Outcome::Cancelled,
        word: Outcome::Cancelled.word(),
        reply: None,
        live,
        model: String::new(),
        left_out: 0,
        asking: Duration::ZERO,
    }
}

/// For whom the words said to a brain are fit.
pub(super) fn audience_of(live: &LiveBrain) -> Audience {
    match live.brain.sensitivity {
        Sensitivity::Public => Audience::Public,
        Sensitivity::Private => Audience::Private,
    }
}

/// What the log says of a failure. A server may repeat the question or its answer in what it sends
/// back: of a private brain only what Korvun itself has to say is told.
fn told<'a>(brain: &Brain, failure: &'a Failure) -> &'a str {
    let own = matches!(
        failure.kind,
        FailureKind::Connect | FailureKind::Timeout | FailureKind::Shield | FailureKind::Empty
    );
    if own || brain.sensitivity == Sensitivity::Public {
        &failure.detail
    } else {
        "the server's words are not logged for a private brain; `korvun config check --preflight` asks the server without any message"
    }
}
