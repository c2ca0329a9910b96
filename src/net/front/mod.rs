//! The front: every HTTP byte that comes in is read and judged here, and nothing behind it ever
//! sees one that was not.
//!
//! A [`Front`] owns one listening port: one accepting thread, and one thread for each connection, all of them asleep while nothing comes. An [`Owner`] judges the head of a
//! request before any of its body is read, then gets the request whole, and answers through the
//! [`Client`]. Heads are taken strictly ([`head`]), bodies under the owner's cap, everything within
//! the bounds of [`crate::domain::limits::Limits`]. `GET /healthz` is answered here.

mod chunked;
mod client;
mod connection;
pub mod head;
pub mod refusal;
pub mod response;
mod room;
mod scan;
mod serve;
mod server;
mod wire;

use std::net::SocketAddr;

pub use client::{Client, Relay};
pub use head::{Announced, Head, Version};
pub use response::Response;
pub use room::StreamPlace;
pub use server::Front;

/// Whoever answers the requests of one port. Called from many threads at once, each with a stack of
/// [`STACK_BYTES`]. A panic in it is contained: the client gets a 500 and its connection ends.
pub trait Owner: Send + Sync {
    /// Judges a request by its head; of its body nothing has been read. Must not block.
    fn judge(&self, head: &Head, ends: Ends) -> Verdict;

    /// Answers a request that was accepted. May block; while it does it holds one of the port's
    /// connections. A client that is left without an answer gets a 500.
    fn serve(&self, request: Request, client: Client<'_>);
}

/// What an owner makes of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request may come in.
    Accept {
        /// Bytes that its body may have, chunked or not; above it the front answers 413.
        body_cap: usize,
    },
    /// This is the answer, and the body is not read.
    Refuse(Response),
}

/// A request that has come in whole.
#[derive(Debug)]
pub struct Request {
    /// Its head.
    pub head: Head,
    /// Its body, decoded; empty where there was none.
    pub body: Vec<u8>,
    /// Who sent it, and where to.
    pub ends: Ends,
}

/// The two ends of a connection; IPv4 addresses are never in their IPv6-mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's address.
    pub peer: SocketAddr,
    /// The address that the connection arrived on.
    pub local: SocketAddr,
}

/// Bytes of a connection thread's stack. Owners parse JSON on it, whose deepest accepted nesting
/// (128 levels) takes between 64 and 96 KiB in an optimised build and some 400 KiB in a debug
/// build; memory is used only as it is touched.
pub const STACK_BYTES: usize = if cfg!(debug_assertions) { 512 } else { 256 } * 1024;
