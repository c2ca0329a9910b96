//! A way between a client and a server of a test, through which the network can go away, in each of
//! the manners in which networks do. Runs on threads of its own; ends with its value.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::daemon::own_host;

/// How often a thread looks whether something has changed.
const TICK: Duration = Duration::from_millis(10);
/// Connections that may wait to be taken while the way is open.
const BACKLOG: i32 = 128;

/// How the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All is well.
    Open,
    /// Connections end, new ones are refused.
    Refused,
    /// Nothing gets through, and nothing comes back: connections fall silent, new ones are never made.
    Swallowed,
    /// Connections fall silent, new ones are made and silent too.
    Silent,
}

#[derive(Clone, Copy)]
enum End {
    Client,
    Server,
}

/// One connection.
struct Line {
    client: TcpStream,
    server: Option<TcpStream>,
    silent: AtomicBool,
}

struct State {
    way: Way,
    listener: Option<TcpListener>,
    /// Our own connections, which keep others out.
    fillers: Vec<TcpStream>,
    lines: Vec<Arc<Line>>,
    /// Connections that have fallen silent: held open to the end, so that nobody hears of it.
    silent: Vec<Arc<Line>>,
}

struct Shared {
    addr: SocketAddr,
    server: SocketAddr,
    state: Mutex<State>,
    stop: AtomicBool,
}

/// The way.
pub struct Relay {
    shared: Arc<Shared>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Relay {
    /// An open way to a server, at an address of its own.
    pub fn to(server: SocketAddr) -> Relay {
        let any = format!("{}:0", own_host());
        let listener = listen(any.parse().expect("an address"));
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            addr,
            server,
            state: Mutex::new(State {
                way: Way::Open,
                listener: Some(listener),
                fillers: Vec::new(),
                lines: Vec::new(),
                silent: Vec::new(),
            }),
            stop: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let accepting = thread::spawn(move || theirs.accept_all());
        Relay {
            shared,
            accepting: Some(accepting),
        }
    }

    /// Where it begins.
    pub fn addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// Changes the way. What has fallen silent stays so.
    pub fn set(&self, way: Way) {
        let mut state = self.shared.state.lock().expect("relay");
        state.way = way;
        for line in std::mem::take(&mut state.lines) {
            line.fall_silent();
            if way == Way::Refused {
                let _ = line.client.shutdown(Shutdown::Both);
            }
            state.silent.push(line);
        }
        state.fillers.clear();
        match way {
            Way::Refused => state.listener = None,
            Way::Swallowed => fill(&mut state, self.shared.addr),
            Way::Open | Way::Silent => match &state.listener {
                // A new call changes how many may wait (listen(2), Linux).
                Some(listener) => rustix::net::listen(listener, BACKLOG).expect("listen"),
                None => state.listener = Some(listen(self.shared.addr)),
            },
        }
    }
}

fn listen(addr: SocketAddr) -> TcpListener {
    let listener = TcpListener::bind(addr).expect("listen on an address of our own");
    listener.set_nonblocking(true).expect("a listener");
    listener
}

/// Fills the queue of those who wait to be taken, so that the kernel answers nobody else.
fn fill(state: &mut State, addr: SocketAddr) {
    let listener = state.listener.as_ref().expect("a way that was open");
    rustix::net::listen(listener, 0).expect("listen");
    let began = Instant::now();
    while let Ok(filler) = TcpStream::connect_timeout(&addr, Duration::from_millis(300)) {
        state.fillers.push(filler);
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "the queue is never full"
        );
    }
}

impl Shared {
    fn accept_all(self: &Arc<Self>) {
        while !self.stop.load(Ordering::SeqCst) {
            if !self.accept() {
                thread::sleep(TICK);
            }
        }
    }

    /// Takes one connection, if there is one to take.
    fn accept(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock().expect("relay");
        let (way, listener) = (state.way, state.listener.as_ref());
        if way == Way::Swallowed {
            return false;
        }
        let Some(Ok((client, _))) = listener.map(TcpListener::accept) else {
            return false;
        };
        let server = match way {
            Way::Open => TcpStream::connect(self.server).ok(),
            _ => None,
        };
        let silent = AtomicBool::new(server.is_none());
        let line = Arc::new(Line {
            client,
            server,
            silent,
        });
        let Some(server) = &line.server else {
            state.silent.push(line);
            return true;
        };
        let _ = (line.client.set_nodelay(true), server.set_nodelay(true));
        for end in [End::Client, End::Server] {
            let theirs = line.clone();
            thread::spawn(move || theirs.carry(end));
        }
        state.lines.push(line);
        true
    }
}

impl Line {
    /// The client hears nothing more, not even an end; the server knows that it is gone.
    fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
        if let Some(server) = &self.server {
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// Carries what comes from one end to the other.
    fn carry(&self, from: End) {
        let Some(server) = &self.server else { return };
        let (mut from, mut to) = match from {
            End::Client => (&self.client, server),
            End::Server => (server, &self.client),
        };
        let mut buffer = [0; 16 * 1024];
        let mut carried = || {
            let read = from.read(&mut buffer).ok().filter(|read| *read > 0)?;
            (!self.silent.load(Ordering::SeqCst)).then_some(())?;
            to.write_all(&buffer[..read]).ok()
        };
        while carried().is_some() {}
        if !self.silent.load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        let mut state = self.shared.state.lock().expect("relay");
        let lines = std::mem::take(&mut state.lines);
        for line in lines.iter().chain(&state.silent) {
            for stream in [Some(&line.client), line.server.as_ref()]
                .into_iter()
                .flatten()
            {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}
