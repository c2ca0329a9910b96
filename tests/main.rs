//! The integration tests, one crate.

#![allow(missing_docs, clippy::unwrap_used)]

mod support;

mod front;
