//! What has been read from a connection and not been used yet. One allocation for the life of the
//! connection; runs on its thread.

use std::io::{self, Read};

/// Bytes between two marks of a fixed allocation.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Buffer {
    /// One that holds up to `most` bytes.
    pub(super) fn new(most: usize) -> Buffer {
        Buffer {
            bytes: vec![0; most].into(),
            from: 0,
            to: 0,
        }
    }

    /// What is there.
    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Takes `count` bytes away from the beginning.
    pub(super) fn consume(&mut self, count: usize) {
        self.from = (self.from + count).min(self.to);
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Reads once into the room behind what is there and says how many bytes came; 0 is the end.
    /// The caller never asks a full buffer for more.
    ///
    /// Blocks: as long as `source` does.
    pub(super) fn fill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        debug_assert!(
            self.to < self.bytes.len(),
            "a full buffer was asked for more"
        );
        let count = source.read(&mut self.bytes[self.to..])?;
        self.to += count;
        Ok(count)
    }
}
