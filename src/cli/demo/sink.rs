//! Where the demonstration's answers are posted: a loopback server that prints them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::base::sync::lock;
use crate::domain::limits::Limits;
use crate::net::front::{Client, Ends, Front, Head, Owner, Request, Response, Verdict};

/// A running sink; dropping it ends it.
#[derive(Debug)]
pub struct Sink(Front);

impl Sink {
    /// Starts it on a free loopback port; what is posted goes to `posted`.
    ///
    /// # Errors
    /// The operating system's, when it gives no port or thread.
    pub fn start(posted: Sender<Value>, limits: &Limits) -> io::Result<Sink> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let owner = Arc::new(Post(Mutex::new(posted)));
        Ok(Sink(Front::start("demo-sink", listener, owner, limits)?))
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.0.local_addr()
    }
}

struct Post(Mutex<Sender<Value>>);

impl Owner for Post {
    fn judge(&self, head: &Head, _ends: Ends) -> Verdict {
        if head.method() == "POST" {
            Verdict::Accept {
                body_cap: 1024 * 1024,
            }
        } else {
            Verdict::Refuse(Response::new(405).with("Allow", "POST"))
        }
    }

    fn serve(&self, request: Request, client: Client<'_>) {
        if let Ok(body) = serde_json::from_slice(&request.body) {
            // The demonstration is on its way out when nobody listens.
            let _ = lock(&self.0).send(body);
        }
        let _ = client.respond(&Response::new(204));
    }
}
