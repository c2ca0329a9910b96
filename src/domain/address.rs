//! Which addresses may be dialled: pure rules over an IP address, decided before anything is sent.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What stands between a caller and the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shield {
    /// Every address but those where clouds hand out credentials.
    Open,
    /// Only addresses of this machine and of private networks.
    Private,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A metadata service, or link-local IPv4 where such services live. Refused for everybody.
    Metadata,
    /// Not an address of this machine or of a private network.
    NotPrivate,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Metadata => "an address of a metadata service",
            Refusal::NotPrivate => "not a private address",
        })
    }
}

impl Shield {
    /// Why `address` may not be dialled behind this shield; `None` where it may.
    #[must_use]
    pub fn refuses(self, address: IpAddr) -> Option<Refusal> {
        if is_metadata(address) {
            Some(Refusal::Metadata)
        } else if self == Shield::Private && !is_private(address) {
            Some(Refusal::NotPrivate)
        } else {
            None
        }
    }
}

/// Whether an address is one of the seven private ranges of the product: 127/8, ::1, 10/8,
/// 172.16/12, 192.168/16, fc00::/7, fe80::/10; an IPv4-mapped one is unmapped first.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            v6.is_loopback() || first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
        }
    }
}

/// The metadata service of AWS over IPv6 (EC2 user guide, "Retrieve instance metadata").
const AWS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
/// The metadata service of Google Cloud over IPv6 (Compute Engine, "About VM metadata").
const GOOGLE_V6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254);
/// The metadata service of Alibaba Cloud (ECS, "Instance metadata").
const ALIBABA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);

fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_metadata_v4(v4),
        IpAddr::V6(v6) => {
            v6 == AWS_V6
                || v6 == GOOGLE_V6
                || embedded(v6).into_iter().flatten().any(is_metadata_v4)
        }
    }
}

fn is_metadata_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || address == ALIBABA_V4
}

/// The IPv4 addresses that an IPv6 address may lead to by a known translation: mapped and
/// compatible (RFC 4291, 2.5.5), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo's server and
/// client (RFC 4380, 4), ISATAP (RFC 5214, 6.1).
fn embedded(address: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let s = address.segments();
    let at = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            [at(high, low), None, None]
        }
        // A network may cut its own prefixes from this /48: of 48 bits, where the address goes
        // around bits 64 to 71, of 64 bits, or of 96 bits, where it stands last (RFC 6052, 2.2).
        [0x64, 0xff9b, 1, a, b, c, d, e] => [
            at(a, b << 8 | c >> 8),
            at(b << 8 | c >> 8, c << 8 | d >> 8),
            at(d, e),
        ],
        [0x2002, high, low, ..] => [at(high, low), None, None],
        [0x2001, 0, high, low, _, _, a, b] => [at(high, low), at(!a, !b), None],
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => [at(high, low), None, None],
        _ => [None, None, None],
    }
}

/// The address that a host of a URL stands for without any look-up: IPv6 in brackets, dotted
/// IPv4, and the old forms that the system's resolver takes as IPv4 too (`127.1`, `2130706433`,
/// `0x7f.0.0.1`, `0177.1`; inet_aton(3)). `None` for a name.
#[must_use]
pub fn literal(host: &str) -> Option<IpAddr> {
    if let Some(inner) = host.strip_prefix('[') {
        return inner
            .strip_suffix(']')?
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6);
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    host.parse::<IpAddr>()
        .ok()
        .or_else(|| old_ipv4(host).map(IpAddr::V4))
}

fn old_ipv4(host: &str) -> Option<Ipv4Addr> {
    let parts = host
        .split('.')
        .map(old_number)
        .collect::<Option<Vec<u32>>>()?;
    let (last, front) = parts.split_last()?;
    if front.len() > 3 || front.iter().any(|part| *part > 255) {
        return None;
    }
    // The last part fills all bytes that the ones before it leave.
    let room = 32 - 8 * u32::try_from(front.len()).ok()?;
    if room < 32 && *last >> room != 0 {
        return None;
    }
    let high = front.iter().fold(0_u32, |all, part| all << 8 | part);
    Some(Ipv4Addr::from(if room == 32 {
        *last
    } else {
        high << room | last
    }))
}

fn old_number(part: &str) -> Option<u32> {
    let (digits, radix) = match part.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&part[2..], 16),
        [b'0', _, ..] => (&part[1..], 8),
        _ => (part, 10),
    };
    // `from_str_radix` takes a sign, the old forms do not.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_private_shield_lets_through_exactly_the_seven_ranges() {
        for allowed in [
            "127.0.0.0",
            "127.0.0.1",
            "127.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "::1",
            "fc00::",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fe80::",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:192.168.1.1",
        ] {
            assert_eq!(Shield::Private.refuses(ip(allowed)), None, "{allowed}");
            assert_eq!(Shield::Open.refuses(ip(allowed)), None, "{allowed}");
        }
        for refused in [
            "0.0.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::2",
            "::127.0.0.1",
            "::10.0.0.1",
            "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fe00::1",
            "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fec0::",
            "ff02::1",
            "2000::1",
            "::ffff:8.8.8.8",
            "::ffff:0.0.0.0",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::10.0.0.1",
            "2002:a00:1::1",
            "2001:0:a00:1::1",
            "2001:db8::1",
        ] {
            assert_eq!(
                Shield::Private.refuses(ip(refused)),
                Some(Refusal::NotPrivate),
                "{refused}"
            );
            assert_eq!(Shield::Open.refuses(ip(refused)), None, "{refused}");
        }
    }

    #[test]
    fn metadata_services_are_refused_for_everybody_in_every_dress() {
        for refused in [
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "100.100.100.200",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:169.254.169.254",
            "::ffff:100.100.100.200",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::169.254.169.254",
            "64:ff9b:1:a9fe:00a9:fe00::",
            "64:ff9b:1:1234:00a9:fea9:fe00:0",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:cb00:7107:0:0:5601:5601",
            "2001:db8::5efe:169.254.169.254",
            "fe80::200:5efe:169.254.169.254",
        ] {
            for shield in [Shield::Open, Shield::Private] {
                assert_eq!(
                    shield.refuses(ip(refused)),
                    Some(Refusal::Metadata),
                    "{refused} {shield:?}"
                );
            }
        }
        for open in [
            "169.253.255.255",
            "169.255.0.0",
            "100.100.100.199",
            "100.100.100.201",
            "fd00:ec2::253",
            "fd20:ce::255",
            "2003:a9fe:a9fe::1",
            "64:ff9b:2::169.254.169.254",
            "2001:db8::169.254.169.254",
        ] {
            assert_eq!(Shield::Open.refuses(ip(open)), None, "{open}");
        }
    }

    #[test]
    fn literals_are_read_as_the_systems_resolver_reads_them() {
        for (host, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::ffff:127.0.0.2]", "::ffff:127.0.0.2"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000002", "127.0.0.2"),
            ("127.1", "127.0.0.1"),
            ("127.0.257", "127.0.1.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("0X7F.1", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("4294967295", "255.255.255.255"),
            ("169.254.43518", "169.254.169.254"),
        ] {
            assert_eq!(literal(host), Some(ip(address)), "{host}");
        }
        for name in [
            "",
            ".",
            "localhost",
            "a.b",
            "4294967296",
            "256.0.0.1",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.16777216",
            "08.1",
            "+1",
            "-1",
            "1..2",
            "127.0.0.1..",
            "[127.0.0.1]",
            "[::1",
            "[fe80::1%lo]",
            "0xg",
            "1.2.3.4:80",
        ] {
            assert_eq!(literal(name), None, "{name}");
        }
    }
}
