//! What is asked of a model and what comes back.

use std::fmt;
use std::time::Duration;

use super::ids::Conversation;

/// One thing said in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Who says it to the model.
    pub by: Speaker,
    /// The words.
    pub text: String,
}

/// The roles that models know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The operator's instructions.
    System,
    /// A person.
    User,
    /// The model itself, earlier.
    Assistant,
}

impl Speaker {
    /// The word in the protocols of model servers.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        }
    }
}

/// A prompt in stretches. What is stable comes first, so that a model's cache holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Whose conversation it is: the cut in its history is remembered by it.
    pub conversation: Conversation,
    /// Instructions; the same bytes in every prompt of a brain.
    pub head: Vec<Said>,
    /// What was said before, oldest first; the part that may be left out.
    pub history: Vec<Past>,
    /// What changes, the present message last.
    pub tail: Vec<Said>,
    /// What this run has come to behind the present message; empty where no tool was called.
    pub turns: Vec<Turn>,
    /// How the model is told of tools with this prompt.
    pub offer: Offer,
}

/// One thing that happened in a run behind the present message.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// Plain words: the model's own, or what it is told.
    Said(Said),
    /// A reply of the model that calls tools, in the native lane.
    Called {
        /// What it said beside.
        text: String,
        /// Its calls, at least one.
        calls: Vec<ToolCall>,
    },
    /// What came of one call of the reply before, in the native lane.
    Observed {
        /// The call's id.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// What the model is told.
        text: String,
    },
}

/// How a model is told of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// By its provider's own protocol.
    Native,
    /// By words in the prompt.
    Text,
}

/// What a prompt offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Offer {
    /// No tools. Call syntax in the answer is noise and is taken out.
    #[default]
    Nothing,
    /// These tools, by the provider's own protocol.
    Native(Vec<ToolSpec>),
    /// Tools that the prompt's own words tell of. Call syntax in the answer stays: the run reads it.
    Text,
}

/// One earlier message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Its number in the store; grows.
    pub seq: i64,
    /// What was said.
    pub said: Said,
}

/// A model's answer, reasoning already taken out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// The words; never blank, except beside calls.
    pub text: String,
    /// The calls that it makes by the provider's own protocol; none where none were offered.
    pub calls: Vec<ToolCall>,
    /// Whether the model's length limit cut it.
    pub cut: bool,
    /// Earlier messages that did not fit the model's context.
    pub left_out: u32,
}

/// What went wrong in one attempt, by what the caller can do about it. The words of
/// [`FailureKind::word`] are the `kind` label of `korvun_provider_failures_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// No connection, or it broke before an answer.
    Connect,
    /// The attempt's own deadline passed.
    Timeout,
    /// 429 that heals by waiting.
    Rate,
    /// A quota that does not heal by waiting.
    Quota,
    /// 401 or 403.
    Auth,
    /// Any other status.
    Status,
    /// A body that is too large or not what the protocol says.
    Body,
    /// A blank answer.
    Empty,
    /// A redirect, or the provider's content filter.
    Refused,
    /// The network shield, or a model that turned out to run elsewhere.
    Shield,
    /// The model cannot be told of tools this way.
    ToolsUnsupported,
    /// The caller no longer wants it: another model has won, or the daemon stops.
    Cancelled,
}

impl FailureKind {
    /// The word in logs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Timeout => "timeout",
            FailureKind::Rate => "rate",
            FailureKind::Quota => "quota",
            FailureKind::Auth => "auth",
            FailureKind::Status => "status",
            FailureKind::Body => "body",
            FailureKind::Empty => "empty",
            FailureKind::Refused => "refused",
            FailureKind::Shield => "shield",
            FailureKind::ToolsUnsupported => "tools_unsupported",
            FailureKind::Cancelled => "cancelled",
        }
    }
}

/// A failed attempt at a model. The detail is for the log only and never reaches a person who chats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind it is.
    pub kind: FailureKind,
    /// What was attempted and what came back, without any secret.
    pub detail: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait, where it asks.
    pub retry_after: Option<Duration>,
    /// Whether the model is being loaded: said to the person in place of "unreachable".
    pub loading: bool,
}

impl Failure {
    /// A failure with neither status nor wait.
    #[must_use]
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Failure {
        Failure {
            kind,
            detail: detail.into(),
            status: None,
            retry_after: None,
            loading: false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.word(), self.detail)
    }
}

impl std::error::Error for Failure {}

/// What is known of a model by asking its provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// Tokens of its context, where told.
    pub context_tokens: Option<u32>,
    /// Whether it can be told of tools natively, where told.
    pub tools: Option<bool>,
    /// The host on which it really runs, when that is not the one asked.
    pub remote: Option<String>,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words: each costs time on a small machine.
    pub description: &'static str,
    /// Its arguments as a JSON schema.
    pub parameters: serde_json::Value,
}

/// A model's wish to use a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id that the answer has to name; never empty, one of our own where the model gave none.
    pub id: String,
    /// The name it wrote.
    pub name: String,
    /// The object it wrote; what it wrote instead, where that is none.
    pub arguments: Result<serde_json::Map<String, serde_json::Value>, String>,
}

impl ToolCall {
    /// The arguments as the text of a JSON object; words that are none stand in one.
    #[must_use]
    pub fn written_arguments(&self) -> String {
        self.sent_arguments().to_string()
    }

    /// The arguments as an object, as protocols insist; words that are none stand in one.
    #[must_use]
    pub fn sent_arguments(&self) -> serde_json::Value {
        match &self.arguments {
            Ok(object) => serde_json::Value::Object(object.clone()),
            Err(words) => serde_json::json!({"unreadable": words}),
        }
    }
}
