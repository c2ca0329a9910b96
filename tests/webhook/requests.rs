//! What is refused, in which order, and what is taken.

use std::time::Duration;

use serde_json::json;

use super::{house, raw, JSON, RIGHT, SOON};
use crate::support::daemon::WEBHOOK_TOKEN;
use crate::support::http::{request, Client};
use crate::support::scripted::echo;

const GOOD: &[u8] = br#"{"sender_id":"ana","text":"hello"}"#;
const MIB: usize = 1024 * 1024;

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
