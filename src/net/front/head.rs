//! Reads the head of a request, strictly (RFC 9112 sections 2 to 6). Pure: bytes in, a [`Head`] or
//! a refusal out. Must never accept what two readers could understand in two ways.

use std::ops::Range;

use super::refusal::Refusal;
use super::refusal::Refusal::BadRequest;

/// A request line and its fields, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Head {
    bytes: Box<[u8]>,
    method: Span,
    target: Span,
    version: Version,
    fields: Vec<(Span, Span)>,
    host: Span,
    body: Announced,
    keep_alive: bool,
}

/// The versions of HTTP that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// What the head says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// There is none.
    Nothing,
    /// As many bytes; a number above 2^64 counts as 2^64 - 1.
    Length(u64),
    /// It comes in chunks.
    Chunked,
}

/// A part of the head's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from: usize,
    to: usize,
}

impl Head {
    /// The method as sent; a token, case matters.
    #[must_use]
    pub fn method(&self) -> &str {
        self.text_of(self.method)
    }

    /// The target as sent: `/`, then visible ASCII without `#`.
    #[must_use]
    pub fn target(&self) -> &str {
        self.text_of(self.target)
    }

    /// The target up to the first `?`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or("")
    }

    /// The target behind the first `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.target().split_once('?').map(|(_, query)| query)
    }

    /// The version of HTTP.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The one `Host`, not empty, with its port where it has one.
    #[must_use]
    pub fn host(&self) -> &str {
        self.text_of(self.host)
    }

    /// What is said about the body.
    #[must_use]
    pub fn announced(&self) -> Announced {
        self.body
    }

    /// Whether the client wants to use the connection again.
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// All fields in order: name as sent, value without the white space around it. A value may
    /// hold bytes above 127, but no control character except a tab.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (self.text_of(*name), &self.bytes[value.from..value.to]))
    }

    /// The values of every field of that name, in order; case does not matter.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The first value of that name where it is UTF-8; case of the name does not matter.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Whether the client waits for `100 Continue` before it sends the body (RFC 9110 section
    /// 10.1.1; HTTP/1.0 has no such thing).
    #[must_use]
    pub fn expects_continue(&self) -> bool {
        self.version == Version::Http11
            && self
                .values("expect")
                .any(|value| value.eq_ignore_ascii_case(b"100-continue"))
    }

    /// Text that [`parse`] has checked to be ASCII.
    fn text_of(&self, span: Span) -> &str {
        std::str::from_utf8(&self.bytes[span.from..span.to]).unwrap_or("")
    }
}

impl std::fmt::Debug for Head {
    /// Names only: values may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head")
            .field("method", &self.method())
            .field("path", &self.path())
            .field(
                "fields",
                &self.fields().map(|(name, _)| name).collect::<Vec<_>>(),
            )
            .finish()
    }
}

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

/// Reads a complete head, from its request line to the empty line.
pub(super) fn parse(bytes: &[u8]) -> Result<Head, Refusal> {
    let mut lines = Lines { bytes, at: 0 };
    let request_line = lines
        .next()
        .ok_or(BadRequest("the request line is missing"))?;
    let (method, target, version) = parse_request_line(bytes, request_line)?;
    let mut fields = Vec::with_capacity(16);
    for line in lines {
        if line.from == line.to {
            break;
        }
        fields.push(parse_field(bytes, line)?);
    }
    let mut head = Head {
        bytes: bytes.into(),
        method,
        target,
        version,
        fields,
        host: Span { from: 0, to: 0 },
        body: Announced::Nothing,
        keep_alive: false,
    };
    head.host = only_host(&head)?;
    head.body = announced(&head)?;
    head.keep_alive = wants_keep_alive(&head);
    Ok(head)
}

/// Lines without their CR LF.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let from = self.at;
        let length = self.bytes[from..].iter().position(|&byte| byte == b'\n')?;
        self.at = from + length + 1;
        let to = from + length;
        let to = if to > from && self.bytes[to - 1] == b'\r' {
            to - 1
        } else {
            to
        };
        Some(Span { from, to })
    }
}

/// `METHOD SP TARGET SP VERSION` (RFC 9112 section 3), the target in origin-form.
fn parse_request_line(bytes: &[u8], line: Span) -> Result<(Span, Span, Version), Refusal> {
    let broken = BadRequest("the request line is not METHOD /PATH HTTP/1.1");
    let mut parts = [line; 3];
    let mut from = line.from;
    for (index, part) in parts.iter_mut().enumerate() {
        let rest = &bytes[from..line.to];
        let to = match rest.iter().position(|&byte| byte == b' ') {
            Some(space) if index < 2 => from + space,
            None if index == 2 => line.to,
            _ => return Err(broken),
        };
        *part = Span { from, to };
        from = to + 1;
    }
    let [method, target, version] = parts;
    let of = |span: Span| &bytes[span.from..span.to];
    if method.from == method.to || !of(method).iter().copied().all(is_token) {
        return Err(broken);
    }
    let version = match of(version) {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        other if other.starts_with(b"HTTP/") => {
            return Err(BadRequest("only HTTP/1.0 and HTTP/1.1 are spoken here"))
        }
        _ => return Err(broken),
    };
    let visible = |&byte: &u8| (0x21..=0x7e).contains(&byte) && byte != b'#';
    if of(target).first() != Some(&b'/') || !of(target).iter().all(visible) {
        return Err(BadRequest("the request target is not a path"));
    }
    Ok((method, target, version))
}

/// `NAME: VALUE` (RFC 9112 section 5); a folded line begins with white space and has no name.
fn parse_field(bytes: &[u8], line: Span) -> Result<(Span, Span), Refusal> {
    let text = &bytes[line.from..line.to];
    let colon = text
        .iter()
        .position(|&byte| byte == b':')
        .ok_or(BadRequest("a header line without a colon"))?;
    if colon == 0 || !text[..colon].iter().copied().all(is_token) {
        return Err(BadRequest(
            "a header name is malformed, or a line is folded",
        ));
    }
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    let value = &text[colon + 1..];
    if value
        .iter()
        .any(|byte| byte.is_ascii_control() && *byte != b'\t')
    {
        return Err(BadRequest("a control character in a header"));
    }
    let lead = value.iter().take_while(|byte| blank(byte)).count();
    let tail = value[lead..]
        .iter()
        .rev()
        .take_while(|byte| blank(byte))
        .count();
    let name = Span {
        from: line.from,
        to: line.from + colon,
    };
    let value = Span {
        from: name.to + 1 + lead,
        to: line.to - tail,
    };
    Ok((name, value))
}

/// The bytes of a name or a method (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The place of the only field of that name; an error where there is more than one.
fn only(head: &Head, name: &str, several: &'static str) -> Result<Option<Span>, Refusal> {
    let mut found = None;
    for (known, value) in &head.fields {
        if head.text_of(*known).eq_ignore_ascii_case(name) {
            if found.is_some() {
                return Err(BadRequest(several));
            }
            found = Some(*value);
        }
    }
    Ok(found)
}

/// Exactly one `Host` with a name in it (RFC 9112 section 3.2), in HTTP/1.0 too.
fn only_host(head: &Head) -> Result<Span, Refusal> {
    let missing = BadRequest("the Host header is missing or empty");
    let span = only(head, "host", "more than one Host header")?.ok_or(missing)?;
    let host = &head.bytes[span.from..span.to];
    if host.is_empty() {
        return Err(missing);
    }
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=:[]".contains(byte);
    if !host.iter().all(fits) {
        return Err(BadRequest("the Host header is malformed"));
    }
    Ok(span)
}

/// How the body is framed (RFC 9112 section 6), without any of the combinations that two servers
/// in a row may read differently.
fn announced(head: &Head) -> Result<Announced, Refusal> {
    let length = only(head, "content-length", "more than one Content-Length")?;
    let coding = only(head, "transfer-encoding", "more than one Transfer-Encoding")?;
    let of = |span: Span| &head.bytes[span.from..span.to];
    match (length, coding) {
        (Some(_), Some(_)) => Err(BadRequest("Content-Length beside Transfer-Encoding")),
        (None, None) => Ok(Announced::Nothing),
        (Some(length), None) => {
            let digits = of(length);
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return Err(BadRequest("Content-Length is not a number"));
            }
            let bytes = digits.iter().fold(0_u64, |sum, digit| {
                sum.saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            });
            Ok(match bytes {
                0 => Announced::Nothing,
                bytes => Announced::Length(bytes),
            })
        }
        (None, Some(_)) if head.version == Version::Http10 => {
            Err(BadRequest("Transfer-Encoding in HTTP/1.0"))
        }
        (None, Some(coding)) if of(coding).eq_ignore_ascii_case(b"chunked") => {
            Ok(Announced::Chunked)
        }
        (None, Some(_)) => Err(BadRequest("a Transfer-Encoding other than chunked")),
    }
}

/// RFC 9112 section 9.3: HTTP/1.1 goes on unless told to close, HTTP/1.0 only when asked to.
fn wants_keep_alive(head: &Head) -> bool {
    let says = |word: &str| {
        head.values("connection").any(|value| {
            value
                .split(|&byte| byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        })
    };
    match head.version {
        Version::Http11 => !says("close"),
        Version::Http10 => says("keep-alive") && !says("close"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans byte by byte and at once, both must agree; then parses.
    fn read(text: &[u8]) -> Result<Option<Head>, Refusal> {
        let whole = Scan::default().look(text, 512, 8);
        let mut scan = Scan::default();
        let mut piecewise = Ok(None);
        for end in 0..=text.len() {
            piecewise = scan.look(&text[..end], 512, 8);
            if !matches!(piecewise, Ok(None)) {
                break;
            }
        }
        assert_eq!(whole, piecewise, "{:?}", String::from_utf8_lossy(text));
        whole?.map(|range| parse(&text[range])).transpose()
    }

    #[test]
    fn a_good_head_is_read() {
        let text = b"\r\nPOST /hook?wait=5&x=? HTTP/1.1\r\nHost: box.lan:8090\r\n\
            X-Name:\t  Jos\xc3\xa9 \xff \r\nContent-Length: 12\r\nx-name: second\r\nEmpty:\r\n\r\nbody";
        let head = read(text).unwrap().unwrap();
        assert_eq!(head.method(), "POST");
        assert_eq!(head.path(), "/hook");
        assert_eq!(head.query(), Some("wait=5&x=?"));
        assert_eq!(head.host(), "box.lan:8090");
        assert_eq!(head.announced(), Announced::Length(12));
        assert_eq!(
            head.values("X-NAME").collect::<Vec<_>>(),
            [&b"Jos\xc3\xa9 \xff"[..], b"second"]
        );
        assert_eq!(head.text("x-name"), None);
        assert_eq!(head.text("empty"), Some(""));
        assert_eq!(head.text("absent"), None);
        assert_eq!(head.fields().count(), 5);
        assert!(head.keep_alive());
        assert!(!format!("{head:?}").contains("second"));
    }

    #[test]
    fn an_incomplete_head_waits() {
        for text in [
            "",
            "\r",
            "\r\n",
            "GET",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\r",
        ] {
            assert_eq!(read(text.as_bytes()), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_strict_http_is_refused() {
        for text in [
            // request line
            "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
            "GET /\r\nHost: x\r\n\r\n",
            "GET / http/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.2\r\nHost: x\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n",
            "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: x\r\n\r\n",
            "G(T / HTTP/1.1\r\nHost: x\r\n\r\n",
            " / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            // lines
            "GET / HTTP/1.1\nHost: x\n\n",
            "GET / HTTP/1.1\r\nHost: x\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\n",
            "GET / HTTP/1.1\r\nHost: x\rY: z\r\n\r\n",
            "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n",
            "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\tfolded: y\r\n\r\n",
            // names and values
            "GET / HTTP/1.1\r\nHost: x\r\nName : y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nNa\u{e9}: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nA: y\0z\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nA: y\u{7f}\r\n\r\n",
            // host
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nhost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x, y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x@y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x/y\r\n\r\n",
            // framing
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n",
            "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(
                matches!(read(text.as_bytes()), Err(BadRequest(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn framing_and_reuse_are_read() {
        let cases = [
            ("1.1", "", Announced::Nothing, true),
            ("1.1", "Content-Length: 0\r\n", Announced::Nothing, true),
            ("1.1", "Content-Length: 007\r\n", Announced::Length(7), true),
            (
                "1.1",
                "Content-Length: 99999999999999999999999\r\n",
                Announced::Length(u64::MAX),
                true,
            ),
            (
                "1.1",
                "Transfer-Encoding: CHUNKED\r\n",
                Announced::Chunked,
                true,
            ),
            ("1.1", "Connection: x, Close\r\n", Announced::Nothing, false),
            ("1.0", "", Announced::Nothing, false),
            (
                "1.0",
                "Connection: Keep-Alive\r\n",
                Announced::Nothing,
                true,
            ),
        ];
        for (version, fields, body, again) in cases {
            let text = format!("GET / HTTP/{version}\r\nHost: [::1]:80\r\n{fields}\r\n");
            let head = read(text.as_bytes()).unwrap().unwrap();
            assert_eq!(
                (head.announced(), head.keep_alive()),
                (body, again),
                "{text}"
            );
        }
    }

    #[test]
    fn a_head_has_its_bounds() {
        let start = "GET / HTTP/1.1\r\nHost: x\r\n";
        for (pad, fits) in [
            (512 - start.len() - 7, true),
            (512 - start.len() - 6, false),
        ] {
            let text = format!("{start}A: {}\r\n\r\n", "a".repeat(pad));
            assert_eq!(read(text.as_bytes()).is_ok(), fits, "{} bytes", text.len());
        }
        for (fields, fits) in [(7, true), (8, false)] {
            let text = format!("{start}{}\r\n", "A: b\r\n".repeat(fields));
            assert_eq!(read(text.as_bytes()).is_ok(), fits, "{fields} more fields");
        }
        let endless = format!("GET /{}", "a".repeat(600));
        assert_eq!(read(endless.as_bytes()), Err(Refusal::HeadersTooLarge));
    }
}
