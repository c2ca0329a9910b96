//! The integration tests, one crate.

mod store;
mod providers;
mod support;
mod floors;
