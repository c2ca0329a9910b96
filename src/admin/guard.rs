//! The owner of the admin port: judges each request by its head, writes it anew and hands it to
//! tiny_http behind the Unix socket. Runs on the front's connection threads.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::auth::Auth;
use super::behind::Behind;
use super::hosts::{own_origin, Hosts};
use super::reply::{missed, secured};
use super::rewrite::{rewrite, IDEMPOTENCY_KEY};
use super::route::{Route, Surface};
use crate::net::front::{Client, Ends, Head, Owner, Relay, Request, Response, Verdict};

/// How long one write to tiny_http may hang: it reads as fast as its threads come free.
const HAND_OVER: Duration = Duration::from_secs(10);
/// How long an answer may take: the longest wait in it is for the store (30 s).
const ANSWER: Duration = Duration::from_secs(40);
/// Bytes of an idempotency key (contract 4).
const KEY_BYTES: usize = 128;

/// Judge of the admin port.
pub(super) struct Guard {
    pub(super) hosts: Hosts,
    /// The door of the write surface; none where it is not mounted.
    pub(super) auth: Option<Auth>,
    pub(super) behind: Arc<Behind>,
    /// Bytes of a console message's body.
    pub(super) say_bytes: usize,
}

impl Owner for Guard {
    fn judge(&self, head: &Head, ends: Ends) -> Verdict {
        match self.admit(head, ends) {
            Ok(body_cap) => Verdict::Accept { body_cap },
            Err(response) => Verdict::Refuse(secured(response)),
        }
    }

    fn serve(&self, request: Request, client: Client<'_>) {
        let head = rewrite(
            &request.head,
            request.body.len(),
            request.ends.peer,
            self.behind.pass(),
        );
        let relayed = match self.hand_over(&head, &request.body) {
            Ok(source) => client.relay(&source, &Relay::Answer(ANSWER)),
            Err(error) => {
                log::warn!(error:% = error; "admin_server_not_reached");
                let message = "the admin server is busy, come again";
                let response = Response::error(503, "unavailable", message);
                client.respond(&secured(response.with("Retry-After", "2")))
            }
        };
        if let Err(error) = relayed {
            log::debug!(error:% = error, peer:% = request.ends.peer; "admin_answer_not_delivered");
        }
    }
}

impl Guard {
    /// The order: who it was meant for, who sent it, what it asks, whether it may.
    fn admit(&self, head: &Head, ends: Ends) -> Result<usize, Response> {
        if !self.hosts.accept(head.host(), ends.local.ip()) {
            return Err(Response::error(
                403,
                "host_not_allowed",
                "this Host is not accepted; add its name to observability.allow_hosts",
            ));
        }
        let mut origins = head.values("origin");
        if let Some(origin) = origins.next() {
            if origins.next().is_some() || !own_origin(origin, head.host()) {
                let message = "requests from pages of another origin are not accepted";
                return Err(Response::error(403, "foreign_origin", message));
            }
        }
        let surface = match self.auth {
            Some(_) => Surface::Whole,
            None => Surface::ReadOnly,
        };
        let route = Route::of(head.method(), head.path(), surface).map_err(missed)?;
        if let Some(auth) = self.auth.as_ref().filter(|_| route.needs_token()) {
            if let Some(refusal) = auth.refusal(head, ends.peer) {
                return Err(refusal);
            }
        }
        match route {
            Route::Say(_) if !sound_key(head) => {
                let message = "X-Idempotency-Key takes 1 to 128 visible ASCII characters, once";
                Err(Response::error(400, "invalid_key", message))
            }
            Route::Say(_) => Ok(self.say_bytes),
            _ => Ok(0),
        }
    }

    /// Blocks: for [`HAND_OVER`] without progress at most.
    fn hand_over(&self, head: &[u8], body: &[u8]) -> std::io::Result<UnixStream> {
        let mut source = UnixStream::connect(self.behind.path())?;
        source.set_write_timeout(Some(HAND_OVER))?;
        source.write_all(head)?;
        source.write_all(body)?;
        Ok(source)
    }
}

fn sound_key(head: &Head) -> bool {
    let mut keys = head.values(IDEMPOTENCY_KEY);
    let Some(key) = keys.next() else {
        return true;
    };
    let visible = key.iter().all(|byte| (b' '..=b'~').contains(byte));
    (1..=KEY_BYTES).contains(&key.len()) && visible && keys.next().is_none()
}
