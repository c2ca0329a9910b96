//! Providers against real sockets: what they send, what they make of proper answers, and what a
//! model that runs elsewhere is told (nothing).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use korvun::base::secret::Secret;
use korvun::domain::brain::Sensitivity::{self, Private, Public};
use korvun::domain::completion::{FailureKind, ModelFacts};
use korvun::domain::limits::Limits;
use korvun::net::cancel::Cancel;
use korvun::provider::{build, Provider};
use serde_json::{json, Value};

use crate::support::asking::{ask, model, said, wire, wire_with, within};
use crate::support::model::{ollama_says, ollama_shows, openai_says, ModelServer, Reply};

/// A server that shows as told and says "hello".
fn showing(show: impl Fn() -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |seen| {
        if seen.is("POST /api/show") {
            show()
        } else {
            ollama_says("hello")
        }
    })
}

/// A server that shows a model of 8192 tokens and answers chats as told.
fn saying(chat: impl Fn() -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |seen| {
        if seen.is("POST /api/show") {
            ollama_shows(8192)
        } else {
            chat()
        }
    })
}

fn ollama(server: &ModelServer, sensitivity: Sensitivity) -> Arc<dyn Provider> {
    build(&model("ollama", &server.url()), sensitivity, None, &wire())
}

#[test]
fn ollama_answers_a_private_brain_after_it_has_told_of_the_model() {
    let server = saying(|| ollama_says(" hello there "));
    let mut model = model("ollama", &server.url());
    model.options.insert("temperature".into(), json!(0.5));
    model.keep_alive = Some(json!("10m"));
    model.think = Some(json!(false));
    let provider = build(&model, Private, None, &wire());
    assert_eq!(provider.known(), None);
    for _ in 0..3 {
        let completion = ask(&*provider).unwrap();
        assert_eq!(completion.text.trim(), "hello there");
        assert!(!completion.cut);
    }
    let seen = server.seen();
    let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
    let chat = "POST /api/chat";
    assert_eq!(lines, ["POST /api/show", chat, chat, chat]);
    assert_eq!(seen[0].json(), json!({"model": "m"}));
    assert_eq!(
        seen[1].json(),
        json!({
            "model": "m",
            "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
            "stream": false,
            "options": {"temperature": 0.5, "num_ctx": 4096},
            "keep_alive": "10m",
            "think": false,
        })
    );
    assert_eq!(seen[1].header("content-type"), Some("application/json"));
    assert!(seen[1].header("user-agent").unwrap().starts_with("korvun/"));
    assert_eq!(seen[1].header("accept-encoding"), None);
    assert_eq!(server.connections(), 1, "the connection is used again");
    let facts = provider.known().unwrap();
    assert_eq!(
        (facts.context_tokens, facts.tools),
        (Some(8192), Some(true))
    );
}

#[test]
fn the_context_is_the_same_in_every_call_and_never_above_the_models_own() {
    for (shown, option, sent) in [
        (Some(8192), None, 4096),
        (Some(2048), None, 2048),
        (None, None, 4096),
        (Some(2048), Some(16384), 16384),
    ] {
        let server = showing(move || match shown {
            Some(tokens) => ollama_shows(tokens),
            None => Reply::Json(200, json!({"capabilities": ["completion"]})),
        });
        let mut model = model("ollama", &server.url());
        if let Some(tokens) = option {
            model.options.insert("num_ctx".into(), json!(tokens));
        }
        let provider = build(&model, Private, None, &wire());
        provider
            .warm_up(within(Duration::from_secs(10)), &Cancel::new())
            .unwrap();
        ask(&*provider).unwrap();
        let seen = server.seen();
        let lines: Vec<&str> = seen.iter().map(|seen| seen.line.as_str()).collect();
        assert_eq!(
            lines,
            ["POST /api/show", "POST /api/chat", "POST /api/chat"]
        );
        assert_eq!(
            seen[1].json()["messages"],
            json!([]),
            "a warm-up only loads"
        );
        assert_eq!(seen[1].json()["options"], json!({"num_ctx": sent}));
        assert_eq!(seen[2].json()["options"], json!({"num_ctx": sent}));
    }
}

#[test]
fn a_private_brain_asks_nothing_of_a_model_that_runs_elsewhere() {
    let elsewhere = json!({"capabilities": ["completion"], "remote_host": "https://ollama.com:443", "remote_model": "big"});
    for shown in [elsewhere, json!({"remote_model": "big"})] {
        let server = showing(move || Reply::Json(200, shown.clone()));
        let provider = ollama(&server, Private);
        for _ in 0..2 {
            let failure = ask(&*provider).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Shield, "{failure}");
        }
        let cold = provider.warm_up(within(Duration::from_secs(10)), &Cancel::new());
        assert_eq!(cold.unwrap_err().kind, FailureKind::Shield);
        assert_eq!(server.count("POST /api/chat"), 0);
        assert_eq!(server.count("POST /api/show"), 1);
        assert!(provider.known().unwrap().remote.is_some());
        assert!(ask(&*ollama(&server, Public)).is_ok(), "a public brain may");
    }
}

#[test]
fn an_answer_that_comes_from_elsewhere_is_refused_and_remembered() {
    let remote = json!({"message": {"content": "hi"}, "done": true, "remote_host": "https://ollama.com:443"});
    let server = saying(move || Reply::Json(200, remote.clone()));
    let provider = ollama(&server, Private);
    for _ in 0..2 {
        let failure = ask(&*provider).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Shield, "{failure}");
        assert!(failure.detail.contains("ollama.com"), "{failure}");
    }
    assert_eq!(server.count("POST /api/chat"), 1);
    assert!(ask(&*ollama(&server, Public)).is_ok());
}

#[test]
fn a_private_brain_sends_nothing_before_the_server_has_told_of_the_model() {
    let missing = json!({"error": "model 'm' not found"});
    for (show, kind) in [
        (Reply::Json(404, missing), FailureKind::Status),
        (
            Reply::Json(500, json!({"error": "out of memory"})),
            FailureKind::Status,
        ),
        (
            Reply::Json(400, json!({"error": "bad"})),
            FailureKind::Status,
        ),
        (
            Reply::Json(401, json!({"error": "who?"})),
            FailureKind::Auth,
        ),
        (Reply::body(200, "text/html", "<html>"), FailureKind::Body),
        (Reply::Steps(Vec::new()), FailureKind::Connect),
        (
            Reply::with_headers(307, &["location: /api/show2"], &json!({})),
            FailureKind::Refused,
        ),
    ] {
        let theirs = show.clone();
        let server = showing(move || theirs.clone());
        let failure = ask(&*ollama(&server, Private)).unwrap_err();
        assert_eq!(failure.kind, kind, "{show:?}: {failure}");
        assert_eq!(server.count("POST /api/chat"), 0, "{show:?}");
    }
}

#[test]
fn a_server_that_has_no_such_question_is_believed() {
    for (status, body) in [
        (405, json!({"error": "method not allowed"})),
        (501, json!({})),
        (404, json!("404 page not found")),
        (404, json!({"error": "unknown endpoint"})),
    ] {
        let theirs = body.clone();
        let server = showing(move || Reply::Json(status, theirs.clone()));
        let provider = ollama(&server, Private);
        assert_eq!(ask(&*provider).unwrap().text, "hello", "{status} {body}");
        assert_eq!(provider.known(), Some(ModelFacts::default()));
    }
}

#[test]
fn a_missing_model_comes_with_the_command_that_gets_it() {
    let server = showing(|| Reply::Json(404, json!({"error": "model 'm' not found"})));
    for failure in [
        ask(&*ollama(&server, Private)).unwrap_err(),
        ollama(&server, Public)
            .look(within(Duration::from_secs(10)), &Cancel::new())
            .unwrap_err(),
    ] {
        assert_eq!(
            (failure.kind, failure.status),
            (FailureKind::Status, Some(404))
        );
        assert!(failure.detail.contains("`ollama pull m`"), "{failure}");
    }
}

#[test]
fn what_was_told_is_asked_again_when_it_is_old() {
    let limits = Limits {
        model_facts_kept: Duration::ZERO,
        ..Limits::default()
    };
    let shows = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&shows);
    let server = showing(move || match theirs.fetch_add(1, Ordering::SeqCst) {
        0 => ollama_shows(8192),
        1 => Reply::Json(500, json!({"error": "busy"})),
        _ => Reply::Json(200, json!({"remote_host": "https://ollama.com"})),
    });
    let model = model("ollama", &server.url());
    let private = build(&model, Private, None, &wire_with(&limits));
    assert!(ask(&*private).is_ok());
    assert_eq!(
        ask(&*private).unwrap_err().kind,
        FailureKind::Status,
        "no answer, nothing sent"
    );
    assert_eq!(ask(&*private).unwrap_err().kind, FailureKind::Shield);
    assert_eq!(server.count("POST /api/chat"), 1);
    shows.store(0, Ordering::SeqCst);
    let public = build(&model, Public, None, &wire_with(&limits));
    for _ in 0..3 {
        assert!(
            ask(&*public).is_ok(),
            "a public brain goes on with what it knows"
        );
    }
}

#[test]
fn an_answer_of_ollama_is_read_for_what_it_is() {
    let said = |content: &str, reason: &str| json!({"message": {"content": content}, "done": true, "done_reason": reason});
    for (status, body, expected) in [
        (200, said("cut sho", "length"), Ok(("cut sho", true))),
        (
            200,
            said("<think>hm</think>yes", "stop"),
            Ok(("yes", false)),
        ),
        (200, said(" \n\t ", "stop"), Err(FailureKind::Empty)),
        (
            200,
            said("<think>only this", "length"),
            Err(FailureKind::Empty),
        ),
        (
            200,
            json!({"message": {"content": "half"}, "done": false}),
            Err(FailureKind::Body),
        ),
        (200, json!({"message": {}}), Err(FailureKind::Body)),
        (200, json!({"error": "boom"}), Err(FailureKind::Status)),
        (
            400,
            json!({"error": "registry.ollama.ai/library/m does not support tools"}),
            Err(FailureKind::ToolsUnsupported),
        ),
        (
            500,
            json!({"error": "llama runner process has terminated"}),
            Err(FailureKind::Status),
        ),
        (
            503,
            json!({"error": "server busy, please try again"}),
            Err(FailureKind::Status),
        ),
    ] {
        let theirs = body.clone();
        let server = saying(move || Reply::Json(status, theirs.clone()));
        let got = ask(&*ollama(&server, Private));
        let got = got
            .as_ref()
            .map(|answer| (answer.text.trim(), answer.cut))
            .map_err(|failure| failure.kind);
        assert_eq!(got, expected, "{body}");
    }
}

#[test]
fn a_model_that_is_loading_says_so() {
    for (status, body) in [
        (
            503,
            json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}),
        ),
        (
            500,
            json!({"error": "timed out waiting for llama runner to start - progress 0.00"}),
        ),
    ] {
        let server = saying(move || Reply::Json(status, body.clone()));
        let failure = ask(&*ollama(&server, Private)).unwrap_err();
        assert!(failure.loading, "{failure}");
        assert_eq!(failure.status, Some(status));
    }
    let server = saying(|| Reply::Json(500, json!({"error": "boom"})));
    assert!(!ask(&*ollama(&server, Private)).unwrap_err().loading);
}

fn openai(server: &ModelServer, key: Option<&Secret>) -> Arc<dyn Provider> {
    build(
        &model("openai-compatible", &format!("{}/v1", server.url())),
        Public,
        key,
        &wire(),
    )
}

#[test]
fn openai_style_servers_get_options_at_the_top_and_the_key_as_bearer() {
    let server = ModelServer::start(|_| openai_says("hello"));
    for provider in ["openai-compatible", "groq"] {
        let mut model = model(provider, &format!("{}/v1", server.url()));
        model.options.insert("temperature".into(), json!(0));
        model.options.insert("stream".into(), json!(true));
        let key = Secret::new("key-of-sixteen-bytes");
        let provider = build(&model, Public, Some(&key), &wire());
        let mut prompt = crate::support::asking::prompt("again?");
        prompt
            .tail
            .insert(0, said(korvun::domain::completion::Speaker::User, "hello?"));
        let answer = provider
            .chat(&prompt, within(Duration::from_secs(10)), &Cancel::new())
            .unwrap();
        assert_eq!(answer.text, "hello");
        let seen = server.seen().pop().unwrap();
        assert_eq!(seen.line, "POST /v1/chat/completions");
        assert_eq!(
            seen.header("authorization"),
            Some("Bearer key-of-sixteen-bytes")
        );
        assert_eq!(
            seen.json(),
            json!({"model": "m", "stream": false, "temperature": 0, "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "hello?\n\nagain?"},
            ]})
        );
    }
}

#[test]
fn an_answer_of_an_openai_style_server_is_read_for_what_it_is() {
    let choice = |message: Value, finish: &str| json!({"choices": [{"message": message, "finish_reason": finish}]});
    for (body, expected) in [
        (
            choice(json!({"content": "yes"}), "stop"),
            Ok(("yes", false)),
        ),
        (
            choice(
                json!({"content": [{"type": "text", "text": "ye"}, {"type": "text", "text": "s"}]}),
                "stop",
            ),
            Ok(("yes", false)),
        ),
        (choice(json!({"content": "ye"}), "length"), Ok(("ye", true))),
        (
            choice(json!({"content": null, "refusal": "I will not."}), "stop"),
            Ok(("I will not.", false)),
        ),
        (
            choice(
                json!({"content": "<think>a</think>b", "reasoning_content": "c"}),
                "stop",
            ),
            Ok(("b", false)),
        ),
        (
            choice(json!({"content": null, "tool_calls": []}), "tool_calls"),
            Err(FailureKind::Empty),
        ),
        (
            choice(json!({"content": ""}), "length"),
            Err(FailureKind::Empty),
        ),
        (
            choice(
                json!({"content": "half a", "refusal": null}),
                "content_filter",
            ),
            Err(FailureKind::Refused),
        ),
        (
            choice(json!({"content": {"a": 1}}), "stop"),
            Err(FailureKind::Body),
        ),
        (choice(json!("text"), "stop"), Err(FailureKind::Body)),
        (json!({"choices": []}), Err(FailureKind::Body)),
        (json!({"choices": null}), Err(FailureKind::Body)),
        (json!({"choices": {"a": 1}}), Err(FailureKind::Body)),
        (
            json!({"error": {"message": "slow down", "code": 429}}),
            Err(FailureKind::Rate),
        ),
        (
            json!({"error": {"message": "pay", "code": 402}}),
            Err(FailureKind::Quota),
        ),
        (
            json!({"error": {"message": "x", "code": "insufficient_quota"}}),
            Err(FailureKind::Quota),
        ),
        (
            json!({"error": {"message": "no key", "code": 401}}),
            Err(FailureKind::Auth),
        ),
        (json!({"error": "boom"}), Err(FailureKind::Status)),
        (
            json!({"choices": [{"error": {"message": "upstream", "code": 502}, "finish_reason": "error"}]}),
            Err(FailureKind::Status),
        ),
        (
            json!({"error": null, "choices": [{"message": {"content": "yes"}}]}),
            Ok(("yes", false)),
        ),
    ] {
        let theirs = body.clone();
        let server = ModelServer::start(move |_| Reply::Json(200, theirs.clone()));
        let got = ask(&*openai(&server, None));
        let got = got
            .as_ref()
            .map(|answer| (answer.text.as_str(), answer.cut))
            .map_err(|failure| failure.kind);
        assert_eq!(got, expected, "{body}");
    }
}

#[test]
fn a_rate_is_told_from_a_quota_and_brings_its_wait() {
    let quota = json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "code": "insufficient_quota"}});
    let rate = json!({"error": {"message": "Rate limit reached", "type": "tokens", "code": "rate_limit_exceeded"}});
    let past = "retry-after: Sun, 06 Nov 1994 08:49:37 GMT";
    for (status, headers, body, kind, wait_ms) in [
        (
            429,
            &["retry-after: 7"][..],
            &rate,
            FailureKind::Rate,
            Some(7000),
        ),
        (429, &[past], &rate, FailureKind::Rate, Some(0)),
        (
            429,
            &[
                "x-ratelimit-reset-requests: 9s",
                "x-ratelimit-remaining-requests: 5",
                "x-ratelimit-reset-tokens: 1.5s",
                "x-ratelimit-remaining-tokens: 0",
            ],
            &rate,
            FailureKind::Rate,
            Some(1500),
        ),
        (429, &["x-a: b"], &rate, FailureKind::Rate, None),
        (
            429,
            &["retry-after: 61"],
            &rate,
            FailureKind::Quota,
            Some(61_000),
        ),
        (429, &["retry-after: 7"], &quota, FailureKind::Quota, None),
        (402, &["x-a: b"], &rate, FailureKind::Quota, None),
        (403, &["x-a: b"], &rate, FailureKind::Auth, None),
    ] {
        let reply = Reply::with_headers(status, headers, body);
        let server = ModelServer::start(move |_| reply.clone());
        let failure = ask(&*openai(&server, None)).unwrap_err();
        assert_eq!(failure.kind, kind, "{headers:?} {failure}");
        assert_eq!(
            failure.retry_after,
            wait_ms.map(Duration::from_millis),
            "{headers:?}"
        );
        assert_eq!(failure.status, Some(status));
    }
}

#[test]
fn a_look_at_an_openai_style_server_is_at_its_list() {
    let look =
        |provider: &dyn Provider| provider.look(within(Duration::from_secs(10)), &Cancel::new());
    let list =
        |body: Value, status: u16| ModelServer::start(move |_| Reply::Json(status, body.clone()));
    let server = list(
        json!({"data": [{"id": "other"}, {"id": "m", "context_window": 131_072}]}),
        200,
    );
    let provider = openai(&server, None);
    assert_eq!(look(&*provider).unwrap().context_tokens, Some(131_072));
    assert_eq!(provider.known().unwrap().context_tokens, Some(131_072));
    assert_eq!(server.seen()[0].line, "GET /v1/models");
    let server = list(json!({"data": [{"id": "other"}]}), 200);
    let failure = look(&*openai(&server, None)).unwrap_err();
    assert!(
        failure.detail.contains("does not list the model m") && failure.detail.contains("other"),
        "{failure}"
    );
    assert_eq!(
        look(&*openai(&list(json!({}), 404), None)).unwrap(),
        ModelFacts::default()
    );
    let failure = look(&*openai(&list(json!({"error": "key"}), 401), None)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Auth);
}
