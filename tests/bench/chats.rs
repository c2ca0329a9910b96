//! Telegram and Discord as one kind of peer for the measured runs: people who talk in chats and read
//! what comes back. Threads of the rig only.

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::daemon::Site;
use crate::discord::{self, Discord};
use crate::flood::Flood;
use crate::telegram::{self, Telegram};

/// Longer than any answer here may take, flood limits included.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// A message as people see it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// When the first byte of its request was seen.
    pub first_byte: Instant,
    /// Its words.
    pub text: String,
}

/// Follows a chat.
#[derive(Debug)]
pub enum Reader {
    /// In Telegram.
    Telegram(Receiver<telegram::Sent>),
    /// In Discord.
    Discord(Receiver<discord::Sent>),
}

impl Reader {
    /// The next message in it.
    pub fn next(&self) -> Shown {
        let (first_byte, text) = match self {
            Reader::Telegram(all) => {
                let sent = all.recv_timeout(ANSWER_WAIT).expect("an answer in a chat");
                (sent.first_byte, sent.text)
            }
            Reader::Discord(all) => {
                let sent = all.recv_timeout(ANSWER_WAIT).expect("an answer in a chat");
                (sent.first_byte, sent.text)
            }
        };
        Shown { first_byte, text }
    }
}

/// A platform on loopback.
pub enum Peer {
    /// Telegram.
    Telegram(Telegram),
    /// Discord.
    Discord(Discord),
}

impl Peer {
    /// A Telegram that keeps nothing.
    pub fn telegram() -> Peer {
        let peer = Telegram::start();
        peer.keep_nothing();
        Peer::Telegram(peer)
    }

    /// A Discord that keeps nothing, with the heartbeat of the real one.
    pub fn discord() -> Peer {
        let peer = Discord::start();
        peer.keep_nothing();
        peer.world().interval = Duration::from_millis(41_250);
        Peer::Discord(peer)
    }

    /// Another of the same kind.
    pub fn another(&self) -> Peer {
        match self {
            Peer::Telegram(_) => Peer::telegram(),
            Peer::Discord(_) => Peer::discord(),
        }
    }

    /// Its name in the table.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Telegram(_) => "Telegram",
            Peer::Discord(_) => "Discord",
        }
    }

    /// Adds it to a site.
    pub fn join(&self, site: &mut Site) {
        let (kind, mode, url, token) = match self {
            Peer::Telegram(peer) => ("telegram", "polling", peer.url(), telegram::TOKEN),
            Peer::Discord(peer) => ("discord", "gateway", peer.url(), discord::TOKEN),
        };
        let env = format!("T_{}", kind.to_uppercase());
        let channel = json!({"type": kind, "mode": mode, "token_env": env, "base_url": url});
        let route = json!({"channel": kind, "brain": "main"});
        for (list, item) in [("channels", channel), ("routes", route)] {
            let list: &mut Value = &mut site.config[list];
            list.as_array_mut().expect("a list").push(item);
        }
        site.env.push((env, token.into()));
    }

    /// Waits until the bot is there to be spoken to; what is said in Telegram before waits for it.
    pub fn wait_for_bot(&self) {
        if let Peer::Discord(peer) = self {
            peer.wait_for_live(ANSWER_WAIT);
        }
    }

    /// From now on the platform's own limits are kept.
    pub fn limit(&self) {
        match self {
            Peer::Telegram(peer) => peer.limit_floods(),
            Peer::Discord(peer) => {
                peer.bucket(5, Duration::from_secs(5));
                peer.limit_all();
            }
        }
    }

    /// The shortest time in which `count` messages can go to each of `chats` within these limits.
    pub fn shortest(&self, chats: usize, count: usize) -> f64 {
        match self {
            Peer::Telegram(_) => Flood::shortest(chats, count),
            // Five in each channel within five seconds, fifty over all within one.
            Peer::Discord(_) => {
                let own = (count - 1) / 5 * 5;
                let all = (chats * count - 1) / 50;
                own.max(all) as f64
            }
        }
    }

    /// A person says something in a private chat.
    pub fn say(&self, chat: u32, text: &str) {
        match self {
            Peer::Telegram(peer) => {
                peer.say(chat.into(), text);
            }
            Peer::Discord(peer) => {
                peer.say(&chat.to_string(), text);
            }
        }
    }

    /// Reads a chat from now on.
    pub fn follow(&self, chat: u32) -> Reader {
        match self {
            Peer::Telegram(peer) => Reader::Telegram(peer.follow(chat.into())),
            Peer::Discord(peer) => Reader::Discord(peer.follow(&chat.to_string())),
        }
    }

    /// Just before the first byte of the last message that went to the bot was written.
    pub fn handed(&self) -> Instant {
        let handed = match self {
            Peer::Telegram(peer) => peer.handed(),
            Peer::Discord(peer) => peer.world().handed,
        };
        handed.expect("something was handed to the bot")
    }

    /// How many requests were refused by a limit.
    pub fn refused(&self) -> usize {
        match self {
            Peer::Telegram(peer) => peer.refused(),
            Peer::Discord(peer) => peer.refused(),
        }
    }
}

/// What a message said to the bot is to the least of clients.
#[derive(Clone, Debug)]
pub struct Heard {
    /// The chat.
    pub chat: u32,
    /// The words.
    pub text: String,
}

/// Where the least of clients hands on what it hears, by chat.
pub type Desks = std::collections::BTreeMap<u32, Sender<Heard>>;
