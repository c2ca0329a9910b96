//! The wire: every byte that leaves goes through one connector, every byte that comes in through one front.

mod call;
pub mod cancel;
pub mod door;
pub mod error;
pub mod front;
pub mod header;
pub mod http;
mod line;
pub mod names;
mod shield;
pub mod tls;
pub mod ws;
