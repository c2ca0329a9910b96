//! `time`: the present moment in UTC. Runs on the run's thread, reaches nothing.

use std::sync::Arc;

use super::arguments::schema;
use super::port::{Arguments, Call, Fault, Tool};
use crate::base::clock::Clock;
use crate::domain::completion::ToolSpec;

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "time",
        description: "Current date and time (UTC).",
        parameters: schema(&[]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct Time {
    clock: Arc<dyn Clock>,
}

impl Time {
    /// One that reads this clock.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Time {
        Time { clock }
    }
}

impl Tool for Time {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, _: &Arguments) -> Result<(), Fault> {
        Ok(())
    }

    fn call(&self, _: &Call<'_>) -> Result<String, Fault> {
        Ok(self.clock.unix().rfc3339())
    }
}
