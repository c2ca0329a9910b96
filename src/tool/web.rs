//! What the two network tools share: the list of hosts and the shield, asked before anything is
//! looked up or dialled, and the reading of what a server answers. Runs on the run's thread.

use std::fmt::Write as _;

use super::port::Fault;
use crate::base::text::{prefix, printable};
use crate::domain::address::Shield;
use crate::domain::audit::Rule;
use crate::domain::brain::Sensitivity;
use crate::domain::hosts::HostList;
use crate::domain::html;
use crate::domain::reading::{self, Cut};
use crate::domain::url::{Url, UrlError};
use crate::net::error::HttpError;
use crate::net::http::{Client, Response, Wire};

/// Bytes of the body of an answer that is no success which a model is shown: enough for its reason.
const REASON_BYTES: usize = 1000;

/// Where a network tool may reach, and how.
#[derive(Debug)]
pub(super) struct Reach {
    hosts: HostList,
    shield: Shield,
    client: Client,
}

impl Reach {
    /// The listed hosts; for a private brain at private addresses only.
    pub(super) fn new(hosts: &[String], sensitivity: Sensitivity, wire: &Wire) -> Reach {
        let shield = match sensitivity {
            Sensitivity::Private => Shield::Private,
            Sensitivity::Public => Shield::Open,
        };
        Reach {
            hosts: HostList::new(hosts),
            shield,
            client: wire.client(shield),
        }
    }

    /// What sends, behind the shield.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The URL of a call, where it may be reached as far as the text tells.
    ///
    /// # Errors
    /// `Refused` by the cage, or by the shield for an address.
    pub(super) fn aim(&self, text: &str) -> Result<Url, Fault> {
        self.judged(Url::parse(&written(text)))
    }

    /// Where a redirect leads, where that may be reached.
    ///
    /// # Errors
    /// As [`Reach::aim`]; https does not lead to http.
    pub(super) fn follow(&self, from: &Url, location: &str) -> Result<Url, Fault> {
        let to = self.judged(from.reference(&written(location)))?;
        if from.secure() && !to.secure() {
            return Err(caged(
                "the server redirects from https to http, which is not followed",
            ));
        }
        Ok(to)
    }

    fn judged(&self, url: Result<Url, UrlError>) -> Result<Url, Fault> {
        let url = url.map_err(|error| caged(error.to_string()))?;
        if !self.hosts.allows(&url) {
            return Err(caged(
                "this host and port are not on the list of those that may be reached",
            ));
        }
        match url
            .literal()
            .and_then(|address| self.shield.refuses(address))
        {
            Some(_) => Err(shielded()),
            None => Ok(url),
        }
    }
}

/// A URL as people and models write it: without its `#` part, which is never sent, and with what
/// is no ASCII behind the host in its percent form (RFC 3986, section 2.1; RFC 3987, 3.1).
fn written(text: &str) -> String {
    let text = text.trim();
    let text = text.split_once('#').map_or(text, |(before, _)| before);
    let host = text.find("://").map_or(0, |at| at + 3);
    let path = text[host..]
        .find(['/', '?'])
        .map_or(text.len(), |at| host + at);
    let (before, after) = text.split_at(path);
    let mut out = before.to_owned();
    for c in after.chars() {
        if c == ' ' || (!c.is_ascii() && !c.is_control()) {
            for byte in c.to_string().bytes() {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A refusal by the cage.
pub(super) fn caged(told: impl Into<String>) -> Fault {
    Fault::Refused {
        rule: Rule::Cage,
        told: told.into(),
    }
}

fn shielded() -> Fault {
    Fault::Refused {
        rule: Rule::PrivateNetworkShield,
        told: "the address of this host may not be reached from here; nothing was sent".into(),
    }
}

/// What a model is told of a request that brought no answer. `late` is said when time ran out.
pub(super) fn told(error: &HttpError, late: &str) -> Fault {
    let told = match error {
        HttpError::Shield(_) => return shielded(),
        HttpError::Timeout(_) => late,
        HttpError::Connect(_) => "no connection to the server, or it broke off",
        HttpError::Protocol(_) => "what the server answers is not HTTP, or too large",
        HttpError::Tls(trouble, _) => {
            return Fault::Failed {
                told: format!("no trusted connection to the server: {}", trouble.word()),
            }
        }
        HttpError::Request(_) => "the request cannot be written",
        HttpError::Cancelled => "given up",
    };
    Fault::Failed { told: told.into() }
}

/// Whether an answer says that something is elsewhere (RFC 9110, section 15.4).
pub(super) fn redirects(answer: &Response) -> bool {
    matches!(answer.status, 301 | 302 | 303 | 307 | 308)
}

/// A failure for a status that is no success, with the beginning of what the server says to it.
pub(super) fn unsuccessful(answer: &Response) -> Fault {
    let mut told = format!("the server answers with status {}", answer.status);
    if let Body::Text(text) = body(answer) {
        let reason = prefix(text.trim(), REASON_BYTES);
        if !reason.is_empty() {
            told.push_str(": ");
            told.push_str(reason);
        }
    }
    Fault::Failed { told }
}

/// The body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// As text; HTML is reduced to its own.
    Text(String),
    /// It is none; what it is instead.
    Binary(String),
}

/// Reads the body of an answer.
pub(super) fn body(answer: &Response) -> Body {
    read(
        answer.header("content-type").unwrap_or_default(),
        &answer.body,
        if answer.truncated { Cut::Yes } else { Cut::No },
    )
}

fn read(content_type: &str, bytes: &[u8], cut: Cut) -> Body {
    let kind = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let decoded = reading::text(bytes, cut).map(str::to_owned).or_else(|| {
        // Old pages are of western Europe more often than of anywhere else.
        let text = kind.starts_with("text/") && !bytes.contains(&0);
        text.then(|| reading::western(bytes))
    });
    let Some(text) = decoded else {
        let kind = if kind.is_empty() {
            "unknown type".to_owned()
        } else {
            printable(prefix(&kind, 100))
        };
        let least = if cut == Cut::Yes { "over " } else { "" };
        return Body::Binary(format!(
            "no text ({kind}, {least}{} bytes); its content is not shown",
            bytes.len()
        ));
    };
    let start = text.trim_start();
    let is_html = match kind.as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => ["<!doctype html", "<html"].iter().any(|tag| {
            start
                .get(..tag.len())
                .is_some_and(|s| s.eq_ignore_ascii_case(tag))
        }),
        _ => false,
    };
    Body::Text(if is_html { html::text(&text) } else { text })
}

/// The body as a model is shown it, with a mark where it was cut at `most` bytes.
pub(super) fn shown(answer: &Response) -> String {
    let mut text = match body(answer) {
        Body::Text(text) => text,
        Body::Binary(told) => return told,
    };
    if answer.truncated {
        let _ = write!(text, "\n[cut after {} bytes]", answer.body.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::SystemClock;
    use crate::domain::limits::Limits;
    use std::sync::Arc;

    fn reach(sensitivity: Sensitivity, hosts: &[&str]) -> Reach {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let wire = Wire::new(None, &Limits::default(), Arc::new(SystemClock));
        Reach::new(&hosts, sensitivity, &wire)
    }

    fn rule(fault: &Fault) -> Option<Rule> {
        match fault {
            Fault::Refused { rule, .. } => Some(*rule),
            Fault::Failed { .. } => None,
        }
    }

    #[test]
    fn a_disguised_host_is_refused_by_the_cage() {
        let reach = reach(
            Sensitivity::Public,
            &["127.0.0.1", "xn--bcher-kva.example", "good.example"],
        );
        for url in [
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::127.0.0.1]/",
            "http://[64:ff9b::127.0.0.1]/",
            "http://[2002:7f00:1::]/",
            "http://localhost/",
            "http://127.0.0.1:81/",
            "https://127.0.0.1:80/",
            "http://u@127.0.0.1/",
            "http://127.0.0.1@evil.example/",
            "http://127.0.0.1:80@evil.example/",
            "http://evil.example\\@127.0.0.1/",
            "http://evil.example#@127.0.0.1/",
            "http://evil.example?@127.0.0.1/",
            "http://[fe80::1%25lo]/",
            "http://[fe80::1%lo]/",
            "http://127.0.0.1%2f.evil.example/",
            "http://bücher.example/",
            "http://１２７.0.0.1/",
            "http://127。0.0.1/",
            "http://good.example.evil.example/",
            "http:/127.0.0.1/",
            "//127.0.0.1/",
            "127.0.0.1",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "http://",
            "",
            "http://127.0.0.1\r\nx: y/",
        ] {
            let fault = reach.aim(url).expect_err(url);
            assert_eq!(rule(&fault), Some(Rule::Cage), "{url}: {fault:?}");
        }
        for (url, wire) in [
            ("http://127.0.0.1", "http://127.0.0.1/"),
            ("http://127.0.0.1./a", "http://127.0.0.1./a"),
            ("  HTTPS://GOOD.example./x#y ", "https://good.example./x"),
            (
                "http://xn--bcher-kva.example/",
                "http://xn--bcher-kva.example/",
            ),
            (
                "https://good.example/Málaga 1?q=ñ",
                "https://good.example/M%C3%A1laga%201?q=%C3%B1",
            ),
            (
                "https://good.example?q=a b",
                "https://good.example/?q=a%20b",
            ),
        ] {
            assert_eq!(
                reach.aim(url).map(|url| url.to_wire()),
                Ok(wire.to_owned()),
                "{url}"
            );
        }
    }

    #[test]
    fn an_address_is_judged_by_the_shield_before_anything_is_sent() {
        let listed = [
            "127.0.0.1",
            "192.168.1.20:5678",
            "203.0.113.7",
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[fd00:ec2::254]",
            "[64:ff9b::a9fe:a9fe]",
            "n8n",
            "100.64.0.1",
            "0.0.0.0",
        ];
        let shield = Some(Rule::PrivateNetworkShield);
        for (url, public, private) in [
            ("http://127.0.0.1/", None, None),
            ("http://192.168.1.20:5678/hook", None, None),
            ("http://n8n/", None, None),
            ("http://203.0.113.7/", None, shield),
            ("http://100.64.0.1/", None, shield),
            ("http://0.0.0.0/", None, shield),
            ("http://169.254.169.254/latest", shield, shield),
            ("http://169.254.169.254./", shield, shield),
            ("http://[::ffff:169.254.169.254]/", shield, shield),
            ("http://[fd00:ec2::254]/", shield, shield),
            ("http://[64:ff9b::169.254.169.254]/", shield, shield),
        ] {
            for (sensitivity, refused) in [
                (Sensitivity::Public, public),
                (Sensitivity::Private, private),
            ] {
                let fault = reach(sensitivity, &listed).aim(url).err();
                assert_eq!(
                    fault.as_ref().and_then(rule),
                    refused,
                    "{url} {sensitivity:?}"
                );
                assert_eq!(fault.is_some(), refused.is_some(), "{url} {sensitivity:?}");
            }
        }
    }

    #[test]
    fn a_redirect_is_judged_like_a_first_address() {
        let reach = reach(
            Sensitivity::Private,
            &["a.example", "b.example:8443", "203.0.113.7"],
        );
        let from = |text: &str| Url::parse(text).unwrap();
        for (base, location, to) in [
            ("https://a.example/x/y?z", "w", Ok("https://a.example/x/w")),
            ("https://a.example/x", "/y#f", Ok("https://a.example/y")),
            (
                "http://a.example/x",
                "https://a.example/x",
                Ok("https://a.example/x"),
            ),
            (
                "https://a.example/x",
                "//b.example:8443/é",
                Ok("https://b.example:8443/%C3%A9"),
            ),
            ("https://a.example/x", "http://a.example/", Err(Rule::Cage)),
            ("http://a.example/x", "http://b.example/", Err(Rule::Cage)),
            ("http://a.example/x", "//u@a.example/", Err(Rule::Cage)),
            (
                "http://a.example/x",
                "http://203.0.113.7/",
                Err(Rule::PrivateNetworkShield),
            ),
            ("http://a.example/x", "javascript:alert(1)", Err(Rule::Cage)),
        ] {
            let led = reach.follow(&from(base), location);
            let led = led
                .map(|url| url.to_wire())
                .map_err(|fault| rule(&fault).unwrap());
            assert_eq!(led, to.map(str::to_owned), "{base} {location}");
        }
    }

    #[test]
    fn bodies_are_text_or_described() {
        let text = |text: &str| Body::Text(text.to_owned());
        for (kind, bytes, cut, shown) in [
            (
                "text/html; charset=utf-8",
                "<p>a<p>ñ".as_bytes(),
                Cut::No,
                text("a\n\nñ"),
            ),
            ("", b" <!DOCTYPE HTML><b>x</b>", Cut::No, text("x")),
            (
                "application/json",
                b"{\"a\":\"<b>\"}",
                Cut::No,
                text("{\"a\":\"<b>\"}"),
            ),
            ("text/plain", b"a\xf1o", Cut::No, text("año")),
            ("TEXT/HTML", b"<p>a\xf1o", Cut::Yes, text("año")),
            (
                "text/plain",
                "añ".as_bytes().split_last().unwrap().1,
                Cut::Yes,
                text("a"),
            ),
            (
                "image/png",
                b"\x89PNG\0",
                Cut::Yes,
                Body::Binary("no text (image/png, over 5 bytes); its content is not shown".into()),
            ),
            (
                "text/plain",
                b"a\0",
                Cut::No,
                Body::Binary("no text (text/plain, 2 bytes); its content is not shown".into()),
            ),
        ] {
            assert_eq!(read(kind, bytes, cut), shown, "{kind}");
        }
    }
}
