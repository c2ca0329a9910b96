//! The documentation against the schema: every table is the one that the schema gives, and every
//! sample is a configuration that the check accepts.

use std::fs;
use std::path::{Path, PathBuf};

use korvun::config::docs::{sections, table};
use korvun::domain::message::Language;

use super::{catalogue, checked, errors, whole};

fn top(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

const PAGES: [(&str, Language); 2] = [
    ("docs/CONFIGURATION.md", Language::En),
    ("docs/es/CONFIGURATION.md", Language::Es),
];

const BEGIN: &str = "<!-- keys of ";
const END: &str = "<!-- end of keys -->";

/// The page with each table replaced by what the schema gives, and the names of its tables.
fn renewed(page: &str, language: Language) -> (String, Vec<String>) {
    let catalogue = catalogue();
    let all = sections(&catalogue);
    let mut out = String::new();
    let mut names = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find(BEGIN) {
        let begin_end = rest[at..].find("-->").expect("a closed mark") + at + 3;
        let name = rest[at + BEGIN.len()..begin_end - 3].trim().to_owned();
        let section = all
            .iter()
            .find(|section| section.name == name)
            .unwrap_or_else(|| panic!("the schema has no section {name:?}"));
        out.push_str(&rest[..begin_end]);
        out.push_str("\n\n");
        out.push_str(&table(&catalogue, section, language));
        out.push('\n');
        let end = rest[begin_end..].find(END).expect("an end mark") + begin_end;
        out.push_str(END);
        rest = &rest[end + END.len()..];
        names.push(name);
    }
    out.push_str(rest);
    (out, names)
}

#[test]
fn every_table_of_the_documentation_is_the_schema_s() {
    let catalogue = catalogue();
    let wanted: Vec<_> = sections(&catalogue)
        .into_iter()
        .map(|section| section.name)
        .collect();
    for (path, language) in PAGES {
        let page = fs::read_to_string(top(path)).expect("the page");
        let (renewed, names) = renewed(&page, language);
        for name in &wanted {
            assert!(names.contains(name), "{path} has no table of {name:?}");
        }
        if std::env::var_os("KORVUN_RENEW_DOCS").is_some() {
            fs::write(top(path), &renewed).expect("a page that can be written");
        }
        assert!(
            page == renewed || std::env::var_os("KORVUN_RENEW_DOCS").is_some(),
            "{path} differs from the schema: run `KORVUN_RENEW_DOCS=1 cargo test --test korvun documents::`"
        );
    }
}

/// The JSON samples of a page: line and text of each fenced block.
fn samples(page: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.trim()) {
            (None, "```json") => open = Some((index + 1, String::new())),
            (Some(_), "```") => all.extend(open.take()),
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    all
}

#[test]
fn every_sample_of_the_documentation_passes_the_check() {
    for (path, _) in PAGES {
        let page = fs::read_to_string(top(path)).expect("the page");
        let samples = samples(&page);
        assert!(samples.len() >= 5, "{path} has {} samples", samples.len());
        for (line, text) in samples {
            let checked = checked(&whole(&text));
            assert_eq!(errors(&checked), Vec::<&_>::new(), "{path}:{line}");
        }
    }
}

#[test]
fn the_example_passes_without_a_word_and_asks_for_nothing_that_is_missing() {
    let text = fs::read_to_string(top("korvun.example.json")).expect("the example");
    let checked = checked(&text);
    assert_eq!(checked.problems, []);
    let plan = checked.plan.expect("a plan");
    assert_eq!(korvun::config::missing::missing(&plan, &catalogue()), []);
}
