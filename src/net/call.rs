//! The request that this thread is sending: how a connection out of the pool learns whose it is.
//!
//! ureq hands a pooled connection to a request without a word to the connector, so the connection
//! itself looks here, on the thread of the request, each time it is used. Holds no lock, does no I/O.

use std::cell::RefCell;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::cancel::Cancel;

thread_local! {
    static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// One request on this thread.
#[derive(Debug)]
pub(super) struct Call {
    /// Tells this request from those that a connection served before; never 0.
    pub(super) id: usize,
    /// Gives it up.
    pub(super) cancel: Cancel,
    /// When name look-up, TCP and TLS must be done.
    pub(super) connected_by: Instant,
    /// Whether an idle connection may serve it.
    pub(super) pool: Pool,
    /// Whether it has dialled a connection of its own.
    pub(super) dialled: bool,
    /// Whether a byte of an answer has come in.
    pub(super) answered: bool,
}

/// Whether an idle connection may serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// It may.
    Use,
    /// Only a new connection will do.
    Avoid,
}

/// Ends the request when it goes.
#[derive(Debug)]
pub(super) struct Running(());

/// Makes this the request of the thread.
pub(super) fn begin(cancel: &Cancel, connected_by: Instant, pool: Pool) -> Running {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    // 0 stands for "served nobody yet"; the counter comes round after four thousand million.
    let id = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    CURRENT.with_borrow_mut(|current| {
        *current = Some(Call {
            id,
            cancel: cancel.clone(),
            connected_by,
            pool,
            dialled: false,
            answered: false,
        });
    });
    Running(())
}

impl Drop for Running {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

/// Looks at the request of this thread, if there is one.
pub(super) fn with<R>(look: impl FnOnce(&mut Call) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|current| current.as_mut().map(look))
}

/// Ties a connection that last served request `known` to the request of this thread, once, and
/// gives that request's id; `known` where there is none.
pub(super) fn tie(known: usize, socket: &Arc<TcpStream>) -> usize {
    with(|call| {
        if call.id != known {
            call.cancel.register(socket);
        }
        call.id
    })
    .unwrap_or(known)
}

/// Whether the request of this thread has been given up.
pub(super) fn given_up() -> bool {
    with(|call| call.cancel.raised()).unwrap_or(false)
}
