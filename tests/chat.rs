//! `korvun chat` as a person meets it: the real program against the real gateway, through pipes and
//! on a terminal.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::daemon::{Site, ADMIN_TOKEN};
use crate::support::scripted::{Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

/// How long anything here may take on a busy box.
const PATIENCE: Duration = Duration::from_secs(60);

fn program(site: &Site, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_korvun"));
    command
        .arg("chat")
        .args(args)
        .current_dir(site.path())
        .env_clear()
        .env("T_ADMIN", ADMIN_TOKEN);
    command
}

/// What it comes to when `input` is all that is typed.
fn piped(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // A program that has ended reads nothing any more.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A gateway whose model answers each line with an echo.
fn echoing() -> (Model, Sink, Site) {
    let model = Model::start(|ask| Play::Say(format!("you said {}", ask.text)));
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    (model, sink, site)
}

#[test]
fn lines_in_answers_out_and_nothing_else() {
    let (_model, _sink, mut site) = echoing();
    let mut other = site.config["brains"][0].clone();
    other["name"] = json!("mi casa");
    site.config["brains"].as_array_mut().unwrap().push(other);
    let daemon = site.start();
    let ran = piped(&mut program(&site, &[]), b"one\n\n  \ntwo\r\nthree");
    assert_eq!(
        text(&ran.stderr),
        "",
        "no prompts and no decoration in a pipe"
    );
    assert_eq!(
        text(&ran.stdout),
        "you said one\nyou said two\nyou said three\n"
    );
    assert_eq!(ran.status.code(), Some(0));
    // A brain by name, with a conversation of its own; a command.
    let ran = piped(
        &mut program(&site, &["mi casa/cocina"]),
        "a\u{f1}o\n".as_bytes(),
    );
    assert_eq!(text(&ran.stdout), "you said a\u{f1}o\n");
    // A line that is too long or no text is told, and ends what no person types.
    for input in [vec![b'x'; 64 * 1024 + 1], b"\xff\xfe".to_vec()] {
        let ran = piped(&mut program(&site, &[]), &input);
        assert_eq!(ran.status.code(), Some(1));
        assert!(
            text(&ran.stderr).contains("this line is not sent"),
            "{ran:?}"
        );
    }
    drop(daemon);
}

#[test]
fn the_console_s_route_names_the_brain_where_nobody_does() {
    let model = Model::start(|ask| Play::Say(format!("{} here", ask.model)));
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    let mut other = site.config["brains"][0].clone();
    other["name"] = json!("second");
    other["models"][0]["model_id"] = json!("larger");
    site.config["brains"].as_array_mut().unwrap().push(other);
    let routes = site.config["routes"].as_array_mut().unwrap();
    routes.push(json!({"channel": "console", "brain": "second"}));
    let _daemon = site.start();
    let ran = piped(&mut program(&site, &[]), b"hi\n");
    assert_eq!(text(&ran.stdout), "larger here\n");
}

#[test]
fn what_a_model_says_is_shown_and_not_obeyed() {
    let model =
        Model::start(|_| Play::Say("first\n\u{1b}]0;owned\u{7}\n\tthird \u{202e}drow".into()));
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let _daemon = site.start();
    let ran = piped(&mut program(&site, &[]), b"hi\n");
    assert_eq!(
        text(&ran.stdout),
        "first\n\\u{1b}]0;owned\\u{7}\n    third \\u{202e}drow\n"
    );
}

#[test]
fn what_stands_in_the_way_is_told_with_its_cure() {
    let (_model, _sink, site) = echoing();
    let daemon = site.start();
    let run = |args: &[&str], token: Option<&str>| {
        let mut command = program(&site, args);
        command.env_remove("T_ADMIN");
        if let Some(token) = token {
            command.env("T_ADMIN", token);
        }
        // Without a terminal of its own it cannot ask for a token either.
        let mut alone = Command::new("setsid");
        alone
            .arg("--wait")
            .arg(command.get_program())
            .args(command.get_args());
        alone
            .current_dir(site.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                alone.env(name, value);
            }
        }
        let ran = piped(&mut alone, b"hi\n");
        assert_eq!(text(&ran.stdout), "");
        (ran.status.code(), text(&ran.stderr))
    };
    let wrong = Some("another-token-of-the-tests-0123456789");
    for (args, token, code, told, cure) in [
        (
            &[][..],
            wrong,
            1,
            "does not know this token",
            "T_ADMIN must have the value",
        ),
        (&[], None, 1, "T_ADMIN has no value", "set T_ADMIN"),
        (
            &["nobody"],
            Some(ADMIN_TOKEN),
            1,
            "no configured brain has this name",
            "`korvun status`",
        ),
        (
            &["--addr", "127.0.0.1:1"],
            Some(ADMIN_TOKEN),
            1,
            "127.0.0.1:1 is not reachable",
            "`korvun serve`",
        ),
        (
            &["--config", "missing.json"],
            Some(ADMIN_TOKEN),
            2,
            "missing.json",
            "--config",
        ),
        (
            &["--env-file", "missing.env"],
            None,
            1,
            "missing.env",
            "--env-file",
        ),
    ] {
        let (found, err) = run(args, token);
        assert_eq!(found, Some(code), "{args:?}: {err}");
        assert!(err.contains(told) && err.contains(cure), "{args:?}: {err}");
        assert!(!err.contains("another-token"), "{err}");
    }
    // A token from a file.
    std::fs::write(site.path().join("env"), format!("T_ADMIN={ADMIN_TOKEN}\n")).unwrap();
    let mut command = program(&site, &["--env-file", "env"]);
    let ran = piped(command.env_remove("T_ADMIN"), b"hi\n");
    assert_eq!(text(&ran.stdout), "you said hi\n", "{ran:?}");
    drop(daemon);
}

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    shown: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn start(site: &Site, token: Option<&str>) -> Terminal {
        let line = format!("exec '{}' chat --no-color", env!("CARGO_BIN_EXE_korvun"));
        let path: OsString = std::env::var_os("PATH").unwrap();
        let mut command = Command::new("script");
        // script(1) gives its command a terminal, and hands on what it is given.
        command
            .args([
                "--quiet",
                "--flush",
                "--return",
                "--command",
                &line,
                "/dev/null",
            ])
            .current_dir(site.path())
            .env_clear()
            .envs([
                ("PATH", path),
                ("TERM", "xterm".into()),
                ("SHELL", "/bin/sh".into()),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(token) = token {
            command.env("T_ADMIN", token);
        }
        let mut child = command.spawn().expect("script runs");
        let mut out = child.stdout.take().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read) = out.read(&mut bytes) {
                if read == 0 || send.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal {
            child,
            shown,
            seen: String::new(),
        }
    }

    fn type_in(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input
            .write_all(keys.as_bytes())
            .and_then(|()| input.flush())
            .expect("typed");
    }

    /// Waits until `words` are on the screen, behind what was waited for before.
    fn see(&mut self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(words) {
                let end = at + words.len();
                return self.seen.drain(..end).collect();
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{words:?} is not on the screen: {:?}", self.seen)
                }
            }
        }
    }

    fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(Instant::now() < until, "it does not end: {:?}", self.seen);
            while let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(50)) {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
            }
        };
        (code, std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn on_a_terminal_it_prompts_shows_that_a_slow_model_works_and_ends_by_ctrl_d() {
    let model = Model::start(|ask| match ask.text.as_str() {
        "slow" => Play::SayAfter(Duration::from_secs(4), "at last".into()),
        other => Play::Say(format!("you said {other}")),
    });
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let _daemon = site.start();
    let mut terminal = Terminal::start(&site, Some(ADMIN_TOKEN));
    terminal.see("Talking to main");
    terminal.see("> ");
    terminal.type_in("hello\n");
    terminal.see("you said hello");
    terminal.see("> ");
    terminal.type_in("slow\n");
    terminal.see("main is at work, ");
    terminal.see("at last");
    terminal.see("> ");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn ctrl_c_ends_it_also_while_a_model_works() {
    let model = Model::start(|_| Play::SayAfter(Duration::from_secs(30), "never seen".into()));
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let _daemon = site.start();
    let mut terminal = Terminal::start(&site, Some(ADMIN_TOKEN));
    terminal.see("> ");
    terminal.type_in("hello\n");
    terminal.see("main is at work");
    terminal.type_in("\u{3}");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("never seen"));
}

#[test]
fn a_token_is_asked_for_and_not_shown() {
    let (_model, _sink, site) = echoing();
    let _daemon = site.start();
    let mut terminal = Terminal::start(&site, None);
    let mut all = terminal.see("T_ADMIN (not shown): ");
    terminal.type_in("wrong beginning\u{15}");
    terminal.type_in(&format!("{ADMIN_TOKEN}x\u{7f}\n"));
    all += &terminal.see("> ");
    terminal.type_in("hi\n");
    all += &terminal.see("\nyou said hi");
    assert!(all.contains("> hi"), "what is said is shown: {all}");
    assert!(
        !all.contains(ADMIN_TOKEN) && !all.contains("wrong"),
        "{all}"
    );
    terminal.type_in("\u{4}");
    assert_eq!(terminal.end().0, Some(0));
    // Given up.
    let mut terminal = Terminal::start(&site, None);
    terminal.see("T_ADMIN (not shown): ");
    terminal.type_in("\u{3}");
    terminal.see("T_ADMIN has no value");
    assert_eq!(terminal.end().0, Some(1));
}

#[test]
fn the_gateway_s_read_only_side_has_no_console() {
    let (_model, _sink, mut site) = echoing();
    site.env.retain(|(name, _)| name != "T_ADMIN");
    let daemon = site.start();
    let ran = piped(&mut program(&site, &[]), b"hi\n");
    let err = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        err.contains("admin.token_env names a set variable"),
        "{err}"
    );
    drop(daemon);
}
