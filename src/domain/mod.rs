//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod brain;
pub mod catalogue;
pub mod completion;
pub mod ids;
pub mod limits;
pub mod message;
