//! Polling and its faults, keyed to the steps of the protocol.

use std::time::{Duration, Instant};

use korvun::base::clock::UnixMs;
use korvun::channel::port::{Channel, Refusal};
use korvun::domain::cursor::Reached;
use korvun::domain::ids::ChannelName;
use korvun::domain::limits::Limits;
use korvun::watch::board::ChannelState;
use korvun::watch::metrics::{Value as Metric, CHANNEL_RECONNECTS, MESSAGES_IGNORED};
use serde_json::{json, Value};

use super::alone::{short, Alone};
use super::SOON;
use crate::support::telegram::{person_of, Fault, Telegram, BOT};

fn counted(alone: &Alone, family: &str, labels: &[&str]) -> u64 {
    let all = alone.watch.metrics.snapshot();
    let (_, series) = all
        .into_iter()
        .find(|(known, _)| known.name == family)
        .expect("a family");
    let found = series.into_iter().find(|(own, _)| own == labels);
    match found {
        Some((_, Metric::Count(count))) => count,
        _ => 0,
    }
}

#[test]
fn polling_begins_with_a_poll_that_does_not_wait_and_one_poller_never_meets_itself() {
    let peer = Telegram::start();
    let alone = Alone::start(&peer, &short());
    alone.wait_for_state(ChannelState::Connected);
    peer.wait_for_calls("getUpdates", 3, SOON);
    let polls = peer.seen("getUpdates");
    assert_eq!(
        (&polls[0].params["timeout"], &polls[1].params["timeout"]),
        (&json!(0), &json!(1))
    );
    let allowed = &polls[0].params["allowed_updates"];
    assert_eq!(*allowed, json!(["message", "edited_message"]));
    assert!(polls[0].params["offset"].is_null());
    // One connection serves them all while all is well.
    assert!(polls
        .iter()
        .all(|poll| poll.connection == polls[0].connection));
}

#[test]
fn a_poll_that_hangs_is_given_up_and_a_new_connection_brings_what_was_missed() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "getUpdates" && nth == 3).then_some(Fault::Hang)
    });
    let alone = Alone::start(&peer, &short());
    peer.wait_for_calls("getUpdates", 3, SOON);
    let hung = Instant::now();
    peer.say(7, "while it hangs");
    assert_eq!(alone.wait_for_messages(1), ["while it hangs"]);
    let silence = hung.elapsed();
    // Poll and slack, a back-off, and a busy box.
    assert!(silence < Duration::from_secs(8), "{silence:?}");
    let polls = peer.seen("getUpdates");
    assert_ne!(polls[2].connection, polls[3].connection);
    assert_eq!(polls[3].params["timeout"], 0);
    assert_eq!(counted(&alone, CHANNEL_RECONNECTS.name, &["telegram"]), 1);
    alone.wait_for_state(ChannelState::Connected);
}

#[test]
fn whatever_answers_in_place_of_telegram_the_poll_comes_back() {
    for fault in [
        Fault::Html(502),
        Fault::Html(200),
        Fault::Html(404),
        Fault::Close,
        Fault::Raw(b"nonsense\r\n\r\n".to_vec()),
        Fault::Raw(b"HTTP/1.1 200 x\r\nContent-Length: 50\r\n\r\n{\"ok\":true,".to_vec()),
        Fault::Refuse(500, "Internal Server Error", Value::Null),
        Fault::flood(1),
        Fault::Updates("7".to_owned()),
        Fault::Updates("{\"message\":{}}".to_owned()),
    ] {
        let shown = format!("{fault:?}");
        let peer = Telegram::scripted(move |method, nth, _| {
            (method == "getUpdates" && (2..4).contains(&nth)).then(|| fault.clone())
        });
        let alone = Alone::start(&peer, &short());
        peer.wait_for_calls("getUpdates", 4, SOON);
        peer.say(7, "after it");
        assert_eq!(alone.wait_for_messages(1), ["after it"], "{shown}");
        alone.wait_for_state(ChannelState::Connected);
    }
}

#[test]
fn another_poller_is_a_conflict_that_is_waited_for_and_told_once() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "getUpdates" && nth <= 2).then(Fault::conflict)
    });
    let alone = Alone::start(&peer, &short());
    alone.wait_for_state(ChannelState::Conflict);
    let health = alone
        .watch
        .board
        .channel(&ChannelName::new("telegram"))
        .unwrap();
    assert!(health.last_error.unwrap().contains("another program polls"));
    alone.wait_for_state(ChannelState::Connected);
    let polls = peer.seen("getUpdates");
    for pair in polls[..3].windows(2) {
        let wait = pair[1].at - pair[0].at;
        assert!(wait >= short().poll_conflict, "{wait:?}");
    }
    // As shipped the wait is longer than a poll left behind lasts.
    let shipped = Limits::default();
    assert!(shipped.poll_conflict > shipped.poll_wait);
}

#[test]
fn a_webhook_is_deleted_once_and_a_new_one_is_a_conflict() {
    let peer = Telegram::start();
    peer.set_webhook();
    let alone = Alone::start(&peer, &short());
    alone.wait_for_state(ChannelState::Connected);
    peer.set_webhook();
    alone.wait_for_state(ChannelState::Conflict);
    let health = alone
        .watch
        .board
        .channel(&ChannelName::new("telegram"))
        .unwrap();
    assert!(health.last_error.unwrap().contains("webhook"));
    assert_eq!(peer.seen("deleteWebhook").len(), 1);
}

#[test]
fn a_rejected_token_ends_the_channel_and_says_what_helps() {
    for nth_call in ["getMe", "getUpdates"] {
        let peer = Telegram::scripted(move |method, _, _| {
            (method == nth_call).then_some(Fault::Refuse(401, "Unauthorized", Value::Null))
        });
        let alone = Alone::start(&peer, &short());
        alone.wait_for_state(ChannelState::Failed);
        let health = alone
            .watch
            .board
            .channel(&ChannelName::new("telegram"))
            .unwrap();
        assert!(health.last_error.unwrap().contains("@BotFather"));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(peer.seen(nth_call).len(), 1, "it asks no more");
    }
}

#[test]
fn without_network_at_first_the_channel_comes_up_when_it_is_there() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "getMe" && nth <= 3).then_some(Fault::Close)
    });
    let alone = Alone::start(&peer, &short());
    alone.wait_for_state(ChannelState::Connected);
    assert!(counted(&alone, CHANNEL_RECONNECTS.name, &["telegram"]) >= 1);
    assert_eq!(peer.seen("getMe").len(), 4);
}

#[test]
fn commands_that_are_refused_stop_nothing() {
    let peer =
        Telegram::scripted(|method, _, _| (method == "setMyCommands").then_some(Fault::Html(502)));
    let alone = Alone::start(&peer, &short());
    alone.wait_for_state(ChannelState::Connected);
    assert_eq!(peer.seen("setMyCommands").len(), 1);
}

#[test]
fn what_cannot_be_taken_stays_with_telegram_and_comes_again() {
    let peer = Telegram::start();
    for n in 1..=3 {
        peer.say(7, &format!("message {n}"));
    }
    let alone = Alone::built(&peer, &short());
    *alone.intake.refusals.lock().unwrap() = vec![Refusal::Store, Refusal::Full];
    alone.channel.start(alone.intake.clone()).unwrap();
    assert_eq!(
        alone.wait_for_messages(3),
        ["message 1", "message 2", "message 3"]
    );
    peer.wait_for_acknowledged(SOON);
    assert_eq!(alone.state(), ChannelState::Connected);
    // Nothing was acknowledged before it was taken.
    assert!(peer.seen("getUpdates")[1].params["offset"].is_null());
}

#[test]
fn a_cursor_is_used_unless_it_is_over_a_week_old() {
    const DAY: i64 = 86_400_000;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = i64::try_from(now.as_millis()).unwrap();
    for (at, offset) in [
        (now - 6 * DAY, json!(700_000_001)),
        (now - 8 * DAY, Value::Null),
    ] {
        let peer = Telegram::start();
        // Numbers may begin anew lower after a week of silence.
        peer.number_from(600_000_000 + if offset.is_null() { 0 } else { 100_000_005 });
        peer.say(7, "hola");
        let alone = Alone::built(&peer, &short());
        let reached = Reached {
            position: 700_000_000,
            at: UnixMs(at),
        };
        *alone.intake.reached.lock().unwrap() = Some(reached);
        alone.channel.start(alone.intake.clone()).unwrap();
        assert_eq!(alone.wait_for_messages(1), ["hola"]);
        assert_eq!(peer.seen("getUpdates")[0].params["offset"], offset);
    }
}

#[test]
fn strange_updates_are_passed_over_and_the_next_message_is_heard() {
    let peer = Telegram::start();
    let alone = Alone::start(&peer, &short());
    for update in [
        json!({"message": null}),
        json!({"message": [], "edited_message": 7}),
        json!({"edited_message": {"text": "x"}}),
        json!({"something_new": {"deep": [[[[1]]]]}}),
        json!({"message": {"chat": {"id": 7, "type": "private"}, "from": {"id": BOT, "is_bot": true}, "text": "own"}}),
        json!({"message": {"chat": {"id": 7, "type": "private"}, "from": {"id": 5, "is_bot": true}, "text": "bot"}}),
        json!({"message": {"chat": {"id": -7, "type": "group"}, "from": person_of(7), "text": "not to the bot"}}),
        json!({"message": {"chat": {"id": 1e300, "type": "private"}, "from": {"id": "7"}, "text": {"a": 1}}}),
    ] {
        peer.update(update);
    }
    peer.say(7, "hola");
    assert_eq!(alone.wait_for_messages(1), ["hola"]);
    peer.wait_for_acknowledged(SOON);
    for (reason, count) in [
        ("edit", 1),
        ("own", 1),
        ("bot", 1),
        ("not_addressed", 1),
        ("kind", 4),
    ] {
        assert_eq!(
            counted(&alone, MESSAGES_IGNORED.name, &["telegram", reason]),
            count,
            "{reason}"
        );
    }
}

#[test]
fn an_update_too_deep_or_too_large_to_read_is_stepped_over() {
    for poison in [
        format!("\"message\":{}1{}", "[".repeat(500), "]".repeat(500)),
        format!("\"message\":[{}0]", "0,".repeat(70_000)),
        format!("\"message\":{{\"text\":\"{}\"}}", "x".repeat(300_000)),
    ] {
        // It comes for as long as it is not acknowledged, as it would.
        let peer = Telegram::scripted(move |method, _, params| {
            let taken = params["offset"]
                .as_i64()
                .is_some_and(|offset| offset > 699_999_999);
            let update = format!("{{\"update_id\":699999999,{poison}}}");
            (method == "getUpdates" && !taken).then_some(Fault::Updates(update))
        });
        let limits = Limits {
            poll_bytes: 200_000,
            ..short()
        };
        peer.say(7, "behind it");
        let alone = Alone::start(&peer, &limits);
        assert_eq!(alone.wait_for_messages(1), ["behind it"]);
        assert_eq!(
            counted(&alone, MESSAGES_IGNORED.name, &["telegram", "kind"]),
            1
        );
    }
}

#[test]
fn a_stop_ends_a_waiting_poll_at_once() {
    let peer = Telegram::start();
    let limits = Limits {
        poll_wait: Duration::from_secs(30),
        ..short()
    };
    let alone = Alone::start(&peer, &limits);
    alone.wait_for_state(ChannelState::Connected);
    peer.wait_for_calls("getUpdates", 2, SOON);
    let began = Instant::now();
    alone.channel.stop();
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_peer_that_does_not_wait_is_not_asked_all_the_time() {
    let peer = Telegram::scripted(|method, _, _| {
        (method == "getUpdates").then_some(Fault::Updates(String::new()))
    });
    let limits = Limits {
        reconnect_first: Duration::from_millis(200),
        ..short()
    };
    let alone = Alone::start(&peer, &limits);
    alone.wait_for_state(ChannelState::Connected);
    std::thread::sleep(Duration::from_secs(1));
    let polls = peer.seen("getUpdates").len();
    assert!(polls <= 8, "{polls} polls in a second");
}

#[test]
fn while_the_platform_is_away_it_is_asked_seldom_and_soon_after_it_is_back_messages_come() {
    let peer = Telegram::start();
    let limits = Limits {
        reconnect_first: Duration::from_millis(50),
        reconnect_most: Duration::from_millis(400),
        ..short()
    };
    let alone = Alone::start(&peer, &limits);
    alone.wait_for_state(ChannelState::Connected);
    peer.script(|_, _, _| Some(Fault::Close));
    alone.wait_for_state(ChannelState::Reconnecting);
    let before = peer.seen("getUpdates").len();
    std::thread::sleep(Duration::from_secs(2));
    let tries = peer.seen("getUpdates").len() - before;
    assert!((2..=14).contains(&tries), "{tries} tries in two seconds");
    peer.say(7, "back");
    peer.script(|_, _, _| None);
    let back = Instant::now();
    alone.wait_for_messages(1);
    // The longest wait, and a busy box.
    assert!(
        back.elapsed() < Duration::from_secs(2),
        "{:?}",
        back.elapsed()
    );
    alone.wait_for_state(ChannelState::Connected);
}
