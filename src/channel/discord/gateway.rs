//! The thread `in:discord`: performs the steps of the gateway's session and hands in what comes. It
//! waits for one thing at a time, the socket or the end of a wait, and ends by the channel's cancel.
//! What follows a step is decided in `session`, what an event means in `event`.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::clock::Deadline;
use crate::base::random;
use crate::base::sync::lock;
use crate::channel::port::{Intake, Refusal};
use crate::channel::reports::Reports;
use crate::domain::message::Inbound;
use crate::net::ws::{self, Address, Opening, Socket};
use crate::watch::{Fault, Ignored};

use super::event::{self, Seen};
use super::rest::{Call, Failure, Line, USER_AGENT};
use super::session::{Came, Event, Payload, Say, Session, Starts, Step};
use super::Shared;

/// Bytes of the largest thing that the gateway may say: servers with many channels come as one.
const PAYLOAD_BYTES: usize = 4 * 1024 * 1024;
/// The code that a session ends with for good: the bot goes offline at once.
const CLOSE_FOR_GOOD: u16 = 1000;
/// What the socket is asked for.
const QUERY: &str = "v=10&encoding=json";
/// How long the thread rests after a panic, so that one that comes again does not spin.
const PANIC_REST: Duration = Duration::from_secs(5);
/// Between two log lines about texts that Discord keeps back.
const WITHHELD_AGAIN: Duration = Duration::from_secs(3600);

/// What the thread knows.
pub(super) struct Gateway {
    shared: Arc<Shared>,
    intake: Arc<dyn Intake>,
    session: Session,
    socket: Option<Socket>,
    reports: Reports,
    withheld: Option<Instant>,
    /// Whether something that is no payload has been logged.
    odd: bool,
}

impl Gateway {
    pub(super) fn new(shared: Arc<Shared>, intake: Arc<dyn Intake>) -> Gateway {
        let parts = &shared.parts;
        let limits = &parts.limits;
        Gateway {
            session: Session::new(limits, shared.parts.clock.now()),
            reports: Reports::new(&parts.name, &parts.watch, &parts.clock, limits),
            shared,
            intake,
            socket: None,
            withheld: None,
            odd: false,
        }
    }

    /// Listens until the channel stops, or a person must act. A panic is contained; the session
    /// goes on behind what was taken.
    ///
    /// Blocks: until then.
    pub(super) fn work(mut self) {
        loop {
            let ended = catch_unwind(AssertUnwindSafe(|| while self.go_round() {}));
            if ended.is_ok() {
                break;
            }
            self.shared.parts.watch.fault(Fault::Run);
            self.socket = None;
            let why = "a fault of Korvun's own".to_owned();
            self.came(Came::Lost(None, why));
            if self.shared.cancel.wait(PANIC_REST) {
                break;
            }
        }
        if let Some(socket) = self.socket.take() {
            socket.close(CLOSE_FOR_GOOD);
        }
    }

    fn came(&mut self, came: Came) {
        let now = self.shared.parts.clock.now();
        self.session.came(came, now, random::number());
    }

    /// One step; says whether there is another.
    fn go_round(&mut self) -> bool {
        if self.shared.cancel.raised() || self.shared.leaving.raised() {
            return false;
        }
        let step = self.session.step(self.shared.parts.clock.now());
        let came = match step {
            Step::Ask => self.ask(),
            Step::Open(address) => self.open(&address),
            Step::Say(say) => match self.say(&say) {
                Some(lost) => lost,
                None => return true,
            },
            Step::Read(until) => self.read(until),
            Step::Rest(until) => {
                let left = until.saturating_duration_since(self.shared.parts.clock.now());
                return !self.shared.cancel.wait(left);
            }
            Step::Close(code) => {
                if let Some(socket) = self.socket.take() {
                    socket.close(code);
                }
                return true;
            }
            Step::Take(event) => self.take(event),
            Step::Tell(state, why) => {
                self.reports.state(state, why.as_deref());
                return true;
            }
            Step::Over => return false,
        };
        self.came(came);
        true
    }

    fn ask(&self) -> Came {
        let answer = self.shared.api.call(&Call {
            path: "/gateway/bot",
            post: None,
            within: self.shared.parts.limits.chat_call,
            cancel: &self.shared.cancel,
            line: Line::Fresh,
        });
        let what = "asking for the gateway";
        let answer = match answer {
            Ok(answer) => answer.body,
            Err(Failure::Refused { status: 401, .. }) => return Came::TokenRefused,
            Err(failure) => {
                let wait = match &failure {
                    Failure::Limited { wait, .. } => Some(*wait),
                    _ => None,
                };
                return Came::Failed(failure.told(what), wait);
            }
        };
        let Ok(address) = Address::parse(answer["url"].as_str().unwrap_or_default()) else {
            let why = format!("{what}: Discord named no ws or wss address");
            return Came::Failed(why, None);
        };
        let limit = &answer["session_start_limit"];
        Came::Address(
            address,
            // Where no limit is told there is none that is known.
            Starts {
                total: limit["total"].as_u64().unwrap_or(1),
                remaining: limit["remaining"].as_u64().unwrap_or(1),
                reset_after: Duration::from_millis(limit["reset_after"].as_u64().unwrap_or(0)),
            },
        )
    }

    fn open(&mut self, address: &Address) -> Came {
        let parts = &self.shared.parts;
        self.socket = None;
        let opened = ws::open(
            &parts.wire,
            &Opening {
                address,
                query: QUERY,
                user_agent: USER_AGENT,
                deadline: Deadline::after(parts.clock.now(), parts.limits.chat_call),
                cancel: &self.shared.cancel,
                message_most: PAYLOAD_BYTES,
            },
        );
        match opened {
            Ok(socket) => {
                *lock(&self.shared.waker) = Some(socket.waker());
                self.socket = Some(socket);
                Came::Opened
            }
            Err(error) => Came::Failed(error.to_string(), None),
        }
    }

    /// Says something; what came of it where the connection is gone.
    fn say(&mut self, say: &Say) -> Option<Came> {
        let text = say.text(self.shared.parts.token.reveal());
        match self.socket.as_mut()?.say(text) {
            Ok(()) => None,
            Err(closed) => {
                self.socket = None;
                Some(Came::Lost(closed.code, closed.reason))
            }
        }
    }

    fn read(&mut self, until: Instant) -> Came {
        let Some(socket) = &mut self.socket else {
            return Came::Lost(None, "there is no connection".to_owned());
        };
        match socket.read(until) {
            ws::Came::Text(text) => match Payload::read(&text) {
                Some(payload) => Came::Payload(payload),
                None => self.no_payload(),
            },
            ws::Came::Other => self.no_payload(),
            ws::Came::Nothing => Came::Nothing,
            ws::Came::Closed(closed) => {
                self.socket = None;
                Came::Lost(closed.code, closed.reason)
            }
        }
    }

    /// Something came that is nothing: it is passed over, and said once.
    fn no_payload(&mut self) -> Came {
        if !std::mem::replace(&mut self.odd, true) {
            log::warn!(channel = self.shared.parts.name.as_str(); "the gateway said something that is no payload; it is passed over");
        }
        Came::Nothing
    }

    /// Hands in what happened.
    fn take(&mut self, event: Event) -> Came {
        match self.seen(&event) {
            Seen::Message(inbound) => {
                if let Err(why) = self.accept(*inbound) {
                    return Came::Full(why);
                }
            }
            Seen::Passed { reason, sender } => self.reports.ignored(reason, sender.as_deref()),
            Seen::Withheld => self.withheld(),
            Seen::Nothing => {}
        }
        Came::Taken(event.seq)
    }

    /// Whatever an event does to the code that reads it, the next one is read.
    fn seen(&self, event: &Event) -> Seen {
        let Some(me) = self.session.me() else {
            return Seen::Nothing;
        };
        let rules = &self.shared.rules;
        let read = AssertUnwindSafe(|| event::read(&event.name, &event.data, me, rules));
        catch_unwind(read).unwrap_or_else(|_| {
            self.shared.parts.watch.fault(Fault::Run);
            Seen::Passed {
                reason: Ignored::Kind,
                sender: None,
            }
        })
    }

    fn accept(&mut self, inbound: Inbound) -> Result<(), &'static str> {
        match self.intake.accept_kept(inbound) {
            Ok(_) | Err(Refusal::Crowded) => {
                self.reports.room();
                Ok(())
            }
            Err(refusal) => {
                self.reports.full(refusal);
                Err(refusal.why())
            }
        }
    }

    fn withheld(&mut self) {
        self.reports.ignored(Ignored::Kind, None);
        let now = self.shared.parts.clock.now();
        let recent = |at: Instant| now.saturating_duration_since(at) < WITHHELD_AGAIN;
        if !self.withheld.is_some_and(recent) {
            self.withheld = Some(now);
            log::error!(
                channel = self.shared.parts.name.as_str(),
                cure = "https://discord.com/developers/applications, the application, Bot, Message Content Intent";
                "Discord keeps the text of messages back"
            );
        }
    }
}
