//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod address;
pub mod audit;
pub mod brain;
pub mod briefing;
pub mod calc;
pub mod calls;
pub mod catalogue;
pub mod completion;
pub mod cursor;
pub mod delivery;
#[cfg(test)]
mod dice;
pub mod excuse;
pub mod fraction;
pub mod gate;
pub mod hosts;
pub mod html;
pub mod ids;
pub mod journal;
pub mod lanes;
pub mod limits;
pub mod markdown;
pub mod message;
pub mod notes;
pub mod paths;
pub mod places;
pub mod privacy;
pub mod prompt;
pub mod reading;
pub mod reasoning;
pub mod reduce;
pub mod run;
pub mod schedule;
pub mod split;
pub mod told;
pub mod url;
pub mod work;
