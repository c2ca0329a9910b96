//! Bytes that are no configuration at all: what is said of them, and that no bytes whatever make
//! the check panic, hang or grow.

use std::path::Path;
use std::time::Instant;

use korvun::config::check::{check, Checked};
use korvun::config::problem::Severity;

use super::full::FULL;
use super::{catalogue, surroundings};

fn of_bytes(bytes: &[u8]) -> Checked {
    check(
        bytes,
        Path::new("/etc/korvun/korvun.json"),
        &catalogue(),
        &surroundings(),
    )
}

#[test]
fn a_syntax_error_is_one_problem_with_its_place_and_container() {
    for (bytes, path, line, column, word) in [
        (&b""[..], "", 1, 1, "end of the file"),
        (b"  \n ", "", 2, 2, "end of the file"),
        (b"\xef\xbb\xbf{}", "", 1, 1, "byte order mark"),
        (b"{} {}", "", 1, 4, "content after the end"),
        (b"{}\n\n  x", "", 3, 3, "content after the end"),
        (b"[1,]", "", 1, 4, "`]` where a value"),
        (b"{\"a\": 1,}", "", 1, 9, "`}` where a key"),
        (b"{\"a\" 1}", "", 1, 6, "colon"),
        (b"{a: 1}", "", 1, 2, "key in double quotes"),
        (b"{'a': 1}", "", 1, 2, "double quotes"),
        (b"// x\n{}", "", 1, 1, "no comments"),
        (
            b"{\"a\": {\"b\": [1, {\"c\": tru}]}}",
            "a.b[1]",
            1,
            23,
            "a value",
        ),
        (
            b"{\"a\": {\"b\": [1, {\"c\": 1]}}",
            "a.b[1]",
            1,
            24,
            "comma or `}`",
        ),
        (
            b"{\"\xc3\xb1\": \"\xc3\xb1\", \"b\": NaN}",
            "",
            1,
            17,
            "a value",
        ),
        (b"{\"a\": [\"x\ny\"]}", "a", 1, 10, "control character"),
        (b"{\"a\": [\"x]}", "a", 1, 8, "runs to the end"),
        (b"{\"a\": [\"\\x\"]}", "a", 1, 9, "no escape"),
        (b"{\"a\": [\"\\ud800\"]}", "a", 1, 9, "surrogate"),
        (b"{\"a\": [\"\\ud800\\u0041\"]}", "a", 1, 9, "surrogate"),
        (b"{\"a\": [\"\\udc00\"]}", "a", 1, 9, "surrogate"),
        (b"{\"a\": [\"\\u12g4\"]}", "a", 1, 9, "four hexadecimal"),
        (b"{\"a\": [01]}", "a", 1, 8, "leading zero"),
        (b"{\"a\": [-]}", "a", 1, 9, "a digit"),
        (b"{\"a\": [1.]}", "a", 1, 10, "a digit"),
        (b"{\"a\": [.5]}", "a", 1, 8, "a value"),
        (b"{\"a\": [1e]}", "a", 1, 10, "a digit"),
        (b"{\"a\": [+1]}", "a", 1, 8, "a value"),
        (b"{\"a\": [truee]}", "a", 1, 8, "a value"),
        (b"{\"a\": {\"b\": \"\xff\"}}", "a", 1, 14, "not UTF-8"),
        (b"{\"a\": \"\xed\xa0\x80\"}", "", 1, 8, "not UTF-8"),
        (b"\xff\xfe{\0}\0", "", 1, 1, "not UTF-8"),
        (b"{\"a\": tru, \"b\": \"\xff\"}", "", 1, 7, "a value"),
        (b"\0", "", 1, 1, "a value"),
    ] {
        let shown = String::from_utf8_lossy(bytes).into_owned();
        let checked = of_bytes(bytes);
        assert_eq!(checked.problems.len(), 1, "{shown}");
        let problem = &checked.problems[0];
        assert_eq!(problem.severity, Severity::Error);
        assert_eq!(
            (problem.path.as_str(), problem.line, problem.column),
            (path, line, column),
            "{shown}: {problem}"
        );
        let words = format!("{} {}", problem.message, problem.help);
        assert!(words.contains(word), "{shown}: {words}");
        assert!(checked.plan.is_none());
    }
}

#[test]
fn a_root_that_is_no_object_is_said_so() {
    for text in ["[]", "5", "null", "\"x\"", "true"] {
        let checked = of_bytes(text.as_bytes());
        assert_eq!(checked.problems.len(), 1, "{text}");
        assert!(checked.problems[0].message.contains("object"));
    }
}

#[test]
fn escapes_are_read_and_columns_count_characters() {
    let text = "{\"n\\u0061me\": 1, \"ñ😀\": \"\\ud83d\\ude00\", \"t\": 2}";
    let checked = of_bytes(text.as_bytes());
    let seen: Vec<_> = checked
        .problems
        .iter()
        .filter(|problem| problem.message.starts_with("unknown key"))
        .map(|problem| (problem.path.as_str(), problem.column))
        .collect();
    assert_eq!(seen, [("name", 15), ("[\"ñ😀\"]", 24), ("t", 45)]);
}

#[test]
fn no_file_is_one_problem_without_a_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let problem = korvun::config::check::read(&folder.path().join("none.json")).unwrap_err();
    assert_eq!(
        (problem.path.as_str(), problem.line, problem.column),
        ("", 0, 0)
    );
    assert!(problem.help.contains("korvun.example.json"));
    assert!(
        korvun::config::check::read(folder.path()).is_err(),
        "a folder is no file"
    );
    let large = folder.path().join("large.json");
    std::fs::write(&large, vec![b' '; 2 * 1024 * 1024]).expect("a file");
    let bytes = korvun::config::check::read(&large).expect("bytes");
    assert_eq!(
        bytes.len(),
        1024 * 1024 + 1,
        "no more than shows that it is too large"
    );
    let checked = of_bytes(&bytes);
    assert_eq!(checked.problems.len(), 1);
    assert!(checked.problems[0].message.contains("larger than 1 MiB"));
}

#[test]
fn a_problem_as_json_has_the_keys_of_the_contract() {
    let checked = of_bytes(b"{]");
    assert_eq!(
        checked.problems[0].json(),
        serde_json::json!({
            "severity": "error", "path": "", "line": 1, "column": 2,
            "message": "found `]` where a key in double quotes was expected",
            "help": "is there a comma too many before it, or a bracket too few?",
        })
    );
}

/// A small generator with a fixed seed, so that a failure can be met again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        // xorshift64 (Marsaglia 2003)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

#[test]
fn no_bytes_make_it_panic_and_a_plan_means_no_error() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let pieces: [&[u8]; 22] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"\"\"",
        b"-1",
        b"1e999",
        b"\\ud800",
        b"\xff",
        b"\xc3",
        b"\n",
        b"\0",
        b"true",
        b"[]",
        b"{}",
        b"\"telegram\"",
        b"9999999999999999999999",
    ];
    for round in 0..2000 {
        let mut bytes = FULL.as_bytes().to_vec();
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len());
            match dice.below(4) {
                0 => {
                    bytes.remove(at);
                }
                1 => {
                    let piece = pieces[dice.below(pieces.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
                2 => bytes.truncate(at.max(1)),
                _ => {
                    let other = dice.below(bytes.len());
                    let (from, to) = (at.min(other), at.max(other));
                    bytes.drain(from..to.min(from + 40));
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let checked = of_bytes(&bytes);
        let broken = checked
            .problems
            .iter()
            .any(|problem| problem.severity == Severity::Error);
        assert_eq!(
            checked.plan.is_none(),
            broken,
            "round {round}: {}",
            String::from_utf8_lossy(&bytes)
        );
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        for problem in &checked.problems {
            assert!(
                (1..=lines).contains(&problem.line) && problem.column >= 1,
                "{problem}"
            );
            assert!(
                !problem.to_string().chars().any(char::is_control),
                "{problem}"
            );
        }
    }
}

#[test]
fn each_value_of_the_full_file_may_be_anything() {
    // Every value in turn becomes one of another kind: an error or a warning at most, never a
    // plan beside an error, and what is wrong is told of the value itself.
    let parsed: serde_json::Value = serde_json::from_str(FULL).expect("JSON");
    let mut pointers = Vec::new();
    collect(&parsed, String::new(), &mut pointers);
    assert!(pointers.len() > 150);
    for pointer in &pointers {
        for value in [
            serde_json::json!(null),
            serde_json::json!(""),
            serde_json::json!(true),
            serde_json::json!(-7),
            serde_json::json!("\u{1b}[2J"),
            serde_json::json!([]),
            serde_json::json!({}),
            serde_json::json!([[[]]]),
        ] {
            let mut file = parsed.clone();
            *file.pointer_mut(pointer).expect("a value") = value.clone();
            let checked = of_bytes(file.to_string().as_bytes());
            let broken = checked
                .problems
                .iter()
                .any(|problem| problem.severity == Severity::Error);
            assert_eq!(checked.plan.is_none(), broken, "{pointer} = {value}");
        }
    }
}

fn collect(value: &serde_json::Value, pointer: String, all: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(members) => {
            for (key, value) in members {
                collect(value, format!("{pointer}/{}", key.replace('/', "~1")), all);
            }
        }
        serde_json::Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                collect(value, format!("{pointer}/{index}"), all);
            }
        }
        _ => {}
    }
    all.push(pointer);
}

/// Fills a file of 1 MiB with a repeated piece.
fn filled(before: &str, piece: impl Fn(usize) -> String, after: &str) -> String {
    let mut text = before.to_owned();
    let mut index = 0;
    while text.len() + after.len() + 64 < 1024 * 1024 {
        text.push_str(&piece(index));
        index += 1;
    }
    text + after
}

#[test]
fn hostile_files_are_judged_in_bounded_work_and_words() {
    let model =
        "{\"provider\":\"groq\",\"model_id\":\"m\",\"locality\":\"cloud\",\"api_key_env\":\"K\"}";
    let name = "x".repeat(70);
    for (what, text) in [
        ("open brackets", "[".repeat(1024 * 1024)),
        ("open objects", "{\"a\":".repeat(200_000)),
        ("one key again and again", filled("{", |_| "\"abcdefgh\":1,".into(), "\"a\":1}")),
        ("many unknown keys", filled("{", |n| format!("\"k{n}\":1,"), "\"z\":1}")),
        ("nearly known keys", filled("{", |n| format!("\"channel{n}\":[],"), "\"z\":1}")),
        ("many values", filled("[", |_| "0,".into(), "0]")),
        ("one long string", format!("{{\"brains\":\"{}\"}}", "a".repeat(1_000_000))),
        ("many escapes", format!("{{\"brains\":\"{}\"}}", "\\u0000".repeat(170_000))),
        ("many brains", filled("{\"channels\":[],\"routes\":[],\"brains\":[", |_| "{},".into(), "{}]}")),
        ("many models", filled("{\"channels\":[],\"routes\":[],\"brains\":[{\"models\":[", |_| format!("{model},"), "{}]}]}")),
        ("a long order", filled("{\"channels\":[],\"routes\":[],\"brains\":[{\"models\":[],\"policy\":{\"kind\":\"priority\",\"order\":[", |n| format!("\"{n}{name}\","), "1]}}]}")),
        ("many senders", filled("{\"channels\":[{\"type\":\"telegram\",\"allow_from\":[", |n| format!("{n},"), "1]}],\"routes\":[],\"brains\":[]}")),
        ("many routes", filled("{\"channels\":[],\"brains\":[],\"routes\":[", |_| "{\"channel\":\"telegram\",\"brain\":\"b\"},".into(), "{}]}")),
        ("many lines", "\n".repeat(1024 * 1024 - 2) + "[]"),
    ] {
        let begun = Instant::now();
        let checked = of_bytes(text.as_bytes());
        let took = begun.elapsed();
        assert!(checked.plan.is_none(), "{what}");
        assert!((1..=201).contains(&checked.problems.len()), "{what}: {}", checked.problems.len());
        let words: usize = checked
            .problems
            .iter()
            .map(|problem| problem.path.len() + problem.message.len() + problem.help.len())
            .sum();
        assert!(words < 256 * 1024, "{what}: {words} bytes of words");
        // Far above what it takes on a slow machine, far below what squares would take.
        assert!(took.as_secs() < 20, "{what} took {took:?}");
        eprintln!("{what}: {took:?}, {} problems", checked.problems.len());
    }
}

#[test]
fn what_is_not_shown_is_counted() {
    let keys: Vec<_> = (0..250).map(|n| format!("\"k{n}\": 1")).collect();
    let checked = of_bytes(format!("{{{}}}", keys.join(", ")).as_bytes());
    assert_eq!(checked.problems.len(), 201);
    let last = checked.problems.last().expect("a last one");
    // Of the 253 (the three lists are missing, too) two hundred are shown.
    assert_eq!(
        last.message,
        "53 more errors and 0 more warnings are not shown"
    );
    assert_eq!(last.severity, Severity::Error);
}
