//! What a person reads when a model server fails in each way it can.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{json, Value};

use super::SOON;
use crate::support::http::Reply;
use crate::support::scripted::{echo, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

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
        ("large", Play::Say("x".repeat(5 * 1024 * 1024))),
    ];
    let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
    let script: HashMap<String, Play> = faults
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
