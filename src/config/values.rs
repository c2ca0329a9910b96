//! Reads the strings that mean more than text: durations, addresses, URLs, hosts. Pure.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::domain::url::Url;

/// The whole number that a literal stands for, where it is one and fits.
#[must_use]
pub fn whole(literal: &str) -> Option<i64> {
    literal.parse().ok()
}

/// A duration like `300ms`, `1.5s`, `2m`, `1h30m`: numbers with the units `h m s ms`, each unit
/// once, from the largest down.
#[must_use]
pub fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos: u128 = 0;
    let mut last_unit = u128::MAX;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let unit_nanos = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            _ => return None,
        };
        if unit_nanos >= last_unit {
            return None;
        }
        last_unit = unit_nanos;
        nanos = nanos.checked_add(scaled(number, unit_nanos)?)?;
        rest = next;
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let below = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, below))
}

/// A decimal number times a unit in nanoseconds; digits below a nanosecond are dropped.
fn scaled(number: &str, unit_nanos: u128) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && !fraction.contains('.') => {
            (whole, fraction)
        }
        Some(_) => return None,
        None => (number, ""),
    };
    let whole: u64 = whole.parse().ok()?;
    let mut total = u128::from(whole).checked_mul(unit_nanos)?;
    let mut place = unit_nanos;
    for digit in fraction.bytes() {
        place /= 10;
        total += u128::from(digit - b'0') * place;
    }
    Some(total)
}

/// Whether the text is a duration with an optional minus sign, as Ollama's `keep_alive` takes it.
#[must_use]
pub fn is_signed_span(text: &str) -> bool {
    span(text.strip_prefix('-').unwrap_or(text)).is_some()
}

/// A duration as the file writes it, for messages.
#[must_use]
pub fn span_text(span: Duration) -> String {
    let ms = span.as_millis();
    match ms {
        0 => "0s".into(),
        _ if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        _ if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        _ if ms % 1000 == 0 => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

/// An address to listen on: IP address and port, `localhost:PORT`, or `:PORT` for every address.
#[must_use]
pub fn listen(text: &str) -> Option<SocketAddr> {
    if let Ok(addr) = text.parse() {
        return Some(addr);
    }
    let (host, port) = text.rsplit_once(':')?;
    let port = port_number(port, 0)?;
    match host.to_ascii_lowercase().as_str() {
        "localhost" => Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)),
        "" => Some(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        _ => None,
    }
}

fn port_number(text: &str, least: u16) -> Option<u16> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|port| *port >= least)
}

/// Minutes after midnight of `HH:MM`.
#[must_use]
pub fn time_of_day(text: &str) -> Option<u32> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |part: &str, below: u32| -> Option<u32> {
        let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
        digits
            .then(|| part.parse().ok())
            .flatten()
            .filter(|n| *n < below)
    };
    Some(two(hours, 24)? * 60 + two(minutes, 60)?)
}

/// Whether the text can be the name of an environment variable.
#[must_use]
pub fn is_env_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 256
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether the text is a field name of HTTP (RFC 9110, section 5.1).
#[must_use]
pub fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Reads the root of an API: a URL without query and fragment.
///
/// # Errors
/// Why it is none. The URL itself is not part of the sentence: it may hold a secret.
pub fn url_root(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if text.contains('?') {
        return Err("the root of an API has no query; paths are appended to it".into());
    }
    Ok(url)
}

/// Scheme, host and port: what models on one server share.
#[must_use]
pub fn endpoint(url: &Url) -> String {
    let host = url.host();
    let host = match host.strip_suffix('.') {
        Some(name) => name,
        None => host,
    };
    format!("{}://{host}:{}", scheme(url), url.port())
}

fn scheme(url: &Url) -> &'static str {
    if url.secure() {
        "https"
    } else {
        "http"
    }
}

/// The root of an API in one form: lower case, without the scheme's own port and without a slash
/// at its end.
#[must_use]
pub fn root_text(url: &Url) -> String {
    let shown = url.to_string();
    let after_scheme = shown.find("://").map_or(0, |at| at + 3);
    let path = shown[after_scheme..]
        .find('/')
        .map_or("", |at| &shown[after_scheme + at..]);
    let own = if url.secure() { ":443" } else { ":80" };
    let origin = endpoint(url);
    let origin = origin.strip_suffix(own).unwrap_or(&origin);
    format!("{origin}{}", path.trim_end_matches('/'))
}

/// Whether the text can be the path of a request: begins with `/`, ASCII, no query, no fragment.
#[must_use]
pub fn is_url_path(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= 1024
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ms) in [
            ("300ms", Some(300)),
            ("1.5s", Some(1500)),
            ("2m", Some(120_000)),
            ("1h30m", Some(5_400_000)),
            ("0s", Some(0)),
            ("1h1m1s1ms", Some(3_661_001)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-5s", None),
            ("5 s", None),
            ("5S", None),
            ("1m1h", None),
            ("1s1s", None),
            ("1.s", None),
            (".5s", None),
            ("1..5s", None),
            ("1d", None),
            ("99999999999999999999h", None),
            ("18446744073709551615h", None),
            ("1é", None),
        ] {
            assert_eq!(span(text), ms.map(Duration::from_millis), "{text}");
        }
        assert!(is_signed_span("-1m") && is_signed_span("24h") && !is_signed_span("-1"));
        for (ms, text) in [
            (300, "300ms"),
            (5000, "5s"),
            (120_000, "2m"),
            (3_600_000, "1h"),
        ] {
            assert_eq!(span_text(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn listening_addresses() {
        for (text, addr) in [
            ("127.0.0.1:8090", Some("127.0.0.1:8090")),
            ("[::1]:80", Some("[::1]:80")),
            ("localhost:8090", Some("127.0.0.1:8090")),
            (":8090", Some("0.0.0.0:8090")),
            ("127.0.0.1", None),
            ("example.org:80", None),
            ("127.0.0.1:70000", None),
            ("localhost:+80", None),
        ] {
            assert_eq!(
                listen(text),
                addr.map(|addr| addr.parse().unwrap()),
                "{text}"
            );
        }
    }

    #[test]
    fn urls_in_one_form() {
        for (text, root, end) in [
            (
                "http://127.0.0.1:11434",
                "http://127.0.0.1:11434",
                "http://127.0.0.1:11434",
            ),
            (
                "HTTPS://Api.Example.org/v1/",
                "https://api.example.org/v1",
                "https://api.example.org:443",
            ),
            (
                "http://LocalHost.:80/",
                "http://localhost",
                "http://localhost:80",
            ),
            ("https://[::1]:443", "https://[::1]", "https://[::1]:443"),
            ("http://box:8080", "http://box:8080", "http://box:8080"),
        ] {
            let url = url_root(text).unwrap();
            assert_eq!(root_text(&url), root);
            assert_eq!(endpoint(&url), end);
        }
        for (text, word) in [
            ("127.0.0.1:11434", "http://"),
            ("http://u:p@example.org", "password"),
            ("http://example.org?x", "query"),
            ("http://example.org/#x", "#"),
        ] {
            let message = url_root(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
    }
}
