//! One connection, from its first byte to its last, on a thread of its own: reads a request, has it
//! judged, has it answered, and begins again. Must never wait without a limit, nor hold more of a
//! client's bytes than the caps allow.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::chunked::Chunked;
use super::client::Client;
use super::head::{Announced, Head, Version};
use super::refusal::Refusal;
use super::response::{After, Response};
use super::room::Ticket;
use super::scan::Scan;
use super::wire::{Silence, Wire};
use super::{Ends, Owner, Request, Verdict};
use crate::base::clock::{Clock, SystemClock};
use crate::domain::limits::Limits;

/// What is read of an unwanted rest so that the answer before it is not lost: a socket closed with
/// unread bytes sends a reset, which may overtake the answer.
const LINGER_BYTES: usize = 64 * 1024;
/// How long such a rest is waited for.
const LINGER_WAIT: Duration = Duration::from_secs(1);
/// Why reading a request ended without one.
enum Cut {
    /// The client is gone, or never began: nobody to answer.
    Gone,
    /// The client gets an answer, then the connection ends.
    Refused(Refusal),
}

impl From<Silence> for Cut {
    fn from(silence: Silence) -> Cut {
        match silence {
            Silence::Gone => Cut::Gone,
            Silence::Late => Cut::Refused(Refusal::Timeout),
        }
    }
}

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
    unread: bool,
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

    /// Serves requests until either side ends it.
    ///
    /// Blocks: for the life of the connection.
    pub(super) fn run(mut self, owner: &dyn Owner) {
        let mut first = true;
        loop {
            let head = match self.read_head(first) {
                Ok(head) => head,
                Err(Cut::Gone) => return,
                Err(Cut::Refused(refusal)) => return self.turn_away(refusal),
            };
            self.fate = Fate::Unanswered;
            self.exchange(head, owner);
            if self.fate != Fate::Open {
                return self.linger();
            }
            first = false;
        }
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

    /// The next head. Bytes of it that have come already are looked at before anything is waited
    /// for; the wait for the first head begins with the connection.
    fn read_head(&mut self, first: bool) -> Result<Head, Cut> {
        let mut scan = Scan::default();
        let mut waiting = first;
        let mut begun = first;
        let mut deadline = None;
        loop {
            let data = self.wire.data();
            let found = scan
                .look(data, self.limits.head_bytes, self.limits.head_fields)
                .and_then(|range| {
                    range.map_or(Ok(None), |range| {
                        let end = range.end;
                        Head::parse(&data[range]).map(|head| Some((head, end)))
                    })
                });
            if let Some((head, end)) = found.map_err(Cut::Refused)? {
                if waiting && !self.ticket.begin_work() {
                    return Err(Cut::Gone);
                }
                self.wire.consume(end);
                return Ok(head);
            }
            let now = Instant::now();
            if !waiting {
                if !self.ticket.wait_for_head(now) {
                    return Err(Cut::Gone);
                }
                waiting = true;
            }
            if !begun && !self.wire.data().is_empty() {
                (begun, deadline) = (true, None);
            }
            let wait = if begun {
                self.limits.head_wait
            } else {
                self.limits.front_idle
            };
            let until = *deadline.get_or_insert(now + wait);
            match self.wire.more(until) {
                Err(Silence::Late) if !begun => return Err(Cut::Gone),
                read => read?,
            }
        }
    }

    /// Judges, reads the body, has it answered; leaves the outcome in `fate`.
    fn exchange(&mut self, head: Head, owner: &dyn Owner) {
        let rules = Rules::of(&head);
        if head.path() == "/healthz" && matches!(head.method(), "GET" | "HEAD") {
            return self.answer_early(&head, &Response::text(200, "ok"), rules);
        }
        let ends = self.ends;
        let verdict = catch_unwind(AssertUnwindSafe(|| owner.judge(&head, ends)));
        let body_cap = match verdict {
            Ok(Verdict::Accept { body_cap }) => body_cap,
            Ok(Verdict::Refuse(response)) => return self.answer_early(&head, &response, rules),
            Err(_) => {
                log::error!(phase = "judge"; "front_owner_panicked");
                return self.refuse(Refusal::Fault);
            }
        };
        let body = match self.read_body(&head, body_cap) {
            Ok(body) => body,
            Err(cut) => {
                self.fate = Fate::Ended;
                if let Cut::Refused(refusal) = cut {
                    self.refuse(refusal);
                }
                return;
            }
        };
        let request = Request { head, body, ends };
        let client = Client {
            connection: &mut *self,
            rules,
        };
        if catch_unwind(AssertUnwindSafe(|| owner.serve(request, client))).is_err() {
            log::error!(phase = "serve"; "front_owner_panicked");
        } else if self.fate == Fate::Unanswered {
            log::error!("front_owner_gave_no_answer");
        }
        if self.fate == Fate::Unanswered {
            self.refuse(Refusal::Fault);
        }
    }

    /// Answers a request whose body is not read; without a body the connection goes on.
    fn answer_early(&mut self, head: &Head, response: &Response, mut rules: Rules) {
        self.unread = head.announced() != Announced::Nothing;
        rules.reuse &= !self.unread;
        // A client that is gone misses nothing.
        let _ = self.answer(response, rules);
    }

    /// The body, decoded; the clock starts now.
    fn read_body(&mut self, head: &Head, cap: usize) -> Result<Vec<u8>, Cut> {
        let length = match head.announced() {
            Announced::Nothing => return Ok(Vec::new()),
            Announced::Chunked => None,
            Announced::Length(bytes) => match usize::try_from(bytes) {
                Ok(bytes) if bytes <= cap => Some(bytes),
                _ => return Err(Cut::Refused(Refusal::TooLarge)),
            },
        };
        // A length is announced, not yet sent: memory is touched only as bytes come.
        let mut body = Vec::with_capacity(length.unwrap_or(0));
        let mut chunked = Chunked::new(cap);
        let mut deadline = None;
        loop {
            let data = self.wire.data();
            let taken = match length {
                Some(length) => {
                    let taken = data.len().min(length - body.len());
                    body.extend_from_slice(&data[..taken]);
                    taken
                }
                None => chunked.feed(data, &mut body).map_err(Cut::Refused)?,
            };
            self.wire.consume(taken);
            if length.map_or(chunked.done(), |length| body.len() == length) {
                return Ok(body);
            }
            let until = match deadline {
                Some(until) => until,
                None => {
                    if head.expects_continue() && body.is_empty() {
                        let go_on = IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n");
                        self.wire.write(&mut [go_on]).map_err(|_| Cut::Gone)?;
                    }
                    *deadline.insert(Instant::now() + self.limits.body_wait)
                }
            };
            self.wire.more(until)?;
        }
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
    fn linger(mut self) {
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
    reuse: bool,
    version: Version,
    /// The answer has a body on the wire (not so for HEAD).
    body: bool,
}

impl Rules {
    fn of(head: &Head) -> Rules {
        Rules {
            reuse: head.keep_alive(),
            version: head.version(),
            body: head.method() != "HEAD",
        }
    }
}
