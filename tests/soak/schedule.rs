//! What a seed stands for: messages over all channels, and what goes wrong at which step of which
//! protocol. Drawn once, before anything starts.

use std::time::Duration;

use serde_json::{json, Value};

use crate::support::discord::{At, Do, Fault as RestFault};
use crate::support::http::Reply;
use crate::support::telegram::Fault as TelegramFault;

/// Numbers from a seed (splitmix64, Steele, Lea and Flood 2014).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number from 0 to `sides - 1`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % sides as u64).expect("a small number")
    }

    /// A number from 1 to `most`.
    fn nth(&mut self, most: usize) -> usize {
        1 + self.roll(most)
    }
}

/// Where something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    Telegram,
    Discord,
    Webhook,
}

impl Channel {
    pub const ALL: [Channel; 3] = [Channel::Telegram, Channel::Discord, Channel::Webhook];

    pub fn name(self) -> &'static str {
        match self {
            Channel::Telegram => "telegram",
            Channel::Discord => "discord",
            Channel::Webhook => "webhook",
        }
    }
}

/// One message to be said.
#[derive(Clone, Debug)]
pub struct Say {
    pub channel: Channel,
    pub conversation: String,
    pub text: String,
    /// Answers of this channel that may still be due when it is said.
    pub ahead: usize,
}

/// A word that no log line may have.
pub const MARK: &str = "zarza";
/// The word that asks for an answer in several parts.
const LONG: &str = "largo";
/// Paragraphs of such an answer.
const PARAGRAPHS: usize = 3;

/// What the model answers.
pub fn answer(text: &str) -> String {
    if !text.ends_with(LONG) {
        return format!("you said: {text}");
    }
    let filler = "palabra ".repeat(180);
    let all = units(text).map(|head| format!("{head} {}", filler.trim_end()));
    all.collect::<Vec<_>>().join("\n\n")
}

/// What must be seen of the answer, each once: the whole, or the beginning of each paragraph.
pub fn units(text: &str) -> impl Iterator<Item = String> + '_ {
    let long = text.ends_with(LONG);
    let tag = text.split(' ').next().unwrap_or_default();
    let many = if long { PARAGRAPHS } else { 1 };
    (1..=many).map(move |n| match long {
        true => format!("{tag} parte {n}"),
        false => format!("you said: {text}"),
    })
}

/// A step of a protocol, as the peer that sees it counts them, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A call of Telegram's API has come.
    Telegram(&'static str, usize),
    /// A step of Discord's gateway.
    Socket(At, usize),
    /// A request of Discord's API has come.
    Rest(&'static str, usize),
    /// An answer was posted to the receiver of the webhook.
    Delivery(usize),
    /// The model was asked.
    Ask(usize),
    /// The webhook has acknowledged a message: it is committed.
    Committed(usize),
}

impl Moment {
    /// Without its number.
    pub fn name(self) -> String {
        match self {
            Moment::Telegram(method, _) => method.to_owned(),
            Moment::Socket(at, _) => format!("{at:?}"),
            Moment::Rest(route, _) => route.to_owned(),
            Moment::Delivery(_) => "delivery".to_owned(),
            Moment::Ask(_) => "question".to_owned(),
            Moment::Committed(_) => "commit".to_owned(),
        }
    }
}

/// How a life of the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `kill -9`.
    Kill,
    /// SIGTERM.
    Stop,
}

/// What a model does in place of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Stumble {
    /// It answers with that status.
    Status(u16),
    /// It hangs up.
    Close,
    /// It says nothing.
    Hang,
    /// It says the answer byte by byte, with that pause.
    Drip(Duration),
    /// It says nothing in many words.
    Empty,
    /// It answers with something that is no answer.
    Odd,
}

/// All of it.
#[derive(Debug)]
pub struct Schedule {
    pub seed: u64,
    pub says: Vec<Say>,
    pub telegram: Vec<(&'static str, usize, TelegramFault)>,
    pub socket: Vec<(At, usize, Do)>,
    pub rest: Vec<(&'static str, usize, RestFault)>,
    pub sink: Vec<(usize, Reply)>,
    pub model: Vec<(usize, Stumble)>,
    pub ends: Vec<(Moment, End)>,
    /// Discord's interval between heartbeats.
    pub beat: Duration,
    /// The finest level of the log.
    pub finest: bool,
}

impl Schedule {
    pub fn of(seed: u64) -> Schedule {
        let mut dice = Dice::new(seed);
        let mut schedule = Schedule {
            seed,
            says: says(seed, &mut dice),
            telegram: Vec::new(),
            socket: Vec::new(),
            rest: Vec::new(),
            sink: Vec::new(),
            model: Vec::new(),
            ends: Vec::new(),
            beat: Duration::from_secs(1 + dice.roll(2) as u64),
            finest: dice.roll(2) == 0,
        };
        for _ in 0..4 + dice.roll(5) {
            schedule.draw_fault(&mut dice);
        }
        // What takes long to notice is drawn in every third, one after the other.
        if seed % 3 == 0 {
            schedule.draw_slow((seed / 3) as usize, &mut dice);
        }
        for _ in 0..dice.roll(3) {
            let end = if dice.roll(4) == 0 {
                End::Stop
            } else {
                End::Kill
            };
            schedule.ends.push((draw_moment(&mut dice), end));
        }
        schedule
    }

    fn draw_fault(&mut self, dice: &mut Dice) {
        match dice.roll(10) {
            0 | 1 => {
                let nth = dice.nth(8);
                self.telegram.push(("getUpdates", nth, draw_telegram(dice)));
            }
            2 | 3 => {
                let nth = dice.nth(8);
                self.telegram
                    .push(("sendMessage", nth, draw_telegram(dice)));
            }
            4 => {
                let method =
                    ["getMe", "deleteWebhook", "setMyCommands", "sendChatAction"][dice.roll(4)];
                let nth = dice.nth(2);
                self.telegram.push((method, nth, draw_telegram(dice)));
            }
            5 | 6 => self.draw_socket(dice),
            7 => {
                let route = ["messages", "messages", "messages", "typing", "gateway"][dice.roll(5)];
                let nth = dice.nth(if route == "messages" { 8 } else { 2 });
                self.rest.push((route, nth, draw_rest(dice)));
            }
            8 => {
                let nth = dice.nth(8);
                self.sink.push((nth, draw_reply(dice)));
            }
            _ => {
                let nth = dice.nth(16);
                self.model.push((nth, draw_stumble(dice)));
            }
        }
    }

    fn draw_socket(&mut self, dice: &mut Dice) {
        let op = |op: u64| Do::Text(json!({"op": op, "d": Value::Null}).to_string());
        let deaf = json!({"op": 0, "t": "TYPING_START", "s": Value::Null, "d": {}});
        let fault = match dice.roll(10) {
            0 => (At::Connect, dice.nth(2), Do::Close(4000)),
            1 => (At::Connect, dice.nth(3), Do::Cut),
            2 => (At::Identify, dice.nth(2), Do::Invalid(false)),
            3 => (At::Resume, dice.nth(2), Do::Invalid(dice.roll(2) == 0)),
            4 => (At::Resume, dice.nth(2), Do::Cut),
            // From now on writes succeed and nothing comes back.
            5 => (At::Heartbeat, dice.nth(4), Do::Hang),
            6 => (At::Dispatch, dice.nth(6), Do::Hang),
            7 => (At::Dispatch, dice.nth(6), Do::Cut),
            // Not acknowledged, though other things come.
            8 => (At::Heartbeat, dice.nth(4), Do::Text(deaf.to_string())),
            _ => {
                let what = [
                    op(7),
                    Do::Close(4008),
                    Do::Close(4009),
                    Do::Invalid(true),
                    Do::Text("{".into()),
                ];
                (At::Dispatch, dice.nth(6), what[dice.roll(5)].clone())
            }
        };
        self.socket.push(fault);
    }

    fn draw_slow(&mut self, which: usize, dice: &mut Dice) {
        let nth = dice.nth(4);
        match which % 8 {
            0 => self.telegram.push(("getUpdates", nth, TelegramFault::Hang)),
            1 => self
                .telegram
                .push(("sendMessage", nth, TelegramFault::Hang)),
            2 => self
                .telegram
                .push(("getUpdates", nth, TelegramFault::conflict())),
            3 => self.rest.push(("messages", nth, RestFault::Hang)),
            4 => self.socket.push((At::Connect, 1 + nth % 2, Do::Hang)),
            5 => self.socket.push((At::Identify, 1, Do::Hang)),
            6 => self.sink.push((nth, Reply::Hang)),
            _ => self
                .telegram
                .push(("sendChatAction", 1, TelegramFault::Hang)),
        }
    }
}

/// Six to nine messages on each channel, in two conversations each.
fn says(seed: u64, dice: &mut Dice) -> Vec<Say> {
    let mut says = Vec::new();
    for channel in Channel::ALL {
        let ahead = dice.roll(7);
        for _ in 0..6 + dice.roll(4) {
            let place = dice.roll(2);
            let conversation = match channel {
                Channel::Telegram => format!("1{place}"),
                Channel::Discord => format!("5{place}"),
                Channel::Webhook => format!("talk-{place}"),
            };
            let last = if dice.roll(5) == 0 { LONG } else { "hola" };
            let text = format!("{MARK}-{seed}-{}x {last}", says.len());
            says.push(Say {
                channel,
                conversation,
                text,
                ahead,
            });
        }
    }
    says
}

fn draw_telegram(dice: &mut Dice) -> TelegramFault {
    match dice.roll(8) {
        0 | 1 => TelegramFault::LoseAnswer,
        2 => TelegramFault::Close,
        3 => TelegramFault::Html(502),
        4 => TelegramFault::flood(1 + dice.roll(2) as u64),
        5 => TelegramFault::Raw(
            b"HTTP/1.1 200 x\r\nContent-Length: 50\r\n\r\n{\"ok\":true,".to_vec(),
        ),
        6 => TelegramFault::Refuse(500, "Internal Server Error", Value::Null),
        _ => TelegramFault::Late(Duration::from_millis(300)),
    }
}

fn draw_rest(dice: &mut Dice) -> RestFault {
    match dice.roll(7) {
        0 | 1 => RestFault::LoseAnswer,
        2 => RestFault::Close,
        3 => RestFault::Html(502),
        4 => RestFault::Refuse(500, 0, "500: Internal Server Error"),
        5 => RestFault::Limit(1.0 + dice.roll(20) as f64 / 10.0, false),
        _ => RestFault::Limit(2.0, true),
    }
}

fn draw_reply(dice: &mut Dice) -> Reply {
    match dice.roll(4) {
        0 => Reply::Close,
        1 => Reply::status(503),
        2 => Reply::Send(
            429,
            "text/plain",
            "Retry-After: 1\r\n".to_owned(),
            Vec::new(),
        ),
        _ => Reply::Raw(b"HTTP/1.1 nonsense\r\n\r\n".to_vec()),
    }
}

fn draw_stumble(dice: &mut Dice) -> Stumble {
    match dice.roll(7) {
        0 => Stumble::Status(500),
        1 => Stumble::Close,
        2 => Stumble::Hang,
        3 => Stumble::Drip(Duration::from_millis(3)),
        4 => Stumble::Drip(Duration::from_millis(100)),
        5 => Stumble::Empty,
        _ => Stumble::Odd,
    }
}

fn draw_moment(dice: &mut Dice) -> Moment {
    match dice.roll(10) {
        0 => Moment::Telegram("getMe", 1),
        1 => Moment::Telegram("getUpdates", dice.nth(8)),
        2 | 3 => Moment::Telegram("sendMessage", dice.nth(8)),
        4 => Moment::Socket(At::Identify, 1),
        5 => Moment::Socket(At::Dispatch, dice.nth(6)),
        6 => Moment::Rest("messages", dice.nth(6)),
        7 => Moment::Delivery(dice.nth(6)),
        8 => Moment::Ask(dice.nth(16)),
        _ => Moment::Committed(dice.nth(6)),
    }
}
