//! What every channel offers to the engine, and what the engine offers to every channel.

use std::fmt;
use std::time::Duration;

use crate::domain::ids::MessageId;
use crate::domain::message::{Inbound, Outgoing, Role};
use crate::net::cancel::Cancel;

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
    /// The store cannot commit.
    Store,
}

/// One channel. Built without opening anything; [`Channel::start`] opens it.
pub trait Channel: Send + Sync {
    /// Starts taking messages and handing them to `intake`.
    ///
    /// # Errors
    /// A [`StartError`]; the channel is not running then.
    fn start(&self, intake: std::sync::Arc<dyn Intake>) -> Result<(), StartError>;

    /// Delivers one message.
    ///
    /// Blocks: up to the channel's own limit of one delivery, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`SendFailure`] that says whether another try can help.
    fn send(&self, outgoing: &Outgoing, cancel: &Cancel) -> Result<(), SendFailure>;

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
    /// No other try will.
    Never {
        /// What was attempted and what came back.
        reason: String,
    },
}
