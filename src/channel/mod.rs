//! Ways in and out for people and programs: the list of kinds.

pub mod kinds;
