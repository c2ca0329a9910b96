//! The loop over both protocols and both lanes: calls, their mending, their bounds, and what a
//! person, a log and the audit get to see of it.

use serde_json::{json, Value};

use super::house::{
    agent_site, audit, chats, journal_left, messages, ollama, ollama_calls, openai_calls, replies,
    row, words, SOON,
};
use crate::support::daemon::{Daemon, Site};
use crate::support::model::{ollama_says, openai_says, ModelServer, Reply, Seen};
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

/// An OpenAI-style server that answers each chat by its script.
fn openai(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |seen: &Seen| match seen.line.as_str() {
        "POST /v1/chat/completions" => script(&seen.json()),
        _ => Reply::Json(404, json!({"error": "not here"})),
    })
}

fn openai_site(model: &ModelServer, sink: &Sink, lane: &str, agent: Value) -> Site {
    let mut site = agent_site(&format!("{}/v1", model.url()), &sink.url(), lane, agent);
    site.model()["provider"] = "openai-compatible".into();
    site
}

/// Says something and waits for the answer.
fn answer(daemon: &Daemon, sink: &Sink, text: &str) -> String {
    let id = daemon.poster().say("c", text, None).expect("accepted").id;
    sink.reply_to(&id, SOON).text().to_owned()
}

#[test]
fn calls_of_a_servers_own_protocol_go_back_to_it_by_their_ids() {
    let model = openai(|body| match replies(body) {
        0 => openai_calls(&[
            ("calc", json!({"expression": "0.1+0.2"})),
            ("echo", json!({"text": "hello"})),
        ]),
        _ => openai_says("Both done."),
    });
    let sink = Sink::start();
    let site = openai_site(&model, &sink, "auto", json!({"tools": ["calc", "echo"]}));
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "work it out"), "Both done.");
    let shown = messages(&chats(&model)[1]);
    let told: Vec<_> = shown
        .iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    assert_eq!(told.len(), 2, "{shown:?}");
    assert_eq!(
        (&told[0]["content"], &told[1]["content"]),
        (&json!("0.3"), &json!("hello"))
    );
    assert_eq!(told[0]["tool_call_id"], "call_0");
    assert_eq!(
        audit(&site),
        [row(1, "calc", "ok", ""), row(2, "echo", "ok", "")]
    );
}

#[test]
fn the_text_lane_reads_calls_among_prose_and_shows_nobody_their_syntax() {
    let model = ollama(|body| {
        match replies(body) {
        0 => ollama_says(
            "Let me see.\n```json\n{\"tool\": \"calc\", \"arguments\": {\"expression\": \"6*7\"}}\n```\nIt is 41.",
        ),
        _ => ollama_says("<think>hm</think>It is 42."),
    }
    });
    let sink = Sink::start();
    let site = agent_site(
        &model.url(),
        &sink.url(),
        "text",
        json!({"tools": ["calc"]}),
    );
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "six times seven?"), "It is 42.");
    let asked = chats(&model);
    assert!(asked[0].get("tools").is_none(), "{}", asked[0]);
    assert!(
        words(&asked[0]).contains("calc(expression)"),
        "{}",
        asked[0]
    );
    assert!(
        words(&asked[1]).contains("Result of calc: 42"),
        "{}",
        asked[1]
    );
    assert!(
        !words(&asked[1]).contains("41"),
        "a guess at the result stays: {}",
        asked[1]
    );
    assert_eq!(audit(&site), [row(1, "calc", "ok", "")]);
}

#[test]
fn a_model_that_takes_no_tools_is_told_by_words_from_then_on() {
    let model = ollama(|body| match (body.get("tools"), replies(body)) {
        (Some(_), _) => Reply::Json(400, json!({"error": "tiny does not support tools"})),
        (None, 0) => ollama_says("{\"tool\": \"time\", \"arguments\": {}}"),
        (None, _) => ollama_says("Late."),
    });
    let sink = Sink::start();
    let site = agent_site(
        &model.url(),
        &sink.url(),
        "native",
        json!({"tools": ["time"]}),
    );
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "what time is it?"), "Late.");
    let with_tools = || {
        chats(&model)
            .iter()
            .filter(|body| body.get("tools").is_some())
            .count()
    };
    assert_eq!(with_tools(), 1);
    let other = daemon
        .poster()
        .say("d", "and now?", None)
        .expect("accepted")
        .id;
    assert_eq!(sink.reply_to(&other, SOON).text(), "Late.");
    assert_eq!(with_tools(), 1, "it is remembered");
}

#[test]
fn what_is_wrong_with_a_call_is_told_and_the_ninth_of_a_reply_is_not_made() {
    let model = ollama(|body| match replies(body) {
        0 => ollama_calls(&[
            ("calc", json!({})),
            ("calc", json!("{\"expression\": ")),
            ("shell", json!({"command": "id"})),
        ]),
        1 => {
            let nine: Vec<_> = (1..=9)
                .map(|n| ("echo", json!({"text": format!("<{n}>")})))
                .collect();
            ollama_calls(&nine)
        }
        _ => ollama_says("Enough."),
    });
    let sink = Sink::start();
    let agent = json!({"tools": ["calc", "echo"]});
    let site = agent_site(&model.url(), &sink.url(), "native", agent);
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "go"), "Enough.");
    let told: Vec<String> = messages(chats(&model).last().expect("a chat"))
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap_or("").to_owned())
        .collect();
    assert!(told[0].contains("`expression` is missing"), "{told:?}");
    assert!(told[1].contains("no JSON object"), "{told:?}");
    assert!(
        told[2].contains("there is no tool \"shell\"; there are: calc, echo"),
        "{told:?}"
    );
    assert_eq!((told[3].as_str(), told[10].as_str()), ("<1>", "<8>"));
    assert!(told[11].contains("too many calls"), "{told:?}");
    let mut rows = vec![
        row(1, "calc", "error", ""),
        row(2, "calc", "error", ""),
        row(3, "unknown", "denied", "unknown_tool"),
    ];
    rows.extend((4..=11).map(|call| row(call, "echo", "ok", "")));
    rows.push(row(12, "echo", "denied", "per_run_budget"));
    assert_eq!(audit(&site), rows);
}

#[test]
fn the_cap_ends_in_a_last_question_without_tools_and_results_are_cut() {
    let model = ollama(|body| match body.get("tools") {
        Some(_) => ollama_calls(&[("echo", json!({"text": "x".repeat(20_000)}))]),
        None => ollama_says(
            "As far as I know: x. {\"tool\": \"echo\", \"arguments\": {\"text\": \"y\"}}",
        ),
    });
    let sink = Sink::start();
    let agent = json!({"tools": ["echo"], "max_iterations": 2});
    let mut site = agent_site(&model.url(), &sink.url(), "native", agent);
    site.model()["options"] = json!({"num_ctx": 32768});
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "go"), "As far as I know: x.");
    let asked = chats(&model);
    assert_eq!(asked.len(), 3);
    assert!(words(&asked[2]).contains("Answer now"), "{}", asked[2]);
    let shown = messages(&asked[2]);
    let told = shown
        .iter()
        .find(|message| message["role"] == "tool")
        .expect("a result");
    let told = told["content"].as_str().expect("text");
    assert!(
        told.len() < 7_000 && told.contains("of 20000 bytes are shown"),
        "{}",
        told.len()
    );
    assert_eq!(audit(&site).len(), 2);
}

#[test]
fn the_head_of_a_prompt_is_short_and_the_same_to_the_byte() {
    for lane in ["native", "text"] {
        let model = ollama(|body| match replies(body) {
            0 => ollama_says("{\"tool\": \"time\", \"arguments\": {}}"),
            _ => ollama_says("Yes."),
        });
        let sink = Sink::start();
        let agent = json!({"tools": ["time", "calc", "memory_note"], "memory": {},
            "governance": [{"tool": "time", "mode": "allow"}, {"tool": "calc", "mode": "allow"},
                {"tool": "memory_note", "mode": "allow"}]});
        let site = agent_site(&model.url(), &sink.url(), lane, agent);
        let daemon = site.start();
        for text in ["hello", "what time is it?", "and tomorrow?"] {
            answer(&daemon, &sink, text);
        }
        let asked = chats(&model);
        assert!(asked.len() >= 3, "{lane}: {}", asked.len());
        let head = |body: &Value| {
            let first = messages(body).into_iter().next().expect("a message");
            let system = (first["role"] == "system").then(|| first.to_string());
            (system, body.get("tools").map(Value::to_string))
        };
        for body in &asked[1..] {
            assert_eq!(head(body), head(&asked[0]), "{lane}");
        }
        let size = asked[0]["messages"].to_string().len()
            + asked[0]
                .get("tools")
                .map_or(0, |tools| tools.to_string().len());
        assert!(size < 1000, "{lane}: {size} bytes: {}", asked[0]);
    }
}

#[test]
fn no_argument_and_no_result_shows_anywhere_but_to_the_model() {
    const MARKS: [&str; 4] = [
        "mark-argument-7",
        "mark-result-7",
        "mark-wrong-7",
        "mark-name-7",
    ];
    let receiver = crate::support::http::Server::start("127.0.0.1:0", |_| {
        crate::support::http::Reply::json(200, &json!({"said": "mark-result-7"}))
    });
    let url = format!("{}/hook", receiver.url());
    let model = ollama(move |body| match replies(body) {
        0 => ollama_calls(&[
            (
                "webhook_call",
                json!({"url": url, "body": "mark-argument-7"}),
            ),
            ("echo", json!({"text": "mark-argument-7"})),
            ("calc", json!({"expression": "mark-wrong-7"})),
            ("mark-name-7", json!({"text": "mark-argument-7"})),
            (
                "webhook_call",
                json!({"url": "http://10.1.2.3/mark-argument-7", "body": 1}),
            ),
        ]),
        _ => ollama_says("Done."),
    });
    let sink = Sink::start();
    let agent = json!({"tools": ["webhook_call", "echo", "calc"],
        "webhook_call": {"allow_hosts": [receiver.addr().to_string()]}});
    let mut site = agent_site(&model.url(), &sink.url(), "native", agent);
    site.env.push(("KORVUN_LOG".to_owned(), "trace".into()));
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "go"), "Done.");
    let shown = words(chats(&model).last().expect("a chat"));
    assert!(
        shown.contains("mark-result-7"),
        "the model is told: {shown}"
    );
    let tools = daemon.admin("GET", "/api/tools/main", None);
    assert_eq!(tools.status, 200);
    let recent = tools.json()["recent"].clone();
    assert_eq!(recent.as_array().map(Vec::len), Some(5), "{recent}");
    assert_eq!(
        (&recent[0]["outcome"], &recent[0]["rule"]),
        (&json!("denied"), &json!("cage"))
    );
    let surfaces = [
        tools.text(),
        daemon.admin("GET", "/metrics", None).text(),
        daemon.admin("GET", "/api/brains", None).text(),
        format!("{:?}", audit(&site)),
    ];
    let (_, log) = daemon.stop();
    assert!(log.contains("tool_denied"), "{log}");
    for mark in MARKS {
        for surface in surfaces.iter().chain([&log]) {
            assert!(!surface.contains(mark), "{mark} shows in {surface}");
        }
    }
}

#[test]
fn the_console_tells_of_tools_and_notes_and_the_api_of_the_gate() {
    let model = ollama(|body| match replies(body) {
        0 => ollama_calls(&[
            ("memory_note", json!({"note": "Ana likes tea"})),
            ("calc", json!({"expression": "1"})),
        ]),
        _ => ollama_says("Noted."),
    });
    let sink = Sink::start();
    let agent = json!({"tools": ["memory_note", "calc", "time"], "memory": {"scope": "brain"},
        "governance": [{"tool": "memory_note", "mode": "allow"},
            {"tool": "calc", "mode": "shadow", "channels": ["webhook"], "chats": "all"}]});
    let site = agent_site(&model.url(), &sink.url(), "native", agent);
    let daemon = site.start();
    assert_eq!(answer(&daemon, &sink, "I like tea"), "Noted.");
    let console = |text: &str| {
        let id = daemon.console("console::main", text);
        let found = daemon.wait_for_message(&id, "state", "answered", SOON);
        found["answer"]["text"]
            .as_str()
            .expect("an answer")
            .to_owned()
    };
    assert!(console("/notes").contains("- Ana likes tea"));
    let told = console("/tools");
    for part in [
        "main: governed",
        "memory_note: allow",
        "calc: shadow",
        "time: deny",
        "not_granted",
        "only on webhook",
        "rehearsals 1",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let tools = daemon.admin("GET", "/api/tools/main", None).json();
    assert_eq!(
        (&tools["governed"], &tools["shield"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        tools["tools"][1],
        json!({"tool": "calc", "mode": "shadow", "effective": "shadow", "rule": "",
            "channels": ["webhook"], "chats": null, "sensitive": false, "network": false,
            "rehearsals": 1, "would_refuse": 0})
    );
    assert_eq!(tools["tools"][2]["rule"], "not_granted");
    assert_eq!(tools["tools"][2]["mode"], Value::Null);
    assert_eq!(daemon.admin("GET", "/api/tools/nobody", None).status, 404);
    // What was noted is shown to the model, as data.
    let shown = words(&chats(&model)[1]);
    assert!(shown.contains("noted"), "{shown}");
    let other = daemon
        .poster()
        .say("other", "what do I like?", None)
        .expect("accepted")
        .id;
    sink.reply_to(&other, SOON);
    let all: String = chats(&model).iter().map(words).collect();
    assert!(all.contains("- \"Ana likes tea\""), "{all}");
    assert!(console("/notes clear").contains('2'));
    assert!(!console("/notes").contains("tea"));
    let id = daemon
        .poster()
        .say("c", "/tools", None)
        .expect("accepted")
        .id;
    assert_eq!(
        sink.reply_to(&id, SOON).text(),
        "Noted.",
        "text, off the console"
    );
}
