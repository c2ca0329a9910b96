//! A scripted model server: speaks Ollama's `/api/chat` and `/api/show` and the OpenAI style
//! `/v1/chat/completions`, keeps connections alive and does to each question what its script says.
//! Runs on threads of its own; must never be slower than its script.

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::http::{Reply, Request, Server};

/// One question as it reached the model.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The path of the request.
    pub path: String,
    /// The name of the model asked.
    pub model: String,
    /// The last user message.
    pub text: String,
    /// All messages as sent.
    pub messages: Value,
    /// The `Authorization` field.
    pub authorization: Option<String>,
    /// How many questions came before it.
    pub nth: usize,
}

/// What the model does with a question.
#[derive(Clone, Debug)]
pub enum Play {
    /// Answers these words.
    Say(String),
    /// Thinks so long, then answers these words.
    SayAfter(Duration, String),
    /// Whatever else can be done to a client.
    Do(Reply),
}

/// How long one answer took the model itself.
#[derive(Clone, Debug)]
pub struct Spent {
    /// The last user message.
    pub text: String,
    /// When the first byte of the question was seen.
    pub asked: Instant,
    /// From the whole request read to the answer handed to the socket.
    pub own: Duration,
}

/// A running scripted model.
#[derive(Debug)]
pub struct Model {
    server: Server,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    asks: Mutex<Vec<Ask>>,
    spent: Mutex<Vec<Spent>>,
    more: Condvar,
}

impl Model {
    /// Starts a model that does what `script` says.
    pub fn start(script: impl Fn(&Ask) -> Play + Send + Sync + 'static) -> Model {
        let seen = Arc::new(Seen::default());
        let kept = seen.clone();
        let server = Server::start("127.0.0.1:0", move |request| {
            answer(&request, &script, &kept)
        });
        Model { server, seen }
    }

    /// A model that says at once what [`echo`] makes of the question.
    pub fn echo() -> Model {
        Model::start(|ask| Play::Say(echo(&ask.text)))
    }

    /// A model that says after `delay` what [`echo`] makes of the question.
    pub fn slow_echo(delay: Duration) -> Model {
        Model::start(move |ask| Play::SayAfter(delay, echo(&ask.text)))
    }

    /// Its root, for an Ollama `base_url`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Its root, for an OpenAI style `base_url`.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.server.url())
    }

    /// Where it listens.
    pub fn addr(&self) -> std::net::SocketAddr {
        self.server.addr()
    }

    /// Every question so far.
    pub fn asks(&self) -> Vec<Ask> {
        self.seen.asks.lock().expect("asks").clone()
    }

    /// The questions with these words so far.
    pub fn asked(&self, text: &str) -> usize {
        self.seen
            .asks
            .lock()
            .expect("asks")
            .iter()
            .filter(|ask| ask.text == text)
            .count()
    }

    /// Waits until `count` questions have come.
    pub fn wait_for_asks(&self, count: usize, most: Duration) {
        let asks = self.seen.asks.lock().expect("asks");
        let (asks, late) = self
            .seen
            .more
            .wait_timeout_while(asks, most, |asks| asks.len() < count)
            .expect("asks");
        assert!(
            !late.timed_out(),
            "the model was asked {} times in {most:?}, not {count}",
            asks.len()
        );
    }

    /// What the answers so far took the model itself, and forgets it.
    pub fn take_spent(&self) -> Vec<Spent> {
        std::mem::take(&mut self.seen.spent.lock().expect("spent"))
    }

    /// Forgets every question: a long bench keeps none.
    pub fn forget(&self) {
        self.seen.asks.lock().expect("asks").clear();
        self.seen.spent.lock().expect("spent").clear();
    }
}

/// What the echoing models say to `text`.
pub fn echo(text: &str) -> String {
    format!("you said: {text}")
}

fn answer(request: &Request, script: &dyn Fn(&Ask) -> Play, seen: &Seen) -> Reply {
    let path = request.target();
    let known = ["/api/chat", "/api/show", "/v1/chat/completions"];
    if request.method() != "POST" || !known.contains(&path) {
        return match path {
            "/api/tags" => Reply::json(200, &json!({"models": []})),
            "/api/version" => Reply::json(200, &json!({"version": "0.12.0"})),
            _ => Reply::Send(
                404,
                "text/plain",
                String::new(),
                b"404 page not found".to_vec(),
            ),
        };
    }
    let read = Instant::now();
    let body = request.json();
    let model = body["model"].as_str().unwrap_or("").to_owned();
    if path == "/api/show" {
        return Reply::json(
            200,
            &json!({"capabilities": ["completion"], "model_info": {"general.architecture": "tiny", "tiny.context_length": 8192},
                    "details": {"family": "tiny", "parameter_size": "1B"}}),
        );
    }
    let text = body["messages"]
        .as_array()
        .and_then(|all| all.iter().rev().find(|one| one["role"] == "user"))
        .and_then(|one| one["content"].as_str())
        .unwrap_or("")
        .to_owned();
    let ask = {
        let mut asks = seen.asks.lock().expect("asks");
        let ask = Ask {
            path: path.to_owned(),
            model: model.clone(),
            text,
            messages: body["messages"].clone(),
            authorization: request.header("authorization").map(str::to_owned),
            nth: asks.len(),
        };
        asks.push(ask.clone());
        seen.more.notify_all();
        ask
    };
    let words = match script(&ask) {
        Play::Say(words) => words,
        Play::SayAfter(delay, words) => {
            thread::sleep(delay);
            words
        }
        Play::Do(reply) => return reply,
    };
    let reply = if path == "/api/chat" {
        ollama(&model, &words)
    } else {
        openai(&model, &words)
    };
    seen.spent.lock().expect("spent").push(Spent {
        text: ask.text,
        asked: request.first_byte,
        own: read.elapsed(),
    });
    reply
}

/// An answer as of Ollama's API documentation, `POST /api/chat` with `stream: false`.
pub fn ollama(model: &str, words: &str) -> Reply {
    Reply::json(
        200,
        &json!({"model": model, "created_at": "2026-01-02T03:04:05.678Z",
                "message": {"role": "assistant", "content": words},
                "done": true, "done_reason": "stop", "total_duration": 1, "load_duration": 1,
                "prompt_eval_count": 10, "prompt_eval_duration": 1, "eval_count": 10, "eval_duration": 1}),
    )
}

/// An answer as of the OpenAI API documentation, `POST /chat/completions`.
pub fn openai(model: &str, words: &str) -> Reply {
    Reply::json(
        200,
        &json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
                "choices": [{"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}}),
    )
}

/// A door that a script waits at until the test opens it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets everybody through, from now on.
    pub fn open(&self) {
        *self.0 .0.lock().expect("gate") = true;
        self.0 .1.notify_all();
    }

    /// Waits until it is open; two minutes at most, so that a failed test ends.
    pub fn wait(&self) {
        let shut = self.0 .0.lock().expect("gate");
        drop(
            self.0
                 .1
                .wait_timeout_while(shut, Duration::from_secs(120), |open| !*open),
        );
    }
}
