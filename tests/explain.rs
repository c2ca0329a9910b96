//! `korvun explain`: the real program on configurations as people write them. It tells what the gate
//! and the cages decide and by which rule, touches nothing, and ends with 0 also where all is denied.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{json, Value};

/// A folder with the guide's brain `casa`, a public one and one that talks only.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("notes")).unwrap();
    let local = json!({"provider": "ollama", "model_id": "llama3.2", "locality": "local"});
    let cloud =
        json!({"provider": "groq", "model_id": "big", "locality": "cloud", "api_key_env": "KEY"});
    let config = json!({
        "channels": [
            {"type": "telegram", "mode": "polling", "token_env": "BOT", "allow_from": ["1"]},
            {"type": "webhook", "token_env": "HOOK", "webhook": {"outbound_url": "http://127.0.0.1:9/x"}}
        ],
        "brains": [
            {"name": "casa", "sensitivity": "private", "policy": {"kind": "priority"}, "models": [local],
             "agent": {
                "tools": ["time", "calc", "read_file", "webhook_call", "echo", "http_fetch"],
                "governance": [
                    {"tool": "time", "mode": "allow"},
                    {"tool": "calc", "mode": "deny"},
                    {"tool": "read_file", "mode": "allow", "channels": ["console"]},
                    {"tool": "webhook_call", "mode": "shadow"},
                    {"tool": "http_fetch", "mode": "allow", "chats": "direct"}
                ],
                "read_file": {"root": "notes"},
                "webhook_call": {"allow_hosts": ["192.168.1.20:5678", "93.184.216.34"]},
                "http_fetch": {"allow_hosts": ["n8n.example", "93.184.216.34"]}
             }},
            {"name": "office", "sensitivity": "public", "policy": {"kind": "priority"}, "models": [local, cloud],
             "agent": {"tools": ["echo", "read_file"], "governance": [
                {"tool": "echo", "mode": "allow"}, {"tool": "read_file", "mode": "allow"}],
                "read_file": {"root": "notes"}}},
            {"name": "talker", "sensitivity": "public", "policy": {"kind": "priority"}, "models": [local]}
        ],
        "routes": [{"channel": "webhook", "brain": "casa"}, {"channel": "telegram", "brain": "casa"}],
        "admin": {"token_env": "ADMIN"}
    });
    fs::write(folder.path().join("korvun.json"), config.to_string()).unwrap();
    folder
}

fn explain(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_korvun"))
        .arg("explain")
        .args(args)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What is told of each tool: decision and rule, and of the call its outcome and rule.
fn told(folder: &Path, line: &str) -> Value {
    let args: Vec<&str> = line.split(' ').chain(["--json"]).collect();
    let ran = explain(folder, &args);
    let err = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{line}: {err}");
    serde_json::from_slice(&ran.stdout).expect("JSON")
}

fn words(tools: &Value) -> Vec<String> {
    let tools = tools["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| {
            let mut out = format!("{} {}", plain(&tool["tool"]), plain(&tool["effective"]));
            let call = &tool["call"];
            let parts = [&tool["rule"], &call["outcome"], &call["rule"]];
            for part in parts.into_iter().filter(|part| !part.is_null()) {
                out.push(' ');
                out.push_str(&plain(part));
            }
            out
        })
        .collect()
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn each_decision_comes_with_its_rule() {
    let folder = folder();
    for (line, expected) in [
        (
            "casa",
            &[
                "time allow",
                "calc deny deny",
                "read_file allow",
                "webhook_call shadow",
                "echo deny not_granted",
                "http_fetch allow",
            ][..],
        ),
        (
            "casa --channel telegram --chat group",
            &[
                "time allow",
                "calc deny deny",
                "read_file deny channel",
                "webhook_call shadow",
                "echo deny not_granted",
                "http_fetch deny channel",
            ],
        ),
        (
            "casa --channel telegram --chat direct",
            &[
                "time allow",
                "calc deny deny",
                "read_file deny channel",
                "webhook_call shadow",
                "echo deny not_granted",
                "http_fetch allow",
            ],
        ),
        // A webhook is no direct chat; the console is one.
        (
            "casa --channel webhook --tool http_fetch",
            &["http_fetch deny channel"],
        ),
        (
            "casa --channel console --tool http_fetch",
            &["http_fetch allow"],
        ),
        (
            "casa --channel console --tool read_file",
            &["read_file allow"],
        ),
        (
            "office",
            &["echo allow", "read_file deny sensitive_locality"],
        ),
        ("casa --tool shell", &["shell deny unknown_tool"]),
        ("talker", &[]),
    ] {
        assert_eq!(words(&told(folder.path(), line)), expected, "{line}");
    }
    let whole = told(folder.path(), "casa --channel console --tool read_file");
    assert_eq!(
        whole,
        json!({
            "brain": "casa", "channel": "console", "chat": "direct", "governed": true, "shield": true,
            "tools": [{"tool": "read_file", "mode": "allow", "effective": "allow", "rule": null,
                "channels": ["console"], "chats": null, "sensitive": true, "network": false, "call": null}]
        })
    );
}

#[test]
fn the_cages_are_asked_about_a_call_and_nothing_is_touched() {
    let folder = folder();
    for (line, expected) in [
        (
            "casa --tool webhook_call --url http://192.168.1.20:5678/hook",
            "webhook_call shadow shadowed",
        ),
        (
            "casa --tool webhook_call --url http://192.168.1.20/hook",
            "webhook_call shadow shadowed cage",
        ),
        (
            "casa --tool webhook_call --url http://93.184.216.34/",
            "webhook_call shadow shadowed private_network_shield",
        ),
        (
            "casa --tool http_fetch --url http://93.184.216.34/",
            "http_fetch allow denied private_network_shield",
        ),
        (
            "casa --tool http_fetch --url http://n8n.example/x",
            "http_fetch allow ok",
        ),
        (
            "casa --tool http_fetch --url http://elsewhere.example/",
            "http_fetch allow denied cage",
        ),
        (
            "casa --tool http_fetch --url http://u:p@n8n.example/",
            "http_fetch allow denied cage",
        ),
        (
            "casa --tool read_file --path shopping.txt",
            "read_file allow ok",
        ),
        (
            "casa --tool read_file --path /etc/passwd",
            "read_file allow denied cage",
        ),
        (
            "casa --tool read_file --path ../korvun.json",
            "read_file allow denied cage",
        ),
        (
            "casa --tool read_file --channel telegram --path a",
            "read_file deny channel denied channel",
        ),
        (
            "office --tool read_file --path a",
            "read_file deny sensitive_locality denied sensitive_locality",
        ),
        ("casa --tool time --url http://n8n.example/", "time allow"),
        (
            "casa --tool shell --path a",
            "shell deny unknown_tool denied unknown_tool",
        ),
    ] {
        assert_eq!(words(&told(folder.path(), line)), [expected], "{line}");
    }
    // A root that is not there: not announced, by rule `cage`.
    fs::remove_dir(folder.path().join("notes")).unwrap();
    assert_eq!(
        words(&told(folder.path(), "casa --tool read_file")),
        ["read_file deny cage"]
    );
    // Nothing was made.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_person_reads_decision_reason_and_limits() {
    let folder = folder();
    let ran = explain(
        folder.path(),
        &[
            "casa",
            "--channel",
            "telegram",
            "--url",
            "http://192.168.1.20/x",
        ],
    );
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(
        String::from_utf8(ran.stdout).unwrap(),
        "casa, on telegram: governed; network shield: private addresses only\n\
         \x20 time: allow\n\
         \x20 calc: deny (deny: the grant denies it)\n\
         \x20 read_file: deny (channel: the grant does not cover this channel or kind of chat); only on console; sensitive, local models only\n\
         \x20 webhook_call: shadow (announced, never executed); reaches the network\n\
         \x20   this call: would be rehearsed, and refused by cage: this host and port are not on the list of those that may be reached\n\
         \x20 echo: deny (not_granted: the governance block has no grant for it)\n\
         \x20 http_fetch: allow; only in direct chats; reaches the network\n\
         \x20   this call: would be denied by cage: this host and port are not on the list of those that may be reached\n"
    );
}

#[test]
fn what_cannot_be_explained_is_told_with_what_would() {
    let folder = folder();
    for (line, problem, help) in [
        ("cas", "no brain `cas`", "`casa`"),
        ("nobody", "no brain `nobody`", "casa, office, talker"),
        (
            "casa --channel telegran",
            "no channel `telegran`",
            "`telegram`",
        ),
        (
            "casa --channel webhook --chat direct",
            "no such chats",
            "--chat",
        ),
        ("casa --config missing.json", "missing.json", "--config"),
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let ran = explain(folder.path(), &args);
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{line}");
        assert!(ran.stdout.is_empty(), "{line}");
        assert!(err.contains(problem) && err.contains(help), "{line}: {err}");
    }
}
