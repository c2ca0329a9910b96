//! What a kind of channel, provider or tool is, as data: its name, its keys and their rules. Pure;
//! the plug-in folders fill it, the check, the documentation and the builder's forms read it.

use std::time::Duration;

/// A sentence in the languages of the documentation and the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Docs {
    /// English.
    pub en: &'static str,
    /// Spanish.
    pub es: &'static str,
}

/// One key of an object of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key.
    pub key: &'static str,
    /// What its value looks like.
    pub shape: Shape,
    /// Whether it must be there.
    pub need: Need,
    /// What holds when it is absent.
    pub default: Preset,
    /// What it means.
    pub docs: Docs,
    /// Whether it belongs to the first form of the file or came later.
    pub origin: Origin,
}

impl Field {
    /// An optional key without a default, of the first form of the file.
    #[must_use]
    pub const fn new(key: &'static str, shape: Shape, en: &'static str, es: &'static str) -> Field {
        Field {
            key,
            shape,
            need: Need::Optional,
            default: Preset::None,
            docs: Docs { en, es },
            origin: Origin::Core,
        }
    }

    /// The same, and it must be there.
    #[must_use]
    pub const fn required(mut self) -> Field {
        self.need = Need::Required;
        self
    }

    /// The same, and `null` or an empty string is an error rather than "absent".
    #[must_use]
    pub const fn guarded(mut self) -> Field {
        self.need = Need::Guarded;
        self
    }

    /// The same, required under a condition that the check knows and this sentence tells.
    #[must_use]
    pub const fn required_when(mut self, en: &'static str, es: &'static str) -> Field {
        self.need = Need::When(Docs { en, es });
        self
    }

    /// The same with a default, written as the file would write it (strings without quotes).
    #[must_use]
    pub const fn preset(mut self, value: &'static str) -> Field {
        self.default = Preset::Value(value);
        self
    }

    /// The same with a default that depends on other keys, told in words.
    #[must_use]
    pub const fn preset_told(mut self, en: &'static str, es: &'static str) -> Field {
        self.default = Preset::Told(Docs { en, es });
        self
    }

    /// The same, marked as an extra beyond the first form of the file.
    #[must_use]
    pub const fn extra(mut self) -> Field {
        self.origin = Origin::Extra;
        self
    }
}

/// Whether a key must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Always.
    Required,
    /// Never; `null` and `""` count as absent.
    Optional,
    /// Never, but `null` and `""` are errors: they would open what the key means to close.
    Guarded,
    /// Under the condition told.
    When(Docs),
}

/// What holds when a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing.
    None,
    /// This value.
    Value(&'static str),
    /// A value that depends on other keys.
    Told(Docs),
}

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The first form of the file, a promise between releases.
    Core,
    /// Later and always optional.
    Extra,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A string on one line, without control characters, up to so many characters.
    Line(usize),
    /// A string that may have line breaks, up to so many characters.
    Prose(usize),
    /// One of these words.
    Word(&'static [&'static str]),
    /// The name of a kind from the catalogue.
    Kind(Family),
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Whole(i64, i64),
    /// A duration like `1h30m` within these bounds.
    Span(Duration, Duration),
    /// A duration of any length, also a negative one.
    SignedSpan,
    /// The name of an environment variable that holds a secret.
    Env,
    /// The root of an API: http or https, no credentials, query or fragment.
    UrlRoot,
    /// The address of a request: http or https, no credentials.
    Url,
    /// The path of a request: begins with `/`.
    UrlPath,
    /// IP address and port to listen on.
    Listen,
    /// A file or folder; relative ones start from the configuration's own folder.
    File,
    /// A time of day, `HH:MM`.
    TimeOfDay,
    /// A host with an optional port, exactly as it will be compared.
    HostPort,
    /// A host name without a port.
    HostName,
    /// The name of an HTTP header.
    Header,
    /// A sender's id.
    SenderId,
    /// A word without white space.
    SingleWord(usize),
    /// A list of values of one shape, with its least and most entries.
    List(&'static Shape, usize, usize),
    /// An object with these keys.
    Object(&'static [Field]),
    /// An object with these keys and those that its kind adds: for a channel those of its `type`,
    /// for a model those of its `provider`, for an agent the cages of all tools.
    Extended(&'static [Field], Family),
    /// An object whose keys are names of tools and whose values have these keys.
    PerTool(&'static [Field]),
    /// An object with any keys, handed on as it is.
    Open,
    /// A value of any of these shapes.
    Either(&'static [Shape]),
}

/// The three families of kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Channels.
    Channel,
    /// Providers.
    Provider,
    /// Tools.
    Tool,
}

/// Whether this build has the part behind a descriptor. A kind that is not built is checked in
/// full, and `serve` says that it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is here.
    Built,
    /// Its keys are known, the part is not here yet.
    Later,
}

/// A kind of channel.
#[derive(Debug)]
pub struct ChannelDescriptor {
    /// Its name, which is also the channel's.
    pub name: &'static str,
    /// What it is.
    pub docs: Docs,
    /// Its keys beside `type`.
    pub fields: &'static [Field],
    /// Which settings the plan gets.
    pub form: ChannelForm,
    /// The word for how it is reached, shown beside its state.
    pub mode: Option<&'static str>,
    /// Whether it is here.
    pub stage: Stage,
}

/// The settings that a kind of channel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelForm {
    /// A chat platform.
    Chat,
    /// The generic webhook.
    Webhook,
    /// The operator's own console.
    Console,
}

/// A kind of provider.
#[derive(Debug)]
pub struct ProviderDescriptor {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub docs: Docs,
    /// Its keys beside those that every model has.
    pub fields: &'static [Field],
    /// An environment variable that people expect to move its address and that is not read.
    pub unread_env: Option<&'static str>,
    /// Whether it is here.
    pub stage: Stage,
}

/// A kind of tool.
#[derive(Debug)]
pub struct ToolDescriptor {
    /// Its name.
    pub name: &'static str,
    /// What it does and how far it reaches.
    pub docs: Docs,
    /// The block without which it may not exist.
    pub cage: Option<Field>,
    /// Whether what it reads must not reach a cloud model.
    pub sensitive: bool,
    /// Whether it reaches the network.
    pub network: bool,
    /// Whether a call changes something that a second one would change again.
    pub effects: bool,
    /// Whether it keeps something in the store and therefore needs `storage` and a grant.
    pub stores: bool,
    /// Whether it is here.
    pub stage: Stage,
}

/// Parts beyond the kinds that a build may not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Brains with tools.
    Agents,
    /// Sessions.
    Sessions,
    /// Signed webhook requests.
    Signatures,
    /// Skills.
    Skills,
}

/// All kinds that there are, and the parts that this build lacks.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Kinds of channel.
    pub channels: Vec<&'static ChannelDescriptor>,
    /// Kinds of provider.
    pub providers: Vec<&'static ProviderDescriptor>,
    /// Kinds of tool.
    pub tools: Vec<&'static ToolDescriptor>,
    /// Parts that this build does not have yet.
    pub lacks: &'static [Part],
}

impl Catalogue {
    /// The kind of channel of that name.
    #[must_use]
    pub fn channel(&self, name: &str) -> Option<&'static ChannelDescriptor> {
        self.channels.iter().copied().find(|kind| kind.name == name)
    }

    /// The kind of provider of that name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&'static ProviderDescriptor> {
        self.providers
            .iter()
            .copied()
            .find(|kind| kind.name == name)
    }

    /// The kind of tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&'static ToolDescriptor> {
        self.tools.iter().copied().find(|kind| kind.name == name)
    }

    /// The names of a family, in the catalogue's order.
    #[must_use]
    pub fn names(&self, family: Family) -> Vec<&'static str> {
        match family {
            Family::Channel => self.channels.iter().map(|kind| kind.name).collect(),
            Family::Provider => self.providers.iter().map(|kind| kind.name).collect(),
            Family::Tool => self.tools.iter().map(|kind| kind.name).collect(),
        }
    }
}
