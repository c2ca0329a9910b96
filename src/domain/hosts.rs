//! Hosts as they are compared, and lists of those that may be reached. Pure: judged by the text
//! alone, before any look-up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::url::Url;

/// A host name or address in the one form in which hosts are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An IP address.
    Ip(IpAddr),
    /// A name, in lower case and without a dot at its end.
    Name(String),
}

impl Host {
    /// As it stands in a URL.
    #[must_use]
    pub fn in_url(&self) -> String {
        match self {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
            Host::Ip(ip) => ip.to_string(),
            Host::Name(name) => name.clone(),
        }
    }
}

/// The hosts that a tool may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostList(Vec<(Host, Option<u16>)>);

impl HostList {
    /// The list of these entries. One that could never match is left out; the check of the
    /// configuration has refused it before.
    #[must_use]
    pub fn new(entries: &[String]) -> HostList {
        HostList(
            entries
                .iter()
                .filter_map(|entry| host_port(entry).ok())
                .collect(),
        )
    }

    /// Whether a URL leads to one of them. An entry without a port means the default port of the
    /// URL's scheme. A host in an odd form (`127.1`, `0x7f.1`, `2130706433`) equals none.
    #[must_use]
    pub fn allows(&self, url: &Url) -> bool {
        let Ok(host) = host(url.host()) else {
            return false;
        };
        let usual = if url.secure() { 443 } else { 80 };
        self.0
            .iter()
            .any(|(name, port)| *name == host && port.unwrap_or(usual) == url.port())
    }
}

/// Reads a host: an ASCII name, an IPv4 address as four decimals, or an IPv6 address in brackets.
///
/// # Errors
/// Why it is none.
pub fn host(text: &str) -> Result<Host, &'static str> {
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner
            .strip_suffix(']')
            .ok_or("the bracket of the IPv6 address is not closed")?;
        return match inner.parse::<Ipv6Addr>() {
            Ok(ip) => Ok(Host::Ip(ip.into())),
            Err(_) if inner.contains('%') => Err("an IPv6 address with a zone"),
            Err(_) => Err("not an IPv6 address"),
        };
    }
    if !text.is_ascii() {
        return Err("a host name outside ASCII; write its xn-- form");
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    if name.is_empty() || name.len() > 253 {
        return Err("a host name of no length, or of more than 253 characters");
    }
    if let Ok(ip) = name.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(ip.into()));
    }
    for label in name.split('.') {
        let plain = !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if !plain {
            return Err("not a host name");
        }
    }
    // A last label that is a number makes resolvers read the whole as an IPv4 address in one of
    // its odd forms (127.1, 0x7f.1, 2130706433).
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last
        .strip_prefix("0x")
        .is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    if hexadecimal || last.bytes().all(|b| b.is_ascii_digit()) {
        return Err("not a host name, nor an IPv4 address as four decimal numbers");
    }
    Ok(Host::Name(name))
}

/// Reads an entry of `allow_hosts`: a host with an optional port.
///
/// # Errors
/// Why it could never match.
pub fn host_port(text: &str) -> Result<(Host, Option<u16>), &'static str> {
    if text.contains("://") {
        return Err("a URL; only its host belongs here");
    }
    if text.contains('*') {
        return Err("a wildcard; each host is listed by its exact name");
    }
    if text.contains('/') {
        return Err("a path or a range of addresses; each host is listed by its exact name");
    }
    if text.contains('@') {
        return Err("a user name; only the host belongs here");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("white space in a host");
    }
    if let Ok(ip) = text.parse::<Ipv6Addr>() {
        return Ok((Host::Ip(ip.into()), None));
    }
    let (name, port) = split_port(text)?;
    Ok((host(name)?, port))
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let after_bracket = text.rfind(']').map_or(0, |at| at + 1);
    match text[after_bracket..].rfind(':') {
        None => Ok((text, None)),
        Some(at) => {
            let (name, port) = text.split_at(after_bracket + at);
            let digits = &port[1..];
            // `parse` takes a sign, a port has none.
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            match digits.parse() {
                Ok(port) if plain && port != 0 => Ok((name, Some(port))),
                _ => Err("not a port from 1 to 65535"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_can_match_and_hosts_that_cannot() {
        for (text, form) in [
            ("192.168.1.20:5678", Ok("192.168.1.20:5678")),
            ("Example.ORG.", Ok("example.org")),
            ("n8n", Ok("n8n")),
            ("my_host:80", Ok("my_host:80")),
            ("::1", Ok("[::1]")),
            ("[::1]", Ok("[::1]")),
            ("[0:0::1]:8080", Ok("[::1]:8080")),
            ("http://example.org", Err("URL")),
            ("example.org/x", Err("path")),
            ("10.0.0.0/8", Err("range")),
            ("*.example.org", Err("wildcard")),
            ("me@example.org", Err("user")),
            ("[fe80::1%eth0]", Err("zone")),
            ("127.1", Err("four decimal")),
            ("0x7f000001", Err("four decimal")),
            ("2130706433", Err("four decimal")),
            ("010.0.0.1", Err("four decimal")),
            ("bücher.example", Err("xn--")),
            ("example.org:0", Err("port")),
            ("example.org:", Err("port")),
            ("a b", Err("white space")),
            ("", Err("no length")),
            ("a..b", Err("not a host name")),
        ] {
            let read = host_port(text).map(|(host, port)| match port {
                Some(port) => format!("{}:{port}", host.in_url()),
                None => host.in_url(),
            });
            match (read, form) {
                (Ok(read), Ok(form)) => assert_eq!(read, form),
                (Err(read), Err(word)) => assert!(read.contains(word), "{text}: {read}"),
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn a_list_lets_through_what_it_names_and_no_disguise_of_it() {
        let entries = [
            "127.0.0.1",
            "n8n.lan:5678",
            "Example.ORG.",
            "::1",
            "[fd00::1]:8080",
            "xn--bcher-kva.example",
        ]
        .map(str::to_owned);
        let list = HostList::new(&entries);
        for (url, allowed) in [
            ("http://127.0.0.1/", true),
            ("https://127.0.0.1/", true),
            ("http://127.0.0.1:80/", true),
            ("https://127.0.0.1:443/", true),
            ("http://127.0.0.1./", true),
            ("http://127.0.0.1:443/", false),
            ("https://127.0.0.1:80/", false),
            ("http://127.0.0.1:8080/", false),
            ("http://127.1/", false),
            ("http://0x7f.0.0.1/", false),
            ("http://0x7f000001/", false),
            ("http://0177.0.0.1/", false),
            ("http://2130706433/", false),
            ("http://[::ffff:127.0.0.1]/", false),
            ("http://[::127.0.0.1]/", false),
            ("http://localhost/", false),
            ("http://n8n.lan:5678/x", true),
            ("https://n8n.lan:5678/x", true),
            ("http://N8N.LAN.:5678/", true),
            ("http://n8n.lan/", false),
            ("http://n8n.lan:567/", false),
            ("http://a.n8n.lan:5678/", false),
            ("http://n8n.lan.example:5678/", false),
            ("https://example.org/", true),
            ("http://EXAMPLE.org./", true),
            ("http://example.org:443/", false),
            ("http://www.example.org/", false),
            ("http://[::1]/", true),
            ("http://[0:0:0:0:0:0:0:1]/", true),
            ("http://[::0.0.0.1]/", true),
            ("http://[::1]:81/", false),
            ("http://[fd00:0::1]:8080/", true),
            ("http://[fd00::1]/", false),
            ("http://xn--bcher-kva.example/", true),
        ] {
            assert_eq!(list.allows(&Url::parse(url).unwrap()), allowed, "{url}");
        }
        assert!(!HostList::new(&[]).allows(&Url::parse("http://a/").unwrap()));
    }
}
