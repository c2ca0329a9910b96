//! Answers on their way out: what is sent again, what is final, what is kept for better days.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::SOON;
use crate::support::daemon::{Daemon, Site};
use crate::support::http::{Reply, Server};
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;
use crate::support::site;

/// A site whose sink does `script`, and the daemon on it.
fn with_sink(
    script: impl Fn(usize) -> Reply + Send + Sync + 'static,
) -> (Model, Sink, Site, Daemon) {
    let (model, sink) = (Model::echo(), Sink::answering(move |_, nth| script(nth)));
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    (model, sink, site, daemon)
}

#[test]
fn what_can_heal_is_sent_again_under_the_same_key() {
    let (_model, sink, _site, daemon) = with_sink(|nth| match nth {
        0 => Reply::status(503),
        1 => Reply::status(408),
        2 => Reply::Close,
        _ => Reply::status(204),
    });
    let mut poster = daemon.poster();
    let id = poster.say("ana", "hello", None).expect("accepted").id;
    let behind = poster.say("ana", "behind it", None).expect("accepted").id;
    let all = sink.wait("four tries and the next", SOON, |all| all.len() == 5);
    let tries: Vec<_> = all
        .iter()
        .take(4)
        .map(|one| (one.in_reply_to(), one.key.clone(), one.body.clone()))
        .collect();
    assert!(
        tries.iter().all(|one| *one == tries[0] && one.0 == id),
        "{all:?}"
    );
    assert_eq!(
        all[4].in_reply_to(),
        behind,
        "order within the conversation"
    );
    assert_ne!(all[4].key, all[0].key);
    daemon.wait_for_message(&id, "delivery", "sent", SOON);
}

#[test]
fn a_429_is_waited_for_as_long_as_it_asks() {
    let (_model, sink, _site, daemon) = with_sink(|nth| match nth {
        0 => Reply::Send(429, "text/plain", "Retry-After: 3\r\n".into(), Vec::new()),
        _ => Reply::status(200),
    });
    let id = daemon
        .poster()
        .say("ana", "hello", None)
        .expect("accepted")
        .id;
    let all = sink.wait("the second try", SOON, |all| all.len() == 2);
    let between = all[1].first_byte - all[0].first_byte;
    assert!(
        between >= Duration::from_millis(2900),
        "sent again after {between:?}"
    );
    daemon.wait_for_message(&id, "delivery", "sent", SOON);
}

#[test]
fn what_cannot_heal_is_final_and_visible() {
    let elsewhere = Sink::start();
    let target = elsewhere.url();
    for (name, reply) in [
        ("404", Reply::status(404)),
        ("401", Reply::status(401)),
        (
            "redirect",
            Reply::Send(
                307,
                "text/plain",
                format!("Location: {target}\r\n"),
                Vec::new(),
            ),
        ),
        (
            "moved",
            Reply::Send(
                301,
                "text/plain",
                format!("Location: {target}\r\n"),
                Vec::new(),
            ),
        ),
    ] {
        let (_model, sink, _site, daemon) = with_sink(move |nth| {
            if nth == 0 {
                reply.clone()
            } else {
                Reply::status(200)
            }
        });
        let mut poster = daemon.poster();
        let id = poster.say("ana", "hello", None).expect("accepted").id;
        let now = daemon.wait_for_message(&id, "delivery", "failed", SOON);
        assert_eq!(now["state"], "answered", "{name}");
        // The next message goes out: the failed one neither blocks it nor comes again before it.
        let next = poster.say("ana", "next", None).expect("accepted").id;
        sink.reply_to(&next, SOON);
        assert_eq!(
            sink.deliveries().len(),
            2,
            "{name}: {:?}",
            sink.deliveries()
        );
        let channels = daemon.admin("GET", "/api/channels", None).json();
        let counts = channels
            .as_array()
            .and_then(|all| all.iter().find(|one| one["type"] == "webhook"))
            .map(|one| one["counts"].clone());
        assert_eq!(
            counts.as_ref().map(|counts| &counts["failed"]),
            Some(&json!(1)),
            "{name}: {channels}"
        );
    }
    assert!(
        elsewhere.deliveries().is_empty(),
        "a redirect was followed: {:?}",
        elsewhere.deliveries()
    );
}

#[test]
fn a_sink_that_is_down_gets_everything_in_order_when_it_is_back() {
    let model = Model::echo();
    // A port that was open once and is closed now.
    let addr = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let site = site(
        &model.url(),
        &format!("http://127.77.77.77:{}/in", addr.port()),
    );
    let daemon = site.start();
    let mut poster = daemon.poster();
    for nth in 0..3 {
        poster
            .say("ana", &format!("message {nth}"), None)
            .expect("accepted");
    }
    model.wait_for_asks(3, SOON);
    daemon.kill();
    let daemon = site.start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let _sink = Server::start(&format!("127.77.77.77:{}", addr.port()), move |request| {
        kept.lock()
            .unwrap()
            .push(request.json()["text"].as_str().unwrap_or("").to_owned());
        Reply::status(200)
    });
    let deadline = Instant::now() + SOON;
    while seen.lock().unwrap().len() < 3 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    let wanted: Vec<String> = (0..3).map(|nth| echo(&format!("message {nth}"))).collect();
    assert_eq!(*seen.lock().unwrap(), wanted, "{}", daemon.log());
}
