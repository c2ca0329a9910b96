//! A real small model answers through the whole daemon, once in Ollama's shape and once in OpenAI's.
//! Opt-in by `make test-model`: elsewhere it says so and passes over.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::support::daemon::Daemon;
use crate::support::http::{self, Client};
use crate::support::rig;
use crate::support::sink::Sink;
use crate::support::site;

/// The folder that `tests/model/install` filled.
const FOLDER: &str = "KORVUN_TEST_MODEL";
/// What the server calls its model.
const MODEL: &str = "smollm2:135m";
/// A busy machine may take its time; nothing is measured against a clock here.
const PATIENCE: Duration = Duration::from_secs(300);

const PERSONA: &str = "Answer in one short sentence.";
const FIRST: &str = "What is the capital of Italy?";
/// No question at all without the first: asked alone, the model says something about a phrase.
const SECOND: &str = "And of Spain?";

/// A running `tests/model/server.mjs`; killed when dropped.
struct ModelServer {
    child: Child,
    addr: SocketAddr,
    load: Duration,
}

impl ModelServer {
    /// Blocks: until the model is loaded.
    fn start(folder: &OsStr) -> ModelServer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/server.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .arg(folder)
            .arg("0")
            // It ends with this pipe, so also when this test is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts (Node 20 or later runs the model)");
        let mut output = BufReader::new(child.stdout.take().expect("stdout"));
        let mut server = ModelServer {
            child,
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            load: Duration::ZERO,
        };
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            // Nobody listens any more where the server was too late.
            let _ = output.read_line(&mut line).map(|_| tell.send(line));
        });
        let line = told.recv_timeout(PATIENCE).expect("the model loads");
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the server is not ready ({error}): {line:?}"));
        let number = |key: &str| ready[key].as_u64().expect("a number");
        server
            .addr
            .set_port(u16::try_from(number("port")).expect("a port"));
        server.load = Duration::from_millis(number("load_ms"));
        server
    }

    /// What it was asked so far, oldest first.
    fn seen(&self) -> Vec<Value> {
        let ask = http::request("GET", "/seen", &self.addr.to_string(), &[], b"");
        let answer = Client::new(self.addr, PATIENCE)
            .send(&ask)
            .expect("/seen answers");
        serde_json::from_slice(&answer.body).expect("a list")
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Says both messages in one conversation, the second with `?wait=`; the two answers.
fn talk(daemon: &Daemon, sink: &Sink, shape: &str) -> [String; 2] {
    let mut poster = daemon.poster();
    let start = Instant::now();
    let accepted = poster.say(shape, FIRST, None).expect("accepted");
    let first = sink.reply_to(&accepted.id, PATIENCE).text().to_owned();
    println!("{shape}, posted after {:?}: {first:?}", start.elapsed());

    let start = Instant::now();
    let body = json!({"sender_id": "tester", "conversation_id": shape, "text": SECOND});
    let response = poster.post("?wait=60", None, &body).expect("a response");
    let told = response.json();
    let second = match response.status {
        200 => told["reply"]["text"].as_str().expect("a text").to_owned(),
        // Slower than the wait: then it is posted.
        202 => {
            let id = told["message_id"].as_str().expect("an id");
            sink.reply_to(id, PATIENCE).text().to_owned()
        }
        status => panic!("?wait= says {status}: {}", response.text()),
    };
    println!(
        "{shape}, ?wait= {} after {:?}: {second:?}",
        response.status,
        start.elapsed()
    );
    [first, second]
}

/// What was asked at `path` with messages; all of it succeeded, in the order in which it was said.
fn asked<'a>(seen: &'a [Value], path: &str) -> Vec<&'a Value> {
    let asked: Vec<&Value> = seen
        .iter()
        .filter(|one| one["path"] == path && one["body"]["messages"] != json!([]))
        .collect();
    for one in &asked {
        assert_eq!(one["status"], 200, "{one}");
        println!("{path}: the model took {} ms of it", one["ms"]);
    }
    asked
}

/// The messages of the two questions, when nothing but the model had a say in the answers.
fn dialogue(first_answer: &str) -> [Value; 2] {
    let system = json!({"role": "system", "content": PERSONA});
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = json!({"role": "assistant", "content": first_answer});
    [
        json!([system, user(FIRST)]),
        json!([system, user(FIRST), assistant, user(SECOND)]),
    ]
}

#[test]
fn a_real_model_answers_in_both_shapes_and_remembers() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return rig::missing("model", "`make test-model` asks a real one");
    };
    let model = ModelServer::start(&folder);
    println!("{MODEL} loaded in {:?}", model.load);
    let sink = Sink::start();
    let url = format!("http://{}", model.addr);
    let mut site = site(&url, &sink.url());
    let brain = |name: &str, model: Value| {
        json!({"name": name, "sensitivity": "private", "policy": {"kind": "priority"},
            "persona": {"instructions": PERSONA}, "models": [model]})
    };
    site.config["brains"] = json!([
        brain(
            "ollama",
            json!({"provider": "ollama", "model_id": MODEL, "locality": "local", "base_url": url,
                "warmup": true, "options": {"temperature": 0, "num_predict": 60}})
        ),
        brain(
            "openai",
            json!({"provider": "openai-compatible", "model_id": MODEL, "locality": "local",
                "base_url": format!("{url}/v1"), "options": {"temperature": 0, "max_tokens": 60}})
        ),
    ]);

    // The model tells 8192 tokens of context; Korvun asks for no more than Ollama's own 4096.
    let options = json!({"temperature": 0, "num_predict": 60, "num_ctx": 4096});
    for shape in ["ollama", "openai"] {
        site.config["routes"] = json!([{"channel": "webhook", "brain": shape}]);
        let daemon = site.start();
        let [first, second] = talk(&daemon, &sink, shape);
        daemon.stop();
        let seen = model.seen();
        let path = match shape {
            "ollama" => "/api/chat",
            _ => "/v1/chat/completions",
        };
        let asked = asked(&seen, path);
        let messages: Vec<&Value> = asked.iter().map(|one| &one["body"]["messages"]).collect();
        assert_eq!(messages, dialogue(&first).each_ref(), "{shape}");
        for one in asked {
            let body = &one["body"];
            assert_eq!(body["model"], MODEL);
            assert_eq!(body["stream"], false);
            match shape {
                "ollama" => assert_eq!(body["options"], options, "{body}"),
                _ => assert_eq!(
                    (&body["temperature"], &body["max_tokens"], &body["options"]),
                    (&json!(0), &json!(60), &Value::Null),
                    "{body}"
                ),
            }
        }
        // Both are all but certain even for a model of this size: the second only with the first in view.
        assert!(first.contains("Rome"), "{shape}: {first:?}");
        assert!(second.contains("Madrid"), "{shape}: {second:?}");
    }

    let seen = model.seen();
    // A private brain looks at the model before it tells it anything.
    assert_eq!(seen[0]["path"], "/api/show", "{}", seen[0]);
    // The warm-up loads the model with the context of the questions: another would load it anew.
    let warm_up = seen
        .iter()
        .find(|one| one["path"] == "/api/chat" && one["body"]["messages"] == json!([]))
        .expect("a warm-up");
    assert_eq!(warm_up["status"], 200, "{warm_up}");
    assert_eq!(warm_up["body"]["options"], options, "{warm_up}");
}
