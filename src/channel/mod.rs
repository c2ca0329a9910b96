//! Ways in and out for people and programs: the list of kinds.

pub mod console;
pub mod kinds;
pub mod port;
pub mod telegram;
pub mod webhook;
