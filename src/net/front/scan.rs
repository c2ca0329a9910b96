//! Finds where a head ends while it comes in, and refuses early what cannot become one. Pure.

use std::ops::Range;

use super::head::is_token;
use super::refusal::Refusal;
use super::refusal::Refusal::BadRequest;

/// Finds the end of a head in bytes that come in piece by piece; looks at each byte once.
#[derive(Debug, Default)]
pub(super) struct Scan {
    at: usize,
    line: usize,
    lines: usize,
    skipped_empty_line: bool,
}

impl Scan {
    /// Looks at what came since the last look; `bytes` is everything so far. Where the head is
    /// complete: its place, from the request line to behind the empty line.
    pub(super) fn look(
        &mut self,
        bytes: &[u8],
        bytes_most: usize,
        fields_most: usize,
    ) -> Result<Option<Range<usize>>, Refusal> {
        let first = if self.skipped_empty_line { 2 } else { 0 };
        while self.at < bytes.len() {
            let (at, byte) = (self.at, bytes[self.at]);
            let after_cr = at > 0 && bytes[at - 1] == b'\r';
            self.at += 1;
            if byte != b'\n' {
                if after_cr {
                    return Err(BadRequest("a bare carriage return in the head"));
                }
                if at == self.line && self.lines == 0 && byte != b'\r' && !is_token(byte) {
                    return Err(BadRequest("this is not an HTTP request"));
                }
                continue;
            }
            if !after_cr {
                return Err(BadRequest("a bare line feed in the head"));
            }
            let empty = at - self.line == 1;
            self.line = self.at;
            if !empty {
                self.lines += 1;
                if self.lines > fields_most + 1 {
                    return Err(Refusal::HeadersTooLarge);
                }
            } else if self.lines == 0 {
                // RFC 9112 section 2.2: at least one empty line before a request is ignored.
                if self.skipped_empty_line {
                    return Err(BadRequest("empty lines before the request line"));
                }
                self.skipped_empty_line = true;
                return self.look(bytes, bytes_most, fields_most);
            } else if self.at - first > bytes_most {
                return Err(Refusal::HeadersTooLarge);
            } else {
                return Ok(Some(first..self.at));
            }
        }
        if bytes.len().saturating_sub(first) >= bytes_most {
            return Err(Refusal::HeadersTooLarge);
        }
        Ok(None)
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
