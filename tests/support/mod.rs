//! What the integration tests share: loopback peers and the daemon under test.
// The bench uses the same files, and other parts of them.
#![allow(dead_code)]

pub mod daemon;
pub mod http;
pub mod load;
pub mod scripted;
pub mod sink;

use std::path::Path;

/// A site for the binary under test, on the disk of the build folder.
pub fn site(model_url: &str, sink_url: &str) -> daemon::Site {
    let under = Path::new(env!("CARGO_TARGET_TMPDIR"));
    daemon::Site::new(env!("CARGO_BIN_EXE_korvun"), under, model_url, sink_url)
}
//! Loopback peers and clients of the integration tests.

pub mod model;
pub mod raw_http;
