//! Loopback peers of the tests.

pub mod model;
