//! Asks the models of a brain and decides which answer is sent. Runs on a run's thread, with one
//! scoped thread for each model that is asked beside others. It must never ask a model that privacy
//! drops, nor let a slow loser hold up the answer: the caller commits, and gives its lane and its
//! places back, before the losers' threads have ended.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, Deadline};
use crate::domain::brain::{Brain, Dispatch, PolicyKind};
use crate::domain::completion::{Completion, Failure, FailureKind, Lane, Prompt};
use crate::domain::excuse::{excuse_of, Excuse};
use crate::domain::privacy;
use crate::domain::reduce::{NoWinner, Reducer, Verdict};
use crate::net::cancel::Cancel;
use crate::provider::retry::{self, Attempt};
use crate::provider::Provider;

/// The stack of a thread that asks one model: TLS and JSON of a bounded depth.
const STACK_BYTES: usize = 512 * 1024;

/// How long after the deadline a model may still say why it failed ("it is being loaded" helps
/// more than "too late"); each of them ends by the deadline itself.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What is asked, of whom, until when.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The brain.
    pub brain: &'a Brain,
    /// Its providers, in the places of `brain.models`; `None` where a model may not be asked.
    pub providers: &'a [Option<Arc<dyn Provider>>],
    /// What is said to each.
    pub prompt: &'a Prompt,
    /// When the whole answer is due.
    pub deadline: Deadline,
    /// Gives the question up. It is this question's own: it is raised, after the commit, to give up
    /// the models that lost.
    pub cancel: &'a Cancel,
    /// Where time comes from.
    pub clock: &'a dyn Clock,
}

/// One finished attempt at one model, for those who count. Comes on that model's thread.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The model's place in `brain.models`.
    pub model: usize,
    /// How long the attempt took.
    pub elapsed: Duration,
    /// How it failed, if it did.
    pub failure: Option<&'a Failure>,
    /// Whether another attempt follows.
    pub will_retry: bool,
}

/// What the models came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The answer that is sent, if one is.
    pub won: Option<Won>,
    /// What is said where none is.
    pub excuse: Excuse,
    /// Earlier messages that the winner was not shown, for they did not fit.
    pub left_out: u32,
    /// The models that had failed by then, by their places in `brain.models`.
    pub failures: Vec<(usize, Failure)>,
}

/// The answer that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Won {
    /// The model's place in `brain.models`.
    pub model: usize,
    /// The words.
    pub text: String,
    /// Whether the model's length limit cut it.
    pub cut: bool,
}

/// Asks, decides, and calls `commit` with the decision as soon as it is certain; returns what
/// `commit` returned. The models that lost are given up after the commit, and their threads joined.
///
/// Blocks: until `deadline` and a moment at most, plus what `commit` takes, plus the end of those that lost: a
/// millisecond each, or the limit of a look-up or connection that cannot be interrupted.
pub fn answer<R>(
    question: &Question<'_>,
    report: &(dyn Fn(&Report<'_>) + Sync),
    commit: impl FnOnce(Decision) -> R,
) -> R {
    let brain = question.brain;
    let provided = |&i: &usize| question.providers.get(i).is_some_and(Option::is_some);
    let asked: Vec<usize> = privacy::eligible(brain)
        .into_iter()
        .filter(provided)
        .collect();
    let mut table = Table::new(question, asked);
    if table.verdict != Verdict::Open {
        return commit(table.decide());
    }
    if brain.dispatch == Dispatch::Sequential || table.asked.len() == 1 {
        one_by_one(question, report, &mut table);
        return commit(table.decide());
    }
    std::thread::scope(|scope| {
        let losers = GiveUp(question.cancel);
        let answers = fan_out(scope, question, report, &mut table);
        listen(question, &answers, &mut table);
        let result = commit(table.decide());
        drop(losers);
        result
    })
}

/// Raises the question's cancel when it goes, also when the commit panics: the scope joins the
/// threads next, and they end by it.
struct GiveUp<'a>(&'a Cancel);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// What each model has said so far.
struct Table {
    /// The models asked, by their places in the brain.
    asked: Vec<usize>,
    reducer: Reducer,
    verdict: Verdict,
    results: Vec<Option<Result<Completion, Failure>>>,
}

impl Table {
    fn new(question: &Question<'_>, asked: Vec<usize>) -> Table {
        let brain = question.brain;
        let kind = brain
            .policy
            .as_ref()
            .map_or(PolicyKind::Priority, |policy| policy.kind);
        let ranks: Vec<u32> = asked.iter().map(|&i| brain.models[i].rank).collect();
        let reducer = Reducer::new(kind, &ranks);
        Table {
            verdict: reducer.verdict(),
            reducer,
            results: asked.iter().map(|_| None).collect(),
            asked,
        }
    }

    fn enter(&mut self, at: usize, result: Result<Completion, Failure>) {
        self.verdict = match &result {
            Ok(completion) => self.reducer.answered(at, &completion.text),
            Err(_) => self.reducer.failed(at),
        };
        self.results[at] = Some(result);
    }

    /// Counts those that are still out as failed.
    fn close(&mut self, kind: FailureKind, detail: &str) {
        for at in 0..self.results.len() {
            if self.results[at].is_none() {
                self.enter(at, Err(Failure::new(kind, detail)));
            }
        }
    }

    fn decide(&mut self) -> Decision {
        let won = match self.verdict {
            Verdict::Won(at) => match self.results[at].take() {
                Some(Ok(completion)) => Some((self.asked[at], completion)),
                _ => None,
            },
            Verdict::Open | Verdict::None(_) => None,
        };
        let failures: Vec<(usize, Failure)> = self
            .asked
            .iter()
            .zip(&self.results)
            .filter_map(|(&model, result)| Some((model, result.as_ref()?.as_ref().err()?.clone())))
            .collect();
        let excuse = match self.verdict {
            _ if self.asked.is_empty() => Excuse::NotSetUp,
            Verdict::None(NoWinner::NoAgreement) => Excuse::NoAgreement,
            _ => excuse_of(failures.iter().map(|(_, failure)| failure)),
        };
        Decision {
            left_out: won
                .as_ref()
                .map_or(0, |(_, completion)| completion.left_out),
            won: won.map(|(model, completion)| Won {
                model,
                text: completion.text,
                cut: completion.cut,
            }),
            excuse,
            failures,
        }
    }
}

/// Asks in catalogue order on this thread; the first success ends it.
fn one_by_one(question: &Question<'_>, report: &(dyn Fn(&Report<'_>) + Sync), table: &mut Table) {
    for at in 0..table.asked.len() {
        if question.cancel.raised() {
            return table.close(
                FailureKind::Cancelled,
                "not asked: the question was given up",
            );
        }
        if question.deadline.passed(question.clock.now()) {
            return table.close(FailureKind::Timeout, "not asked: the answer is due");
        }
        let result = ask(question, table.asked[at], report);
        let answered = result.is_ok();
        table.enter(at, result);
        if answered {
            // Those behind it are not asked and can neither win nor agree.
            return table.close(FailureKind::Cancelled, "not asked: one before it answered");
        }
    }
}

type Answers = Receiver<(usize, Result<Completion, Failure>)>;

/// Starts one thread for each model.
fn fan_out<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    question: &'env Question<'env>,
    report: &'env (dyn Fn(&Report<'_>) + Sync),
    table: &mut Table,
) -> Answers {
    let (said, answers) = mpsc::channel();
    for at in 0..table.asked.len() {
        let model = table.asked[at];
        let said: Sender<_> = said.clone();
        let name: String = format!("fan:{}:{model}", question.brain.name);
        let thread = std::thread::Builder::new()
            .name(name.replace(char::is_control, "_"))
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                // Nobody listens any more where the decision has fallen.
                let _ = said.send((at, ask(question, model, report)));
            });
        if let Err(error) = thread {
            let detail = format!("cannot start a thread to ask it: {error}");
            table.enter(at, Err(Failure::new(FailureKind::Connect, detail)));
        }
    }
    answers
}

/// Takes answers as they come until the outcome is certain, the answer is due, or the question is
/// given up.
fn listen(question: &Question<'_>, answers: &Answers, table: &mut Table) {
    while table.verdict == Verdict::Open {
        let left = question.deadline.left(question.clock.now());
        match answers.recv_timeout(left.saturating_add(LAST_WORDS)) {
            Ok((at, result)) => table.enter(at, result),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                table.close(
                    FailureKind::Timeout,
                    "no answer by the time that it was due",
                );
            }
        }
        if table.verdict == Verdict::Open && question.cancel.raised() {
            table.close(FailureKind::Cancelled, "the question was given up");
        }
    }
}

/// Asks one model with its retries. A panic is contained and is that model's failure.
///
/// Blocks: until the question's deadline at most, or until its cancel is raised.
pub(super) fn ask(
    question: &Question<'_>,
    model: usize,
    report: &(dyn Fn(&Report<'_>) + Sync),
) -> Result<Completion, Failure> {
    contained(question, model, report, |provider, count| {
        retry::ask(
            provider,
            &question.brain.models[model],
            question.prompt,
            question.deadline,
            question.cancel,
            question.clock,
            count,
        )
    })
}

/// Finds out how one model is told of tools, as [`ask`] asks it.
///
/// Blocks: as [`ask`].
pub(super) fn lane(
    question: &Question<'_>,
    model: usize,
    report: &(dyn Fn(&Report<'_>) + Sync),
) -> Result<Lane, Failure> {
    contained(question, model, report, |provider, count| {
        retry::lane(
            provider,
            &question.brain.models[model],
            question.deadline,
            question.cancel,
            question.clock,
            count,
        )
    })
}

fn contained<T>(
    question: &Question<'_>,
    model: usize,
    report: &(dyn Fn(&Report<'_>) + Sync),
    asking: impl FnOnce(&dyn Provider, &mut dyn FnMut(&Attempt<'_>)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(Some(provider)) = question.providers.get(model) else {
        return Err(Failure::new(
            FailureKind::Shield,
            "this model may not be asked",
        ));
    };
    let began = question.clock.now();
    let asking = AssertUnwindSafe(|| {
        asking(&**provider, &mut |attempt| {
            report(&Report {
                model,
                elapsed: attempt.elapsed,
                failure: attempt.failure,
                will_retry: attempt.will_retry,
            });
        })
    });
    catch_unwind(asking).unwrap_or_else(|_| {
        let failure = Failure::new(FailureKind::Body, "asking it made Korvun's own code panic");
        report(&Report {
            model,
            elapsed: question.clock.now().saturating_duration_since(began),
            failure: Some(&failure),
            will_retry: false,
        });
        Err(failure)
    })
}

#[cfg(test)]
#[path = "orchestrator_tests.rs"]
mod tests;
