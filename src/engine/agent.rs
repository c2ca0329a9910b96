//! The work of an agent brain on one message, on its run thread: asks the one model, asks the gate
//! about each call, executes, rehearses or refuses it, and writes every step down before the next.
//! `domain::run` decides the steps. It must never act before the call stands in the audit, nor let
//! words of arguments or results into a log, a metric, an event or the audit.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Deadline;
use crate::domain::audit::{Rule, ToolOutcome};
use crate::domain::briefing::Briefing;
use crate::domain::completion::{Failure, FailureKind, Lane, Past, Said, ToolSpec};
use crate::domain::excuse::excuse_of;
use crate::domain::gate::{self, Budget, Cage, Found, Place};
use crate::domain::journal::{self, Entry};
use crate::domain::notes;
use crate::domain::privacy;
use crate::domain::run::{Ask, Asked, End, Event, Next, Rules, Run, Step as Do};
use crate::domain::told::Came;
use crate::domain::work::{Process, STORE_BACKOFF};
use crate::net::cancel::Cancel;
use crate::store::{CallEnd, CallRecord, Notebook, Step, StoreError, Work};
use crate::tool::port::{Arguments, Call, Fault as ToolFault, Tool};
use crate::watch::{Fault, ToolCalled};

use super::orchestrator::{self, Decision, Question, Report, Won};
use super::run::audience_of;
use super::setup::{LiveAgent, LiveBrain, LiveTool};
use super::Parts;

/// The word in the audit for a tool that the brain does not list.
const UNKNOWN: &str = "unknown";

/// What a run of an agent brain is about.
pub(super) struct Errand<'a> {
    /// The message.
    pub work: &'a Work,
    /// The brain.
    pub live: &'a LiveBrain,
    /// Its tools and skills.
    pub agent: &'a LiveAgent,
    /// When the whole answer is due.
    pub deadline: Deadline,
    /// Gives the run up.
    pub cancel: &'a Cancel,
    /// What was said before.
    pub history: Vec<Past>,
    /// The message as the model sees it.
    pub present: Said,
    /// Told of each attempt at the model.
    pub report: &'a (dyn Fn(&Report<'_>) + Sync),
}

/// Why a run has no decision of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its message is not in work any more: nothing is to be said.
    Gone,
    /// The store failed in a way that leaves open what is stored: it is tried again from the
    /// journal.
    Failed,
}

/// How an errand went: the decision, and how long models and tools took.
pub(super) type Went = Result<(Decision, Duration), Stopped>;

impl Parts {
    /// Performs the run of an agent brain up to its answer, which the caller commits.
    ///
    /// Blocks: until the errand's deadline at most, or until its cancel is raised; longer only while
    /// a name look-up cannot be interrupted.
    pub(super) fn perform_errand(&self, errand: &Errand<'_>) -> Went {
        let brain = &errand.live.brain;
        let provided = |&at: &usize| matches!(errand.live.providers.get(at), Some(Some(_)));
        let Some(model) = privacy::eligible(brain).into_iter().find(provided) else {
            let nobody = Failure::new(FailureKind::Shield, "no model of the brain may be asked");
            return Ok((failed(&nobody), Duration::ZERO));
        };
        let mut doing = Doing {
            parts: self,
            errand,
            model,
            announced: Vec::new(),
            notes: self.notes(errand),
            steps: Vec::new(),
            closing: None,
            busy: Duration::ZERO,
        };
        let decision = match doing.lane() {
            Ok(lane) => doing.perform(lane)?,
            Err(failure) => failed(&failure),
        };
        Ok((decision, doing.busy))
    }

    /// What the brain has noted; without them the work goes on.
    fn notes(&self, errand: &Errand<'_>) -> Vec<String> {
        let Some(memory) = errand.agent.memory(&errand.live.brain) else {
            return Vec::new();
        };
        let book = Notebook {
            brain: errand.live.brain.name.clone(),
            conversation: errand.work.conversation.clone(),
            scope: memory.scope,
            audience: audience_of(errand.live),
        };
        match self.store.notes(&book) {
            Ok(all) => notes::shown(&all, &memory).to_vec(),
            Err(error) => {
                log::warn!(brain = errand.live.brain.name.as_str(), error = error.to_string().as_str(); "cannot read the notes of a brain, it is asked without them");
                Vec::new()
            }
        }
    }
}

/// One errand as it goes.
struct Doing<'a> {
    parts: &'a Parts,
    errand: &'a Errand<'a>,
    /// The working model's place in the brain.
    model: usize,
    announced: Vec<ToolSpec>,
    notes: Vec<String>,
    /// What is not written down yet.
    steps: Vec<Step>,
    /// The end of the call that has been observed last; it is written down beside the observation.
    closing: Option<CallRecord>,
    /// Time spent in models and tools.
    busy: Duration,
}

impl Doing<'_> {
    fn lane(&mut self) -> Result<Lane, Failure> {
        let began = self.parts.clock.now();
        let errand = self.errand;
        let nothing = Briefing {
            brain: &errand.live.brain,
            tools: &[],
            skills: "",
        }
        .prompt(
            &errand.work.conversation,
            Vec::new(),
            &[],
            errand.present.clone(),
            &Ask {
                lane: Lane::Text,
                tools: crate::domain::run::Tools::Withheld,
                turns: Vec::new(),
            },
        );
        let lane = orchestrator::lane(&self.question(&nothing), self.model, errand.report);
        self.busy += self.parts.clock.now().saturating_duration_since(began);
        lane
    }

    fn question<'q>(&'q self, prompt: &'q crate::domain::completion::Prompt) -> Question<'q> {
        Question {
            brain: &self.errand.live.brain,
            providers: &self.errand.live.providers,
            prompt,
            deadline: self.errand.deadline,
            cancel: self.errand.cancel,
            clock: &*self.parts.clock,
        }
    }

    fn perform(&mut self, lane: Lane) -> Result<Decision, Stopped> {
        let errand = self.errand;
        let announced = |tool: &&LiveTool| self.judge(tool.name(), Budget::Left).announced();
        self.announced = errand
            .agent
            .tools
            .iter()
            .filter(announced)
            .map(|tool| tool.spec.clone())
            .collect();
        let mut run = self.begin(lane)?;
        let mut next = run.next(Event::Begin);
        for entry in &next.record {
            // The one that was cut: nobody knows what became of it.
            if let Entry::Observed { n, .. } = entry {
                let tool = run.tool(*n).unwrap_or(UNKNOWN).to_owned();
                self.close(*n, &tool, ToolOutcome::Unknown, None, Duration::ZERO);
            }
        }
        loop {
            let Next { record, step } = next;
            self.write_down(&record);
            if errand.cancel.raised() {
                self.commit()?;
                return Ok(failed(&given_up()));
            }
            let event = match step {
                Do::Ask(ask) => {
                    self.commit()?;
                    self.ask(&ask)
                }
                Do::Call(asked) => match self.call(&asked)? {
                    Some(came) => Event::Observed(came),
                    None => return Ok(failed(&given_up())),
                },
                Do::Finish(end) => {
                    self.commit()?;
                    return Ok(self.decided(end));
                }
            };
            next = run.next(event);
        }
    }

    /// The run that goes on behind what an earlier attempt wrote down.
    fn begin(&mut self, lane: Lane) -> Result<Run, Stopped> {
        let (errand, limits) = (self.errand, &self.parts.limits);
        let brain = &errand.live.brain;
        let kept = self.parts.store.journal(errand.work.row).map_err(|error| {
            log::error!(message_id = errand.work.message_id.as_str(), error = error.to_string().as_str(); "cannot read what a run has done already");
            Stopped::Failed
        })?;
        let listed = errand.agent.tools.iter().map(|tool| tool.name().to_owned());
        let rules = Rules::new(
            self.announced
                .iter()
                .map(|tool| tool.name.to_owned())
                .collect(),
            listed.collect(),
            lane,
            brain.agent.as_ref().map_or(1, |agent| agent.max_iterations),
            limits,
        );
        let goes_on = journal::of_brain(&kept, brain.name.as_str())
            .and_then(|entries| Run::resume(rules.clone(), entries).ok());
        if let Some(run) = goes_on {
            return Ok(run);
        }
        let begun = journal::anew(&kept, brain.name.as_str(), limits.calls_read);
        if !kept.is_empty() {
            log::warn!(message_id = errand.work.message_id.as_str(), brain = brain.name.as_str(); "a run cannot go on from its journal and begins anew");
        }
        let run = Run::behind(rules, &begun);
        self.write_down(&[Entry::Begun(begun)]);
        Ok(run)
    }

    fn ask(&mut self, ask: &Ask) -> Event {
        let (errand, clock) = (self.errand, &self.parts.clock);
        let began = clock.now();
        if errand.deadline.passed(began) {
            let late = Failure::new(FailureKind::Timeout, "not asked: the answer is due");
            return Event::Failed(late);
        }
        let briefing = Briefing {
            brain: &errand.live.brain,
            tools: &self.announced,
            skills: &errand.agent.skills_section,
        };
        let prompt = briefing.prompt(
            &errand.work.conversation,
            errand.history.clone(),
            &self.notes,
            errand.present.clone(),
            ask,
        );
        let result = orchestrator::ask(&self.question(&prompt), self.model, errand.report);
        self.busy += clock.now().saturating_duration_since(began);
        match result {
            Ok(completion) => Event::Replied(completion),
            Err(failure) => Event::Failed(failure),
        }
    }

    fn decided(&self, end: End) -> Decision {
        match end {
            End::Answer {
                text,
                cut,
                left_out,
            } => Decision {
                won: Some(Won {
                    model: self.model,
                    text,
                    cut,
                }),
                left_out,
                ..failed(&given_up())
            },
            End::Failed(failure) => failed(&failure),
        }
    }
}

/// Calls.
impl Doing<'_> {
    /// Asks the gate about a tool: by the brain as it was when the run began and as it is now.
    fn judge(&self, name: &str, budget: Budget) -> gate::Decision {
        let errand = self.errand;
        let tool = errand.agent.tool(name);
        let question = gate::Question {
            tool: name,
            kind: tool.map(|tool| tool.descriptor),
            place: Place {
                channel: errand.work.conversation.channel.as_str(),
                chat: errand.work.chat,
            },
            cage: tool.map_or(Cage::Missing, LiveTool::cage),
            found: errand.live.found(),
            budget,
        };
        let setup = self.parts.current.load();
        let now = setup.brains.get(&errand.live.brain.name);
        gate::decide_in_work(&errand.live.brain, now.map(|live| &live.brain), &question)
    }

    /// Does what the gate lets be done with a call, and says what came of it; `None` where it was
    /// cut and may be made again.
    fn call(&mut self, asked: &Asked) -> Result<Option<Came>, Stopped> {
        let agent = self.errand.agent;
        let name = asked.call.name.as_str();
        let live = agent.tool(name);
        let tool = live.and_then(|live| live.tool.clone());
        let began = self.parts.clock.now();
        let decision = self.judge(name, asked.budget);
        let (came, outcome, rule) = match (decision, &asked.call.arguments, tool) {
            (gate::Decision::Refuse(rule), _, _) => {
                (Came::Refused(rule), ToolOutcome::Denied, Some(rule))
            }
            (gate::Decision::Rehearse, Err(_), _) => (Came::Malformed, ToolOutcome::Shadowed, None),
            (gate::Decision::Execute, Err(_), _) => (Came::Malformed, ToolOutcome::Error, None),
            (gate::Decision::Rehearse, Ok(arguments), Some(tool)) => {
                self.rehearse(name, &*tool, arguments)
            }
            (gate::Decision::Execute, Ok(arguments), Some(tool)) => {
                let effects = live.is_some_and(|live| live.descriptor.effects);
                self.open(asked.n, name, effects);
                self.commit()?;
                let result = self.execute(asked.n, name, &tool, arguments);
                let cut = self.errand.cancel.raised() && result.is_err();
                if cut && !effects {
                    let latency = self.parts.clock.now().saturating_duration_since(began);
                    self.close(asked.n, name, ToolOutcome::Error, None, latency);
                    self.write_down(&[]);
                    self.commit()?;
                    return Ok(None);
                }
                match result {
                    Ok(text) => (Came::Done(text), ToolOutcome::Ok, None),
                    Err(ToolFault::Refused { rule, told }) => {
                        (Came::Failed(told), ToolOutcome::Denied, Some(rule))
                    }
                    Err(ToolFault::Failed { .. }) if cut => {
                        (Came::Unknown, ToolOutcome::Unknown, None)
                    }
                    Err(ToolFault::Failed { told }) => {
                        (Came::Failed(told), ToolOutcome::Error, None)
                    }
                }
            }
            // The gate lets no tool pass that is not there.
            (_, Ok(_), None) => {
                let rule = Rule::GateFault;
                (Came::Refused(rule), ToolOutcome::Denied, Some(rule))
            }
        };
        let latency = self.parts.clock.now().saturating_duration_since(began);
        self.busy += latency;
        self.close(asked.n, name, outcome, rule, latency);
        Ok(Some(came))
    }

    fn rehearse(
        &self,
        name: &str,
        tool: &dyn Tool,
        arguments: &Arguments,
    ) -> (Came, ToolOutcome, Option<Rule>) {
        let outcome = ToolOutcome::Shadowed;
        let judged = catch_unwind(AssertUnwindSafe(|| tool.rehearse(arguments)));
        match judged.unwrap_or_else(|_| Err(self.broke_down(name))) {
            Ok(()) => (Came::Rehearsed, outcome, None),
            Err(ToolFault::Refused { rule, .. }) => (Came::Rehearsed, outcome, Some(rule)),
            Err(ToolFault::Failed { told }) => (Came::Failed(told), outcome, None),
        }
    }

    fn execute(
        &self,
        n: u32,
        name: &str,
        tool: &Arc<dyn Tool>,
        arguments: &Arguments,
    ) -> Result<String, ToolFault> {
        let errand = self.errand;
        // The same after a restart, and of no other call.
        let key = format!("{}-{n}", errand.work.message_id);
        let call = Call {
            arguments,
            conversation: &errand.work.conversation,
            key: &key,
            deadline: errand.deadline,
            cancel: errand.cancel,
        };
        let called = catch_unwind(AssertUnwindSafe(|| tool.call(&call)));
        called.unwrap_or_else(|_| Err(self.broke_down(name)))
    }

    fn broke_down(&self, name: &str) -> ToolFault {
        log::error!(brain = self.errand.live.brain.name.as_str(), tool = name; "a tool panicked, its run goes on");
        self.parts.watch.fault(Fault::Run);
        ToolFault::Failed {
            told: "the tool itself broke down; nobody knows how far it came".to_owned(),
        }
    }
}

/// Journal and audit.
impl Doing<'_> {
    fn record(&self, n: u32, tool: &str, end: Option<CallEnd>) -> CallRecord {
        let listed = self.errand.agent.tool(tool).is_some();
        CallRecord {
            call: n,
            brain: self.errand.live.brain.name.as_str().to_owned(),
            tool: if listed { tool } else { UNKNOWN }.to_owned(),
            channel: self.errand.work.conversation.channel.as_str().to_owned(),
            end,
        }
    }

    /// Has a call written down that is about to act.
    fn open(&mut self, n: u32, tool: &str, effects: bool) {
        let audit = Some(self.record(n, tool, None));
        let entry = effects.then(|| Run::started(n).to_bytes());
        self.steps.push(Step { entry, audit });
    }

    /// Has the end of a call written down with the next entry, and tells of it.
    fn close(
        &mut self,
        n: u32,
        tool: &str,
        outcome: ToolOutcome,
        rule: Option<Rule>,
        latency: Duration,
    ) {
        let end = CallEnd {
            outcome,
            rule,
            latency,
        };
        let record = self.record(n, tool, Some(end));
        self.parts.watch.tool_called(&ToolCalled {
            brain: &self.errand.live.brain.name,
            tool: &record.tool,
            channel: &self.errand.work.conversation.channel,
            outcome,
            rule,
            latency,
            message_id: &self.errand.work.message_id,
        });
        self.closing = Some(record);
    }

    /// Takes entries, and the end of a call where one waits, up into the next commit.
    fn write_down(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.steps.push(Step {
                entry: Some(entry.to_bytes()),
                audit: self.closing.take(),
            });
        }
        if let Some(audit) = self.closing.take() {
            self.steps.push(Step {
                entry: None,
                audit: Some(audit),
            });
        }
    }

    /// Commits what has been written down. While the store refuses, the run waits: it must not act
    /// before.
    fn commit(&mut self) -> Result<(), Stopped> {
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return Ok(());
        }
        let errand = self.errand;
        let mut tries = 0;
        loop {
            let error = match self.parts.store.add_steps(errand.work.row, steps.clone()) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(Stopped::Gone),
                Err(error) => error,
            };
            tries += 1;
            log::error!(message_id = errand.work.message_id.as_str(), attempt = tries, error = error.to_string().as_str(); "cannot store the steps of a run, it waits");
            self.parts.watch.fault(Fault::Store);
            // What may have been stored after all must not be stored twice.
            let certain = !matches!(error, StoreError::Hangs(_) | StoreError::Panicked);
            let stops = self.parts.rest(STORE_BACKOFF.wait(tries, u32::MAX)) == Process::Stops;
            let due = errand.deadline.passed(self.parts.clock.now());
            if !certain || stops || due {
                return Err(Stopped::Failed);
            }
        }
    }
}

fn given_up() -> Failure {
    Failure::new(FailureKind::Cancelled, "the run was given up")
}

/// No answer, for this reason.
fn failed(failure: &Failure) -> Decision {
    Decision {
        won: None,
        excuse: excuse_of([failure]),
        left_out: 0,
        failures: Vec::new(),
    }
}

impl LiveBrain {
    /// Where its models turned out to run.
    #[must_use]
    pub fn found(&self) -> Found {
        let elsewhere = self.providers.iter().flatten().any(|provider| {
            let known = provider.known();
            known.is_some_and(|facts| facts.remote.is_some())
        });
        match elsewhere {
            true => Found::Elsewhere,
            false => Found::AsDeclared,
        }
    }
}
