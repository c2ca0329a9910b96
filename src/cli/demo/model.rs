//! The demonstration model: a loopback server that speaks enough of Ollama's API to be a model
//! (`/api/chat`, `/api/show`), and answers from a script. It says what it is.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use serde_json::{json, Value};

use crate::domain::limits::Limits;
use crate::net::front::{Client, Ends, Front, Head, Owner, Request, Response, Verdict};

/// Its name, as models have one.
pub const NAME: &str = "korvun-demo";

/// A running demonstration model; dropping it ends it.
#[derive(Debug)]
pub struct Model(Front);

impl Model {
    /// Starts it on a free loopback port.
    ///
    /// # Errors
    /// The operating system's, when it gives no port or thread.
    pub fn start(limits: &Limits) -> io::Result<Model> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        Ok(Model(Front::start(
            "demo-model",
            listener,
            Arc::new(Script),
            limits,
        )?))
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

struct Script;

impl Owner for Script {
    fn judge(&self, head: &Head, _ends: Ends) -> Verdict {
        match head.path() {
            "/api/chat" | "/api/show" if head.method() == "POST" => Verdict::Accept {
                body_cap: 1024 * 1024,
            },
            _ => Verdict::Refuse(Response::json(
                404,
                json!({ "error": "not found" }).to_string(),
            )),
        }
    }

    fn serve(&self, request: Request, client: Client<'_>) {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let reply = if request.head.path() == "/api/show" {
            json!({ "capabilities": ["completion"], "model_info": { "demo.context_length": 8192 } })
        } else {
            json!({
                "model": NAME,
                "message": { "role": "assistant", "content": answer(&body) },
                "done": true,
                "done_reason": "stop",
            })
        };
        // A caller that left wants no answer.
        let _ = client.respond(&Response::json(200, reply.to_string()));
    }
}

/// What the script says: it shows that the words arrived, and how much was said before them.
fn answer(body: &Value) -> String {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let said_by_user = |message: &&Value| message["role"] == "user";
    let last = messages.iter().rev().find(said_by_user);
    let words = last
        .and_then(|message| message["content"].as_str())
        .unwrap_or("");
    let earlier = messages
        .iter()
        .filter(said_by_user)
        .count()
        .saturating_sub(1);
    let memory = match earlier {
        0 => "This is the first thing you say here.".to_owned(),
        1 => "I remember one thing you said before.".to_owned(),
        n => format!("I remember {n} things you said before."),
    };
    format!(
        "I am Korvun's demonstration model: I do not think, I only repeat. You said: «{words}». {memory}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_repeats_the_last_words_and_counts_the_earlier_ones() {
        let body = json!({ "messages": [
            { "role": "system", "content": "be kind" },
            { "role": "user", "content": "one" },
            { "role": "assistant", "content": "…" },
            { "role": "user", "content": "two" },
        ]});
        let said = answer(&body);
        assert!(
            said.contains("«two»") && said.contains("one thing you said before"),
            "{said}"
        );
        assert!(answer(&Value::Null).contains("«»"));
    }
}
