//! The flows of contrib/: whole, leading where the skill points; and, where Node-RED is, at work with
//! the tool `webhook_call` and with the webhook channel.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use korvun::domain::brain::Sensitivity;
use serde_json::{json, Value};

use super::{call, Bench};
use crate::support::daemon::WEBHOOK_TOKEN;
use crate::support::http::Client;
use crate::support::rig;
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;
use crate::support::site;

fn contrib(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("contrib")
        .join(path)
}

fn read(path: &str) -> Value {
    let text = fs::read_to_string(contrib(path)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn texts(list: &Value, key: &str) -> BTreeSet<String> {
    let items = list.as_array().expect("a list").iter();
    items
        .map(|item| item[key].as_str().expect("a text").to_owned())
        .collect()
}

/// Every text within a value.
fn leaves(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, out)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, out)),
        _ => {}
    }
}

#[test]
fn flows_are_whole_and_carry_no_secret() {
    let skill = fs::read_to_string(contrib("skills/home-automation/SKILL.md")).unwrap();
    for path in ["n8n/home-automation.json", "n8n/ask-korvun.json"] {
        let flow = read(path);
        let names = texts(&flow["nodes"], "name");
        assert_eq!(names.len(), 3, "{path}");
        for (from, to) in flow["connections"].as_object().expect("connections") {
            assert!(names.contains(from), "{path}: {from}");
            for next in to["main"][0].as_array().expect("ends") {
                assert!(
                    names.contains(next["node"].as_str().unwrap()),
                    "{path}: {next}"
                );
            }
        }
        assert_eq!(flow["active"], false, "{path}");
    }
    for path in ["node-red/home-automation.json", "node-red/ask-korvun.json"] {
        let flow = read(path);
        let ids = texts(&flow, "id");
        for node in flow.as_array().unwrap() {
            let mut wires = Vec::new();
            leaves(&node["wires"], &mut wires);
            assert!(wires.iter().all(|to| ids.contains(to)), "{path}: {node}");
        }
    }
    let n8n = read("n8n/home-automation.json");
    let red = read("node-red/home-automation.json");
    assert!(skill.contains(&format!(
        "/webhook/{}\n",
        n8n["nodes"][0]["parameters"]["path"].as_str().unwrap()
    )));
    assert!(skill.contains(&format!("{}\n", red[1]["url"].as_str().unwrap())));
    // What n8n exports with credentials names them under this key.
    for path in [
        "n8n/home-automation.json",
        "n8n/ask-korvun.json",
        "node-red/home-automation.json",
        "node-red/ask-korvun.json",
    ] {
        let text = fs::read_to_string(contrib(path)).unwrap();
        assert!(!text.contains("\"credentials\""), "{path}");
    }
}

/// A running Node-RED with both flows.
struct NodeRed {
    child: Child,
    addr: SocketAddr,
    _folder: tempfile::TempDir,
}

impl NodeRed {
    fn start(red: &Path, webhook: SocketAddr) -> NodeRed {
        let folder = tempfile::tempdir().unwrap();
        let mut flows = read("node-red/home-automation.json");
        let more = read("node-red/ask-korvun.json");
        flows
            .as_array_mut()
            .unwrap()
            .extend(more.as_array().unwrap().clone());
        fs::write(folder.path().join("flows.json"), flows.to_string()).unwrap();
        let addr = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let settings = "module.exports = { uiHost: '127.0.0.1', flowFile: 'flows.json', httpAdminRoot: false,\n\
             telemetry: { enabled: false, updateNotification: false }, logging: { console: { level: 'warn' } } };";
        fs::write(folder.path().join("settings.js"), settings).unwrap();
        let child = Command::new("node")
            .arg(red)
            .args(["--userDir", "."])
            .args(["--settings", "settings.js"])
            .args(["--port", &addr.port().to_string()])
            .current_dir(folder.path())
            .env("HOME", folder.path())
            .env("KORVUN_WEBHOOK_TOKEN", WEBHOOK_TOKEN)
            .env("KORVUN_WEBHOOK_URL", format!("http://{webhook}/webhook"))
            .stdin(Stdio::null())
            .spawn()
            .expect("node runs");
        NodeRed {
            child,
            addr,
            _folder: folder,
        }
    }
}

impl Drop for NodeRed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn node_red_receives_webhook_call_and_talks_to_the_webhook_channel() {
    let Some(folder) = std::env::var_os("KORVUN_NODE_RED") else {
        rig::missing(
            "node-red",
            "KORVUN_NODE_RED names no folder with it; `make test-node-red`",
        );
        return;
    };
    let red = PathBuf::from(folder).join("node_modules/node-red/red.js");
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let _daemon = site.start();
    let red = NodeRed::start(&red, site.webhook);
    let bench = Bench::reaching(Sensitivity::Private, &[&red.addr.to_string()]);
    let tool = bench.tool("webhook_call");
    let url = format!("http://{}/webhook/korvun", red.addr);
    let arguments = json!({"url": url, "body": {"device": "l\u{e1}mpara", "state": "on"}});
    let until = Instant::now() + Duration::from_secs(120);
    // Until it listens and its flows run.
    let answer = loop {
        match call(&*tool, arguments.clone()) {
            Ok(answer) => break answer,
            Err(fault) => assert!(Instant::now() < until, "{fault:?}"),
        }
        let _ = korvun::base::sync::Stop::new().wait(Duration::from_millis(200));
    };
    println!("Node-RED answered webhook_call: {answer}");
    for words in [
        "\"done\":true",
        "l\u{e1}mpara",
        "\"on\"",
        "\"key\":\"key-1\"",
    ] {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    let wrong = call(&*tool, json!({"url": url, "body": {"lamp": 1}})).expect_err("a 400");
    assert!(
        format!("{wrong:?}").contains("say device and state"),
        "{wrong:?}"
    );
    let question = json!({"text": "hello"}).to_string();
    let request = format!(
        "POST /ask HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{question}",
        red.addr,
        question.len()
    );
    let mut client = Client::new(red.addr, Duration::from_secs(60));
    let asked = client.send(request.as_bytes()).expect("an answer");
    println!("Node-RED asked Korvun: {asked:?}");
    assert!(
        String::from_utf8_lossy(&asked.body).contains(&echo("hello")),
        "{asked:?}"
    );
}
