//! What a person sees of what models say.

use std::time::Instant;

use super::*;

#[test]
fn reasoning_never_reaches_a_person() {
    for (said, seen) in [
        ("Hi", "Hi"),
        ("  \n Hi \n", "Hi"),
        ("<think>hm</think>Hi", "Hi"),
        ("<think>\nhm\n</think>\n\nHi", "Hi"),
        ("<THINKING>hm</Thinking> Hi", "Hi"),
        ("<reasoning effort=\"low\">hm</reasoning>Hi", "Hi"),
        ("<thought >hm</thought\n>Hi", "Hi"),
        ("<think></think>Hi", "Hi"),
        ("[THINK]hm[/THINK]Hi", "Hi"),
        // Unopened, unclosed, nested, repeated, in the middle.
        ("hm, well</think>Hi", "Hi"),
        ("</think>Hi", "Hi"),
        ("<think>hm", ""),
        ("Hi\n<think>hm", "Hi"),
        ("<think>a<think>b</think>c</think>Hi", "Hi"),
        ("<think>a</think>One<think>b</think> two", "One two"),
        ("a</think>b</think>Hi", "Hi"),
        ("<think>a `</think>` b</think>Hi", "Hi"),
        ("<think>a ``` b\n</think>\nHi `x`", "Hi `x`"),
        ("a ` b\n</think>\nHi `x`", "Hi `x`"),
        ("```\na\n</think>\nHi", "Hi"),
        // Words about tags.
        ("The <think> tag opens it.", "The <think> tag opens it."),
        ("Use `<think>` and `</think>`.", "Use `<think>` and `</think>`."),
        ("Use ``a`</think>`` so", "Use ``a`</think>`` so"),
        ("```xml\n<think>x</think>\n```\nok", "```xml\n<think>x</think>\n```\nok"),
        ("~~~\n</think>\n~~~", "~~~\n</think>\n~~~"),
        ("````\n```\n</think>\n````", "````\n```\n</think>\n````"),
        ("<think>hm</think>\n```\n<think>\n```", "```\n<think>\n```"),
        ("a <thinker> b </thinker>", "a <thinker> b </thinker>"),
        ("1 < 2 and [x] ~ y", "1 < 2 and [x] ~ y"),
        // Harmony.
        ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi", "Hi"),
        ("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Hi<|return|>", "Hi"),
        ("hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|end|>", "Hi"),
        ("<|channel|>final <|constrain|>json<|message|>{}", "{}"),
        ("<|channel|>analysis<|message|>hm", ""),
        ("<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}<|call|>", ""),
        ("<|channel|>final", ""),
        ("<|channel|>", ""),
        ("<|start|>", ""),
        ("analysisWe need to say hi.assistantfinalHi", "Hi"),
        ("An analysis of assistantfinal", "An analysis of assistantfinal"),
        ("Write `<|channel|>analysis`", "Write `<|channel|>analysis`"),
        // Gemma.
        ("<|channel>thought\nhm\n<channel|>Hi", "Hi"),
        ("hm\n<channel|>Hi", "Hi"),
        ("<|channel>thought\nhm", ""),
    ] {
        assert_eq!(strip(said), seen, "{said:?}");
        assert_eq!(strip_reasoning(said), seen, "{said:?}");
    }
}

#[test]
fn tool_calls_are_noise_where_there_are_no_tools() {
    for (said, seen, agent_sees) in [
        (
            "<tool_call>{\"name\":\"x\"}</tool_call>",
            "",
            "<tool_call>{\"name\":\"x\"}</tool_call>",
        ),
        (
            "Hi <tool_call>{}</tool_call>there",
            "Hi there",
            "Hi <tool_call>{}</tool_call>there",
        ),
        (
            "Hi <tool_call>\n{\"name\"",
            "Hi",
            "Hi <tool_call>\n{\"name\"",
        ),
        (
            "Hi <function=x>{}</function>",
            "Hi",
            "Hi <function=x>{}</function>",
        ),
        (
            "<|tool_call>call:x{}<tool_call|>Hi",
            "Hi",
            "<|tool_call>call:x{}<tool_call|>Hi",
        ),
        ("Hi[TOOL_CALLS][{}]", "Hi", "Hi[TOOL_CALLS][{}]"),
        ("<think>a</think><|python_tag|>x()", "", "<|python_tag|>x()"),
        (
            "{\"tool\":\"x\",\"arguments\":{}}",
            "",
            "{\"tool\":\"x\",\"arguments\":{}}",
        ),
        (
            "{\"name\":\"x\",\"parameters\":\"{}\"}",
            "",
            "{\"name\":\"x\",\"parameters\":\"{}\"}",
        ),
        (
            "[{\"name\":\"x\",\"args\":{}}]",
            "",
            "[{\"name\":\"x\",\"args\":{}}]",
        ),
    ] {
        assert_eq!(strip(said), seen, "{said:?}");
        assert_eq!(strip_reasoning(said), agent_sees, "{said:?}");
    }
    let openai =
        r#"{"tool_calls":[{"id":"1","type":"function","function":{"name":"x","arguments":"{}"}}]}"#;
    assert_eq!(strip(openai), "");
    for kept in [
        "{\"name\":\"Ana\",\"age\":3}",
        "{\"name\":\"Ana\",\"parameters\":3}",
        "{\"name\":\"x\",\"arguments\":{},\"more\":1}",
        "Here: {\"tool\":\"x\",\"arguments\":{}}",
        "```json\n{\"tool\":\"x\",\"arguments\":{}}\n```",
        "A function call is `<tool_call>`.",
        "The <tool_call> tag",
        "[]",
        "[1]",
        "{",
        "the <function> element",
    ] {
        assert_eq!(strip(kept), kept);
    }
}

/// Each row repeated to half a mebibyte. A scan that starts over at every opening would take hours.
#[test]
fn hostile_text_takes_time_by_its_length() {
    let started = Instant::now();
    for row in [
        "<",
        "<think",
        "a <think> ",
        "</think>",
        "`",
        "``a",
        "` ``\n",
        "```x\n",
        "~~~x\n",
        "[",
        "<|",
        "<|start|>",
        "<|channel|>analysis",
        "<|channel|>final",
        "a <tool_call> ",
        "a <function=x> ",
        "{\"tool_calls\":[",
        "\u{3000}<|channel|>\u{3000}final",
        "<think>\u{1f600}",
        "[THINK",
    ] {
        let _ = strip(&row.repeat((1 << 19) / row.len()));
    }
    let ladder: String = (1..1400).map(|n| format!("{} ", "`".repeat(n))).collect();
    let _ = strip(&ladder);
    let fences: String = (3..1400)
        .rev()
        .map(|n| format!("{}x\n", "~".repeat(n)))
        .collect();
    let _ = strip(&fences);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}
