//! `memory_note`: keeps one line for later within the brain's scope. Runs on the run's thread;
//! stores each call once, however often it is tried.

use std::sync::Arc;

use super::arguments::{failed, schema, text};
use super::port::{Arguments, Call, Fault, Tool};
use crate::domain::brain::{Memory, Sensitivity};
use crate::domain::completion::ToolSpec;
use crate::domain::ids::BrainName;
use crate::domain::notes::note;
use crate::store::{Audience, Notebook, Noted, Store};

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "memory_note",
        description: "Remembers one short note.",
        parameters: schema(&[("note", Some("string"), "")]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct MemoryNote {
    memory: Memory,
    brain: BrainName,
    audience: Audience,
    store: Arc<Store>,
}

impl MemoryNote {
    /// One of a brain: what a private brain notes is for private brains only.
    #[must_use]
    pub fn new(
        memory: Memory,
        brain: BrainName,
        sensitivity: Sensitivity,
        store: Arc<Store>,
    ) -> MemoryNote {
        MemoryNote {
            memory,
            brain,
            audience: match sensitivity {
                Sensitivity::Private => Audience::Private,
                Sensitivity::Public => Audience::Public,
            },
            store,
        }
    }

    fn judged(&self, arguments: &Arguments) -> Result<String, Fault> {
        note(text(arguments, "note")?, &self.memory).map_err(|error| failed(error.to_string()))
    }
}

impl Tool for MemoryNote {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        self.judged(arguments).map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        let note = self.judged(call.arguments)?;
        let book = Notebook {
            brain: self.brain.clone(),
            conversation: call.conversation.clone(),
            scope: self.memory.scope,
            audience: self.audience,
        };
        match self.store.add_note(&book, &self.memory, call.key, &note) {
            Ok(Noted::Stored) => Ok("noted".into()),
            Ok(Noted::Full) => Err(failed(
                "no room for another note, nothing was stored; the user can make room with /notes clear",
            )),
            Err(error) => {
                log::warn!(brain = self.brain.as_str(), error:% = error; "note_not_stored");
                Err(failed("the note cannot be stored now"))
            }
        }
    }
}
