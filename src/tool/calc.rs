//! `calc`: exact arithmetic. Runs on the run's thread, reaches nothing.

use super::arguments::{failed, schema, text};
use super::port::{Arguments, Call, Fault, Tool};
use crate::domain::calc;
use crate::domain::completion::ToolSpec;

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "calc",
        description: "Exact arithmetic.",
        parameters: schema(&[(
            "expression",
            Some("string"),
            "numbers, + - * / and parentheses",
        )]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct Calc;

fn work_out(arguments: &Arguments) -> Result<String, Fault> {
    calc::value(text(arguments, "expression")?)
        .map(|value| value.to_string())
        .map_err(|error| failed(error.to_string()))
}

impl Tool for Calc {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        work_out(arguments).map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        work_out(call.arguments)
    }
}
