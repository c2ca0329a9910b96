//! `/stop`: past the queue, within a second, once; and what `kill -9` makes of commands.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{answered, ask, last, site_with, SOON};
use crate::support::http::Reply;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

/// A model that hangs at questions that begin with `slow`, and echoes others.
fn hanging() -> Model {
    Model::start(|ask| {
        if ask.text.starts_with("slow") {
            Play::Do(Reply::Hang)
        } else {
            Play::Say(echo(&ask.text))
        }
    })
}

#[test]
fn a_stop_cancels_what_is_in_work_within_a_second_and_what_waits_goes_on() {
    let (model, sink) = (hanging(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    let slow = poster.say("c", "slow one", None).expect("accepted").id;
    model.wait_for_asks(1, SOON);
    let behind = poster.say("c", "behind", None).expect("accepted").id;
    let begun = Instant::now();
    let stop = poster.say("c", "/stop", None).expect("accepted").id;
    let words = sink.reply_to(&stop, SOON).text().to_owned();
    let answer = sink.reply_to(&behind, SOON);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(answer.text(), echo("behind"));
    let state = daemon.message(&slow);
    assert_eq!(state["state"], "cancelled", "{state}");
    answered(&daemon, &stop);
    // The model is shown nothing of what was cancelled.
    assert_eq!(last(&model), ["behind"]);
    // The honest sentence when there is nothing to stop.
    let (nothing, _) = ask(&mut poster, &sink, "/stop");
    assert_ne!(nothing, words);
    let metrics = daemon.admin("GET", "/metrics", None).text();
    let cancelled = "korvun_run_duration_seconds_count{brain=\"main\",outcome=\"cancelled\"} 1";
    assert!(metrics.contains(cancelled), "{metrics}");
    assert_eq!(sink.deliveries().len(), 3, "the cancelled one gets none");
}

#[test]
fn what_waits_behind_a_stop_goes_on_also_after_a_restart() {
    let (model, sink) = (hanging(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    let slow = poster.say("c", "slow one", None).expect("accepted").id;
    model.wait_for_asks(1, SOON);
    let behind = poster.say("c", "behind", None).expect("accepted").id;
    daemon.kill();
    let daemon = site.start();
    model.wait_for_asks(2, SOON);
    let mut poster = daemon.poster();
    poster.say("c", "/stop", None).expect("accepted");
    let begun = Instant::now();
    assert_eq!(sink.reply_to(&behind, SOON).text(), echo("behind"));
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(daemon.message(&slow)["state"], "cancelled");
}

#[test]
fn a_stop_holds_for_its_own_conversation_and_for_one_that_waits_for_a_place() {
    let (model, sink) = (hanging(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    let other = poster
        .say("other", "slow other", None)
        .expect("accepted")
        .id;
    model.wait_for_asks(1, SOON);
    // The only place is taken: this one waits, and is stopped before it was ever asked.
    let waits = poster.say("c", "waits", None).expect("accepted").id;
    let stop = poster.say("c", "/stop", None).expect("accepted").id;
    sink.reply_to(&stop, SOON);
    assert_eq!(daemon.message(&waits)["state"], "cancelled");
    assert_eq!(daemon.message(&other)["state"], "working");
    let next = poster.say("c", "next", None).expect("accepted").id;
    let freed = poster.say("other", "/stop", None).expect("accepted").id;
    sink.reply_to(&freed, SOON);
    assert_eq!(sink.reply_to(&next, SOON).text(), echo("next"));
    assert_eq!(model.asked("waits"), 0);
}

#[test]
fn a_stop_that_comes_again_stops_nothing_more() {
    let (model, sink) = (hanging(), Sink::start());
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    poster.say("c", "slow one", None).expect("accepted");
    model.wait_for_asks(1, SOON);
    let stop = poster
        .say("c", "/stop", Some("key-1"))
        .expect("accepted")
        .id;
    let begun = poster.say("c", "/new", Some("key-2")).expect("accepted").id;
    sink.reply_to(&stop, SOON);
    sink.reply_to(&begun, SOON);
    daemon.kill();
    let daemon = site.start();
    let mut poster = daemon.poster();
    let (words, _) = ask(&mut poster, &sink, "hello");
    assert_eq!(words, echo("hello"));
    let slow = poster.say("c", "slow two", None).expect("accepted").id;
    model.wait_for_asks(3, SOON);
    for (key, text, id) in [("key-1", "/stop", &stop), ("key-2", "/new", &begun)] {
        let again = poster.say("c", text, Some(key)).expect("accepted").id;
        assert_eq!(&again, id, "known");
    }
    assert_eq!(daemon.message(&slow)["state"], "working");
    // The session goes on: the repeated /new began none.
    ask(&mut poster, &sink, "/stop");
    ask(&mut poster, &sink, "more");
    assert_eq!(last(&model), ["hello", &echo("hello"), "more"]);
}

#[test]
fn commands_that_waited_are_answered_once_when_the_process_is_killed() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        door.wait();
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    let mut ids = Vec::new();
    for text in ["first", "/help", "/new second", "/new", "third"] {
        ids.push(poster.say("c", text, None).expect("accepted").id);
    }
    model.wait_for_asks(1, SOON);
    daemon.kill();
    let daemon = site.start();
    model.wait_for_asks(2, SOON);
    gate.open();
    for id in &ids {
        sink.reply_to(id, SOON);
        answered(&daemon, id);
    }
    let order: Vec<String> = sink
        .deliveries()
        .iter()
        .map(|one| one.in_reply_to().to_owned())
        .collect();
    assert_eq!(order, ids);
    assert_eq!(last(&model), ["third"]);
    daemon.kill();
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "fourth");
    assert_eq!(last(&model), ["third", &echo("third"), "fourth"]);
}

#[test]
fn a_remainder_in_work_when_the_process_is_killed_begins_one_session() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "/new half" {
            door.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site_with(&model, &sink, json!({"idle_min": 1}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "before");
    let half = poster
        .say("c", "/new /new half", None)
        .expect("accepted")
        .id;
    model.wait_for_asks(2, SOON);
    daemon.kill();
    let daemon = site.start();
    model.wait_for_asks(3, SOON);
    assert_eq!(last(&model), ["/new half"]);
    gate.open();
    assert_eq!(sink.reply_to(&half, SOON).text(), echo("/new half"));
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "more");
    assert_eq!(last(&model), ["/new half", &echo("/new half"), "more"]);
    let connection = rusqlite::Connection::open(site.database()).expect("opened");
    let sessions: i64 = connection
        .query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
        .expect("counted");
    assert_eq!(sessions, 1, "begun once");
}

#[test]
fn who_comes_behind_a_stop_has_a_time_of_its_own() {
    let (model, sink) = (hanging(), Sink::start());
    let mut site = site(&model.url(), &sink.url());
    let mut holder = site.config["brains"][0].clone();
    holder["name"] = json!("holder");
    let brains = site.config["brains"].as_array_mut().expect("brains");
    brains.push(holder);
    site.config["brains"][0]["answer_timeout"] = json!("5s");
    let daemon = site.start();
    // Another brain holds the endpoint's only place for good.
    daemon.console("console::holder", "slow one");
    model.wait_for_asks(1, SOON);
    let mut poster = daemon.poster();
    poster.say("c", "waits", None).expect("accepted");
    // Time passes; that is what the test is about.
    std::thread::sleep(Duration::from_secs(3));
    poster.say("c", "/stop", None).expect("accepted");
    let begun = Instant::now();
    let next = poster.say("c", "next", None).expect("accepted").id;
    sink.reply_to(&next, SOON);
    assert!(
        begun.elapsed() > Duration::from_millis(4500),
        "given up after {:?}, by the time of the one before it",
        begun.elapsed()
    );
}
