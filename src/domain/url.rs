//! An http or https URL, taken apart once; shown without what may be secret.

use std::fmt;
use std::net::IpAddr;

use super::address;
use crate::base::secret::{Secret, MASK};

/// No URL that a person writes is longer; bounds what an outside answer can make us hold (bytes).
const LENGTH_MOST: usize = 4096;

/// A URL that can be dialled. Shows scheme, host, port and path; never the query, nor a secret in
/// the path.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    /// Lower case, as written otherwise; IPv6 in brackets.
    host: String,
    port: Option<u16>,
    path: String,
    /// The path as it is shown, where it holds a secret.
    shown: Option<String>,
    query: Option<String>,
}

/// Why a text is not such a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlError {
    /// Longer than 4096 bytes.
    TooLong,
    /// Does not begin with `http://` or `https://`.
    Scheme,
    /// A space, a control character, a backslash or a letter outside ASCII.
    Character,
    /// A user name or password before the host.
    Userinfo,
    /// No host, or one that no machine can have.
    Host,
    /// A port that is not 1 to 65535.
    Port,
    /// A `#` and what follows it.
    Fragment,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlError::TooLong => "a URL has at most 4096 bytes",
            UrlError::Scheme => "a URL begins with http:// or https://",
            UrlError::Character => {
                "a URL has no spaces, control characters or letters outside ASCII"
            }
            UrlError::Userinfo => "a URL with a user name or password in it is refused",
            UrlError::Host => "the URL has no host that can be reached",
            UrlError::Port => "the port of a URL is 1 to 65535",
            UrlError::Fragment => "a URL that is sent has no # part",
        })
    }
}

impl std::error::Error for UrlError {}

impl Url {
    /// Takes a text apart (RFC 3986, absolute http(s) URLs without userinfo and fragment).
    ///
    /// # Errors
    /// The first reason found; the text itself is not echoed, it may hold a secret.
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        if text.len() > LENGTH_MOST {
            return Err(UrlError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let secure = if scheme.eq_ignore_ascii_case("https") {
            true
        } else if scheme.eq_ignore_ascii_case("http") {
            false
        } else {
            return Err(UrlError::Scheme);
        };
        if !rest
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte))
        {
            return Err(UrlError::Character);
        }
        if rest.contains('#') {
            return Err(UrlError::Fragment);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::Userinfo);
        }
        let (host, port) = split_port(authority)?;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (target, None),
        };
        Ok(Url {
            secure,
            host: checked_host(host)?,
            port,
            path: if path.is_empty() { "/" } else { path }.to_owned(),
            shown: None,
            query,
        })
    }

    /// Whether it is https.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.secure
    }

    /// The host as written, lower case; IPv6 in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address that the host stands for without a look-up.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        address::literal(&self.host)
    }

    /// The port, the scheme's own where none is written.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.secure { 443 } else { 80 })
    }

    /// This URL with `path` (beginning with a slash) appended to its own path; the query goes.
    #[must_use]
    pub fn join(&self, path: &str) -> Url {
        let joined = |base: &str| format!("{}{path}", base.trim_end_matches('/'));
        Url {
            path: joined(&self.path),
            shown: self.shown.as_deref().map(joined),
            query: None,
            ..self.clone()
        }
    }

    /// This URL with `path` and, right behind it, a secret appended to its own path. Wherever the
    /// URL is shown, a mask stands in the secret's place; [`Url::join`] keeps it so.
    #[must_use]
    pub fn join_secret(&self, path: &str, secret: &Secret) -> Url {
        let own = self.join(path);
        let mut whole = own.path.clone();
        for byte in secret.reveal().bytes() {
            // What may stand in a segment of a path (RFC 3986, section 3.3).
            if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
                whole.push(char::from(byte));
            } else {
                whole.push_str(&format!("%{byte:02X}"));
            }
        }
        Url {
            shown: Some(format!("{}{MASK}", own.shown.as_ref().unwrap_or(&own.path))),
            path: whole,
            ..own
        }
    }

    /// The URL that a reference means which stands in an answer from here: another URL, or a part
    /// of one (RFC 3986, section 5.2). A `#` part is an error, as everywhere.
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub fn reference(&self, text: &str) -> Result<Url, UrlError> {
        let scheme_ends = text.find([':', '/', '?']).filter(|at| *at > 0);
        if scheme_ends.is_some_and(|at| text[at..].starts_with(':')) {
            return Url::parse(text);
        }
        if text.starts_with("//") {
            let scheme = if self.secure { "https:" } else { "http:" };
            return Url::parse(&format!("{scheme}{text}"));
        }
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, format!("?{query}")),
            None => (text, String::new()),
        };
        let folder = self.path.rfind('/').map_or("/", |at| &self.path[..=at]);
        let path = match path {
            "" if query.is_empty() => return Ok(self.clone()),
            "" => self.path.clone(),
            path if path.starts_with('/') => without_dots(path),
            path => without_dots(&format!("{folder}{path}")),
        };
        Url::parse(&format!("{}{path}{query}", self.origin()))
    }

    /// The whole text, query included: for the wire, not for a log.
    #[must_use]
    pub fn to_wire(&self) -> String {
        let mut out = self.origin();
        out.push_str(&self.path);
        if let Some(query) = &self.query {
            out.push('?');
            out.push_str(query);
        }
        out
    }

    fn origin(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        match self.port {
            Some(port) => format!("{scheme}://{}:{port}", self.host),
            None => format!("{scheme}://{}", self.host),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())?;
        f.write_str(self.shown.as_ref().unwrap_or(&self.path))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An absolute path without `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        if segment == ".." {
            kept.pop();
        } else if segment != "." {
            kept.push(segment);
            continue;
        }
        if last {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after_host..].rfind(':') {
        None => Ok((authority, None)),
        Some(at) => {
            let (host, port) = authority.split_at(after_host + at);
            let digits = &port[1..];
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(UrlError::Port);
            }
            match digits.parse() {
                Ok(port) if port != 0 => Ok((host, Some(port))),
                _ => Err(UrlError::Port),
            }
        }
    }
}

fn checked_host(host: &str) -> Result<String, UrlError> {
    let host = host.to_ascii_lowercase();
    if address::literal(&host).is_some() {
        return Ok(host);
    }
    let name = host.strip_suffix('.').unwrap_or(&host);
    let is_name = name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        });
    if is_name {
        Ok(host)
    } else {
        Err(UrlError::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, secure, host, port, wire) in [
            (
                "http://localhost",
                false,
                "localhost",
                80,
                "http://localhost/",
            ),
            (
                "HTTPS://Api.Example.com/v1",
                true,
                "api.example.com",
                443,
                "https://api.example.com/v1",
            ),
            (
                "http://[::1]:8080/a?b=c",
                false,
                "[::1]",
                8080,
                "http://[::1]:8080/a?b=c",
            ),
            (
                "http://[fe80::1]",
                false,
                "[fe80::1]",
                80,
                "http://[fe80::1]/",
            ),
            ("http://127.1:1?x", false, "127.1", 1, "http://127.1:1/?x"),
            (
                "http://my_box.lan.",
                false,
                "my_box.lan.",
                80,
                "http://my_box.lan./",
            ),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.secure(), url.host(), url.port(), url.to_wire().as_str()),
                (secure, host, port, wire)
            );
        }
    }

    #[test]
    fn what_is_shown_has_no_query() {
        let url = Url::parse("https://h/hook?token=hunter2").unwrap();
        assert_eq!(format!("{url} {url:?}"), "https://h/hook https://h/hook");
        assert_eq!(url.join("/x").to_wire(), "https://h/hook/x");
        assert_eq!(
            Url::parse("http://h/v1/").unwrap().join("/x").to_wire(),
            "http://h/v1/x"
        );
    }

    /// The examples of RFC 3986, section 5.4, as far as they are http.
    #[test]
    fn references_lead_where_the_standard_says() {
        let base = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (text, wire) in [
            ("http://g", "http://g/"),
            ("//g", "http://g/"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./g/.", "http://a/b/c/g/"),
            ("g/../h", "http://a/b/c/h"),
            ("g/./h", "http://a/b/c/g/h"),
        ] {
            assert_eq!(base.reference(text).unwrap().to_wire(), wire, "{text}");
        }
        for (text, why) in [
            ("g:h", UrlError::Scheme),
            ("javascript:x", UrlError::Scheme),
            ("//u@g", UrlError::Userinfo),
            ("//", UrlError::Host),
            ("g#s", UrlError::Fragment),
            ("g h", UrlError::Character),
        ] {
            assert_eq!(base.reference(text).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn a_secret_in_the_path_is_sent_and_not_shown() {
        let root = Url::parse("https://h:8/api").unwrap();
        let url = root
            .join_secret("/bot", &Secret::new("1:a/b?c d"))
            .join("/x");
        assert_eq!(url.to_wire(), "https://h:8/api/bot1:a%2Fb%3Fc%20d/x");
        assert_eq!(
            format!("{url} {url:?}"),
            "https://h:8/api/bot[secret]/x https://h:8/api/bot[secret]/x"
        );
    }

    #[test]
    fn what_cannot_be_dialled_is_refused() {
        for (text, why) in [
            ("", UrlError::Scheme),
            ("localhost:11434", UrlError::Scheme),
            ("ftp://h", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http:///path", UrlError::Host),
            ("http://a..b", UrlError::Host),
            ("http://::1/", UrlError::Host),
            ("http://[::1", UrlError::Host),
            ("http://[fe80::1%25lo]/", UrlError::Host),
            ("http://a%20b/", UrlError::Host),
            ("http://h:0", UrlError::Port),
            ("http://h:65536", UrlError::Port),
            ("http://h:", UrlError::Port),
            ("http://h:+1", UrlError::Port),
            ("http://u:p@h/", UrlError::Userinfo),
            ("http://h\\@evil/", UrlError::Character),
            ("http://h/a b", UrlError::Character),
            ("http://h/\r\nx", UrlError::Character),
            ("http://ñ/", UrlError::Character),
            ("http://h/#f", UrlError::Fragment),
        ] {
            assert_eq!(Url::parse(text).unwrap_err(), why, "{text}");
        }
        assert_eq!(
            Url::parse(&format!("http://h/{}", "a".repeat(4096))).unwrap_err(),
            UrlError::TooLong
        );
    }
}
