//! The house rules as a test: the floors are the whole import graph, and what is not written here
//! is not written. The rules are a function over paths and texts; planted mistakes show that each
//! of them sees.

mod paths;
mod rules;
mod tokens;

use std::fs;
use std::path::Path;

use rules::{findings, File, Rule};

/// What may lie at the top of the repository.
// `.cargo` tells the build of SQLite which parts the store needs.
const TOP: [&str; 15] = [
    ".cargo",
    ".ci",
    ".git",
    ".gitignore",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "contrib",
    "docs",
    "korvun.example.json",
    "src",
    "target",
    "tests",
];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below `folder` with its path from the top; what is not text is left out.
fn files(folder: &str, out: &mut Vec<File>) {
    let Ok(entries) = fs::read_dir(top().join(folder)) else {
        return;
    };
    for entry in entries {
        let entry = entry.expect("a readable folder");
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().expect("a kind of file").is_dir() {
            files(&name, out);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            out.push((name, text));
        }
    }
}

fn rust_files() -> Vec<File> {
    let mut all = Vec::new();
    for folder in ["src", "tests"] {
        files(folder, &mut all);
    }
    all.retain(|(path, _)| path.ends_with(".rs"));
    all.sort();
    all
}

#[test]
fn the_house_stands() {
    let files = rust_files();
    assert!(files.len() > 10, "the sources are there");
    let findings = findings(&files);
    assert!(
        findings.is_empty(),
        "{}",
        findings
            .iter()
            .map(|f| format!("{}:{}: {:?}: {}\n", f.path, f.line, f.rule, f.what))
            .collect::<String>()
    );
}

#[test]
fn nothing_else_lies_at_the_top() {
    for entry in fs::read_dir(top()).expect("the repository") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        assert!(
            TOP.contains(&name.as_ref()) || made_by_a_guide(&name),
            "{name} does not belong at the top"
        );
    }
}

/// What a person who follows the guides in the clone has there; `.gitignore` lists the same.
fn made_by_a_guide(name: &str) -> bool {
    let made = ["korvun.env", "korvun.json", "korvun-notes", "korvun-skills"];
    made.contains(&name) || name.starts_with("korvun.db")
}

#[test]
fn no_file_names_a_registry_or_a_machine() {
    // Written in two halves, so that this file does not name them either.
    let forbidden = [
        ("crates", ".io"),
        ("deb.debian", ".org"),
        ("pypi", ".org"),
        ("registry.npmjs", ".org"),
        ("proxy.golang", ".org"),
        ("static.rust-lang", ".org"),
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("bash_", "jobs"),
    ]
    .map(|(a, b)| format!("{a}{b}"));
    let mut all = Vec::new();
    for folder in ["src", "tests", "docs", "contrib", ".ci", ".cargo"] {
        files(folder, &mut all);
    }
    for name in [
        "Cargo.toml",
        "Makefile",
        "README.md",
        "korvun.example.json",
        ".gitignore",
    ] {
        if let Ok(text) = fs::read_to_string(top().join(name)) {
            all.push((name.to_owned(), text));
        }
    }
    for (path, text) in &all {
        for (n, line) in text.lines().enumerate() {
            for word in &forbidden {
                assert!(
                    !line.contains(word.as_str()),
                    "{path}:{}: names {word}",
                    n + 1
                );
            }
        }
    }
}

/// A small house in order, to which each mistake is added in turn.
fn sound_house() -> Vec<File> {
    [
        ("src/lib.rs", "//! A house.\npub mod base;\npub mod domain;\npub mod channel;\npub mod cli;\n"),
        ("src/main.rs", "//! Starts.\nfn main() { korvun::cli::run(); }\n"),
        ("src/base/mod.rs", "//! Words.\npub mod text;\n"),
        ("src/base/text.rs", "//! Text.\npub fn cut() {}\n"),
        ("src/domain/mod.rs", "//! Rules.\npub mod ids;\npub mod brain;\npub use ids::Id;\n"),
        ("src/domain/ids.rs", "//! Names.\nuse crate::base::text::cut;\npub struct Id;\n"),
        ("src/domain/brain.rs", "//! A brain.\nuse super::ids;\npub fn f(_: ids::Id) {}\n"),
        ("src/channel/mod.rs", "//! Channels.\npub mod webhook;\npub struct Kind;\npub const KINDS: Kind = webhook::KIND;\n"),
        (
            "src/channel/webhook.rs",
            "//! Webhook.\nuse super::Kind;\npub const KIND: Kind = Kind;\n\
             #[cfg(test)]\nmod tests {\n use super::*;\n fn t() { std::thread::spawn(|| ()); let _ = Instant::now(); }\n}\n",
        ),
        ("src/cli/mod.rs", "//! Words typed.\nuse lexopt::Parser;\npub fn run() { crate::channel::KINDS; }\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .to_vec()
}

#[test]
fn a_sound_house_has_no_findings() {
    assert_eq!(findings(&sound_house()), []);
}

#[test]
fn every_planted_mistake_is_found() {
    // The file that is changed or added, what is added to it, and the rule that must see it.
    let planted = [
        (
            "src/domain/ids.rs",
            "use crate::channel::Kind;",
            Rule::Upward,
        ),
        (
            "src/domain/ids.rs",
            "use crate::{base::text, channel::{self, Kind}};",
            Rule::Upward,
        ),
        (
            "src/domain/ids.rs",
            "pub fn g() { let _ = crate::channel::KINDS; }",
            Rule::Upward,
        ),
        (
            "src/domain/ids.rs",
            "pub fn g(_: super::super::channel::Kind) {}",
            Rule::Upward,
        ),
        (
            "src/domain/ids.rs",
            "mod inner { use super::super::super::channel; }",
            Rule::Upward,
        ),
        (
            "src/domain/ids.rs",
            "macro_rules! m { () => { $crate::cli::run() } }",
            Rule::Upward,
        ),
        (
            "src/base/text.rs",
            "#[cfg(test)] mod tests { fn t() { crate::domain::Id; } }",
            Rule::Upward,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { korvun::engine::go(); }",
            Rule::Upward,
        ),
        (
            "src/channel/webhook.rs",
            "use crate::tool::calc;",
            Rule::Sideways,
        ),
        ("src/domain/ids.rs", "use super::brain::f;", Rule::Circle),
        (
            "src/domain/ids.rs",
            "pub fn g() { super::brain::f(super::Id) }",
            Rule::Circle,
        ),
        (
            "src/domain/ids.rs",
            "pub fn g() { crate::domain::brain::f(Id) }",
            Rule::Circle,
        ),
        ("src/domain/ids.rs", "use super::super::*;", Rule::Hidden),
        ("src/domain/ids.rs", "use super::*;", Rule::Hidden),
        ("src/domain/ids.rs", "use crate as k;", Rule::Hidden),
        ("src/domain/ids.rs", "use crate::domain;", Rule::Hidden),
        (
            "src/domain/ids.rs",
            "#[path = \"../cli/mod.rs\"] mod x;",
            Rule::Hidden,
        ),
        (
            "src/domain/ids.rs",
            "include!(\"../cli/mod.rs\");",
            Rule::Hidden,
        ),
        (
            "src/domain/ids.rs",
            "#[path = \"ids_tests.rs\"] mod tests;",
            Rule::Hidden,
        ),
        ("src/domain/ids_tests.rs", "//! Tests.", Rule::Hidden),
        ("src/cellar/mod.rs", "//! A cellar.", Rule::Room),
        ("src/domain/ids.rs", "use crate::Thing;", Rule::Room),
        ("src/base/time.rs", "//! Time.", Rule::Orphan),
        ("tests/area.rs", "//! An area.", Rule::Orphan),
        ("tests/area/part.rs", "//! A part.", Rule::Orphan),
        ("src/base/util.rs", "//! This and that.", Rule::Nameless),
        (
            "src/base/helpers/mod.rs",
            "//! This and that.",
            Rule::Nameless,
        ),
        ("src/base/bare.rs", "pub fn f() {}", Rule::Sentence),
        ("src/base/text.rs", "pub fn f() { todo!() }", Rule::PutOff),
        (
            "tests/area.rs",
            "//! An area.\n#[test]\n#[ignore]\nfn t() {}",
            Rule::PutOff,
        ),
        (
            "tests/area.rs",
            "//! An area.\n#[test]\n#[cfg_attr(not(x), ignore)]\nfn t() {}",
            Rule::PutOff,
        ),
        ("src/channel/webhook.rs", "use ureq::Agent;", Rule::Home),
        (
            "src/channel/webhook.rs",
            "fn f(_: rusqlite::Connection) {}",
            Rule::Home,
        ),
        (
            "src/channel/webhook.rs",
            "fn f(_: ::tiny_http::Server) {}",
            Rule::Home,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { std::thread::spawn(|| ()); }",
            Rule::Thread,
        ),
        (
            "src/channel/webhook.rs",
            "use std::thread::{JoinHandle, spawn};",
            Rule::Thread,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { std::thread::scope(|_| ()); }",
            Rule::Thread,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { std::thread::sleep(x); }",
            Rule::Sleep,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { Instant::now(); }",
            Rule::Monotonic,
        ),
        (
            "src/channel/webhook.rs",
            "fn f() { std::time::SystemTime::now(); }",
            Rule::Calendar,
        ),
    ];
    for (path, addition, rule) in planted {
        let mut house = sound_house();
        match house.iter_mut().find(|(known, _)| known == path) {
            Some((_, text)) => text.push_str(addition),
            None => house.push((path.to_owned(), addition.to_owned())),
        }
        let found = findings(&house);
        assert!(
            found
                .iter()
                .any(|f| f.rule == rule && (f.path == path || rule == Rule::Circle)),
            "{path}: `{addition}` should break {rule:?}, found {found:?}"
        );
    }
}

#[test]
fn tests_in_a_file_beside_the_tested_one_are_its_tests() {
    let mut house = sound_house();
    house[5]
        .1
        .push_str("#[cfg(test)]\n#[path = \"ids_tests.rs\"]\nmod tests;\n");
    let tests = "//! Tests.\nuse super::*;\nfn t() { Instant::now(); }\n";
    house.push(("src/domain/ids_tests.rs".to_owned(), tests.to_owned()));
    assert_eq!(findings(&house), []);
    house[10].1.push_str("use crate::cli::run;");
    let found = findings(&house);
    assert_eq!(
        found.iter().map(|f| f.rule).collect::<Vec<_>>(),
        [Rule::Upward]
    );
}

#[test]
fn a_test_may_look_at_its_neighbours_but_not_above() {
    let test =
        "#[cfg(test)]\nmod tests {\nfn t() { super::super::brain::f(crate::domain::Id); }\n}\n";
    let mut house = sound_house();
    house[5].1.push_str(test);
    assert_eq!(findings(&house), []);
    house[5].1.push_str("fn after() { super::brain::f(Id); }");
    assert_eq!(findings(&house).len(), 1);
}

#[test]
fn a_circle_by_way_of_a_folder_and_its_re_exports_is_found() {
    let mut house = sound_house();
    let add = [
        (
            "src/channel/discord/mod.rs",
            "//! D.\npub mod api;\npub use api::Call;\n",
        ),
        (
            "src/channel/discord/api.rs",
            "//! A.\npub struct Call;\nuse super::super::webhook::KIND;\n",
        ),
    ];
    house.extend(add.map(|(path, text)| (path.to_owned(), text.to_owned())));
    house[7].1.push_str("pub mod discord;\n");
    assert_eq!(findings(&house), []);
    house
        .iter_mut()
        .find(|f| f.0 == "src/channel/webhook.rs")
        .unwrap()
        .1
        .push_str("use super::discord::Call;");
    let found = findings(&house);
    assert_eq!(
        found.iter().map(|f| f.rule).collect::<Vec<_>>(),
        [Rule::Circle],
        "{found:?}"
    );
    assert_eq!(found[0].what, "discord -> webhook -> discord");

    let mut house = sound_house();
    // brain uses ids by a re-export of the folder; ids uses brain.
    house[6].1 = "//! A brain.\nuse super::Id;\npub fn f(_: Id) {}\n".to_owned();
    house[5].1.push_str("use super::brain::f;");
    let found = findings(&house);
    assert_eq!(
        found.iter().map(|f| f.rule).collect::<Vec<_>>(),
        [Rule::Circle],
        "{found:?}"
    );
}
