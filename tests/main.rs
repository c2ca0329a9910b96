//! The integration tests, one crate.
#![allow(missing_docs, clippy::unwrap_used)]

mod dependencies;
mod cli;
mod config;
mod floors;
mod front;
mod providers;
mod store;
mod support;
