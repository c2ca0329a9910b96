//! The integration tests, one crate.

mod providers;
mod support;
