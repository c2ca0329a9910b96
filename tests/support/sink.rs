//! The receiver of `POST outbound_url`: stamps the first byte of each delivery, keeps what came and
//! answers what the test says. Runs on threads of its own.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::{Reply, Request, Server};

/// One delivery as it came, whatever was answered to it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When its first byte was seen.
    pub first_byte: Instant,
    /// The path it was posted to.
    pub path: String,
    /// The body.
    pub body: Value,
    /// `X-Idempotency-Key`.
    pub key: Option<String>,
    /// `Authorization`.
    pub authorization: Option<String>,
    /// The status that it got; 0 where it got none.
    pub status: u16,
}

impl Delivery {
    /// A text field of the body; empty where it is missing.
    pub fn field(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or("")
    }

    /// The words.
    pub fn text(&self) -> &str {
        self.field("text")
    }

    /// The id of the message it answers.
    pub fn in_reply_to(&self) -> &str {
        self.field("in_reply_to")
    }
}

#[derive(Debug, Default)]
struct Kept {
    all: Vec<Delivery>,
    /// Whether deliveries are kept at all; the bench only follows them.
    follow_only: bool,
    followers: HashMap<String, Sender<Delivery>>,
}

/// A running sink.
#[derive(Debug)]
pub struct Sink {
    server: Server,
    kept: Arc<(Mutex<Kept>, Condvar)>,
}

impl Sink {
    /// A sink that takes everything.
    pub fn start() -> Sink {
        Sink::answering(|_, _| Reply::status(200))
    }

    /// A sink that answers as `script` says; it is told the request and how many came before.
    pub fn answering(script: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Sink {
        let kept = Arc::new((Mutex::new(Kept::default()), Condvar::new()));
        let shared = kept.clone();
        let count = Mutex::new(0_usize);
        let server = Server::start("127.0.0.1:0", move |request| {
            let nth = {
                let mut count = count.lock().expect("count");
                *count += 1;
                *count - 1
            };
            let reply = script(&request, nth);
            keep(&shared, &request, &reply);
            reply
        });
        Sink { server, kept }
    }

    /// For `outbound_url`.
    pub fn url(&self) -> String {
        format!("{}/in", self.server.url())
    }

    /// Where it listens.
    pub fn addr(&self) -> std::net::SocketAddr {
        self.server.addr()
    }

    /// Everything that came so far, in the order it came.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.kept.0.lock().expect("sink").all.clone()
    }

    /// From now on the deliveries of a conversation go to this receiver too.
    pub fn follow(&self, conversation: &str) -> Receiver<Delivery> {
        let (sender, receiver) = mpsc::channel();
        self.kept
            .0
            .lock()
            .expect("sink")
            .followers
            .insert(conversation.to_owned(), sender);
        receiver
    }

    /// From now on nothing is kept but for followers.
    pub fn keep_nothing(&self) {
        self.kept.0.lock().expect("sink").follow_only = true;
    }

    /// Waits until `enough` is true of all that came, and hands it out.
    ///
    /// Blocks: up to `most`, then the test fails with `what`.
    pub fn wait(
        &self,
        what: &str,
        most: Duration,
        enough: impl Fn(&[Delivery]) -> bool,
    ) -> Vec<Delivery> {
        let kept = self.kept.0.lock().expect("sink");
        let (kept, late) = self
            .kept
            .1
            .wait_timeout_while(kept, most, |kept| !enough(&kept.all))
            .expect("sink");
        assert!(
            !late.timed_out(),
            "waited {most:?} for {what}; the sink has {} deliveries, the last: {:?}",
            kept.all.len(),
            kept.all.last()
        );
        kept.all.clone()
    }

    /// Waits for the first delivery that answers the message.
    pub fn reply_to(&self, message_id: &str, most: Duration) -> Delivery {
        let all = self.wait(&format!("the answer to {message_id}"), most, |all| {
            all.iter().any(|one| one.in_reply_to() == message_id)
        });
        all.into_iter()
            .find(|one| one.in_reply_to() == message_id)
            .expect("waited for above")
    }
}

fn keep(shared: &(Mutex<Kept>, Condvar), request: &Request, reply: &Reply) {
    let delivery = Delivery {
        first_byte: request.first_byte,
        path: request.target().to_owned(),
        body: request.json(),
        key: request.header("x-idempotency-key").map(str::to_owned),
        authorization: request.header("authorization").map(str::to_owned),
        status: match reply {
            Reply::Send(status, ..) => *status,
            _ => 0,
        },
    };
    let mut kept = shared.0.lock().expect("sink");
    if let Some(follower) = kept.followers.get(delivery.field("conversation_id")) {
        // A follower that has left is no fault.
        let _ = follower.send(delivery.clone());
    }
    if !kept.follow_only {
        kept.all.push(delivery);
        shared.1.notify_all();
    }
}
