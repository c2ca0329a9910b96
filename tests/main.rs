//! The integration tests, one crate.
#![allow(clippy::unwrap_used)]

mod durability;
mod lanes;
mod support;
mod webhook;
