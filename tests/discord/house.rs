//! The whole daemon with a bot: who is heard, what the operator sees, what survives `kill -9`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::{site_of, SOON};
use crate::support::daemon::Daemon;
use crate::support::discord::{person, At, Discord, Do, Fault, BOT, GUILD, TOKEN};
use crate::support::scripted::{echo, Gate, Model, Play};

fn channel(daemon: &Daemon) -> Value {
    let all = daemon.admin("GET", "/api/channels", None).json();
    let all = all.as_array().unwrap();
    let found = all.iter().find(|one| one["type"] == "discord");
    found.expect("the channel").clone()
}

fn wait_for_state(daemon: &Daemon, state: &str) {
    let until = Instant::now() + SOON;
    while channel(daemon)["state"] != state {
        assert!(
            Instant::now() < until,
            "{}\n{}",
            channel(daemon),
            daemon.log()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn strangers_bots_and_talk_that_is_not_for_the_bot_leave_no_trace_but_a_count_and_an_id() {
    let (peer, model) = (Discord::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    site.config["channels"][1]["allow_from"] = json!(["41", "900000000000000001", "43"]);
    let daemon = site.start();
    peer.wait_for_live(SOON);
    let said = |author: Value, more: Value| {
        let mut message = json!({"channel_id": "52", "guild_id": GUILD, "author": author,
            "content": format!("<@{BOT}> secreto"), "mentions": [person(BOT)]});
        for (key, value) in more.as_object().unwrap() {
            message[key] = value.clone();
        }
        peer.message(message)
    };
    for _ in 0..3 {
        said(person("666"), json!({}));
    }
    said(
        json!({"id": "43", "username": "other", "bot": true}),
        json!({}),
    );
    said(
        json!({"id": "43", "username": "hook"}),
        json!({"webhook_id": "43"}),
    );
    said(person("41"), json!({"content": "secreto", "mentions": []}));
    said(person("41"), json!({"type": 7}));
    peer.event(
        "MESSAGE_UPDATE",
        &json!({"id": "1", "content": "secreto", "edited_timestamp": "2026-11-30T00:00:00Z"}),
    );
    peer.say_in_guild("52", &format!("<@{BOT}> hola"), &[BOT]);
    peer.wait_for_sent(1, SOON);
    // What the bot says comes back to it, and is its own.
    peer.say("51", "and in private");
    peer.wait_for_sent(2, SOON);
    peer.say("51", "to see the last one");
    peer.wait_for_sent(3, SOON);
    let own = "korvun_channel_messages_ignored_total{channel=\"discord\",reason=\"own\"} 3";
    let until = Instant::now() + SOON;
    let metrics = loop {
        let metrics = daemon.admin("GET", "/metrics", None).text();
        if metrics.contains(own) || Instant::now() > until {
            break metrics;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    for (reason, count) in [
        ("not_allowed", 3),
        ("bot", 2),
        ("not_addressed", 1),
        ("kind", 1),
        ("edit", 1),
        ("own", 3),
    ] {
        let line = format!("korvun_channel_messages_ignored_total{{channel=\"discord\",reason=\"{reason}\"}} {count}");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    let counts = channel(&daemon)["counts"].clone();
    assert_eq!(
        (&counts["received"], &counts["dropped"]),
        (&json!(3), &json!(0))
    );
    let asks = model.asks();
    assert_eq!(asks.len(), 3);
    assert!(
        asks[0].text.contains("Ana la de casa") && asks[0].text.ends_with("hola"),
        "{}",
        asks[0].text
    );
    let database = site.database();
    let (_, log) = daemon.stop();
    assert_eq!(log.matches("not in allow_from").count(), 1, "{log}");
    assert!(log.contains("666") && !log.contains("secreto"), "{log}");
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(format!("{}{suffix}", database.display())).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("secreto"), "{suffix}");
    }
}

#[test]
fn a_bot_without_its_intent_is_told_to_the_operator_and_the_rest_runs_on() {
    let (peer, model) = (Discord::start(), Model::echo());
    peer.socket_script(|at, _| (at == At::Identify).then_some(Do::Close(4014)));
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    wait_for_state(&daemon, "failed");
    let told = channel(&daemon)["last_error"].as_str().unwrap().to_owned();
    assert!(told.contains("Message Content Intent"), "{told}");
    let ready = daemon.admin("GET", "/readyz", None);
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.json()["components"]["channel:discord"]["state"],
        "failed"
    );
    let id = daemon.console("console::main", "hola");
    daemon.wait_for_message(&id, "state", "answered", SOON);
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    let lines = log
        .lines()
        .filter(|line| line.contains("Message Content Intent"));
    assert_eq!(lines.count(), 1, "{log}");
}

#[test]
fn without_a_network_at_boot_the_daemon_starts_and_the_channel_comes_by_itself() {
    let (peer, model) = (Discord::start(), Model::echo());
    peer.script(|route, nth, _| (route == "gateway" && nth <= 3).then_some(Fault::Html(503)));
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    wait_for_state(&daemon, "reconnecting");
    wait_for_state(&daemon, "connected");
    peer.say("51", "hola");
    assert_eq!(peer.wait_for_sent(1, SOON)[0].text, echo("hola"));
    assert_eq!(channel(&daemon)["last_error"], Value::Null);
    daemon.stop();
}

#[test]
fn a_token_that_is_refused_never_shows() {
    let (peer, model) = (Discord::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    let wrong = "a-token-that-nobody-knows-0123456789";
    site.env.retain(|(name, _)| name != "T_DISCORD");
    site.env.push(("T_DISCORD".into(), wrong.into()));
    site.env.push(("KORVUN_LOG".into(), "trace".into()));
    let daemon = site.start();
    wait_for_state(&daemon, "failed");
    let told = channel(&daemon).to_string();
    assert!(
        told.contains("Reset Token") && !told.contains(wrong),
        "{told}"
    );
    let (_, log) = daemon.stop();
    assert!(!log.contains(wrong), "{log}");
}

#[test]
fn at_the_finest_level_no_text_and_no_token_is_logged() {
    let (peer, model) = (Discord::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    site.env.push(("KORVUN_LOG".into(), "trace".into()));
    let daemon = site.start();
    peer.wait_for_live(SOON);
    peer.say("51", "palabras privadas");
    peer.wait_for_sent(1, SOON);
    peer.order(Do::Cut);
    peer.wait_for_resumes(1, SOON);
    let (_, log) = daemon.stop();
    assert!(!log.contains("privadas") && !log.contains(TOKEN), "{log}");
}

#[test]
fn kill_9_loses_no_accepted_message_and_shows_each_answer_once() {
    let peer = Discord::start();
    let gate = Gate::default();
    let theirs = gate.clone();
    let model = Model::start(move |ask| {
        if ask.nth == 0 {
            theirs.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.wait_for_live(SOON);
    let all: Vec<String> = (0..10).map(|n| format!("question {n}")).collect();
    for (n, text) in all.iter().enumerate() {
        peer.say(&(51 + n % 2).to_string(), text);
    }
    // One is being worked on, the rest waits behind it; all are safe.
    model.wait_for_asks(1, SOON);
    let until = Instant::now() + SOON;
    while channel(&daemon)["counts"]["received"] != json!(10) {
        assert!(Instant::now() < until, "{}", channel(&daemon));
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.kill();
    gate.open();
    // A process cannot know when the one before it, killed a moment ago, began its session; Discord
    // turns it away then, and it comes again.
    peer.expect_broken("two identifies within five seconds");
    // The answers that go out are lost on their way back for a while, and the process dies again.
    peer.script(|route, nth, _| (route == "messages" && nth % 2 == 1).then_some(Fault::LoseAnswer));
    let daemon = site.start();
    peer.wait_for_sent(3, SOON);
    daemon.kill();
    let daemon = site.start();
    peer.wait_for_sent(10, SOON);
    let until = Instant::now() + SOON;
    while daemon
        .admin("GET", "/metrics", None)
        .text()
        .lines()
        .any(|line| line.starts_with("korvun_queue_depth") && !line.ends_with(" 0"))
    {
        assert!(Instant::now() < until, "{}", daemon.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut shown = BTreeMap::new();
    for sent in peer.sent() {
        *shown.entry(sent.text).or_insert(0) += 1;
    }
    let expected: BTreeMap<String, i32> = all.iter().map(|text| (echo(text), 1)).collect();
    assert_eq!(shown, expected);
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
}
