//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod address;
pub mod brain;
pub mod catalogue;
pub mod command;
pub mod completion;
pub mod cursor;
pub mod delivery;
#[cfg(test)]
mod dice;
pub mod excuse;
pub mod ids;
pub mod limits;
pub mod markdown;
pub mod message;
pub mod places;
pub mod privacy;
pub mod prompt;
pub mod reasoning;
pub mod reduce;
pub mod schedule;
pub mod session;
pub mod split;
pub mod url;
