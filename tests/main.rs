//! The integration tests, one crate.

mod floors;
