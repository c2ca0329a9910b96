//! `korvun demo`: the whole daemon in a temporary folder, one command to try, and the way of each
//! message shown as it happens.

mod model;
mod sink;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};

use crate::base::clock::{Clock, Deadline};
use crate::base::random;
use crate::base::secret::Redactor;
use crate::base::sync::{spawn, Stop};
use crate::base::text::printable;
use crate::daemon::{load, signal, Daemon, Ended, Options};
use crate::domain::address::Shield;
use crate::domain::limits::Limits;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::{Request, Resend, Wire};
use crate::watch::events::{Event, Events};

use model::Model;
use sink::Sink;

/// Where Ollama listens unless told otherwise (Ollama documentation, "FAQ").
const OLLAMA: &str = "http://127.0.0.1:11434";
/// How long a look at Ollama may take: it is on this machine, or it is not there.
const LOOK: Duration = Duration::from_secs(2);
/// Models of a real Ollama that take part at most: a small box runs one at a time anyway.
const MODELS: usize = 1;

/// Which models answer.
enum Source {
    Ollama(Vec<String>),
    Script(Model),
}

/// Runs the demonstration until it is asked to stop.
///
/// Blocks: until then.
///
/// # Errors
/// A sentence for the person at the terminal.
pub fn run(
    redactor: &Redactor,
    clock: Arc<dyn Clock>,
    say: &dyn Fn(&str),
) -> Result<Ended, String> {
    let limits = Limits::default();
    let wire = Wire::new(None, &limits, clock.clone());
    let folder =
        Folder::new().map_err(|error| format!("cannot make a temporary folder: {error}"))?;
    let (posted, answers) = channel();
    let sink = Sink::start(posted, &limits)
        .map_err(|error| format!("cannot open a loopback port: {error}"))?;
    let source = source(&wire, &limits, &*clock)?;

    let (webhook, admin) = (free(8090), free(2112));
    let token = random::hex::<16>();
    let file = folder.write("korvun.json", &config(&source, webhook, admin, sink.addr()))?;
    let env_file = folder.write("korvun.env", &format!("KORVUN_DEMO_TOKEN={token}\n"))?;
    let loaded = load::load(&file, Some(&env_file), redactor).map_err(|problems| {
        problems
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    let (orders_in, orders) = channel();
    signal::listen(orders_in).map_err(|error| format!("cannot listen for signals: {error}"))?;
    let daemon = Daemon::start(Options {
        plan: loaded.plan,
        secrets: loaded.secrets,
        clock,
        limits,
        wire,
        notify: crate::daemon::notify::Notify::new(&|_| None, std::process::id()),
        skills: loaded.skills,
        forbidden: loaded.forbidden,
        runtime_dir: Some(folder.0.clone()),
    })
    .map_err(|error| error.to_string())?;

    say(&greeting(&source, webhook, admin, &token));
    let stop = Stop::new();
    let follower = follow(daemon.watch().events.clone(), answers, stop.clone());
    let ended = daemon.serve(orders);
    stop.raise();
    if let Ok(follower) = follower {
        // It only prints; a panic there has been reported.
        let _ = follower.join();
    }
    Ok(ended)
}

/// The models of a real Ollama where one answers, else the script.
fn source(wire: &Wire, limits: &Limits, clock: &dyn Clock) -> Result<Source, String> {
    let models = ollama_models(wire, limits, clock).unwrap_or_default();
    if !models.is_empty() {
        return Ok(Source::Ollama(models));
    }
    Model::start(limits)
        .map(Source::Script)
        .map_err(|error| format!("cannot open a loopback port: {error}"))
}

/// Names of local chat models; those that Ollama runs elsewhere, or that only embed, are passed over.
fn ollama_models(wire: &Wire, limits: &Limits, clock: &dyn Clock) -> Option<Vec<String>> {
    let url = Url::parse(OLLAMA).ok()?.join("/api/tags");
    let answer = wire.client(Shield::Private).send(&Request {
        url: &url,
        json: None,
        headers: &[],
        bearer: None,
        deadline: Deadline::after(clock.now(), LOOK),
        cancel: &Cancel::new(),
        body_most: limits.completion_bytes,
        resend: Resend::Once,
    });
    let body: Value = serde_json::from_slice(&answer.ok()?.body).ok()?;
    let models = body["models"].as_array()?.iter().filter_map(|model| {
        let name = model["name"].as_str()?;
        let elsewhere = !model["remote_host"].is_null() || name.ends_with("cloud");
        let embeds = name.contains("embed");
        (!elsewhere && !embeds).then(|| name.to_owned())
    });
    Some(models.take(MODELS).collect())
}

/// The demonstration's configuration: the same kind of file that a real one is.
fn config(source: &Source, webhook: SocketAddr, admin: SocketAddr, sink: SocketAddr) -> String {
    let model = |name: &str, base_url: String| json!({ "provider": "ollama", "model_id": name, "locality": "local", "base_url": base_url });
    let models: Vec<Value> = match source {
        Source::Ollama(names) => names
            .iter()
            .map(|name| model(name, OLLAMA.to_owned()))
            .collect(),
        Source::Script(script) => vec![model(model::NAME, format!("http://{}", script.addr()))],
    };
    let file = json!({
        "channels": [{
            "type": "webhook",
            "token_env": "KORVUN_DEMO_TOKEN",
            "webhook": { "bind": webhook.to_string(), "outbound_url": format!("http://{sink}/answers") },
        }],
        "brains": [{
            "name": "demo",
            "sensitivity": "private",
            "policy": { "kind": "priority" },
            "models": models,
        }],
        "routes": [{ "channel": "webhook", "brain": "demo" }],
        "storage": { "path": "korvun.db" },
        "observability": { "addr": admin.to_string() },
    });
    format!("{file:#}\n")
}

fn greeting(source: &Source, webhook: SocketAddr, admin: SocketAddr, token: &str) -> String {
    let who = match source {
        Source::Ollama(names) => format!(
            "The answers come from your own Ollama on this machine: {}.",
            printable(&names.join(", "))
        ),
        Source::Script(_) => "No Ollama answers on 127.0.0.1:11434, so a small built-in model answers: it only repeats\n\
             your words. For a real one install Ollama (https://ollama.com/download), run\n\
             `ollama pull llama3.2`, and start this again."
            .to_owned(),
    };
    format!(
        "Korvun runs, in a temporary folder that goes when you press Ctrl-C.\n{who}\n\n\
         Write to it from another terminal; this line waits for the answer:\n\n  \
         curl -s 'http://{webhook}/webhook?wait=60' -H 'Authorization: Bearer {token}' \
         -H 'Content-Type: application/json' -d '{{\"sender_id\":\"me\",\"text\":\"Hello, Korvun\"}}'\n\n\
         Without `?wait=60` the answer is posted to outbound_url, which is here. Metrics: http://{admin}/metrics\n\
         The way of each message follows.\n"
    )
}

/// The wanted loopback port where it is free, else any other.
fn free(wanted: u16) -> SocketAddr {
    let try_port =
        |port: u16| TcpListener::bind(("127.0.0.1", port)).and_then(|socket| socket.local_addr());
    try_port(wanted)
        .or_else(|_| try_port(0))
        .unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], wanted)))
}

/// Prints events and posted answers as they come, in a thread of its own.
fn follow(
    events: Events,
    answers: Receiver<Value>,
    stop: Stop,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mut newest = events.newest();
    spawn("demo", 128 * 1024, move || {
        while !stop.raised() {
            for event in events.after(newest, Duration::from_millis(500)) {
                newest = event.id;
                println!("  {}", told(&event));
            }
            for answer in answers.try_iter() {
                let text = answer["text"].as_str().unwrap_or("");
                println!("  posted to outbound_url: {}", printable(text));
            }
        }
    })
}

/// An event in words.
fn told(event: &Event) -> String {
    let text = |key: &str| event.data.get(key).and_then(Value::as_str).unwrap_or("");
    let number = |key: &str| event.data.get(key).and_then(Value::as_u64).unwrap_or(0);
    let time = text("at").get(11..23).unwrap_or("");
    let what = match event.name {
        "message_received" => {
            format!(
                "message {} accepted: it is on disk, a power cut cannot lose it",
                text("message_id")
            )
        }
        "run_finished" => format!(
            "brain {} {} in {} ms (model {}, policy {})",
            text("brain"),
            text("outcome"),
            number("latency_ms"),
            text("model"),
            text("policy")
        ),
        "reply_sent" => format!("answer {} delivered", text("message_id")),
        "reply_failed" => format!(
            "answer {} not delivered: {}",
            text("message_id"),
            text("reason")
        ),
        "channel_state" => format!("channel {} is {}", text("channel"), text("state")),
        other => other.replace('_', " "),
    };
    printable(&format!("{time} {what}"))
}

/// A private temporary folder that goes when it is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> io::Result<Folder> {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("korvun-demo-{}", random::hex::<8>()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder(path))
    }

    fn write(&self, name: &str, text: &str) -> Result<std::path::PathBuf, String> {
        let path = self.0.join(name);
        std::fs::write(&path, text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_dir_all(path) {
        log::warn!(folder = path.display().to_string().as_str(), error = error.to_string().as_str(); "cannot remove the demonstration's folder");
    }
}
