//! The channel by itself, with bounds that a test can wait for: an intake that keeps what it is given.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use korvun::base::clock::{SystemClock, UnixMs};
use korvun::base::secret::Secret;
use korvun::channel::discord::{Discord as Korvun, Parts};
use korvun::channel::port::{Acceptance, Answer, Channel, Intake, Refusal, SendFailure};
use korvun::config::plan::{Chat, Respond};
use korvun::domain::cursor::{Cursor, Reached};
use korvun::domain::ids::{ChannelName, Conversation, MessageId};
use korvun::domain::limits::Limits;
use korvun::domain::message::{Inbound, Outgoing, Role};
use korvun::net::cancel::Cancel;
use korvun::watch::board::{ChannelHealth, ChannelState};
use korvun::watch::Watch;

use super::SOON;
use crate::support::asking::wire_with;
use crate::support::discord::{Discord, TOKEN};

/// Bounds that a test can wait for.
pub fn short() -> Limits {
    Limits {
        reconnect_first: Duration::from_millis(20),
        reconnect_most: Duration::from_millis(100),
        typing_after: Duration::from_millis(50),
        chat_call: Duration::from_millis(1500),
        ..Limits::default()
    }
}

/// An intake that keeps everything.
#[derive(Default)]
pub struct Kept {
    pub all: Mutex<Vec<Inbound>>,
    keys: Mutex<BTreeSet<String>>,
    /// What is said to the next messages in place of a yes.
    pub refusals: Mutex<Vec<Refusal>>,
    /// Messages that were accepted before.
    pub repeated: Mutex<usize>,
}

impl Intake for Kept {
    fn accept(&self, _: Inbound) -> Result<Acceptance, Refusal> {
        panic!("a message that would be counted as lost")
    }

    fn accept_kept(&self, inbound: Inbound) -> Result<Acceptance, Refusal> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        let key = inbound.dedup.clone().expect("a key");
        let id = MessageId::new(&key);
        if !self.keys.lock().unwrap().insert(key) {
            *self.repeated.lock().unwrap() += 1;
            return Ok(Acceptance::Repeated(id));
        }
        self.all.lock().unwrap().push(inbound);
        Ok(Acceptance::New(id))
    }

    fn accept_at(&self, _: Inbound, _: &Cursor) -> Result<Acceptance, Refusal> {
        panic!("Discord has no cursor")
    }

    fn advance(&self, _: &ChannelName, _: &Cursor) {}

    fn cursor(&self, _: &ChannelName, _: &str) -> Result<Option<Reached>, Refusal> {
        Ok(None)
    }

    fn answer(&self, _: &MessageId) -> Option<Answer> {
        None
    }
}

/// The channel against a peer.
pub struct Alone {
    pub channel: Korvun,
    pub intake: Arc<Kept>,
    pub watch: Watch,
}

impl Alone {
    /// Built, not started.
    pub fn built(peer: &Discord) -> Alone {
        let limits = short();
        let watch = Watch::new(Arc::new(SystemClock), &limits);
        let name = ChannelName::new("discord");
        watch.channel_state(&name, ChannelState::Starting, None);
        let channel = Korvun::new(Parts {
            name,
            settings: Chat {
                base_url: peer.url(),
                allow_from: None,
                respond: Respond::Mention,
            },
            token: Secret::new(TOKEN),
            commands: vec!["/help".to_owned()],
            wire: wire_with(&limits),
            watch: watch.clone(),
            clock: Arc::new(SystemClock),
            limits,
        });
        Alone {
            channel: channel.expect("built"),
            intake: Arc::default(),
            watch,
        }
    }

    /// Started.
    pub fn start(peer: &Discord) -> Alone {
        let alone = Alone::built(peer);
        alone.channel.start(alone.intake.clone()).expect("started");
        alone
    }

    pub fn health(&self) -> ChannelHealth {
        let health = self.watch.board.channel(&ChannelName::new("discord"));
        health.expect("known")
    }

    pub fn wait_for_state(&self, state: ChannelState) -> String {
        let until = Instant::now() + SOON;
        loop {
            let health = self.health();
            if health.state == state {
                return health.last_error.unwrap_or_default();
            }
            assert!(Instant::now() < until, "{health:?}, not {state:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn wait_for_texts(&self, expected: &[&str]) {
        let until = Instant::now() + SOON;
        loop {
            let texts: Vec<String> = {
                let all = self.intake.all.lock().unwrap();
                all.iter().map(|inbound| inbound.text.clone()).collect()
            };
            if texts.len() >= expected.len() {
                return assert_eq!(texts, expected);
            }
            assert!(Instant::now() < until, "{texts:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends; the parts that were confirmed, and how it ended.
    pub fn send(&self, outgoing: &Outgoing) -> (Vec<u32>, Result<(), SendFailure>) {
        let confirmed = Mutex::new(Vec::new());
        let note = |parts| confirmed.lock().unwrap().push(parts);
        let ended = self.channel.send(outgoing, &note, &Cancel::new());
        (confirmed.into_inner().unwrap(), ended)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.channel.stop();
    }
}

/// An answer to a conversation.
pub fn outgoing(conversation: &str, id: &str, text: &str) -> Outgoing {
    Outgoing {
        row: 1,
        message_id: MessageId::new(id),
        in_reply_to: None,
        conversation: Conversation::new(&ChannelName::new("discord"), conversation),
        role: Role::Assistant,
        sender_name: "main".to_owned(),
        text: text.to_owned(),
        reply_to: None,
        parts_sent: 0,
        queued_at: UnixMs(0),
        attempts: 0,
    }
}
