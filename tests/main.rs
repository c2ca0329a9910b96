//! The integration tests, one crate.
