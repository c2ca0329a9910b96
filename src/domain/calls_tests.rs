//! Calls as small models write them: a table, and what holds for any text.

use super::*;
use crate::domain::dice::Dice;

const LISTED: [&str; 3] = ["time", "calc", "read_file"];

fn listed() -> Vec<String> {
    LISTED.map(str::to_owned).to_vec()
}

fn reading(text: &str) -> Reading {
    read(text, &listed(), 16)
}

/// The calls as `name arguments`, `name !words` where the arguments are no object.
fn shown(calls: &[ToolCall]) -> Vec<String> {
    calls
        .iter()
        .map(|call| match &call.arguments {
            Ok(object) => format!("{} {}", call.name, Value::Object(object.clone())),
            Err(words) => format!("{} !{words}", call.name),
        })
        .collect()
}

const SUM: &str = r#"calc {"expression":"1+1"}"#;
const TIME: &str = "time {}";

#[test]
fn calls_are_found_in_what_models_write() {
    for (text, calls, rest) in [
        // As asked for, and by other words.
        (
            r#"{"tool":"calc","arguments":{"expression":"1+1"}}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"name":"calc","arguments":{"expression":"1+1"}}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"function":"calc","args":{"expression":"1+1"}}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"tool":"calc","parameters":{"expression":"1+1"}}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"arguments":{"expression":"1+1"},"tool":"calc"}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"id":"x","type":"function","function":{"name":"calc","arguments":{"expression":"1+1"}}}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"tool_calls":[{"name":"calc","arguments":{"expression":"1+1"}}]}"#,
            vec![SUM],
            "",
        ),
        (
            r#"[{"tool":"calc","arguments":{"expression":"1+1"}},{"tool":"time"}]"#,
            vec![SUM, TIME],
            "",
        ),
        (
            r#"{"thought":"sum","tool":"calc","arguments":{"expression":"1+1"}}"#,
            vec![SUM],
            "",
        ),
        (r#"{"tool":"calc","expression":"1+1"}"#, vec![SUM], ""),
        (r#"{"tool":"time"}"#, vec![TIME], ""),
        (r#"{"name":"time"}"#, vec![TIME], ""),
        (r#"{"tool":"time","arguments":null}"#, vec![TIME], ""),
        (r#"{"tool":"time","arguments":[]}"#, vec![TIME], ""),
        (r#"{"tool":"time","arguments":""}"#, vec![TIME], ""),
        (
            r#"{"tool":"calc","arguments":"{\"expression\":\"1+1\"}"}"#,
            vec![SUM],
            "",
        ),
        (
            r#"{"tool":"calc","arguments":"1+1"}"#,
            vec!["calc !1+1"],
            "",
        ),
        (r#"{"tool":"calc","arguments":[1]}"#, vec!["calc ![1]"], ""),
        // What stands around.
        (
            "I will add.\n{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\"}}\nDone: 2",
            vec![SUM],
            "I will add.\n\nDone: 2",
        ),
        (
            "```json\n{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\"}}\n```",
            vec![SUM],
            "",
        ),
        (
            "Sure!\n```tool_call\n{\"tool\":\"time\"}\n```\nWait.",
            vec![TIME],
            "Sure!\n\nWait.",
        ),
        ("`{\"tool\":\"time\"}`", vec![TIME], ""),
        ("**{\"tool\":\"time\"}**.", vec![TIME], "."),
        ("{\"tool\":\"time\"}...", vec![TIME], "..."),
        (
            "{\n  \"tool\": \"calc\",\n  \"arguments\": {\n    \"expression\": \"1+1\"\n  }\n}",
            vec![SUM],
            "",
        ),
        (
            "{\"tool\":\"time\"} and {\"tool\":\"time\"}",
            vec![TIME, TIME],
            "and",
        ),
        (
            "Config {\"a\":1} and {\"tool\":\"time\"}",
            vec![TIME],
            "Config {\"a\":1} and",
        ),
        // Wrappers.
        (
            "<tool_call>{\"name\":\"time\",\"arguments\":{}}</tool_call>",
            vec![TIME],
            "",
        ),
        (
            "<tool_call>\n{\"name\":\"time\",\"arguments\":{}}\n{\"name\":\"time\"}",
            vec![TIME, TIME],
            "",
        ),
        (
            "a<TOOL_CALL>{\"name\":\"time\"}</TOOL_CALL>b",
            vec![TIME],
            "ab",
        ),
        (
            "<tool_call>{\"name\":\"time\"}<tool_call>{\"name\":\"time\"}",
            vec![TIME, TIME],
            "",
        ),
        (
            "<tool_call>```json\n{\"name\":\"weather\",\"arguments\":{}}\n```</tool_call>",
            vec!["weather {}"],
            "",
        ),
        (
            "[TOOL_CALLS][{\"name\":\"time\",\"arguments\":{}}]",
            vec![TIME],
            "",
        ),
        (
            "<|python_tag|>{\"name\":\"time\",\"parameters\":{}}",
            vec![TIME],
            "",
        ),
        (
            "<function=calc>{\"expression\":\"1+1\"}</function>",
            vec![SUM],
            "",
        ),
        ("<function=calc>1+1</function>", vec!["calc !1+1"], ""),
        ("<function=time></function>", vec![TIME], ""),
        // What small models get wrong.
        (
            "{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\"}",
            vec![SUM],
            "",
        ),
        (
            "```json\n{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\"}\n```",
            vec![SUM],
            "",
        ),
        (
            "{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\",},}",
            vec![SUM],
            "",
        ),
        (
            "{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1\n+\t1\"}}",
            vec!["calc {\"expression\":\"1\\n+\\t1\"}"],
            "",
        ),
        ("{\"tool\":\"CALC\",\"arguments\":{}}", vec!["CALC {}"], ""),
        (
            "{\"tool\":\"functions.time\",\"arguments\":{}}",
            vec!["functions.time {}"],
            "",
        ),
        // A tool that there is not.
        (
            r#"{"tool":"weather","arguments":{}}"#,
            vec!["weather {}"],
            "",
        ),
        (
            r#"{"name":"weather","arguments":{"x":1}}"#,
            vec![r#"weather {"x":1}"#],
            "",
        ),
        (
            "Let me see: {\"tool\":\"weather\",\"arguments\":{}}",
            vec!["weather {}"],
            "Let me see:",
        ),
    ] {
        let reading = reading(text);
        assert_eq!(shown(&reading.calls), calls, "{text}");
        assert_eq!(
            (reading.rest.as_str(), reading.broken),
            (rest, false),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_call_stays() {
    for text in [
        "",
        "hello",
        "{}",
        "[1, 2]",
        "{ not json",
        "if a < b { c }",
        r#"{"a":{"tool":"time"}}"#,
        r#"{"name":"Ana","age":7}"#,
        r#"{"tool":"hammer","weight":2}"#,
        r#"{"tool":5,"arguments":{}}"#,
        r#"{"name":"time","description":"the present time"}"#,
        r#"[{"name":"calc","parameters":{"type":"object","properties":{"expression":{}}}}]"#,
        // Examples: fenced, or of another form, beside words.
        "A call looks like this:\n```json\n{\"tool\":\"weather\",\"arguments\":{}}\n```",
        "Use `{\"tool\":\"weather\",\"arguments\":{}}` for that.",
        "Here: {\"name\":\"weather\",\"arguments\":{\"city\":\"x\"}} is an example.",
        "The tag `<tool_call>` opens one.",
        "{\"name\":\"Ana\", \"age\":",
        "a <toolbox> b",
    ] {
        let reading = reading(text);
        assert_eq!(shown(&reading.calls), Vec::<String>::new(), "{text}");
        assert_eq!(
            (reading.rest.as_str(), reading.broken),
            (text, false),
            "{text}"
        );
    }
}

#[test]
fn a_call_that_cannot_be_read_is_told_from_an_answer_and_never_shown() {
    for (text, rest) in [
        ("{'tool': 'calc', 'arguments': {'expression': '1+1'}}", ""),
        (
            "{\"tool\": \"calc\", \"arguments\": {\"expression\": \"1",
            "",
        ),
        (
            "Well. {\"tool\": \"calc\", \"arguments\": {]}} Right?",
            "Well.",
        ),
        ("{\"name\": \"calc\" \"arguments\": {}}", ""),
        ("<tool_call>calc 1+1</tool_call>", ""),
        ("Hm <tool_call>{\"path\":\"a\"}</tool_call>", "Hm"),
        ("<tool_call>", ""),
        ("[TOOL_CALLS] calc", ""),
    ] {
        let reading = reading(text);
        assert_eq!(shown(&reading.calls), Vec::<String>::new(), "{text}");
        assert!(reading.broken, "{text}");
        assert_eq!(reading.rest, rest, "{text}");
    }
}

#[test]
fn what_follows_the_last_call_is_forgotten() {
    let text =
        "First {\"tool\":\"time\"} then\n```\n{\"tool\":\"time\"}\n```\nThe result is 12:00.";
    let reading = reading(text);
    assert_eq!(reading.up_to_calls, text.split_once("\nThe").unwrap().0);
}

#[test]
fn a_flood_of_calls_is_cut() {
    let text = "{\"tool\":\"time\"}\n".repeat(100);
    assert_eq!(reading(&text).calls.len(), 16);
    assert_eq!(reading(&text).rest, "", "none of them is shown");
    let message = json!({"tool_calls": vec![json!({"function": {"name": "time"}}); 100]});
    assert_eq!(native(&message, 16).len(), 16);
}

#[test]
fn calls_of_the_protocol_are_taken_as_servers_write_them() {
    let call = |call: Value| json!({"tool_calls": [call]});
    let with = |arguments: Value| {
        call(json!({"id": "a", "function": {"name": "calc", "arguments": arguments}}))
    };
    for (message, calls) in [
        (json!({}), vec![]),
        (json!({"tool_calls": null}), vec![]),
        (json!({"tool_calls": "calc"}), vec![]),
        (json!({"tool_calls": []}), vec![]),
        (with(json!({"expression": "1+1"})), vec![SUM]),
        (with(json!("{\"expression\":\"1+1\"}")), vec![SUM]),
        (
            with(json!("\"{\\\"expression\\\":\\\"1+1\\\"}\"")),
            vec![SUM],
        ),
        (with(json!("")), vec!["calc {}"]),
        (with(json!(" ")), vec!["calc {}"]),
        (with(json!("null")), vec!["calc {}"]),
        (with(json!(null)), vec!["calc {}"]),
        (with(json!([])), vec!["calc {}"]),
        (
            with(json!("{\"expression\":")),
            vec!["calc !{\"expression\":"],
        ),
        (with(json!("\"calc\"")), vec!["calc !\"calc\""]),
        (with(json!(5)), vec!["calc !5"]),
        (call(json!({"function": {"name": "calc"}})), vec!["calc {}"]),
        (
            call(json!({"name": "calc", "parameters": {"expression": "1+1"}})),
            vec![SUM],
        ),
        (call(json!({"function": {}})), vec![" {}"]),
        (call(json!(7)), vec![" {}"]),
        (
            json!({"function_call": {"name": "calc", "arguments": "{}"}}),
            vec!["calc {}"],
        ),
    ] {
        assert_eq!(shown(&native(&message, 16)), calls, "{message}");
    }
}

#[test]
fn large_arguments_are_refused_and_large_numbers_kept_as_written() {
    let long = "x".repeat(CALL_MOST);
    for arguments in [json!({"a": long}), json!(format!("{{\"a\":\"{long}\"}}"))] {
        let words = normal(Some(&arguments)).expect_err("too large");
        assert!(words.len() <= CALL_MOST);
    }
    let deep = format!(
        "{{\"tool\":\"calc\",\"arguments\":{{\"a\":{}1{}}}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    assert!(reading(&deep).broken, "too deep to be read, and told so");
    let digits = "9".repeat(4000);
    let text = format!("{{\"tool\":\"calc\",\"arguments\":{{\"a\":{digits}}}}}");
    let reading = reading(&text);
    assert_eq!(shown(&reading.calls), [format!("calc {{\"a\":{digits}}}")]);
}

#[test]
fn ids_are_there_and_never_twice_and_names_fit_every_protocol() {
    let call = |id: &str, name: &str| ToolCall {
        id: id.to_owned(),
        ..raw(name, Ok(Map::new()))
    };
    let mut seen = HashSet::from(["old".to_owned(), "call00009".to_owned()]);
    let mut calls = vec![
        call("mine", "time"),
        call("", " Functions.time"),
        call("mine", "functions.CALC"),
        call("old", "re ad/it"),
        call("with space", ""),
        call(&"x".repeat(65), &"ñ".repeat(100)),
    ];
    settle(&mut calls, &listed(), &mut seen, 6);
    let got: Vec<(&str, &str)> = calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str()))
        .collect();
    let line = "_".repeat(64);
    assert_eq!(
        got,
        [
            ("mine", "time"),
            ("call00008", "_Functions_time"),
            ("call00010", "calc"),
            ("call00011", "re_ad_it"),
            ("call00012", "unnamed"),
            ("call00013", line.as_str()),
        ]
    );
    assert_eq!(seen.len(), 8);
}

#[test]
fn what_is_written_is_read_again() {
    let calls = vec![
        raw(
            "calc",
            Ok(json!({"expression": "\"1\n{"}).as_object().unwrap().clone()),
        ),
        raw("time", Ok(Map::new())),
    ];
    let text = written("I will.", &calls);
    assert_eq!(reading(&text).calls, calls);
    assert_eq!(reading(&text).rest, "I will.");
}

/// Pieces of which replies are made, whole and broken.
const PIECES: [&str; 26] = [
    "{\"tool\":\"calc\",\"arguments\":{\"expression\":\"1+1\"}}",
    "{\"tool\":\"time\"}",
    "{\"tool\":",
    "{'tool':'time'}",
    "\"arguments\":{",
    "}",
    "]",
    "[",
    "{",
    "\"",
    "\\",
    "<tool_call>",
    "</tool_call>",
    "<function=calc>",
    "</function>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|tool_call>",
    "```json\n",
    "```",
    "`",
    "**",
    "ñ😀",
    " ",
    "\n",
    "words",
];

#[test]
fn no_text_breaks_the_reader_and_none_of_a_tools_calls_stays_in_the_rest() {
    for series in 0..3000 {
        let mut dice = Dice::new(series);
        let text: String = (0..dice.roll(14))
            .map(|_| PIECES[dice.roll(PIECES.len())])
            .collect();
        let found = reading(&text);
        assert!(text.trim_start().starts_with(&found.up_to_calls), "{text}");
        assert!(found.rest.len() <= text.len());
        // What a run shows of it, if it must.
        let shown_rest = crate::domain::reasoning::strip(&found.rest);
        let again = reading(&shown_rest);
        assert_eq!(
            shown(&again.calls),
            Vec::<String>::new(),
            "{text}\n{shown_rest}"
        );
    }
}

#[test]
fn a_whole_call_is_found_whatever_decorates_it() {
    let before = [
        "",
        "Sure. ",
        "**",
        "```json\n",
        "```\n",
        "`",
        "<tool_call>",
        "1. ",
        "> ",
        "{\"a\":1} ",
        "a < b ",
    ];
    let after = [
        "",
        ".",
        "**",
        "\n```",
        "`",
        "</tool_call>",
        "...\n\nResult: 4",
        " ",
        "\u{0}",
    ];
    for before in before {
        for after in after {
            let text = format!(
                "{before}{{\"tool\": \"calc\", \"arguments\": {{\"expression\": \"1+1\"}}}}{after}"
            );
            assert_eq!(shown(&reading(&text).calls), [SUM], "{text}");
        }
    }
}

#[test]
fn hostile_replies_cost_little() {
    for piece in [
        "[",
        "{",
        "{\"tool\":\"calc\",",
        "{\"a\":",
        "[[1,",
        "<",
        "<tool_call>",
        "<tool_call>{",
        "`",
        "{\"a\":[1,1,1,1,",
        "\"",
        "{\"tool\":\"time\"}",
    ] {
        let began = std::time::Instant::now();
        let text = piece.repeat(1024 * 1024 / piece.len());
        let found = reading(&text);
        assert!(found.calls.len() <= 16);
        let took = began.elapsed();
        assert!(took.as_secs() < 60, "{piece}: {took:?}");
    }
}
