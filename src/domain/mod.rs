//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod address;
pub mod brain;
pub mod completion;
pub mod ids;
pub mod limits;
pub mod message;
pub mod url;
