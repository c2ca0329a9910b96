//! The integration tests, one crate.
#![allow(missing_docs, clippy::unwrap_used)]

mod dependencies;
mod config;
mod floors;
mod front;
mod provider_faults;
mod providers;
mod retries;
mod shield;
mod store;
mod support;
mod tls;
mod wire;
mod durability;
mod floors;
mod front;
mod lanes;
mod providers;
mod secrets;
mod store;
mod support;
mod webhook;
