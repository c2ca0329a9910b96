//! Ways in and out for people and programs.

pub mod console;
pub mod port;
pub mod webhook;
