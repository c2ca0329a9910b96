//! Discord, both ends: the platform with its sessions, buffers and budgets, and the thread that
//! listens to its gateway.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use korvun::base::clock::Clock;
use korvun::channel::discord::event::{self, Seen};
use korvun::channel::discord::session::{
    Came, Event as Happened, Payload, Say, Session, Starts, Step,
};
use korvun::channel::port::Held;
use korvun::channel::rules::Rules;
use korvun::config::plan::Respond;
use korvun::domain::limits::Limits;
use korvun::net::ws::Address;
use korvun::watch::board::ChannelState;
use serde_json::{json, Value};

use super::plan::{Platform, Said, Words};
use super::process::{channel, Inside as In};
use super::sending::{chat_of, Parcel, Sent};
use super::world::{counts, Event, World};

const BOT: &str = "4242";
const FRIEND: &str = "7";
const STRANGER: &str = "8";
/// How long a session without a connection is kept.
const KEPT: Duration = Duration::from_secs(150);
/// How long a nonce is known.
const NONCE: Duration = Duration::from_secs(300);
/// Between two budgets of identifies.
const BUDGET: Duration = Duration::from_secs(3600);

/// The platform.
pub struct Peer {
    sessions: BTreeMap<String, Kept>,
    lines: BTreeMap<u64, Line>,
    last: u64,
    total: u64,
    left: u64,
    full_at: Duration,
    identified: Option<(Duration, u64)>,
    nonces: HashMap<(i64, u32), Duration>,
    /// When a chat may have the next message, and who was told so; the same for all of them.
    chats: HashMap<i64, (Duration, u64)>,
    all: (Duration, u64),
}

/// A session as the platform keeps it.
struct Kept {
    seq: u64,
    events: Vec<Kind>,
    line: Option<u64>,
    parted: Duration,
}

/// One event of a session.
#[derive(Clone)]
struct Kind {
    seq: u64,
    name: &'static str,
    data: Value,
    key: Option<String>,
}

struct Line {
    life: u64,
    session: Option<String>,
    /// Nothing that is written arrives any more, though nobody was told.
    half_open: bool,
    /// When the last thing arrives in each direction: nothing overtakes another.
    down: Duration,
    up: Duration,
}

/// Whose call it is.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    life: u64,
    number: u64,
}

/// Something that reaches the platform.
#[derive(Clone, Debug)]
pub enum Arrival {
    Ask(Call),
    Open(Call),
    Said(u64, Say),
    Closed(u64),
    Send(Parcel),
}

/// One thing that a socket brings.
#[derive(Clone, Debug)]
pub enum Frame {
    Text(String),
    Closed(Option<u16>),
}

/// Something that reaches, or is due on, the thread that listens.
#[derive(Clone, Debug)]
pub enum Inside {
    Wake(u64),
    Called(u64, Came, Option<u64>),
    Frame(u64, Frame),
    /// An event is handed in.
    Take(Happened),
}

/// The thread that listens.
pub struct Listener {
    session: Session,
    line: Option<u64>,
    frames: VecDeque<Frame>,
    call: u64,
    wake: u64,
    reading: bool,
}

impl Listener {
    pub fn new(limits: &Limits, now: Instant) -> Listener {
        Listener {
            session: Session::new(limits, now),
            line: None,
            frames: VecDeque::new(),
            call: 0,
            wake: 0,
            reading: false,
        }
    }
}

impl Peer {
    pub fn new(total: u64) -> Peer {
        Peer {
            sessions: BTreeMap::new(),
            lines: BTreeMap::new(),
            last: 0,
            total,
            left: total,
            full_at: BUDGET,
            identified: None,
            nonces: HashMap::new(),
            chats: HashMap::new(),
            all: (Duration::ZERO, 0),
        }
    }

    /// The faults are over, those of the operator who started it too often too.
    pub fn plenty(&mut self) {
        (self.total, self.left) = (1000, 1000);
    }

    fn budget(&mut self, now: Duration) -> Starts {
        while self.full_at <= now {
            self.full_at += BUDGET;
            self.left = self.total;
        }
        Starts {
            total: self.total,
            remaining: self.left,
            reset_after: self.full_at - now,
        }
    }
}

fn gateway(name: &str) -> Address {
    Address::parse(&format!("wss://{name}.test")).expect("an address")
}

impl World {
    pub fn say_on_discord(&mut self, nth: usize, said: &Said) {
        let peer = &mut self.discord;
        peer.last += 1;
        let id = (1000 + peer.last).to_string();
        let sender = match said.words {
            Words::Stranger => STRANGER,
            _ => FRIEND,
        };
        let mut data = json!({
            "id": id,
            "channel_id": (1 + said.chat).to_string(),
            "author": { "id": sender, "username": "a" },
            "type": 0,
        });
        match said.words {
            Words::Photo => {
                data["content"] = json!("");
                data["attachments"] = json!([{ "content_type": "image/png" }]);
            }
            _ => data["content"] = json!(format!("message {nth}")),
        }
        let name = match said.words {
            Words::Edit => {
                data["edited_timestamp"] = json!("2026-11-30T08:05:09.120Z");
                "MESSAGE_UPDATE"
            }
            _ => "MESSAGE_CREATE",
        };
        if said.words == Words::Unaddressed {
            data["guild_id"] = json!("9");
        }
        let key = counts(said.words).then_some(id);
        let times = if self.dice.permille(self.weather.broken) {
            2
        } else {
            1
        };
        for _ in 0..times {
            self.happens(name, &data, key.clone());
        }
    }

    /// Something happens on the platform; whoever has a session is told.
    fn happens(&mut self, name: &'static str, data: &Value, key: Option<String>) {
        self.forget_sessions();
        let mut told = Vec::new();
        for kept in self.discord.sessions.values_mut() {
            kept.seq += 1;
            let kind = Kind {
                seq: kept.seq,
                name,
                data: data.clone(),
                key: key.clone(),
            };
            kept.events.push(kind.clone());
            told.extend(kept.line.map(|line| (line, kind)));
        }
        for (line, kind) in told {
            self.dispatch_event(line, &kind);
        }
    }

    fn forget_sessions(&mut self) {
        let now = self.now;
        let kept = |kept: &Kept| kept.line.is_some() || now - kept.parted < KEPT;
        self.discord.sessions.retain(|_, session| kept(session));
    }

    fn dispatch_event(&mut self, line: u64, kind: &Kind) {
        let payload = json!({ "op": 0, "s": kind.seq, "t": kind.name, "d": kind.data });
        self.tell(line, &payload);
    }

    fn tell(&mut self, line: u64, payload: &Value) {
        self.bring(line, Frame::Text(payload.to_string()));
    }

    /// Something goes down a connection, behind all that went before.
    fn bring(&mut self, number: u64, frame: Frame) {
        let at = self.now + self.way();
        let outage = self.weather.outage;
        let Some(line) = self.discord.lines.get_mut(&number) else {
            return;
        };
        line.half_open |= outage;
        if line.half_open {
            return;
        }
        line.down = line.down.max(at);
        let (at, life) = (line.down, line.life);
        self.at(
            at,
            Event::Inside(life, In::Discord(Inside::Frame(number, frame))),
        );
    }

    /// The platform ends a connection.
    fn hang_up(&mut self, number: u64, code: Option<u16>) {
        self.bring(number, Frame::Closed(code));
        self.discord.lines.remove(&number);
        self.part_session(number);
    }

    fn part_session(&mut self, number: u64) {
        for kept in self.discord.sessions.values_mut() {
            if kept.line == Some(number) {
                kept.line = None;
                kept.parted = self.now;
            }
        }
    }

    pub fn at_discord(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Ask(call) => {
                let starts = self.discord.budget(self.now);
                let came = match self.dice.permille(self.weather.refused) {
                    true => match self.dice.between(0, 9) {
                        0 => Came::TokenRefused,
                        1..=4 => {
                            let wait = Duration::from_secs(self.dice.between(1, 60));
                            Came::Failed("simulated".into(), Some(wait))
                        }
                        _ => Came::Failed("simulated".into(), None),
                    },
                    false => Came::Address(gateway("gateway"), starts),
                };
                self.discord_answers(call, came, None);
            }
            Arrival::Open(call) => {
                if self.dice.permille(self.weather.refused) {
                    self.discord_answers(call, Came::Failed("simulated".into(), None), None);
                    return;
                }
                self.discord.last += 1;
                let number = self.discord.last;
                let line = Line {
                    life: call.life,
                    session: None,
                    half_open: false,
                    down: self.now,
                    up: self.now,
                };
                self.discord.lines.insert(number, line);
                if let Some(at) = self.discord_answers(call, Came::Opened, Some(number)) {
                    if let Some(line) = self.discord.lines.get_mut(&number) {
                        line.down = at;
                    }
                }
                let every = self.dice.pick(&[41_250, 41_250, 5000]);
                self.tell(
                    number,
                    &json!({ "op": 10, "d": { "heartbeat_interval": every } }),
                );
            }
            Arrival::Said(number, say) => self.discord_hears(number, say),
            Arrival::Closed(number) => {
                self.discord.lines.remove(&number);
                self.part_session(number);
            }
            Arrival::Send(parcel) => self.discord_takes(&parcel),
        }
    }

    fn discord_answers(&mut self, call: Call, came: Came, line: Option<u64>) -> Option<Duration> {
        if self.lost(self.weather.lost_answers) {
            return None;
        }
        let at = self.now + self.way();
        let called = In::Discord(Inside::Called(call.number, came, line));
        self.at(at, Event::Inside(call.life, called));
        Some(at)
    }

    /// A client has said something on a connection.
    fn discord_hears(&mut self, number: u64, say: Say) {
        let Some(line) = self
            .discord
            .lines
            .get(&number)
            .filter(|line| !line.half_open)
        else {
            return;
        };
        let of = line.session.clone();
        // What a process that is gone had said last is not waited for: its connection went with it.
        if line.life != self.lives {
            return;
        }
        match say {
            Say::Heartbeat(seq) => {
                if let (Some(session), Some(seq)) = (&of, seq) {
                    self.acknowledged(session, seq);
                }
                self.tell(number, &json!({ "op": 11 }));
            }
            Say::Identify => self.identify(number),
            Say::Resume { session, seq } => self.resume(number, &session, seq),
        }
        self.trouble(number);
    }

    fn identify(&mut self, number: u64) {
        self.discord.budget(self.now);
        if self.discord.left == 0 {
            return self.fail("a session is begun beyond Discord's budget");
        }
        self.discord.left -= 1;
        self.discord.last += 1;
        let id = format!("session-{}", self.discord.last);
        // Whoever begins anew has given the old ones up.
        self.discord.sessions.clear();
        let kept = Kept {
            seq: 1,
            events: Vec::new(),
            line: Some(number),
            parted: self.now,
        };
        self.discord.sessions.insert(id.clone(), kept);
        if let Some(line) = self.discord.lines.get_mut(&number) {
            line.session = Some(id.clone());
        }
        let data = json!({
            "session_id": id,
            "resume_gateway_url": "wss://resume.test",
            "user": { "id": BOT, "username": "korvun" },
        });
        self.tell(number, &json!({ "op": 0, "s": 1, "t": "READY", "d": data }));
    }

    fn resume(&mut self, number: u64, id: &str, seq: u64) {
        self.forget_sessions();
        self.acknowledged(id, seq);
        let gone = self.dice.permille(self.weather.broken);
        let Some(kept) = self
            .discord
            .sessions
            .get_mut(id)
            .filter(|kept| !gone && seq <= kept.seq)
        else {
            self.discord.sessions.remove(id);
            return self.tell(number, &json!({ "op": 9, "d": false }));
        };
        kept.line = Some(number);
        let mut replayed: Vec<Kind> = kept
            .events
            .iter()
            .filter(|kind| kind.seq > seq)
            .cloned()
            .collect();
        kept.seq += 1;
        replayed.push(Kind {
            seq: kept.seq,
            name: "RESUMED",
            data: json!({}),
            key: None,
        });
        if let Some(line) = self.discord.lines.get_mut(&number) {
            line.session = Some(id.to_owned());
        }
        for kind in replayed {
            self.dispatch_event(number, &kind);
        }
    }

    /// A client has said that it has everything up to there.
    fn acknowledged(&mut self, id: &str, seq: u64) {
        let Some(kept) = self.discord.sessions.get(id) else {
            return;
        };
        let keys = kept
            .events
            .iter()
            .filter(|kind| kind.seq <= seq)
            .filter_map(|kind| kind.key.clone());
        for key in keys.collect::<Vec<_>>() {
            if !self.oracle.accepted(Platform::Discord, &key) {
                self.fail(format!("message {key} is acknowledged and not stored"));
            }
        }
    }

    /// What a gateway does to its clients at times.
    fn trouble(&mut self, number: u64) {
        if !self.dice.permille(self.weather.broken) {
            return;
        }
        match self.dice.between(0, 19) {
            0 => self.hang_up(number, Some(4014)),
            1..=4 => self.hang_up(number, Some(4000)),
            5 => self.hang_up(number, Some(4009)),
            6..=8 => self.hang_up(number, None),
            9..=11 => self.tell(number, &json!({ "op": 7 })),
            12..=13 => self.tell(number, &json!({ "op": 9, "d": true })),
            14 => {
                let session = self
                    .discord
                    .lines
                    .get(&number)
                    .and_then(|line| line.session.clone());
                self.discord
                    .sessions
                    .retain(|id, _| Some(id) != session.as_ref());
                self.tell(number, &json!({ "op": 9, "d": false }));
            }
            15 => self.tell(number, &json!({ "op": 1 })),
            _ => {
                if let Some(line) = self.discord.lines.get_mut(&number) {
                    line.half_open = true;
                }
            }
        }
    }

    fn discord_takes(&mut self, parcel: &Parcel) {
        let chat = chat_of(&parcel.conversation);
        let own = self.discord.chats.get(&chat).copied().unwrap_or_default();
        for ((until, told), held) in [(own, Held::Conversation), (self.discord.all, Held::Channel)]
        {
            if self.now < until {
                if told == parcel.life {
                    self.fail(format!(
                        "channel {chat} is written to before the time that was named"
                    ));
                }
                let sent = Sent::Limited(until - self.now, held);
                return self.confirm(Platform::Discord, parcel, sent);
            }
        }
        // Whoever has blocked the bot does not unblock it for a second try.
        if self.oracle.refused.contains(&parcel.row) {
            return self.confirm(Platform::Discord, parcel, Sent::Forbidden);
        }
        if self.dice.permille(self.weather.refused) {
            let sent = match self.dice.between(0, 19) {
                0 => {
                    self.oracle.refused.insert(parcel.row);
                    Sent::Forbidden
                }
                1..=7 => {
                    let wait = self.dice.skewed_ms(500, 300_000);
                    self.discord.chats.insert(chat, (self.now + wait, 0));
                    Sent::Limited(wait, Held::Conversation)
                }
                8..=10 => {
                    let wait = self.dice.skewed_ms(500, 30_000);
                    self.discord.all = (self.now + wait, 0);
                    Sent::Limited(wait, Held::Channel)
                }
                _ => Sent::Nothing,
            };
            return self.confirm(Platform::Discord, parcel, sent);
        }
        let what = (parcel.row, parcel.part);
        let known = self
            .discord
            .nonces
            .get(&what)
            .is_some_and(|&at| self.now - at < NONCE);
        if !known {
            self.discord.nonces.insert(what, self.now);
            let durable = self.known_as_sent(parcel);
            let verdict = self.oracle.hears(Platform::Discord, parcel, durable);
            self.judge(verdict);
        }
        self.confirm(Platform::Discord, parcel, Sent::Yes);
    }

    /// The process has been told of a limit: from now on it may not ask earlier.
    pub fn limit_heard(&mut self, platform: Platform, chat: i64, who: Held) {
        let life = self.lives;
        let limit = match (platform, who) {
            (Platform::Telegram, _) => self.telegram.limit(chat),
            (Platform::Discord, Held::Conversation) => self.discord.chats.get_mut(&chat),
            (Platform::Discord, Held::Channel) => Some(&mut self.discord.all),
        };
        if let Some((_, told)) = limit {
            *told = life;
        }
    }

    pub fn in_discord(&mut self, inside: Inside) {
        if self.living().closing {
            // The thread says goodbye and ends.
            return self.leave();
        }
        let listener = &mut self.living().discord;
        match inside {
            Inside::Wake(number) if number == listener.wake => {
                if std::mem::take(&mut listener.reading) {
                    self.discord_came(Came::Nothing);
                }
                self.discord_go();
            }
            Inside::Wake(_) => {}
            Inside::Called(number, came, line) => {
                if listener.call == number {
                    listener.call += 1;
                    listener.frames.clear();
                    listener.line = line;
                    self.discord_came(came);
                    self.discord_go();
                }
            }
            Inside::Frame(line, frame) => {
                if listener.line == Some(line) {
                    listener.frames.push_back(frame);
                    if std::mem::take(&mut listener.reading) {
                        listener.wake += 1;
                        self.discord_go();
                    }
                }
            }
            Inside::Take(happened) => {
                let me = listener.session.me().cloned().expect("READY has told");
                let seen = event::read(&happened.name, &happened.data, &me, &rules());
                let came = match seen {
                    Seen::Message(inbound) => match self.take(&inbound, None) {
                        Ok(()) => Came::Taken(happened.seq),
                        Err(_) => Came::Full("there is no room"),
                    },
                    Seen::Passed { .. } | Seen::Withheld | Seen::Nothing => {
                        Came::Taken(happened.seq)
                    }
                };
                self.discord_came(came);
                self.discord_go();
            }
        }
    }

    fn discord_came(&mut self, came: Came) {
        let (now, random) = (self.clock.now(), self.dice.number());
        self.living().discord.session.came(came, now, random);
    }

    fn leave(&mut self) {
        if let Some(line) = self.living().discord.line.take() {
            let way = self.way();
            self.after(way, Event::Discord(Arrival::Closed(line)));
        }
    }

    /// Performs steps until one has to be waited for.
    fn discord_go(&mut self) {
        loop {
            let now = self.clock.now();
            match self.living().discord.session.step(now) {
                Step::Ask => return self.discord_calls(Arrival::Ask),
                Step::Open(_) => return self.discord_calls(Arrival::Open),
                Step::Say(say) => self.discord_says(say),
                Step::Read(until) => {
                    let listener = &mut self.living().discord;
                    if listener.line.is_none() {
                        self.discord_came(Came::Lost(None, "there is no connection".into()));
                        continue;
                    }
                    let Some(frame) = listener.frames.pop_front() else {
                        listener.reading = true;
                        return self.wake_at(until);
                    };
                    let came = match frame {
                        Frame::Text(text) => {
                            Came::Payload(Payload::read(&text).expect("a payload"))
                        }
                        Frame::Closed(code) => {
                            listener.line = None;
                            Came::Lost(code, "simulated".into())
                        }
                    };
                    self.discord_came(came);
                }
                Step::Rest(until) => return self.wake_at(until),
                Step::Close(_) => self.leave(),
                Step::Take(happened) => {
                    let wait = self.dice.ms(0, 2);
                    return self.later(wait, In::Discord(Inside::Take(happened)));
                }
                Step::Tell(ChannelState::Failed, _) => {
                    let (wait, life) = (self.dice.ms(1000, 300_000), self.lives);
                    self.after(wait, Event::Operator(life));
                }
                Step::Tell(..) => {}
                Step::Over => return,
            }
        }
    }

    fn wake_at(&mut self, until: Instant) {
        let wait = until.saturating_duration_since(self.clock.now());
        let listener = &mut self.living().discord;
        listener.wake += 1;
        let number = listener.wake;
        self.later(wait, In::Discord(Inside::Wake(number)));
    }

    fn discord_calls(&mut self, arrival: impl FnOnce(Call) -> Arrival) {
        let call = Call {
            life: self.lives,
            number: self.living().discord.call,
        };
        let failed = Came::Failed("no answer in time".into(), None);
        let within = self.plan.limits.chat_call;
        self.later(
            within,
            In::Discord(Inside::Called(call.number, failed, None)),
        );
        if !self.lost(self.weather.lost_requests) {
            let way = self.way();
            self.after(way, Event::Discord(arrival(call)));
        }
    }

    fn discord_says(&mut self, say: Say) {
        let life = self.lives;
        if say == Say::Identify {
            let before = self.discord.identified.replace((self.now, life));
            if before.is_some_and(|(at, of)| of == life && self.now - at < Duration::from_secs(5)) {
                self.fail("two sessions are begun within five seconds");
            }
        }
        let at = self.now + self.way();
        let (outage, number) = (self.weather.outage, self.living().discord.line);
        let line = number.and_then(|number| self.discord.lines.get_mut(&number));
        let (Some(number), Some(line)) = (number, line) else {
            return;
        };
        line.half_open |= outage;
        line.up = line.up.max(at);
        let at = line.up;
        self.at(at, Event::Discord(Arrival::Said(number, say)));
    }

    /// Whether a session stands and all that it told is accepted.
    pub fn discord_is_quiet(&self) -> bool {
        let stands = |kept: &Kept| {
            kept.line.is_some_and(|line| {
                let line = self.discord.lines.get(&line);
                line.is_some_and(|line| line.life == self.lives && !line.half_open)
            })
        };
        let taken = |kind: &Kind| {
            let key = kind.key.as_deref();
            key.is_none_or(|key| self.oracle.accepted(Platform::Discord, key))
        };
        self.life.is_some()
            && self.discord.sessions.values().any(stands)
            && self
                .discord
                .sessions
                .values()
                .all(|kept| kept.events.iter().all(taken))
    }
}

fn rules() -> Rules {
    Rules {
        channel: channel(Platform::Discord),
        allow_from: Some(vec![FRIEND.to_owned()]),
        respond: Respond::Mention,
        commands: Vec::new(),
        text_bytes: 64 * 1024,
    }
}
