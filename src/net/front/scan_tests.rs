//! Tables of heads: what is read, what waits, what is refused.

use super::super::head::{Announced, Head};
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
    whole?.map(|range| Head::parse(&text[range])).transpose()
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
