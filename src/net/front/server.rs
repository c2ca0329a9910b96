//! One listening port: accepts connections and gives each a thread, within the bounds of its room.
//! The accepting thread sleeps in `accept`; it must survive whatever a client or a full table of
//! descriptors does to it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::refusal::Refusal;
use super::room::{Admission, Room};
use super::{Owner, STACK_BYTES};
use crate::base::sync::{spawn, Stop};
use crate::domain::limits::Limits;

/// How long accepting pauses after an error: long enough not to spin, short enough not to be felt.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often an accept error is logged at most.
const ACCEPT_LOG: Duration = Duration::from_secs(60);
/// How long threads whose connection has been closed are waited for on the way out.
const CLOSED_WAIT: Duration = Duration::from_secs(1);

/// A port that is being served. Dropping it closes the port and every connection at once;
/// [`Front::stop`] lets requests in work finish.
#[derive(Debug)]
pub struct Front {
    name: String,
    local: SocketAddr,
    stop: Stop,
    room: Arc<Room>,
    accepting: Option<(Arc<TcpListener>, JoinHandle<()>)>,
}

impl Front {
    /// Begins to serve a bound listener; `name` names its threads.
    ///
    /// # Errors
    /// The operating system refuses the thread or does not know the socket.
    pub fn start(
        name: &str,
        listener: TcpListener,
        owner: Arc<dyn Owner>,
        limits: &Limits,
    ) -> io::Result<Front> {
        let local = listener.local_addr()?;
        listener.set_nonblocking(false)?;
        let (stop, room) = (Stop::new(), Arc::new(Room::new(limits)));
        let listener = Arc::new(listener);
        let accept = Accept {
            name: name.to_owned(),
            listener: Arc::clone(&listener),
            stop: stop.clone(),
            room: Arc::clone(&room),
            owner,
            limits: Arc::new(limits.clone()),
        };
        let thread = spawn(&format!("front:{name}"), STACK_BYTES, move || accept.run())?;
        Ok(Front {
            name: name.to_owned(),
            local,
            stop,
            room,
            accepting: Some((listener, thread)),
        })
    }

    /// The address it listens on, with the port that was really taken.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Closes the port and idle connections at once, lets requests in work finish, then closes
    /// the rest. The port is free when this returns.
    ///
    /// Blocks: for `patience` and about a second at most.
    pub fn stop(mut self, patience: Duration) {
        self.end(patience);
    }

    fn end(&mut self, patience: Duration) {
        let Some((listener, thread)) = self.accepting.take() else {
            return;
        };
        self.stop.raise();
        // On Linux this ends a listening socket and wakes whoever sleeps in accept.
        if let Err(error) = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both) {
            log::warn!(port = self.name.as_str(), error:% = error; "front_listener_not_closed");
        }
        if thread.join().is_err() {
            log::error!(port = self.name.as_str(); "front_accept_panicked");
        }
        drop(listener);
        self.room.close();
        if !self.room.empty(patience) {
            self.room.close_all();
            if !self.room.empty(CLOSED_WAIT) {
                log::warn!(port = self.name.as_str(); "front_requests_left_behind");
            }
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// The accepting thread's own things.
struct Accept {
    name: String,
    listener: Arc<TcpListener>,
    stop: Stop,
    room: Arc<Room>,
    owner: Arc<dyn Owner>,
    limits: Arc<Limits>,
}

impl Accept {
    /// Blocks: until the port is stopped.
    fn run(self) {
        let mut logged: Option<Instant> = None;
        loop {
            let accepted = self.listener.accept();
            if self.stop.raised() {
                return;
            }
            match accepted {
                Ok((socket, peer)) => self.take_in(socket, peer),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors or memory, most likely: whoever waits longest gives one back.
                    self.room.make_room();
                    if logged.is_none_or(|at: Instant| at.elapsed() > ACCEPT_LOG) {
                        log::warn!(port = self.name.as_str(), error:% = error; "front_accept_failed");
                        logged = Some(Instant::now());
                    }
                    if self.stop.wait(ACCEPT_PAUSE) {
                        return;
                    }
                }
            }
        }
    }

    /// Gives a connection its thread, or one that says why it gets none.
    fn take_in(&self, socket: TcpStream, peer: SocketAddr) {
        let socket = Arc::new(socket);
        let (ticket, refused) = match self.room.admit(&socket, peer.ip(), Instant::now()) {
            Admission::Seated(ticket) => (ticket, None),
            Admission::Refused(ticket, why) => (ticket, Some(Refusal::Unavailable(why))),
            Admission::TurnedAway => return,
        };
        let (owner, limits) = (Arc::clone(&self.owner), Arc::clone(&self.limits));
        let work = move || {
            // A client that is gone by now is the only way for this to fail.
            let Ok(connection) = Connection::new(socket, peer, ticket, limits) else {
                return;
            };
            match refused {
                Some(refusal) => connection.turn_away(refusal),
                None => connection.run(&*owner),
            }
        };
        if let Err(error) = spawn(&format!("http:{}", self.name), STACK_BYTES, work) {
            log::warn!(port = self.name.as_str(), error:% = error; "front_thread_refused");
        }
    }
}
