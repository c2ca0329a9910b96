//! A case as the world sees it: the configuration, the text of each call, and the files on disk.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use super::rules::{
    Arguments, Brain, Call, Case, Channel, Chats, Entry, Host, Locality, Mode, Place, Scheme,
    Sensitivity, Shape, Spelling, Target, Url,
};

/// The variable that holds the key of models that need one.
pub const API_KEY_ENV: &str = "KORVUN_ORACLE_API_KEY";

/// The brain's name in every case.
pub const BRAIN: &str = "oracle";

/// Where a case takes place: what of its configuration the machine decides.
#[derive(Clone, Debug)]
pub struct Ground {
    /// A folder of the case's own, absolute: the root of `read_file` and what lies beside it.
    pub folder: PathBuf,
    /// Where every model answers, `http://HOST:PORT`.
    pub model_url: String,
}

impl Ground {
    /// The root of `read_file`.
    pub fn root(&self) -> PathBuf {
        self.folder.join("notes")
    }

    /// Lays out the files that paths speak of; the root only where the case has one.
    pub fn lay(&self, case: &Case) -> io::Result<()> {
        let elsewhere = self.folder.join("elsewhere");
        fs::create_dir_all(&elsewhere)?;
        fs::write(elsewhere.join("secret.txt"), "from elsewhere")?;
        let neighbour = self.folder.join("notes-of-others");
        fs::create_dir_all(&neighbour)?;
        fs::write(neighbour.join("secret.txt"), "from elsewhere")?;
        if !case.root_is_there {
            return Ok(());
        }
        let root = self.root();
        fs::create_dir_all(root.join("deep"))?;
        fs::write(root.join("note.txt"), "from the root")?;
        fs::write(root.join("deep/note.txt"), "from the root")?;
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.join(name));
        link(Path::new("deep/note.txt"), "link.txt")?;
        link(&elsewhere.join("secret.txt"), "leak.txt")?;
        link(&elsewhere, "way")
    }

    /// The path that a target stands for.
    pub fn path(&self, target: Target) -> String {
        let below = |folder: PathBuf, name: &str| folder.join(name).to_string_lossy().into_owned();
        match target {
            Target::Note => "note.txt".into(),
            Target::Deep => "deep/note.txt".into(),
            Target::WholePath => below(self.root(), "note.txt"),
            Target::Winding => "deep/../note.txt".into(),
            Target::LinkInside => "link.txt".into(),
            Target::NothingInside => "nothing.txt".into(),
            Target::Elsewhere => below(self.folder.clone(), "elsewhere/secret.txt"),
            Target::Climbing => "../elsewhere/secret.txt".into(),
            Target::NothingElsewhere => below(self.folder.clone(), "elsewhere/nothing.txt"),
            Target::Neighbour => below(self.folder.clone(), "notes-of-others/secret.txt"),
            Target::System => "/etc/passwd".into(),
            Target::LinkOutside => "leak.txt".into(),
            Target::FolderOutside => "way/secret.txt".into(),
        }
    }
}

impl Channel {
    /// The channel's name in the file.
    pub fn word(self) -> &'static str {
        match self {
            Channel::Telegram => "telegram",
            Channel::Discord => "discord",
            Channel::Webhook => "webhook",
            Channel::Console => "console",
        }
    }
}

impl Place {
    /// The kind of chat as `korvun explain --chat` has it; `None` where a channel has no kinds.
    pub fn chat(self) -> Option<&'static str> {
        match self {
            Place::TelegramPrivate | Place::DiscordPrivate => Some("direct"),
            Place::TelegramGroup | Place::DiscordGuild => Some("group"),
            Place::Webhook | Place::Console => None,
        }
    }
}

impl Mode {
    /// The word in the file.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Allow => "allow",
            Mode::Shadow => "shadow",
            Mode::Deny => "deny",
        }
    }
}

impl Case {
    /// A whole configuration with this brain behind all four channels.
    pub fn config_json(&self, ground: &Ground) -> Value {
        let route = |channel: &str| json!({"channel": channel, "brain": BRAIN});
        json!({
            "channels": [
                {"type": "telegram", "mode": "polling", "token_env": "TELEGRAM_BOT_TOKEN", "allow_from": ["1"]},
                {"type": "discord", "mode": "gateway", "token_env": "DISCORD_BOT_TOKEN", "allow_from": ["1"]},
                {"type": "webhook", "token_env": "KORVUN_WEBHOOK_TOKEN",
                 "webhook": {"outbound_url": "http://127.0.0.1:5678/answers"}},
                {"type": "console"},
            ],
            "brains": [self.brain_json(ground)],
            "routes": [route("telegram"), route("discord"), route("webhook"), route("console")],
            "storage": {"path": ground.folder.join("korvun.db")},
            "admin": {"token_env": "KORVUN_ADMIN_TOKEN"},
        })
    }

    /// The brain alone, as it stands in the file.
    pub fn brain_json(&self, ground: &Ground) -> Value {
        let brain = &self.brain;
        let mut agent = json!({"tools": brain.tools});
        if let Some(grants) = &brain.governance {
            agent["governance"] = grants.iter().map(grant_json).collect();
        }
        for tool in &brain.sensitive {
            agent["tool_attrs"][tool] = json!({"sensitive": true});
        }
        for tool in &brain.tools {
            match tool.as_str() {
                "read_file" => agent["read_file"] = json!({"root": ground.root()}),
                "http_fetch" => agent[tool] = cage_json(&brain.cages.http_fetch),
                "webhook_call" => agent[tool] = cage_json(&brain.cages.webhook_call),
                "memory_note" => agent["memory"] = json!({"max_notes": 5}),
                _ => {}
            }
        }
        json!({
            "name": BRAIN,
            "sensitivity": match brain.sensitivity {
                Sensitivity::Public => "public",
                Sensitivity::Private => "private",
            },
            "policy": {"kind": "priority"},
            "models": models_json(brain, self.shape, ground),
            "agent": agent,
        })
    }
}

fn grant_json(grant: &super::rules::Grant) -> Value {
    let mut out = json!({"tool": grant.tool, "mode": grant.mode.word()});
    if let Some(channels) = &grant.channels {
        out["channels"] = channels.iter().map(|channel| channel.word()).collect();
    }
    match grant.chats {
        Some(Chats::All) => out["chats"] = "all".into(),
        Some(Chats::Direct) => out["chats"] = "direct".into(),
        None => {}
    }
    out
}

fn cage_json(list: &[Entry]) -> Value {
    let hosts: Vec<String> = list.iter().map(Entry::text).collect();
    json!({"allow_hosts": hosts})
}

fn models_json(brain: &Brain, shape: Shape, ground: &Ground) -> Value {
    let models = brain.models.iter().map(|model| {
        let locality = match model.locality {
            Locality::Local => "local",
            Locality::Cloud => "cloud",
        };
        let lane = match shape {
            Shape::Native => "native",
            Shape::Text => "text",
        };
        let mut out = json!({
            "provider": model.provider,
            "model_id": model.model_id,
            "locality": locality,
            "base_url": ground.model_url,
            "tools": lane,
        });
        if model.provider == "groq" {
            out["api_key_env"] = API_KEY_ENV.into();
        }
        out
    });
    models.collect()
}

impl Entry {
    /// The entry as it stands in an allow list.
    pub fn text(&self) -> String {
        let host = spelled(&self.host, self.spelling);
        match self.port {
            Some(port) => format!("{host}:{port}"),
            // Brackets may be left out where no port follows.
            None if self.spelling == Spelling::Groups => host.replace(['[', ']'], ""),
            None => host,
        }
    }
}

impl Url {
    /// The URL as the model writes it.
    pub fn text(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Ftp => "ftp",
        };
        let host = spelled(&self.host, self.spelling);
        let port = self
            .port
            .map_or_else(String::new, |port| format!(":{port}"));
        format!("{scheme}://{host}{port}/hook?a=1")
    }
}

/// The host in that spelling, with the brackets of an IPv6 address.
fn spelled(host: &Host, spelling: Spelling) -> String {
    let plain = match host {
        Host::Name(name) => name.clone(),
        Host::Address(IpAddr::V4(v4)) => v4.to_string(),
        Host::Address(IpAddr::V6(v6)) => format!("[{v6}]"),
    };
    let number = |text: &dyn Fn([u8; 4]) -> String| match host {
        Host::Address(IpAddr::V4(v4)) => text(v4.octets()),
        _ => plain.clone(),
    };
    match spelling {
        Spelling::Plain => plain,
        Spelling::Capitals => plain.to_uppercase(),
        Spelling::Dot => plain + ".",
        Spelling::TwoDots => plain + "..",
        Spelling::Groups => match host {
            Host::Address(IpAddr::V6(v6)) => {
                let groups = v6.segments().map(|group| format!("{group:04x}"));
                format!("[{}]", groups.join(":"))
            }
            _ => plain,
        },
        Spelling::Login => format!("user:password@{plain}"),
        Spelling::Decoy => format!("{plain}@127.0.0.1"),
        Spelling::Longer => format!("{plain}.example.com"),
        Spelling::Percent => format!("%{:02x}{}", plain.as_bytes()[0], &plain[1..]),
        Spelling::Wide => {
            let first = char::from_u32(u32::from(plain.as_bytes()[0]) + 0xfee0).expect("a letter");
            format!("{first}{}", &plain[1..])
        }
        Spelling::Decimal => number(&|octets| u32::from_be_bytes(octets).to_string()),
        Spelling::Octal => number(&|[a, b, c, d]| format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}")),
        Spelling::Hex => number(&|[a, b, c, d]| format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}")),
        Spelling::Short => {
            number(&|[a, b, c, d]| format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d)))
        }
        Spelling::Zone => plain.replace(']', "%25eth0]"),
    }
}

impl Call {
    /// The arguments as the model gives them.
    pub fn arguments_json(&self, ground: &Ground) -> Value {
        match &self.arguments {
            Arguments::None => json!({}),
            Arguments::Text(name, text) => json!({*name: text}),
            Arguments::Path(target) => json!({"path": ground.path(*target)}),
            Arguments::Url(url) if self.tool == "webhook_call" => {
                json!({"url": url.text(), "body": {"device": "lamp", "state": "on"}})
            }
            Arguments::Url(url) => json!({"url": url.text()}),
        }
    }

    /// The call in the text protocol, dressed as small models dress it; `seed` picks how.
    pub fn text(&self, ground: &Ground, seed: u64) -> String {
        let (tool, arguments) = (&self.tool, self.arguments_json(ground));
        let plain = json!({"tool": tool, "arguments": arguments});
        match seed % 7 {
            0 => plain.to_string(),
            1 => format!("I will look that up.\n{plain}\nOne moment."),
            2 => format!("```json\n{plain}\n```"),
            3 => format!("<tool_call>{plain}</tool_call>"),
            4 => json!({"name": tool, "args": arguments}).to_string(),
            5 => json!({"tool": tool, "parameters": arguments}).to_string(),
            _ => format!("**Call:**\n\n{plain:#}"),
        }
    }
}
