//! What the configuration says once nothing in it dangles: names resolved, defaults filled in.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::brain::Brain;
use crate::domain::command::Offer;
use crate::domain::ids::{BrainName, ChannelName, EnvName};

/// A whole, consistent configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Channels in the file's order.
    pub channels: Vec<Channel>,
    /// Brains in the file's order.
    pub brains: Vec<Brain>,
    /// Which channel goes to which brain.
    pub routes: Vec<Route>,
    /// Where messages are kept; without it they live in memory.
    pub storage: Option<Storage>,
    /// When sessions end; without it there is one per conversation.
    pub session: Option<Session>,
    /// The admin server.
    pub observability: Observability,
    /// The variable of the admin token; without it the admin server is read-only.
    pub admin_token_env: Option<EnvName>,
}

impl Plan {
    /// The brain of that name.
    #[must_use]
    pub fn brain(&self, name: &BrainName) -> Option<&Brain> {
        self.brains.iter().find(|brain| brain.name == *name)
    }

    /// The commands that there are on a channel.
    #[must_use]
    pub fn offer(&self, channel: &ChannelName) -> Offer<'_> {
        let session = self.session.as_ref();
        Offer {
            triggers: session.map(|session| session.triggers.as_slice()),
            recall_max: session.map_or(0, |session| session.recall_max),
            notes: false,
            console: channel.as_str() == "console",
        }
    }

    /// The channel of that name.
    #[must_use]
    pub fn channel(&self, name: &ChannelName) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.name == *name)
    }
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its type, which is also its name.
    pub name: ChannelName,
    /// The variable of its secret, where it has one.
    pub token_env: Option<EnvName>,
    /// What its kind needs.
    pub settings: ChannelSettings,
}

/// What each kind of channel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelSettings {
    /// Telegram or Discord.
    Chat(Chat),
    /// The generic webhook.
    Webhook(Box<Webhook>),
    /// The operator's console.
    Console,
}

/// A chat platform's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// The API's root, without a trailing slash.
    pub base_url: String,
    /// Who may talk, by sender id; `None` means everybody.
    pub allow_from: Option<Vec<String>>,
    /// What is answered in groups.
    pub respond: Respond,
}

/// What is answered in groups and guild channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Respond {
    /// Every message.
    All,
    /// A mention, a reply to the bot, or a command.
    Mention,
}

/// The webhook block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Listening address.
    pub bind: SocketAddr,
    /// Path of the inbound POST.
    pub path: String,
    /// Where answers are posted.
    pub outbound_url: String,
    /// The variable of the bearer token of answers.
    pub outbound_token_env: Option<EnvName>,
    /// The caller's field names.
    pub mapping: Mapping,
    /// A signature in place of the inbound bearer token.
    pub signature: Option<Signature>,
}

/// The caller's name of each field: a key, or a JSON pointer when it starts with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Who speaks.
    pub sender_id: String,
    /// Their name.
    pub sender_name: String,
    /// What they say.
    pub text: String,
    /// Media beside it.
    pub media_url: String,
    /// The kind of media.
    pub media_type: String,
    /// The conversation.
    pub conversation_id: String,
}

impl Default for Mapping {
    fn default() -> Mapping {
        Mapping {
            sender_id: "sender_id".into(),
            sender_name: "sender_name".into(),
            text: "text".into(),
            media_url: "media_url".into(),
            media_type: "media_type".into(),
            conversation_id: "conversation_id".into(),
        }
    }
}

/// How inbound requests are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The scheme.
    pub kind: SignatureKind,
    /// The variable of the shared secret.
    pub secret_env: EnvName,
    /// The header that carries it.
    pub header: String,
}

/// The signature schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKind {
    /// `X-Hub-Signature-256`.
    Github,
    /// `X-Gitlab-Token`.
    Gitlab,
    /// `Stripe-Signature`.
    Stripe,
    /// A header of the caller's choice.
    HmacSha256,
}

/// A route from a channel to a brain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// From.
    pub channel: ChannelName,
    /// To.
    pub brain: BrainName,
}

/// Durable storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The database file.
    pub path: PathBuf,
    /// Days that messages are kept; 0 keeps them.
    pub retention_days: u32,
}

/// When a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Words that start a new one.
    pub triggers: Vec<String>,
    /// Minutes after midnight, local time, at which a new one starts.
    pub daily_at: Option<u32>,
    /// Silence after which a new one starts.
    pub idle: Option<Duration>,
    /// Messages that `/recall` shows at most; 0 is off.
    pub recall_max: u32,
}

/// The admin server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observability {
    /// Whether it runs.
    pub enabled: bool,
    /// Listening address.
    pub addr: SocketAddr,
    /// Further names accepted in `Host`.
    pub allow_hosts: Vec<String>,
}
