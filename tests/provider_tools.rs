//! Tools over real sockets: what servers are told of them, what they make of calls and results, and
//! what is understood of what servers write.

use std::sync::Arc;
use std::time::Duration;

use korvun::domain::brain::Sensitivity::{self, Private, Public};
use korvun::domain::brain::ToolLane;
use korvun::domain::completion::{
    Completion, Failure, FailureKind, Lane, Offer, Prompt, Speaker, ToolCall, ToolSpec, Turn,
};
use korvun::net::cancel::Cancel;
use korvun::provider::{build, Provider};
use serde_json::{json, Value};

use crate::support::asking::{model, prompt, said, wire, within};
use crate::support::model::{
    offers_tools, ollama_calls, ollama_message, ollama_says, openai_calls, openai_message,
    openai_says, ModelServer, Reply,
};

const LONG: Duration = Duration::from_secs(20);

fn calc() -> ToolSpec {
    ToolSpec {
        name: "calc",
        description: "Works out an expression.",
        parameters: json!({"type": "object",
            "properties": {"expression": {"type": "string"}}, "required": ["expression"]}),
    }
}

/// The tool as both protocols write it.
fn calc_on_the_wire() -> Value {
    json!([{"type": "function", "function": {"name": "calc", "description": "Works out an expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}},
            "required": ["expression"]}}}])
}

fn call(id: &str, arguments: Result<Value, &str>) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "calc".to_owned(),
        arguments: arguments
            .map(|value| value.as_object().expect("an object").clone())
            .map_err(str::to_owned),
    }
}

fn native() -> Prompt {
    Prompt {
        offer: Offer::Native(vec![calc()]),
        ..prompt("what is 1+1?")
    }
}

/// A prompt behind two calls, one of which could not be read.
fn behind_calls() -> Prompt {
    let observed = |id: &str, text: &str| Turn::Observed {
        id: id.to_owned(),
        name: "calc".to_owned(),
        text: text.to_owned(),
    };
    Prompt {
        turns: vec![
            Turn::Called {
                text: String::new(),
                calls: vec![
                    call("a", Ok(json!({"expression": "1+1"}))),
                    call("b", Err("1+")),
                ],
            },
            observed("a", "2"),
            observed("b", "failed"),
            Turn::Said(said(Speaker::User, "answer now")),
        ],
        ..native()
    }
}

fn chat(provider: &dyn Provider, prompt: &Prompt) -> Result<Completion, Failure> {
    provider.chat(prompt, within(LONG), &Cancel::new())
}

fn lane(provider: &dyn Provider) -> Lane {
    provider.lane(within(LONG), &Cancel::new()).expect("a lane")
}

fn of(kind: &str, url: &str, sensitivity: Sensitivity, tools: ToolLane) -> Arc<dyn Provider> {
    let mut model = model(kind, url);
    model.tools = tools;
    build(&model, sensitivity, None, &wire())
}

fn ollama(server: &ModelServer) -> Arc<dyn Provider> {
    of("ollama", &server.url(), Private, ToolLane::Auto)
}

fn openai(server: &ModelServer) -> Arc<dyn Provider> {
    of("openai-compatible", &server.url(), Public, ToolLane::Auto)
}

/// A server that answers every chat alike.
fn always(reply: Reply) -> ModelServer {
    ModelServer::start(move |_| reply.clone())
}

const CAN: &[&str] = &["completion", "tools"];

#[test]
fn ollama_is_told_of_tools_calls_and_results_its_own_way() {
    let server = ModelServer::scripted(CAN, vec![ollama_says("two")]);
    let provider = ollama(&server);
    assert_eq!(chat(&*provider, &behind_calls()).unwrap().text, "two");
    let body = server.seen()[1].json();
    assert_eq!(body["tools"], calc_on_the_wire());
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "what is 1+1?"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "calc", "arguments": {"expression": "1+1"}}},
                {"function": {"name": "calc", "arguments": {"unreadable": "1+"}}}]},
            {"role": "tool", "content": "2", "tool_name": "calc"},
            {"role": "tool", "content": "failed", "tool_name": "calc"},
            {"role": "user", "content": "answer now"},
        ])
    );
}

#[test]
fn openai_style_servers_are_told_of_tools_calls_and_results_their_own_way() {
    let server = always(openai_says("two"));
    let provider = openai(&server);
    assert_eq!(chat(&*provider, &behind_calls()).unwrap().text, "two");
    let body = server.seen()[0].json();
    assert_eq!(body["tools"], calc_on_the_wire());
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "what is 1+1?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function",
                    "function": {"name": "calc", "arguments": "{\"expression\":\"1+1\"}"}},
                {"id": "b", "type": "function",
                    "function": {"name": "calc", "arguments": "{\"unreadable\":\"1+\"}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "2"},
            {"role": "tool", "tool_call_id": "b", "content": "failed"},
            {"role": "user", "content": "answer now"},
        ])
    );
}

#[test]
fn no_tools_are_sent_where_none_are_offered() {
    for offer in [Offer::Nothing, Offer::Text, Offer::Native(Vec::new())] {
        let servers = [
            (
                ModelServer::scripted(CAN, vec![ollama_says("hi")]),
                "ollama",
            ),
            (always(openai_says("hi")), "openai-compatible"),
        ];
        for (server, kind) in servers {
            let provider = of(kind, &server.url(), Public, ToolLane::Auto);
            let prompt = Prompt {
                offer: offer.clone(),
                ..prompt("hello")
            };
            chat(&*provider, &prompt).unwrap();
            assert_eq!(
                server.seen().last().unwrap().json().get("tools"),
                None,
                "{kind} {offer:?}"
            );
        }
    }
}

#[test]
fn calls_are_taken_as_servers_write_them_and_need_no_words() {
    let two = || Ok(json!({"expression": "1+1"}));
    let function = |arguments: Value| json!({"function": {"name": "calc", "arguments": arguments}});
    let with_id = |id: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": "calc", "arguments": arguments}});
    for (calls, expected) in [
        (
            json!([function(json!({"expression": "1+1"}))]),
            vec![call("call00001", two())],
        ),
        (
            json!([with_id("x", json!("{\"expression\":\"1+1\"}"))]),
            vec![call("x", two())],
        ),
        (
            json!([with_id("", json!(""))]),
            vec![call("call00001", Ok(json!({})))],
        ),
        (
            json!([{"function": {"name": "calc"}}]),
            vec![call("call00001", Ok(json!({})))],
        ),
        (
            json!([with_id("x", json!(null)), with_id("x", json!([]))]),
            vec![call("x", Ok(json!({}))), call("call00002", Ok(json!({})))],
        ),
        (
            json!([with_id("x", json!("{\"expression\":"))]),
            vec![call("x", Err("{\"expression\":"))],
        ),
    ] {
        for message in [
            json!({"role": "assistant", "tool_calls": calls}),
            json!({"role": "assistant", "content": null, "tool_calls": calls}),
            json!({"role": "assistant", "content": " ", "tool_calls": calls}),
        ] {
            let servers = [
                (
                    ModelServer::scripted(CAN, vec![ollama_message(message.clone())]),
                    "ollama",
                ),
                (always(openai_message(message.clone())), "openai-compatible"),
            ];
            for (server, kind) in servers {
                let provider = of(kind, &server.url(), Public, ToolLane::Auto);
                let completion = chat(&*provider, &native()).unwrap();
                assert_eq!(completion.calls, expected, "{kind} {message}");
                assert_eq!(completion.text.trim(), "");
            }
        }
    }
    let parts = json!({"content": [{"type": "text", "text": "I add."}], "tool_calls": [with_id("x", json!("{}"))]});
    let server = always(openai_message(parts));
    let completion = chat(&*openai(&server), &native()).unwrap();
    assert_eq!(
        (completion.text.as_str(), completion.calls.len()),
        ("I add.", 1)
    );
}

#[test]
fn calls_that_were_not_asked_for_are_noise_and_an_empty_answer_stays_one() {
    let servers = [
        (
            ModelServer::scripted(CAN, vec![ollama_calls("calc", json!({}))]),
            "ollama",
        ),
        (always(openai_calls("x", "calc", "{}")), "openai-compatible"),
    ];
    for (server, kind) in servers {
        let provider = of(kind, &server.url(), Public, ToolLane::Auto);
        let failure = chat(&*provider, &prompt("hello")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Empty, "{kind}");
    }
    for message in [
        json!({"content": "", "tool_calls": []}),
        json!({"content": "<think>hm</think>"}),
    ] {
        let server = ModelServer::scripted(CAN, vec![ollama_message(message)]);
        let failure = chat(&*ollama(&server), &native()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Empty);
    }
}

#[test]
fn call_syntax_stays_for_the_run_and_goes_for_everybody_else() {
    let text = "<think>sum</think>I add. <tool_call>{\"name\":\"calc\"}</tool_call>";
    for (offer, expected) in [
        (
            Offer::Native(vec![calc()]),
            "I add. <tool_call>{\"name\":\"calc\"}</tool_call>",
        ),
        (
            Offer::Text,
            "I add. <tool_call>{\"name\":\"calc\"}</tool_call>",
        ),
        (Offer::Nothing, "I add."),
    ] {
        let server = always(openai_says(text));
        let prompt = Prompt {
            offer,
            ..prompt("hello")
        };
        assert_eq!(chat(&*openai(&server), &prompt).unwrap().text, expected);
    }
}

#[test]
fn the_lane_is_the_models_own_unless_the_file_says_otherwise() {
    for (capabilities, tools, expected) in [
        (CAN, ToolLane::Auto, Lane::Native),
        (&["completion"][..], ToolLane::Auto, Lane::Text),
        (&["completion"][..], ToolLane::Native, Lane::Native),
        (CAN, ToolLane::Text, Lane::Text),
    ] {
        let server = ModelServer::scripted(capabilities, vec![ollama_says("hi")]);
        let provider = of("ollama", &server.url(), Private, tools);
        for _ in 0..3 {
            assert_eq!(lane(&*provider), expected, "{capabilities:?} {tools:?}");
        }
        let asked = usize::from(tools == ToolLane::Auto);
        assert_eq!(
            server.count("POST /api/show"),
            asked,
            "asked once and remembered"
        );
    }
    let old = ModelServer::start(|_| Reply::Json(404, json!({"error": "404 page not found"})));
    assert_eq!(
        lane(&*ollama(&old)),
        Lane::Text,
        "a server that does not tell"
    );
    let server = always(openai_says("hi"));
    for (tools, expected) in [
        (ToolLane::Auto, Lane::Native),
        (ToolLane::Native, Lane::Native),
        (ToolLane::Text, Lane::Text),
    ] {
        let provider = of("openai-compatible", &server.url(), Public, tools);
        assert_eq!(lane(&*provider), expected);
    }
    assert_eq!(server.seen().len(), 0, "nothing is asked for that");
}

#[test]
fn a_model_that_takes_no_tools_is_told_in_words_from_then_on() {
    let texts = [
        (400, "registry.ollama.ai/library/m does not support tools"),
        (400, "`tool calling` is not supported with this model"),
        (404, "No endpoints found that support tool use."),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
        (500, "tools param requires --jinja flag"),
    ];
    for (status, text) in texts {
        for kind in ["ollama", "openai-compatible"] {
            let server = ModelServer::start(move |seen| match seen.line.as_str() {
                "POST /api/show" => Reply::Json(200, json!({"capabilities": CAN})),
                _ if offers_tools(seen) => Reply::Json(status, json!({"error": {"message": text}})),
                "POST /api/chat" => ollama_says("hi"),
                _ => openai_says("hi"),
            });
            for tools in [ToolLane::Auto, ToolLane::Native] {
                let provider = of(kind, &server.url(), Public, tools);
                assert_eq!(lane(&*provider), Lane::Native);
                let failure = chat(&*provider, &native()).unwrap_err();
                assert_eq!(
                    failure.kind,
                    FailureKind::ToolsUnsupported,
                    "{kind}: {text}"
                );
                assert_eq!(lane(&*provider), Lane::Text, "{kind}");
                let prompt = Prompt {
                    offer: Offer::Text,
                    ..prompt("hello")
                };
                assert_eq!(chat(&*provider, &prompt).unwrap().text, "hi");
            }
        }
    }
}

#[test]
fn a_call_that_the_servers_own_parser_could_not_read_is_the_models_to_mend() {
    let raw = "error parsing tool call: raw='{\"expression\": \"it's\"', err=unexpected end of JSON input";
    let xml = "XML syntax error on line 7: element <parameter> closed by </function>";
    for (status, error, text) in [
        (
            500,
            json!({"error": raw}),
            "<tool_call>{\"expression\": \"it's\"</tool_call>",
        ),
        (
            200,
            json!({"error": raw}),
            "<tool_call>{\"expression\": \"it's\"</tool_call>",
        ),
        (500, json!({"error": xml}), "<tool_call></tool_call>"),
    ] {
        let server = ModelServer::scripted(CAN, vec![Reply::Json(status, error.clone())]);
        for offer in [Offer::Native(vec![calc()]), Offer::Text] {
            let prompt = Prompt {
                offer,
                ..prompt("hello")
            };
            let completion = chat(&*ollama(&server), &prompt).unwrap();
            assert_eq!(
                (completion.text.as_str(), completion.calls.len()),
                (text, 0)
            );
        }
        let failure = chat(&*ollama(&server), &prompt("hello")).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Status, "nobody would mend it");
    }
    let groq = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "calc{\"expression\": 1}</function>"}});
    let server = always(Reply::Json(400, groq));
    let completion = chat(&*openai(&server), &native()).unwrap();
    assert_eq!(
        completion.text,
        "<tool_call>calc{\"expression\": 1}</function></tool_call>"
    );
}
