//! What a test needs to ask a provider something.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use korvun::base::clock::{Deadline, SystemClock};
use korvun::domain::brain::{Locality, Model, ToolLane};
use korvun::domain::completion::{Completion, Failure, Offer, Prompt, Said, Speaker};
use korvun::domain::ids::{ChannelName, Conversation, Endpoint};
use korvun::domain::limits::Limits;
use korvun::net::cancel::Cancel;
use korvun::net::http::Wire;
use korvun::net::names::Names;
use korvun::provider::Provider;

/// A wire with the usual bounds.
pub fn wire() -> Wire {
    wire_with(&Limits::default())
}

/// A wire with these bounds.
pub fn wire_with(limits: &Limits) -> Wire {
    Wire::new(None, limits, Arc::new(SystemClock))
}

/// Names that lead where a test says.
#[derive(Debug, Default)]
pub struct Book(pub HashMap<&'static str, Vec<IpAddr>>);

impl Names for Book {
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "not in the book");
        self.0.get(name).cloned().ok_or_else(unknown)
    }
}

/// A model by the name of `m`.
pub fn model(provider: &str, base_url: &str) -> Model {
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

/// One thing said.
pub fn said(by: Speaker, text: &str) -> Said {
    Said {
        by,
        text: text.to_owned(),
    }
}

/// A prompt without history.
pub fn prompt(text: &str) -> Prompt {
    Prompt {
        conversation: Conversation::new(&ChannelName::new("webhook"), "c"),
        head: vec![said(Speaker::System, "be kind")],
        history: Vec::new(),
        tail: vec![said(Speaker::User, text)],
        turns: Vec::new(),
        offer: Offer::Nothing,
    }
}

/// A deadline from now.
pub fn within(span: Duration) -> Deadline {
    Deadline::after(Instant::now(), span)
}

/// Asks with time enough.
pub fn ask(provider: &dyn Provider) -> Result<Completion, Failure> {
    ask_within(provider, Duration::from_secs(20))
}

/// Asks with little time.
pub fn ask_within(provider: &dyn Provider, span: Duration) -> Result<Completion, Failure> {
    provider.chat(&prompt("hello"), within(span), &Cancel::new())
}
