//! Looks whether the folders that tools read from are there. The main thread runs it at start and
//! for `config check`; it opens none of them.

use super::check::Places;
use super::plan::Plan;
use super::problem::{Problem, Severity};
use crate::base::text::printable;

/// A warning for each `read_file.root` that is no folder now.
///
/// Blocks: for as long as the disk takes.
#[must_use]
pub fn absent(plan: &Plan, places: &Places) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, brain) in plan.brains.iter().enumerate() {
        let agent = brain.agent.as_ref();
        let Some(cage) = agent.and_then(|agent| agent.read_file.as_ref()) else {
            continue;
        };
        if cage.root.is_dir() {
            continue;
        }
        let path = format!("brains[{index}].agent.read_file.root");
        let (line, column) = places.of(&path);
        problems.push(Problem {
            severity: Severity::Warning,
            path,
            line,
            column,
            message: format!(
                "{}: no such folder; the tool is not announced until it is there",
                printable(&cage.root.to_string_lossy())
            ),
            help: "create it, or name the one that is meant".to_owned(),
        });
    }
    problems
}
