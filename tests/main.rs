//! The integration tests, one crate.
#![allow(clippy::unwrap_used)]

mod durability;
mod lanes;
mod support;
mod webhook;
#![allow(missing_docs, clippy::unwrap_used)]

mod floors;
mod front;
mod providers;
mod store;
mod support;
