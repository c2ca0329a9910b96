//! What parts of the file must know of one another.

use std::path::PathBuf;

use super::words::{shown, Words};

/// What brains must know of the rest of the file.
pub(super) struct Facts<'a> {
    pub(super) has_storage: bool,
    pub(super) database: Option<PathBuf>,
    /// The words that stand as types of channels.
    pub(super) channels: Vec<&'a str>,
}

impl Facts<'_> {
    /// Whether the file has a channel of that name; the console is always a legal one.
    pub(super) fn has_channel(&self, name: &str) -> bool {
        name == CONSOLE || self.channels.contains(&name)
    }
}

/// The channel that comes with the write surface.
pub(super) const CONSOLE: &str = "console";

/// The words about a channel type that this file does not have.
pub(super) fn absent_channel(word: &str) -> Words {
    (
        format!("this file has no channel {}", shown(word)),
        "add the channel, or leave the entry out".into(),
    )
}
