//! The HTTP API of the operator. Requests come through the front, are judged in `guard` by their
//! head, rewritten, and answered by tiny_http behind a Unix socket ([`server`]). What the API shows
//! and does comes through one trait, [`Backend`]: nothing here knows how messages move.

mod api;
mod auth;
mod behind;
mod exposition;
mod guard;
mod hosts;
mod process;
mod readiness;
mod reply;
mod rewrite;
mod route;
pub mod server;
mod socket;
mod tools;

use crate::domain::brain::Brain;
use crate::domain::gate::Line;
use crate::domain::ids::{BrainName, ChannelName, MessageId};
use crate::domain::message::Language;
use crate::domain::report::{Recent, Rehearsed};
use crate::watch::board::{ChannelHealth, ModelState};

/// What the admin API reads and does. Called from the admin threads, several at once.
pub trait Backend: Send + Sync {
    /// Every brain with the health of its models.
    fn brains(&self) -> Vec<BrainView>;

    /// Every channel that exists, the console included where it does.
    fn channels(&self) -> Vec<ChannelView>;

    /// Store and disk.
    fn health(&self) -> Health;

    /// Brings gauges up to date that are only worth measuring when somebody looks.
    fn measure(&self);

    /// Takes a message of the operator. When this returns `Ok` it is committed.
    ///
    /// Blocks: for one commit.
    ///
    /// # Errors
    /// A [`ConsoleRefusal`]; nothing is stored then.
    fn console_message(&self, message: &ConsoleMessage) -> Result<MessageId, ConsoleRefusal>;

    /// Where a message stands; none for an unknown id.
    ///
    /// Blocks: for one read of the store.
    ///
    /// # Errors
    /// The store cannot be read; says why.
    fn message(&self, id: &MessageId) -> Result<Option<MessageView>, String>;

    /// What a brain's tools may do and did; none for an unknown brain.
    ///
    /// Blocks: for a look at the tools' cages and two reads of the store.
    ///
    /// # Errors
    /// The store cannot be read; says why.
    fn tools(&self, brain: &BrainName) -> Result<Option<ToolsView>, String>;
}

/// The tools of a brain as the API shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolsView {
    /// The brain as data.
    pub brain: Brain,
    /// Its tools as the gate judges them.
    pub tools: Vec<Line>,
    /// What was rehearsed.
    pub rehearsed: Vec<Rehearsed>,
    /// What its tools did lately, the newest first.
    pub recent: Vec<Recent>,
}

/// A brain as the API shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct BrainView {
    /// The brain as data.
    pub brain: Brain,
    /// What is known of each of its models, in the places of `brain.models`.
    pub models: Vec<ModelView>,
}

/// What is known of one model of a brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelView {
    /// How it is told of tools.
    pub tools: ToolSupport,
    /// How its last attempt went.
    pub state: ModelState,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSupport {
    /// By native calls.
    Native,
    /// By the text protocol.
    Text,
    /// It is never told of any.
    None,
    /// Not found out yet.
    Unknown,
}

impl ToolSupport {
    /// The word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ToolSupport::Native => "native",
            ToolSupport::Text => "text",
            ToolSupport::None => "none",
            ToolSupport::Unknown => "unknown",
        }
    }
}

/// A channel as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelView {
    /// Its name, which is its type.
    pub name: ChannelName,
    /// How it takes messages in (`polling`, `gateway`), where there is a word for it.
    pub mode: Option<&'static str>,
    /// Its health.
    pub health: ChannelHealth,
    /// Its messages that wait for delivery.
    pub queued: u64,
}

/// Store and disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the store can commit.
    pub store_ok: bool,
    /// Whether what is committed outlives the process.
    pub durable: bool,
    /// Whether the disk has room.
    pub disk_ok: bool,
    /// Bytes free on the store's disk; none without a disk.
    pub free_bytes: Option<u64>,
}

/// What the operator says on the console.
#[derive(Clone, Copy, Debug)]
pub struct ConsoleMessage<'a> {
    /// The conversation: `BRAIN` or `BRAIN/NAME`.
    pub id: &'a str,
    /// The words.
    pub text: &'a str,
    /// What makes two of the same one.
    pub idempotency_key: Option<&'a str>,
    /// The language of Korvun's own sentences in answer.
    pub language: Language,
}

/// Why a console message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleRefusal {
    /// The key names no configured brain.
    NoSuchBrain,
    /// Too many unfinished messages.
    Full,
    /// The store cannot commit.
    Store,
}

/// Where a message stands, in the words of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageView {
    /// `queued working answered excused operator cancelled set_aside`.
    pub state: &'static str,
    /// `queued sent failed`, where it has or is an outgoing message.
    pub delivery: Option<&'static str>,
    /// What was answered, as long as it is stored.
    pub answer: Option<AnswerView>,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerView {
    /// Its own id.
    pub message_id: MessageId,
    /// `assistant operator system`.
    pub role: &'static str,
    /// What was said.
    pub text: String,
}
