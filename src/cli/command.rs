//! The closed set of things that can be asked for, and the one table of commands from which parsing
//! and help come.

use std::path::PathBuf;

use super::given::{Flag, Given, Usage};
use crate::base::text::nearest;

/// What can be asked for, with what was typed and nothing filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Help: of one command, or the list.
    Help(Option<&'static Entry>),
    /// The version.
    Version,
    /// Run the gateway.
    Serve(Serve),
    /// Check a configuration.
    Check(Check),
    /// Ask a running gateway how it is.
    Status(Status),
    /// Tell what the gate would decide.
    Explain(Explain),
    /// Talk to a brain.
    Chat(Chat),
    /// Show a message on its way.
    Demo,
}

/// `korvun serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serve {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// A file of `KEY=VALUE` lines with secrets.
    pub env_file: Option<PathBuf>,
}

/// `korvun config check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The configuration file.
    pub file: Option<PathBuf>,
    /// How far the check goes.
    pub reach: Reach,
    /// How the answer is written.
    pub form: Form,
    /// A file of `KEY=VALUE` lines with secrets; only a preflight reads it.
    pub env_file: Option<PathBuf>,
}

/// How far a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The file alone: no network, no secret.
    Offline,
    /// Secrets, providers, channels, store and ports as well.
    Preflight,
}

/// `korvun status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The configuration file that tells the address.
    pub config: Option<PathBuf>,
    /// The address itself.
    pub addr: Option<String>,
    /// How the answer is written.
    pub form: Form,
}

/// `korvun explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain {
    /// The brain.
    pub brain: String,
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The channel that a message would come from.
    pub channel: Option<String>,
    /// The kind of chat that it would be said in.
    pub chat: Option<Chats>,
    /// The one tool that is asked about.
    pub tool: Option<String>,
    /// What the tool would be called with.
    pub target: Option<Target>,
    /// How the answer is written.
    pub form: Form,
}

/// The kinds of chat of a chat platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chats {
    /// One person and the bot.
    Direct,
    /// Several people.
    Group,
}

/// What a tool would be called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address to fetch or to call.
    Url(String),
    /// A file to read.
    Path(String),
}

impl Target {
    /// The argument's name, of a tool and on the command line.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Target::Url(_) => "url",
            Target::Path(_) => "path",
        }
    }
}

/// `korvun chat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// The brain, with `/NAME` behind it for a conversation of its own.
    pub brain: Option<String>,
    /// The configuration file that tells address, token variable and brains.
    pub config: Option<PathBuf>,
    /// The address itself.
    pub addr: Option<String>,
    /// A file of `KEY=VALUE` lines with the token.
    pub env_file: Option<PathBuf>,
}

/// For whom an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A person.
    Text,
    /// A script: one JSON value.
    Json,
}

impl Form {
    fn of(given: &Given) -> Form {
        match given.has("json") {
            true => Form::Json,
            false => Form::Text,
        }
    }
}

/// One command of the table.
#[derive(Debug)]
pub struct Entry {
    /// The words typed for it.
    pub name: &'static str,
    /// What may follow it, as shown in help; empty where nothing may.
    pub operand: &'static str,
    /// The options that it takes.
    pub flags: &'static [Flag],
    /// One line for the list.
    pub summary: &'static str,
    /// What else there is to know; complete sentences.
    pub about: &'static str,
    /// What its words and options ask for.
    pub build: fn(Given) -> Result<Command, Usage>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

const CONFIG: Flag = Flag {
    name: "config",
    value: "FILE",
    summary: "the configuration file (default korvun.json)",
};
const ENV_FILE: Flag = Flag {
    name: "env-file",
    value: "FILE",
    summary: "KEY=VALUE lines with secrets, looked up after the environment",
};
const JSON: Flag = Flag {
    name: "json",
    value: "",
    summary: "answer with one JSON value, for scripts",
};
const PREFLIGHT: Flag = Flag {
    name: "preflight",
    value: "",
    summary: "also resolve secrets, reach providers and channels, try store and ports",
};
const ADDR: Flag = Flag {
    name: "addr",
    value: "HOST:PORT",
    summary: "the admin address (default: the configuration's)",
};

const CHANNEL: Flag = Flag {
    name: "channel",
    value: "CHANNEL",
    summary: "as for a message from this channel",
};
const CHAT: Flag = Flag {
    name: "chat",
    value: "direct|group",
    summary: "as for a message in this kind of chat",
};
const TOOL: Flag = Flag {
    name: "tool",
    value: "TOOL",
    summary: "this tool only",
};
const URL: Flag = Flag {
    name: "url",
    value: "URL",
    summary: "judge a call with this address",
};
const PATH: Flag = Flag {
    name: "path",
    value: "PATH",
    summary: "judge a call with this file",
};

/// Options that every command takes.
pub const EVERYWHERE: [Flag; 2] = [
    Flag {
        name: "no-color",
        value: "",
        summary: "never use colour",
    },
    Flag {
        name: "help",
        value: "",
        summary: "show this help (also -h)",
    },
];

/// Every command of this build.
pub static COMMANDS: [Entry; 8] = [
    Entry {
        name: "serve",
        operand: "",
        flags: &[CONFIG, ENV_FILE],
        summary: "run the gateway until it is asked to stop",
        about: "SIGTERM and SIGINT finish what is in work and stop; a second one stops at once. \
                Exit codes: 0 stopped as asked, 1 failed while running, 2 usage, \
                78 the configuration or a named secret is wrong or missing.",
        build: |mut given| {
            Ok(Command::Serve(Serve {
                config: given.path("config")?,
                env_file: given.path("env-file")?,
            }))
        },
    },
    Entry {
        name: "config check",
        operand: "[FILE]",
        flags: &[CONFIG, PREFLIGHT, ENV_FILE, JSON],
        summary: "find every problem of a configuration, without starting anything",
        about: "Offline unless --preflight is given: no network, no secret is read. \
                Exit codes: 0 no errors (warnings may be), 1 the preflight failed, \
                2 errors or no file.",
        build: |mut given| {
            let file = match (given.operand("file")?, given.path("config")?) {
                (Some(_), Some(_)) => {
                    return Err(Usage::new(
                        "the file is named twice",
                        "name it once, with or without --config",
                    ))
                }
                (operand, flag) => operand.map(PathBuf::from).or(flag),
            };
            Ok(Command::Check(Check {
                file,
                reach: match given.has("preflight") {
                    true => Reach::Preflight,
                    false => Reach::Offline,
                },
                form: Form::of(&given),
                env_file: given.path("env-file")?,
            }))
        },
    },
    Entry {
        name: "status",
        operand: "",
        flags: &[CONFIG, ADDR, JSON],
        summary: "show how a running gateway is: health, brains, channels",
        about: "Asks the admin server at the address that the configuration names. \
                Exit codes: 0 ready, 1 not ready or not reachable, 2 usage.",
        build: |mut given| {
            Ok(Command::Status(Status {
                config: given.path("config")?,
                addr: given.text("addr")?,
                form: Form::of(&given),
            }))
        },
    },
    Entry {
        name: "chat",
        operand: "[BRAIN[/NAME]]",
        flags: &[CONFIG, ADDR, ENV_FILE],
        summary: "talk to a brain of a running gateway, on the console channel",
        about: "Reads a line and writes the answer; the end of input and Ctrl-C end it. Without a \
                brain, the one that the console's route names, else the first. The admin token \
                comes from the variable that the configuration names, from --env-file, or from a \
                prompt. Exit codes: 0 ended, 1 no answer could be had, 2 usage.",
        build: |mut given| {
            Ok(Command::Chat(Chat {
                brain: given.word("brain")?,
                config: given.path("config")?,
                addr: given.text("addr")?,
                env_file: given.path("env-file")?,
            }))
        },
    },
    Entry {
        name: "explain",
        operand: "BRAIN",
        flags: &[CONFIG, CHANNEL, CHAT, TOOL, URL, PATH, JSON],
        summary: "tell what the gate decides about a brain's tools, and by which rule",
        about:
            "Offline: nothing is executed, opened or looked up. Without --channel or --chat the \
                limits by channel and chat are told and restrict nothing. Exit codes: 0 also when \
                the tool would be denied, 2 usage, or errors in the configuration.",
        build: |mut given| {
            let chat = match given.text("chat")?.as_deref() {
                None => None,
                Some("direct") => Some(Chats::Direct),
                Some("group") => Some(Chats::Group),
                Some(other) => {
                    return Err(Usage::new(
                        format!("--chat `{other}`"),
                        "it is `direct` or `group`",
                    ))
                }
            };
            let target = match (given.text("url")?, given.text("path")?) {
                (Some(_), Some(_)) => {
                    return Err(Usage::new(
                        "--url and --path at once",
                        "a tool takes one or the other",
                    ))
                }
                (Some(url), None) => Some(Target::Url(url)),
                (None, path) => path.map(Target::Path),
            };
            Ok(Command::Explain(Explain {
                brain: given.word("brain")?.ok_or_else(|| {
                    Usage::new(
                        "`explain` needs a brain",
                        "name one of the configuration's brains",
                    )
                })?,
                config: given.path("config")?,
                channel: given.text("channel")?,
                chat,
                tool: given.text("tool")?,
                target,
                form: Form::of(&given),
            }))
        },
    },
    Entry {
        name: "demo",
        operand: "",
        flags: &[],
        summary: "run a whole gateway in a temporary folder and show a message's way",
        about: "Uses the models of an Ollama on this machine where one answers, else a small \
                scripted model, and says which. Nothing is left behind.",
        build: |_| Ok(Command::Demo),
    },
    Entry {
        name: "version",
        operand: "",
        flags: &[],
        summary: "show the version",
        about: "",
        build: |_| Ok(Command::Version),
    },
    Entry {
        name: "help",
        operand: "[COMMAND]",
        flags: &[],
        summary: "show this list, or how one command is used",
        about: "",
        build: |given| Ok(Command::Help(named(&given.shown())?)),
    },
];

/// Commands that Korvun has, but not this build of it.
const LATER: [&str; 3] = ["reload", "backup", "restore"];

/// The command that these words name, and nothing more; `None` where there are none.
fn named(words: &[String]) -> Result<Option<&'static Entry>, Usage> {
    if words.is_empty() {
        return Ok(None);
    }
    let (entry, used) = find(words)?;
    match words.get(used) {
        Some(more) => Err(Usage::new(
            format!("`{more}` is one word too many"),
            "`korvun help` lists all commands",
        )),
        None => Ok(Some(entry)),
    }
}

/// The command that these words begin with, and how many of them name it.
///
/// # Errors
/// [`Usage`], with the nearest real name.
pub fn find(words: &[String]) -> Result<(&'static Entry, usize), Usage> {
    for entry in &COMMANDS {
        let name: Vec<&str> = entry.name.split(' ').collect();
        if words.len() >= name.len() && words.iter().zip(&name).all(|(a, b)| a == b) {
            return Ok((entry, name.len()));
        }
    }
    let first = words.first().map(String::as_str).unwrap_or_default();
    if LATER.contains(&first) {
        return Err(Usage::new(
            format!("`{first}`: this build does not have it yet"),
            "`korvun help` lists what it has",
        ));
    }
    if first == "config" {
        let problem = match words.get(1) {
            Some(second) => format!("unknown command `config {second}`"),
            None => "`config` alone asks for nothing".to_owned(),
        };
        return Err(Usage::new(problem, "did you mean `config check`?"));
    }
    // The first words of two-word commands are candidates too.
    let near = nearest(
        first,
        COMMANDS
            .iter()
            .map(|entry| entry.name)
            .chain(["config"])
            .chain(LATER),
    );
    Err(Usage::new(
        format!("unknown command `{first}`"),
        match near {
            Some(near) => format!("did you mean `{near}`? `korvun help` lists all commands"),
            None => "`korvun help` lists all commands".to_owned(),
        },
    ))
}
