//! `?wait=`: who waits for the answer on the connection, and what happens when they do not get it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::{house, SOON};
use crate::support::daemon::Site;
use crate::support::http::Client;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

/// A brain that answers only behind a gate; sixteen may ask at once.
fn gated() -> (Gate, Model, Sink, Site) {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text.starts_with("gated") {
            door.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    site.model()["parallel"] = json!(16);
    (gate, model, sink, site)
}

fn said(conversation: &str, text: &str) -> Value {
    json!({"sender_id": "ana", "conversation_id": conversation, "text": text})
}

#[test]
fn who_waits_gets_the_answer_in_the_200_and_nothing_is_posted() {
    let (_model, sink, _site, daemon) = house();
    let mut poster = daemon.poster();
    let waited = poster
        .post("?wait=30", None, &said("w", "hello"))
        .expect("an answer");
    assert_eq!(waited.status, 200, "{}", waited.text());
    let id = waited.json()["message_id"].as_str().unwrap().to_owned();
    let reply = waited.json()["reply"].clone();
    assert_eq!(
        (&reply["text"], &reply["in_reply_to"], &reply["sender_id"]),
        (&json!(echo("hello")), &json!(id), &json!("korvun"))
    );
    assert_eq!(reply["conversation_id"], "w");
    // The conversation is delivered in order, so that what comes next would come after it.
    let next = poster.say("w", "next", None).expect("accepted").id;
    sink.reply_to(&next, SOON);
    assert_eq!(sink.deliveries().len(), 1, "{:?}", sink.deliveries());
    assert_eq!(daemon.message(&id)["delivery"], "sent");
}

#[test]
fn a_wait_that_ends_is_202_and_the_answer_is_posted() {
    let (gate, _model, sink, site) = gated();
    let daemon = site.start();
    let start = Instant::now();
    let waited = daemon
        .poster()
        .post("?wait=1", None, &said("w", "gated"))
        .expect("an answer");
    assert_eq!(waited.status, 202, "{}", waited.text());
    assert!(
        start.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert!(waited.json().get("reply").is_none(), "{}", waited.text());
    let id = waited.json()["message_id"].as_str().unwrap().to_owned();
    gate.open();
    assert_eq!(sink.reply_to(&id, SOON).text(), echo("gated"));
}

#[test]
fn who_waits_for_what_a_stop_gives_up_is_told_at_once() {
    let (gate, model, sink, site) = gated();
    let daemon = site.start();
    let poster = daemon.poster();
    let mut client = Client::new(site.webhook, SOON);
    let sent = client
        .write(&poster.bytes("?wait=60", None, &said("w", "gated")))
        .unwrap();
    model.wait_for_asks(1, SOON);
    let start = Instant::now();
    let stop = daemon
        .poster()
        .say("w", "/stop", None)
        .expect("accepted")
        .id;
    let waited = client.read(sent).unwrap().expect("an answer");
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(waited.status, 202, "{}", waited.text());
    assert!(waited.json().get("reply").is_none(), "{}", waited.text());
    gate.open();
    sink.reply_to(&stop, SOON);
    let id = waited.json()["message_id"].as_str().unwrap().to_owned();
    assert_eq!(daemon.message(&id)["state"], "cancelled");
    assert_eq!(sink.deliveries().len(), 1, "only the stop's own sentence");
}

#[test]
fn the_answer_of_a_client_that_left_is_posted() {
    let (gate, model, sink, site) = gated();
    let daemon = site.start();
    let poster = daemon.poster();
    let mut client = Client::new(site.webhook, SOON);
    client
        .write(&poster.bytes("?wait=60", None, &said("w", "gated and gone")))
        .unwrap();
    model.wait_for_asks(1, SOON);
    client.close();
    gate.open();
    let all = sink.wait("the answer of the client that left", SOON, |all| {
        !all.is_empty()
    });
    assert_eq!(all[0].text(), echo("gated and gone"));
}

#[test]
fn the_seventeenth_that_waits_is_202_at_once() {
    let (gate, model, sink, site) = gated();
    let daemon = site.start();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..16)
            .map(|nth| {
                let mut poster = daemon.poster();
                scope.spawn(move || {
                    poster
                        .post("?wait=60", None, &said(&format!("w{nth}"), "gated"))
                        .expect("an answer")
                })
            })
            .collect();
        model.wait_for_asks(16, SOON);
        let start = Instant::now();
        let late = daemon
            .poster()
            .post("?wait=60", None, &said("late", "gated"))
            .expect("an answer");
        assert_eq!(late.status, 202, "{}", late.text());
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited {:?}",
            start.elapsed()
        );
        gate.open();
        for one in waiting {
            let one = one.join().unwrap();
            assert_eq!(
                (one.status, &one.json()["reply"]["text"]),
                (200, &json!(echo("gated"))),
                "{}",
                one.text()
            );
        }
        sink.reply_to(late.json()["message_id"].as_str().unwrap(), SOON);
    });
    assert_eq!(sink.deliveries().len(), 1, "{:?}", sink.deliveries());
    // Places are free again.
    assert_eq!(
        daemon
            .poster()
            .post("?wait=30", None, &said("again", "hello"))
            .expect("an answer")
            .status,
        200
    );
}
