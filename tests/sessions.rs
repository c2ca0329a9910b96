//! Conversations by the letter of the contract: sessions, commands and what a stop does, over the
//! webhook; the same over chat platforms, and what `kill -9` leaves, in the folder of this name.

mod channels;
mod expiry;
mod recall;
mod stopping;

use std::time::Duration;

use serde_json::{json, Value};

use crate::support::daemon::{Daemon, Site};
use crate::support::http::Reply;
use crate::support::load::Poster;
use crate::support::scripted::{echo, Ask, Gate, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);

/// A site with sessions.
fn site_with(model: &Model, sink: &Sink, session: Value) -> Site {
    let mut site = site(&model.url(), &sink.url());
    site.config["session"] = session;
    site
}

/// Says something and waits for what is said to it; the words, and who said them.
fn ask(poster: &mut Poster, sink: &Sink, text: &str) -> (String, String) {
    let id = poster.say("c", text, None).expect("accepted").id;
    let reply = sink.reply_to(&id, SOON);
    (reply.text().to_owned(), id)
}

/// What a question showed the model, its own words included.
fn shown(ask: &Ask) -> Vec<String> {
    ask.messages
        .as_array()
        .expect("messages")
        .iter()
        .map(|one| one["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn last(model: &Model) -> Vec<String> {
    shown(model.asks().last().expect("a question"))
}

fn answered(daemon: &Daemon, id: &str) {
    daemon.wait_for_message(id, "state", "answered", SOON);
}

#[test]
fn a_trigger_begins_a_session_and_its_remainder_is_answered_in_it() {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "one");
    ask(&mut poster, &sink, "two");
    assert_eq!(
        last(&model),
        ["one", &echo("one"), "two"],
        "one session so far"
    );
    let (words, id) = ask(&mut poster, &sink, "/new");
    answered(&daemon, &id);
    assert!(!words.contains("/new"), "{words}");
    assert_eq!(model.asks().len(), 2, "a command is not for the model");
    ask(&mut poster, &sink, "three");
    assert_eq!(last(&model), ["three"], "nothing of the session before");
    // With a remainder only that is answered, and later messages know it without the command.
    let (words, _) = ask(&mut poster, &sink, "/reset \n four");
    assert_eq!(words, echo("four"));
    assert_eq!(last(&model), ["four"]);
    ask(&mut poster, &sink, "five");
    assert_eq!(last(&model), ["four", &echo("four"), "five"]);
    // Exact and first.
    for text in ["/New", "/newer", "say /new", "/recalls", "/weather"] {
        assert_eq!(ask(&mut poster, &sink, text).0, echo(text));
    }
    let all = sink.deliveries();
    assert_eq!(all.len(), 11, "one for each: {all:?}");
}

#[test]
fn without_sessions_their_words_are_text_and_the_other_commands_are_there() {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    for text in ["/new", "/reset now", "/recall 3", "/tools"] {
        assert_eq!(ask(&mut poster, &sink, text).0, echo(text));
    }
    for text in ["/help", "/start", "/help me"] {
        let (words, id) = ask(&mut poster, &sink, text);
        answered(&daemon, &id);
        assert!(
            words.contains("/stop") && words.contains("/help"),
            "{words}"
        );
        for absent in ["/new", "/recall", "/notes", "/tools"] {
            assert!(!words.contains(absent), "{absent} is not there: {words}");
        }
    }
    for text in ["/notes", "/notes clear", "/stop"] {
        let (words, id) = ask(&mut poster, &sink, text);
        answered(&daemon, &id);
        assert_ne!(words, echo(text));
    }
    // The console knows one command more.
    let id = daemon.console("console::main", "/tools");
    answered(&daemon, &id);
    assert_eq!(model.asks().len(), 4);
}

#[test]
fn acknowledgements_use_up_no_history_and_make_no_session_full() {
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site_with(&model, &sink, json!({"recall_max": 10}));
    site.config["brains"][0]["history_turns"] = json!(4);
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "one");
    ask(&mut poster, &sink, "two");
    for _ in 0..5 {
        ask(&mut poster, &sink, "/help");
    }
    ask(&mut poster, &sink, "three");
    assert_eq!(
        last(&model),
        ["one", &echo("one"), "two", &echo("two"), "three"]
    );
    // Commands leave a session without dialogue: /recall still finds it empty.
    ask(&mut poster, &sink, "/new");
    ask(&mut poster, &sink, "/help");
    ask(&mut poster, &sink, "/stop");
    let (block, _) = ask(&mut poster, &sink, "/recall 2");
    assert!(
        block.contains("three") && block.contains(&echo("three")),
        "{block}"
    );
}

#[test]
fn commands_wait_for_their_turn_but_for_no_model() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "slow" {
            door.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    let slow = poster.say("c", "slow", None).expect("accepted").id;
    model.wait_for_asks(1, SOON);
    let mut ids = vec![slow];
    for text in ["/help", "behind", "/new", "after"] {
        ids.push(poster.say("c", text, None).expect("accepted").id);
    }
    // The endpoint's only place is taken; an idle conversation's commands need none.
    let free = poster.say("d", "/help", None).expect("accepted").id;
    sink.reply_to(&free, SOON);
    let begun = poster.say("d", "/new", None).expect("accepted").id;
    sink.reply_to(&begun, SOON);
    assert_eq!(
        sink.deliveries().len(),
        2,
        "commands overtook: {:?}",
        sink.deliveries()
    );
    gate.open();
    let all = sink.wait("all answers", SOON, |all| all.len() == 7);
    let order: Vec<&str> = all[2..].iter().map(|one| one.in_reply_to()).collect();
    assert_eq!(order, ids, "in the order they were said");
    assert_eq!(
        last(&model),
        ["after"],
        "the answer before the reset is in the old session"
    );
    let behind = &model.asks()[1];
    assert_eq!(shown(behind), ["slow", &echo("slow"), "behind"]);
}

#[test]
fn a_command_whose_turn_has_come_waits_for_no_place() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| match ask.text.as_str() {
        "slow" => {
            door.wait();
            Play::Say(echo(&ask.text))
        }
        _ => Play::Do(Reply::Hang),
    });
    let sink = Sink::start();
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    poster.say("c", "slow", None).expect("accepted");
    model.wait_for_asks(1, SOON);
    // Another conversation is next at the endpoint, and keeps its only place.
    poster.say("d", "for ever", None).expect("accepted");
    let help = poster.say("c", "/help", None).expect("accepted").id;
    let begun = poster.say("c", "/new", None).expect("accepted").id;
    gate.open();
    for id in [&help, &begun] {
        sink.reply_to(id, SOON);
    }
    model.wait_for_asks(2, SOON);
    assert_eq!(model.asked("for ever"), 1);
}

#[test]
fn an_answer_that_a_reset_overtakes_is_in_the_old_session() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "slow" {
            door.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site_with(&model, &sink, json!({"recall_max": 5}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    poster.say("c", "slow", None).expect("accepted");
    model.wait_for_asks(1, SOON);
    let fresh = poster.say("c", "/new fresh", None).expect("accepted").id;
    gate.open();
    sink.reply_to(&fresh, SOON);
    assert_eq!(last(&model), ["fresh"]);
    ask(&mut poster, &sink, "next");
    assert_eq!(last(&model), ["fresh", &echo("fresh"), "next"]);
    ask(&mut poster, &sink, "/new");
    ask(&mut poster, &sink, "/new");
    // The last session with dialogue is the second one, and the old answer is not in it.
    let (block, _) = ask(&mut poster, &sink, "/recall");
    assert!(block.contains("fresh") && block.contains("next"), "{block}");
    assert!(!block.contains("slow"), "{block}");
}
