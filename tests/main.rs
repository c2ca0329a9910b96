//! The integration tests, one crate.
#![allow(missing_docs, clippy::unwrap_used)]

mod admin;
mod cli;
mod config;
mod dependencies;
mod documents;
mod durability;
mod floors;
mod front;
mod install;
mod lanes;
mod metrics;
mod model;
mod preflight;
mod privacy;
mod provider_faults;
mod providers;
mod retries;
mod secrets;
mod shield;
mod store;
mod support;
mod telegram;
mod tls;
mod webhook;
mod wire;
