//! What goes in and what comes out: fields, mapping, numbers, media, repeated keys.

use serde_json::json;

use super::{house, raw, JSON, RIGHT, SOON};
use crate::support::daemon::OUTBOUND_TOKEN;
use crate::support::http::request;
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;
use crate::support::site;

#[test]
fn answers_carry_the_fields_of_the_contract() {
    let (_model, sink, _site, daemon) = house();
    let id = daemon
        .poster()
        .say("room 1", "hello", None)
        .expect("accepted")
        .id;
    let answer = sink.reply_to(&id, SOON);
    let mut body = answer.body.clone();
    let own = body["message_id"].as_str().unwrap_or("").to_owned();
    assert!(!own.is_empty() && own != id, "{body}");
    body.as_object_mut().unwrap().remove("message_id");
    let wanted = json!({"sender_id": "korvun", "sender_name": "main", "text": echo("hello"), "conversation_id": "room 1", "in_reply_to": id});
    assert_eq!(body, wanted);
    assert_eq!(
        answer.authorization,
        Some(format!("Bearer {OUTBOUND_TOKEN}"))
    );
    assert!(
        answer.key.is_some_and(|key| !key.is_empty()),
        "no idempotency key"
    );
    daemon.wait_for_message(&id, "delivery", "sent", SOON);

    // Without a conversation the sender is one.
    let response = daemon
        .poster()
        .post("", None, &json!({"sender_id": "ana", "text": "me again"}))
        .unwrap();
    let id = response.json()["message_id"].as_str().unwrap().to_owned();
    assert_eq!(sink.reply_to(&id, SOON).field("conversation_id"), "ana");
}

#[test]
fn numbers_are_taken_as_they_are_written() {
    let (model, sink, site, _daemon) = house();
    let body = br#"{"sender_id":12345678901234567890123,"text":1.50,"sender_name":null}"#;
    let response = raw(
        &site,
        &request(
            "POST",
            "/webhook",
            &site.webhook.to_string(),
            &[RIGHT, JSON],
            body,
        ),
    );
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = sink.reply_to(response.json()["message_id"].as_str().unwrap(), SOON);
    assert_eq!(
        (answer.text(), answer.field("conversation_id")),
        (echo("1.50").as_str(), "12345678901234567890123")
    );
    assert_eq!(model.asked("1.50"), 1);
}

#[test]
fn what_cannot_be_read_is_said_so_and_never_fetched() {
    let (model, sink, _site, daemon) = house();
    let fetched = Sink::start();
    let body = json!({"sender_id": "ana", "media_url": fetched.url(), "media_type": "image/png"});
    let id = daemon.poster().post("", None, &body).unwrap().json()["message_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = sink.reply_to(&id, SOON);
    assert!(!answer.text().is_empty(), "{answer:?}");
    println!("media sentence: {:?}", answer.text());
    daemon.wait_for_message(&id, "state", "excused", SOON);
    // With words beside it the words are answered.
    let body = json!({"sender_id": "ana", "text": "look", "media_url": fetched.url(), "media_type": "image/png"});
    let id = daemon.poster().post("", None, &body).unwrap().json()["message_id"]
        .as_str()
        .unwrap()
        .to_owned();
    sink.reply_to(&id, SOON);
    assert_eq!(model.asks().len(), 1, "{:?}", model.asks());
    assert!(fetched.deliveries().is_empty(), "the media was fetched");
}

#[test]
fn fields_are_mapped_by_name_and_by_pointer() {
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site(&model.url(), &sink.url());
    site.config["channels"][0]["webhook"]["mapping"] = json!({"sender_id": "/user/id", "sender_name": "/user/na~1me", "text": "/parts/0/body", "conversation_id": "room"});
    site.config["brains"][0]["persona"] = json!({"display_name": "Marta"});
    let daemon = site.start();
    let body = json!({"user": {"id": "u1", "na/me": "Ana"}, "parts": [{"body": "hola"}], "room": "r1", "text": "not this"});
    let response = daemon.poster().post("", None, &body).unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
    let id = response.json()["message_id"].as_str().unwrap().to_owned();
    let answer = sink.reply_to(&id, SOON);
    assert_eq!(
        (
            answer.field("room"),
            answer.text(),
            answer.field("sender_id"),
            answer.field("sender_name")
        ),
        ("r1", echo("hola").as_str(), "korvun", "Marta"),
        "{}",
        answer.body
    );
    assert!(
        answer.body.get("conversation_id").is_none(),
        "{}",
        answer.body
    );
    // What is mapped elsewhere is not looked for under its own name.
    let response = daemon
        .poster()
        .post("", None, &json!({"sender_id": "u1", "text": "hola"}))
        .unwrap();
    assert_eq!(
        (response.status, response.json()["error"].as_str()),
        (400, Some("missing_sender"))
    );
}

#[test]
fn a_repeated_key_is_the_first_message() {
    let (model, sink, site, daemon) = house();
    let mut poster = daemon.poster();
    let first = poster
        .say("ana", "once", Some("key-1"))
        .expect("accepted")
        .id;
    sink.reply_to(&first, SOON);
    assert_eq!(
        poster
            .say("ana", "once", Some("key-1"))
            .expect("accepted")
            .id,
        first
    );
    // Another text under the same key is still the first message; another key is another one.
    assert_eq!(
        poster
            .say("ana", "changed", Some("key-1"))
            .expect("accepted")
            .id,
        first
    );
    let second = poster
        .say("ana", "once", Some("key-2"))
        .expect("accepted")
        .id;
    assert_ne!(second, first);
    sink.reply_to(&second, SOON);
    // Who waits on a repeated key gets the answer there is.
    let body = json!({"sender_id": "tester", "conversation_id": "ana", "text": "once"});
    let waited = poster
        .post("?wait=30", Some("key-1"), &body)
        .expect("an answer");
    assert_eq!(waited.status, 200);
    assert_eq!(waited.json()["message_id"], first.as_str());
    assert_eq!(waited.json()["reply"]["text"], echo("once").as_str());
    // A restart changes none of it.
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    let daemon = site.start();
    assert_eq!(
        daemon
            .poster()
            .say("ana", "once", Some("key-1"))
            .expect("accepted")
            .id,
        first
    );
    let last = daemon
        .poster()
        .say("ana", "last", None)
        .expect("accepted")
        .id;
    sink.reply_to(&last, SOON);
    assert_eq!((model.asked("once"), model.asked("changed")), (2, 0));
    assert_eq!(sink.deliveries().len(), 3, "{:?}", sink.deliveries());
}
