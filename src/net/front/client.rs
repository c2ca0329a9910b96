//! The client of one request as its owner sees it: there or gone, and answered once. Runs on the
//! connection's thread, called by the owner.

use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use super::connection::{Connection, Fate, Rules};
use super::refusal::Refusal;
use super::response::Response;
use super::room::StreamPlace;

/// What a relayed head says besides: its source cannot know that the connection ends with it.
const CLOSES: &[u8] = b"Connection: close\r\n";
/// Bytes copied at a time from a relay's source.
const RELAY_BYTES: usize = 8 * 1024;

/// The client of one request, to be answered once.
pub struct Client<'c> {
    pub(super) connection: &'c mut Connection,
    pub(super) rules: Rules,
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
    /// A stream, up to [`crate::domain::limits::Limits::stream_life`]; it ends as soon as the client leaves.
    Stream(StreamPlace),
}

impl Client<'_> {
    /// Whether the client has left: its side of the connection is closed. One that merely ended
    /// its sending side looks the same and counts as gone.
    #[must_use]
    pub fn left(&self) -> bool {
        self.connection.wire.left()
    }

    /// Sends the answer. `Ok` means that the operating system took all of it for the client.
    ///
    /// Blocks: up to [`crate::domain::limits::Limits::answer_write`] without progress, six times that in all.
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
    /// connection ends too, which the front adds to the head. Where the source gives
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

/// Bytes of the status line, its end included; none where the line is not whole.
fn first_line(piece: &[u8]) -> usize {
    let end = piece.windows(2).position(|pair| pair == b"\r\n");
    end.map_or(0, |at| at + 2)
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
            PollFd::new(connection.wire.socket(), watch),
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
            let piece = &piece[..count];
            let (status, rest) = piece.split_at(if *copied { 0 } else { first_line(piece) });
            let notice: &[u8] = if status.is_empty() { b"" } else { CLOSES };
            *copied = true;
            let parts = [status, notice, rest];
            connection.wire.write(&mut parts.map(IoSlice::new))?;
        }
    }
}
