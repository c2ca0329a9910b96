//! The integration tests, one crate.

mod config;
