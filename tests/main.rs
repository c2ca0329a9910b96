//! The integration tests, one crate.
#![allow(missing_docs, clippy::unwrap_used)]

mod durability;
mod floors;
mod front;
mod lanes;
mod providers;
mod secrets;
mod store;
mod support;
mod webhook;
