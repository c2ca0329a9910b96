//! Gives up one outbound request from another thread by closing its socket.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::base::sync::lock;

/// A request to give up that is raised once. Clones share it.
///
/// A connection that works for a caller who holds this registers its socket; raising closes it, so
/// that a read or write in progress ends within a millisecond. A name look-up or a TCP connect in
/// progress is not interrupted; it ends by its own short limit.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<(Mutex<State>, Condvar)>);

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
            let mut state = lock(&self.0 .0);
            state.raised = true;
            std::mem::take(&mut state.sockets)
        };
        self.0 .1.notify_all();
        for socket in sockets.iter().filter_map(Weak::upgrade) {
            // A socket that is gone already is what was wanted.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Whether it has been raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        lock(&self.0 .0).raised
    }

    /// Whether both are the same request.
    #[must_use]
    pub fn same(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ties a socket to this request until [`Cancel::release`]; closes it at once where the
    /// request has been given up already.
    pub fn register(&self, socket: &Arc<TcpStream>) {
        let mut state = lock(&self.0 .0);
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

    /// Unties one socket: its request is over and the connection may serve another. Says whether
    /// that was in time: false where the request had been given up before.
    pub fn release(&self, socket: &Arc<TcpStream>) -> bool {
        let mut state = lock(&self.0 .0);
        state
            .sockets
            .retain(|known| known.as_ptr() != Arc::as_ptr(socket));
        !state.raised
    }

    /// Waits up to `span` and says whether it was raised meanwhile.
    ///
    /// Blocks: for `span` at most.
    #[must_use]
    pub fn wait(&self, span: Duration) -> bool {
        let state = lock(&self.0 .0);
        let (state, _) = self
            .0
             .1
            .wait_timeout_while(state, span, |state| !state.raised)
            .unwrap_or_else(PoisonError::into_inner);
        state.raised
    }
}
