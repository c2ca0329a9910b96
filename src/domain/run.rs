//! The work of an agent brain on one message, as a state machine: an event in, a step out. Pure, on
//! any thread. It must never show a person call syntax, nor ask for an effect again whose outcome
//! nobody knows. Who performs the steps writes [`Next::record`] down before the step, and can begin
//! again from what was written.

use std::collections::HashSet;

use super::calls;
use super::completion::{Completion, Failure, FailureKind, Lane, Said, Speaker, ToolCall, Turn};
use super::gate::Budget;
use super::journal::{Begun, Damaged, Entry};
use super::limits::Limits;
use super::reasoning;
use super::told::{self, Came};
use crate::base::text::prefix;

/// What holds for a whole run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The tools that the model is told of.
    pub announced: Vec<String>,
    /// The tools that the brain lists, announced or not: a call of one is recognised in any words.
    pub listed: Vec<String>,
    /// How the model is told of tools.
    pub lane: Lane,
    /// Replies that may call tools; one more, without tools, ends the run.
    pub max_iterations: u32,
    /// Calls of one reply that are looked at, and those of them that are made.
    pub calls_read: usize,
    /// See `calls_read`.
    pub calls_per_reply: usize,
    /// Bytes of what a model is told of one call.
    pub observation_bytes: usize,
}

impl Rules {
    /// Rules with the bounds of `limits`.
    #[must_use]
    pub fn new(
        announced: Vec<String>,
        listed: Vec<String>,
        lane: Lane,
        max_iterations: u32,
        limits: &Limits,
    ) -> Rules {
        Rules {
            announced,
            listed,
            lane,
            max_iterations,
            calls_read: limits.calls_read,
            calls_per_reply: limits.calls_per_reply,
            observation_bytes: limits.observation_bytes,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The work begins, or goes on behind what the journal tells.
    Begin,
    /// The model answered.
    Replied(Completion),
    /// The model did not answer, retries included.
    Failed(Failure),
    /// This came of the call that was asked for.
    Observed(Came),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the model.
    Ask(Ask),
    /// Ask the gate about this call, then execute, rehearse or refuse it.
    Call(Asked),
    /// The run has ended.
    Finish(End),
}

/// A step, and what has to be written down before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    /// Goes into the journal first, in this order.
    pub record: Vec<Entry>,
    /// What to do then.
    pub step: Step,
}

/// What the model is asked with.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// How it is told of tools.
    pub lane: Lane,
    /// Whether it is told of tools at all.
    pub tools: Tools,
    /// What stands behind the present message.
    pub turns: Vec<Turn>,
}

/// Whether a prompt tells of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    /// It does.
    Told,
    /// It does not: the answer is due.
    Withheld,
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its number in the run, from 1; the same after a restart.
    pub n: u32,
    /// What is asked for.
    pub call: ToolCall,
    /// Whether the reply may hold it.
    pub budget: Budget,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With words for the person; never blank, never call syntax.
    Answer {
        /// The words.
        text: String,
        /// Whether the model's length limit cut them.
        cut: bool,
        /// Earlier messages that did not fit the model's context.
        left_out: u32,
    },
    /// Without an answer.
    Failed(Failure),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    rules: Rules,
    lane: Lane,
    replies: Vec<Reply>,
    ids: HashSet<String>,
    /// The calls of all replies so far, those of earlier runs included.
    calls: u32,
    /// What an earlier run, which this one does not go on from, had started.
    unknown: Vec<String>,
    /// A blank reply has been asked for again.
    asked_again: bool,
}

/// A reply that was not the answer, and what came of it.
#[derive(Clone, Debug)]
struct Reply {
    lane: Lane,
    text: String,
    /// None where what looks like a call could not be read.
    calls: Vec<ToolCall>,
    /// The number of its first call.
    first: u32,
    /// The observations so far, in the calls' order.
    told: Vec<String>,
    /// The number of a call that has begun to have effects.
    started: Option<u32>,
}

impl Reply {
    /// The call whose turn it is.
    fn pending(&self) -> Option<(u32, &ToolCall)> {
        let at = self.told.len();
        Some((self.first + number(at), self.calls.get(at)?))
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Run {
    /// A run that has done nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Run {
        Run {
            lane: rules.lane,
            rules,
            replies: Vec::new(),
            ids: HashSet::new(),
            calls: 0,
            unknown: Vec::new(),
            asked_again: false,
        }
    }

    /// A run that has done nothing yet, behind others that it does not go on from.
    #[must_use]
    pub fn behind(rules: Rules, begun: &Begun) -> Run {
        let mut run = Run::new(rules);
        run.calls = begun.calls;
        run.unknown.clone_from(&begun.unknown);
        run
    }

    /// A run that goes on behind what an earlier attempt wrote down, oldest first.
    ///
    /// # Errors
    /// [`Damaged`] where that is not a journal of ours. Such a run must not begin anew: it may have
    /// had effects.
    pub fn resume(rules: Rules, entries: impl IntoIterator<Item = Entry>) -> Result<Run, Damaged> {
        let mut run = Run::new(rules);
        for (at, entry) in entries.into_iter().enumerate() {
            match entry {
                Entry::Begun(begun) if at == 0 => run = Run::behind(run.rules, &begun),
                Entry::Reply { lane, text, calls } if run.pending().is_none() => {
                    run.ids.extend(calls.iter().map(|call| call.id.clone()));
                    run.add(lane, text, calls);
                }
                Entry::Started { n } if run.pending() == Some(n) => {
                    run.last().ok_or(Damaged)?.started = Some(n);
                }
                Entry::Observed { n, text } if run.pending() == Some(n) => {
                    run.last().ok_or(Damaged)?.told.push(text);
                }
                _ => return Err(Damaged),
            }
        }
        Ok(run)
    }

    /// The tool of a call, by the call's number.
    #[must_use]
    pub fn tool(&self, n: u32) -> Option<&str> {
        let mut calls = self.replies.iter().flat_map(|reply| {
            let numbered = reply.calls.iter().zip(reply.first..);
            numbered.map(|(call, number)| (number, call.name.as_str()))
        });
        calls.find(|(number, _)| *number == n).map(|(_, name)| name)
    }

    /// The entry to write down before a call that has effects is executed.
    #[must_use]
    pub fn started(n: u32) -> Entry {
        Entry::Started { n }
    }

    /// Takes an event and says what to do next. An observation that nobody waits for changes
    /// nothing.
    pub fn next(&mut self, event: Event) -> Next {
        match event {
            Event::Begin => self.begin(),
            Event::Replied(completion) => self.replied(completion),
            Event::Failed(failure) => self.failed(failure),
            Event::Observed(came) => {
                let record = self.observe(&came).into_iter().collect();
                self.go_on(record)
            }
        }
    }

    fn last(&mut self) -> Option<&mut Reply> {
        self.replies.last_mut()
    }

    /// The number of the call whose turn it is.
    fn pending(&self) -> Option<u32> {
        Some(self.replies.last()?.pending()?.0)
    }

    fn begin(&mut self) -> Next {
        let interrupted = self.replies.last().is_some_and(|reply| {
            reply.started.is_some() && reply.started == reply.pending().map(|(n, _)| n)
        });
        let entry = interrupted.then(|| self.observe(&Came::Unknown)).flatten();
        self.go_on(entry.into_iter().collect())
    }

    fn go_on(&self, record: Vec<Entry>) -> Next {
        let pending = self.replies.last().and_then(|reply| {
            let (n, call) = reply.pending()?;
            let spent = reply.told.len() >= self.rules.calls_per_reply;
            Some(Asked {
                n,
                call: call.clone(),
                budget: if spent { Budget::Spent } else { Budget::Left },
            })
        });
        let step = match pending {
            Some(asked) => Step::Call(asked),
            None => Step::Ask(self.ask()),
        };
        Next { record, step }
    }
}

impl Run {
    /// Writes down what came of the call whose turn it is.
    fn observe(&mut self, came: &Came) -> Option<Entry> {
        let most = self.rules.observation_bytes;
        let announced = &self.rules.announced;
        let reply = self.replies.last_mut()?;
        let (n, call) = reply.pending()?;
        let text = told::told(came, call, announced, most);
        reply.told.push(text.clone());
        Some(Entry::Observed { n, text })
    }

    fn withheld(&self) -> bool {
        self.replies.len() >= self.rules.max_iterations as usize
    }

    /// What is told of an earlier run, as if this one had been asked about it.
    fn interrupted(&self) -> Vec<Turn> {
        if self.unknown.is_empty() {
            return Vec::new();
        }
        let own = Said {
            by: Speaker::Assistant,
            text: told::INTERRUPTED.to_owned(),
        };
        vec![Turn::Said(own), told_model(told::started(&self.unknown))]
    }

    fn ask(&self) -> Ask {
        let mut turns = self.interrupted();
        for reply in &self.replies {
            turns.extend(reply.turns(self.lane));
        }
        let tools = if self.withheld() {
            turns.push(told_model(told::ANSWER_DUE.to_owned()));
            Tools::Withheld
        } else {
            Tools::Told
        };
        Ask {
            lane: self.lane,
            tools,
            turns,
        }
    }

    fn replied(&mut self, completion: Completion) -> Next {
        let read = calls::read(&completion.text, &self.rules.listed, self.rules.calls_read);
        if self.withheld() {
            return self.answer(reasoning::strip(&read.rest), &completion);
        }
        if !completion.calls.is_empty() {
            // What stands beside is kept for the model; call syntax in it would be read twice.
            return self.called(Lane::Native, read.rest, completion.calls);
        }
        if !read.calls.is_empty() {
            return self.called(Lane::Text, read.up_to_calls, read.calls);
        }
        let plain = reasoning::strip(&read.rest);
        if read.broken || plain != read.rest.trim() {
            return self.called(Lane::Text, completion.text, Vec::new());
        }
        self.answer(plain, &completion)
    }

    fn answer(&mut self, text: String, completion: &Completion) -> Next {
        if text.trim().is_empty() {
            let detail = "the model answered with nothing but call syntax";
            return self.failed(Failure::new(FailureKind::Empty, detail));
        }
        finish(End::Answer {
            text,
            cut: completion.cut,
            left_out: completion.left_out,
        })
    }

    fn called(&mut self, lane: Lane, text: String, mut calls: Vec<ToolCall>) -> Next {
        calls.truncate(self.rules.calls_read);
        let text = prefix(&text, self.rules.observation_bytes).to_owned();
        calls::settle(&mut calls, &self.rules.listed, &mut self.ids, self.calls);
        let entry = Entry::Reply {
            lane,
            text: text.clone(),
            calls: calls.clone(),
        };
        self.add(lane, text, calls);
        self.go_on(vec![entry])
    }

    fn add(&mut self, lane: Lane, text: String, calls: Vec<ToolCall>) {
        let first = self.calls + 1;
        self.calls += number(calls.len());
        self.replies.push(Reply {
            lane,
            text,
            calls,
            first,
            told: Vec::new(),
            started: None,
        });
    }

    fn failed(&mut self, failure: Failure) -> Next {
        match failure.kind {
            FailureKind::ToolsUnsupported if self.lane == Lane::Native => self.lane = Lane::Text,
            FailureKind::Empty if !self.asked_again => self.asked_again = true,
            _ => return finish(End::Failed(failure)),
        }
        self.go_on(Vec::new())
    }
}

fn finish(end: End) -> Next {
    Next {
        record: Vec::new(),
        step: Step::Finish(end),
    }
}

fn told_model(text: String) -> Turn {
    Turn::Said(Said {
        by: Speaker::User,
        text,
    })
}

impl Reply {
    /// The reply and what came of it, as a model in that lane is shown them.
    fn turns(&self, lane: Lane) -> Vec<Turn> {
        if self.calls.is_empty() {
            return vec![
                self.own_words(self.text.clone()),
                told_model(told::UNREADABLE.to_owned()),
            ];
        }
        let came = self.calls.iter().zip(&self.told);
        if (lane, self.lane) == (Lane::Native, Lane::Native) {
            let called = Turn::Called {
                text: self.text.clone(),
                calls: self.calls.clone(),
            };
            let observed = came.map(|(call, told)| Turn::Observed {
                id: call.id.clone(),
                name: call.name.clone(),
                text: told.clone(),
            });
            return std::iter::once(called).chain(observed).collect();
        }
        let words = match self.lane {
            Lane::Text => self.text.clone(),
            Lane::Native => calls::written(&self.text, &self.calls),
        };
        let results: Vec<String> = came
            .map(|(call, told)| format!("Result of {}: {told}", call.name))
            .collect();
        vec![self.own_words(words), told_model(results.join("\n\n"))]
    }

    fn own_words(&self, text: String) -> Turn {
        Turn::Said(Said {
            by: Speaker::Assistant,
            text,
        })
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
