//! A client's socket and what has been read from it and not been used yet. One buffer for the life
//! of the connection, on its thread. Must never wait without a limit.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::domain::limits::Limits;

/// A read limit that is off by so little stays: this saves a system call with every request, and
/// the clock is read again after each wait.
const READ_LIMIT_SLACK: Duration = Duration::from_millis(5);

/// A whole answer may take so many times the limit of one write.
const WRITES_PER_ANSWER: u32 = 6;
/// Why nothing more comes.
pub(super) enum Silence {
    /// The client has ended its side, or is gone.
    Gone,
    /// It did not send in time.
    Late,
}

/// The socket and the bytes between two marks of a fixed allocation.
pub(super) struct Wire {
    socket: Arc<TcpStream>,
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
    read_timeout: Duration,
    answer_write: Duration,
}

impl Wire {
    /// Sets the socket up; its first read may last as long as a head may.
    pub(super) fn new(socket: Arc<TcpStream>, limits: &Limits) -> io::Result<Wire> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(limits.answer_write))?;
        socket.set_read_timeout(Some(limits.head_wait))?;
        Ok(Wire {
            socket,
            // Room for the longest head and the one empty line before it.
            bytes: vec![0; limits.head_bytes + 2].into(),
            from: 0,
            to: 0,
            read_timeout: limits.head_wait,
            answer_write: limits.answer_write,
        })
    }

    /// The socket, to be waited on beside another.
    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// What has come and not been used.
    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Takes `count` bytes away from the beginning, or all there are.
    pub(super) fn consume(&mut self, count: usize) {
        self.from = self.from.saturating_add(count).min(self.to);
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Reads once.
    ///
    /// Blocks: until something came, up to `until`.
    pub(super) fn more(&mut self, until: Instant) -> Result<(), Silence> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Silence::Late);
            }
            self.limit_read(left).map_err(|_| Silence::Gone)?;
            match self.fill() {
                Ok(0) => return Err(Silence::Gone),
                Ok(_) => return Ok(()),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(Silence::Gone),
                },
            }
        }
    }

    /// Reads once into the room behind what is there and says how many bytes came.
    fn fill(&mut self) -> io::Result<usize> {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        debug_assert!(
            self.to < self.bytes.len(),
            "a full buffer was asked for more"
        );
        let count = (&*self.socket).read(&mut self.bytes[self.to..])?;
        self.to += count;
        Ok(count)
    }

    /// Sets the socket's read limit where it is not about what is wanted already.
    fn limit_read(&mut self, left: Duration) -> io::Result<()> {
        if self.read_timeout.abs_diff(left) > READ_LIMIT_SLACK {
            self.socket.set_read_timeout(Some(left))?;
            self.read_timeout = left;
        }
        Ok(())
    }

    /// Writes everything to the socket, in one call where it takes it.
    ///
    /// Blocks: up to the limit of a write without progress, and [`WRITES_PER_ANSWER`] times that
    /// in all.
    pub(super) fn write(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
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
                let most = self.answer_write * WRITES_PER_ANSWER;
                if now > *deadline.get_or_insert(now + most) {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes; it may still send.
    pub(super) fn end_sending(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// Whether the client has ended its side or is gone altogether.
    pub(super) fn left(&self) -> bool {
        let mut fds = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}
