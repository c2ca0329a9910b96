//! Who waits for whom: a conversation for its own messages, an endpoint for its own brains, and nobody
//! for anybody else.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::daemon::{Daemon, Site};
use crate::support::http::Reply;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);

/// A site whose webhook goes to a brain at `slow` and whose console knows a second brain `quick`.
fn two_brains(slow: &Model, quick: &Model, sink: &Sink) -> Site {
    let mut site = site(&slow.url(), &sink.url());
    let brain = json!({"name": "quick", "sensitivity": "public", "policy": {"kind": "priority"},
        "models": [{"provider": "ollama", "model_id": "tiny", "locality": "local", "base_url": quick.url()}]});
    site.config["brains"]
        .as_array_mut()
        .expect("brains")
        .push(brain);
    site
}

/// How long the quick brain takes to answer on the console.
fn ask_quick(daemon: &Daemon, nth: usize) -> Duration {
    let start = Instant::now();
    let id = daemon.console(&format!("console::quick/ask-{nth}"), "quick one");
    daemon.wait_for_message(&id, "state", "answered", SOON);
    start.elapsed()
}

#[test]
fn two_hundred_conversations_at_a_stuck_endpoint_hold_up_no_other_brain() {
    // Takes questions and never answers.
    let stuck = Model::start(|_| Play::Do(Reply::Hang));
    let (quick, sink) = (Model::echo(), Sink::start());
    let site = two_brains(&stuck, &quick, &sink);
    let daemon = site.start();
    let calm = (0..5)
        .map(|nth| ask_quick(&daemon, nth))
        .max()
        .expect("five");

    let mut poster = daemon.poster();
    for index in 0..200 {
        poster
            .say(&format!("stuck-{index}"), "anybody?", None)
            .expect("accepted");
    }
    stuck.wait_for_asks(1, SOON);
    let busy = (5..10)
        .map(|nth| ask_quick(&daemon, nth))
        .max()
        .expect("five");
    println!(
        "the quick brain took {calm:?} at most before and {busy:?} with 200 conversations stuck"
    );
    assert!(
        busy < calm * 3 + Duration::from_millis(500),
        "held up: {busy:?}, before: {calm:?}"
    );
    assert!(
        sink.deliveries().is_empty(),
        "answers from a stuck model: {:?}",
        sink.deliveries()
    );
    // One place at that endpoint: one question is in work there, and no thread waits with the rest.
    assert_eq!(stuck.asks().len(), 1);
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.pid()))
        .expect("threads")
        .count();
    assert!(
        threads < 60,
        "{threads} threads for 200 waiting conversations"
    );
}

#[test]
fn the_message_behind_twenty_waiting_gets_the_busy_sentence_at_once() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        door.wait();
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    let mut ids = vec![poster.say("crowd", "message 0", None).expect("accepted").id];
    model.wait_for_asks(1, SOON);
    for nth in 1..=20 {
        ids.push(
            poster
                .say("crowd", &format!("message {nth}"), None)
                .expect("accepted")
                .id,
        );
    }
    assert!(
        sink.deliveries().is_empty(),
        "twenty may wait: {:?}",
        sink.deliveries()
    );
    let refused = poster
        .say("crowd", "message 21", None)
        .expect("accepted")
        .id;
    let sentence = sink.reply_to(&refused, SOON);
    assert!(
        !sentence.text().is_empty() && !sentence.text().contains("message 21"),
        "{sentence:?}"
    );
    println!("busy sentence: {:?}", sentence.text());
    daemon.wait_for_message(&refused, "state", "excused", SOON);
    // Another conversation does not pay for it.
    let other = poster.say("elsewhere", "hello", None).expect("accepted").id;
    assert_eq!(daemon.message(&other)["state"], "queued");

    gate.open();
    let all = sink.wait("the answers of all who waited", SOON, |all| all.len() == 23);
    let order: Vec<&str> = all
        .iter()
        .filter(|one| ids.iter().any(|id| id == one.in_reply_to()))
        .map(|one| one.text())
        .collect();
    let wanted: Vec<String> = (0..=20)
        .map(|nth| echo(&format!("message {nth}")))
        .collect();
    assert_eq!(order, wanted);
    assert_eq!(
        model.asked("message 21"),
        0,
        "the refused one reached the model"
    );
}

#[test]
fn one_conversation_keeps_its_order_and_holds_no_other() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "slow one" {
            door.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    site.model()["parallel"] = json!(2);
    let daemon = site.start();
    let mut poster = daemon.poster();
    poster.say("slow", "slow one", None).expect("accepted");
    model.wait_for_asks(1, SOON);
    poster.say("slow", "behind it", None).expect("accepted");
    for nth in 0..5 {
        let id = poster
            .say("other", &format!("beside {nth}"), None)
            .expect("accepted")
            .id;
        assert_eq!(
            sink.reply_to(&id, SOON).text(),
            echo(&format!("beside {nth}"))
        );
    }
    assert_eq!(
        model.asked("behind it"),
        0,
        "overtook the message before it"
    );
    gate.open();
    let all = sink.wait("both answers of the slow conversation", SOON, |all| {
        all.len() == 7
    });
    let slow: Vec<&str> = all
        .iter()
        .filter(|one| one.field("conversation_id") == "slow")
        .map(|one| one.text())
        .collect();
    assert_eq!(slow, [echo("slow one"), echo("behind it")]);
}

#[test]
fn a_delivery_that_hangs_holds_its_own_conversation_only() {
    let model = Model::echo();
    // The first delivery is taken and never answered.
    let sink = Sink::answering(|request, nth| {
        if nth == 0 && request.json()["conversation_id"] == "held" {
            Reply::Hang
        } else {
            Reply::status(200)
        }
    });
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    poster.say("held", "first", None).expect("accepted");
    sink.wait("the delivery that hangs", SOON, |all| all.len() == 1);
    let behind = poster.say("held", "second", None).expect("accepted").id;
    for nth in 0..5 {
        let id = poster
            .say(&format!("free-{nth}"), "hello", None)
            .expect("accepted")
            .id;
        sink.reply_to(&id, Duration::from_secs(5));
    }
    assert!(
        !sink
            .deliveries()
            .iter()
            .any(|one| one.in_reply_to() == behind),
        "sent before the one that hangs"
    );
}
