//! What a governed tool call may come to, by the sentences of the user's guide alone: plain data
//! in, plain data out. Knows nothing of the program that it judges and must never import from it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many calls of one reply are looked at.
pub const CALLS_OF_A_REPLY: usize = 8;

/// The tools that connect to somebody.
pub const NETWORK_TOOLS: [&str; 2] = ["http_fetch", "webhook_call"];

/// Whether what a brain knows may leave the house.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sensitivity {
    Public,
    Private,
}

/// Where a model says that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    Local,
    Cloud,
}

/// A model as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub model_id: String,
    pub locality: Locality,
}

/// The channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    Telegram,
    Discord,
    Webhook,
    Console,
}

/// Where the message came from: the channel and the kind of chat on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    TelegramPrivate,
    TelegramGroup,
    DiscordPrivate,
    DiscordGuild,
    Webhook,
    Console,
}

/// What a grant gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Allow,
    Shadow,
    Deny,
}

/// In which chats a grant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chats {
    All,
    Direct,
}

/// One entry of the governance block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub tool: String,
    pub mode: Mode,
    pub channels: Option<Vec<Channel>>,
    pub chats: Option<Chats>,
}

/// A host, before anybody spells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Lower-case, without a dot at its end.
    Name(String),
    /// A literal address.
    Address(IpAddr),
}

/// One entry of an allow list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub host: Host,
    pub port: Option<u16>,
    /// Only spellings that mean the host.
    pub spelling: Spelling,
}

/// How a host is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spelling {
    Plain,
    /// Capital letters.
    Capitals,
    /// One dot at the end of a name.
    Dot,
    /// All eight groups of an IPv6 address.
    Groups,
    /// Two dots at the end of a name.
    TwoDots,
    /// `user:password@` before it.
    Login,
    /// A listed name as the user name of another host.
    Decoy,
    /// A listed name as the front part of another name.
    Longer,
    /// A percent sign for a letter.
    Percent,
    /// A letter or digit that only looks like the ASCII one.
    Wide,
    /// An IPv4 address as one number.
    Decimal,
    /// An IPv4 address with octal parts.
    Octal,
    /// An IPv4 address with hexadecimal parts.
    Hex,
    /// An IPv4 address of three parts.
    Short,
    /// An IPv6 address with a zone.
    Zone,
}

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    Http,
    Https,
    Ftp,
}

/// What a network tool is asked to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    pub host: Host,
    pub port: Option<u16>,
    pub spelling: Spelling,
}

/// What `read_file` is asked to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A file right below the root.
    Note,
    /// A file in a folder below the root.
    Deep,
    /// The note by its whole path.
    WholePath,
    /// The note by way of a folder and back.
    Winding,
    /// A link below the root to a file below the root.
    LinkInside,
    /// Nothing, below the root.
    NothingInside,
    /// A file elsewhere, by its whole path.
    Elsewhere,
    /// A file elsewhere, by climbing out of the root.
    Climbing,
    /// Nothing, elsewhere.
    NothingElsewhere,
    /// A folder elsewhere whose name begins as the root's does.
    Neighbour,
    /// A file of the system.
    System,
    /// A link below the root to a file elsewhere.
    LinkOutside,
    /// A file behind a link below the root to a folder elsewhere.
    FolderOutside,
}

/// What a call carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// Nothing.
    None,
    /// One text under that name.
    Text(&'static str, String),
    /// A URL.
    Url(Url),
    /// A path.
    Path(Target),
}

/// One call that the model makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The word that the model says, a tool or not.
    pub tool: String,
    pub arguments: Arguments,
    /// Which call of its reply it is, from 1.
    pub position: usize,
}

/// The cages of a brain's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cages {
    pub http_fetch: Vec<Entry>,
    pub webhook_call: Vec<Entry>,
}

/// How calls look on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    Native,
    Text,
}

/// The brain of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brain {
    pub sensitivity: Sensitivity,
    pub models: Vec<Model>,
    pub tools: Vec<String>,
    pub governance: Option<Vec<Grant>>,
    /// The tools that `tool_attrs` marks as sensitive.
    pub sensitive: Vec<String>,
    pub cages: Cages,
}

/// One run: a brain, a message's origin, and what a hostile model says to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The number from which the whole case follows.
    pub seed: u64,
    pub brain: Brain,
    pub place: Place,
    pub shape: Shape,
    /// Whether the root of `read_file` is there.
    pub root_is_there: bool,
    /// The addresses that each name has.
    pub names: Vec<(String, Vec<IpAddr>)>,
    /// The calls of each reply.
    pub replies: Vec<Vec<Call>>,
}

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Deny,
    NotGranted,
    Channel,
    SensitiveLocality,
    PrivateNetworkShield,
    Cage,
    UnknownTool,
    PerRunBudget,
}

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The tool was let loose on the arguments; whether it then succeeded is its own affair.
    Executed,
    /// Nothing happened, and this would have refused it.
    Shadowed(Option<Rule>),
    /// Nothing happened, by this rule.
    Denied(Rule),
}

impl Rule {
    /// Every rule, by its word.
    pub const WORDS: [(Rule, &'static str); 8] = [
        (Rule::Deny, "deny"),
        (Rule::NotGranted, "not_granted"),
        (Rule::Channel, "channel"),
        (Rule::SensitiveLocality, "sensitive_locality"),
        (Rule::PrivateNetworkShield, "private_network_shield"),
        (Rule::Cage, "cage"),
        (Rule::UnknownTool, "unknown_tool"),
        (Rule::PerRunBudget, "per_run_budget"),
    ];

    /// The word in the audit.
    pub fn word(self) -> &'static str {
        Rule::WORDS
            .iter()
            .find(|(rule, _)| *rule == self)
            .map_or("", |(_, word)| word)
    }

    /// The rule of that word.
    pub fn of_word(word: &str) -> Option<Rule> {
        let (rule, _) = Rule::WORDS.iter().find(|(_, known)| *known == word)?;
        Some(*rule)
    }
}

impl Place {
    /// The channel.
    pub fn channel(self) -> Channel {
        match self {
            Place::TelegramPrivate | Place::TelegramGroup => Channel::Telegram,
            Place::DiscordPrivate | Place::DiscordGuild => Channel::Discord,
            Place::Webhook => Channel::Webhook,
            Place::Console => Channel::Console,
        }
    }

    /// Whether one person sits there alone with the bot, as far as Korvun can know.
    pub fn is_direct(self) -> bool {
        match self {
            Place::TelegramPrivate | Place::DiscordPrivate | Place::Console => true,
            Place::TelegramGroup | Place::DiscordGuild | Place::Webhook => false,
        }
    }
}

impl Model {
    /// Whether it runs elsewhere, by what it says or by what it certainly is.
    pub fn is_cloud(&self) -> bool {
        let cloud_name = self.model_id.ends_with("-cloud") || self.model_id.ends_with(":cloud");
        self.locality == Locality::Cloud
            || self.provider == "groq"
            || (self.provider == "ollama" && cloud_name)
    }
}

impl Brain {
    /// The models that privacy leaves.
    pub fn eligible(&self) -> impl Iterator<Item = &Model> {
        let private = self.sensitivity == Sensitivity::Private;
        self.models
            .iter()
            .filter(move |model| !(private && model.is_cloud()))
    }

    /// Whether what the brain reads may leave the house by a model.
    pub fn has_eligible_cloud(&self) -> bool {
        self.eligible().any(Model::is_cloud)
    }

    /// Whether the tool is one of those that only local models may use.
    pub fn is_sensitive(&self, tool: &str) -> bool {
        tool == "read_file" || self.sensitive.iter().any(|marked| marked == tool)
    }
}

impl Spelling {
    /// Whether a host written so is that very host.
    pub fn means_the_host(self) -> bool {
        matches!(
            self,
            Spelling::Plain | Spelling::Capitals | Spelling::Dot | Spelling::Groups
        )
    }
}

/// The tools that the model is told of.
pub fn announced(case: &Case) -> BTreeSet<String> {
    let told = |tool: &&String| standing(case, tool).is_ok();
    case.brain.tools.iter().filter(told).cloned().collect()
}

/// What the call comes to.
pub fn verdict(case: &Case, call: &Call) -> Verdict {
    if call.position > CALLS_OF_A_REPLY {
        return Verdict::Denied(Rule::PerRunBudget);
    }
    if !case.brain.tools.contains(&call.tool) {
        return Verdict::Denied(Rule::UnknownTool);
    }
    match standing(case, &call.tool) {
        Err(rule) => Verdict::Denied(rule),
        Ok(Standing::Rehearses) => Verdict::Shadowed(refusal(case, call, Look::AtArguments)),
        Ok(Standing::Executes) => match refusal(case, call, Look::AtTheWorld) {
            Some(rule) => Verdict::Denied(rule),
            None => Verdict::Executed,
        },
    }
}

/// What is left of a tool's grant before any argument is known.
enum Standing {
    Executes,
    Rehearses,
}

/// Restrictions first, in their order, then the granted mode.
fn standing(case: &Case, tool: &str) -> Result<Standing, Rule> {
    let grant = match &case.brain.governance {
        None => None,
        Some(grants) => match grants.iter().find(|grant| grant.tool == tool) {
            None => return Err(Rule::NotGranted),
            Some(grant) => Some(grant),
        },
    };
    if grant.is_some_and(|grant| grant.mode == Mode::Deny) {
        return Err(Rule::Deny);
    }
    if grant.is_some_and(|grant| !reaches(grant, case.place)) {
        return Err(Rule::Channel);
    }
    if case.brain.is_sensitive(tool) && case.brain.has_eligible_cloud() {
        return Err(Rule::SensitiveLocality);
    }
    if tool == "read_file" && !case.root_is_there {
        return Err(Rule::Cage);
    }
    match grant.map(|grant| grant.mode) {
        Some(Mode::Shadow) => Ok(Standing::Rehearses),
        _ => Ok(Standing::Executes),
    }
}

/// Whether the grant counts where the message came from.
fn reaches(grant: &Grant, place: Place) -> bool {
    let on_channel = match &grant.channels {
        None => true,
        Some(channels) => channels.contains(&place.channel()),
    };
    let in_chat = grant.chats != Some(Chats::Direct) || place.is_direct();
    on_channel && in_chat
}

/// What a cage may look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// A rehearsal sees what is written in the arguments, and asks nobody.
    AtArguments,
    /// The real thing follows links and asks for addresses.
    AtTheWorld,
}

/// What cage and shield say of the arguments.
fn refusal(case: &Case, call: &Call, look: Look) -> Option<Rule> {
    let list = match call.tool.as_str() {
        "read_file" => return outside(&call.arguments, look).then_some(Rule::Cage),
        "http_fetch" => &case.brain.cages.http_fetch,
        "webhook_call" => &case.brain.cages.webhook_call,
        _ => return None,
    };
    let Arguments::Url(url) = &call.arguments else {
        return Some(Rule::Cage);
    };
    if !list.iter().any(|entry| lists(entry, url)) {
        return Some(Rule::Cage);
    }
    let refused = |address: &IpAddr| !may_be_dialled(*address, case.brain.sensitivity);
    let all_refused = match (&url.host, look) {
        (Host::Address(address), _) => refused(address),
        (Host::Name(_), Look::AtArguments) => false,
        (Host::Name(name), Look::AtTheWorld) => addresses(case, name).iter().all(refused),
    };
    all_refused.then_some(Rule::PrivateNetworkShield)
}

/// The addresses that a name has in the world of the case.
pub fn addresses<'a>(case: &'a Case, name: &str) -> &'a [IpAddr] {
    case.names
        .iter()
        .find(|(known, _)| known == name)
        .map_or(&[], |(_, addresses)| addresses)
}

/// The addresses that an executed call may connect to; nothing else, and for any other verdict
/// nothing at all.
pub fn dialled(case: &Case, call: &Call) -> Vec<IpAddr> {
    let Arguments::Url(url) = &call.arguments else {
        return Vec::new();
    };
    if verdict(case, call) != Verdict::Executed || !NETWORK_TOOLS.contains(&call.tool.as_str()) {
        return Vec::new();
    }
    let all = match &url.host {
        Host::Address(address) => std::slice::from_ref(address),
        Host::Name(name) => addresses(case, name),
    };
    all.iter()
        .copied()
        .filter(|address| may_be_dialled(*address, case.brain.sensitivity))
        .collect()
}

/// Whether a path ends elsewhere than below the root.
fn outside(arguments: &Arguments, look: Look) -> bool {
    match arguments {
        Arguments::Path(target) => match target {
            Target::Note
            | Target::Deep
            | Target::WholePath
            | Target::Winding
            | Target::LinkInside
            | Target::NothingInside => false,
            Target::Elsewhere
            | Target::Climbing
            | Target::NothingElsewhere
            | Target::Neighbour
            | Target::System => true,
            Target::LinkOutside | Target::FolderOutside => look == Look::AtTheWorld,
        },
        _ => true,
    }
}

/// Whether the entry of an allow list means what the URL means.
fn lists(entry: &Entry, url: &Url) -> bool {
    let usual = match url.scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
        Scheme::Ftp => return false,
    };
    url.spelling.means_the_host()
        && entry.host == url.host
        && entry.port.unwrap_or(usual) == url.port.unwrap_or(usual)
}

/// Whether a brain of that sensitivity may connect to the address.
pub fn may_be_dialled(address: IpAddr, sensitivity: Sensitivity) -> bool {
    !is_never_dialled(address) && (sensitivity == Sensitivity::Public || is_private(address))
}

/// The machine itself and the house around it.
fn is_private(address: IpAddr) -> bool {
    match unmapped(address) {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            a == 127 || a == 10 || (a == 172 && b / 16 == 1) || (a == 192 && b == 168)
        }
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            bits == 1 || bits >> 121 == 0xfc >> 1 || bits >> 118 == 0xfe80 >> 6
        }
    }
}

/// Where clouds keep the keys of a machine, in every form.
fn is_never_dialled(address: IpAddr) -> bool {
    let own = |v4: Ipv4Addr| {
        let [a, b, c, d] = v4.octets();
        (a == 169 && b == 254) || [a, b, c, d] == [100, 100, 100, 200]
    };
    let v6 = match address {
        IpAddr::V4(v4) => return own(v4),
        IpAddr::V6(v6) => v6,
    };
    let names: [Ipv6Addr; 2] = [
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
    ];
    names.contains(&v6) || carried(v6).is_some_and(own)
}

/// The IPv4 address that an IPv6 address carries, by the way in which it does.
fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = v6.to_bits();
    let low = bits as u32;
    let found = if bits >> 32 == 0xffff || bits >> 32 == 0 {
        // ::ffff:a.b.c.d (RFC 4291, 2.5.5.2) and ::a.b.c.d (2.5.5.1).
        low
    } else if bits >> 32 == 0x0064_ff9b << 64 {
        // 64:ff9b::a.b.c.d (RFC 6052, 2.1).
        low
    } else if bits >> 112 == 0x2002 {
        // 2002:AABB:CCDD:: (RFC 3056, 2).
        (bits >> 80) as u32
    } else if bits >> 96 == 0x2001_0000 {
        // The client of a Teredo address, its bits turned over (RFC 4380, 4).
        !low
    } else {
        return None;
    };
    Some(Ipv4Addr::from_bits(found))
}

/// An IPv4 address in IPv6's clothes is that IPv4 address.
fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.to_bits() >> 32 == 0xffff => {
            IpAddr::V4(Ipv4Addr::from_bits(v6.to_bits() as u32))
        }
        other => other,
    }
}
