//! TLS for real: every provider over https with an authority of the test's own, and each way in which
//! a certificate can be wrong told from the others.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use korvun::base::clock::SystemClock;
use korvun::base::secret::Secret;
use korvun::domain::brain::Sensitivity::{Private, Public};
use korvun::domain::completion::FailureKind;
use korvun::domain::limits::Limits;
use korvun::net::http::Wire;
use korvun::provider::build;

use crate::support::asking::{ask, ask_within, model, Book};
use crate::support::authority::{Authority, Time};
use crate::support::model::{
    ollama_says, ollama_shows, openai_says, ModelServer, Reply, Seen, Step,
};

fn wire(bundle: Option<PathBuf>) -> Wire {
    let here = vec![IpAddr::from([127, 0, 0, 1])];
    let book = Book([("model.test", here.clone()), ("other.test", here)].into());
    Wire::with_names(
        bundle,
        &Limits::default(),
        Arc::new(SystemClock),
        Arc::new(book),
    )
}

fn answer(seen: &Seen) -> Reply {
    match seen.line.as_str() {
        "POST /api/show" => ollama_shows(8192),
        "POST /api/chat" => ollama_says("hello"),
        _ => openai_says("hello"),
    }
}

#[test]
fn every_provider_speaks_tls_to_a_server_of_a_trusted_authority() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let bundle = authority.bundle(folder.path());
    let key = Secret::new("key-of-sixteen-bytes");
    for name in ["model.test", "127.0.0.1"] {
        for provider in ["ollama", "openai-compatible", "groq"] {
            for (sensitivity, key) in [(Public, Some(&key)), (Private, None)] {
                let server = ModelServer::start_tls(authority.server(name, Time::Valid), answer);
                let provider = build(
                    &model(provider, &server.https(name)),
                    sensitivity,
                    key,
                    &wire(Some(bundle.clone())),
                );
                for _ in 0..2 {
                    assert_eq!(ask(&*provider).unwrap().text, "hello");
                }
                assert_eq!(server.connections(), 1, "the connection is used again");
                let bearer = server.seen()[0].header("authorization").map(str::to_owned);
                assert_eq!(
                    bearer.as_deref(),
                    key.map(|_| "Bearer key-of-sixteen-bytes")
                );
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let renewed = Authority::new("ours");
    let bundle = ours.bundle(folder.path());
    for (config, host, told) in [
        (
            ours.server("model.test", Time::Valid),
            "other.test",
            "certificate for another name",
        ),
        (
            ours.server("model.test", Time::Valid),
            "127.0.0.1",
            "certificate for another name",
        ),
        (
            ours.server("model.test", Time::Expired),
            "model.test",
            "certificate expired",
        ),
        (
            theirs.server("model.test", Time::Valid),
            "model.test",
            "certificate of an unknown authority",
        ),
        (
            renewed.server("model.test", Time::Valid),
            "model.test",
            "certificate of an unknown authority",
        ),
    ] {
        for provider in ["ollama", "openai-compatible", "groq"] {
            let server = ModelServer::start_tls(Arc::clone(&config), answer);
            let provider = build(
                &model(provider, &server.https(host)),
                Public,
                None,
                &wire(Some(bundle.clone())),
            );
            let failure = ask(&*provider).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Connect);
            assert!(failure.detail.contains(told), "{host}: {failure}");
            assert_eq!(server.seen().len(), 0, "nothing was said to it");
        }
    }
}

#[test]
fn without_roots_the_call_says_so_and_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let server = ModelServer::start_tls(authority.server("model.test", Time::Valid), answer);
    let missing = folder.path().join("none.pem");
    let wire = wire(Some(missing.clone()));
    let provider = build(
        &model("groq", &server.https("model.test")),
        Public,
        None,
        &wire,
    );
    let failure = ask(&*provider).unwrap_err();
    assert!(failure.detail.contains("no trusted roots"), "{failure}");
    assert!(
        failure.detail.contains(&missing.display().to_string()),
        "{failure}"
    );
    // It comes back by itself once the file is there.
    std::fs::copy(authority.bundle(folder.path()), &missing).unwrap();
    assert_eq!(ask(&*provider).unwrap().text, "hello");
}

#[test]
fn a_server_that_does_not_speak_tls_is_told_from_one_that_does() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = Authority::new("ours").bundle(folder.path());
    let plain = ModelServer::start(|_| Reply::raw("HTTP/1.1 400 X\r\n\r\n"));
    let provider = build(
        &model("groq", &plain.https("127.0.0.1")),
        Public,
        None,
        &wire(Some(bundle)),
    );
    let began = Instant::now();
    let failure = ask_within(&*provider, Duration::from_millis(700)).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(
        matches!(failure.kind, FailureKind::Connect | FailureKind::Timeout),
        "{failure}"
    );
}

#[test]
fn a_tls_server_that_stalls_ends_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let bundle = authority.bundle(folder.path());
    let drip = Step::Forever(b" ".to_vec(), Duration::from_millis(30));
    let head = Step::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n".to_vec());
    let server = ModelServer::start_tls(authority.server("model.test", Time::Valid), move |_| {
        Reply::Steps(vec![head.clone(), drip.clone()])
    });
    let provider = build(
        &model("groq", &server.https("model.test")),
        Public,
        None,
        &wire(Some(bundle)),
    );
    let began = Instant::now();
    let failure = ask_within(&*provider, Duration::from_millis(700)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");
    assert!(began.elapsed() < Duration::from_millis(1700));
}
