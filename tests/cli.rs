//! The command line as a person meets it: the real program, its exit codes, and which of its words
//! go to which stream.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A run of the program, with nothing of this machine's surroundings but what is given.
fn korvun(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_korvun"))
        .args(args)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

const GOOD: &str = r#"{
  "channels": [{"type": "webhook", "token_env": "HOOK", "webhook": {"outbound_url": "http://127.0.0.1:9/x"}}],
  "brains": [{"name": "casa", "sensitivity": "private", "policy": {"kind": "priority"},
    "models": [{"provider": "ollama", "model_id": "m", "locality": "local"}]}],
  "routes": [{"channel": "webhook", "brain": "casa"}]
}"#;

#[test]
fn answers_go_to_standard_output_and_complaints_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    for (args, code, out, err) in [
        (&[][..], 0, "usage: korvun COMMAND", ""),
        (&["help"], 0, "config check [FILE]", ""),
        (
            &["help", "serve"],
            0,
            "usage: korvun serve [--config FILE]",
            "",
        ),
        (&["config", "check", "--help"], 0, "--preflight", ""),
        (
            &["version"],
            0,
            concat!("korvun ", env!("CARGO_PKG_VERSION"), "\n"),
            "",
        ),
        (&["--version"], 0, "korvun ", ""),
        (&["srve"], 2, "", "did you mean `serve`?"),
        (&["serve", "--json"], 2, "", "`serve` takes no --json"),
        (&["backup", "x"], 2, "", "this build does not have it yet"),
        (&["-x"], 2, "", "unknown option `-x`"),
        (
            &["\u{1b}[2J\u{202e}"],
            2,
            "",
            "unknown command `\\u{1b}[2J\\u{202e}`",
        ),
    ] {
        let ran = korvun(folder.path(), args);
        let (stdout, stderr) = (text(&ran.stdout), text(&ran.stderr));
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {stdout}{stderr}");
        assert!(
            stdout.contains(out) && (stdout.is_empty() == out.is_empty()),
            "{args:?}: {stdout}"
        );
        assert!(
            stderr.contains(err) && (stderr.is_empty() == err.is_empty()),
            "{args:?}: {stderr}"
        );
        assert!(
            !(stdout + &stderr).contains('\u{1b}'),
            "{args:?}: no colour without a terminal"
        );
    }
}

#[test]
fn arguments_that_are_no_text_are_told() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"\xff\x1b");
    let ran = Command::new(env!("CARGO_BIN_EXE_korvun"))
        .arg(odd)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(!text(&ran.stderr).contains('\u{1b}'));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_korvun"))
        .arg("help")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = child.wait_with_output().unwrap();
    assert_eq!(text(&ran.stderr), "");
    assert_eq!(ran.status.code(), Some(0));
}

#[test]
fn config_check_finds_everything_offline_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("korvun.json", GOOD);
    write(
        "bad.json",
        &GOOD
            .replace("\"private\"", "\"secret\"")
            .replace("\"brain\":", "\"brian\":"),
    );
    write(
        "odd.json",
        &GOOD.replace(
            "http://127.0.0.1:9/x",
            "http://127.0.0.1:9/x\", \"bind\": \"0.0.0.0:8090",
        ),
    );

    for (args, code, expected) in [
        (&["config", "check"][..], 0, "korvun.json: good\n"),
        (
            &["config", "check", "korvun.json"],
            0,
            "korvun.json: good\n",
        ),
        (
            &["config", "check", "--config", "korvun.json"],
            0,
            "korvun.json: good\n",
        ),
        (
            &["config", "check", "odd.json"],
            0,
            "odd.json: good, 1 warning\n",
        ),
        (
            &["config", "check", "bad.json"],
            2,
            "bad.json: cannot run, ",
        ),
        (
            &["config", "check", "none.json"],
            2,
            "none.json: cannot run, 1 error\n",
        ),
    ] {
        let ran = korvun(folder.path(), args);
        let stdout = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {stdout}");
        assert!(stdout.contains(expected), "{args:?}: {stdout}");
        assert_eq!(text(&ran.stderr), "", "{args:?}");
    }
    let ran = korvun(folder.path(), &["config", "check", "bad.json"]);
    let stdout = text(&ran.stdout);
    assert!(
        stdout.contains("bad.json:3:") && stdout.contains("`brain`"),
        "{stdout}"
    );

    let ran = korvun(folder.path(), &["config", "check", "bad.json", "--json"]);
    let value: Value = serde_json::from_slice(&ran.stdout).expect("one JSON value");
    assert_eq!(ran.status.code(), Some(2));
    assert_eq!(value["file"], "bad.json");
    assert_eq!(value["ok"], false);
    assert_eq!(value["checks"], serde_json::json!([]));
    let problems = value["problems"].as_array().unwrap();
    assert!(problems.len() >= 2, "{problems:?}");
    for problem in problems {
        for key in ["severity", "path", "line", "column", "message", "help"] {
            assert!(problem.get(key).is_some(), "{problem}");
        }
    }
    let ran = korvun(folder.path(), &["config", "check", "none.json", "--json"]);
    let value: Value = serde_json::from_slice(&ran.stdout).expect("one JSON value");
    assert_eq!(value["problems"][0]["line"], 0);
    assert_eq!(value["problems"][0]["path"], "");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        3,
        "nothing was created"
    );
}

/// A server that gives each request the answer for its path, then closes.
fn admin(answers: Vec<(&'static str, u16, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let none = ("", 404, String::new());
            let (_, status, body) = answers
                .iter()
                .find(|(known, ..)| *known == path)
                .unwrap_or(&none);
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
    addr
}

fn answers(status: u16, ready: bool) -> Vec<(&'static str, u16, String)> {
    let components = format!(
        "{{\"ready\":{ready},\"components\":{{\"store\":{{\"ok\":{ready},\"durable\":true}}}}}}"
    );
    let brains = r#"[{"name":"casa","sensitivity":"private","dispatch":"fanout","policy":{"kind":"priority","order":[]},"models":[{"provider":"ollama","model_id":"m","locality":"local","tools":"unknown","state":"ok"}],"dropped":[],"agent":null}]"#;
    let channels = r#"[{"type":"webhook","name":"webhook","mode":null,"state":"connected","since":"2026-11-30T00:00:00.000Z","last_error":"a\u001b[2Jb","counts":{"received":1}}]"#;
    vec![
        ("/readyz", status, components),
        ("/api/brains", 200, brains.to_owned()),
        ("/api/channels", 200, channels.to_owned()),
    ]
}

#[test]
fn status_asks_the_address_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let addr = admin(answers(200, true));
    let block = format!(", \"observability\": {{\"addr\": \"{addr}\"}}\n}}");
    fs::write(
        folder.path().join("korvun.json"),
        GOOD.replacen("\n}", &block, 1),
    )
    .unwrap();
    let ran = korvun(folder.path(), &["status"]);
    let stdout = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{stdout}{}", text(&ran.stderr));
    assert!(
        stdout.contains(&format!("Korvun at {addr}: ready")),
        "{stdout}"
    );
    assert!(
        stdout.contains("ollama/m  local  ok") && stdout.contains("received 1"),
        "{stdout}"
    );
    assert!(stdout.contains("a\\u{1b}[2Jb"), "{stdout}");

    let ran = korvun(folder.path(), &["status", "--json"]);
    let value: Value = serde_json::from_slice(&ran.stdout).expect("one JSON value");
    assert_eq!(value["ready"], true);
    assert_eq!(value["brains"][0]["name"], "casa");
}

#[test]
fn status_fails_when_there_is_nothing_well_to_show() {
    let folder = tempfile::tempdir().unwrap();
    let unready = admin(answers(503, false));
    let alien = admin(vec![("/readyz", 200, "<html>".to_owned())]);
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    for (addr, expected) in [
        (unready.as_str(), "not ready"),
        (&alien, "no JSON"),
        (&closed, "not reachable"),
        ("no address", "no address"),
    ] {
        let ran = korvun(folder.path(), &["status", "--addr", addr]);
        let stdout = text(&ran.stdout);
        assert_eq!(ran.status.code(), Some(1), "{addr}: {stdout}");
        assert!(stdout.contains(expected), "{addr}: {stdout}");
        let ran = korvun(folder.path(), &["status", "--json", "--addr", addr]);
        let value: Value = serde_json::from_slice(&ran.stdout).expect("one JSON value");
        assert_eq!(value["ready"], false);
    }
    fs::write(folder.path().join("broken.json"), "{").unwrap();
    let ran = korvun(folder.path(), &["status", "--config", "broken.json"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        text(&ran.stdout).contains("broken.json has errors"),
        "{}",
        text(&ran.stdout)
    );
}
