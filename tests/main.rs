//! The integration tests, one crate.

mod store;
mod providers;
mod support;
mod floors;
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

mod front;
