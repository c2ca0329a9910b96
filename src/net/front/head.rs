//! Reads the head of a request, strictly (RFC 9112 sections 2 to 6). Pure: bytes in, a [`Head`] or
//! a refusal out. Must never accept what two readers could understand in two ways.

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
    /// Reads a complete head, from its request line to its empty line.
    ///
    /// # Errors
    /// A refusal that names the rule it breaks.
    pub fn parse(bytes: &[u8]) -> Result<Head, Refusal> {
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

    /// Text that [`Head::parse`] has checked to be ASCII.
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
pub(super) fn is_token(byte: u8) -> bool {
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
