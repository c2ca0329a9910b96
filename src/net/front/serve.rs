//! The life of one connection on its thread: reads a request, has it judged, has it answered, and
//! begins again. Must never wait without a limit, nor hold more of a client's bytes than the caps
//! allow.

use std::io::IoSlice;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Instant;

use super::chunked::Chunked;
use super::client::Client;
use super::connection::{Connection, Fate, Rules};
use super::head::{Announced, Head};
use super::refusal::Refusal;
use super::response::Response;
use super::scan::Scan;
use super::wire::Silence;
use super::{Owner, Request, Verdict};

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

impl Connection {
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
}
