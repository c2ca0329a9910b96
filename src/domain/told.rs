//! What a model is told of its calls: honest, short, and without the rule that refused one. Pure.

use super::audit::Rule;
use super::completion::ToolCall;
use crate::base::text::prefix;

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// The tool's result.
    Done(String),
    /// The tool, its cage or the shield says why not, in words for the model.
    Failed(String),
    /// The gate refused it.
    Refused(Rule),
    /// It was only rehearsed.
    Rehearsed,
    /// Its arguments are no object.
    Malformed,
    /// It had started when the process ended.
    Unknown,
}

/// What is told when call syntax could not be read.
pub const UNREADABLE: &str =
    "That call could not be read. To use a tool write only this, on one line: \
    {\"tool\": NAME, \"arguments\": {...}}";
/// What is told when the answer is due.
pub const ANSWER_DUE: &str = "No more tools can be used. Answer now with what you know.";
/// What the model seems to have said where an earlier run cannot be gone on from.
pub const INTERRUPTED: &str = "I had begun to work on this and was interrupted.";
/// Characters of a name that is told back.
const NAME_MOST: usize = 64;

/// What is told of calls of an earlier run whose effects had started.
#[must_use]
pub fn started(tools: &[String]) -> String {
    let names: Vec<&str> = tools.iter().map(|name| prefix(name, NAME_MOST)).collect();
    format!(
        "the outcome is unknown of what you had begun: {}; it may have been executed, do not repeat it and \
         tell the person so",
        names.join(", ")
    )
}

/// The words for a call, of at most `most` bytes and a marker behind what was cut.
#[must_use]
pub fn told(came: &Came, call: &ToolCall, announced: &[String], most: usize) -> String {
    let name = prefix(&call.name, NAME_MOST);
    match came {
        Came::Done(text) if text.trim().is_empty() => "(nothing)".to_owned(),
        Came::Done(text) => cut(text, most),
        Came::Failed(text) => cut(&format!("failed: {text}"), most),
        Came::Refused(Rule::UnknownTool) if announced.is_empty() => {
            format!("there is no tool {name:?}, and no other")
        }
        Came::Refused(Rule::UnknownTool) => {
            format!("there is no tool {name:?}; there are: {}", announced.join(", "))
        }
        Came::Refused(Rule::PerRunBudget) => {
            "not done: too many calls at once; ask again for what is still needed".to_owned()
        }
        Came::Refused(_) => format!("denied: {name} may not be used here; nothing was done"),
        Came::Rehearsed => format!(
            "simulation: {name} was not executed and nothing happened; tell the person so"
        ),
        Came::Malformed => "failed: the arguments are no JSON object; mend them and call again".to_owned(),
        Came::Unknown => format!(
            "the outcome is unknown: {name} was interrupted and may have been executed; it is not repeated"
        ),
    }
}

/// `text`, or its beginning and a marker.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let shown = prefix(text, most);
    format!(
        "{shown}\n[... cut: {} of {} bytes are shown ...]",
        shown.len(),
        text.len()
    )
}
