//! Korvun: a self-hosted AI messaging gateway for small home servers.
//!
//! The crate in reading order, from the ground up; each floor uses only what stands below it, and
//! rooms on one floor do not see each other (`tests/floors.rs` holds the house to it):
//!
//! 1. [`base`]: words that any program could use.
//! 2. [`domain`]: the rules, pure.
//! 3. [`watch`]: metrics, board and events, to which every part above reports.
//! 4. [`config`], [`store`], [`net`]: the file, the database, the wire.
//! 5. [`channel`], [`provider`], [`tool`]: the plug-ins.
//! 6. [`engine`]: makes messages move.
//! 7. [`admin`]: the HTTP API.
//! 8. [`daemon`]: wiring, start and stop.
//! 9. [`cli`]: what a person types and reads.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admin;
pub mod base;
pub mod channel;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod domain;
pub mod engine;
pub mod net;
pub mod provider;
pub mod store;
pub mod tool;
pub mod watch;
