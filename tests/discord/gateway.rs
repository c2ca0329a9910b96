//! The gateway when it breaks: nothing that was said is lost, nothing is taken twice, and what a
//! person must put right is told.

use std::time::Duration;

use korvun::channel::port::Refusal;
use korvun::watch::board::ChannelState;
use serde_json::json;

use super::alone::Alone;
use super::SOON;
use crate::support::discord::{person, At, Discord, Do};

#[test]
fn a_half_open_connection_is_noticed_by_the_missing_acknowledgement_and_resumed() {
    let peer = Discord::start();
    peer.world().interval = Duration::from_secs(1);
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    peer.say("51", "one");
    alone.wait_for_texts(&["one"]);
    // From now on writes succeed and nothing comes back.
    peer.order(Do::Hang);
    peer.wait_until("a hanging line", SOON, |world| {
        world.line.is_none().then_some(())
    });
    peer.say("51", "two");
    alone.wait_for_texts(&["one", "two"]);
    assert_eq!(peer.world().identifies.len(), 1, "the session went on");
    // READY is 1, the first message 2; what was not taken comes behind it.
    assert_eq!(peer.world().resumes, [2]);
    assert_eq!(*alone.intake.repeated.lock().unwrap(), 0);
    let closes = peer.wait_until("close", SOON, |world| world.closes.first().copied());
    assert_eq!(closes, 4000);
}

#[test]
fn every_way_in_which_a_connection_ends_is_resumed_behind_what_was_taken() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    let mut said: Vec<String> = Vec::new();
    let orders = [
        Do::Cut,
        Do::Close(1000),
        Do::Close(4000),
        Do::Close(4008),
        Do::Close(4321),
        Do::Text(json!({"op": 7, "d": null}).to_string()),
        Do::Invalid(true),
    ];
    for (n, order) in (1..).zip(orders) {
        peer.order(order);
        peer.wait_until("lost line", SOON, |world| {
            (world.line.is_none() || world.resumes.len() >= n).then_some(())
        });
        said.push(format!("while away {n}"));
        peer.say("51", said.last().unwrap());
        peer.wait_for_resumes(n, SOON);
        let texts: Vec<&str> = said.iter().map(String::as_str).collect();
        alone.wait_for_texts(&texts);
    }
    assert_eq!(peer.world().identifies.len(), 1);
    assert_eq!(*alone.intake.repeated.lock().unwrap(), 0);
    alone.wait_for_state(ChannelState::Connected);
}

#[test]
fn a_session_that_is_gone_is_begun_anew_within_the_budget() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    peer.order(Do::Close(4009));
    peer.wait_for_identifies(2, SOON);
    peer.order(Do::Invalid(false));
    peer.wait_for_identifies(3, SOON);
    peer.say("51", "back");
    alone.wait_for_texts(&["back"]);
    assert!(peer.world().resumes.is_empty());
}

#[test]
fn without_a_budget_no_session_is_begun() {
    let peer = Discord::start();
    {
        let mut world = peer.world();
        world.starts_left = 0;
        world.reset_after = Duration::from_secs(1);
    }
    let alone = Alone::start(&peer);
    let why = alone.wait_for_state(ChannelState::Reconnecting);
    assert!(why.contains("no further session"), "{why}");
    assert_eq!(peer.world().identifies.len(), 0);
    peer.world().starts_left = 1;
    peer.wait_for_identifies(1, SOON);
    alone.wait_for_state(ChannelState::Connected);
}

#[test]
fn the_address_for_resuming_is_given_up_when_nothing_answers_there() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    peer.world().resume_dead = true;
    peer.order(Do::Cut);
    peer.wait_for_resumes(1, SOON);
    peer.say("51", "by another door");
    alone.wait_for_texts(&["by another door"]);
    assert_eq!(peer.calls("gateway"), 2);
    assert_eq!(peer.world().identifies.len(), 1);
}

#[test]
fn what_a_person_must_put_right_stops_the_channel_and_names_the_switch() {
    for (code, cure) in [
        (4004, "Reset Token"),
        (4010, "servers"),
        (4011, "servers"),
        (4012, "update Korvun"),
        (4013, "update Korvun"),
        (4014, "Message Content Intent"),
    ] {
        let peer = Discord::start();
        peer.socket_script(move |at, _| (at == At::Identify).then_some(Do::Close(code)));
        let alone = Alone::start(&peer);
        let why = alone.wait_for_state(ChannelState::Failed);
        assert!(why.contains(cure), "{code}: {why}");
        // It does not come back: whatever would, would have by now.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(peer.world().identifies.len(), 1, "{code}");
        assert_eq!(peer.calls("gateway"), 1, "{code}");
    }
}

#[test]
fn a_gateway_that_says_nothing_does_not_hold_the_channel_for_ever() {
    let peer = Discord::start();
    peer.socket_script(|at, nth| (at == At::Connect && nth == 1).then_some(Do::Hang));
    let alone = Alone::start(&peer);
    peer.say("51", "nobody is there yet");
    // Ten seconds for Hello, then another connection.
    peer.wait_for_identifies(1, SOON);
    peer.say("51", "now");
    alone.wait_for_texts(&["now"]);
}

#[test]
fn without_room_the_messages_stay_with_discord_until_there_is_some() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    peer.say("51", "one");
    alone.wait_for_texts(&["one"]);
    *alone.intake.refusals.lock().unwrap() =
        [[Refusal::Full; 5].as_slice(), &[Refusal::Store; 4]].concat();
    for text in ["two", "three", "four"] {
        peer.say("51", text);
    }
    alone.wait_for_texts(&["one", "two", "three", "four"]);
    let world = peer.world();
    // Each time from the same place, and the session outlives more refusals than tries at resuming.
    assert_eq!(world.resumes, [2; 9]);
    assert_eq!(world.identifies.len(), 1);
    assert_eq!(world.closes, [4000; 9]);
    drop(world);
    let counts = alone.health().counts;
    assert_eq!(counts.dropped, 0, "nothing was lost");
}

#[test]
fn whatever_the_gateway_says_the_next_message_is_heard() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    peer.wait_for_live(SOON);
    let deep = format!(
        "{{\"op\":0,\"s\":2,\"t\":\"X\",\"d\":{}",
        "[".repeat(50_000)
    );
    let wide = format!(
        "{{\"op\":0,\"s\":null,\"t\":\"X\",\"d\":[{}0]}}",
        "0,".repeat(1_000_000)
    );
    for text in [
        String::new(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        r#"{"op":"0"}"#.into(),
        r#"{"op":77,"d":{}}"#.into(),
        r#"{"op":10,"d":{"heartbeat_interval":0}}"#.into(),
        r#"{"op":11,"d":[]}"#.into(),
        r#"{"op":0,"t":7,"s":"x","d":null}"#.into(),
        r#"{"op":0,"t":"READY","s":null,"d":{}}"#.into(),
        deep,
        wide,
    ] {
        peer.order(Do::Text(text));
        peer.wait_until("said", SOON, |world| world.order.is_none().then_some(()));
    }
    for message in [
        json!({"channel_id": "51"}),
        json!({"channel_id": 51, "author": person("41"), "content": "x"}),
        json!({"channel_id": "51", "author": {"id": ["41"]}, "content": {"a": 1}}),
    ] {
        peer.message(message);
    }
    peer.event("A_NEW_EVENT", &json!([1, {"x": null}]));
    peer.say("51", "still here");
    alone.wait_for_texts(&["still here"]);
    assert_eq!(alone.health().counts.ignored, 3);
    assert_eq!(peer.world().identifies.len(), 1);
    assert!(peer.world().resumes.is_empty(), "the connection stood");
    // Larger than anything Discord says: the connection ends, and is resumed.
    peer.order(Do::Text("x".repeat(5 * 1024 * 1024)));
    peer.wait_for_resumes(1, SOON);
    peer.say("51", "and now");
    alone.wait_for_texts(&["still here", "and now"]);
}
