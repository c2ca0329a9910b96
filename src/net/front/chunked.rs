//! Decodes a body that comes in chunks (RFC 9112 section 7.1), as strictly as the head. Pure: bytes
//! in, bytes out. Extensions and trailers are read within bounds and dropped.

use super::refusal::Refusal;
use super::refusal::Refusal::BadRequest;

/// Bytes of chunk lines and trailers in one body that carry nothing: enough for any real client,
/// too few to keep a connection busy for nothing. The size digits themselves do not count.
const OVERHEAD_BYTES: usize = 8 * 1024;
/// Hexadecimal digits of one chunk's size: 2^32 is far above every cap.
const SIZE_DIGITS: u32 = 8;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the digits of a size, so many of them read.
    Size(u32),
    /// In a chunk extension.
    Extension,
    /// Behind the carriage return of a size line.
    SizeEnd,
    /// In a chunk's data.
    Data,
    /// Before the carriage return behind the data.
    DataReturn,
    /// Before the line feed behind the data.
    DataEnd,
    /// In a trailer line, so many bytes of it read.
    Trailer(usize),
    /// Behind the carriage return of a trailer line that has so many bytes.
    TrailerEnd(usize),
    /// Behind the last byte of the body.
    Done,
}

/// The decoder of one body.
#[derive(Debug)]
pub(super) struct Chunked {
    place: Place,
    left: usize,
    overhead: usize,
    cap: usize,
}

impl Chunked {
    /// One whose decoded body may have `cap` bytes.
    pub(super) fn new(cap: usize) -> Chunked {
        Chunked {
            place: Place::Size(0),
            left: 0,
            overhead: 0,
            cap,
        }
    }

    /// Whether the body is complete.
    pub(super) fn done(&self) -> bool {
        self.place == Place::Done
    }

    /// Decodes `input` into `out` up to the body's end and says how many bytes were taken.
    pub(super) fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, Refusal> {
        let mut at = 0;
        while at < input.len() && !self.done() {
            if self.place == Place::Data {
                let taken = self.left.min(input.len() - at);
                out.extend_from_slice(&input[at..at + taken]);
                at += taken;
                self.left -= taken;
                if self.left == 0 {
                    self.place = Place::DataReturn;
                }
                continue;
            }
            self.place = self.step(input[at], out.len())?;
            at += 1;
        }
        Ok(at)
    }

    /// One byte outside the data.
    fn step(&mut self, byte: u8, decoded: usize) -> Result<Place, Refusal> {
        let malformed = Err(BadRequest("the chunked body is malformed"));
        match (self.place, byte) {
            (Place::Size(digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == SIZE_DIGITS {
                    return Err(Refusal::TooLarge);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0) as usize;
                self.left = self.left.saturating_mul(16).saturating_add(digit);
                Ok(Place::Size(digits + 1))
            }
            (Place::Size(1..), b';') => Ok(Place::Extension),
            (Place::Size(1..) | Place::Extension, b'\r') => Ok(Place::SizeEnd),
            (Place::Extension, b'\t' | b' '..=b'~') => self.spend(Place::Extension),
            (Place::SizeEnd, b'\n') if self.left == 0 => Ok(Place::Trailer(0)),
            (Place::SizeEnd, b'\n') => {
                if self.left > self.cap.saturating_sub(decoded) {
                    return Err(Refusal::TooLarge);
                }
                Ok(Place::Data)
            }
            (Place::DataReturn, b'\r') => Ok(Place::DataEnd),
            (Place::DataEnd, b'\n') => Ok(Place::Size(0)),
            (Place::Trailer(read), b'\r') => Ok(Place::TrailerEnd(read)),
            (Place::Trailer(read), byte) if byte == b'\t' || !byte.is_ascii_control() => {
                self.spend(Place::Trailer(read + 1))
            }
            (Place::TrailerEnd(0), b'\n') => Ok(Place::Done),
            (Place::TrailerEnd(_), b'\n') => self.spend(Place::Trailer(0)),
            _ => malformed,
        }
    }

    /// Counts a byte that carries nothing.
    fn spend(&mut self, next: Place) -> Result<Place, Refusal> {
        self.overhead += 1;
        if self.overhead > OVERHEAD_BYTES {
            return Err(BadRequest(
                "the chunked body has too many extensions or trailers",
            ));
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes at once and byte by byte, both must agree; gives the body and what is left over.
    fn decode(input: &[u8], cap: usize) -> Result<Option<(String, String)>, Refusal> {
        let run = |step: usize| {
            let (mut chunked, mut out, mut taken) = (Chunked::new(cap), Vec::new(), 0);
            for piece in input.chunks(step) {
                taken += chunked.feed(piece, &mut out)?;
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(chunked.done().then(|| (text(&out), text(&input[taken..]))))
        };
        let whole = run(input.len().max(1));
        assert_eq!(whole, run(1), "{:?}", String::from_utf8_lossy(input));
        whole
    }

    #[test]
    fn good_bodies_are_decoded() {
        for (input, body, rest) in [
            ("0\r\n\r\n", "", ""),
            ("3\r\nabc\r\n0\r\n\r\nGET /", "abc", "GET /"),
            (
                "A\r\n0123456789\r\n0001\r\n!\r\n000\r\n\r\n",
                "0123456789!",
                "",
            ),
            (
                "2;name=\"v\"\r\n\r\n\r\n0;last\r\nTrailer: x\r\nMore: y\r\n\r\n",
                "\r\n",
                "",
            ),
        ] {
            assert_eq!(
                decode(input.as_bytes(), 16),
                Ok(Some((body.to_owned(), rest.to_owned()))),
                "{input:?}"
            );
        }
    }

    #[test]
    fn malformed_bodies_are_refused() {
        for input in [
            "\r\n",
            " 3\r\n",
            "3 \r\nabc\r\n",
            "0x3\r\nabc",
            "-1\r\n",
            "+3\r\nabc",
            "g\r\n",
            ";x\r\n",
            "3\nabc\r\n",
            "3\rabc",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "3\r\nabc\rX",
            "3;a\nb\r\n",
            "0\r\n\n",
            "0\r\nA: b\n\r\n",
            "0\r\nA: b\r\r\n",
            "0\r\n\0",
        ] {
            assert!(
                matches!(decode(input.as_bytes(), 16), Err(BadRequest(_))),
                "{input:?}"
            );
        }
    }

    #[test]
    fn an_incomplete_body_waits() {
        for input in [
            "",
            "3",
            "3\r\nab",
            "3\r\nabc\r\n",
            "0\r\n",
            "0\r\nA: b\r\n\r",
        ] {
            assert_eq!(decode(input.as_bytes(), 16), Ok(None), "{input:?}");
        }
    }

    #[test]
    fn the_cap_counts_what_is_decoded_and_is_met_before_the_data() {
        assert!(decode(b"10\r\n0123456789abcdef\r\n0\r\n\r\n", 16).is_ok());
        for input in [
            "11\r\n",
            "f\r\n0123456789abcde\r\n2\r\n",
            "ffffffff\r\n",
            "000000010\r\n",
            "fffffffffffffffff\r\n",
        ] {
            assert_eq!(
                decode(input.as_bytes(), 16),
                Err(Refusal::TooLarge),
                "{input:?}"
            );
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let extension = format!("1;{}\r\n", "x".repeat(OVERHEAD_BYTES + 1));
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(OVERHEAD_BYTES));
        for input in [extension, trailers] {
            assert!(matches!(decode(input.as_bytes(), 16), Err(BadRequest(_))));
        }
    }
}
