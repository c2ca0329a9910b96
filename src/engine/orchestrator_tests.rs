//! The orchestrator with providers of the test's own, on real threads. Nothing sleeps: whoever waits
//! waits for a gate or for the cancel.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Instant;

use super::*;
use crate::base::clock::SystemClock;
use crate::base::sync::lock;
use crate::domain::brain::{samples, Locality, Policy, Sensitivity};
use crate::domain::completion::{Lane, ModelFacts, Offer};
use crate::domain::ids::{ChannelName, Conversation};

/// Far above what any of these tests takes; reached only where one fails.
const LONG: Duration = Duration::from_secs(20);

/// Counts up; others wait until it is high enough.
#[derive(Debug, Default)]
struct Gate(Mutex<usize>, Condvar);

impl Gate {
    fn pass(&self) {
        *lock(&self.0) += 1;
        self.1.notify_all();
    }

    /// Whether so many have passed within the time of a test.
    fn wait(&self, passed: usize) -> bool {
        let count = lock(&self.0);
        let waited = self
            .1
            .wait_timeout_while(count, LONG, |count| *count < passed);
        *waited.unwrap().0 >= passed
    }
}

/// What a model does.
#[derive(Clone, Debug)]
enum Does {
    Say(&'static str),
    Fail(FailureKind),
    Panic,
    /// Says it once the gate is passed.
    SayAfter(Arc<Gate>, &'static str),
    /// Passes the first gate, then goes on until cancelled, then passes the second.
    Hang(Arc<Gate>, Arc<Gate>),
    /// Deaf to cancel: goes on until the gate is passed.
    Deaf(Arc<Gate>),
}

#[derive(Debug)]
struct Model {
    does: Does,
    asked: AtomicUsize,
    thread: Mutex<Option<(ThreadId, String)>>,
}

impl Provider for Model {
    fn chat(&self, _: &Prompt, _: Deadline, cancel: &Cancel) -> Result<Completion, Failure> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let thread = std::thread::current();
        *lock(&self.thread) = Some((thread.id(), thread.name().unwrap_or("").to_owned()));
        let say = |text: &str| {
            Ok(Completion {
                text: text.to_owned(),
                cut: text.ends_with("..."),
                left_out: 3,
                ..Completion::default()
            })
        };
        match &self.does {
            Does::Say(text) => say(text),
            Does::Fail(kind) => Err(Failure::new(*kind, "as told")),
            Does::Panic => panic!("as told"),
            Does::SayAfter(gate, text) => {
                assert!(gate.wait(1));
                say(text)
            }
            Does::Hang(begun, ended) => {
                begun.pass();
                let cancelled = cancel.wait(LONG);
                assert!(cancelled, "nobody gave it up");
                ended.pass();
                Err(Failure::new(FailureKind::Cancelled, "given up"))
            }
            Does::Deaf(gate) => {
                assert!(gate.wait(1));
                say("too late")
            }
        }
    }

    fn lane(&self, _: Deadline, _: &Cancel) -> Result<Lane, Failure> {
        unreachable!("no agent asks")
    }

    fn known(&self) -> Option<ModelFacts> {
        None
    }

    fn look(&self, _: Deadline, _: &Cancel) -> Result<ModelFacts, Failure> {
        Ok(ModelFacts::default())
    }

    fn warm_up(&self, _: Deadline, _: &Cancel) -> Result<(), Failure> {
        Ok(())
    }
}

/// A brain whose models do as told.
struct Stage {
    brain: Brain,
    models: Vec<Arc<Model>>,
    providers: Vec<Option<Arc<dyn Provider>>>,
    cancel: Cancel,
    answer_within: Duration,
    /// By model: how its attempts ended, as reported.
    reports: Mutex<HashMap<usize, Vec<Option<FailureKind>>>>,
}

impl Stage {
    /// Models by rank and deed, in catalogue order.
    fn new(models: &[(u32, Does)]) -> Stage {
        let mut brain = samples::brain("b");
        brain.models = models
            .iter()
            .enumerate()
            .map(|(i, (rank, _))| crate::domain::brain::Model {
                rank: *rank,
                ..samples::model("ollama", &format!("m{i}"))
            })
            .collect();
        let models: Vec<Arc<Model>> = models
            .iter()
            .map(|(_, does)| {
                Arc::new(Model {
                    does: does.clone(),
                    asked: AtomicUsize::new(0),
                    thread: Mutex::new(None),
                })
            })
            .collect();
        let providers = models
            .iter()
            .map(|model| Some(model.clone() as Arc<dyn Provider>));
        Stage {
            brain,
            providers: providers.collect(),
            models,
            cancel: Cancel::new(),
            answer_within: LONG,
            reports: Mutex::default(),
        }
    }

    fn consensus(models: &[(u32, Does)]) -> Stage {
        let mut stage = Stage::new(models);
        let kind = PolicyKind::Consensus;
        stage.brain.policy = Some(Policy {
            kind,
            order: Vec::new(),
        });
        stage
    }

    fn sequential(models: &[(u32, Does)]) -> Stage {
        let mut stage = Stage::new(models);
        stage.brain.dispatch = Dispatch::Sequential;
        stage
    }

    fn answer<R>(&self, commit: impl FnOnce(Decision) -> R) -> R {
        let prompt = Prompt {
            conversation: Conversation::new(&ChannelName::new("webhook"), "c"),
            head: Vec::new(),
            history: Vec::new(),
            tail: Vec::new(),
            turns: Vec::new(),
            offer: Offer::Nothing,
        };
        let question = Question {
            brain: &self.brain,
            providers: &self.providers,
            prompt: &prompt,
            deadline: Deadline::after(Instant::now(), self.answer_within),
            cancel: &self.cancel,
            clock: &SystemClock,
        };
        let report = |report: &Report<'_>| {
            assert!(!report.will_retry);
            let kind = report.failure.map(|failure| failure.kind);
            lock(&self.reports)
                .entry(report.model)
                .or_default()
                .push(kind);
        };
        answer(&question, &report, commit)
    }

    /// The decision, and how often each model was asked.
    fn decide(&self) -> (Decision, Vec<usize>) {
        let decision = self.answer(|decision| decision);
        let asked = self
            .models
            .iter()
            .map(|model| model.asked.load(Ordering::SeqCst));
        (decision, asked.collect())
    }
}

fn gate() -> Arc<Gate> {
    Arc::default()
}

fn winner(decision: &Decision) -> Option<(usize, &str)> {
    decision
        .won
        .as_ref()
        .map(|won| (won.model, won.text.as_str()))
}

#[test]
fn priority_waits_for_a_higher_rank_that_may_still_win() {
    let second = gate();
    let stage = Stage::new(&[
        (0, Does::SayAfter(second.clone(), "first")),
        (1, Does::Say("second")),
    ]);
    std::thread::scope(|scope| {
        let decided = scope.spawn(|| stage.decide().0);
        // The lower rank has answered; only now may the higher one.
        while lock(&stage.reports).get(&1).is_none() {
            std::thread::yield_now();
        }
        second.pass();
        assert_eq!(winner(&decided.join().unwrap()), Some((0, "first")));
    });
}

#[test]
fn priority_waits_no_longer_than_that_and_gives_the_losers_up() {
    let (begun, ended) = (gate(), gate());
    let hang = Does::Hang(begun.clone(), ended.clone());
    let stage = Stage::new(&[
        (2, hang.clone()),
        (1, Does::SayAfter(begun.clone(), "second...")),
        (0, Does::Fail(FailureKind::Connect)),
        (3, hang),
    ]);
    let (decision, asked) = stage.decide();
    assert_eq!(winner(&decision), Some((1, "second...")));
    assert!(decision.won.as_ref().is_some_and(|won| won.cut));
    assert_eq!(decision.left_out, 3);
    let failed: Vec<usize> = decision.failures.iter().map(|(model, _)| *model).collect();
    assert_eq!(failed, [2]);
    assert_eq!(asked, [1, 1, 1, 1]);
    assert!(ended.wait(2), "the losers saw the cancel");
    let reports = lock(&stage.reports);
    assert_eq!(reports[&0], [Some(FailureKind::Cancelled)]);
    assert_eq!(reports[&1], [None]);
    assert_eq!(reports[&2], [Some(FailureKind::Connect)]);
}

#[test]
fn a_straggler_holds_up_no_commit() {
    let committed = gate();
    let stage = Stage::new(&[(0, Does::Say("now")), (1, Does::Deaf(committed.clone()))]);
    let result = stage.answer(|decision| {
        // The straggler is deaf to cancel and ends only by this.
        committed.pass();
        assert_eq!(winner(&decision), Some((0, "now")));
        7
    });
    assert_eq!(result, 7);
    assert_eq!(lock(&stage.reports)[&1], [None], "joined before the return");
}

#[test]
fn a_commit_that_panics_leaves_no_loser_behind() {
    let (begun, ended) = (gate(), gate());
    let stage = Stage::new(&[
        (0, Does::SayAfter(begun.clone(), "now")),
        (1, Does::Hang(begun.clone(), ended.clone())),
    ]);
    let result = catch_unwind(AssertUnwindSafe(|| stage.answer(|_| panic!("as told"))));
    assert!(result.is_err());
    assert!(ended.wait(1));
}

#[test]
fn sequential_never_contacts_the_second_when_the_first_answers() {
    let fail = Does::Fail(FailureKind::Connect);
    for (models, won, asked) in [
        (vec![Does::Say("a"), Does::Say("b")], Some((0, "a")), [1, 0]),
        (vec![fail.clone(), Does::Say("b")], Some((1, "b")), [1, 1]),
        (vec![Does::Panic, Does::Say("b")], Some((1, "b")), [1, 1]),
        (vec![fail.clone(), fail], None, [1, 1]),
    ] {
        // The order of ranks is the other way round and does not matter.
        let models: Vec<_> = (0..).map(|i| 9 - i).zip(models).collect();
        let stage = Stage::sequential(&models);
        let (decision, contacted) = stage.decide();
        assert_eq!((winner(&decision), &contacted[..]), (won, &asked[..]));
        if won.is_none() {
            assert_eq!(decision.excuse, Excuse::Unreachable);
            assert_eq!(decision.failures.len(), 2);
        }
        assert!(!stage.cancel.raised());
    }
}

#[test]
fn sequential_stops_asking_when_given_up_or_due() {
    let stage = Stage::sequential(&[(0, Does::Say("a"))]);
    stage.cancel.raise();
    assert_eq!(stage.decide().1, [0]);
    let mut stage = Stage::sequential(&[(0, Does::Say("a")), (0, Does::Say("b"))]);
    stage.answer_within = Duration::ZERO;
    let (decision, asked) = stage.decide();
    assert_eq!((asked, decision.excuse), (vec![0, 0], Excuse::TooLate));
}

#[test]
fn one_model_is_asked_on_the_runs_own_thread_and_several_on_named_ones() {
    let stage = Stage::new(&[(0, Does::Say("a"))]);
    assert_eq!(winner(&stage.decide().0), Some((0, "a")));
    let thread = |stage: &Stage, i: usize| lock(&stage.models[i].thread).clone().unwrap();
    assert_eq!(thread(&stage, 0).0, std::thread::current().id());

    let stage = Stage::new(&[(0, Does::Say("a")), (1, Does::Say("b"))]);
    stage.decide();
    assert_eq!(
        (thread(&stage, 0).1, thread(&stage, 1).1),
        ("fan:b:0".into(), "fan:b:1".into())
    );
}

#[test]
fn consensus_needs_a_majority_and_sends_the_highest_ranked_of_it() {
    let say = Does::Say;
    let fail = || Does::Fail(FailureKind::Connect);
    for (models, won, excuse) in [
        (
            vec![(1, say("**Paris**")), (0, say("paris.")), (2, say("Rome"))],
            Some((1, "paris.")),
            None,
        ),
        (
            vec![(0, say("Rome")), (1, say("Paris")), (2, say("paris"))],
            Some((1, "Paris")),
            None,
        ),
        (
            vec![(0, say("a")), (1, say("A")), (2, fail())],
            Some((0, "a")),
            None,
        ),
        (
            vec![(0, say("a")), (1, say("b"))],
            None,
            Some(Excuse::NoAgreement),
        ),
        (
            vec![(0, say("a")), (1, fail()), (2, fail())],
            None,
            Some(Excuse::NoAgreement),
        ),
        (
            vec![(0, fail()), (1, fail()), (2, fail())],
            None,
            Some(Excuse::Unreachable),
        ),
    ] {
        let (decision, _) = Stage::consensus(&models).decide();
        assert_eq!(winner(&decision), won, "{models:?}");
        if let Some(excuse) = excuse {
            assert_eq!(decision.excuse, excuse, "{models:?}");
        }
    }
}

#[test]
fn consensus_is_decided_as_soon_as_it_is_certain() {
    let (begun, ended) = (gate(), gate());
    let stage = Stage::consensus(&[
        (0, Does::SayAfter(begun.clone(), "yes")),
        (1, Does::Say("Yes")),
        (2, Does::Hang(begun.clone(), ended.clone())),
    ]);
    assert_eq!(winner(&stage.decide().0), Some((0, "yes")));
    assert!(ended.wait(1));
}

#[test]
fn a_consensus_that_cannot_be_is_no_agreement() {
    let (decision, asked) = Stage::consensus(&[(0, Does::Say("a"))]).decide();
    assert_eq!((decision.excuse, asked), (Excuse::NoAgreement, vec![0]));
    let mut stage = Stage::consensus(&[(0, Does::Say("a")), (0, Does::Say("a"))]);
    stage.brain.dispatch = Dispatch::Sequential;
    let (decision, asked) = stage.decide();
    assert_eq!((winner(&decision), asked), (None, vec![1, 0]));
    assert_eq!(decision.excuse, Excuse::NoAgreement);
}

#[test]
fn giving_the_question_up_ends_all() {
    let (begun, ended) = (gate(), gate());
    let hang = || Does::Hang(begun.clone(), ended.clone());
    let stage = Stage::new(&[(0, hang()), (1, hang()), (2, hang())]);
    std::thread::scope(|scope| {
        let decided = scope.spawn(|| stage.decide().0);
        assert!(begun.wait(3));
        stage.cancel.raise();
        let decision = decided.join().unwrap();
        assert_eq!(decision.won, None);
        assert_eq!(decision.failures.len(), 3);
    });
    assert!(ended.wait(3));
}

#[test]
fn giving_the_question_up_does_not_wait_for_one_that_is_deaf() {
    let (begun, ended, committed) = (gate(), gate(), gate());
    let stage = Stage::new(&[
        (0, Does::Hang(begun.clone(), ended)),
        (1, Does::Deaf(committed.clone())),
    ]);
    std::thread::scope(|scope| {
        let decided = scope.spawn(|| {
            stage.answer(|decision| {
                committed.pass();
                decision
            })
        });
        assert!(begun.wait(1));
        stage.cancel.raise();
        let decision = decided.join().unwrap();
        assert_eq!(decision.won, None);
        assert_eq!(decision.failures[1].1.kind, FailureKind::Cancelled);
    });
}

#[test]
fn at_the_deadline_the_best_of_what_is_there_is_sent() {
    let committed = gate();
    let mut stage = Stage::new(&[
        (0, Does::Deaf(committed.clone())),
        (2, Does::Say("third")),
        (1, Does::Say("second")),
    ]);
    stage.answer_within = Duration::from_millis(20);
    let decision = stage.answer(|decision| {
        committed.pass();
        decision
    });
    assert_eq!(winner(&decision), Some((2, "second")));
    assert_eq!(decision.failures[0].1.kind, FailureKind::Timeout);

    let committed = gate();
    let deaf = || Does::Deaf(committed.clone());
    let mut stage = Stage::new(&[(0, deaf()), (1, deaf())]);
    stage.answer_within = Duration::from_millis(20);
    let decision = stage.answer(|decision| {
        committed.pass();
        decision
    });
    assert_eq!((decision.won, decision.excuse), (None, Excuse::TooLate));
}

#[test]
fn a_panic_is_contained_counted_and_costs_only_its_own_model() {
    let (decision, _) = Stage::new(&[(0, Does::Panic), (1, Does::Say("b"))]).decide();
    assert_eq!(winner(&decision), Some((1, "b")));
    for models in [
        vec![(0, Does::Panic)],
        vec![(0, Does::Panic), (1, Does::Panic)],
    ] {
        let stage = Stage::new(&models);
        let (decision, _) = stage.decide();
        assert_eq!((&decision.won, &decision.excuse), (&None, &Excuse::NoWords));
        assert_eq!(decision.failures.len(), models.len());
        assert_eq!(lock(&stage.reports)[&0], [Some(FailureKind::Body)]);
    }
}

#[test]
fn what_privacy_drops_is_never_asked() {
    let mut stage = Stage::new(&[(0, Does::Say("cloud")), (1, Does::Say("home"))]);
    stage.brain.sensitivity = Sensitivity::Private;
    stage.brain.models[0].locality = Locality::Cloud;
    let (decision, asked) = stage.decide();
    assert_eq!((winner(&decision), asked), (Some((1, "home")), vec![0, 1]));

    stage.brain.models[1].locality = Locality::Cloud;
    assert_eq!(stage.decide().0.excuse, Excuse::NotSetUp);

    let mut stage = Stage::new(&[(0, Does::Say("a")), (1, Does::Say("b"))]);
    stage.providers[0] = None;
    assert_eq!(winner(&stage.decide().0), Some((1, "b")));
}
