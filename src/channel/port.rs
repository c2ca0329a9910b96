//! What every channel offers to the engine, and what the engine offers to every channel.

use std::fmt;
use std::time::Duration;

use crate::domain::cursor::{Cursor, Reached};
use crate::domain::ids::{ChannelName, Conversation, MessageId};
use crate::domain::message::{Inbound, Outgoing, Role};
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;

/// Where a channel hands in what people write. The engine implements it.
pub trait Intake: Send + Sync {
    /// Accepts a message: when this returns `Ok`, it is committed, and only now may the channel
    /// acknowledge it upstream.
    ///
    /// Blocks: for one commit.
    ///
    /// # Errors
    /// A [`Refusal`]: nothing is stored, the sender has to come again.
    fn accept(&self, inbound: Inbound) -> Result<Acceptance, Refusal>;

    /// As [`Intake::accept`], for a platform that keeps the message until it is taken: a refusal
    /// is no loss, and is not counted as one.
    ///
    /// Blocks: for one commit.
    ///
    /// # Errors
    /// A [`Refusal`]: nothing is stored, the message has to be fetched again, unless it is
    /// [`Refusal::Crowded`].
    fn accept_kept(&self, inbound: Inbound) -> Result<Acceptance, Refusal>;

    /// As [`Intake::accept`], and moves `cursor` in the same commit: the message is stored and left
    /// behind, or neither. One that was accepted before moves it too.
    ///
    /// Blocks: for one commit.
    ///
    /// # Errors
    /// A [`Refusal`]: nothing is stored, the message has to be fetched again, unless it is
    /// [`Refusal::Crowded`], which moves the cursor too.
    fn accept_at(&self, inbound: Inbound, cursor: &Cursor) -> Result<Acceptance, Refusal>;

    /// Moves a cursor past something that is no message for anybody. It is written with the next
    /// commit that comes along: whoever sees the same thing again passes it over again.
    ///
    /// Blocks: only while the store's queue is full.
    fn advance(&self, channel: &ChannelName, cursor: &Cursor);

    /// How far an account of a channel has been taken; none where nothing is known of it.
    ///
    /// Blocks: for one read of the store.
    ///
    /// # Errors
    /// [`Refusal::Store`] when the store cannot be read.
    fn cursor(&self, channel: &ChannelName, account: &str) -> Result<Option<Reached>, Refusal>;

    /// What has been said in answer to a message, if it has an answer yet.
    ///
    /// Blocks: for one read of the store.
    fn answer(&self, message: &MessageId) -> Option<Answer>;
}

/// What was said in answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its own id.
    pub message_id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// The name that people see.
    pub sender_name: String,
    /// What was said.
    pub text: String,
}

/// A message that is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is new.
    New(MessageId),
    /// It was accepted before, under this id.
    Repeated(MessageId),
}

impl Acceptance {
    /// The message's id.
    #[must_use]
    pub fn id(&self) -> &MessageId {
        match self {
            Acceptance::New(id) | Acceptance::Repeated(id) => id,
        }
    }
}

/// Why a message could not be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many unfinished messages.
    Full,
    /// Too many undelivered answers in this one conversation. It is counted as dropped already; a
    /// platform that keeps messages is not asked for it again, as it would hold up all others.
    Crowded,
    /// The store cannot commit.
    Store,
}

impl Refusal {
    /// The reason, for a log line or for who has to come again.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Refusal::Full => "too many unfinished messages",
            Refusal::Crowded => "too many undelivered answers in this conversation",
            Refusal::Store => "the store cannot commit",
        }
    }
}

/// What shows the people of a conversation that an answer is being made, until it is dropped.
pub type Working = Box<dyn Send>;

/// One channel. Built without opening anything; [`Channel::start`] opens it.
pub trait Channel: Send + Sync {
    /// Starts taking messages and handing them to `intake`. From then on the channel reports its
    /// own state; it is `starting` until it says otherwise. Never waits for the network.
    ///
    /// # Errors
    /// A [`StartError`]; the channel is not running then.
    fn start(&self, intake: std::sync::Arc<dyn Intake>) -> Result<(), StartError>;

    /// Delivers one message, from behind its first `outgoing.parts_sent` parts. `confirmed` is
    /// told each time how many parts are safe.
    ///
    /// Blocks: up to the channel's own limit of one delivery, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`SendFailure`] that says whether another try can help.
    fn send(
        &self,
        outgoing: &Outgoing,
        confirmed: &dyn Fn(u32),
        cancel: &Cancel,
    ) -> Result<(), SendFailure>;

    /// The work on a message of this conversation has begun; it ends when the returned value is
    /// dropped, which is before the answer is handed to [`Channel::send`]. Never waits.
    fn working(&self, conversation: &Conversation) -> Option<Working> {
        let _ = conversation;
        None
    }

    /// No answer will come to this message, whose `reply_to` is given too: its sender has stopped
    /// it. Never waits.
    fn given_up(&self, message_id: &MessageId, reply_to: Option<&str>) {
        let _ = (message_id, reply_to);
    }

    /// Stops taking messages; deliveries still work.
    ///
    /// Blocks: until what has been read is acknowledged, for some seconds at most.
    fn stop(&self);
}

/// Why a channel could not start.
#[derive(Debug)]
pub struct StartError {
    /// What was attempted, on what, and what would help.
    pub message: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

/// Why a delivery failed. Reasons are for the operator and hold no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// Another try may work.
    Again {
        /// How long the other side asks to wait.
        after: Option<Duration>,
        /// What was attempted and what came back.
        reason: String,
    },
    /// The other side's flood limit: another try works after this wait, an earlier one only
    /// lengthens it.
    Flood {
        /// How long the other side asks to wait.
        wait: Duration,
        /// Who has to wait.
        held: Held,
        /// What was attempted and what came back.
        reason: String,
    },
    /// Nothing was tried: the channel knows that it may not send here before this wait is over.
    NotYet {
        /// How long.
        wait: Duration,
        /// Whom that holds.
        held: Held,
    },
    /// No other try will.
    Never {
        /// What was attempted and what came back.
        reason: String,
    },
}

/// Whom a flood limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The conversation of the message.
    Conversation,
    /// Every conversation of the channel.
    Channel,
}

/// What a look at a channel from outside found, for the preflight. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// How it is.
    pub sight: Sight,
    /// What was seen.
    pub message: String,
    /// What would help; empty where nothing is amiss.
    pub help: String,
}

/// How a channel looks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// As it should.
    Fine,
    /// Not as it should, but it may be well when it is served.
    Doubtful,
    /// It would not work.
    Broken,
}

impl Look {
    /// One that would not work.
    #[must_use]
    pub fn broken(message: impl Into<String>, help: impl Into<String>) -> Look {
        Look {
            sight: Sight::Broken,
            message: message.into(),
            help: help.into(),
        }
    }

    /// One that could not be taken: the platform was not reached, over the way out that a chat
    /// channel has.
    #[must_use]
    pub fn unreached(message: impl Into<String>, error: &HttpError) -> Look {
        Look::broken(
            message,
            match error {
                HttpError::Tls(..) => "correct base_url, or have SSL_CERT_FILE name the authority that signed its certificate",
                HttpError::Shield(_) => "over plain http the token goes to private addresses only: use https",
                _ => "is the network up, and is base_url right? the daemon starts without it and tries again",
            },
        )
    }
}
