//! The admin token at the door: who is let in, what the others are told, and what is counted and
//! logged of them. Called on connection threads.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::domain::limits::Limits;
use crate::net::door::{Door, Entry};
use crate::net::front::{Head, Response};
use crate::watch::metrics::{Metrics, ADMIN_AUTH_FAILURES};

/// The door of the write surface.
pub(super) struct Auth {
    door: Door,
    token: Secret,
    metrics: Metrics,
    clock: Arc<dyn Clock>,
}

impl Auth {
    pub(super) fn new(
        token: Secret,
        metrics: Metrics,
        clock: Arc<dyn Clock>,
        limits: &Limits,
    ) -> Auth {
        Auth {
            door: Door::new(limits),
            token,
            metrics,
            clock,
        }
    }

    /// Why a request is not let in; none when it is.
    pub(super) fn refusal(&self, head: &Head, peer: SocketAddr) -> Option<Response> {
        let mut sent = head.values("authorization");
        let value = match (sent.next(), sent.next()) {
            // Two of them are nobody's: a proxy and we might each believe another one.
            (Some(_), Some(_)) => Some(&b""[..]),
            (first, _) => first,
        };
        let unauthorized = |message| {
            let response = Response::error(401, "unauthorized", message);
            Some(response.with("WWW-Authenticate", "Bearer"))
        };
        match self.door.knock(value, &self.token, self.clock.now()) {
            Entry::Open => None,
            Entry::Missing => unauthorized("send the admin token as Authorization: Bearer"),
            Entry::Wrong => {
                self.metrics.add(&ADMIN_AUTH_FAILURES, &[], 1);
                // At most as many lines a minute as the door looks at tokens.
                log::warn!(peer:% = peer; "admin_token_wrong");
                unauthorized("this is not the admin token")
            }
            Entry::TooMany => {
                self.metrics.add(&ADMIN_AUTH_FAILURES, &[], 1);
                let message = "too many wrong tokens, wait a minute";
                let response = Response::error(429, "too_many_failures", message);
                Some(response.with("Retry-After", "60"))
            }
        }
    }
}
