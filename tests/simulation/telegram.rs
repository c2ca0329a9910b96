//! Telegram, both ends: the platform with its updates and its moods, and the thread that polls it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use korvun::base::clock::Clock;
use korvun::channel::port::Held;
use korvun::channel::rules::Rules;
use korvun::channel::telegram::offset::Offset;
use korvun::channel::telegram::poll::{Came, Poller, Step};
use korvun::channel::telegram::update::{self, Me, Seen};
use korvun::channel::telegram::{Failure, Refused};
use korvun::config::plan::Respond;
use korvun::domain::cursor::Cursor;
use korvun::domain::limits::Limits;
use korvun::net::error::HttpError;
use korvun::watch::board::ChannelState;
use serde_json::{json, Value};

use super::books::Mark;
use super::plan::{Platform, Said, Words};
use super::process::{channel, Inside as In};
use super::sending::{chat_of, Parcel, Sent};
use super::world::{counts, Event, World};

const BOT: i64 = 4242;
const FRIEND: i64 = 7;
const STRANGER: i64 = 8;

/// The platform.
#[derive(Default)]
pub struct Peer {
    updates: BTreeMap<i64, Update>,
    last: i64,
    poll: Option<Poll>,
    polls: u64,
    /// Until when another program polls with the token.
    other: Duration,
    /// When a chat may have the next message, and who was told so.
    chats: HashMap<i64, (Duration, u64)>,
    /// Until when polls are to wait, and who was told so.
    flood: Option<(Duration, u64)>,
}

struct Update {
    body: Value,
    key: Option<String>,
    huge: bool,
}

/// A poll that waits for news.
struct Poll {
    number: u64,
    call: Call,
    from: i64,
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
    Plain(Call, Step),
    Poll {
        call: Call,
        from: Option<i64>,
        batch: u32,
        wait: Duration,
    },
    /// A poll has waited long enough.
    Waited(u64),
    Send(Parcel),
}

/// Something that reaches, or is due on, the thread that polls.
#[derive(Clone, Debug)]
pub enum Inside {
    Step,
    /// A call has come to something.
    Came(u64, Result<Value, Failure>),
    /// The next of the updates that came is taken.
    Take,
}

/// The thread that polls.
pub struct Listener {
    poller: Poller,
    offset: Offset,
    me: Option<Me>,
    call: u64,
    asked: Duration,
    waits: Duration,
    batch: VecDeque<Value>,
}

impl Peer {
    /// When a chat may have the next message, and who was told so.
    pub fn limit(&mut self, chat: i64) -> Option<&mut (Duration, u64)> {
        self.chats.get_mut(&chat)
    }
}

impl Listener {
    pub fn new(limits: &Limits) -> Listener {
        Listener {
            poller: Poller::new(limits),
            offset: Offset::default(),
            me: None,
            call: 0,
            asked: Duration::ZERO,
            waits: Duration::ZERO,
            batch: VecDeque::new(),
        }
    }
}

fn refused(code: i64, retry_after: Option<Duration>) -> Failure {
    Failure::Refused(Refused {
        code,
        description: "simulated".to_owned(),
        retry_after,
        migrate_to: None,
    })
}

impl World {
    pub fn say_on_telegram(&mut self, nth: usize, said: &Said) {
        let peer = &mut self.telegram;
        peer.last += 1;
        let number = peer.last;
        let group = said.words == Words::Unaddressed;
        let sender = match said.words {
            Words::Stranger => STRANGER,
            _ => FRIEND,
        };
        let mut message = json!({
            "message_id": number,
            "from": { "id": sender, "is_bot": false, "first_name": "A" },
            "chat": match group {
                true => json!({ "id": -1 - said.chat as i64, "type": "group" }),
                false => json!({ "id": 1 + said.chat, "type": "private" }),
            },
        });
        match said.words {
            Words::Photo => message["photo"] = json!([{ "file_id": "f" }]),
            _ => message["text"] = json!(format!("message {nth}")),
        }
        let kind = match said.words {
            Words::Edit => "edited_message",
            _ => "message",
        };
        let key = counts(said.words).then(|| format!("{BOT}:{number}"));
        if let Some(key) = &key {
            self.owed.push((Platform::Telegram, key.clone()));
        }
        let update = Update {
            body: json!({ "update_id": number, kind: message }),
            key,
            huge: said.words == Words::Huge,
        };
        self.telegram.updates.insert(number, update);
        if let Some(poll) = self.telegram.poll.take() {
            self.answer_poll(poll.call, poll.from, 100);
        }
    }

    pub fn at_telegram(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Plain(call, step) => {
                let answer = match step {
                    _ if self.dice.permille(self.weather.refused) => Err(self.telegram_refuses()),
                    Step::Greet => {
                        Ok(json!({ "id": BOT, "is_bot": true, "username": "korvun_bot" }))
                    }
                    _ => Ok(json!(true)),
                };
                self.telegram_answers(call, answer);
            }
            Arrival::Poll {
                call,
                from,
                batch,
                wait,
            } => self.poll_arrives(call, from, batch, wait),
            Arrival::Waited(number) => {
                if let Some(poll) = self.telegram.poll.take_if(|poll| poll.number == number) {
                    self.telegram_answers(poll.call, Ok(json!([])));
                }
            }
            Arrival::Send(parcel) => self.telegram_takes(&parcel),
        }
    }

    fn telegram_refuses(&mut self) -> Failure {
        match self.dice.between(0, 9) {
            0 => refused(401, None),
            1..=3 => {
                let wait = Duration::from_secs(self.dice.between(1, 90));
                refused(429, Some(wait))
            }
            4..=5 => Failure::Odd { status: 502 },
            _ => refused(500, None),
        }
    }

    fn poll_arrives(&mut self, call: Call, from: Option<i64>, batch: u32, wait: Duration) {
        // Asking from there acknowledges all before.
        let from = from.unwrap_or(0);
        let left = self.telegram.updates.split_off(&from);
        let acknowledged = std::mem::replace(&mut self.telegram.updates, left);
        for (number, update) in acknowledged {
            let key = update.key.as_deref();
            if key.is_some_and(|key| !self.oracle.accepted(Platform::Telegram, key)) {
                self.fail(format!("update {number} is acknowledged and not stored"));
            }
        }
        if self.now < self.telegram.other {
            return self.telegram_answers(call, Err(refused(409, None)));
        }
        if self.dice.permille(self.weather.refused) {
            if self.dice.permille(200) {
                self.telegram.other = self.now + self.dice.ms(1000, 60_000);
            }
            let failure = self.telegram_refuses();
            if let Failure::Refused(Refused {
                retry_after: Some(wait),
                ..
            }) = &failure
            {
                self.telegram.flood = Some((self.now + *wait, 0));
            }
            return self.telegram_answers(call, Err(failure));
        }
        // Two polls at once: one of them is told.
        if let Some(poll) = self.telegram.poll.take() {
            if self.dice.permille(500) {
                self.telegram.poll = Some(poll);
                return self.telegram_answers(call, Err(refused(409, None)));
            }
            self.telegram_answers(poll.call, Err(refused(409, None)));
        }
        let early = self.dice.permille(self.weather.refused / 4);
        if !self.telegram.updates.is_empty() || wait.is_zero() || early {
            return self.answer_poll(call, from, batch);
        }
        self.telegram.polls += 1;
        let number = self.telegram.polls;
        self.telegram.poll = Some(Poll { number, call, from });
        self.after(wait, Event::Telegram(Arrival::Waited(number)));
    }

    fn answer_poll(&mut self, call: Call, from: i64, batch: u32) {
        let updates: Vec<&Update> = self
            .telegram
            .updates
            .range(from..)
            .take(batch as usize)
            .map(|(_, update)| update)
            .collect();
        let answer = match updates.iter().any(|update| update.huge) {
            true => Err(Failure::Unreadable {
                beginning: updates[0].body["update_id"].to_string().into_bytes(),
            }),
            false => Ok(updates.iter().map(|update| update.body.clone()).collect()),
        };
        self.telegram_answers(call, answer);
    }

    fn telegram_answers(&mut self, call: Call, answer: Result<Value, Failure>) {
        if self.lost(self.weather.lost_answers) {
            return;
        }
        let way = self.way();
        let came = In::Telegram(Inside::Came(call.number, answer));
        self.after(way, Event::Inside(call.life, came));
    }

    fn telegram_takes(&mut self, parcel: &Parcel) {
        let chat = chat_of(&parcel.conversation);
        if let Some(&(until, life)) = self.telegram.chats.get(&chat) {
            if self.now < until {
                if life == parcel.life {
                    self.fail(format!(
                        "chat {chat} is written to before the time that was named"
                    ));
                }
                let wait = until - self.now;
                let limited = Sent::Limited(wait, Held::Conversation);
                return self.confirm(Platform::Telegram, parcel, limited);
            }
        }
        // Whoever has blocked the bot does not unblock it for a second try.
        if self.oracle.refused.contains(&parcel.row) {
            return self.confirm(Platform::Telegram, parcel, Sent::Forbidden);
        }
        if self.dice.permille(self.weather.refused) {
            let sent = match self.dice.between(0, 19) {
                0 => Sent::Forbidden,
                1..=9 => {
                    let wait = Duration::from_millis(
                        self.dice.skewed_ms(1000, 600_000).as_millis() as u64,
                    );
                    self.telegram.chats.insert(chat, (self.now + wait, 0));
                    Sent::Limited(wait, Held::Conversation)
                }
                _ => Sent::Nothing,
            };
            if sent == Sent::Forbidden {
                self.oracle.refused.insert(parcel.row);
            }
            return self.confirm(Platform::Telegram, parcel, sent);
        }
        let durable = self.known_as_sent(parcel);
        let verdict = self.oracle.hears(Platform::Telegram, parcel, durable);
        self.judge(verdict);
        self.confirm(Platform::Telegram, parcel, Sent::Yes);
    }

    /// Whether the store knew a part as sent before this process began.
    pub fn known_as_sent(&self, parcel: &Parcel) -> bool {
        let from = (parcel.row, parcel.part);
        self.books
            .durable
            .range(from..=(parcel.row, u32::MAX))
            .next()
            .is_some()
    }

    pub fn in_telegram(&mut self, inside: Inside) {
        if self.living().closing {
            return;
        }
        match inside {
            Inside::Step => self.telegram_step(),
            Inside::Came(number, answer) => {
                if self.living().telegram.call == number {
                    self.living().telegram.call += 1;
                    self.telegram_came(answer);
                }
            }
            Inside::Take => self.telegram_take(),
        }
    }

    fn telegram_step(&mut self) {
        let (now, life) = (self.clock.unix(), self.lives);
        let (poll_wait, slack) = (self.plan.limits.poll_wait, self.plan.limits.poll_slack);
        let chat_call = self.plan.limits.chat_call;
        let moment = self.now;
        let listener = &mut self.living().telegram;
        let call = Call {
            life,
            number: listener.call,
        };
        listener.asked = moment;
        let step = listener.poller.step();
        let (wait, within) = match step {
            Step::Poll => (poll_wait, poll_wait + slack),
            Step::Probe => (Duration::ZERO, slack),
            _ => (Duration::ZERO, chat_call),
        };
        listener.waits = wait;
        let arrival = match step {
            Step::Poll | Step::Probe => Arrival::Poll {
                call,
                from: listener.offset.ask_from(now),
                batch: listener.poller.batch(),
                wait,
            },
            _ => Arrival::Plain(call, step),
        };
        let polls = matches!(step, Step::Poll | Step::Probe);
        let named = self
            .telegram
            .flood
            .filter(|(until, told)| *told == life && moment < *until);
        if polls && named.is_some() {
            self.fail("Telegram is polled before the time that it named");
        }
        let timeout = Failure::Net(HttpError::Timeout("simulated".to_owned()));
        self.later(
            within,
            In::Telegram(Inside::Came(call.number, Err(timeout))),
        );
        if !self.lost(self.weather.lost_requests) {
            let way = self.way();
            self.after(way, Event::Telegram(arrival));
        }
    }

    fn telegram_came(&mut self, answer: Result<Value, Failure>) {
        let (unix, now) = (self.clock.unix(), self.now);
        let step = self.living().telegram.poller.step();
        let came = match (step, answer) {
            (Step::Greet, Ok(answer)) => {
                let me = Me::of(&answer).expect("a bot");
                let reached = self
                    .books
                    .cursor(&channel(Platform::Telegram), &me.id.to_string());
                let listener = &mut self.living().telegram;
                listener.offset = Offset::new(reached);
                listener.me = Some(me);
                Came::Done
            }
            (Step::Poll | Step::Probe, Ok(answer)) => {
                let listener = &mut self.living().telegram;
                listener.batch = answer.as_array().cloned().unwrap_or_default().into();
                if listener.batch.is_empty() {
                    match now - listener.asked < listener.waits / 2 {
                        true => Came::TooEarly,
                        false => Came::Done,
                    }
                } else {
                    return self.later(Duration::ZERO, In::Telegram(Inside::Take));
                }
            }
            (_, Ok(_)) => Came::Done,
            (_, Err(failure)) => {
                let named = matches!(step, Step::Poll | Step::Probe)
                    && matches!(&failure, Failure::Refused(refused) if refused.code == 429);
                let life = self.lives;
                if let (true, Some((_, told))) = (named, &mut self.telegram.flood) {
                    *told = life;
                }
                let listener = &mut self.living().telegram;
                if let (true, Failure::Unreadable { beginning }) =
                    (listener.poller.stuck(&failure), &failure)
                {
                    let number = std::str::from_utf8(beginning)
                        .ok()
                        .and_then(|n| n.parse().ok());
                    listener.offset.passed(number.expect("an update's number"));
                    let position = listener.offset.paused(unix);
                    self.telegram_advance(position);
                }
                Came::Failed(failure)
            }
        };
        self.telegram_after(&came);
    }

    /// Takes one update; the thread would do the same, and a kill may come between two.
    fn telegram_take(&mut self) {
        let unix = self.clock.unix();
        let listener = &mut self.living().telegram;
        let Some(body) = listener.batch.pop_front() else {
            let position = listener.offset.paused(unix);
            self.telegram_advance(position);
            return self.telegram_after(&Came::Done);
        };
        let me = listener.me.clone().expect("greeted before");
        let position = update::number(&body).expect("a number");
        match update::read(&body, &me, &rules()) {
            Seen::Message(inbound) => {
                let cursor = Cursor {
                    account: me.id.to_string(),
                    position,
                };
                if self.take(&inbound, Some(&cursor)).is_err() {
                    let listener = &mut self.living().telegram;
                    listener.batch.clear();
                    let position = listener.offset.paused(unix);
                    self.telegram_advance(position);
                    return self.telegram_after(&Came::NoRoom);
                }
                self.living().telegram.offset.stored(position, unix);
            }
            Seen::Passed { .. } | Seen::Moved { .. } => listener.offset.passed(position),
        }
        let wait = self.dice.ms(0, 2);
        self.later(wait, In::Telegram(Inside::Take));
    }

    fn telegram_advance(&mut self, position: Option<i64>) {
        if let Some(position) = position {
            let cursor = Cursor {
                account: BOT.to_string(),
                position,
            };
            self.mark(Mark::Advance(channel(Platform::Telegram), cursor));
        }
    }

    fn telegram_after(&mut self, came: &Came) {
        let random = self.dice.number();
        let verdict = self.living().telegram.poller.after(came, random);
        match verdict.wait {
            Some(wait) => self.later(wait, In::Telegram(Inside::Step)),
            None => {
                if !matches!(verdict.state, Some((ChannelState::Failed, _))) {
                    self.fail("Telegram's poll has ended without a word");
                }
                let (wait, life) = (self.dice.ms(1000, 300_000), self.lives);
                self.after(wait, Event::Operator(life));
            }
        }
    }
}

fn rules() -> Rules {
    Rules {
        channel: channel(Platform::Telegram),
        allow_from: Some(vec![FRIEND.to_string()]),
        respond: Respond::Mention,
        commands: Vec::new(),
        text_bytes: 64 * 1024,
    }
}
