//! The webhook by the letter of its contract, over real sockets: what is refused in which order, what is
//! taken, how answers go out, and what a person reads when a model fails.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::support::daemon::{Daemon, Site, ADMIN_TOKEN, OUTBOUND_TOKEN, WEBHOOK_TOKEN};
use crate::support::http::{request, Client, Reply, Response, Server};
use crate::support::load::Poster;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

/// Model, sink, site and daemon as most tests want them.
fn house() -> (Model, Sink, Site, Daemon) {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    (model, sink, site, daemon)
}

/// Sends bytes on a fresh connection and reads one response.
fn raw(site: &Site, bytes: &[u8]) -> Response {
    let mut client = Client::new(site.webhook, Duration::from_secs(30));
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    client
        .send(bytes)
        .unwrap_or_else(|error| panic!("no answer ({error}) to:\n{shown}"))
}

const RIGHT: (&str, &str) = (
    "Authorization",
    "Bearer inbound-token-of-the-tests-0123456789",
);
const JSON: (&str, &str) = ("Content-Type", "application/json");
const GOOD: &[u8] = br#"{"sender_id":"ana","text":"hello"}"#;

#[test]
fn requests_are_judged_in_the_order_of_the_contract() {
    let (model, _sink, site, daemon) = house();
    let wrong = ("Authorization", "Bearer wrong");
    let plain = ("Content-Type", "text/plain");
    let long_key = ("X-Idempotency-Key", "k".repeat(129));
    let long_key = (long_key.0, long_key.1.as_str());
    let announced = ("Content-Length", "2097152");
    let long_id = format!(r#"{{"sender_id":"{}","text":"x"}}"#, "i".repeat(257));
    let long_text = format!(
        r#"{{"sender_id":"ana","text":"{}"}}"#,
        "t".repeat(64 * 1024 + 1)
    );
    // method, target, fields, body, status, code
    type Case<'a> = (
        &'a str,
        &'a str,
        Vec<(&'a str, &'a str)>,
        &'a [u8],
        u16,
        &'a str,
    );
    let cases: Vec<Case<'_>> = vec![
        ("GET", "/healthz", vec![], b"", 200, ""),
        // Each line but the first of a pair is wrong in all later ways too: the earlier one is told.
        (
            "GET",
            "/elsewhere",
            vec![wrong, plain],
            b"",
            404,
            "not_found",
        ),
        (
            "POST",
            "/webhook/",
            vec![RIGHT, JSON],
            GOOD,
            404,
            "not_found",
        ),
        ("GET", "/webhook", vec![], b"", 405, "method_not_allowed"),
        (
            "PUT",
            "/webhook?wait=0",
            vec![wrong, plain],
            GOOD,
            405,
            "method_not_allowed",
        ),
        ("POST", "/webhook", vec![JSON], GOOD, 401, "unauthorized"),
        (
            "POST",
            "/webhook?wait=0",
            vec![wrong, plain],
            b"{",
            401,
            "unauthorized",
        ),
        (
            "POST",
            "/webhook",
            vec![("Authorization", WEBHOOK_TOKEN), JSON],
            GOOD,
            401,
            "unauthorized",
        ),
        (
            "POST",
            "/webhook",
            vec![
                (
                    "Authorization",
                    "Bearer outbound-token-of-the-tests-0123456789",
                ),
                JSON,
            ],
            GOOD,
            401,
            "unauthorized",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT],
            GOOD,
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/webhook?wait=0",
            vec![RIGHT, plain, announced],
            b"",
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, ("Content-Type", "application/jsonp")],
            GOOD,
            415,
            "unsupported_media_type",
        ),
        (
            "POST",
            "/webhook?wait=0",
            vec![RIGHT, JSON, announced],
            b"",
            400,
            "invalid_wait",
        ),
        (
            "POST",
            "/webhook?wait=61",
            vec![RIGHT, JSON],
            GOOD,
            400,
            "invalid_wait",
        ),
        (
            "POST",
            "/webhook?wait=soon",
            vec![RIGHT, JSON],
            GOOD,
            400,
            "invalid_wait",
        ),
        (
            "POST",
            "/webhook?wait=",
            vec![RIGHT, JSON],
            GOOD,
            400,
            "invalid_wait",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON, announced],
            b"",
            413,
            "too_large",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON, long_key],
            b"{\"sender_id\":",
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            b"",
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            b"[]",
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            b"\"ana\"",
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            b"{\"sender_id\":\"\xff\"}",
            400,
            "invalid_json",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON, long_key],
            b"{}",
            400,
            "missing_sender",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            br#"{"sender_id":null,"text":"x"}"#,
            400,
            "missing_sender",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON, long_key],
            br#"{"sender_id":"ana"}"#,
            400,
            "missing_content",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            br#"{"sender_id":"ana","text":null}"#,
            400,
            "missing_content",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            br#"{"sender_id":true,"text":"x"}"#,
            400,
            "invalid_value",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            br#"{"sender_id":"ana","text":["x"]}"#,
            400,
            "invalid_value",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            br#"{"sender_id":"ana","text":"x","conversation_id":{}}"#,
            400,
            "invalid_value",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            long_id.as_bytes(),
            400,
            "invalid_value",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON],
            long_text.as_bytes(),
            413,
            "too_large",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, JSON, long_key],
            GOOD,
            400,
            "invalid_key",
        ),
        (
            "POST",
            "/webhook",
            vec![RIGHT, ("content-type", "Application/JSON; charset=utf-8")],
            GOOD,
            200,
            "",
        ),
        (
            "POST",
            "/webhook",
            vec![
                (
                    "authorization",
                    "bearer inbound-token-of-the-tests-0123456789",
                ),
                JSON,
            ],
            GOOD,
            200,
            "",
        ),
    ];
    for (method, target, fields, body, status, code) in cases {
        let mut bytes = request(method, target, &site.webhook.to_string(), &fields, body);
        if fields.contains(&announced) {
            // Announced and never sent: judged by the head alone.
            let head = String::from_utf8(bytes)
                .unwrap()
                .replacen("Content-Length: 0\r\n", "", 1);
            bytes = head.into_bytes();
        }
        let response = raw(&site, &bytes);
        let shown = format!(
            "{method} {target} {fields:?} {}\n{}{}",
            String::from_utf8_lossy(&body[..body.len().min(80)]),
            response.head,
            response.text()
        );
        assert_eq!(response.status, status, "{shown}");
        if !code.is_empty() {
            assert_eq!(response.json()["error"], code, "{shown}");
            assert!(
                response.json()["message"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{shown}"
            );
            assert!(
                response
                    .header("content-type")
                    .is_some_and(|kind| kind.starts_with("application/json")),
                "{shown}"
            );
        }
        match status {
            401 => assert!(response.header("www-authenticate").is_some(), "{shown}"),
            405 => assert_eq!(response.header("allow"), Some("POST"), "{shown}"),
            _ => {}
        }
        assert!(!response.text().contains(WEBHOOK_TOKEN), "{shown}");
    }
    // Two were taken, both of the same person.
    model.wait_for_asks(2, SOON);
    assert_eq!(model.asks().len(), 2);
    drop(daemon);
}

#[test]
fn a_chunked_body_is_read_under_the_same_cap() {
    let (_model, sink, site, _daemon) = house();
    let head = format!(
        "POST /webhook HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {WEBHOOK_TOKEN}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        site.webhook
    );
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    let parts = [r#"{"sender_id":"a"#, r#"na","te"#, r#"xt":"in bits"}"#, ""]
        .map(chunk)
        .concat();
    let response = raw(&site, format!("{head}{parts}").as_bytes());
    assert_eq!(response.status, 200, "{}", response.text());
    let id = response.json()["message_id"].as_str().unwrap().to_owned();
    assert_eq!(sink.reply_to(&id, SOON).text(), echo("in bits"));

    // A text of the very limit inside a body near its own limit.
    let text = "t".repeat(64 * 1024);
    let padded = json!({"sender_id": "ana", "text": text, "padding": "p".repeat(MIB - 70 * 1024)})
        .to_string();
    assert!(padded.len() < MIB);
    let response = raw(
        &site,
        format!("{head}{}{}", chunk(&padded), chunk("")).as_bytes(),
    );
    assert_eq!(response.status, 200, "{}", response.text());

    // One byte too many: refused, however much more would follow.
    let mut client = Client::new(site.webhook, Duration::from_secs(30));
    let mut sent = client.write(head.as_bytes()).unwrap();
    let more = chunk(&"x".repeat(65536));
    for _ in 0..17 {
        // The refusal may come before all is written.
        match client.write(more.as_bytes()) {
            Ok(at) => sent = at,
            Err(_) => break,
        }
    }
    let response = client.read(sent).expect("an answer").expect("an answer");
    assert_eq!(
        (response.status, response.json()["error"].as_str()),
        (413, Some("too_large")),
        "{}",
        response.text()
    );
}

#[test]
fn one_connection_carries_many_messages() {
    let (_model, sink, _site, daemon) = house();
    let mut poster = daemon.poster();
    for nth in 0..20 {
        let id = poster
            .say("long talk", &format!("message {nth}"), None)
            .expect("accepted")
            .id;
        assert!(poster.client().connected(), "closed after message {nth}");
        assert_eq!(
            sink.reply_to(&id, SOON).text(),
            echo(&format!("message {nth}"))
        );
    }
    // A refused body does not end the connection either: the next message still goes through.
    let refused = poster
        .post("", None, &json!({"sender_id": "ana"}))
        .expect("an answer");
    assert_eq!(refused.status, 400);
    poster
        .say("long talk", "still here", None)
        .expect("accepted");
}

#[test]
fn ten_wrong_tokens_close_the_door_to_wrong_ones_only() {
    let (_model, _sink, site, daemon) = house();
    let host = site.webhook.to_string();
    let mut seen = Vec::new();
    for _ in 0..12 {
        let bytes = request(
            "POST",
            "/webhook",
            &host,
            &[("Authorization", "Bearer guess"), JSON],
            GOOD,
        );
        let response = raw(&site, &bytes);
        seen.push((
            response.status,
            response.json()["error"].as_str().unwrap_or("").to_owned(),
        ));
    }
    assert!(
        seen[..10]
            .iter()
            .all(|one| *one == (401, "unauthorized".into())),
        "{seen:?}"
    );
    assert!(
        seen[10..]
            .iter()
            .all(|one| *one == (429, "too_many_failures".into())),
        "{seen:?}"
    );
    // The right one is served, and one without any is only told to bring it.
    daemon.poster().say("ana", "hello", None).expect("accepted");
    assert_eq!(
        raw(&site, &request("POST", "/webhook", &host, &[JSON], GOOD)).status,
        401
    );
}

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
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
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

/// Words that a failing provider says and that no person may read.
const RAW: [&str; 4] = ["Traceback", "upstream-7.internal", "<html", "\"error\""];

#[test]
fn a_provider_that_lies_becomes_an_honest_sentence() {
    let words = "Traceback upstream-7.internal \"error\"";
    let html = format!("<html><body>{words}</body></html>").into_bytes();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n".as_slice();
    let cut = [
        head,
        b"Content-Length: 900\r\n\r\n{\"message\":{\"content\":\"Traceback",
    ]
    .concat();
    let chat = |value: Value| Play::Do(Reply::json(200, &value));
    let endless = [
        head,
        b"\r\n{\"message\":{\"content\":\"",
        vec![b'a'; 64 * 1024].as_slice(),
    ]
    .concat();
    let elsewhere = Model::echo();
    let target = format!("Location: {}/api/chat\r\n", elsewhere.url());
    let faults: Vec<(&str, Play)> = vec![
        (
            "html",
            Play::Do(Reply::Send(200, "text/html", String::new(), html.clone())),
        ),
        (
            "html as json",
            Play::Do(Reply::Send(
                200,
                "application/json",
                String::new(),
                html.clone(),
            )),
        ),
        (
            "500",
            Play::Do(Reply::Send(
                500,
                "application/json",
                String::new(),
                format!("{{\"error\":\"{words}\"}}").into_bytes(),
            )),
        ),
        (
            "502 html",
            Play::Do(Reply::Send(502, "text/html", String::new(), html)),
        ),
        ("401", Play::Do(Reply::json(401, &json!({"error": words})))),
        (
            "404",
            Play::Do(Reply::json(
                404,
                &json!({"error": "model 'tiny' not found"}),
            )),
        ),
        ("error in a 200", chat(json!({"error": words}))),
        ("wrong json", chat(json!({"answer": words}))),
        (
            "wrong types",
            chat(json!({"message": {"content": [1, 2, {"error": words}]}, "done": true})),
        ),
        ("blank", Play::Say(" \n\t ".into())),
        (
            "only reasoning",
            Play::Say(format!("<think>{words}</think>")),
        ),
        ("unclosed reasoning", Play::Say(format!("<think>{words}"))),
        ("endless", Play::Do(Reply::Endless(endless))),
        ("closes", Play::Do(Reply::Close)),
        ("closes early", Play::Do(Reply::Raw(cut.clone()))),
        (
            "no http",
            Play::Do(Reply::Raw(format!("{words}\r\n\r\n").into_bytes())),
        ),
        ("slow", Play::Do(Reply::Hang)),
        (
            "drip",
            Play::Do(Reply::Drip(cut, Duration::from_millis(100))),
        ),
        (
            "redirect",
            Play::Do(Reply::Send(307, "text/plain", target, Vec::new())),
        ),
        ("large", Play::Say("x".repeat(5 * MIB))),
    ];
    let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
    let script: std::collections::HashMap<String, Play> = faults
        .iter()
        .map(|(name, play)| ((*name).to_owned(), play.clone()))
        .collect();
    let model = Model::start(move |ask| {
        script
            .get(&ask.text)
            .cloned()
            .unwrap_or_else(|| Play::Say(echo(&ask.text)))
    });
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    site.model()["max_retries"] = json!(0);
    site.model()["request_timeout"] = json!("3s");
    site.model()["parallel"] = json!(16);
    let daemon = site.start();
    let mut poster = daemon.poster();
    let ids: Vec<(&str, String)> = names
        .iter()
        .map(|name| (*name, poster.say(name, name, None).expect("accepted").id))
        .collect();
    for (name, id) in &ids {
        let answer = sink.reply_to(id, SOON);
        println!("{name}: {:?}", answer.text());
        assert!(answer.text().trim().len() > 10, "{name}: {answer:?}");
        assert!(
            answer.text().len() < 500,
            "{name}: a sentence of {} bytes",
            answer.text().len()
        );
        assert!(
            !RAW.iter().any(|word| answer.text().contains(word)),
            "{name}: raw words reached the person: {answer:?}"
        );
        daemon.wait_for_message(id, "state", "excused", SOON);
    }
    assert!(
        elsewhere.asks().is_empty(),
        "a redirect was followed with the conversation in it"
    );
    // The daemon is well, and so is the same brain.
    let id = poster
        .say("after", "are you well?", None)
        .expect("accepted")
        .id;
    assert_eq!(sink.reply_to(&id, SOON).text(), echo("are you well?"));
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
}

/// Percent-encoded as a query is (RFC 3986 section 2.3: only unreserved bytes stay).
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The forms in which a secret could show.
fn forms(secret: &str) -> Vec<String> {
    let upper = percent(secret);
    let lower = upper.split('%').enumerate().map(|(nth, part)| match nth {
        0 => part.to_owned(),
        _ => format!("%{}{}", part[..2].to_ascii_lowercase(), &part[2..]),
    });
    let escaped = Value::from(secret).to_string();
    let slashes = escaped.replace('/', "\\/");
    let mut all = vec![
        secret.to_owned(),
        escaped.trim_matches('"').to_owned(),
        slashes.trim_matches('"').to_owned(),
        lower.collect(),
        upper.clone(),
        format!("{secret:?}").trim_matches('"').to_owned(),
    ];
    all.sort();
    all.dedup();
    all
}

#[test]
fn no_secret_shows_when_everything_fails_at_trace() {
    // Each is awkward in a URL, in JSON and in a log line.
    let secrets = [
        ("T_WEBHOOK", r#"in/bound+to=ken%&"q"\back~0001"#),
        ("T_OUTBOUND", r#"out/bound+to=ken%&"q"\back~0002"#),
        ("T_ADMIN", r#"ad/min+to=ken%&"q"\back~0003"#),
        ("T_KEY", r#"mod/el+k=ey%&"q"\back~0004"#),
        ("T_GROQ", r#"gr/oq+k=ey%&"q"\back~0005"#),
    ];
    // Peers that throw back in each way what they were told.
    let spiteful = |told: String, nth: usize| {
        let percent = percent(&told);
        let field = told.replace(['\r', '\n'], "");
        match nth % 5 {
            0 => Reply::json(
                401,
                &json!({"error": {"message": format!("bad key {told} {percent}"), "code": 7}}),
            ),
            1 => Reply::Send(
                307,
                "text/plain",
                format!("Location: http://127.0.0.1:1/{percent}?key={field}\r\n"),
                Vec::new(),
            ),
            2 => Reply::Send(
                500,
                "text/html",
                format!("X-Told: {field}\r\n"),
                format!("<html>{told}</html>").into_bytes(),
            ),
            3 => Reply::Raw(format!("{told}\r\n\r\n").into_bytes()),
            _ => Reply::json(429, &json!({"error": told, "code": "insufficient_quota"})),
        }
    };
    let model = Model::start(move |ask| {
        Play::Do(spiteful(
            ask.authorization.clone().unwrap_or_default(),
            ask.nth,
        ))
    });
    let sink = Sink::answering(move |request, nth| {
        spiteful(
            request.header("authorization").unwrap_or("").to_owned(),
            nth,
        )
    });
    let mut site = site(&model.url(), &sink.url());
    site.env = secrets
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    site.env.push(("KORVUN_LOG".into(), "trace".into()));
    site.config["brains"][0]["models"] = json!([
        {"provider": "openai-compatible", "model_id": "one", "locality": "local", "base_url": model.openai_url(), "api_key_env": "T_KEY", "max_retries": 1},
        {"provider": "groq", "model_id": "two", "locality": "cloud", "base_url": model.openai_url(), "api_key_env": "T_GROQ", "max_retries": 1},
        {"provider": "ollama", "model_id": "three", "locality": "local", "base_url": model.url(), "max_retries": 0}
    ]);
    let mut daemon = site.spawn(&[]);
    daemon.wait_until_ready();
    let token = secrets[0].1;
    let mut poster = Poster::new(site.webhook, token);
    let mut ids = Vec::new();
    for nth in 0..10 {
        ids.push(
            poster
                .say(&format!("talk-{nth}"), "hello", None)
                .expect("accepted")
                .id,
        );
    }
    // Secrets where they do not belong: another's bearer, in a query, in a path, in a host.
    let mut answers = Vec::new();
    for (_, secret) in &secrets {
        let escaped = percent(secret);
        let bearer = format!("Bearer {secret}x");
        for (addr, path) in [
            (site.webhook, "/webhook"),
            (site.admin, "/api/conversations"),
        ] {
            let method = if path == "/webhook" { "POST" } else { "GET" };
            let target = format!("{path}?token={escaped}");
            let bytes = request(
                method,
                &target,
                &addr.to_string(),
                &[("Authorization", &bearer), JSON, ("Connection", "close")],
                b"",
            );
            answers.push(Client::new(addr, SOON).send(&bytes).expect("an answer"));
        }
    }
    for id in &ids {
        sink.wait("a try at each answer", SOON, |all| {
            all.iter().any(|one| one.in_reply_to() == id)
        });
    }
    let admin = format!("Bearer {}", secrets[2].1);
    for path in [
        "/api/brains",
        "/api/channels",
        "/readyz",
        "/metrics",
        "/api/conversations?limit=200",
    ] {
        let bytes = request(
            "GET",
            path,
            &site.admin.to_string(),
            &[("Authorization", &admin), ("Connection", "close")],
            b"",
        );
        answers.push(
            Client::new(site.admin, SOON)
                .send(&bytes)
                .expect("an answer"),
        );
    }
    let arguments = std::fs::read(format!("/proc/{}/cmdline", daemon.pid())).expect("arguments");
    let (_, log) = daemon.stop();
    assert!(
        log.lines().count() > 50,
        "a log at trace has more to say:\n{log}"
    );

    let mut said: Vec<(String, Vec<u8>)> = vec![
        ("the log".into(), log.into_bytes()),
        ("the arguments".into(), arguments),
    ];
    for answer in answers {
        said.push((
            "an answer".into(),
            [answer.head.into_bytes(), answer.body].concat(),
        ));
    }
    for entry in std::fs::read_dir(site.path())
        .expect("folder")
        .flatten()
        .filter(|entry| entry.path().is_file())
    {
        said.push((
            format!("{:?}", entry.file_name()),
            std::fs::read(entry.path()).expect("file"),
        ));
    }
    for delivery in sink.deliveries() {
        said.push(("a delivery".into(), delivery.body.to_string().into_bytes()));
    }
    for (name, secret) in secrets {
        for form in forms(secret) {
            for (place, bytes) in &said {
                let shows = bytes
                    .windows(form.len())
                    .any(|window| window == form.as_bytes());
                assert!(!shows, "{name} shows in {place} as {form}");
            }
        }
    }
    assert_ne!(ADMIN_TOKEN, secrets[2].1);
}
