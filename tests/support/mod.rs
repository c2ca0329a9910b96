//! Loopback peers of the tests.

pub mod model;
//! Loopback peers and clients of the integration tests.

pub mod raw_http;
