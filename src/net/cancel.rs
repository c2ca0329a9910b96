//! Gives up one outbound request from another thread by closing its socket.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, Weak};

use crate::base::sync::lock;

/// A request to give up that is raised once. Clones share it.
///
/// A connection that works for a caller who holds this registers its socket; raising closes it, so
/// that a read or write in progress ends within a millisecond. A name look-up or a TCP connect in
/// progress is not interrupted; it ends by its own short limit.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    raised: bool,
    sockets: Vec<Weak<TcpStream>>,
}

impl Cancel {
    /// A fresh one, not raised.
    #[must_use]
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// Raises it and closes the sockets registered so far; later ones are closed as they register.
    pub fn raise(&self) {
        let sockets = {
            let mut state = lock(&self.0);
            state.raised = true;
            std::mem::take(&mut state.sockets)
        };
        for socket in sockets.iter().filter_map(Weak::upgrade) {
            // A socket that is gone already is what was wanted.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether it has been raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        lock(&self.0).raised
    }

    /// Whether both are the same request.
    #[must_use]
    pub fn same(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ties a socket to this request until [`Cancel::release`]; closes it at once where the
    /// request has been given up already.
    pub fn register(&self, socket: &Arc<TcpStream>) {
        let mut state = lock(&self.0);
        if state.raised {
            drop(state);
            let _ = socket.shutdown(Shutdown::Both);
            return;
        }
        state.sockets.retain(|known| known.strong_count() > 0);
        if !state
            .sockets
            .iter()
            .any(|known| known.as_ptr() == Arc::as_ptr(socket))
        {
            state.sockets.push(Arc::downgrade(socket));
        }
    }

    /// Unties all sockets: the request is over and its connection may serve another.
    pub fn release(&self) {
        lock(&self.0).sockets.clear();
    }
}
