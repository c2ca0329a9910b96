//! What was typed: one table of commands from which parsing and help come, and the closed set of
//! things that can be asked for. Pure: reads no file, no environment, prints nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::Arg;

use super::style::Wish;
use crate::base::text::{nearest, printable};

/// A command line that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// What is asked for.
    pub command: Command,
    /// Whether colour was switched off.
    pub colour: Wish,
}

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
    build: fn(Given) -> Result<Command, Usage>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.name == other.name
    }
}

impl Eq for Entry {}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name without dashes.
    pub name: &'static str,
    /// What its value is called; empty where it takes none.
    pub value: &'static str,
    /// One line for help.
    pub summary: &'static str,
}

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
                form: given.form(),
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
                form: given.form(),
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
                form: given.form(),
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
        build: |mut given| Ok(Command::Help(given.command()?)),
    },
];

/// Commands that Korvun has, but not this build of it.
const LATER: [&str; 3] = ["reload", "backup", "restore"];

/// A command line that makes no sense, and what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is wrong; no control characters.
    pub problem: String,
    /// What would help; no control characters.
    pub help: String,
}

impl Usage {
    fn new(problem: impl AsRef<str>, help: impl AsRef<str>) -> Usage {
        Usage {
            problem: printable(problem.as_ref()),
            help: printable(help.as_ref()),
        }
    }
}

/// The words and options of a command line.
#[derive(Debug, Default)]
struct Given {
    words: Vec<OsString>,
    flags: Vec<(&'static Flag, Option<OsString>)>,
}

impl Given {
    fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(flag, _)| flag.name == name)
    }

    fn form(&self) -> Form {
        match self.has("json") {
            true => Form::Json,
            false => Form::Text,
        }
    }

    fn value(&mut self, name: &str) -> Result<Option<OsString>, Usage> {
        let mut values = self.flags.iter().filter(|(flag, _)| flag.name == name);
        let first = values.next();
        if values.next().is_some() {
            return Err(Usage::new(
                format!("--{name} is given twice"),
                "give it once",
            ));
        }
        match first.and_then(|(_, value)| value.clone()) {
            Some(value) if value.is_empty() => Err(Usage::new(
                format!("--{name} is empty"),
                "leave it out, or give it a value",
            )),
            value => Ok(value),
        }
    }

    fn path(&mut self, name: &str) -> Result<Option<PathBuf>, Usage> {
        Ok(self.value(name)?.map(PathBuf::from))
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Usage> {
        self.value(name)?
            .map(|value| {
                value.into_string().map_err(|value| {
                    let shown = value.to_string_lossy().into_owned();
                    Usage::new(format!("--{name} `{shown}` is not UTF-8"), "type it anew")
                })
            })
            .transpose()
    }

    /// The one word behind the command, which names a `what`.
    fn operand(&mut self, what: &str) -> Result<Option<OsString>, Usage> {
        if let Some(more) = self.words.get(1) {
            let shown = more.to_string_lossy().into_owned();
            return Err(Usage::new(
                format!("`{shown}` is one word too many"),
                format!("name one {what}"),
            ));
        }
        match self.words.pop() {
            Some(word) if word.is_empty() => Err(Usage::new(
                format!("the {what}'s name is empty"),
                format!("leave it out, or name a {what}"),
            )),
            word => Ok(word),
        }
    }

    /// The same as a text.
    fn word(&mut self, what: &str) -> Result<Option<String>, Usage> {
        let word = self.operand(what)?;
        word.map(|word| {
            word.into_string().map_err(|word| {
                let shown = word.to_string_lossy().into_owned();
                Usage::new(format!("`{shown}` is not UTF-8"), "type it anew")
            })
        })
        .transpose()
    }

    /// The words as the name of a command, for `help`.
    fn command(&mut self) -> Result<Option<&'static Entry>, Usage> {
        let words: Vec<String> = shown(&self.words);
        match words.as_slice() {
            [] => Ok(None),
            words => {
                let (entry, used) = find(words)?;
                match words.get(used) {
                    Some(more) => Err(Usage::new(
                        format!("`{more}` is one word too many"),
                        "`korvun help` lists all commands",
                    )),
                    None => Ok(Some(entry)),
                }
            }
        }
    }
}

fn shown(words: &[OsString]) -> Vec<String> {
    words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Reads a command line; the program's own name is not part of `args`.
///
/// # Errors
/// [`Usage`], with the nearest real name where one was mistyped.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Typed, Usage> {
    let mut given = read(args)?;
    let colour = match given.has("no-color") {
        true => Wish::Plain,
        false => Wish::Auto,
    };
    let wants_help = given.has("help");
    given.flags.retain(|(flag, _)| !EVERYWHERE.contains(flag));
    let words = shown(&given.words);
    let entry = match words.as_slice() {
        [] if wants_help || given.flags.is_empty() => {
            let command = Command::Help(None);
            return Ok(Typed { command, colour });
        }
        // Options without a command belong to `serve`, as in `korvun --config FILE`.
        [] => &COMMANDS[0],
        words => {
            let (entry, used) = find(words)?;
            given.words.drain(..used);
            entry
        }
    };
    if wants_help {
        let command = Command::Help(Some(entry));
        return Ok(Typed { command, colour });
    }
    if let Some((flag, _)) = given
        .flags
        .iter()
        .find(|(flag, _)| !entry.flags.contains(flag))
    {
        return Err(Usage::new(
            format!("`{}` takes no --{}", entry.name, flag.name),
            format!("`korvun help {}` lists what it takes", entry.name),
        ));
    }
    if let (true, Some(word)) = (entry.operand.is_empty(), given.words.first()) {
        return Err(Usage::new(
            format!("`{}` is one word too many", word.to_string_lossy()),
            format!("`korvun help {}` shows how it is used", entry.name),
        ));
    }
    let command = (entry.build)(given)?;
    Ok(Typed { command, colour })
}

/// Sorts a command line into words and options.
fn read(args: impl IntoIterator<Item = OsString>) -> Result<Given, Usage> {
    // The documented form `-config FILE` has a single dash.
    let args = args.into_iter().map(|arg| match arg.to_str() {
        Some(text) if text == "-config" || text.starts_with("-config=") => {
            OsString::from(format!("-{text}"))
        }
        _ => arg,
    });
    let mut parser = lexopt::Parser::from_args(args);
    let mut given = Given::default();
    loop {
        let name = match parser.next().map_err(usage)? {
            None => return Ok(given),
            Some(Arg::Value(word)) => {
                given.words.push(word);
                continue;
            }
            Some(Arg::Short('h')) => "help".to_owned(),
            Some(Arg::Short('V')) => {
                given.words.push("version".into());
                continue;
            }
            Some(Arg::Long("version")) => {
                given.words.push("version".into());
                continue;
            }
            Some(Arg::Short(letter)) => return Err(unknown_flag(&format!("-{letter}"), "")),
            Some(Arg::Long(name)) => name.to_owned(),
        };
        let Some(flag) = flags().find(|flag| flag.name == name) else {
            return Err(unknown_flag(&format!("--{name}"), &name));
        };
        let value = match flag.value {
            "" => None,
            _ => Some(parser.value().map_err(usage)?),
        };
        given.flags.push((flag, value));
    }
}

/// Every option of every command.
fn flags() -> impl Iterator<Item = &'static Flag> {
    COMMANDS
        .iter()
        .flat_map(|entry| entry.flags)
        .chain(&EVERYWHERE)
}

fn unknown_flag(typed: &str, name: &str) -> Usage {
    let near = nearest(name, flags().map(|flag| flag.name));
    Usage::new(
        format!("unknown option `{typed}`"),
        match near.filter(|_| !name.is_empty()) {
            Some(near) => format!("did you mean --{near}?"),
            None => "`korvun help COMMAND` lists the options of a command".to_owned(),
        },
    )
}

fn usage(error: lexopt::Error) -> Usage {
    Usage::new(error.to_string(), "`korvun help` lists all commands")
}

/// The command that these words begin with, and how many of them name it.
fn find(words: &[String]) -> Result<(&'static Entry, usize), Usage> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Typed, Usage> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn command(line: &str) -> Command {
        typed(line).expect(line).command
    }

    fn serve(config: Option<&str>, env_file: Option<&str>) -> Command {
        Command::Serve(Serve {
            config: config.map(PathBuf::from),
            env_file: env_file.map(PathBuf::from),
        })
    }

    #[test]
    fn what_is_typed_is_understood() {
        let check = |file: Option<&str>, reach, form| {
            Command::Check(Check {
                file: file.map(PathBuf::from),
                reach,
                form,
                env_file: None,
            })
        };
        let status = |config: Option<&str>, addr: Option<&str>, form| {
            Command::Status(Status {
                config: config.map(PathBuf::from),
                addr: addr.map(str::to_owned),
                form,
            })
        };
        let explain = |channel: Option<&str>, chat, target| {
            Command::Explain(Explain {
                brain: "casa".into(),
                config: None,
                channel: channel.map(str::to_owned),
                chat,
                tool: None,
                target,
                form: Form::Text,
            })
        };
        let entry = |name| COMMANDS.iter().find(|entry| entry.name == name);
        for (line, expected) in [
            ("", Command::Help(None)),
            ("--no-color", Command::Help(None)),
            ("help", Command::Help(None)),
            ("--help", Command::Help(None)),
            ("-h", Command::Help(None)),
            ("help serve", Command::Help(entry("serve"))),
            ("help config check", Command::Help(entry("config check"))),
            ("serve --help", Command::Help(entry("serve"))),
            ("config check -h", Command::Help(entry("config check"))),
            ("version", Command::Version),
            ("--version", Command::Version),
            ("-V", Command::Version),
            ("serve", serve(None, None)),
            ("serve --config a.json", serve(Some("a.json"), None)),
            ("--config a.json serve", serve(Some("a.json"), None)),
            (
                "serve --config=a.json --env-file e",
                serve(Some("a.json"), Some("e")),
            ),
            ("-config a.json", serve(Some("a.json"), None)),
            ("-config=a.json", serve(Some("a.json"), None)),
            ("--config a.json", serve(Some("a.json"), None)),
            ("serve -config a.json", serve(Some("a.json"), None)),
            ("config check", check(None, Reach::Offline, Form::Text)),
            (
                "config check a.json",
                check(Some("a.json"), Reach::Offline, Form::Text),
            ),
            (
                "config check --config a.json",
                check(Some("a.json"), Reach::Offline, Form::Text),
            ),
            (
                "config check a.json --preflight --json",
                check(Some("a.json"), Reach::Preflight, Form::Json),
            ),
            (
                "config check --json -- --odd",
                check(Some("--odd"), Reach::Offline, Form::Json),
            ),
            ("status", status(None, None, Form::Text)),
            (
                "status --json --addr h:1 --config c",
                status(Some("c"), Some("h:1"), Form::Json),
            ),
            ("demo", Command::Demo),
            ("chat", Command::Chat(Chat::default())),
            (
                "chat casa/kitchen --addr h:1 --env-file e --config c",
                Command::Chat(Chat {
                    brain: Some("casa/kitchen".into()),
                    config: Some("c".into()),
                    addr: Some("h:1".into()),
                    env_file: Some("e".into()),
                }),
            ),
            ("explain casa", explain(None, None, None)),
            (
                "explain casa --channel console --chat direct --url http://h/x",
                explain(
                    Some("console"),
                    Some(Chats::Direct),
                    Some(Target::Url("http://h/x".into())),
                ),
            ),
            (
                "explain --chat=group casa --path a/b",
                explain(None, Some(Chats::Group), Some(Target::Path("a/b".into()))),
            ),
        ] {
            assert_eq!(command(line), expected, "{line}");
        }
    }

    #[test]
    fn colour_can_be_switched_off_anywhere() {
        assert_eq!(
            typed("status --no-color").map(|t| t.colour),
            Ok(Wish::Plain)
        );
        assert_eq!(
            typed("--no-color status").map(|t| t.colour),
            Ok(Wish::Plain)
        );
        assert_eq!(typed("status").map(|t| t.colour), Ok(Wish::Auto));
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_would() {
        for (line, problem, help) in [
            ("serv", "unknown command `serv`", "did you mean `serve`?"),
            ("chekc", "unknown command `chekc`", "`korvun help` lists"),
            (
                "confg check",
                "unknown command `confg`",
                "did you mean `config`?",
            ),
            ("config", "`config` alone", "`config check`"),
            (
                "config chekc",
                "unknown command `config chekc`",
                "`config check`",
            ),
            (
                "help serv",
                "unknown command `serv`",
                "did you mean `serve`?",
            ),
            ("help serve now", "`now` is one word too many", ""),
            (
                "serve now",
                "`now` is one word too many",
                "korvun help serve",
            ),
            ("config check a b", "`b` is one word too many", ""),
            ("config check a --config b", "named twice", ""),
            (
                "serve --confg a",
                "unknown option `--confg`",
                "did you mean --config?",
            ),
            ("serve -x", "unknown option `-x`", ""),
            (
                "serve --json",
                "`serve` takes no --json",
                "korvun help serve",
            ),
            ("serve --config", "--config", ""),
            ("serve --config=", "--config is empty", ""),
            ("serve --config a --config b", "--config is given twice", ""),
            ("status --json=yes", "--json", ""),
            ("reload", "`reload`: this build does not have it yet", ""),
            (
                "help backup",
                "`backup`: this build does not have it yet",
                "",
            ),
            ("chat a b", "`b` is one word too many", "name one brain"),
            ("explain", "`explain` needs a brain", "brains"),
            (
                "explain a --chat both",
                "--chat `both`",
                "`direct` or `group`",
            ),
            ("explain a --url u --path p", "--url and --path at once", ""),
            (
                "restore --no-color",
                "`restore`: this build does not have it yet",
                "",
            ),
            ("\u{1b}[2J", "unknown command `\\u{1b}[2J`", ""),
        ] {
            let usage = typed(line).expect_err(line);
            assert!(usage.problem.contains(problem), "{line}: {usage:?}");
            assert!(usage.help.contains(help), "{line}: {usage:?}");
        }
    }

    #[test]
    fn the_table_describes_every_command_once() {
        for (n, entry) in COMMANDS.iter().enumerate() {
            assert!(
                !entry.summary.is_empty() && entry.summary.len() < 72,
                "{}",
                entry.name
            );
            assert!(COMMANDS[..n].iter().all(|other| other.name != entry.name));
        }
        assert_eq!(
            COMMANDS[0].name, "serve",
            "options without a command belong to it"
        );
    }
}
