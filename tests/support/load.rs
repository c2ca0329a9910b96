//! The sender of webhook messages: keep-alive POSTs with the bearer token, one connection each.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::http::{self, Client, Response};

/// One sender with one connection.
#[derive(Debug)]
pub struct Poster {
    client: Client,
    host: String,
    token: String,
}

/// A message that was acknowledged.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Its id.
    pub id: String,
    /// Just before the first byte of its POST.
    pub sent: Instant,
    /// When its acknowledgement had been read.
    pub acknowledged: Instant,
}

impl Poster {
    /// A sender to the webhook at `addr`.
    pub fn new(addr: SocketAddr, token: &str) -> Poster {
        Poster {
            client: Client::new(addr, Duration::from_secs(75)),
            host: addr.to_string(),
            token: token.to_owned(),
        }
    }

    /// Posts a body; `query` is empty or begins with `?`.
    pub fn post(&mut self, query: &str, key: Option<&str>, body: &Value) -> io::Result<Response> {
        let bytes = self.bytes(query, key, body);
        self.client.send(&bytes)
    }

    /// The bytes of such a POST.
    pub fn bytes(&self, query: &str, key: Option<&str>, body: &Value) -> Vec<u8> {
        let bearer = format!("Bearer {}", self.token);
        let mut fields = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        if let Some(key) = key {
            fields.push(("X-Idempotency-Key", key));
        }
        let target = format!("/webhook{query}");
        http::request(
            "POST",
            &target,
            &self.host,
            &fields,
            body.to_string().as_bytes(),
        )
    }

    /// Says something in a conversation; anything but a 200 with an id is an error.
    pub fn say(
        &mut self,
        conversation: &str,
        text: &str,
        key: Option<&str>,
    ) -> io::Result<Accepted> {
        let body = json!({"sender_id": "tester", "conversation_id": conversation, "text": text});
        let response = self.post("", key, &body)?;
        match response.json()["message_id"].as_str() {
            Some(id) if response.status == 200 => Ok(Accepted {
                id: id.to_owned(),
                sent: response.sent,
                acknowledged: Instant::now(),
            }),
            _ => Err(io::Error::other(format!(
                "webhook said {} {}",
                response.status,
                response.text()
            ))),
        }
    }

    /// The connection itself.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }
}
