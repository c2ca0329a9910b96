//! The integration tests, one crate.

mod store;
