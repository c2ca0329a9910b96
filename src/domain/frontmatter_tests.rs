//! Tables for frontmatter: what is read, what is mended, what is refused, and that nothing hurts.

use std::time::{Duration, Instant};

use super::*;
use crate::domain::dice::Dice;

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn pairs(entries: &[(&str, Value)]) -> Vec<(String, Value)> {
    let owned = |(key, value): &(&str, Value)| ((*key).to_owned(), value.clone());
    entries.iter().map(owned).collect()
}

#[test]
fn values_are_read_as_people_write_them() {
    for (yaml, value) in [
        ("k: plain words", text("plain words")),
        ("k:   spaces around   ", text("spaces around")),
        ("k: words # a comment", text("words")),
        ("k: it's # one", text("it's")),
        ("k: 'it''s: # fine'", text("it's: # fine")),
        ("k: \"a \\\"b\\\" \\u00f1\"", text("a \"b\" \u{f1}")),
        (
            "k: >\n  folded\n  lines\n\n  and more\n",
            text("folded lines\nand more\n"),
        ),
        ("k: >-\n  folded\n  lines\n", text("folded lines")),
        (
            "k: |\n  kept\n    as is: # too\n",
            text("kept\n  as is: # too\n"),
        ),
        ("k: |2-\n    two more\n", text("  two more")),
        ("k: two\n  lines", text("two lines")),
        ("k: \"two\n  lines\"", text("two lines")),
        ("k: 'a\n\n  b'", text("a\nb")),
        ("k:", text("")),
        ("k: ~", text("~")),
        ("k: null", text("null")),
        ("k: yes", text("yes")),
        ("k: 1.0", text("1.0")),
        ("k: 2026-11-30", text("2026-11-30")),
        (
            "k: https://example.org/a:b",
            text("https://example.org/a:b"),
        ),
        ("k: a:b", text("a:b")),
        ("k: [a, 'b c']", Value::List(vec![text("a"), text("b c")])),
        (
            "k:\n- a\n- b # c\n",
            Value::List(vec![text("a"), text("b")]),
        ),
        ("k:\n    - a\n", Value::List(vec![text("a")])),
        ("k: {a: b}", Value::Map(pairs(&[("a", text("b"))]))),
        (
            "k:\n  a: b\n  c: d\n",
            Value::Map(pairs(&[("a", text("b")), ("c", text("d"))])),
        ),
        ("# first\n\nk: v\n\n# last", text("v")),
        ("'k': v", text("v")),
    ] {
        let front = read(yaml).unwrap_or_else(|fault| panic!("{yaml:?}: {fault:?}"));
        assert_eq!(front.entries, pairs(&[("k", value)]), "{yaml:?}");
        assert!(front.as_written.is_empty(), "{yaml:?}");
    }
}

#[test]
fn a_value_that_is_no_yaml_is_taken_as_it_stands() {
    for (line, value) in [
        ("k: Use when: the user asks", "Use when: the user asks"),
        ("k: Use when: it's # here", "Use when: it's # here"),
        ("k: ends with a colon:", "ends with a colon:"),
        ("k: * starts with a star", "* starts with a star"),
        ("k: *bold* and more", "*bold* and more"),
        ("k: **bold**: more", "**bold**: more"),
        ("k: *", "*"),
        ("k: *lonely", "*lonely"),
        ("k: `code` first", "`code` first"),
        ("k:\tUse when: tabs", "Use when: tabs"),
    ] {
        for around in ["{}", "a: b\n{}\nc: d\n", "# x\n{}\n\n\nc:\n  - d\n"] {
            let yaml = around.replace("{}", line);
            let front = read(&yaml).unwrap_or_else(|fault| panic!("{yaml:?}: {fault:?}"));
            assert_eq!(front.as_written, ["k"], "{yaml:?}");
            let found = front.entries.iter().find(|(key, _)| key == "k");
            assert_eq!(
                found.map(|(_, found)| found),
                Some(&text(value)),
                "{yaml:?}"
            );
        }
    }
    // Two of them in one file.
    let front = read("a: x: y\nb: fine\nc: `z`\n").expect("mended");
    assert_eq!(front.as_written, ["a", "c"]);
    // What is YAML stays what it is, also beside one that is not.
    let front = read("a: x: y\nb: words # note: this\nc: \"q: r\"\n").expect("mended");
    assert_eq!(front.as_written, ["a"]);
    let rest = pairs(&[("b", text("words")), ("c", text("q: r"))]);
    assert_eq!(front.entries[1..], rest);
}

#[test]
fn what_is_not_taken_is_refused_with_its_line() {
    let deep = format!("a:\nk: {}x{}", "[".repeat(12), "]".repeat(12));
    for (yaml, line, what) in [
        ("a: b\nk: &x v\nl: w", 2, "an anchor"),
        ("a: &x b\nk: *x", 1, "an anchor"),
        ("a: &x [1]\nb: &y [*x, *x]\nk: *y", 1, "an anchor"),
        ("a: !!str b", 1, "the tag"),
        ("a: !thing b", 1, "the tag `!thing`"),
        ("a: !!python/object:os.system b", 1, "the tag"),
        ("a: b\nc: d\na: e", 3, "`a` stands twice"),
        ("a:\n  b: c\n  b: d", 3, "`b` stands twice"),
        ("a: b\n\"a\": c", 2, "`a` stands twice"),
        ("? [a]\n: b", 1, "a key must be a word"),
        (deep.as_str(), 2, "nested more than"),
        ("- a\n- b", 1, "no list of keys"),
        ("just words", 1, "no list of keys"),
        ("a: b\n...\n---\nc: d", 3, "a second document"),
        ("", 1, "no list of keys"),
        ("# only a comment", 1, "no list of keys"),
        ("a: \"open", 1, ""),
        ("a: [open", 1, ""),
        ("a: b: c\n  more: d", 1, ""),
        ("a: b\n\tc: d", 2, ""),
        ("a: @at", 1, ""),
        ("a: - no list", 1, ""),
        ("a: %percent", 1, ""),
        (" a: b\nc: d", 2, ""),
    ] {
        let fault = read(yaml).expect_err(yaml);
        assert!(fault.what.contains(what), "{yaml:?}: {fault:?}");
        assert!(fault.line.abs_diff(line) <= 1, "{yaml:?}: {fault:?}");
    }
}

/// What an alias bomb looks like: each level names the one before nine times.
fn bomb() -> String {
    let mut out = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let nine = vec![format!("*a{}", n - 1); 9].join(", ");
        out.push_str(&format!("a{n}: &a{n} [{nine}]\n"));
    }
    out
}

#[test]
fn nothing_that_is_large_or_deep_takes_long() {
    let many = |piece: &str| piece.repeat(64 * 1024 / piece.len());
    for yaml in [
        bomb(),
        many("["),
        many("{"),
        many("- "),
        many("? "),
        many("a: "),
        many(": "),
        many("{a: "),
        many("[a, "),
        many("\"\\"),
        many("'"),
        many("k: x: y\n"),
        many("k: *a\n"),
        many("\n"),
        many(" "),
        many("#"),
        many("\t"),
        many("&a "),
        many("!a "),
        many("%A "),
        many("---\n"),
        many("...\n"),
        many("a:\n "),
        format!("k: |\n{}", many("  x\n")),
        format!("k: >\n{}", many("\n")),
        format!("k: >\n{}", many(" x\n\n")),
        format!("k: \"{}\"", many("\n")),
        format!("k: {}", many("x ")),
        format!("k: {}", many("x\n  ")),
        format!("k: [{}]", many("a, ")),
        (0..8000).map(|n| format!("k{n}: v\n")).collect(),
        (0..4000).map(|n| format!("k{n}: a: b\n")).collect(),
        (0..400).map(|n| format!("{}k:\n", " ".repeat(n))).collect(),
    ] {
        let start = Instant::now();
        let _ = read(&yaml);
        let took = start.elapsed();
        let begins: String = yaml.chars().take(20).collect();
        assert!(took < Duration::from_secs(5), "{begins:?} took {took:?}");
    }
}

#[test]
fn no_text_makes_it_panic() {
    let pieces = [
        "k", ": ", ":", "\n", "  ", "-", "- ", "[", "]", "{", "}", ",", "\"", "'", "|", ">", "*",
        "&", "!", "#", "%", "@", "`", "?", "? ", "~", "\\", "\t", "\u{85}", "\u{2028}", "\u{feff}",
        "\u{f1}", "---", "...", "\\x", "\\u", "0", "2", "+", "<<",
    ];
    let mut dice = Dice::new(7);
    for _ in 0..20_000 {
        let long = dice.roll(24);
        let yaml: String = (0..long).map(|_| pieces[dice.roll(pieces.len())]).collect();
        let _ = read(&yaml);
    }
}
