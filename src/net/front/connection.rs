//! One connection, from its first byte to its last, on a thread of its own: reads a request, has it
//! judged, has it answered, and begins again. Must never wait without a limit, nor hold more of a
//! client's bytes than the caps allow.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use super::buffer::Buffer;
use super::chunked::Chunked;
use super::head::{self, Announced, Head, Scan, Version};
use super::refusal::Refusal;
use super::response::{After, Response};
use super::room::{StreamPlace, Ticket};
use super::{Ends, Owner, Request, Verdict};
use crate::base::clock::{Clock, SystemClock};
use crate::domain::limits::Limits;

/// What is read of an unwanted rest so that the answer before it is not lost: a socket closed with
/// unread bytes sends a reset, which may overtake the answer.
const LINGER_BYTES: usize = 64 * 1024;
/// How long such a rest is waited for.
const LINGER_WAIT: Duration = Duration::from_secs(1);
/// A whole answer may take so many times the limit of one write.
const WRITES_PER_ANSWER: u32 = 6;
/// A read limit that is off by so little stays: this saves a system call with every request, and
/// the clock is read again after each wait.
const READ_LIMIT_SLACK: Duration = Duration::from_millis(5);
/// Bytes copied at a time from a relay's source.
const RELAY_BYTES: usize = 8 * 1024;

/// Why reading a request ended without one.
enum Cut {
    /// The client is gone, or never began: nobody to answer.
    Gone,
    /// The client gets an answer, then the connection ends.
    Refused(Refusal),
}

/// What became of the answer to the request in work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unanswered,
    /// Written; the connection can take another request.
    Open,
    /// Written or given up; the connection ends.
    Ended,
}

/// A connection and what it reuses from request to request.
pub(super) struct Connection {
    socket: Arc<TcpStream>,
    ends: Ends,
    ticket: Ticket,
    limits: Arc<Limits>,
    buffer: Buffer,
    out: Vec<u8>,
    read_timeout: Duration,
    fate: Fate,
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
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(limits.answer_write))?;
        socket.set_read_timeout(Some(limits.head_wait))?;
        Ok(Connection {
            // Room for the longest head and the one empty line before it.
            buffer: Buffer::new(limits.head_bytes + 2),
            read_timeout: limits.head_wait,
            out: Vec::new(),
            fate: Fate::Unanswered,
            unread: false,
            socket,
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
    fn refuse(&mut self, refusal: Refusal) {
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
            let data = self.buffer.data();
            let found = scan
                .look(data, self.limits.head_bytes, self.limits.head_fields)
                .and_then(|range| {
                    range.map_or(Ok(None), |range| {
                        let end = range.end;
                        head::parse(&data[range]).map(|head| Some((head, end)))
                    })
                });
            if let Some((head, end)) = found.map_err(Cut::Refused)? {
                if waiting && !self.ticket.begin_work() {
                    return Err(Cut::Gone);
                }
                self.buffer.consume(end);
                return Ok(head);
            }
            let now = Instant::now();
            if !waiting {
                if !self.ticket.wait_for_head(now) {
                    return Err(Cut::Gone);
                }
                waiting = true;
            }
            if !begun && !self.buffer.data().is_empty() {
                (begun, deadline) = (true, None);
            }
            let wait = if begun {
                self.limits.head_wait
            } else {
                self.limits.front_idle
            };
            let until = *deadline.get_or_insert(now + wait);
            match self.more(until) {
                Err(Cut::Refused(Refusal::Timeout)) if !begun => return Err(Cut::Gone),
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
            let data = self.buffer.data();
            let taken = match length {
                Some(length) => {
                    let taken = data.len().min(length - body.len());
                    body.extend_from_slice(&data[..taken]);
                    taken
                }
                None => chunked.feed(data, &mut body).map_err(Cut::Refused)?,
            };
            self.buffer.consume(taken);
            if length.map_or(chunked.done(), |length| body.len() == length) {
                return Ok(body);
            }
            let until = match deadline {
                Some(until) => until,
                None => {
                    if head.expects_continue() && body.is_empty() {
                        let go_on = IoSlice::new(b"HTTP/1.1 100 Continue\r\n\r\n");
                        self.write(&mut [go_on]).map_err(|_| Cut::Gone)?;
                    }
                    *deadline.insert(Instant::now() + self.limits.body_wait)
                }
            };
            self.more(until)?;
        }
    }

    /// Reads once.
    ///
    /// Blocks: until something came, up to `until`.
    fn more(&mut self, until: Instant) -> Result<(), Cut> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Cut::Refused(Refusal::Timeout));
            }
            self.limit_read(left).map_err(|_| Cut::Gone)?;
            match self.buffer.fill(&mut &*self.socket) {
                Ok(0) => return Err(Cut::Gone),
                Ok(_) => return Ok(()),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(Cut::Gone),
                },
            }
        }
    }

    /// Sets the socket's read limit where it is not about what is wanted already.
    fn limit_read(&mut self, left: Duration) -> io::Result<()> {
        if self.read_timeout.abs_diff(left) > READ_LIMIT_SLACK {
            self.socket.set_read_timeout(Some(left))?;
            self.read_timeout = left;
        }
        Ok(())
    }

    /// Writes an answer and notes whether the connection goes on.
    fn answer(&mut self, response: &Response, rules: Rules) -> io::Result<()> {
        let after = match rules.version {
            _ if !rules.reuse || self.ticket.room().closing() => After::Close,
            Version::Http11 => After::Open,
            Version::Http10 => After::KeptOpen,
        };
        let mut out = std::mem::take(&mut self.out);
        response.write_head(&mut out, after, SystemClock.unix());
        let content = if rules.body { response.content() } else { b"" };
        let written = self.write(&mut [IoSlice::new(&out), IoSlice::new(content)]);
        self.out = out;
        self.fate = match (&written, after) {
            (Ok(()), After::Open | After::KeptOpen) => Fate::Open,
            _ => Fate::Ended,
        };
        self.unread &= written.is_ok();
        written
    }

    /// Writes everything to the socket, in one call where it takes it.
    ///
    /// Blocks: up to the limit of a write without progress, and [`WRITES_PER_ANSWER`] times that
    /// in all.
    fn write(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut deadline = None;
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            match (&*self.socket).write_vectored(parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut parts, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into())
                }
                Err(error) => return Err(error),
            }
            if !parts.is_empty() {
                let now = Instant::now();
                let most = self.limits.answer_write * WRITES_PER_ANSWER;
                if now > *deadline.get_or_insert(now + most) {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
    }

    /// Where something was left unread: ends the sending side and reads a bounded rest, so that
    /// the last answer arrives. Meanwhile the connection may be closed to make room.
    ///
    /// Blocks: for [`LINGER_WAIT`] at most.
    fn linger(mut self) {
        let unread = self.unread || !self.buffer.data().is_empty();
        if !unread || self.socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.ticket.yield_place();
        self.buffer.consume(usize::MAX);
        let until = Instant::now() + LINGER_WAIT;
        let mut read = 0;
        while read < LINGER_BYTES && self.more(until).is_ok() {
            read += self.buffer.data().len();
            self.buffer.consume(usize::MAX);
        }
    }

    /// Whether the client has ended its side or is gone altogether.
    fn left(&self) -> bool {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// What a request asks of its answer.
#[derive(Clone, Copy)]
struct Rules {
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

/// The client of one request, to be answered once.
pub struct Client<'c> {
    connection: &'c mut Connection,
    rules: Rules,
}

impl std::fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.connection.ends.peer)
    }
}

/// What is relayed to a client, and so how long it may take.
#[derive(Debug)]
pub enum Relay {
    /// One answer, within this time; a client that has ended its sending side still gets it.
    Answer(Duration),
    /// A stream, up to [`Limits::stream_life`]; it ends as soon as the client leaves.
    Stream(StreamPlace),
}

impl Client<'_> {
    /// Whether the client has left: its side of the connection is closed. One that merely ended
    /// its sending side looks the same and counts as gone.
    #[must_use]
    pub fn left(&self) -> bool {
        self.connection.left()
    }

    /// Sends the answer. `Ok` means that the operating system took all of it for the client.
    ///
    /// Blocks: up to [`Limits::answer_write`] without progress, six times that in all.
    ///
    /// # Errors
    /// The client is gone or does not read; the connection ends.
    pub fn respond(self, response: &Response) -> io::Result<()> {
        self.connection.answer(response, self.rules)
    }

    /// A place among the streams of this port; none while all are taken.
    #[must_use]
    pub fn stream_place(&self) -> Option<StreamPlace> {
        self.connection.ticket.room().stream()
    }

    /// Copies what `source` sends, head included, to the client until either side ends; then the
    /// connection ends too, so the source has to say `Connection: close`. Where the source gives
    /// nothing at all in its time, the client gets a 503. `source` is closed on the way out.
    ///
    /// Blocks: as long as [`Relay`] says.
    ///
    /// # Errors
    /// Either side failed, or time ran out; the connection ends.
    pub fn relay(self, source: &UnixStream, kind: &Relay) -> io::Result<()> {
        let (life, watch) = match kind {
            Relay::Answer(life) => (*life, PollFlags::empty()),
            Relay::Stream(_) => (self.connection.limits.stream_life, PollFlags::RDHUP),
        };
        let mut copied = false;
        let end = copy(self.connection, source, life, watch, &mut copied);
        let _ = source.shutdown(Shutdown::Both);
        self.connection.fate = Fate::Ended;
        if !copied {
            let refusal = Refusal::Unavailable("the part behind this port did not answer");
            self.connection.refuse(refusal);
            return end.and(Err(ErrorKind::UnexpectedEof.into()));
        }
        end
    }
}

/// The loop of [`Client::relay`]. Sleeps until the source has something, `watch` sees the client
/// leave, or `life` is over.
fn copy(
    connection: &Connection,
    mut source: &UnixStream,
    life: Duration,
    watch: PollFlags,
    copied: &mut bool,
) -> io::Result<()> {
    let until = Instant::now() + life;
    let mut piece = vec![0; RELAY_BYTES];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut fds = [
            PollFd::new(source, PollFlags::IN),
            PollFd::new(&*connection.socket, watch),
        ];
        let wait = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
        match poll(&mut fds, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let (ready, gone) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if ready {
            let count = source.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            *copied = true;
            connection.write(&mut [IoSlice::new(&piece[..count])])?;
        }
    }
}
