//! An answer and how it is written on the wire. Pure: builds bytes, sends none.

use std::borrow::Cow;

use crate::base::clock::UnixMs;

/// An answer with its whole body. Content-Length, Date and Connection are the front's to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(&'static str, Cow<'static, str>)>,
    body: Cow<'static, [u8]>,
}

/// What happens to the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// It stays open, as HTTP/1.1 does by itself.
    Open,
    /// It stays open for a client of HTTP/1.0 that asked for it.
    KeptOpen,
    /// It closes.
    Close,
}

impl Response {
    /// An answer without a body.
    #[must_use]
    pub fn new(status: u16) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: Cow::Borrowed(b""),
        }
    }

    /// A body of JSON, already written out.
    #[must_use]
    pub fn json(status: u16, body: String) -> Response {
        Response::new(status)
            .with("Content-Type", "application/json")
            .body(body.into_bytes())
    }

    /// A body of plain text.
    #[must_use]
    pub fn text(status: u16, body: &'static str) -> Response {
        Response::new(status)
            .with("Content-Type", "text/plain; charset=utf-8")
            .body(body.as_bytes())
    }

    /// The one shape of all errors: `{"error":CODE,"message":SENTENCE}`.
    #[must_use]
    pub fn error(status: u16, code: &str, message: &str) -> Response {
        let body = serde_json::json!({ "error": code, "message": message });
        Response::json(status, body.to_string())
    }

    /// This answer with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Response {
        self.headers.push((name, value.into()));
        self
    }

    /// This answer with another body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Cow<'static, [u8]>>) -> Response {
        self.body = body.into();
        self
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The headers in order, without those that the front adds.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (*name, value.as_ref()))
    }

    /// The body's bytes; none where the status has no body (RFC 9110 section 6.4.1).
    #[must_use]
    pub fn content(&self) -> &[u8] {
        match self.status {
            100..=199 | 204 | 304 => b"",
            _ => &self.body,
        }
    }

    /// Writes the head into `out`, which is emptied first. Control characters in a value become
    /// spaces, so that no text can add a header.
    pub(super) fn write_head(&self, out: &mut Vec<u8>, after: After, now: UnixMs) {
        out.clear();
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(self.status.to_string().as_bytes());
        out.push(b' ');
        out.extend_from_slice(reason(self.status).as_bytes());
        line(out, "Date", &imf_date(now));
        for (name, value) in &self.headers {
            line(out, name, value);
        }
        // RFC 9110 section 8.6: none with 1xx and 204.
        if !matches!(self.status, 100..=199 | 204) {
            line(out, "Content-Length", &self.content().len().to_string());
        }
        match after {
            After::Open => {}
            After::KeptOpen => line(out, "Connection", "keep-alive"),
            After::Close => line(out, "Connection", "close"),
        }
        out.extend_from_slice(b"\r\n\r\n");
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(
        value
            .bytes()
            .map(|byte| if byte.is_ascii_control() { b' ' } else { byte }),
    );
}

/// The reason phrase of a status (RFC 9110 section 15); clients ignore it, people read it.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

/// A moment as `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110 section 5.6.7).
fn imf_date(now: UnixMs) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let text = now.rfc3339();
    let weekday = now.0.div_euclid(86_400_000).rem_euclid(7);
    let day = usize::try_from(weekday).unwrap_or(0);
    let month: usize = text.get(5..7).and_then(|m| m.parse().ok()).unwrap_or(1);
    format!(
        "{}, {} {} {} {} GMT",
        DAYS[day % 7],
        text.get(8..10).unwrap_or("01"),
        MONTHS[(month + 11) % 12],
        text.get(0..4).unwrap_or("1970"),
        text.get(11..19).unwrap_or("00:00:00"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(response: &Response, after: After) -> String {
        let mut out = b"left over".to_vec();
        response.write_head(&mut out, after, UnixMs(784_111_777_000));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_head_has_what_http_asks_for() {
        assert_eq!(
            written(&Response::text(200, "ok"), After::Open),
            "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\n"
        );
        assert!(!written(&Response::new(204), After::Open).contains("Content-Length"));
        assert!(written(&Response::new(202), After::Close)
            .ends_with("Content-Length: 0\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn no_text_adds_a_header() {
        let response = Response::new(401).with("WWW-Authenticate", "Bearer\r\nX-Evil: 1");
        assert!(
            written(&response, After::KeptOpen).contains("WWW-Authenticate: Bearer  X-Evil: 1\r\n")
        );
    }

    #[test]
    fn an_error_is_json() {
        let response = Response::error(400, "bad_request", "a \"quoted\"\nword");
        assert_eq!(
            response.content(),
            br#"{"error":"bad_request","message":"a \"quoted\"\nword"}"#
        );
    }
}
