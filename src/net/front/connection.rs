//! One connection: its socket, its place, and how an answer leaves it. On a thread of its own; must
//! never wait without a limit.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::head::{Head, Version};
use super::refusal::Refusal;
use super::response::{After, Response};
use super::room::Ticket;
use super::wire::Wire;
use super::Ends;
use crate::base::clock::{Clock, SystemClock};
use crate::domain::limits::Limits;

/// What is read of an unwanted rest so that the answer before it is not lost: a socket closed with
/// unread bytes sends a reset, which may overtake the answer.
const LINGER_BYTES: usize = 64 * 1024;
/// How long such a rest is waited for.
const LINGER_WAIT: Duration = Duration::from_secs(1);
/// What became of the answer to the request in work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Unanswered,
    /// Written; the connection can take another request.
    Open,
    /// Written or given up; the connection ends.
    Ended,
}

/// A connection and what it reuses from request to request.
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) ends: Ends,
    pub(super) ticket: Ticket,
    pub(super) limits: Arc<Limits>,
    out: Vec<u8>,
    pub(super) fate: Fate,
    /// The client may still be sending what nobody will read.
    pub(super) unread: bool,
}

impl Connection {
    /// Takes over an accepted socket.
    pub(super) fn new(
        socket: Arc<TcpStream>,
        peer: SocketAddr,
        ticket: Ticket,
        limits: Arc<Limits>,
    ) -> io::Result<Connection> {
        let canonical =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let ends = Ends {
            peer: canonical(peer),
            local: canonical(socket.local_addr()?),
        };
        Ok(Connection {
            wire: Wire::new(socket, &limits)?,
            out: Vec::new(),
            fate: Fate::Unanswered,
            unread: false,
            ends,
            ticket,
            limits,
        })
    }

    /// Tells the client why it is not served, and ends.
    ///
    /// Blocks: for one write and [`LINGER_WAIT`].
    pub(super) fn turn_away(mut self, refusal: Refusal) {
        self.refuse(refusal);
        self.linger();
    }

    /// Answers in place of the owner; the connection will end.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        let response = refusal.response();
        log::debug!(peer:% = self.ends.peer, status = response.status(); "request_refused");
        let rules = Rules {
            reuse: false,
            version: Version::Http11,
            body: true,
        };
        self.unread = true;
        // A client that is gone misses nothing.
        let _ = self.answer(&response, rules);
    }

    /// Writes an answer and notes whether the connection goes on.
    pub(super) fn answer(&mut self, response: &Response, rules: Rules) -> io::Result<()> {
        let after = match rules.version {
            _ if !rules.reuse || self.ticket.room().closing() => After::Close,
            Version::Http11 => After::Open,
            Version::Http10 => After::KeptOpen,
        };
        let mut out = std::mem::take(&mut self.out);
        response.write_head(&mut out, after, SystemClock.unix());
        let content = if rules.body { response.content() } else { b"" };
        let written = self
            .wire
            .write(&mut [IoSlice::new(&out), IoSlice::new(content)]);
        self.out = out;
        self.fate = match (&written, after) {
            (Ok(()), After::Open | After::KeptOpen) => Fate::Open,
            _ => Fate::Ended,
        };
        self.unread &= written.is_ok();
        written
    }

    /// Where something was left unread: ends the sending side and reads a bounded rest, so that
    /// the last answer arrives. Meanwhile the connection may be closed to make room.
    ///
    /// Blocks: for [`LINGER_WAIT`] at most.
    pub(super) fn linger(mut self) {
        let unread = self.unread || !self.wire.data().is_empty();
        if !unread || self.wire.end_sending().is_err() {
            return;
        }
        self.ticket.yield_place();
        self.wire.consume(usize::MAX);
        let until = Instant::now() + LINGER_WAIT;
        let mut read = 0;
        while read < LINGER_BYTES && self.wire.more(until).is_ok() {
            read += self.wire.data().len();
            self.wire.consume(usize::MAX);
        }
    }
}

/// What a request asks of its answer.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// The connection may take another request.
    pub(super) reuse: bool,
    version: Version,
    /// The answer has a body on the wire (not so for HEAD).
    body: bool,
}

impl Rules {
    pub(super) fn of(head: &Head) -> Rules {
        Rules {
            reuse: head.keep_alive(),
            version: head.version(),
            body: head.method() != "HEAD",
        }
    }
}
