//! `echo`: returns its text. Runs on the run's thread, reaches nothing.

use super::arguments::{schema, text};
use super::port::{Arguments, Call, Fault, Tool};
use crate::domain::completion::ToolSpec;

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "echo",
        description: "Returns its text.",
        parameters: schema(&[("text", Some("string"), "")]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct Echo;

impl Tool for Echo {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        text(arguments, "text").map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        text(call.arguments, "text").map(str::to_owned)
    }
}
