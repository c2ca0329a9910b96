//! Messages on their way in and out.

use super::ids::{Conversation, MessageId};
use crate::base::clock::UnixMs;

/// A message as a channel hands it to the engine, before it is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Where it was said.
    pub conversation: Conversation,
    /// What recognises a repetition on this channel (an idempotency key, an update id).
    pub dedup: Option<String>,
    /// Who said it, by the channel's id.
    pub sender_id: String,
    /// Who said it, by the name that people see; may be empty.
    pub sender_name: String,
    /// What was said; empty where there is only something that cannot be read.
    pub text: String,
    /// The kind of thing beside or instead of text that this build cannot read (`photo`, a media type).
    pub attachment: Option<String>,
    /// Which language the honest sentences are in.
    pub language: Language,
    /// Whether it is a private chat, a group, or neither.
    pub chat: ChatKind,
    /// What the channel needs to answer in place (a topic, a message to refer to); opaque to the engine.
    pub reply_to: Option<String>,
}

/// The languages of Korvun's own sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// English, where nothing tells otherwise.
    En,
    /// Spanish.
    Es,
}

impl Language {
    /// The language of a tag such as `es-AR`; English for all that is not Spanish.
    #[must_use]
    pub fn of_tag(tag: &str) -> Language {
        let first = tag.split(['-', '_']).next().unwrap_or("");
        if first.eq_ignore_ascii_case("es") {
            Language::Es
        } else {
            Language::En
        }
    }

    /// The language that an `Accept-Language` asks for first (RFC 9110 section 12.5.4): lists are
    /// written in order of preference, weights beside them say the same.
    #[must_use]
    pub fn accepted(list: &str) -> Language {
        Language::of_tag(list.split([',', ';']).next().unwrap_or("").trim())
    }

    /// The tag as stored.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Es => "es",
        }
    }
}

/// The kind of chat a message was said in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatKind {
    /// One person and the bot, or the operator's console.
    Direct,
    /// Several people.
    Group,
    /// Another program, by webhook.
    Program,
}

/// How the work on a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer, or a command's acknowledgement.
    Answered,
    /// An honest sentence why there is none.
    Excused,
    /// Kept for the operator.
    Operator,
    /// Cancelled by the user.
    Cancelled,
    /// Given up after three attempts.
    SetAside,
}

impl Outcome {
    /// The word in logs, metrics and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Excused => "excused",
            Outcome::Operator => "operator",
            Outcome::Cancelled => "cancelled",
            Outcome::SetAside => "set_aside",
        }
    }
}

/// Who speaks in a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person, or a program by webhook.
    User,
    /// A brain.
    Assistant,
    /// The operator.
    Operator,
    /// Korvun itself: honest sentences, acknowledgements.
    System,
}

impl Role {
    /// The word in store and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Operator => "operator",
            Role::System => "system",
        }
    }
}

/// A message from the outbox on its way to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The outbox row.
    pub row: i64,
    /// Its id, which is also the idempotency key where the channel has one.
    pub message_id: MessageId,
    /// The message it answers, if it answers one.
    pub in_reply_to: Option<MessageId>,
    /// Where to.
    pub conversation: Conversation,
    /// Who speaks: a brain, the operator or Korvun itself.
    pub role: Role,
    /// The name that people see.
    pub sender_name: String,
    /// What is said.
    pub text: String,
    /// What the channel gave with the message it answers.
    pub reply_to: Option<String>,
    /// Parts of the text that the channel has confirmed already.
    pub parts_sent: u32,
    /// When it was put into the outbox.
    pub queued_at: UnixMs,
    /// Tries so far.
    pub attempts: u32,
}
