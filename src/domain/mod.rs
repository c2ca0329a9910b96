//! The rules of Korvun as data in, data out: no I/O, no clock, no threads, no log.

pub mod address;
pub mod audit;
pub mod brain;
pub mod briefing;
pub mod calls;
pub mod catalogue;
pub mod completion;
pub mod cursor;
pub mod delivery;
#[cfg(test)]
mod dice;
pub mod excuse;
pub mod frontmatter;
pub mod gate;
pub mod ids;
pub mod journal;
pub mod lanes;
pub mod limits;
pub mod markdown;
pub mod message;
pub mod places;
pub mod privacy;
pub mod prompt;
pub mod reasoning;
pub mod reduce;
pub mod report;
pub mod run;
pub mod schedule;
pub mod skill;
pub mod split;
pub mod told;
pub mod url;
pub mod work;
