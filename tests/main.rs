//! The integration tests, one crate.

mod dependencies;
mod floors;
