//! The integration tests, one crate.
#![allow(missing_docs, clippy::unwrap_used)]

mod dependencies;
mod cli;
mod config;
mod documents;
mod floors;
mod front;
mod install;
mod providers;
mod store;
mod support;
