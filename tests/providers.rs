//! Providers against real sockets: what they send, what they make of every kind of answer, and that
//! nothing holds them longer than their deadline.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use korvun::base::clock::{Deadline, SystemClock};
use korvun::base::secret::Secret;
use korvun::domain::brain::{Locality, Model, Sensitivity, ToolLane};
use korvun::domain::completion::{Completion, Failure, Prompt, Said, Speaker};
use korvun::domain::ids::{ChannelName, Conversation, Endpoint};
use korvun::domain::limits::Limits;
use korvun::net::cancel::Cancel;
use korvun::net::http::Wire;
use korvun::provider::{build, Provider};
use serde_json::{json, Value};

use crate::support::model::{ollama_says, ollama_shows, ModelServer, Reply};

fn wire() -> Wire {
    Wire::new(None, &Limits::default(), Arc::new(SystemClock))
}

fn model(provider: &str, base_url: &str) -> Model {
    Model {
        provider: provider.into(),
        model_id: "m".into(),
        locality: Locality::Local,
        base_url: base_url.to_owned(),
        endpoint: Endpoint::new(base_url),
        api_key_env: None,
        request_timeout: Duration::from_secs(10),
        max_retries: 0,
        warmup: false,
        options: serde_json::Map::new(),
        keep_alive: None,
        think: None,
        tools: ToolLane::Auto,
        parallel: 1,
        rank: 0,
    }
}

fn prompt(text: &str) -> Prompt {
    let said = |by, text: &str| Said {
        by,
        text: text.to_owned(),
    };
    Prompt {
        conversation: Conversation::new(&ChannelName::new("webhook"), "c"),
        head: vec![said(Speaker::System, "be kind")],
        history: Vec::new(),
        tail: vec![said(Speaker::User, text)],
    }
}

fn within(seconds: u64) -> Deadline {
    Deadline::after(Instant::now(), Duration::from_secs(seconds))
}

fn ask(provider: &dyn Provider) -> Result<Completion, Failure> {
    provider.chat(&prompt("hello"), within(10), &Cancel::new())
}

/// A server that shows a model of 8192 tokens and answers chats as told.
fn ollama(chat: impl Fn() -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |seen| {
        if seen.is("POST /api/show") {
            ollama_shows(8192)
        } else {
            chat()
        }
    })
}

#[test]
fn ollama_answers_a_private_brain_after_it_has_told_of_the_model() {
    let server = ollama(|| ollama_says(" hello there "));
    let mut model = model("ollama", &server.url());
    model.options.insert("temperature".into(), json!(0.5));
    model.keep_alive = Some(json!("10m"));
    model.think = Some(json!(false));
    let provider = build(&model, Sensitivity::Private, None, &wire());
    assert_eq!(provider.known(), None);
    for _ in 0..3 {
        let completion = ask(&*provider).unwrap();
        assert_eq!(completion.text.trim(), "hello there");
        assert!(!completion.cut);
    }
    let seen = server.seen();
    let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "POST /api/show",
            "POST /api/chat",
            "POST /api/chat",
            "POST /api/chat"
        ]
    );
    assert_eq!(seen[0].json(), json!({"model": "m"}));
    assert_eq!(
        seen[1].json(),
        json!({
            "model": "m",
            "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
            "stream": false,
            "options": {"temperature": 0.5, "num_ctx": 4096},
            "keep_alive": "10m",
            "think": false,
        })
    );
    assert_eq!(seen[1].header("content-type"), Some("application/json"));
    assert!(seen[1].header("user-agent").unwrap().starts_with("korvun/"));
    assert_eq!(seen[1].header("accept-encoding"), None);
    assert_eq!(server.connections(), 1, "the connection is used again");
    let facts = provider.known().unwrap();
    assert_eq!(
        (facts.context_tokens, facts.tools),
        (Some(8192), Some(true))
    );
}
