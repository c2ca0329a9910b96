//! Which `Host` and `Origin` a request may carry: the guard against pages that rebind a name to
//! this machine, or post here from elsewhere. Pure.

use std::net::IpAddr;

/// The names beyond the built-in ones that are accepted, from `observability.allow_hosts`.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    pub(super) fn new(allow_hosts: &[String]) -> Hosts {
        Hosts(allow_hosts.iter().map(|name| fold(name)).collect())
    }

    /// Whether `host`, with or without a port, names this server: `localhost`, a loopback
    /// address, the address the connection arrived on, or a listed name.
    pub(super) fn accept(&self, host: &str, local: IpAddr) -> bool {
        let Some((name, _)) = split(host) else {
            return false;
        };
        let name = fold(name);
        if name == "localhost" || self.0.contains(&name) {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        let bracketed = literal.len() != name.len();
        literal.parse::<IpAddr>().is_ok_and(|address| {
            let address_fits = address.is_ipv6() == bracketed;
            let canonical = address.to_canonical();
            address_fits && (canonical.is_loopback() || canonical == local.to_canonical())
        })
    }
}

/// Whether a page of `origin` is this server's own: `http://` or `https://` and the request's own
/// host, default ports left out.
pub(super) fn own_origin(origin: &[u8], host: &str) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else {
        return false;
    };
    let Some((scheme, theirs)) = origin.split_once("://") else {
        return false;
    };
    let default = match scheme {
        "http" => "80",
        "https" => "443",
        _ => return false,
    };
    let place = |text| {
        let (name, port) = split(text)?;
        Some((fold(name), port.filter(|port| *port != default)))
    };
    place(theirs).is_some_and(|theirs| Some(theirs) == place(host))
}

/// Name and port of `NAME[:PORT]`; an IPv6 literal keeps its brackets.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at_checked(end)?;
    let port = match rest.strip_prefix(':') {
        Some(port) if port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()) => port,
        None if rest.is_empty() => "",
        _ => return None,
    };
    let port = Some(port).filter(|port| !port.is_empty());
    (!name.is_empty()).then_some((name, port))
}

/// A name for comparison: lower case, without the dot of a fully qualified one.
fn fold(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_name_this_server() {
        let hosts = Hosts::new(&["Korvun.LAN".to_owned(), "10.0.0.7".to_owned()]);
        for (host, accepted) in [
            ("localhost", true),
            ("LOCALHOST:2112", true),
            ("localhost.", true),
            ("127.0.0.1", true),
            ("127.8.9.1:80", true),
            ("[::1]", true),
            ("[::1]:2112", true),
            ("[::ffff:127.0.0.1]", true),
            ("192.168.1.5:2112", true),
            ("[::ffff:192.168.1.5]", true),
            ("korvun.lan", true),
            ("korvun.lan.:2112", true),
            ("10.0.0.7:1", true),
            ("192.168.1.6", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("korvun.lan.evil.example:2112", false),
            ("x.localhost", false),
            ("127.1", false),
            ("2130706433", false),
            ("0x7f.0.0.1", false),
            ("0.0.0.0", false),
            ("[::]", false),
            ("::1", false),
            ("[127.0.0.1]", false),
            ("[::1", false),
            ("[::1]x", false),
            ("localhost:", true),
            ("localhost:80:80", false),
            ("localhost:http", false),
            ("localhost:123456", false),
            ("", false),
            (":80", false),
        ] {
            let local = "192.168.1.5".parse().unwrap();
            assert_eq!(hosts.accept(host, local), accepted, "{host}");
        }
    }

    #[test]
    fn origins_that_are_this_servers_own() {
        for (origin, host, own) in [
            ("http://localhost:2112", "localhost:2112", true),
            ("http://LOCALHOST:2112", "localhost:2112", true),
            ("https://korvun.lan", "korvun.lan", true),
            ("https://korvun.lan", "korvun.lan:443", true),
            ("http://korvun.lan:80", "korvun.lan", true),
            ("http://[::1]:2112", "[::1]:2112", true),
            ("null", "localhost", false),
            ("", "localhost", false),
            ("http://evil.example", "localhost", false),
            ("http://localhost", "localhost:2112", false),
            ("http://localhost:2113", "localhost:2112", false),
            ("https://korvun.lan:80", "korvun.lan", false),
            ("ftp://localhost", "localhost", false),
            ("http://localhost.evil.example", "localhost", false),
            ("http://localhost/", "localhost", false),
            ("http://user@localhost", "localhost", false),
            ("localhost", "localhost", false),
            ("\u{fc}", "localhost", false),
        ] {
            assert_eq!(own_origin(origin.as_bytes(), host), own, "{origin} {host}");
        }
    }
}
