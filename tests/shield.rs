//! The shield on real sockets: what it lets through, on loopback; and, in a network namespace where
//! every packet is captured, that nothing of what it refuses ever reaches the link.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use korvun::base::clock::SystemClock;
use korvun::base::secret::Secret;
use korvun::domain::address::Shield;
use korvun::domain::brain::Sensitivity::{self, Private, Public};
use korvun::domain::completion::{Completion, Failure, FailureKind};
use korvun::domain::limits::Limits;
use korvun::domain::url::Url;
use korvun::net::cancel::Cancel;
use korvun::net::error::HttpError;
use korvun::net::http::{Request, Resend, Wire};
use korvun::net::names::Names;
use korvun::provider::build;
use serde_json::json;

use crate::support::asking::{ask, model, wire, within};
use crate::support::model::{ollama_says, ollama_shows, openai_says, ModelServer, Reply, Seen};
use crate::support::netns::{self, Capture, Place};

fn answer(seen: &Seen) -> Reply {
    match seen.line.as_str() {
        "POST /api/show" => ollama_shows(8192),
        "POST /api/chat" => ollama_says("hello"),
        _ => openai_says("hello"),
    }
}

fn post(wire: &Wire, shield: Shield, url: &str, bearer: Option<&Secret>) -> Result<u16, HttpError> {
    let answer = wire.client(shield).send(&Request {
        url: &Url::parse(url).unwrap(),
        json: Some(b"{}"),
        headers: &[],
        bearer,
        deadline: within(Duration::from_secs(10)),
        cancel: &Cancel::new(),
        body_most: 10_000,
        resend: Resend::Once,
    });
    answer.map(|answer| answer.status)
}

#[test]
fn this_machine_is_reached_by_every_way_to_write_it() {
    let server = ModelServer::start(answer);
    let port = server.addr().port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "127.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
    ] {
        let url = format!("http://{host}:{port}/v1");
        assert_eq!(
            post(&wire(), Shield::Private, &url, None),
            Ok(200),
            "{host}"
        );
    }
    let server = ModelServer::on("[::1]:0".parse().unwrap(), None, answer);
    let url = format!("http://[::1]:{}/v1", server.addr().port());
    assert_eq!(post(&wire(), Shield::Private, &url, None), Ok(200));
}

const PUBLIC: &str = "203.0.113.7";
const PUBLIC_V6: &str = "2001:db8::7";
const PROXY: &str = "203.0.113.9";
const LAN: &str = "10.9.9.9";
const METADATA: &str = "169.254.169.254";
const FORBIDDEN: [&str; 7] = [
    PUBLIC,
    PUBLIC_V6,
    PROXY,
    METADATA,
    "100.100.100.200",
    "fd00:ec2::254",
    "64:ff9b::a9fe:a9fe",
];
const HOSTS: &str = "127.0.0.1 localhost
203.0.113.7 public.test
10.9.9.9 mixed.test
203.0.113.7 mixed.test
203.0.113.7 dead-lan.test
10.9.9.10 dead-lan.test
169.254.169.254 metadata.test
";

#[test]
fn nothing_that_is_refused_reaches_the_link() {
    let proxy = format!("http://{PROXY}:3128");
    let names = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ];
    let environment = names.map(|name| (name, proxy.as_str()));
    if netns::enter(
        "shield::nothing_that_is_refused_reaches_the_link",
        &environment,
    ) != Place::Inside
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    netns::addresses(&[&FORBIDDEN[..], &[LAN, "10.9.9.10"]].concat());
    netns::hosts(folder.path(), HOSTS);
    let capture = Capture::start();
    // Something listens wherever a mistake would dial.
    let lan = ModelServer::on(SocketAddr::new(LAN.parse().unwrap(), 0), None, answer);
    let port = lan.addr().port();
    let traps: Vec<ModelServer> = FORBIDDEN
        .iter()
        .map(|address| {
            let port = if *address == PROXY { 3128 } else { port };
            ModelServer::on(
                SocketAddr::new(address.parse().unwrap(), port),
                None,
                answer,
            )
        })
        .collect();

    refused_for_a_private_brain(port);
    refused_for_every_brain(port);
    mixed_names_reach_their_private_addresses_only(&lan);
    a_redirect_leads_nowhere(port);
    a_secret_in_the_clear_stays_at_home(port);
    a_name_that_moves_is_followed_by_the_shield();

    let seen = capture.destinations("127.0.0.99".parse().unwrap());
    for (address, trap) in FORBIDDEN.iter().zip(&traps) {
        assert!(
            !seen.contains(&address.parse().unwrap()),
            "a packet went to {address}"
        );
        assert_eq!(trap.connections(), 0, "{address}");
    }
    assert!(
        seen.contains(&LAN.parse().unwrap()),
        "what is allowed was dialled"
    );

    what_is_allowed_is_seen_by_the_capture(&capture, &traps[0]);
}

fn ask_at(provider: &str, sensitivity: Sensitivity, url: &str) -> Result<Completion, Failure> {
    ask(&*build(&model(provider, url), sensitivity, None, &wire()))
}

fn refused_for_a_private_brain(port: u16) {
    for host in [
        PUBLIC,
        "[2001:db8::7]",
        "[::ffff:203.0.113.7]",
        "3405803783",
        "0xcb007107",
        "203.113.7",
        "public.test",
    ] {
        for (provider, scheme) in [
            ("ollama", "http"),
            ("openai-compatible", "http"),
            ("openai-compatible", "https"),
        ] {
            let failure =
                ask_at(provider, Private, &format!("{scheme}://{host}:{port}")).unwrap_err();
            // `203.113.7` is 203.113.0.7: not one of ours, and refused all the same.
            assert_eq!(failure.kind, FailureKind::Shield, "{host}: {failure}");
            assert!(
                failure.detail.contains("private_network_shield"),
                "{failure}"
            );
        }
    }
}

fn refused_for_every_brain(port: u16) {
    for host in [
        METADATA,
        "metadata.test",
        "2852039166",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[64:ff9b::169.254.169.254]",
        "[::ffff:169.254.169.254]",
    ] {
        for sensitivity in [Public, Private] {
            let failure =
                ask_at("ollama", sensitivity, &format!("http://{host}:{port}")).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Shield, "{host}: {failure}");
        }
    }
}

fn mixed_names_reach_their_private_addresses_only(lan: &ModelServer) {
    let port = lan.addr().port();
    let answer = ask_at("ollama", Private, &format!("http://mixed.test:{port}")).unwrap();
    assert_eq!(answer.text, "hello");
    assert_eq!(lan.count("POST /api/chat"), 1);
    // Its private address does not answer: the public one is no way out.
    let failure = ask_at("ollama", Private, &format!("http://dead-lan.test:{port}")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Connect, "{failure}");
}

fn a_redirect_leads_nowhere(port: u16) {
    let location = format!("location: http://{PUBLIC}:{port}/api/chat");
    let server = ModelServer::start(move |seen| match seen.line.as_str() {
        "POST /api/show" => ollama_shows(8192),
        _ => Reply::with_headers(307, &[&location], &json!({})),
    });
    for sensitivity in [Private, Public] {
        let failure = ask_at("ollama", sensitivity, &server.url()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
    }
}

fn a_secret_in_the_clear_stays_at_home(port: u16) {
    let key = Secret::new("key-of-sixteen-bytes");
    for host in [PUBLIC, "public.test", "[2001:db8::7]"] {
        let url = format!("http://{host}:{port}");
        let provider = build(&model("groq", &url), Public, Some(&key), &wire());
        let failure = ask(&*provider).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Shield, "{failure}");
        let error = post(&wire(), Shield::Open, &url, Some(&key)).unwrap_err();
        assert!(matches!(error, HttpError::Shield(_)), "{error}");
    }
    let url = format!("http://{LAN}:{port}");
    assert_eq!(post(&wire(), Shield::Open, &url, Some(&key)), Ok(200));
}

/// Leads to this machine the first time and to a public address from then on.
#[derive(Debug)]
struct Moving(AtomicUsize);

impl Names for Moving {
    fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let address = if first { "127.0.0.1" } else { PUBLIC };
        Ok(vec![address.parse().unwrap()])
    }
}

fn a_name_that_moves_is_followed_by_the_shield() {
    let server = ModelServer::start(answer);
    let names = Arc::new(Moving(AtomicUsize::new(0)));
    let wire = Wire::with_names(None, &Limits::default(), Arc::new(SystemClock), names);
    let url = format!("http://moving.test:{}", server.addr().port());
    assert_eq!(post(&wire, Shield::Private, &url, None), Ok(200));
    // Its idle connection is still good; the name is not.
    let error = post(&wire, Shield::Private, &url, None).unwrap_err();
    assert!(matches!(error, HttpError::Shield(_)), "{error}");
    assert_eq!(server.seen().len(), 1);
}

/// The counter-proof: the capture does see what goes to a public address; and a connection that an
/// open policy left behind serves no private brain.
fn what_is_allowed_is_seen_by_the_capture(capture: &Capture, public: &ModelServer) {
    let wire = wire();
    let url = format!("http://{}/v1", public.addr());
    assert_eq!(post(&wire, Shield::Open, &url, None), Ok(200));
    let seen = capture.destinations("127.0.0.98".parse().unwrap());
    assert!(seen.contains(&PUBLIC.parse().unwrap()));
    assert!(
        !seen.contains(&PROXY.parse().unwrap()),
        "no proxy for public brains either"
    );
    assert!(post(&wire, Shield::Private, &url, None).is_err());
    assert_eq!(public.seen().len(), 1);
}
