//! Ways in and out for people and programs: the list of kinds.

pub mod console;
pub mod discord;
pub mod kinds;
pub mod port;
mod reports;
pub mod rules;
mod strangers;
pub mod telegram;
mod typing;
pub mod webhook;
