//! The thread `in:telegram`: performs the steps of polling and hands in what comes. It waits for one
//! thing at a time, the answer to a call or the end of a wait, and ends by the channel's cancel. What
//! follows a step is decided in `poll`, what an update means in `update`.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};

use crate::base::random;
use crate::channel::port::{Intake, Refusal};
use crate::channel::reports::Reports;
use crate::domain::cursor::Cursor;
use crate::domain::message::Inbound;
use crate::watch::board::ChannelState;
use crate::watch::{Fault, Ignored};

use super::api::{Call, Failure, Line};
use super::offset::Offset;
use super::poll::{method, Came, Poller, Step};
use super::update::{self, Me, Seen};
use super::Shared;

/// How long the thread rests after a panic, so that one that comes again does not spin.
const PANIC_REST: Duration = Duration::from_secs(5);

/// What the thread knows.
pub(super) struct Listener {
    shared: Arc<Shared>,
    intake: Arc<dyn Intake>,
    poller: Poller,
    me: Option<Me>,
    offset: Offset,
    reports: Reports,
}

impl Listener {
    pub(super) fn new(shared: Arc<Shared>, intake: Arc<dyn Intake>) -> Listener {
        let parts = &shared.parts;
        let limits = &parts.limits;
        Listener {
            poller: Poller::new(limits),
            reports: Reports::new(&parts.name, &parts.watch, &parts.clock, limits),
            shared,
            intake,
            me: None,
            offset: Offset::default(),
        }
    }

    /// Polls until the channel stops, or its token turns out to be worth nothing. A panic is
    /// contained, and the poll goes on where it was.
    ///
    /// Blocks: until then.
    pub(super) fn work(mut self) {
        loop {
            let ended = catch_unwind(AssertUnwindSafe(|| self.go_round()));
            match ended {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => {
                    self.shared.parts.watch.fault(Fault::Run);
                    self.reports
                        .state(ChannelState::Reconnecting, Some("a fault of Korvun's own"));
                    if self.shared.cancel.wait(PANIC_REST) {
                        return;
                    }
                }
            }
        }
    }

    /// One step and the wait behind it; says whether it was the last.
    fn go_round(&mut self) -> bool {
        let came = self.step();
        if self.shared.cancel.raised() {
            return true;
        }
        let verdict = self.poller.after(&came, random::number());
        if let Some((state, why)) = verdict.state {
            self.reports.state(state, why.as_deref());
        }
        match verdict.wait {
            None => true,
            Some(Duration::ZERO) => false,
            Some(wait) => self.shared.cancel.wait(wait),
        }
    }

    fn step(&mut self) -> Came {
        match self.poller.step() {
            Step::Greet => match self.call(&json!({})) {
                Ok(answer) => self.greeted(&answer),
                Err(failure) => Came::Failed(failure),
            },
            Step::Unhook => self.done(&json!({ "drop_pending_updates": false })),
            Step::Announce(language) => self.done(&self.shared.announced(language)),
            Step::Probe => self.poll(Duration::ZERO),
            Step::Poll => self.poll(self.shared.parts.limits.poll_wait),
        }
    }

    fn done(&self, params: &Value) -> Came {
        match self.call(params) {
            Ok(_) => Came::Done,
            Err(failure) => Came::Failed(failure),
        }
    }

    fn greeted(&mut self, answer: &Value) -> Came {
        let Some(me) = Me::of(answer) else {
            return Came::Failed(Failure::Odd { status: 200 });
        };
        match self
            .intake
            .cursor(&self.shared.parts.name, &me.id.to_string())
        {
            Ok(reached) => self.offset = Offset::new(reached),
            Err(_) => return Came::NoRoom,
        }
        log::info!(channel = self.shared.parts.name.as_str(), bot = me.username.as_str(); "bot known");
        self.me = Some(me);
        Came::Done
    }

    fn call(&self, params: &Value) -> Result<Value, Failure> {
        self.call_within(params, self.shared.parts.limits.chat_call)
    }

    fn call_within(&self, params: &Value, within: Duration) -> Result<Value, Failure> {
        self.shared.api.call(&Call {
            method: method(self.poller.step()),
            params,
            within,
            cancel: &self.shared.cancel,
            body_most: self.shared.parts.limits.poll_bytes,
            line: if self.poller.shaken() {
                Line::Fresh
            } else {
                Line::Kept
            },
        })
    }

    fn poll(&mut self, wait: Duration) -> Came {
        let limits = &self.shared.parts.limits;
        let within = wait + limits.poll_slack;
        let mut params = json!({
            "timeout": wait.as_secs(),
            "limit": self.poller.batch(),
            "allowed_updates": ["message", "edited_message"],
        });
        let now = self.shared.parts.clock.unix();
        if let Some(first) = self.offset.ask_from(now) {
            params["offset"] = json!(first);
        }
        let asked = self.shared.parts.clock.now();
        match self.call_within(&params, within) {
            Ok(answer) => match answer.as_array() {
                Some(updates) if updates.is_empty() => {
                    let answered = self.shared.parts.clock.now();
                    if answered.saturating_duration_since(asked) < wait / 2 {
                        Came::TooEarly
                    } else {
                        Came::Done
                    }
                }
                Some(updates) => self.take_all(updates),
                None => Came::Failed(Failure::Odd { status: 200 }),
            },
            Err(failure) => {
                if self.poller.stuck(&failure) {
                    self.step_over(&failure);
                }
                Came::Failed(failure)
            }
        }
    }

    /// Hands in what came, in the order of the numbers; stops before the first that cannot be taken.
    fn take_all(&mut self, updates: &[Value]) -> Came {
        let numbered = in_order(updates);
        for &(position, update) in &numbered {
            match self.read(update) {
                Seen::Message(inbound) => {
                    if let Err(refusal) = self.accept(*inbound, position) {
                        self.advance();
                        self.reports.full(refusal);
                        return Came::NoRoom;
                    }
                }
                Seen::Passed { reason, sender } => {
                    self.reports.ignored(reason, sender.as_deref());
                    self.offset.passed(position);
                }
                Seen::Moved { from, to } => {
                    self.shared.moved(from, to);
                    self.offset.passed(position);
                }
            }
        }
        self.advance();
        self.reports.room();
        if numbered.is_empty() && !updates.is_empty() {
            // Nothing of it can be acknowledged: it would come again at once.
            return Came::Failed(Failure::Odd { status: 200 });
        }
        Came::Done
    }

    /// Whatever an update does to the code that reads it, the next one is read.
    fn read(&self, update: &Value) -> Seen {
        let kind = Seen::Passed {
            reason: Ignored::Kind,
            sender: None,
        };
        let Some(me) = &self.me else { return kind };
        let rules = &self.shared.rules;
        let read = catch_unwind(AssertUnwindSafe(|| update::read(update, me, rules)));
        read.unwrap_or_else(|_| {
            self.shared.parts.watch.fault(Fault::Run);
            kind
        })
    }

    fn cursor(&self, position: i64) -> Option<Cursor> {
        Some(Cursor {
            account: self.me.as_ref()?.id.to_string(),
            position,
        })
    }

    fn accept(&mut self, inbound: Inbound, position: i64) -> Result<(), Refusal> {
        let cursor = self.cursor(position).ok_or(Refusal::Store)?;
        match self.intake.accept_at(inbound, &cursor) {
            Ok(_) | Err(Refusal::Crowded) => {}
            Err(refusal) => return Err(refusal),
        }
        self.offset.stored(position, self.shared.parts.clock.unix());
        Ok(())
    }

    /// Moves the store's cursor past what was passed over.
    fn advance(&mut self) {
        let position = self.offset.paused(self.shared.parts.clock.unix());
        if let Some(cursor) = position.and_then(|position| self.cursor(position)) {
            self.intake.advance(&self.shared.parts.name, &cursor);
        }
    }

    /// Steps over one update that cannot be read, by the number at its beginning.
    fn step_over(&mut self, failure: &Failure) {
        let Failure::Unreadable { beginning } = failure else {
            return;
        };
        if let Some(position) = first_number(beginning) {
            log::warn!(channel = self.shared.parts.name.as_str(), update = position; "an update that cannot be read is passed over");
            self.reports.ignored(Ignored::Kind, None);
            self.offset.passed(position);
            self.advance();
        }
    }
}

/// Updates by their numbers: asking from behind one acknowledges all that are lower. One without a
/// number is none.
fn in_order(updates: &[Value]) -> Vec<(i64, &Value)> {
    let numbered = |update| Some((update::number(update)?, update));
    let mut numbered: Vec<(i64, &Value)> = updates.iter().filter_map(numbered).collect();
    numbered.sort_by_key(|(position, _)| *position);
    numbered
}

/// The first `update_id` in an answer that is not whole.
fn first_number(beginning: &[u8]) -> Option<i64> {
    const KEY: &[u8] = b"\"update_id\":";
    let at = beginning
        .windows(KEY.len())
        .position(|window| window == KEY)?;
    let rest = beginning[at + KEY.len()..].trim_ascii_start();
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_taken_by_their_numbers() {
        let updates = [
            json!({ "update_id": 10 }),
            json!({ "update_id": 9.0 }),
            json!({ "update_id": "11" }),
            json!([]),
            json!({ "update_id": 9 }),
        ];
        let positions: Vec<i64> = in_order(&updates).iter().map(|(at, _)| *at).collect();
        assert_eq!(positions, [9, 10]);
    }

    #[test]
    fn the_number_of_an_update_is_found_at_its_beginning() {
        for (beginning, number) in [
            (
                r#"{"ok":true,"result":[{"update_id":712,"message":{"#,
                Some(712),
            ),
            (r#"{"ok":true,"result":[{"update_id": 712 ,"#, Some(712)),
            (r#"{"ok":true,"result":[{"update_id":71"#, None),
            (r#"{"ok":true,"result":[{"update_id":-"#, None),
            (r#"{"ok":true,"result":[{"message":"#, None),
        ] {
            assert_eq!(first_number(beginning.as_bytes()), number, "{beginning}");
        }
    }
}
