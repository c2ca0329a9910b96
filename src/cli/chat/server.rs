//! What `korvun chat` asks of a running gateway: a message in, its answer out. Runs on the main
//! thread; every call has a limit. The token goes to private addresses only, since there is no TLS.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};

use crate::base::clock::{Clock, Deadline, SystemClock};
use crate::base::random;
use crate::base::secret::Secret;
use crate::domain::address::Shield;
use crate::domain::limits::Limits;
use crate::domain::message::Language;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::{Client, Request, Resend, Response, Wire};

/// For one call: the longest wait behind it is for the store (30 s).
const PATIENCE: Duration = Duration::from_secs(40);
/// Bytes of one answer: the longest answer of a model, escaped.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// One conversation at one gateway.
pub(super) struct Server {
    client: Client,
    clock: Arc<dyn Clock>,
    root: Url,
    /// The conversation's key, percent-encoded.
    key: String,
    token: Secret,
    language: Language,
}

/// What a message has come to.
pub(super) enum Answer {
    /// Nothing yet.
    Open,
    /// This.
    Said(String),
    /// No answer, for a reason that a person understands.
    Silent(&'static str),
}

/// Why a call brought nothing, by what a person can do about it.
pub(super) enum Trouble {
    /// Nobody answers there.
    Away(String),
    /// The token is not the gateway's.
    Token,
    /// Wrong tokens are refused unread for a while.
    TooManyFailures,
    /// No such brain, or no console.
    NotThere(String),
    /// No room, or the store cannot commit.
    Busy(String),
    /// Anything else.
    Odd(String),
}

impl Server {
    /// The gateway at `addr` (host and port), whose own sentences are to be in that language.
    ///
    /// # Errors
    /// A sentence where `addr` is no address.
    pub(super) fn new(
        addr: &str,
        token: Secret,
        conversation: &str,
        language: Language,
    ) -> Result<Server, String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let root = Url::parse(&format!("http://{addr}"))
            .map_err(|error| format!("`{addr}` is no address: {error}"))?;
        let wire = Wire::new(None, &Limits::default(), clock.clone());
        Ok(Server {
            client: wire.client(Shield::Open),
            clock,
            root,
            key: encoded(conversation),
            token,
            language,
        })
    }

    /// Sends a message and returns its id.
    ///
    /// Blocks: for forty seconds at most.
    ///
    /// # Errors
    /// A [`Trouble`]; the message may have been taken only where that is [`Trouble::Away`].
    pub(super) fn say(&self, text: &str) -> Result<String, Trouble> {
        let body = json!({ "text": text }).to_string();
        let path = format!("/api/conversations/{}/message", self.key);
        let id = self.call(&path, Some(body.as_bytes()))?;
        match id["message_id"].as_str() {
            Some(id) => Ok(id.to_owned()),
            None => Err(foreign()),
        }
    }

    /// What a message has come to.
    ///
    /// Blocks: for forty seconds at most.
    ///
    /// # Errors
    /// A [`Trouble`].
    pub(super) fn answer(&self, id: &str) -> Result<Answer, Trouble> {
        let message = self.call(&format!("/api/messages/{}", encoded(id)), None)?;
        if let Some(text) = message["answer"]["text"].as_str() {
            return Ok(Answer::Said(text.to_owned()));
        }
        Ok(match message["state"].as_str() {
            Some("queued" | "working") => Answer::Open,
            Some("operator") => {
                Answer::Silent("kept for the operator, who has taken this conversation over")
            }
            Some("cancelled") => Answer::Silent("cancelled"),
            Some("set_aside") => Answer::Silent("given up after three attempts"),
            Some("answered" | "excused") => {
                Answer::Silent("answered, but the answer is no longer stored")
            }
            _ => return Err(foreign()),
        })
    }

    fn call(&self, path: &str, body: Option<&[u8]>) -> Result<Value, Trouble> {
        let key = random::hex::<16>();
        let headers = [
            ("X-Idempotency-Key", key.as_str()),
            ("Accept-Language", self.language.tag()),
        ];
        let request = Request {
            url: &self.root.join(path),
            json: body,
            headers: if body.is_some() { &headers } else { &[] },
            bearer: Some(&self.token),
            deadline: Deadline::after(self.clock.now(), PATIENCE),
            cancel: &Cancel::new(),
            body_most: ANSWER_BYTES,
            // The key makes a message that was taken twice into one.
            resend: Resend::Once,
        };
        let answer = self.client.send(&request);
        let answer = answer.map_err(|error| Trouble::Away(error.to_string()))?;
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            200 | 202 => Ok(value),
            401 => Err(Trouble::Token),
            429 => Err(Trouble::TooManyFailures),
            404 => Err(Trouble::NotThere(message(&answer, &value))),
            503 => Err(Trouble::Busy(message(&answer, &value))),
            _ => Err(Trouble::Odd(message(&answer, &value))),
        }
    }
}

fn foreign() -> Trouble {
    Trouble::Odd("the answer is not Korvun's".to_owned())
}

/// The sentence of an error answer.
fn message(answer: &Response, body: &Value) -> String {
    match body["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("status {}", answer.status),
    }
}

/// One segment of a path.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte as char);
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_segment() {
        assert_eq!(
            encoded("console::mi casa/a\u{f1}o"),
            "console%3A%3Ami%20casa%2Fa%C3%B1o"
        );
    }
}
