//! What a client of Discord's gateway does next: events and time in, steps out. Pure: it opens no
//! socket, reads no clock, draws no random number. Opcodes, close codes and rules: Discord developer
//! documentation, "Gateway" and "Opcodes and Status Codes", version 10.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::base::backoff::Backoff;
use crate::base::json;
use crate::domain::limits::Limits;
use crate::net::ws::Address;
use crate::watch::board::ChannelState;

use super::event::Me;

/// GUILDS 1, GUILD_MESSAGES 512, DIRECT_MESSAGES 4096, MESSAGE_CONTENT 32768 (contract 4).
const INTENTS: u32 = 37377;
/// The code that we close with: any but 1000 and 1001 leaves the session open for a resume.
const CLOSE_TO_RESUME: u16 = 4000;
/// How long Hello may take: it is the first thing that is said.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// How long READY, or the next replayed event up to RESUMED, may take.
const GREETING_WITHIN: Duration = Duration::from_secs(30);
/// The interval between heartbeats is taken within these bounds, whatever Hello says.
const BEAT_LEAST: Duration = Duration::from_secs(1);
const BEAT_MOST: Duration = Duration::from_secs(300);
/// How long after its time a heartbeat still waits for the acknowledgement of the one before, while
/// other things come in: what is on its way is read first.
const ACK_GRACE: Duration = Duration::from_secs(10);
/// A connection that has stood for so long counts as one that worked.
const STEADY: Duration = Duration::from_secs(10);
/// Tries at the address for resuming before it is given up for the general one.
const RESUME_TRIES: u32 = 3;
/// Tries at resuming before the session itself is given up.
const SESSION_TRIES: u32 = 6;
/// Between two identifies (`max_concurrency` is 1 for all but the largest bots).
const IDENTIFY_APART: Duration = Duration::from_secs(5);
/// The longest wait for the budget of identifies: it is a daily one.
const BUDGET_WAIT_MOST: Duration = Duration::from_secs(24 * 3600);
/// Between two looks whether there is a budget again, at the least.
const BUDGET_WAIT_LEAST: Duration = Duration::from_secs(5);
/// Values of one payload: a server of many hundred channels and roles has some ten thousand.
const PAYLOAD_VALUES: usize = 100_000;
/// Bytes of a session's id: Discord's have 32.
const SESSION_ID_BYTES: usize = 256;
/// Things that may be said within [`SAID_WITHIN`] on one connection.
const SAID_MOST: usize = 120;
const SAID_WITHIN: Duration = Duration::from_secs(60);
/// Of those, kept free for our own heartbeats and greetings when Discord asks for more.
const SAID_KEPT: usize = 70;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask for the address and the budget (`GET /gateway/bot`).
    Ask,
    /// Open a socket there.
    Open(Address),
    /// Say this on it.
    Say(Say),
    /// Read the next thing, until that moment.
    Read(Instant),
    /// Wait until that moment; there is no socket.
    Rest(Instant),
    /// Close the socket with that code.
    Close(u16),
    /// Hand in what happened; it is acknowledged by [`Came::Taken`].
    Take(Event),
    /// Report the state.
    Tell(ChannelState, Option<String>),
    /// It is over: a person must act.
    Over,
}

/// What we say.
#[derive(Clone, Debug, PartialEq)]
pub enum Say {
    /// A sign of life, with the last sequence number that is taken.
    Heartbeat(Option<u64>),
    /// The beginning of a new session.
    Identify,
    /// The continuation of one.
    Resume {
        /// Its id.
        session: String,
        /// The last sequence number that is taken.
        seq: u64,
    },
}

impl Say {
    /// As it goes over the wire, with the token where it belongs.
    pub fn text(&self, token: &str) -> String {
        match self {
            Say::Heartbeat(seq) => json!({ "op": 1, "d": seq }),
            Say::Identify => json!({ "op": 2, "d": {
                "token": token,
                "intents": INTENTS,
                "properties": { "os": "linux", "browser": "korvun", "device": "korvun" },
            }}),
            Say::Resume { session, seq } => json!({ "op": 6, "d": {
                "token": token, "session_id": session, "seq": seq,
            }}),
        }
        .to_string()
    }
}

/// Something that happened on Discord.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its sequence number.
    pub seq: Option<u64>,
    /// Its name, `MESSAGE_CREATE`.
    pub name: String,
    /// What it is about.
    pub data: Value,
}

/// The budget of identifies (`session_start_limit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Starts {
    /// Identifies of a whole budget.
    pub total: u64,
    /// Those that are left.
    pub remaining: u64,
    /// When the budget is full again.
    pub reset_after: Duration,
}

/// What came of a step, or by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// The address and the budget.
    Address(Address, Starts),
    /// Discord does not take the token.
    TokenRefused,
    /// Asking or opening failed; how long the other side asks to wait.
    Failed(String, Option<Duration>),
    /// The socket is open.
    Opened,
    /// Something was said to us.
    Payload(Payload),
    /// Nothing came in time.
    Nothing,
    /// The connection is gone, by this code where there was one.
    Lost(Option<u16>, String),
    /// What was to be taken is committed, or is nothing for us: a resume begins behind it.
    Taken(Option<u64>),
    /// There is no room for it now.
    Full(&'static str),
}

/// One thing that the gateway says.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    op: u64,
    data: Value,
    seq: Option<u64>,
    name: String,
}

impl Payload {
    /// Reads one; none where it is no payload, or too much of one.
    pub fn read(text: &str) -> Option<Payload> {
        let mut value = json::bounded(text.as_bytes(), PAYLOAD_VALUES)?;
        Some(Payload {
            op: value["op"].as_u64()?,
            seq: value["s"].as_u64(),
            name: value["t"].as_str().unwrap_or_default().to_owned(),
            data: value.as_object_mut()?.remove("d").unwrap_or_default(),
        })
    }
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Session {
    phase: Phase,
    /// What is to be done before anything else.
    due: VecDeque<Step>,
    known: Option<Known>,
    me: Option<Me>,
    backoff: Backoff,
    /// Connections that failed since one worked.
    failures: u32,
    /// Times in a row that there was no room.
    full: u32,
    identified: Option<Instant>,
}

#[derive(Clone, Debug)]
enum Phase {
    Rest { until: Instant, then: Way },
    Asking,
    Opening(Address),
    Open(Line),
    Over,
}

/// How a connection is made.
#[derive(Clone, Debug)]
enum Way {
    Ask,
    Open(Address),
}

/// A session that may be resumed.
#[derive(Clone, Debug)]
struct Known {
    id: String,
    /// Where; none once it was given up.
    address: Option<Address>,
    /// The last sequence number that is taken.
    seq: u64,
    /// Tries at resuming since it last worked.
    tries: u32,
}

/// An open connection.
#[derive(Clone, Debug)]
struct Line {
    stage: Stage,
    /// When the stage must be over; a live one has no end.
    by: Instant,
    beat: Option<Beat>,
    said: VecDeque<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Hello,
    Identifying,
    Resuming,
    Live { since: Instant },
}

#[derive(Clone, Copy, Debug)]
struct Beat {
    every: Duration,
    next: Instant,
    unanswered: bool,
}

impl Session {
    /// One that begins at `now`.
    pub fn new(limits: &Limits, now: Instant) -> Session {
        Session {
            phase: Phase::Rest {
                until: now,
                then: Way::Ask,
            },
            due: VecDeque::new(),
            known: None,
            me: None,
            backoff: Backoff {
                first: limits.reconnect_first,
                most: limits.reconnect_most,
            },
            failures: 0,
            full: 0,
            identified: None,
        }
    }

    /// The bot itself, once READY has told.
    pub fn me(&self) -> Option<&Me> {
        self.me.as_ref()
    }

    /// What to do now.
    pub fn step(&mut self, now: Instant) -> Step {
        if let Some(step) = self.due.pop_front() {
            return step;
        }
        if let Phase::Rest { until, then } = &self.phase {
            if *until > now {
                return Step::Rest(*until);
            }
            self.phase = match then.clone() {
                Way::Ask => Phase::Asking,
                Way::Open(address) => Phase::Opening(address),
            };
        }
        let seq = self.known.as_ref().map(|known| known.seq);
        match &mut self.phase {
            Phase::Rest { until, .. } => Step::Rest(*until),
            Phase::Asking => Step::Ask,
            Phase::Opening(address) => Step::Open(address.clone()),
            Phase::Open(line) => line.step(seq, now),
            Phase::Over => Step::Over,
        }
    }

    /// Something came. `random` is uniform over the whole range.
    pub fn came(&mut self, came: Came, now: Instant, random: u32) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        match came {
            Came::Address(address, starts) => self.addressed(address, starts, now),
            Came::TokenRefused => self.fail(refused_token("the HTTP API answered 401")),
            Came::Failed(why, wait) => self.not_reached(why, wait, now, random),
            Came::Opened => self.opened(now),
            Came::Payload(payload) => self.heard(payload, now, random),
            Came::Nothing => self.silence(Duration::ZERO, now, random),
            Came::Lost(code, why) => self.lost(code, why, now, random),
            Came::Taken(seq) => {
                self.full = 0;
                self.taken(seq);
            }
            Came::Full(why) => self.no_room(why, now, random),
        }
    }

    fn taken(&mut self, seq: Option<u64>) {
        if let (Some(known), Some(seq)) = (&mut self.known, seq) {
            known.seq = known.seq.max(seq);
        }
    }

    fn addressed(&mut self, address: Address, starts: Starts, now: Instant) {
        if self.known.is_some() {
            self.phase = Phase::Opening(address);
            return;
        }
        if starts.remaining == 0 {
            let wait = starts
                .reset_after
                .clamp(BUDGET_WAIT_LEAST, BUDGET_WAIT_MOST);
            let why = format!(
                "Discord allows no further session for {} s; something has started too many today",
                wait.as_secs()
            );
            return self.rest(Way::Ask, now + wait, why);
        }
        // The last fifth of the budget is spread over the time until it is full again.
        let scarce = self.failures > 0 && starts.remaining.saturating_mul(5) < starts.total;
        let share = u32::try_from(starts.remaining).unwrap_or(u32::MAX);
        let apart = match scarce {
            true => (starts.reset_after / share).clamp(IDENTIFY_APART, BUDGET_WAIT_MOST),
            false => IDENTIFY_APART,
        };
        self.phase = match self.identified.map(|at| at + apart) {
            Some(until) if until > now => Phase::Rest {
                until,
                then: Way::Open(address),
            },
            _ => Phase::Opening(address),
        };
    }

    fn opened(&mut self, now: Instant) {
        self.phase = Phase::Open(Line {
            stage: Stage::Hello,
            by: now + HELLO_WITHIN,
            beat: None,
            said: VecDeque::new(),
        });
    }

    fn heard(&mut self, payload: Payload, now: Instant, random: u32) {
        let seq = self.known.as_ref().map(|known| known.seq);
        let Phase::Open(line) = &mut self.phase else {
            return;
        };
        match payload.op {
            0 => self.happened(payload, now, random),
            1 if line.room(now) >= SAID_KEPT => {
                line.said.push_back(now);
                self.due.push_back(Step::Say(Say::Heartbeat(seq)));
            }
            7 => self.leave("Discord asked for another connection", now, random),
            9 => self.invalid(payload.data.as_bool() == Some(true), now, random),
            10 if line.stage == Stage::Hello => self.hello(&payload.data, now, random),
            11 => {
                if let Some(beat) = &mut line.beat {
                    beat.unanswered = false;
                }
            }
            _ => {}
        }
        self.silence(ACK_GRACE, now, random);
    }

    fn hello(&mut self, data: &Value, now: Instant, random: u32) {
        let Phase::Open(line) = &mut self.phase else {
            return;
        };
        let Some(ms) = data["heartbeat_interval"].as_u64() else {
            return;
        };
        let every = Duration::from_millis(ms).clamp(BEAT_LEAST, BEAT_MOST);
        line.beat = Some(Beat {
            every,
            next: now + every.mul_f64(f64::from(random) / f64::from(u32::MAX)),
            unanswered: false,
        });
        line.by = now + GREETING_WITHIN;
        line.said.push_back(now);
        let greeting = match &self.known {
            Some(known) => {
                line.stage = Stage::Resuming;
                Say::Resume {
                    session: known.id.clone(),
                    seq: known.seq,
                }
            }
            None => {
                line.stage = Stage::Identifying;
                self.identified = Some(now);
                Say::Identify
            }
        };
        self.due.push_back(Step::Say(greeting));
    }

    fn happened(&mut self, payload: Payload, now: Instant, random: u32) {
        let Phase::Open(line) = &mut self.phase else {
            return;
        };
        match (line.stage, payload.name.as_str()) {
            (Stage::Identifying, "READY") => {
                let data = &payload.data;
                let id = data["session_id"].as_str();
                let id = id.filter(|id| (1..=SESSION_ID_BYTES).contains(&id.len()));
                let (Some(id), Some(me)) = (id, Me::of(&data["user"])) else {
                    let why = "READY came without a session or a user";
                    return self.broken(why.to_owned(), now, random);
                };
                let address = data["resume_gateway_url"].as_str().unwrap_or_default();
                self.known = Some(Known {
                    id: id.to_owned(),
                    address: Address::parse(address).ok(),
                    seq: payload.seq.unwrap_or(0),
                    tries: 0,
                });
                self.me = Some(me);
                self.live(now);
            }
            (Stage::Resuming, "RESUMED") => {
                if let Some(known) = &mut self.known {
                    known.tries = 0;
                }
                self.taken(payload.seq);
                self.live(now);
            }
            (Stage::Resuming | Stage::Live { .. }, _) => {
                if line.stage == Stage::Resuming {
                    line.by = now + GREETING_WITHIN;
                }
                self.due.push_back(Step::Take(Event {
                    seq: payload.seq,
                    name: payload.name,
                    data: payload.data,
                }));
            }
            (Stage::Hello | Stage::Identifying, _) => {}
        }
    }

    fn live(&mut self, now: Instant) {
        if let Phase::Open(line) = &mut self.phase {
            line.stage = Stage::Live { since: now };
        }
        self.due
            .push_back(Step::Tell(ChannelState::Connected, None));
    }

    /// Looks whether something is overdue; an acknowledgement gets `grace` beyond its time.
    fn silence(&mut self, grace: Duration, now: Instant, random: u32) {
        let Phase::Open(line) = &self.phase else {
            return;
        };
        let late = match line.stage {
            Stage::Live { .. } => None,
            Stage::Hello => Some("Hello"),
            Stage::Identifying => Some("READY"),
            Stage::Resuming => Some("RESUMED"),
        };
        if let Some(what) = late.filter(|_| line.by <= now) {
            return self.broken(format!("{what} did not come in time"), now, random);
        }
        let dead = |beat: Beat| beat.unanswered && beat.next + grace <= now;
        if line.beat.is_some_and(dead) {
            let why = "a heartbeat was not acknowledged, the connection is dead";
            self.broken(why.to_owned(), now, random);
        }
    }

    /// The connection is of no use any more.
    fn broken(&mut self, why: String, now: Instant, random: u32) {
        self.lost(None, why, now, random);
        self.due.push_front(Step::Close(CLOSE_TO_RESUME));
    }

    /// The connection is to be changed for another.
    fn leave(&mut self, why: &str, now: Instant, random: u32) {
        let steady = self.steady(now);
        self.part(steady);
        let wait = match steady {
            true => Duration::ZERO,
            false => self.backoff.wait(self.failures, random),
        };
        self.rest(self.way(), now + wait, why.to_owned());
        self.due.push_front(Step::Close(CLOSE_TO_RESUME));
    }

    fn invalid(&mut self, resumable: bool, now: Instant, random: u32) {
        if !resumable {
            self.known = None;
        }
        let steady = self.steady(now);
        self.part(steady);
        // "A random amount of time between 1 and 5 seconds."
        let share = f64::from(random) / f64::from(u32::MAX);
        let asked = Duration::from_secs(1) + Duration::from_secs(4).mul_f64(share);
        let wait = asked.max(self.backoff.wait(self.failures, random));
        self.rest(
            self.way(),
            now + wait,
            "Discord has ended the session".into(),
        );
        self.due.push_front(Step::Close(CLOSE_TO_RESUME));
    }

    fn no_room(&mut self, why: &str, now: Instant, random: u32) {
        // The resume itself has worked.
        if let Some(known) = &mut self.known {
            known.tries = 0;
        }
        self.due.clear();
        self.full = self.full.saturating_add(1);
        let wait = self.backoff.wait(self.full, random);
        self.rest(self.way(), now + wait, why.to_owned());
        self.due.push_front(Step::Close(CLOSE_TO_RESUME));
    }

    fn lost(&mut self, code: Option<u16>, why: String, now: Instant, random: u32) {
        if let Some(why) = code.and_then(|code| fatal(code, &why)) {
            return self.fail(why);
        }
        if matches!(code, Some(4007 | 4009)) {
            self.known = None;
        }
        let steady = self.steady(now);
        self.part(steady);
        let why = match code {
            Some(code) => format!("Discord closed the connection with {code} {why}"),
            None => why,
        };
        // Whatever the last connection was like, this is one failure.
        let wait = self.backoff.wait(self.failures.max(1), random);
        self.rest(self.way(), now + wait, why.trim_end().to_owned());
    }

    fn not_reached(&mut self, why: String, wait: Option<Duration>, now: Instant, random: u32) {
        let resuming = matches!(&self.phase, Phase::Opening(address)
            if self.known.as_ref().is_some_and(|known| known.address.as_ref() == Some(address)));
        if resuming {
            self.tried();
        }
        self.failures = self.failures.saturating_add(1);
        let own = self.backoff.wait(self.failures, random);
        let wait = own.max(wait.unwrap_or_default().min(BUDGET_WAIT_MOST));
        self.rest(self.way(), now + wait, why);
    }

    /// Whether the connection has stood long enough to count as one that worked.
    fn steady(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Open(Line {
                stage: Stage::Live { since },
                ..
            }) => now.saturating_duration_since(*since) >= STEADY,
            _ => false,
        }
    }

    /// Keeps count at the end of a connection.
    fn part(&mut self, steady: bool) {
        self.due.clear();
        let stage = match &self.phase {
            Phase::Open(line) => Some(line.stage),
            _ => None,
        };
        if matches!(stage, Some(Stage::Resuming | Stage::Hello)) {
            self.tried();
        }
        self.failures = match steady {
            true => 0,
            false => self.failures.saturating_add(1),
        };
    }

    /// One more try at resuming has failed.
    fn tried(&mut self) {
        let Some(known) = &mut self.known else { return };
        known.tries = known.tries.saturating_add(1);
        if known.tries >= RESUME_TRIES {
            known.address = None;
        }
        if known.tries >= SESSION_TRIES {
            self.known = None;
        }
    }

    fn way(&self) -> Way {
        let address = self.known.as_ref().and_then(|known| known.address.clone());
        address.map_or(Way::Ask, Way::Open)
    }

    fn rest(&mut self, then: Way, until: Instant, why: String) {
        self.phase = Phase::Rest { until, then };
        self.due
            .push_back(Step::Tell(ChannelState::Reconnecting, Some(why)));
    }

    fn fail(&mut self, why: String) {
        self.due.clear();
        self.due
            .push_back(Step::Tell(ChannelState::Failed, Some(why)));
        self.phase = Phase::Over;
    }
}

impl Line {
    fn step(&mut self, seq: Option<u64>, now: Instant) -> Step {
        let mut until = match self.stage {
            Stage::Live { .. } => now + BEAT_MOST,
            _ => self.by,
        };
        if let Some(beat) = self.beat {
            if beat.next <= now && !beat.unanswered && self.room(now) > 0 {
                self.said.push_back(now);
                self.beat = Some(Beat {
                    next: now + beat.every,
                    unanswered: true,
                    ..beat
                });
                return Step::Say(Say::Heartbeat(seq));
            }
            until = until.min(beat.next);
        }
        Step::Read(until)
    }

    /// How much may be said now.
    fn room(&mut self, now: Instant) -> usize {
        let old = |at: &Instant| now.saturating_duration_since(*at) >= SAID_WITHIN;
        while self.said.front().is_some_and(old) {
            self.said.pop_front();
        }
        SAID_MOST.saturating_sub(self.said.len())
    }
}

/// What a close code means that nothing but a person can heal; none for the others.
fn fatal(code: u16, why: &str) -> Option<String> {
    let told = format!("Discord closed the connection with {code} {why}");
    let cure = match code {
        4004 => return Some(refused_token(told.trim_end())),
        4010 | 4011 => "the bot is in more servers than one connection may serve: take it out of some",
        4012 => "this version of the gateway is gone: update Korvun",
        4013 => "Discord does not know the intents that are asked for: update Korvun",
        4014 => "turn on the switch Message Content Intent: https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents; then restart Korvun",
        _ => return None,
    };
    Some(format!("{}; {cure}", told.trim_end()))
}

fn refused_token(told: &str) -> String {
    format!("{told}: Discord does not take the token; make a new one (https://discord.com/developers/applications, your application, Bot, Reset Token), put it into the variable that token_env names, and restart")
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
