//! The whole daemon with a bot: who is heard, what the operator sees, what survives `kill -9`.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::{site_of, SOON};
use crate::support::daemon::Daemon;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::telegram::{person_of, Fault, Telegram, BOT_NAME, TOKEN};

fn channel(daemon: &Daemon) -> Value {
    let all = daemon.admin("GET", "/api/channels", None).json();
    let found = all
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "telegram");
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
fn strangers_and_talk_that_is_not_for_the_bot_leave_no_trace_but_a_count_and_an_id() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    site.config["channels"][1]["allow_from"] = json!(["7"]);
    let daemon = site.start();
    for n in 0..3 {
        peer.say(666, &format!("secreto del extraño {n}"));
    }
    let group = |text: &str| json!({"from": person_of(7), "chat": {"id": -100, "type": "supergroup", "title": "g"}, "text": text});
    peer.message(group("secreto del grupo"));
    let mut called = group(&format!("@{BOT_NAME} hola"));
    called["entities"] = json!([{"type": "mention", "offset": 0, "length": BOT_NAME.len() + 1}]);
    called["message_id"] = json!(77);
    peer.message(called);
    let sent = peer.wait_for_sent(1, SOON);
    assert_eq!((sent[0].chat, sent[0].reply_to), (-100, Some(77)));
    peer.wait_for_acknowledged(SOON);
    let counts = channel(&daemon)["counts"].clone();
    assert_eq!(
        (&counts["received"], &counts["ignored"]),
        (&json!(1), &json!(4))
    );
    let metrics = daemon.admin("GET", "/metrics", None).text();
    for line in [
        "korvun_channel_messages_ignored_total{channel=\"telegram\",reason=\"not_allowed\"} 3",
        "korvun_channel_messages_ignored_total{channel=\"telegram\",reason=\"not_addressed\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // The group's question as the model saw it: who speaks, and no mention.
    let asks = model.asks();
    assert_eq!(asks.len(), 1);
    assert!(
        asks[0].text.contains("Ana García") && asks[0].text.ends_with("hola"),
        "{}",
        asks[0].text
    );
    let database = site.database();
    let (_, log) = daemon.stop();
    assert_eq!(log.matches("not in allow_from").count(), 1, "{log}");
    assert!(log.contains("666") && !log.contains("secreto"), "{log}");
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(format!("{}{suffix}", database.display())).unwrap_or_default();
        assert!(!bytes.windows(7).any(|window| window == b"secreto"));
    }
}

#[test]
fn a_rejected_token_fails_this_channel_alone_and_shows_nowhere() {
    let peer = Telegram::scripted(|method, _, _| {
        (method == "getMe").then_some(Fault::Refuse(401, "Unauthorized", Value::Null))
    });
    let model = Model::echo();
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    wait_for_state(&daemon, "failed");
    let ready = daemon.admin("GET", "/readyz", None);
    assert_eq!(
        (
            ready.status,
            &ready.json()["components"]["channel:telegram"]["state"]
        ),
        (503, &json!("failed"))
    );
    assert!(channel(&daemon)["last_error"]
        .as_str()
        .unwrap()
        .contains("@BotFather"));
    // The webhook works on.
    let said = daemon.poster().say("ana", "hola", None).unwrap();
    daemon.wait_for_message(&said.id, "state", "answered", SOON);
    let (status, log) = daemon.stop();
    assert!(status.success() && log.contains("channel failed"), "{log}");
}

#[test]
fn no_failure_of_any_call_shows_the_token() {
    let faults = [
        Fault::Html(502),
        Fault::Close,
        Fault::Raw(b"no http\r\n\r\n".to_vec()),
        Fault::Refuse(400, "Bad Request: nothing", Value::Null),
    ];
    let peer = Telegram::scripted(move |method, nth, _| match method {
        "sendMessage" => faults.get(nth - 1).cloned(),
        "sendChatAction" => Some(Fault::Close),
        // Each step in another way, then honest.
        "getMe" => faults.get(nth).filter(|_| nth == 1).cloned(),
        _ => faults.get(2).filter(|_| nth == 1).cloned(),
    });
    let model = Model::slow_echo(Duration::from_millis(600));
    let mut site = site_of(&peer, &model.url());
    site.env.push(("KORVUN_LOG".to_owned(), "trace".into()));
    let daemon = site.start();
    peer.say(7, "hola");
    let until = Instant::now() + SOON;
    while peer.seen("sendMessage").len() < 4 {
        assert!(Instant::now() < until, "{}", daemon.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    let surfaces =
        ["/api/channels", "/readyz", "/metrics"].map(|path| daemon.admin("GET", path, None).text());
    let log = daemon.kill();
    assert!(
        log.contains("/bot[secret]/getMe") && log.contains("/bot[secret]/sendMessage"),
        "the call is told without its secret: {log}"
    );
    for text in surfaces.iter().chain([&log]) {
        assert!(
            !text.contains(TOKEN) && !text.contains("AAtests-Token"),
            "{text}"
        );
    }
}

#[test]
fn systemd_hears_ready_once_the_channel_has_connected() {
    let peer = Telegram::scripted(|method, _, _| {
        (method == "getMe").then_some(Fault::Late(Duration::from_millis(700)))
    });
    let model = Model::echo();
    let mut site = site_of(&peer, &model.url());
    let path = site.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(SOON)).unwrap();
    site.env.push(("NOTIFY_SOCKET".to_owned(), path.into()));
    let daemon = site.start();
    // The admin surface is up and says so before.
    assert_eq!(channel(&daemon)["state"], "starting");
    let mut buffer = [0; 200];
    let read = systemd.recv(&mut buffer).unwrap();
    assert!(buffer[..read].starts_with(b"READY=1"));
    assert_eq!(channel(&daemon)["state"], "connected");
    daemon.stop();
}

#[test]
fn without_network_the_daemon_is_ready_and_the_channel_looks_for_its_connection() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    let url = peer.url();
    drop(peer);
    site.config["channels"][1]["base_url"] = json!(url);
    let daemon = site.start();
    wait_for_state(&daemon, "reconnecting");
    assert_eq!(daemon.admin("GET", "/readyz", None).status, 200);
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn one_slow_chat_holds_no_other_and_photos_get_an_honest_sentence() {
    let gate = std::sync::Arc::new(Gate::default());
    let theirs = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "slow" {
            theirs.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let peer = Telegram::start();
    let mut site = site_of(&peer, &model.url());
    site.model()["parallel"] = json!(4);
    let daemon = site.start();
    peer.say(7, "slow");
    model.wait_for_asks(1, SOON);
    peer.message(json!({"from": person_of(8), "chat": {"id": 8, "type": "private"}, "photo": [{"file_id": "x"}]}));
    peer.say(9, "quick");
    peer.wait_for_sent(2, SOON);
    assert_eq!(peer.texts(9), [echo("quick")]);
    assert!(
        peer.texts(8)[0].contains("imágenes") || peer.texts(8)[0].contains("foto"),
        "{:?}",
        peer.texts(8)
    );
    assert!(peer.texts(7).is_empty());
    // Typing shows where the answer is being made.
    peer.wait_for_calls("sendChatAction", 1, SOON);
    assert_eq!(peer.seen("sendChatAction")[0].params["chat_id"], 7);
    gate.open();
    peer.wait_for_sent(3, SOON);
    daemon.stop();
}

#[test]
fn a_chat_held_for_long_holds_no_other_and_gets_its_answer_then() {
    let peer = Telegram::scripted(|method, nth, params| {
        let first = params["chat_id"] == 7 && method == "sendMessage" && nth == 1;
        first.then(|| Fault::flood(3))
    });
    let model = Model::echo();
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.say(7, "held");
    peer.wait_for_calls("sendMessage", 1, SOON);
    for n in 0..5 {
        peer.say(100 + n, "free");
    }
    let sent = peer.wait_for_sent(5, SOON);
    assert!(sent.iter().all(|one| one.chat != 7));
    let sent = peer.wait_for_sent(6, SOON);
    assert_eq!(sent[5].chat, 7);
    daemon.stop();
}

#[test]
fn kill_9_neither_loses_an_update_nor_answers_it_twice() {
    // Every answer to a poll after the first is lost now and then: updates are delivered again.
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "getUpdates" && nth % 5 == 0).then_some(Fault::LoseAnswer)
    });
    // A poll whose client was killed is still open for a moment.
    peer.expect_broken("a second poll while one is open");
    let model = Model::slow_echo(Duration::from_millis(3));
    let site = site_of(&peer, &model.url());
    let (mut said, mut round) = (0, 0);
    while round < 12 {
        round += 1;
        let daemon = site.spawn(&[]);
        for _ in 0..6 {
            said += 1;
            peer.say(1 + said % 3, &format!("m{said}"));
        }
        // At another moment each time: within the start, the polls, the runs, the sends.
        std::thread::sleep(Duration::from_millis(15 * round));
        daemon.kill();
    }
    let daemon = site.start();
    peer.wait_for_acknowledged(Duration::from_secs(120));
    let answers = |chat: i64| -> Vec<String> { peer.texts(chat) };
    let until = Instant::now() + Duration::from_secs(120);
    let expected = |chat: i64| -> Vec<String> {
        (1..=said)
            .filter(|n| 1 + n % 3 == chat)
            .map(|n| echo(&format!("m{n}")))
            .collect()
    };
    let distinct = |texts: Vec<String>| -> Vec<String> {
        let mut seen = BTreeMap::new();
        let mut out = Vec::new();
        for text in texts {
            if seen.insert(text.clone(), ()).is_none() {
                out.push(text);
            }
        }
        out
    };
    for chat in 1..=3 {
        while distinct(answers(chat)).len() < expected(chat).len() {
            assert!(
                Instant::now() < until,
                "{:?}\n{}",
                answers(chat),
                daemon.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        // All of them, in order; a send whose confirmation died with the process may stand twice.
        assert_eq!(distinct(answers(chat)), expected(chat));
    }
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    // One stored answer for each message.
    let database = rusqlite::Connection::open(site.database()).unwrap();
    let count = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM inbox"), said);
    assert_eq!(
        count("SELECT count(*) FROM turns WHERE role = 'assistant'"),
        said
    );
    assert_eq!(count("SELECT count(*) FROM inbox WHERE state <= 1"), 0);
    let doubled = peer.sent().len() as i64 - said;
    assert!((0..=12).contains(&doubled), "{doubled} sends too many");
}

#[test]
fn an_update_that_comes_again_is_answered_once_in_this_life_and_in_the_next() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    let mut update = json!({"message": {"message_id": 77, "date": 1_790_000_000, "from": person_of(7),
        "chat": {"id": 7, "type": "private"}, "text": "once"}});
    update["update_id"] = json!(peer.update(update.clone()));
    peer.wait_for_sent(1, SOON);
    peer.wait_for_acknowledged(SOON);
    // Telegram forgets that it was acknowledged.
    let again = || {
        let (update, told) = (update.to_string(), std::sync::Once::new());
        peer.script(move |method, _, _| {
            let mut first = false;
            if method == "getUpdates" {
                told.call_once(|| first = true);
            }
            first.then(|| Fault::Updates(update.clone()))
        });
    };
    // The message behind it comes again with it: its acknowledgement was not heard either.
    let deduped = |daemon: &Daemon| {
        let line = "korvun_deduped_total{channel=\"telegram\"} ";
        let until = Instant::now() + SOON;
        while !daemon.admin("GET", "/metrics", None).text().contains(line) {
            assert!(Instant::now() < until, "{}", daemon.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    again();
    // The poll that is open goes on honestly; the next one brings it.
    peer.say(7, "wake up");
    deduped(&daemon);
    peer.wait_for_sent(2, SOON);
    // Not killed: what was just sent may be sent again then.
    daemon.stop();
    again();
    let daemon = site.start();
    deduped(&daemon);
    peer.say(7, "the last");
    peer.wait_for_sent(3, SOON);
    assert_eq!(peer.texts(7), ["once", "wake up", "the last"].map(echo));
    assert_eq!(model.asked("once"), 1);
    daemon.stop();
}

#[test]
fn a_part_that_fails_is_sent_again_and_those_before_it_are_not() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "sendMessage" && nth == 2).then_some(Fault::Html(502))
    });
    let answer = ["a", "b", "c"]
        .map(|letter| letter.repeat(4000))
        .join("\n\n");
    let model = Model::start(move |_| Play::Say(answer.clone()));
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.say(7, "hola");
    peer.wait_for_sent(3, SOON);
    daemon.stop();
    let first: Vec<char> = peer
        .texts(7)
        .iter()
        .filter_map(|text| text.chars().next())
        .collect();
    assert_eq!(first, ['a', 'b', 'c']);
}

#[test]
fn parts_that_were_confirmed_are_not_sent_again_after_kill_9() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "sendMessage" && nth >= 3).then_some(Fault::Html(502))
    });
    let answer = ["a", "b", "c"]
        .map(|letter| letter.repeat(4000))
        .join("\n\n");
    let model = Model::start(move |_| Play::Say(answer.clone()));
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.say(7, "hola");
    // The third part has failed twice: the marks of the first two have long been written.
    peer.wait_for_calls("sendMessage", 4, SOON);
    daemon.kill();
    peer.script(|_, _, _| None);
    let daemon = site.start();
    peer.wait_for_sent(3, SOON);
    daemon.stop();
    let first: Vec<char> = peer
        .texts(7)
        .iter()
        .filter_map(|text| text.chars().next())
        .collect();
    assert_eq!(first, ['a', 'b', 'c']);
}
