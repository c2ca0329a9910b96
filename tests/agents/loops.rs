//! The loop over both protocols and both lanes: calls, their mending, their bounds, and what a
//! person, a log and the audit get to see of it.

use serde_json::json;

use super::house::{
    agent_site, audit, chats, journal_left, messages, ollama, ollama_calls, openai_calls, replies,
    row, says, words, SOON,
};
use crate::support::model::{ollama_says, ModelServer, Reply, Seen};
use crate::support::sink::Sink;

#[test]
fn a_call_by_ollamas_protocol_is_made_audited_and_answered() {
    let model = ollama(|body| match replies(body) {
        0 => ollama_calls(&[("time", json!({}))]),
        _ => ollama_says("It is late."),
    });
    let sink = Sink::start();
    let site = agent_site(
        &model.url(),
        &sink.url(),
        "auto",
        json!({"tools": ["time"]}),
    );
    let daemon = site.start();
    let id = daemon
        .poster()
        .say("c", "what time is it?", None)
        .expect("accepted")
        .id;
    assert_eq!(sink.reply_to(&id, SOON).text(), "It is late.");
    let asked = chats(&model);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0]["tools"][0]["function"]["name"], "time");
    let shown = messages(&asked[1]);
    let last = shown.last().expect("a message");
    assert_eq!(last["role"], "tool", "{shown:?}");
    let told = last["content"].as_str().expect("text");
    assert!(told.starts_with("20") && told.ends_with('Z'), "{told}");
    assert_eq!(audit(&site), [row(1, "time", "ok", "")]);
    assert_eq!(journal_left(&site), 0, "the journal goes with its run");
    let (_, log) = daemon.stop();
    assert!(log.contains("tool_used"), "{log}");
    assert!(
        log.lines().any(
            |line| line.contains("run_finished") && line.contains("policy=\"\"")
                || line.contains("run_finished") && line.contains("policy= ")
        ),
        "{log}"
    );
}
