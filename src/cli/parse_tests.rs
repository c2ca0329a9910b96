//! What is typed and what it comes to.

use std::path::PathBuf;

use super::*;
use crate::cli::command::{Chat, Chats, Check, Explain, Form, Reach, Serve, Status, Target};

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
