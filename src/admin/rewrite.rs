//! The request that tiny_http gets to see: written anew from what the front has read, with nothing
//! of the client's in it that is not needed. Pure.

use std::net::SocketAddr;

use crate::net::front::{Head, Version};

/// The header that carries the client's address.
pub(super) const PEER: &str = "X-Korvun-Peer";
/// The header that shows that a request came through the front.
pub(super) const PASS: &str = "X-Korvun-Pass";
/// The header of repeated requests.
pub(super) const IDEMPOTENCY_KEY: &str = "X-Idempotency-Key";
/// The header of what language is read.
pub(super) const ACCEPT_LANGUAGE: &str = "Accept-Language";

/// What of a client's fields goes on; all else ends at the front.
const KEPT: [&str; 4] = ["Host", "Content-Type", IDEMPOTENCY_KEY, ACCEPT_LANGUAGE];

/// The new head: one Content-Length, `Connection: close`, no other framing.
pub(super) fn rewrite(head: &Head, body_bytes: usize, peer: SocketAddr, pass: &str) -> Vec<u8> {
    let version = match head.version() {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    };
    let mut out = format!("{} {} {version}\r\n", head.method(), head.target());
    for name in KEPT {
        // tiny_http knows ASCII only; what is not is of no use to it.
        if let Some(value) = head.text(name).filter(|value| value.is_ascii()) {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    out.push_str(&format!(
        "Content-Length: {body_bytes}\r\nConnection: close\r\n{PEER}: {peer}\r\n{PASS}: {pass}\r\n\r\n"
    ));
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_client_goes_on_that_is_not_needed() {
        let text = "POST /api?x=1 HTTP/1.1\r\nhost: localhost\r\nConnection: keep-alive, upgrade\r\n\
            Upgrade: websocket\r\nTE: chunked\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\
            X-Korvun-Peer: 1.2.3.4:5\r\nx-korvun-pass: guess\r\nAuthorization: Bearer secret\r\n\
            content-type: application/json\r\nCookie: a=b\r\nX-Idempotency-Key: k\r\naccept-language: es\r\n\r\n";
        let head = Head::parse(text.as_bytes()).unwrap();
        let peer = "192.0.2.7:9".parse().unwrap();
        assert_eq!(
            String::from_utf8(rewrite(&head, 12, peer, "word")).unwrap(),
            "POST /api?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             X-Idempotency-Key: k\r\nAccept-Language: es\r\nContent-Length: 12\r\nConnection: close\r\n\
             X-Korvun-Peer: 192.0.2.7:9\r\nX-Korvun-Pass: word\r\n\r\n"
        );
    }
}
