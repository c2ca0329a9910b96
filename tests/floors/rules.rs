//! The house rules over the files of the crate: who may use whom, what lives where, what is not
//! written at all. Works on paths and texts, so that planted mistakes can be judged as well.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{module_of, named, Module, Named};
use super::tokens::{tokens, Token};

/// One file: its path from the top of the repository, and its text.
pub type File = (String, String);

/// The rooms by floor, from the ground up. Rooms of one floor do not see each other.
const FLOORS: [&[&str]; 10] = [
    &["base"],
    &["domain"],
    &["watch"],
    &["config", "store", "net"],
    &["channel", "provider", "tool"],
    &["engine"],
    &["admin"],
    &["daemon"],
    &["cli"],
    &["main"],
];

/// Names that say nothing of what a file is about.
const NAMELESS: [&str; 7] = [
    "util", "utils", "common", "helper", "helpers", "manager", "misc",
];

/// Crates with one home in the tree.
const HOMES: [(&str, &str); 9] = [
    ("ureq", "src/net/"),
    ("rustls", "src/net/"),
    ("tungstenite", "src/net/"),
    ("rusqlite", "src/store/"),
    ("tiny_http", "src/admin/"),
    ("env_logger", "src/watch/"),
    ("lexopt", "src/cli/"),
    ("signal_hook", "src/daemon/"),
    ("subtle", "src/base/"),
];

/// What is allowed in one file or folder (with a `/` at its end) only: its path, the rule and the
/// reason. An exception that is no longer needed is a finding itself.
const EXCEPTIONS: [(&str, Rule, &str); 6] = [
    (
        "src/net/",
        Rule::Monotonic,
        "sockets wait by the machine's clock, not by one handed in",
    ),
    (
        "src/store/",
        Rule::Monotonic,
        "callers wait for the store's thread on a condition variable",
    ),
    (
        "src/engine/",
        Rule::Monotonic,
        "runs, senders and the stop wait on condition variables",
    ),
    (
        "src/watch/events.rs",
        Rule::Monotonic,
        "subscribers wait on a condition variable",
    ),
    (
        "src/channel/webhook/waiting.rs",
        Rule::Monotonic,
        "callers wait on a condition variable",
    ),
    (
        "src/daemon/preflight/models.rs",
        Rule::Thread,
        "its scoped threads look at all model servers at once and end with the look",
    ),
];

fn covers(exception: &str, path: &str) -> bool {
    path == exception || exception.ends_with('/') && path.starts_with(exception)
}

/// The kinds of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A path to a higher floor.
    Upward,
    /// A path to another room of the same floor.
    Sideways,
    /// Files of a folder that use each other in a ring.
    Circle,
    /// A way of naming things behind which paths could hide.
    Hidden,
    /// A file outside every room.
    Room,
    /// A file that nothing brings in, so that it is never built and its tests never run.
    Orphan,
    /// A file name that says nothing.
    Nameless,
    /// A file without its first sentence.
    Sentence,
    /// Work put off, or a test that does not run.
    PutOff,
    /// A crate outside its home.
    Home,
    /// A thread that nobody named.
    Thread,
    /// The calendar read where time should be handed in.
    Calendar,
    /// The clock for deadlines read where time should be handed in.
    Monotonic,
    /// A wait that nothing can end.
    Sleep,
    /// An exception that excepts nothing.
    Stale,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub rule: Rule,
    pub path: String,
    pub line: usize,
    pub what: String,
}

/// Everything in `files` that the house forbids.
pub fn findings(files: &[File]) -> Vec<Finding> {
    let mut out = graph(files);
    out.extend(orphans(files));
    for (path, text) in files {
        out.extend(manners(path, text, files));
    }
    let excepted = |finding: &Finding| {
        EXCEPTIONS
            .iter()
            .any(|(path, rule, _)| covers(path, &finding.path) && finding.rule == *rule)
    };
    let stale = EXCEPTIONS.iter().filter(|(path, rule, _)| {
        let known = files.iter().any(|file| covers(path, &file.0));
        known && !out.iter().any(|f| covers(path, &f.path) && f.rule == *rule)
    });
    let stale: Vec<Finding> = stale
        .map(|(path, rule, _)| {
            finding(
                Rule::Stale,
                path,
                0,
                format!("the exception to {rule:?} is no longer needed"),
            )
        })
        .collect();
    out.retain(|finding| !excepted(finding));
    out.extend(stale);
    out.sort();
    out
}

fn finding(rule: Rule, path: &str, line: usize, what: impl Into<String>) -> Finding {
    Finding {
        rule,
        path: path.to_owned(),
        line,
        what: what.into(),
    }
}

/// Files that no `mod` brings in. Where crates begin, nothing has to; files of tests beside a tested
/// one come in by their paths, which is judged elsewhere.
fn orphans(files: &[File]) -> Vec<Finding> {
    let begins = |path: &str| path.ends_with("/main.rs") || path == "src/lib.rs";
    let brought_in = |path: &str| {
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
        let Some((folder, name)) = module.rsplit_once('/') else {
            return false;
        };
        let own = [
            format!("{folder}.rs"),
            format!("{folder}/mod.rs"),
            format!("{folder}/lib.rs"),
            format!("{folder}/main.rs"),
        ];
        let declares = |text: &str| {
            tokens(text).windows(3).any(|next| {
                next[0].word() == Some("mod") && next[1].word() == Some(name) && next[2].is(';')
            })
        };
        let mut parents = files.iter().filter(|(path, _)| own.contains(path));
        parents.any(|(_, text)| declares(text))
    };
    files
        .iter()
        .filter(|(path, _)| !begins(path) && !path.ends_with("_tests.rs") && !brought_in(path))
        .map(|(path, _)| finding(Rule::Orphan, path, 0, "no `mod` brings this file in"))
        .collect()
}

fn floor(room: &str) -> Option<usize> {
    FLOORS.iter().position(|rooms| rooms.contains(&room))
}

/// Floors and circles: what every path into the crate means.
fn graph(files: &[File]) -> Vec<Finding> {
    let sources: Vec<&File> = files
        .iter()
        .filter(|(path, _)| path.starts_with("src/"))
        .collect();
    let modules: BTreeSet<Module> = sources.iter().map(|(path, _)| module_of(path)).collect();
    let paths: Vec<(&str, Module, Vec<Named>)> = sources
        .iter()
        .map(|(path, text)| {
            let module = module_of(path);
            let (found, _) = named(&module, text, &modules);
            (path.as_str(), module, found)
        })
        .collect();
    // What a folder's own file brings in from its children under which name, so that a sibling
    // reached by way of that name is seen.
    let mut doors: BTreeMap<Module, Module> = BTreeMap::new();
    for (_, module, found) in &paths {
        for path in found
            .iter()
            .filter(|path| path.in_use && path.path.starts_with(module))
        {
            let mut name = module.clone();
            name.push(path.local.clone());
            if !modules.contains(&name) {
                doors.insert(name, path.path.clone());
            }
        }
    }

    let mut out = Vec::new();
    let mut edges: BTreeMap<(Module, String), BTreeMap<String, (String, usize)>> = BTreeMap::new();
    for (file, module, found) in &paths {
        let text = &sources
            .iter()
            .find(|source| source.0 == *file)
            .expect("a file")
            .1;
        for (line, what) in named(module, text, &modules).1 {
            out.push(finding(Rule::Hidden, file, line, what));
        }
        let Some(room) = module.first() else { continue };
        let Some(own) = floor(room) else {
            out.push(finding(
                Rule::Room,
                file,
                0,
                format!("`{room}` is no room of the house"),
            ));
            continue;
        };
        let (only_tests, in_tests) = (test_only(file, files), test_lines(text));
        for path in found {
            let shown = path.path.join("::");
            let Some(other) = path.path.first() else {
                out.push(finding(
                    Rule::Hidden,
                    file,
                    path.line,
                    "the crate's root is taken whole",
                ));
                continue;
            };
            match floor(other) {
                None => {
                    out.push(finding(
                        Rule::Room,
                        file,
                        path.line,
                        format!("`{shown}`: nothing lives at the crate's root"),
                    ));
                    continue;
                }
                Some(theirs) if theirs > own => {
                    out.push(finding(
                        Rule::Upward,
                        file,
                        path.line,
                        format!("`{shown}` stands above `{room}`"),
                    ));
                    continue;
                }
                Some(theirs) if theirs == own && other != room => {
                    out.push(finding(
                        Rule::Sideways,
                        file,
                        path.line,
                        format!("`{shown}` is a neighbour of `{room}`"),
                    ));
                    continue;
                }
                Some(_) if other != room => continue,
                Some(_) => {}
            }
            let behind = (0..=path.path.len())
                .rev()
                .find_map(|n| doors.get(&path.path[..n]))
                .unwrap_or(&path.path);
            let target = (0..=behind.len())
                .rev()
                .find(|n| modules.contains(&behind[..*n]))
                .map_or(&behind[..0], |n| &behind[..n]);
            // A file of tests takes what it tests whole, and nothing else.
            let tested = module.strip_suffix(&["tests".to_owned()]) == Some(target);
            let whole = path.path == target
                && target.len() < module.len()
                && module.starts_with(target)
                && !tested;
            if whole {
                out.push(finding(
                    Rule::Hidden,
                    file,
                    path.line,
                    format!("`{shown}` takes a folder whole, which hides whom it uses"),
                ));
            }
            if only_tests || in_tests.iter().any(|lines| lines.contains(&path.line)) {
                // What a test looks at beside the tested file is no part of how the house is built.
                continue;
            }
            if module.starts_with(target) || target.starts_with(module) {
                // A folder's own file may name its children, and they what it defines.
                continue;
            }
            let common = module
                .iter()
                .zip(target)
                .take_while(|(a, b)| a == b)
                .count();
            edges
                .entry((module[..common].to_vec(), module[common].clone()))
                .or_default()
                .entry(target[common].clone())
                .or_insert(((*file).to_owned(), path.line));
        }
    }
    out.extend(circles(&edges));
    out
}

type Edges = BTreeMap<(Module, String), BTreeMap<String, (String, usize)>>;

/// Rings among the children of one folder, each told once.
fn circles(edges: &Edges) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut told: BTreeSet<Vec<String>> = BTreeSet::new();
    for (folder, start) in edges.keys() {
        let mut ways = vec![vec![start.clone()]];
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop() {
            let last = way.last().expect("a way has a start").clone();
            let Some(next) = edges.get(&(folder.clone(), last)) else {
                continue;
            };
            for (to, (file, line)) in next {
                if to == start {
                    let mut ring = way.clone();
                    ring.sort();
                    ring.insert(0, folder.join("::"));
                    if told.insert(ring) {
                        let shown = format!("{} -> {start}", way.join(" -> "));
                        out.push(finding(Rule::Circle, file, *line, shown));
                    }
                } else if seen.insert(to.clone()) {
                    let mut longer = way.clone();
                    longer.push(to.clone());
                    ways.push(longer);
                }
            }
        }
    }
    out
}

/// What a file may not say, whoever it uses.
fn manners(path: &str, text: &str, files: &[File]) -> Vec<Finding> {
    let mut out = Vec::new();
    let stem = path
        .rsplit('/')
        .next()
        .unwrap_or(path)
        .trim_end_matches(".rs");
    if path.split('/').any(|part| NAMELESS.contains(&part)) || NAMELESS.contains(&stem) {
        out.push(finding(
            Rule::Nameless,
            path,
            0,
            "says nothing of what it is about",
        ));
    }
    if !text.trim_start().starts_with("//! ") {
        out.push(finding(
            Rule::Sentence,
            path,
            1,
            "begins without its `//!` sentence",
        ));
    }
    let tokens = tokens(text);
    let code = Code { tokens: &tokens };
    let in_src = path.starts_with("src/");
    let only_tests = test_only(path, files);
    if in_src && stem.ends_with("_tests") && !only_tests {
        let what = "is not declared as the tests of the file beside it";
        out.push(finding(Rule::Hidden, path, 1, what));
    }
    let mut tests_until = 0;
    for at in 0..tokens.len() {
        let line = tokens[at].line;
        let mut say = |rule, what: &str| out.push(finding(rule, path, line, what));
        for macro_name in ["todo", "unimplemented"] {
            if code.reads(at, &[macro_name, "!"]) {
                say(Rule::PutOff, "work is put off");
            }
        }
        if code.reads(at, &["#", "[", "ignore"])
            || code.reads(at, &["cfg_attr", "("]) && code.within(at, "ignore")
        {
            say(Rule::PutOff, "a test does not run");
        }
        if !in_src {
            continue;
        }
        if code.reads(at, &["include", "!"])
            || code.reads(at, &["#", "[", "path"]) && !code.own_tests(at, stem, text)
        {
            say(
                Rule::Hidden,
                "code comes in from a place that its module does not tell",
            );
        }
        tests_until = tests_until.max(code.test_module(at));
        if only_tests || at < tests_until {
            continue;
        }
        for (name, home) in HOMES {
            if tokens[at].word() == Some(name) && code.begins(at) && !path.starts_with(home) {
                say(Rule::Home, &format!("`{name}` lives in {home}"));
            }
        }
        let thread = |name| code.reads(at, &["thread", "::", name]);
        if path != "src/base/sync.rs" && thread("spawn") {
            say(
                Rule::Thread,
                "threads are started by base::sync, with a name and a stack",
            );
        }
        if path != "src/base/sync.rs"
            && !path.starts_with("src/engine/")
            && (thread("Builder") || thread("scope"))
        {
            say(Rule::Thread, "scoped threads are the engine's");
        }
        let brought_in = code.reads(at, &["use", "std", "::", "thread", "::"])
            && tokens[at + 5..]
                .iter()
                .take_while(|token| !token.is(';'))
                .any(|token| {
                    token.is('*')
                        || ["spawn", "scope", "sleep", "Builder"]
                            .contains(&token.word().unwrap_or_default())
                });
        if brought_in && path != "src/base/sync.rs" {
            say(
                Rule::Thread,
                "`thread` is written out where it is used, so that it can be seen",
            );
        }
        if thread("sleep") {
            say(
                Rule::Sleep,
                "waits on a Stop or a Bell can be ended, a sleep cannot",
            );
        }
        if path.starts_with("src/base/") {
            continue;
        }
        if code.reads(at, &["SystemTime", "::", "now"]) || code.reads(at, &["UNIX_EPOCH", "."]) {
            say(Rule::Calendar, "time is handed in by a Clock");
        }
        if code.reads(at, &["Instant", "::", "now"]) {
            say(Rule::Monotonic, "time is handed in by a Clock");
        }
    }
    out
}

/// Whether the module of that file is declared for tests only.
fn test_only(path: &str, files: &[File]) -> bool {
    let module = module_of(path);
    let Some((name, parent)) = module.split_last() else {
        return false;
    };
    files.iter().any(|(path, text)| {
        path.starts_with("src/") && module_of(path) == parent && {
            let tokens = tokens(text);
            let code = Code { tokens: &tokens };
            (0..tokens.len()).any(|at| {
                code.cfg_test(at) && code.reads(code.after_attributes(at), &["mod", name, ";"])
            })
        }
    })
}

/// The lines of a file's test modules.
fn test_lines(text: &str) -> Vec<std::ops::RangeInclusive<usize>> {
    let tokens = tokens(text);
    let code = Code { tokens: &tokens };
    (0..tokens.len())
        .filter_map(|at| match code.test_module(at) {
            0 => None,
            end => Some(tokens[at].line..=tokens[end - 1].line),
        })
        .collect()
}

struct Code<'a> {
    tokens: &'a [Token],
}

impl Code<'_> {
    /// Whether these words and signs stand here.
    fn reads(&self, at: usize, pattern: &[&str]) -> bool {
        pattern.iter().enumerate().all(|(n, part)| {
            self.tokens.get(at + n).is_some_and(|token| match *part {
                "::" => token.kind == super::tokens::Kind::Sep,
                part => {
                    token.word() == Some(part)
                        || part.chars().count() == 1 && part.chars().all(|c| token.is(c))
                }
            })
        })
    }

    /// Whether a path begins here that leads into a crate.
    fn begins(&self, at: usize) -> bool {
        let using = at > 0 && self.tokens[at - 1].word() == Some("use");
        let inner = at > 0
            && (self.tokens[at - 1].is('.')
                || self.tokens[at - 1].kind == super::tokens::Kind::Sep
                    && at > 1
                    && self.tokens[at - 2].word().is_some_and(|word| word != "use"));
        using || !inner && self.reads(at + 1, &["::"])
    }

    fn within(&self, at: usize, word: &str) -> bool {
        self.tokens[at..]
            .iter()
            .take_while(|token| !token.is(']'))
            .any(|token| token.word() == Some(word))
    }

    fn cfg_test(&self, at: usize) -> bool {
        self.reads(at, &["#", "[", "cfg", "(", "test", ")", "]"])
    }

    /// Whether the `#[path]` here brings in the tests of this very file, from `STEM_tests.rs`.
    fn own_tests(&self, at: usize, stem: &str, text: &str) -> bool {
        at >= 7
            && self.cfg_test(at - 7)
            && self.reads(self.after_attributes(at), &["mod", "tests", ";"])
            && text.matches("#[path").count() == 1
            && text.contains(&format!("#[path = \"{stem}_tests.rs\"]"))
    }

    /// Where the attributes that begin here end.
    fn after_attributes(&self, mut at: usize) -> usize {
        while self.reads(at, &["#", "["]) {
            let mut depth = 0_usize;
            while let Some(token) = self.tokens.get(at) {
                depth += usize::from(token.is('['));
                at += 1;
                if token.is(']') {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
        at
    }

    /// Where the test module that begins here ends; 0 where none begins.
    fn test_module(&self, at: usize) -> usize {
        if !self.cfg_test(at) {
            return 0;
        }
        let start = self.after_attributes(at);
        if !self.reads(start, &["mod"]) {
            return 0;
        }
        let mut depth = 0_usize;
        for (n, token) in self.tokens.iter().enumerate().skip(start) {
            if token.is('{') {
                depth += 1;
            } else if token.is('}') {
                depth -= 1;
                if depth == 0 {
                    return n + 1;
                }
            } else if token.is(';') && depth == 0 {
                return 0;
            }
        }
        self.tokens.len()
    }
}
