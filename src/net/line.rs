//! One connection, plain or TLS, as ureq's transport: every wait has a deadline, and whoever gives
//! the request up can close it, also when it comes out of the pool. Runs on the thread of the
//! request; never dials by itself.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::ClientConnection;
use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, Transport};

use super::call::{self, Pool};
use super::error::HttpError;
use super::tls;

/// A socket whose reads and writes end at a deadline.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: Arc<TcpStream>,
    pub(super) until: Instant,
}

impl Socket {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

/// What the kernel says when a socket's own time limit ends.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match (&*self.stream).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(timed_out),
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match (&*self.stream).write(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(timed_out),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One connection.
pub(super) struct Line {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    buffers: LazyBuffers,
    /// The request that it served last.
    call: usize,
}

impl Line {
    pub(super) fn new(
        socket: Socket,
        tls: Option<ClientConnection>,
        buffers: LazyBuffers,
        call: usize,
    ) -> Line {
        Line {
            socket,
            tls: tls.map(Box::new),
            buffers,
            call,
        }
    }

    /// Makes it the connection of this thread's request and sets the time for one step.
    fn attend(&mut self, timeout: NextTimeout) -> Instant {
        self.call = call::tie(self.call, &self.socket.stream);
        let now = Instant::now();
        // Every request has a global limit, so "never" is not asked for; a day bounds it anyway.
        let until = now
            .checked_add(*timeout.after)
            .unwrap_or(now + Duration::from_secs(86_400));
        self.socket.until = until;
        until
    }
}

fn failed(error: io::Error, timeout: NextTimeout) -> ureq::Error {
    if error.kind() == io::ErrorKind::TimedOut {
        return ureq::Error::Timeout(timeout.reason);
    }
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(error) => other(tls::trouble(error)),
        None => ureq::Error::Io(error),
    }
}

/// An error of ours on its way through ureq.
pub(super) fn other(error: HttpError) -> ureq::Error {
    ureq::Error::Other(Box::new(error))
}

impl Transport for Line {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.attend(timeout);
        let output = &self.buffers.output()[..amount];
        match &mut self.tls {
            None => self.socket.write_all(output),
            Some(tls) => {
                let mut stream = rustls::Stream::new(tls.as_mut(), &mut self.socket);
                stream.write_all(output).and_then(|()| stream.flush())
            }
        }
        .map_err(|error| failed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.attend(timeout);
        let input = self.buffers.input_append_buf();
        let amount = match &mut self.tls {
            None => self.socket.read(input),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.socket).read(input),
        }
        .map_err(|error| failed(error, timeout))?;
        self.buffers.input_appended(amount);
        if amount > 0 {
            call::with(|call| call.answered = true);
        }
        Ok(amount > 0)
    }

    /// Asked twice: when a request ends and the connection goes back to the pool, and when another
    /// one takes it from there.
    fn is_open(&mut self) -> bool {
        let usable = call::with(|call| {
            if call.id == self.call {
                // On its way back: from here on, giving up that request must not touch it.
                call.cancel.release(&self.socket.stream)
            } else {
                call.pool == Pool::Use
            }
        });
        usable.unwrap_or(true) && silent(&self.socket.stream)
    }

    fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Whether an idle connection is as it should be: open, and with nothing to read.
fn silent(stream: &TcpStream) -> bool {
    let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(
        rustix::net::recv(stream, &mut [0_u8], look),
        Err(Errno::AGAIN)
    )
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("peer", &self.socket.stream.peer_addr().ok())
            .field("tls", &self.tls.is_some())
            .finish()
    }
}
