//! Loopback peers and clients of the integration tests, and the daemon under test.
// The bench uses some of these files too, and other parts of them.
#![allow(dead_code)]

pub mod asking;
pub mod authority;
use std::path::Path;

pub mod daemon;
pub mod discord;
pub mod discord_socket;
pub mod flood;
pub mod http;
pub mod load;
pub mod model;
pub mod netns;
pub mod raw_http;
pub mod relay;
pub mod rig;
pub mod scripted;
pub mod sink;
pub mod telegram;
pub mod telegram_text;

/// A site for the binary under test, on the disk of the build folder.
pub fn site(model_url: &str, sink_url: &str) -> daemon::Site {
    let under = Path::new(env!("CARGO_TARGET_TMPDIR"));
    daemon::Site::new(env!("CARGO_BIN_EXE_korvun"), under, model_url, sink_url)
}
