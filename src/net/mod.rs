//! The wire: every byte that leaves goes through one connector, every byte that comes in through one front.

pub mod cancel;
pub mod front;
