//! Who may talk on a chat channel, and where what is said needs to name the bot. Pure.

use crate::config::plan::Respond;
use crate::domain::ids::ChannelName;
use crate::domain::message::ChatKind;

/// The rules of one chat channel.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The channel.
    pub channel: ChannelName,
    /// Who may talk, by id; none is everybody.
    pub allow_from: Option<Vec<String>>,
    /// What is answered where several people are.
    pub respond: Respond,
    /// Words that are commands here, each with its slash.
    pub commands: Vec<String>,
    /// Bytes of a text that are kept.
    pub text_bytes: usize,
}

impl Rules {
    /// Whether this sender may talk.
    #[must_use]
    pub fn admits(&self, sender: &str) -> bool {
        self.allow_from
            .as_ref()
            .is_none_or(|ids| ids.iter().any(|id| id == sender))
    }

    /// Whether everything that is said there is meant for the bot.
    #[must_use]
    pub fn hears_all(&self, chat: ChatKind) -> bool {
        chat == ChatKind::Direct || self.respond == Respond::All
    }
}
