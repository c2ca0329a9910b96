//! Collects what the check finds: in any order in, in the file's order out, and not without end.

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;

use crate::config::problem::{Problem, Severity};

/// Problems shown. Whoever has more mends these first; and a hostile file must not fill memory.
const SHOWN: usize = 200;

/// The collector. Sentences are made only for problems that are shown.
pub(super) struct Findings<'t> {
    text: &'t str,
    /// Where each line after the first begins; made when the first place is asked for.
    lines: OnceCell<Vec<usize>>,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    items: Vec<(usize, Problem)>,
    errors_left_out: usize,
    warnings_left_out: usize,
    faulty: HashSet<usize>,
}

impl<'t> Findings<'t> {
    pub(super) fn new(text: &'t str) -> Findings<'t> {
        Findings {
            text,
            lines: OnceCell::new(),
            inner: RefCell::default(),
        }
    }

    /// An error at the byte `at`; `words` gives message and help. The value there is not used.
    pub(super) fn error(
        &self,
        at: usize,
        path: impl FnOnce() -> String,
        words: impl FnOnce() -> (String, String),
    ) {
        self.add(Severity::Error, at, path, words);
    }

    /// A warning at the byte `at`.
    pub(super) fn warning(
        &self,
        at: usize,
        path: impl FnOnce() -> String,
        words: impl FnOnce() -> (String, String),
    ) {
        self.add(Severity::Warning, at, path, words);
    }

    /// Marks the value at the byte `at` as one that must not be used.
    pub(super) fn spoil(&self, at: usize) {
        self.inner.borrow_mut().faulty.insert(at);
    }

    /// Whether the value at the byte `at` may be used.
    pub(super) fn sound(&self, at: usize) -> bool {
        !self.inner.borrow().faulty.contains(&at)
    }

    fn add(
        &self,
        severity: Severity,
        at: usize,
        path: impl FnOnce() -> String,
        words: impl FnOnce() -> (String, String),
    ) {
        let mut inner = self.inner.borrow_mut();
        if inner.items.len() >= SHOWN {
            match severity {
                Severity::Error => inner.errors_left_out += 1,
                Severity::Warning => inner.warnings_left_out += 1,
            }
            return;
        }
        let (line, column) = self.place(at);
        let (message, help) = words();
        let problem = Problem {
            severity,
            path: path(),
            line,
            column,
            message,
            help,
        };
        inner.items.push((at, problem));
    }

    /// Line and column in characters of a byte offset.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let lines = self.lines.get_or_init(|| {
            let newlines = self.text.match_indices('\n');
            newlines.map(|(newline, _)| newline + 1).collect()
        });
        let at = at.min(self.text.len());
        let passed = lines.partition_point(|start| *start <= at);
        let start = passed.checked_sub(1).map_or(0, |last| lines[last]);
        (1 + passed, 1 + self.text[start..at].chars().count())
    }

    /// All problems in the file's order; where some were left out, a last one says how many.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut inner = self.inner.into_inner();
        inner.items.sort_by_key(|(at, _)| *at);
        let mut problems: Vec<Problem> = inner
            .items
            .into_iter()
            .map(|(_, problem)| problem)
            .collect();
        let (errors, warnings) = (inner.errors_left_out, inner.warnings_left_out);
        if errors + warnings > 0 {
            let severity = if errors > 0 {
                Severity::Error
            } else {
                Severity::Warning
            };
            problems.push(Problem {
                severity,
                ..Problem::of_file(
                    format!("{errors} more errors and {warnings} more warnings are not shown"),
                    "mend those above and check again",
                )
            });
        }
        problems
    }
}
