//! The admin server over real sockets: who is let in, what each path answers, and that nothing of
//! a hostile request gets behind the front.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use korvun::admin::server::{Admin, Options};
use korvun::admin::{
    AnswerView, Backend, BrainView, ChannelView, ConsoleMessage, ConsoleRefusal, Health,
    MessageView, ModelView, ToolSupport, ToolsView,
};
use korvun::base::clock::{Clock, UnixMs};
use korvun::base::secret::Secret;
use korvun::domain::brain::{
    Agent, Brain, Dispatch, Locality, Model, Persona, Policy, PolicyKind, Sensitivity, ToolLane,
};
use korvun::domain::ids::{BrainName, MessageId};
use korvun::domain::limits::Limits;
use korvun::domain::message::Language;
use korvun::watch::board::{ChannelHealth, ChannelState, Counts, ModelState};
use korvun::watch::metrics::{self, Metrics};

use crate::support::raw_http::{ask, Raw, Reply};

const TOKEN: &str = "an-admin-token-of-some-length";

/// A message of the operator as the backend got it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    id: String,
    text: String,
    key: Option<String>,
    language: Language,
}

/// A backend whose facts the test sets.
struct Desk {
    state: Mutex<ChannelState>,
    said: Mutex<Vec<Said>>,
}

impl Backend for Desk {
    fn brains(&self) -> Vec<BrainView> {
        vec![BrainView {
            brain: brain(),
            models: vec![
                ModelView {
                    tools: ToolSupport::Native,
                    state: ModelState::Ok,
                },
                ModelView {
                    tools: ToolSupport::Unknown,
                    state: ModelState::Unknown,
                },
            ],
        }]
    }

    fn channels(&self) -> Vec<ChannelView> {
        vec![ChannelView {
            name: "webhook".into(),
            mode: None,
            health: ChannelHealth {
                state: *self.state.lock().unwrap(),
                since: UnixMs(1_000),
                last_error: Some("a \"quoted\" one".to_owned()),
                counts: Counts {
                    received: 5,
                    ..Counts::default()
                },
            },
            queued: 2,
        }]
    }

    fn measure(&self) {}

    fn health(&self) -> Health {
        Health {
            store_ok: true,
            durable: true,
            disk_ok: true,
            free_bytes: Some(4096),
        }
    }

    fn console_message(&self, message: &ConsoleMessage) -> Result<MessageId, ConsoleRefusal> {
        match message.id {
            "full" => Err(ConsoleRefusal::Full),
            "broken" => Err(ConsoleRefusal::Store),
            "nobody" => Err(ConsoleRefusal::NoSuchBrain),
            _ => {
                let mut said = self.said.lock().unwrap();
                said.push(Said {
                    id: message.id.to_owned(),
                    text: message.text.to_owned(),
                    key: message.idempotency_key.map(str::to_owned),
                    language: message.language,
                });
                Ok(MessageId::new(&format!("m{}", said.len())))
            }
        }
    }

    fn message(&self, id: &MessageId) -> Result<Option<MessageView>, String> {
        match id.as_str() {
            "m1" => Ok(Some(MessageView {
                state: "answered",
                delivery: Some("sent"),
                answer: Some(AnswerView {
                    message_id: MessageId::new("m9"),
                    role: "assistant",
                    text: "Hi.".into(),
                }),
            })),
            "m2" => Ok(Some(MessageView {
                state: "queued",
                delivery: None,
                answer: None,
            })),
            "unreadable" => Err("the disk is gone".to_owned()),
            _ => Ok(None),
        }
    }

    fn tools(&self, _: &BrainName) -> Result<Option<ToolsView>, String> {
        Ok(None)
    }
}

/// A private brain of one local model and one that privacy drops.
fn brain() -> Brain {
    let model = |provider: &str, model_id: &str, locality| Model {
        provider: provider.into(),
        model_id: model_id.into(),
        locality,
        base_url: "http://127.0.0.1:11434".to_owned(),
        endpoint: "http://127.0.0.1:11434".into(),
        api_key_env: None,
        request_timeout: Duration::from_secs(60),
        max_retries: 0,
        warmup: false,
        options: serde_json::Map::new(),
        keep_alive: None,
        think: None,
        tools: ToolLane::Auto,
        parallel: 1,
        rank: 0,
    };
    Brain {
        name: "home".into(),
        sensitivity: Sensitivity::Private,
        dispatch: Dispatch::Sequential,
        policy: Some(Policy {
            kind: PolicyKind::Priority,
            order: vec!["qwen".to_owned()],
        }),
        models: vec![
            model("ollama", "qwen", Locality::Local),
            model("groq", "llama", Locality::Cloud),
        ],
        persona: Persona::default(),
        history_turns: 20,
        answer_timeout: Duration::from_secs(900),
        agent: Some(Agent {
            tools: vec!["time".to_owned()],
            max_iterations: 5,
            system_prompt: String::new(),
            governance: Some(Vec::new()),
            extra_sensitive: Vec::new(),
            read_file: None,
            http_fetch: None,
            webhook_call: None,
            memory: None,
            skills_dir: None,
            skills_body_budget: 8192,
        }),
    }
}

/// A clock that the test moves.
#[derive(Debug)]
struct HandClock {
    start: Instant,
    passed: Mutex<Duration>,
}

impl HandClock {
    fn pass(&self, span: Duration) {
        *self.passed.lock().unwrap() += span;
    }
}

impl Clock for HandClock {
    fn unix(&self) -> UnixMs {
        UnixMs(0).plus(*self.passed.lock().unwrap())
    }

    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap()
    }
}

struct Rig {
    admin: Option<Admin>,
    address: SocketAddr,
    desk: Arc<Desk>,
    clock: Arc<HandClock>,
    metrics: Metrics,
    folder: tempfile::TempDir,
}

impl Rig {
    fn new(token: Option<&str>) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        Rig::in_folder(token, folder)
    }

    fn in_folder(token: Option<&str>, folder: tempfile::TempDir) -> Rig {
        let desk = Arc::new(Desk {
            state: Mutex::new(ChannelState::Connected),
            said: Mutex::default(),
        });
        let clock = Arc::new(HandClock {
            start: Instant::now(),
            passed: Mutex::default(),
        });
        let metrics = Metrics::new();
        let options = Options {
            allow_hosts: vec!["korvun.lan".to_owned()],
            token: token.map(Secret::new),
            backend: Arc::clone(&desk) as _,
            metrics: metrics.clone(),
            clock: Arc::clone(&clock) as _,
            runtime_dir: Some(folder.path().to_owned()),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin = Admin::start(listener, options, &Limits::default()).unwrap();
        Rig {
            address: admin.local_addr(),
            admin: Some(admin),
            desk,
            clock,
            metrics,
            folder,
        }
    }

    fn ask(&self, line: &str, fields: &str, body: &str) -> Reply {
        let host = if fields.contains("Host:") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        ask(
            self.address,
            format!("{line} HTTP/1.1\r\n{host}{fields}{length}\r\n{body}"),
        )
    }

    fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), "", "")
    }

    fn say(&self, key: &str, fields: &str, body: &str) -> Reply {
        let line = format!("POST /api/conversations/{key}/message");
        let fields = format!("Authorization: Bearer {TOKEN}\r\n{fields}");
        self.ask(&line, &fields, body)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(admin) = self.admin.take() {
            admin.stop();
        }
    }
}

fn refused(reply: &Reply) -> (u16, String) {
    (reply.status, reply.code())
}

#[test]
fn the_open_paths_answer() {
    let rig = Rig::new(None);
    assert_eq!(rig.get("/healthz").text(), "ok");
    let brains = rig.get("/api/brains");
    assert_eq!(brains.status, 200);
    assert_eq!(brains.header("content-type"), Some("application/json"));
    assert_eq!(brains.header("connection"), Some("close"));
    assert_eq!(
        brains.json(),
        serde_json::json!([{
            "name": "home", "sensitivity": "private", "dispatch": "sequential",
            "policy": {"kind": "priority", "order": ["qwen"]},
            "models": [{"provider": "ollama", "model_id": "qwen", "locality": "local",
                        "tools": "native", "state": "ok"}],
            "dropped": [{"provider": "groq", "model_id": "llama", "reason": "cloud"}],
            "agent": {"tools": ["time"], "governed": true, "shield": true},
        }])
    );
    assert_eq!(
        rig.get("/api/channels").json(),
        serde_json::json!([{
            "type": "webhook", "name": "webhook", "mode": null, "state": "connected",
            "since": "1970-01-01T00:00:01.000Z", "last_error": "a \"quoted\" one",
            "counts": {"received": 5, "ignored": 0, "dropped": 0, "sent": 0, "failed": 0,
                       "queued": 2},
        }])
    );
    let ready = rig.get("/readyz?verbose");
    assert_eq!((ready.status, &ready.json()["ready"]), (200, &true.into()));
    *rig.desk.state.lock().unwrap() = ChannelState::Failed;
    let ready = rig.get("/readyz");
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &false.into()));
    assert_eq!(
        ready.json()["components"]["channel:webhook"]["state"],
        "failed"
    );
}

#[test]
fn every_answer_carries_the_security_headers() {
    let rig = Rig::new(Some(TOKEN));
    for path in ["/api/brains", "/metrics", "/nothing", "/api/messages/1"] {
        let reply = rig.get(path);
        let csp = reply.header("content-security-policy").unwrap();
        assert!(csp.contains("frame-ancestors 'none'") && !csp.contains("unsafe"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn only_hosts_of_this_server_are_answered() {
    let rig = Rig::new(None);
    for (host, status) in [
        ("localhost:2112", 200),
        ("127.0.0.1", 200),
        ("[::1]:1", 200),
        ("korvun.lan", 200),
        ("evil.example", 403),
        ("10.1.2.3", 403),
    ] {
        let fields = format!("Host: {host}\r\n");
        let reply = rig.ask("GET /api/brains", &fields, "");
        assert_eq!(reply.status, status, "{host}");
        if status == 403 {
            assert_eq!(reply.code(), "host_not_allowed");
            assert!(reply.text().contains("observability.allow_hosts"));
        }
        assert_eq!(rig.ask("GET /healthz", &fields, "").status, 200);
    }
}

#[test]
fn pages_of_other_origins_are_turned_away() {
    let rig = Rig::new(Some(TOKEN));
    for (fields, status) in [
        ("Origin: http://localhost\r\n", 202),
        ("Host: korvun.lan\r\nOrigin: https://korvun.lan\r\n", 202),
        ("Origin: null\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost:2112\r\n", 403),
        (
            "Origin: http://localhost\r\nOrigin: http://localhost\r\n",
            403,
        ),
    ] {
        let reply = rig.say("console::home", fields, r#"{"text":"hi"}"#);
        assert_eq!(reply.status, status, "{fields}");
        if status == 403 {
            assert_eq!(reply.code(), "foreign_origin");
        }
    }
}

#[test]
fn what_is_not_there_is_named() {
    let rig = Rig::new(Some(TOKEN));
    for path in [
        "/nothing",
        "/",
        "/ui/",
        "/api",
        "/api/brains/",
        "/api/events",
    ] {
        assert_eq!(refused(&rig.get(path)), (404, "not_found".to_owned()));
    }
    for (line, allow) in [
        ("POST /metrics", "GET, HEAD"),
        ("DELETE /api/brains", "GET, HEAD"),
        ("GET /api/conversations/console::home/message", "POST"),
    ] {
        let reply = rig.ask(line, "", "");
        assert_eq!(refused(&reply), (405, "method_not_allowed".to_owned()));
        assert_eq!(reply.header("allow"), Some(allow));
    }
    let mut raw = Raw::connect(rig.address);
    assert!(raw.send("HEAD /api/brains HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let reply = raw.reply_to("HEAD").unwrap();
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert!(raw.ended());
}

#[test]
fn without_a_token_the_write_surface_is_not_there() {
    let rig = Rig::new(None);
    let line = "POST /api/conversations/console::home/message";
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let reply = rig.ask(line, &bearer, r#"{"text":"hi"}"#);
    assert_eq!(refused(&reply), (404, "not_found".to_owned()));
    assert_eq!(rig.get("/api/messages/m1").status, 404);
}

#[test]
fn the_door_counts_wrong_tokens_and_never_delays_the_right_one() {
    let rig = Rig::new(Some(TOKEN));
    let ask = |fields: &str| rig.ask("GET /api/messages/m1", fields, "");
    let right = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(&right).status, 200);
    let failures = || {
        let text = rig.get("/metrics");
        let line = text
            .text()
            .lines()
            .find(|line| line.starts_with("korvun_admin_auth_failures_total "));
        line.unwrap().split(' ').nth(1).unwrap().to_owned()
    };
    for _ in 0..3 {
        let missing = ask("");
        assert_eq!(refused(&missing), (401, "unauthorized".to_owned()));
        assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(failures(), "0");
    for number in 0..10 {
        let wrong = match number % 3 {
            0 => format!("Authorization: Bearer {TOKEN}x\r\n"),
            1 => format!("Authorization: Basic {TOKEN}\r\n"),
            _ => format!("{right}{right}"),
        };
        let reply = ask(&wrong);
        assert_eq!(refused(&reply), (401, "unauthorized".to_owned()));
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    }
    let began = Instant::now();
    let reply = ask("Authorization: Bearer guess\r\n");
    assert_eq!(refused(&reply), (429, "too_many_failures".to_owned()));
    assert!(reply.header("retry-after").is_some());
    assert_eq!(ask(&right).status, 200);
    assert_eq!(ask("").status, 401);
    assert!(began.elapsed() < Duration::from_secs(1), "nothing sleeps");
    assert_eq!(failures(), "11");
    rig.clock.pass(Duration::from_secs(60));
    assert_eq!(ask("Authorization: Bearer guess\r\n").status, 401);
}

#[test]
fn a_console_message_is_taken_once_it_is_sound() {
    let rig = Rig::new(Some(TOKEN));
    let reply = rig.say(
        "console%3A%3Ami%20casa%2Fa%C3%B1o",
        "X-Idempotency-Key: once\r\nAccept-Language: es-AR,es;q=0.9,en;q=0.8\r\n",
        r#"{"text":"¿qué hora es?"}"#,
    );
    assert_eq!(
        (reply.status, reply.json()),
        (202, serde_json::json!({"message_id": "m1"}))
    );
    let expected = Said {
        id: "mi casa/a\u{f1}o".to_owned(),
        text: "¿qué hora es?".to_owned(),
        key: Some("once".to_owned()),
        language: Language::Es,
    };
    assert_eq!(*rig.desk.said.lock().unwrap(), [expected]);
    let most = Limits::default().text_bytes;
    let text = |text: &str| serde_json::json!({ "text": text }).to_string();
    let escaped = format!(r#"{{"text":"{}"}}"#, "\\u0041".repeat(most));
    assert_eq!(rig.say("console::home", "", &escaped).status, 202);
    let (long, huge) = ("x".repeat(most + 1), "\u{e9}".repeat(most * 4));
    let long_key = format!("X-Idempotency-Key: {}\r\n", "k".repeat(129));
    for (key, fields, body, status, code) in [
        ("telegram::5", "", text("hi"), 409, "not_console"),
        ("console::nobody", "", text("hi"), 404, "not_found"),
        ("console::full", "", text("hi"), 503, "busy"),
        ("console::broken", "", text("hi"), 503, "busy"),
        ("home", "", text("hi"), 404, "not_found"),
        ("console::home", "", text(""), 400, "missing_content"),
        ("console::home", "", text(" \n"), 400, "missing_content"),
        ("console::home", "", "{}".to_owned(), 400, "missing_content"),
        (
            "console::home",
            "",
            r#"{"text":5}"#.to_owned(),
            400,
            "invalid_value",
        ),
        (
            "console::home",
            "",
            r#"["text"]"#.to_owned(),
            400,
            "invalid_json",
        ),
        ("console::home", "", "{".to_owned(), 400, "invalid_json"),
        ("console::home", "", "[".repeat(5000), 400, "invalid_json"),
        ("console::home", "", text(&long), 413, "too_large"),
        ("console::home", "", text(&huge), 413, "too_large"),
        ("console::home", &long_key, text("hi"), 400, "invalid_key"),
        (
            "console::home",
            "X-Idempotency-Key:\r\n",
            text("hi"),
            400,
            "invalid_key",
        ),
        (
            "console::home",
            "X-Idempotency-Key: a\r\nX-Idempotency-Key: a\r\n",
            text("hi"),
            400,
            "invalid_key",
        ),
    ] {
        let reply = rig.say(key, fields, &body);
        assert_eq!(refused(&reply), (status, code.to_owned()), "{key} {fields}");
        if status == 503 {
            assert!(reply.header("retry-after").is_some());
        }
    }
    assert_eq!(rig.desk.said.lock().unwrap().len(), 2);
}

#[test]
fn a_message_tells_where_it_stands() {
    let rig = Rig::new(Some(TOKEN));
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let ask = |id: &str| rig.ask(&format!("GET /api/messages/{id}"), &bearer, "");
    assert_eq!(
        ask("m1").json(),
        serde_json::json!({
            "state": "answered", "delivery": "sent",
            "answer": {"message_id": "m9", "role": "assistant", "text": "Hi."},
        })
    );
    assert_eq!(
        ask("m2").json(),
        serde_json::json!({"state": "queued", "delivery": null, "answer": null})
    );
    assert_eq!(refused(&ask("m3")), (404, "not_found".to_owned()));
    assert_eq!(refused(&ask("unreadable")), (503, "unavailable".to_owned()));
}

#[test]
fn hostile_headers_change_nothing() {
    let rig = Rig::new(Some(TOKEN));
    let hostile = "X-Korvun-Peer: 203.0.113.1:1\r\nX-Korvun-Pass: guess\r\nTE: chunked\r\n\
        Upgrade: websocket\r\nConnection: upgrade, host, x-korvun-pass\r\nKeep-Alive: 5\r\n\
        Proxy-Authorization: Basic x\r\nAccept-Encoding: \u{fc}\r\nX-Bytes: \u{80}\u{ff}\r\n";
    let reply = rig.ask("GET /api/brains", hostile, "");
    assert_eq!(reply.status, 200);
    // Neither TE nor a large body makes tiny_http send chunks.
    assert!(reply.header("content-length").is_some());
    assert!(reply.header("transfer-encoding").is_none());
    assert_eq!(
        rig.say("console::home", hostile, r#"{"text":"hi"}"#).status,
        202
    );
    let mut raw = Raw::connect(rig.address);
    raw.send(
        "POST /api/conversations/console::home/message HTTP/1.1\r\nHost: localhost\r\n\
         Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\
         Host: localhost\r\n\r\n",
    );
    assert_eq!(raw.reply().unwrap().status, 400);
    assert!(raw.ended());
    let chunked = format!(
        "POST /api/conversations/console::home/message HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n\
         d\r\n{{\"text\":\"hey\"\r\n1\r\n}}\r\n0\r\n\r\n"
    );
    assert_eq!(ask(rig.address, chunked).status, 202);
    let last = rig.desk.said.lock().unwrap().last().cloned();
    assert_eq!(last.unwrap().text, "hey");
}

#[test]
fn many_at_once_are_all_answered() {
    let rig = Rig::new(None);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..10 {
                    assert_eq!(rig.get("/api/brains").status, 200);
                }
            });
        }
    });
}

#[test]
fn stale_sockets_are_removed_and_none_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let stale = folder.path().join("admin-stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let mut rig = Rig::in_folder(None, folder);
    assert!(!stale.exists());
    assert_eq!(std::fs::read_dir(rig.folder.path()).unwrap().count(), 1);
    assert_eq!(rig.get("/api/brains").status, 200);
    rig.admin.take().unwrap().stop();
    assert_eq!(std::fs::read_dir(rig.folder.path()).unwrap().count(), 0);
    assert!(std::net::TcpStream::connect(rig.address).is_err());
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let rig = Rig::new(None);
    rig.metrics
        .add(&metrics::DEDUPED, &["odd \"name\"\\ \n"], 7);
    rig.metrics.observe(
        &metrics::PROVIDER_DURATION,
        &["ollama", "qwen", "ok"],
        Duration::from_millis(1500),
    );
    let reply = rig.get("/metrics");
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let families = parse_exposition(reply.text());
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels: Vec<(String, String)> = labels
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        families
            .iter()
            .flat_map(|family| &family.samples)
            .find(|sample| sample.name == name && sample.labels == labels)
            .unwrap_or_else(|| panic!("no {name}"))
            .value
    };
    assert!(
        (value("korvun_deduped_total", &[("channel", "odd \"name\"\\ \n")]) - 7.0).abs() < 1e-9
    );
    let model = |bound| {
        [
            ("provider", "ollama"),
            ("model", "qwen"),
            ("outcome", "ok"),
            ("le", bound),
        ]
    };
    let bucket = "korvun_provider_request_duration_seconds_bucket";
    assert!(value(bucket, &model("1")).abs() < 1e-9);
    assert!((value(bucket, &model("600")) - 1.0).abs() < 1e-9);
    for name in [
        "korvun_runs_in_progress",
        "process_cpu_seconds_total",
        "korvun_admin_auth_failures_total",
    ] {
        assert!(value(name, &[]) >= 0.0);
    }
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(value(name, &[]) > 0.0, "{name}");
    }
}

struct Exposed {
    name: String,
    kind: String,
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Reads the text format strictly: HELP and TYPE before the samples of each family, once; names
/// and labels well formed; histograms whole, cumulative and ending in `+Inf`.
fn parse_exposition(text: &str) -> Vec<Exposed> {
    assert!(text.ends_with('\n'));
    let mut families: Vec<Exposed> = Vec::new();
    let mut helped = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, sentence) = help.split_once(' ').expect("a sentence");
            assert!(!sentence.is_empty() && families.iter().all(|family| family.name != name));
            helped = Some(name.to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(helped.take().as_deref(), Some(name));
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            families.push(Exposed {
                name: name.to_owned(),
                kind: kind.to_owned(),
                samples: Vec::new(),
            });
        } else {
            let family = families.last_mut().expect("a family before its samples");
            let sample = parse_sample(line);
            let suffix = sample.name.strip_prefix(&family.name).expect("its family");
            let known: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(known.contains(&suffix), "{line}");
            family.samples.push(sample);
        }
    }
    for family in families.iter().filter(|family| family.kind == "histogram") {
        check_histogram(family);
    }
    assert!(families.iter().all(|family| !family.samples.is_empty()));
    families
}

fn parse_sample(line: &str) -> Sample {
    let name_end = line.find(['{', ' ']).expect("a name");
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label");
            assert!(is_name(label), "{line}");
            let (value, after) = parse_quoted(after);
            labels.push((label.to_owned(), value));
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => {
                    rest = after.strip_prefix('}').expect("a closing brace");
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("one space");
    Sample {
        name: name.to_owned(),
        labels,
        value: value.parse().expect("a number"),
    }
}

/// A quoted value up to its closing quote, and what follows it.
fn parse_quoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (out, &text[at + 1..]),
            '\\' => match chars.next().expect("an escaped character").1 {
                'n' => out.push('\n'),
                c @ ('\\' | '"') => out.push(c),
                other => panic!("an escape of {other}"),
            },
            c => out.push(c),
        }
    }
    panic!("an open quote")
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn check_histogram(family: &Exposed) {
    let mut below: Option<(f64, f64)> = None;
    for sample in &family.samples {
        if sample.name.ends_with("_bucket") {
            let (label, bound) = sample.labels.last().expect("a bound");
            assert_eq!(label, "le");
            let bound: f64 = bound.parse().expect("a number");
            if let Some((last_bound, last_count)) = below {
                assert!(bound > last_bound && sample.value >= last_count);
            }
            below = Some((bound, sample.value));
        } else if sample.name.ends_with("_count") {
            let (bound, count) = below.take().expect("buckets before the count");
            assert!(bound.is_infinite() && (count - sample.value).abs() < 1e-9);
        }
    }
    assert!(below.is_none(), "{} has no count", family.name);
}
