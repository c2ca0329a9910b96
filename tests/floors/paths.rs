//! Finds every path into the crate that a file names, and says which module it means.

use std::collections::BTreeSet;

use super::tokens::{tokens, Kind, Token};

/// A module by its names from the crate's root; the root itself is empty.
pub type Module = Vec<String>;

/// One path of a file, made absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The segments from the crate's root.
    pub path: Module,
    /// The name under which a `use` brings it in; empty elsewhere.
    pub local: String,
    /// Whether it ends in `*`.
    pub glob: bool,
    /// Whether it stands in a `use`.
    pub in_use: bool,
    /// Its line, from 1.
    pub line: usize,
}

/// The module that a file of the library holds: `src/a/b.rs` and `src/a/b/mod.rs` are both `a::b`;
/// `src/a/b_tests.rs` is `a::b::tests`.
pub fn module_of(path: &str) -> Module {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Module = inner.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib")) {
        module.pop();
    }
    if let Some(tested) = module.last().and_then(|last| last.strip_suffix("_tests")) {
        let tested = tested.to_owned();
        module.pop();
        module.extend([tested, "tests".to_owned()]);
    }
    module
}

/// Every path into the crate that `text` names: by `crate::`, `super::`, `self::` and `korvun::`
/// wherever they stand, and by a bare child module in a `use`. What renames the crate or a parent,
/// so that paths could hide behind the new name, is a finding.
pub fn named(
    module: &[String],
    text: &str,
    modules: &BTreeSet<Module>,
) -> (Vec<Named>, Vec<(usize, String)>) {
    let tokens = tokens(text);
    let mut scan = Scan {
        tokens: &tokens,
        inner: module.to_vec(),
        found: Vec::new(),
        odd: Vec::new(),
    };
    // Inline modules open at the moment: the brace depth at which each ends.
    let mut open: Vec<usize> = Vec::new();
    let (mut depth, mut at, mut using) = (0_usize, 0_usize, false);
    while let Some(token) = tokens.get(at) {
        match &token.kind {
            Kind::Sign('{') => {
                depth += 1;
                if scan.word(at.wrapping_sub(2)) == Some("mod") {
                    if let Some(name) = scan.word(at - 1) {
                        scan.inner.push(name.to_owned());
                        open.push(depth);
                    }
                }
            }
            Kind::Sign('}') => {
                if open.last() == Some(&depth) {
                    open.pop();
                    scan.inner.pop();
                }
                depth = depth.saturating_sub(1);
            }
            Kind::Sign(';') => using = false,
            Kind::Word(word) if word == "use" => using = true,
            Kind::Word(word) => {
                if let Some(base) = scan.head(at, word, using, modules) {
                    at = scan.tree(at + 1, base, using);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    (scan.found, scan.odd)
}

struct Scan<'a> {
    tokens: &'a [Token],
    inner: Module,
    found: Vec<Named>,
    odd: Vec<(usize, String)>,
}

impl Scan<'_> {
    fn word(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).and_then(Token::word)
    }

    fn kind(&self, at: usize) -> Option<&Kind> {
        self.tokens.get(at).map(|token| &token.kind)
    }

    /// Where a path that begins at `at` starts from; `None` where no path of ours begins there.
    fn head(
        &mut self,
        at: usize,
        word: &str,
        using: bool,
        modules: &BTreeSet<Module>,
    ) -> Option<Module> {
        let before = at.checked_sub(1).and_then(|before| self.kind(before));
        let first = match before {
            Some(Kind::Sep) => at < 2 || self.word(at - 2).is_none_or(|word| word == "use"),
            Some(Kind::Sign('.')) => false,
            _ => true,
        };
        if !first {
            return None;
        }
        let followed = self.kind(at + 1) == Some(&Kind::Sep);
        let base = match word {
            "crate" | "korvun" => Some(Vec::new()),
            "super" => Some(self.inner[..self.inner.len().saturating_sub(1)].to_vec()),
            "self" => Some(self.inner.clone()),
            _ => None,
        };
        match base {
            Some(base) if followed => Some(base),
            Some(_) => {
                let renamed = self.word(at + 1) == Some("as") && (using || word != "self");
                let foreign = word == "crate" && self.word(at.wrapping_sub(1)) == Some("extern");
                if renamed || foreign || (using && word == "korvun") {
                    let line = self.tokens[at].line;
                    self.odd
                        .push((line, format!("`{word}` is given another name")));
                }
                None
            }
            None if using => {
                let mut child = self.inner.clone();
                child.push(word.to_owned());
                modules.contains(&child).then(|| {
                    if !followed {
                        self.emit(child.clone(), word, false, using, at);
                    }
                    child
                })
            }
            None => None,
        }
    }

    /// Follows a path behind its head, through groups, and returns where it ends.
    fn tree(&mut self, mut at: usize, mut path: Module, using: bool) -> usize {
        while self.kind(at) == Some(&Kind::Sep) {
            at += 1;
            let (next, ended) = self.segment(at, &mut path, using);
            at = next;
            if ended {
                return at;
            }
        }
        at
    }

    /// Reads one segment; says whether the path ends with it.
    fn segment(&mut self, at: usize, path: &mut Module, using: bool) -> (usize, bool) {
        match self.kind(at).cloned() {
            Some(Kind::Word(word)) => {
                let followed = self.kind(at + 1) == Some(&Kind::Sep);
                match word.as_str() {
                    "super" => {
                        path.pop();
                    }
                    "self" => {}
                    _ => path.push(word.clone()),
                }
                if followed {
                    return (at + 1, false);
                }
                let local = match self.word(at + 1) {
                    Some("as") => self.word(at + 2).unwrap_or_default().to_owned(),
                    _ => path.last().cloned().unwrap_or_default(),
                };
                self.emit(path.clone(), &local, false, using, at);
                (at + 1, true)
            }
            Some(Kind::Sign('*')) => {
                self.emit(path.clone(), "", true, using, at);
                (at + 1, true)
            }
            Some(Kind::Sign('{')) => (self.group(at + 1, path, using), true),
            // `<` of a turbofish: what it holds is read as code of its own.
            _ => {
                self.emit(path.clone(), "", false, using, at);
                (at, true)
            }
        }
    }

    fn group(&mut self, mut at: usize, path: &Module, using: bool) -> usize {
        while let Some(kind) = self.kind(at) {
            match kind {
                Kind::Sign('}') => return at + 1,
                Kind::Sign(',') => at += 1,
                _ => {
                    let mut branch = path.clone();
                    let (next, ended) = self.segment(at, &mut branch, using);
                    at = if ended {
                        next
                    } else {
                        self.tree(next, branch, using)
                    };
                    while !matches!(self.kind(at), None | Some(Kind::Sign(',' | '}'))) {
                        at += 1;
                    }
                }
            }
        }
        at
    }

    fn emit(&mut self, path: Module, local: &str, glob: bool, in_use: bool, at: usize) {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        self.found.push(Named {
            path,
            local: if in_use {
                local.to_owned()
            } else {
                String::new()
            },
            glob,
            in_use,
            line,
        });
    }
}

#[test]
fn a_path_is_found_wherever_it_stands_and_made_absolute() {
    let modules = ["channel", "channel::webhook", "channel::discord"]
        .iter()
        .map(|module| module.split("::").map(str::to_owned).collect())
        .collect();
    let text = "
        use crate::{base::{clock::Clock, text}, domain::limits as l};
        use super::super::store::*;
        pub(super) fn f(x: crate::net::Wire) -> u8 { g::<super::Error>(crate::config::x::<u8>()) }
        mod tests { use super::*; fn t() { super::super::KINDS; } }
        use ::korvun::engine;
        pub(crate) use self::inner::Thing; macro!($crate::admin::y);
    ";
    let module = module_of("src/channel/webhook.rs");
    let (found, odd) = named(&module, text, &modules);
    let shown: Vec<String> = found
        .iter()
        .map(|n| {
            format!(
                "{} {}{}",
                n.line,
                n.path.join("::"),
                if n.glob { "::*" } else { "" }
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "2 base::clock::Clock",
            "2 base::text",
            "2 domain::limits",
            "3 store::*",
            "4 net::Wire",
            "4 channel::Error",
            "4 config::x",
            "5 channel::webhook::*",
            "5 channel::KINDS",
            "6 engine",
            "7 channel::webhook::inner::Thing",
            "7 admin::y",
        ]
    );
    assert!(odd.is_empty(), "{odd:?}");

    let (found, odd) = named(
        &module_of("src/channel/mod.rs"),
        "pub use webhook::Hook as H;",
        &modules,
    );
    assert_eq!(found[0].path.join("::"), "channel::webhook::Hook");
    assert_eq!(found[0].local, "H");
    assert!(odd.is_empty());

    for renaming in [
        "use crate as k;",
        "use super as up;",
        "extern crate self as k;",
        "use korvun as k;",
    ] {
        let (_, odd) = named(&module, renaming, &modules);
        assert_eq!(odd.len(), 1, "{renaming}");
    }
}
