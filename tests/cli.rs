//! The command line as a person meets it: the real program, its exit codes, and which of its words
//! go to which stream.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::model::{ollama_shows, ModelServer, Reply};

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

/// The outcome of each try of a preflight, by its name.
fn preflight(
    folder: &Path,
    file: &str,
    vars: &[(&str, &str)],
) -> (Option<i32>, Vec<(String, Value)>) {
    let ran = Command::new(env!("CARGO_BIN_EXE_korvun"))
        .args(["config", "check", file, "--preflight", "--json"])
        .current_dir(folder)
        .env_clear()
        .envs(vars.iter().copied())
        .output()
        .unwrap();
    let value: Value = serde_json::from_slice(&ran.stdout).expect("one JSON value");
    let checks = value["checks"].as_array().unwrap().iter();
    let checks = checks.map(|check| (check["name"].as_str().unwrap().to_owned(), check.clone()));
    (ran.status.code(), checks.collect())
}

#[test]
fn a_preflight_tries_what_serve_would_need_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(|seen| match seen.json()["model"].as_str() {
        _ if !seen.is("POST /api/show") => Reply::Json(500, Value::Null),
        Some("m") => ollama_shows(8192),
        _ => Reply::Json(404, serde_json::json!({"error": "model 'gone' not found"})),
    });
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let dead = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let file = serde_json::json!({
        "channels": [{"type": "webhook", "token_env": "HOOK", "webhook": {
            "bind": free.to_string(), "outbound_url": "http://127.0.0.1:9/x"}}],
        "brains": [{"name": "casa", "sensitivity": "private", "policy": {"kind": "priority"}, "models": [
            {"provider": "ollama", "model_id": "m", "locality": "local", "base_url": model.url()},
            {"provider": "ollama", "model_id": "gone", "locality": "local", "base_url": model.url()},
            {"provider": "ollama", "model_id": "m", "locality": "local", "base_url": format!("http://{dead}")},
            {"provider": "groq", "model_id": "big", "locality": "cloud", "api_key_env": "GROQ"}]}],
        "routes": [{"channel": "webhook", "brain": "casa"}],
        "storage": {"path": "new/korvun.db"},
        "observability": {"addr": taken.local_addr().unwrap().to_string()},
    });
    fs::write(folder.path().join("korvun.json"), file.to_string()).unwrap();
    let secret = "preflight-secret-0123456789";
    let (code, checks) = preflight(folder.path(), "korvun.json", &[("HOOK", secret)]);
    let shown = format!("{checks:#?}");
    let of = |name: &str| -> Vec<&str> {
        let named = checks.iter().filter(|(known, _)| known.contains(name));
        named
            .map(|(_, check)| check["status"].as_str().unwrap())
            .collect()
    };
    assert_eq!(code, Some(1), "{shown}");
    assert_eq!(of("secret HOOK"), ["ok"], "{shown}");
    assert_eq!(of("ollama/m"), ["ok", "failed"], "{shown}");
    assert_eq!(of("ollama/gone"), ["failed"], "{shown}");
    assert_eq!(of("groq/big"), ["ok"], "{shown}");
    assert_eq!(of("storage"), ["ok"], "{shown}");
    assert_eq!(of("webhook.bind"), ["ok"], "{shown}");
    assert_eq!(of("observability.addr"), ["warn"], "{shown}");
    for (name, check) in &checks {
        let helped = !check["help"].as_str().unwrap().is_empty();
        assert_eq!(
            helped,
            check["status"] != "ok",
            "{name}: each failure has its cure"
        );
    }
    assert!(shown.contains("8192 tokens, can call tools"), "{shown}");
    assert!(!shown.contains(secret));
    assert!(
        model.seen().iter().all(|seen| seen.is("POST /api/show")),
        "no model is asked"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing was created"
    );

    // Without the secret that is named, it says so; and the check without preflight does not look.
    let (code, checks) = preflight(folder.path(), "korvun.json", &[]);
    let secret = checks.iter().find(|(name, _)| name == "secret HOOK");
    assert_eq!(code, Some(1));
    assert_eq!(secret.unwrap().1["status"], "failed");
    assert!(korvun(folder.path(), &["config", "check"]).status.success());

    // A file with errors is not tried at all.
    fs::write(folder.path().join("bad.json"), "{}").unwrap();
    let (code, checks) = preflight(folder.path(), "bad.json", &[]);
    assert_eq!((code, checks.len()), (Some(2), 0));
}

#[test]
fn a_preflight_looks_at_the_database_and_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(|_| ollama_shows(4096));
    let at = |name: &str| folder.path().join(name);
    for (name, content, status) in [
        ("mine", None, "ok"),
        (
            "text",
            Some("this is no database, it is a letter to a friend".repeat(40)),
            "failed",
        ),
    ] {
        let database = at(&format!("{name}.db"));
        match &content {
            Some(content) => fs::write(&database, content).unwrap(),
            None => {
                let clock: std::sync::Arc<dyn korvun::base::clock::Clock> =
                    std::sync::Arc::new(korvun::base::clock::SystemClock);
                let limits = korvun::domain::limits::Limits::default();
                let place = korvun::store::Place::File(database.clone());
                korvun::store::Store::open(&place, &limits, clock)
                    .unwrap()
                    .close();
            }
        }
        let before = fs::read(&database).unwrap();
        let file = GOOD
            .replace(
                "\"locality\": \"local\"",
                &format!("\"locality\": \"local\", \"base_url\": \"{}\"", model.url()),
            )
            .replacen(
                "\n}",
                &format!(",\n\"storage\": {{\"path\": \"{name}.db\"}}}}"),
                1,
            );
        fs::write(at("korvun.json"), file).unwrap();
        let secret = [("HOOK", "preflight-secret-0123456789")];
        let (_, checks) = preflight(folder.path(), "korvun.json", &secret);
        let storage = checks
            .iter()
            .find(|(known, _)| known.starts_with("storage"));
        assert_eq!(storage.unwrap().1["status"], status, "{checks:#?}");
        assert_eq!(fs::read(&database).unwrap(), before, "{name}");
    }
}
