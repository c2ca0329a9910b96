//! Names that cannot be mistaken for one another.

use std::fmt;
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text of a name.
            #[must_use]
            pub fn new(text: &str) -> Self {
                Self(text.into())
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    )*};
}

names! {
    /// A channel's name, which is also its type: `telegram`, `discord`, `webhook`, `console`.
    ChannelName;
    /// A brain's name from the configuration.
    BrainName;
    /// A provider's name from the configuration: `ollama`, `groq`, `openai-compatible`.
    ProviderName;
    /// A model's name as its provider knows it.
    ModelId;
    /// The name of an environment variable that holds a secret.
    EnvName;
    /// An opaque message id, never used twice.
    MessageId;
    /// Scheme, host and port of a model server: what shares its places.
    Endpoint;
}

/// A conversation: a channel and the channel's own id for it. Shown as `CHANNEL::ID`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conversation {
    /// The channel it is held on.
    pub channel: ChannelName,
    /// The channel's id for it.
    pub id: Arc<str>,
}

impl Conversation {
    /// The conversation `id` of `channel`.
    #[must_use]
    pub fn new(channel: &ChannelName, id: &str) -> Conversation {
        Conversation {
            channel: channel.clone(),
            id: id.into(),
        }
    }
}

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.channel, self.id)
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
