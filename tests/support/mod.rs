//! Loopback peers and clients of the integration tests.

pub mod asking;
pub mod authority;
pub mod model;
pub mod netns;
pub mod raw_http;
