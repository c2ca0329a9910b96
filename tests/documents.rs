//! What the documents say is so: links lead somewhere, samples are configurations that check,
//! tests and targets that are named exist, the languages have the same outline.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::checked;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file, with its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut out = vec![top().join("README.md")];
    for folder in ["docs", "docs/es"] {
        for entry in fs::read_dir(top().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                out.push(path);
            }
        }
    }
    assert!(out.len() > 5, "the documents are there");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    out.into_iter().map(read).collect()
}

/// The fenced blocks of that language, with the line on which each begins.
pub fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    // The language of the open block.
    let mut open: Option<&str> = None;
    for (n, line) in text.lines().enumerate() {
        match (open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => open = None,
            (None, Some(info)) => {
                open = Some(info);
                if info == language {
                    out.push((n + 1, String::new()));
                }
            }
            (Some(info), None) if info == language => {
                if let Some((_, block)) = out.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            _ => {}
        }
    }
    out
}

#[test]
fn links_lead_somewhere() {
    for (path, text) in documents() {
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let target = path.parent().unwrap().join(file);
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}

#[test]
fn samples_of_whole_configurations_check() {
    let mut seen = 0;
    for (path, text) in documents() {
        for (line, block) in blocks(&text, "json") {
            // A whole configuration has two of its three roots even where one is mistyped.
            let roots = ["\"channels\": [", "\"brains\": [", "\"routes\": ["];
            if roots.iter().filter(|root| block.contains(**root)).count() < 2 {
                continue;
            }
            seen += 1;
            let checked = checked(&block);
            let place = format!("{}:{line}", path.display());
            assert!(
                checked.problems.is_empty(),
                "{place}: {:#?}",
                checked.problems
            );
        }
    }
    assert!(seen >= 5, "the samples are read");
}

#[test]
fn every_test_that_the_house_names_exists() {
    let text = fs::read_to_string(top().join("docs/ARCHITECTURE.md")).unwrap();
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("Invariants\n"))
        .expect("a section on invariants");
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| #"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 14, "each invariant has its row");
    let mut sources = String::new();
    for folder in ["src", "tests"] {
        read_all(&top().join(folder), &mut sources);
    }
    for row in rows {
        for name in row[2].split('`').skip(1).step_by(2) {
            assert!(
                sources.contains(&format!("fn {name}()")),
                "{name}: no such test"
            );
        }
    }
}

fn read_all(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn targets_that_are_named_exist() {
    let makefile = fs::read_to_string(top().join("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.strip_prefix(".PHONY: "))
        .collect();
    for (path, text) in documents() {
        for (line, block) in blocks(&text, "sh") {
            // A line of shell: `make TARGET` at its beginning or behind `&&` or `sudo`.
            for command in block.split(['\n', ';']).flat_map(|line| line.split("&&")) {
                let words: Vec<&str> = command
                    .split_whitespace()
                    .filter(|word| *word != "sudo")
                    .collect();
                if let ["make", target, ..] = words.as_slice() {
                    assert!(
                        targets.contains(target),
                        "{}:{line}: make {target}",
                        path.display()
                    );
                }
            }
        }
    }
}

#[test]
fn both_languages_have_the_same_outline() {
    let outline = |text: &str| -> Vec<usize> {
        let level = |line: &str| line.chars().take_while(|c| *c == '#').count();
        let mut fenced = false;
        text.lines()
            .filter(|line| {
                fenced ^= line.starts_with("```");
                !fenced && line.starts_with('#')
            })
            .map(level)
            .collect()
    };
    for entry in fs::read_dir(top().join("docs/es")).unwrap() {
        let path = entry.unwrap().path();
        let other = top().join("docs").join(path.file_name().unwrap());
        let (es, en) = (
            fs::read_to_string(&path).unwrap(),
            fs::read_to_string(&other).unwrap(),
        );
        assert_eq!(outline(&es), outline(&en), "{}", path.display());
        assert_eq!(
            blocks(&es, "sh").len(),
            blocks(&en, "sh").len(),
            "{}",
            path.display()
        );
        assert_eq!(
            blocks(&es, "json").len(),
            blocks(&en, "json").len(),
            "{}",
            path.display()
        );
    }
}
