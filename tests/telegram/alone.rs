//! The channel by itself, with bounds that a test can wait for: an intake that keeps what it is given.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use korvun::base::clock::{SystemClock, UnixMs};
use korvun::base::secret::Secret;
use korvun::channel::port::{Acceptance, Answer, Channel, Intake, Refusal, SendFailure};
use korvun::channel::telegram::{Parts, Telegram as Korvun};
use korvun::config::plan::{Chat, Respond};
use korvun::domain::cursor::{Cursor, Reached};
use korvun::domain::ids::{ChannelName, Conversation, MessageId};
use korvun::domain::limits::Limits;
use korvun::domain::message::{Inbound, Outgoing, Role};
use korvun::net::cancel::Cancel;
use korvun::watch::board::ChannelState;
use korvun::watch::Watch;

use super::SOON;
use crate::support::asking::wire_with;
use crate::support::telegram::{Telegram, TOKEN};

/// Bounds that a test can wait for; whole seconds where the platform counts in them.
pub fn short() -> Limits {
    Limits {
        poll_wait: Duration::from_secs(1),
        poll_slack: Duration::from_millis(400),
        poll_conflict: Duration::from_millis(1500),
        reconnect_first: Duration::from_millis(20),
        reconnect_most: Duration::from_millis(100),
        typing_after: Duration::from_millis(50),
        typing_again: Duration::from_millis(200),
        chat_call: Duration::from_millis(700),
        ..Limits::default()
    }
}

/// An intake that keeps everything.
#[derive(Default)]
pub struct Kept {
    pub all: Mutex<Vec<Inbound>>,
    keys: Mutex<BTreeSet<String>>,
    pub reached: Mutex<Option<Reached>>,
    /// What is said to the next messages in place of a yes.
    pub refusals: Mutex<Vec<Refusal>>,
}

impl Intake for Kept {
    fn accept(&self, _: Inbound) -> Result<Acceptance, Refusal> {
        panic!("a message without its cursor")
    }

    fn accept_kept(&self, _: Inbound) -> Result<Acceptance, Refusal> {
        panic!("a message without its cursor")
    }

    fn accept_at(&self, inbound: Inbound, cursor: &Cursor) -> Result<Acceptance, Refusal> {
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        self.advance(&inbound.conversation.channel, cursor);
        let id = MessageId::new(&cursor.position.to_string());
        let key = inbound.dedup.clone().expect("a key");
        if !self.keys.lock().unwrap().insert(key) {
            return Ok(Acceptance::Repeated(id));
        }
        self.all.lock().unwrap().push(inbound);
        Ok(Acceptance::New(id))
    }

    fn advance(&self, _: &ChannelName, cursor: &Cursor) {
        let at = UnixMs(1_790_000_000_000);
        let position = cursor.position;
        *self.reached.lock().unwrap() = Some(Reached { position, at });
    }

    fn cursor(&self, _: &ChannelName, _: &str) -> Result<Option<Reached>, Refusal> {
        Ok(*self.reached.lock().unwrap())
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
    pub fn built(peer: &Telegram, limits: &Limits) -> Alone {
        let watch = Watch::new(Arc::new(SystemClock), limits);
        let name = ChannelName::new("telegram");
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
            menu: Vec::new(),
            wire: wire_with(limits),
            watch: watch.clone(),
            clock: Arc::new(SystemClock),
            limits: limits.clone(),
        });
        Alone {
            channel: channel.expect("built"),
            intake: Arc::default(),
            watch,
        }
    }

    /// Started.
    pub fn start(peer: &Telegram, limits: &Limits) -> Alone {
        let alone = Alone::built(peer, limits);
        alone.channel.start(alone.intake.clone()).expect("started");
        alone
    }

    pub fn state(&self) -> ChannelState {
        let health = self.watch.board.channel(&ChannelName::new("telegram"));
        health.expect("known").state
    }

    pub fn wait_for_state(&self, state: ChannelState) {
        let until = Instant::now() + SOON;
        while self.state() != state {
            assert!(Instant::now() < until, "{:?}, not {state:?}", self.state());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn wait_for_messages(&self, count: usize) -> Vec<String> {
        let until = Instant::now() + SOON;
        loop {
            let texts: Vec<String> = {
                let all = self.intake.all.lock().unwrap();
                all.iter().map(|inbound| inbound.text.clone()).collect()
            };
            if texts.len() >= count {
                return texts;
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
pub fn outgoing(conversation: &str, text: &str) -> Outgoing {
    Outgoing {
        row: 1,
        message_id: MessageId::new("o1"),
        in_reply_to: None,
        conversation: Conversation::new(&ChannelName::new("telegram"), conversation),
        role: Role::Assistant,
        sender_name: "main".to_owned(),
        text: text.to_owned(),
        reply_to: None,
        parts_sent: 0,
        queued_at: UnixMs(0),
        attempts: 0,
    }
}
