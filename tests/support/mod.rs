//! Loopback peers and clients of the integration tests.

pub mod model;
pub mod raw_http;
