//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod address;
pub mod brain;
pub mod completion;
#[cfg(test)]
mod dice;
pub mod ids;
pub mod limits;
pub mod message;
pub mod places;
pub mod privacy;
pub mod schedule;
pub mod url;
