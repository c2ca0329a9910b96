//! Holds the list of dependencies to its promise: each has default features off and a sentence in
//! Cargo.toml, another in docs/ARCHITECTURE.md, and the whole tree stays small.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Packages that Cargo.lock may name, Korvun and those of other platforms included. Whoever
/// raises it says in docs/ARCHITECTURE.md what the new ones are for.
const MOST_PACKAGES: usize = 132;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A direct dependency as Cargo.toml writes it: its name, its line, and the line above.
struct Direct<'a> {
    name: &'a str,
    line: &'a str,
    above: &'a str,
}

fn direct(manifest: &str) -> Vec<Direct<'_>> {
    let mut out = Vec::new();
    let (mut inside, mut above) = (false, "");
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies");
            assert!(
                !inside || line == "[dependencies]" || line == "[dev-dependencies]",
                "{line}: dependencies are written one a line, in two sections"
            );
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside) {
            if !line.starts_with('#') {
                out.push(Direct {
                    name: name.trim(),
                    line,
                    above,
                });
            }
        }
        above = line;
    }
    out
}

/// What is wrong with a manifest, a table of sentences and a lock file.
fn faults(manifest: &str, architecture: &str, lock: &str) -> Vec<String> {
    let mut out = Vec::new();
    let direct = direct(manifest);
    for one in &direct {
        if !one.line.contains("default-features = false") {
            out.push(format!("{}: its default features are on", one.name));
        }
        if !one.above.starts_with("# ") || one.above.len() < 12 {
            out.push(format!("{}: no sentence above it in Cargo.toml", one.name));
        }
    }
    let section = architecture
        .split("\n## ")
        .find(|section| section.starts_with("Dependencies\n"))
        .unwrap_or_default();
    let rows: Vec<(&str, &str)> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(name, rest)| (name, rest.trim().trim_end_matches('|').trim()))
        .collect();
    for (name, sentence) in &rows {
        if !sentence.ends_with('.') || sentence.split(' ').count() < 4 {
            out.push(format!("{name}: its row is no sentence"));
        }
    }
    let used: BTreeSet<&str> = direct.iter().map(|one| one.name).collect();
    let told: BTreeSet<&str> = rows.iter().map(|(name, _)| *name).collect();
    for name in used.difference(&told) {
        out.push(format!("{name}: no row in docs/ARCHITECTURE.md"));
    }
    for name in told.difference(&used) {
        out.push(format!(
            "{name}: a row in docs/ARCHITECTURE.md, but not in Cargo.toml"
        ));
    }
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    if packages > MOST_PACKAGES {
        out.push(format!(
            "{packages} packages in Cargo.lock, {MOST_PACKAGES} are allowed"
        ));
    }
    let elsewhere = lock
        .lines()
        .filter(|line| line.starts_with("source = "))
        .filter(|line| !line.starts_with("source = \"registry+https://github.com/rust-lang/"));
    out.extend(elsewhere.map(|line| format!("{line}: not from the public registry")));
    out
}

#[test]
fn each_dependency_earns_its_place_in_a_sentence() {
    let (manifest, architecture, lock) = (
        read("Cargo.toml"),
        read("docs/ARCHITECTURE.md"),
        read("Cargo.lock"),
    );
    assert!(direct(&manifest).len() > 10, "the manifest is read");
    let faults = faults(&manifest, &architecture, &lock);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_planted_fault_is_found() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# Reads the command line.\n\
                    lexopt = { version = \"1\", default-features = false }\n[lints]\nx = 1\n";
    let table = "# Korvun\n\n## Dependencies\n\n| Crate | Why |\n|---|---|\n\
                 | `lexopt` | It reads the command line. |\n\n## More\n| `other` | table |\n";
    let lock = "[[package]]\nname = \"x\"\n";
    assert_eq!(faults(manifest, table, lock), Vec::<String>::new());
    let count = |manifest: &str, table: &str, lock: &str| faults(manifest, table, lock).len();
    assert_eq!(count(&manifest.replace("false", "true"), table, lock), 1);
    assert_eq!(
        count(
            &manifest.replace("# Reads the command line.\n", ""),
            table,
            lock
        ),
        1
    );
    assert_eq!(
        count(&manifest.replace("lexopt =", "clap ="), table, lock),
        2
    );
    assert_eq!(
        count(
            manifest,
            &table.replace("It reads the command line.", "args"),
            lock
        ),
        1
    );
    assert_eq!(
        count(manifest, &table.replace("| `lexopt`", "| lexopt"), lock),
        1
    );
    assert_eq!(
        count(manifest, table, &"[[package]]\n".repeat(MOST_PACKAGES + 1)),
        1
    );
    assert_eq!(
        count(manifest, table, "source = \"git+https://elsewhere\"\n"),
        1
    );
}
