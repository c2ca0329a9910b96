//! What agent brains can do besides talking: one trait, the list of kinds, and a file for each.

mod arguments;
mod below;
mod calc;
mod echo;
mod http_fetch;
pub mod kinds;
mod memory_note;
pub mod port;
mod read_file;
mod root;
mod time;
mod web;
mod webhook_call;

pub use root::Forbidden;
