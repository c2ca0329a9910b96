//! What follows the outcome of one step of polling: the next step, after how long, and what state
//! that means. Pure; the thread `in:telegram` performs it.

use std::time::Duration;

use crate::base::backoff::Backoff;
use crate::domain::limits::Limits;
use crate::domain::message::Language;
use crate::watch::board::ChannelState;

use super::api::{Failure, Refused};

/// The longest flood limit that is obeyed as it is for polls; a longer one is asked about again
/// then, lest a strange answer silence the bot for good.
const FLOOD_MOST: Duration = Duration::from_secs(3600);
/// How long polling pauses while the inbox is full or the store cannot commit.
const PAUSE: Duration = Duration::from_secs(2);
/// Updates asked for at once: Telegram's own limit.
const BATCH: u32 = 100;

/// One thing that the thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// `getMe`: whose token is it?
    Greet,
    /// `deleteWebhook`: where one is set, polls are refused.
    Unhook,
    /// `setMyCommands`, once for everybody and once for those who read Spanish: a convenience;
    /// nothing depends on it.
    Announce(Language),
    /// `getUpdates` that does not wait: shows at once whether polling works.
    Probe,
    /// `getUpdates` that waits.
    Poll,
}

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// As it should; of updates, all are taken.
    Done,
    /// No update, and long before the wait for one was over: whoever answers does not wait.
    TooEarly,
    /// Updates came that cannot be taken now.
    NoRoom,
    /// Not.
    Failed(Failure),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The wait before the next step; none where there is no next step.
    pub wait: Option<Duration>,
    /// The state from now on and why, where it can be told anew.
    pub state: Option<(ChannelState, Option<String>)>,
}

/// Where polling stands.
#[derive(Clone, Debug)]
pub struct Poller {
    step: Step,
    failures: u32,
    batch: u32,
    backoff: Backoff,
    conflict_wait: Duration,
}

impl Poller {
    /// At the beginning.
    pub fn new(limits: &Limits) -> Poller {
        Poller {
            step: Step::Greet,
            failures: 0,
            batch: BATCH,
            backoff: Backoff {
                first: limits.reconnect_first,
                most: limits.reconnect_most,
            },
            conflict_wait: limits.poll_conflict,
        }
    }

    /// The next step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Whether the last step failed, so that the next one needs a connection of its own.
    pub fn shaken(&self) -> bool {
        self.failures > 0
    }

    /// Updates to ask for at once.
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// Whether one update alone is too large to be read, and has to be stepped over.
    pub fn stuck(&self, failure: &Failure) -> bool {
        self.batch == 1 && matches!(failure, Failure::Unreadable { .. })
    }

    /// Decides what follows. `random` is uniform over all of `u32`.
    pub fn after(&mut self, came: &Came, random: u32) -> Verdict {
        match came {
            Came::Done => self.done(),
            Came::TooEarly => Verdict {
                wait: Some(self.backoff.first),
                ..self.done()
            },
            // The offset stays behind what could not be taken; nothing is wrong with the line.
            Came::NoRoom => go_on(PAUSE, None),
            Came::Failed(failure) => self.failed(failure, random),
        }
    }

    fn done(&mut self) -> Verdict {
        let polled = matches!(self.step, Step::Probe | Step::Poll);
        self.step = match self.step {
            Step::Greet => Step::Unhook,
            Step::Unhook => Step::Announce(Language::En),
            Step::Announce(Language::En) => Step::Announce(Language::Es),
            Step::Announce(Language::Es) => Step::Probe,
            Step::Probe | Step::Poll => Step::Poll,
        };
        self.failures = 0;
        if polled {
            self.batch = BATCH.min(self.batch.saturating_mul(2));
        }
        go_on(
            Duration::ZERO,
            polled.then_some((ChannelState::Connected, None)),
        )
    }

    fn failed(&mut self, failure: &Failure, random: u32) -> Verdict {
        let step = self.step;
        match failure {
            Failure::Refused(refused) if is_rejected(refused, step) => {
                return Verdict {
                    wait: None,
                    state: Some((ChannelState::Failed, Some(rejected(refused)))),
                };
            }
            _ if matches!(step, Step::Announce(_)) => {
                self.step = Step::Probe;
                return go_on(Duration::ZERO, None);
            }
            Failure::Unreadable { .. } if self.batch > 1 => {
                self.batch /= 2;
                return go_on(Duration::ZERO, None);
            }
            _ => {}
        }
        if step == Step::Poll {
            self.step = Step::Probe;
        }
        self.failures = self.failures.saturating_add(1);
        let told = failure.told(method(step));
        match failure {
            Failure::Refused(refused) if refused.code == 409 => go_on(
                self.conflict_wait,
                Some((ChannelState::Conflict, Some(conflict(refused)))),
            ),
            Failure::Refused(Refused {
                retry_after: Some(wait),
                ..
            }) => go_on(
                (*wait).min(FLOOD_MOST),
                Some((ChannelState::Reconnecting, Some(told))),
            ),
            _ => go_on(
                self.backoff.wait(self.failures, random),
                Some((ChannelState::Reconnecting, Some(told))),
            ),
        }
    }
}

/// The method of a step.
pub fn method(step: Step) -> &'static str {
    match step {
        Step::Greet => "getMe",
        Step::Unhook => "deleteWebhook",
        Step::Announce(_) => "setMyCommands",
        Step::Probe | Step::Poll => "getUpdates",
    }
}

fn go_on(wait: Duration, state: Option<(ChannelState, Option<String>)>) -> Verdict {
    Verdict {
        wait: Some(wait),
        state,
    }
}

/// Whether a refusal is about the token: 401 everywhere, and 404 for one that is malformed, which is
/// seen at the first call.
fn is_rejected(refused: &Refused, step: Step) -> bool {
    refused.code == 401 || (refused.code == 404 && step == Step::Greet)
}

fn rejected(refused: &Refused) -> String {
    format!(
        "Telegram rejects the token ({} {}): put the token that @BotFather gives (/mybots, API Token) into the variable that token_env names, then restart",
        refused.code, refused.description
    )
}

fn conflict(refused: &Refused) -> String {
    let webhook = refused.description.to_ascii_lowercase().contains("webhook");
    if webhook {
        "a webhook is set for this bot, so that Telegram refuses polls: another program uses the token, stop it".to_owned()
    } else {
        "another program polls with this token, or an earlier poll is not over yet: stop the other one; a new token (@BotFather, /revoke) shuts it out".to_owned()
    }
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
