//! Model servers: one trait, and the list of kinds.

mod endpoint;
pub mod kinds;
mod ollama;
mod openai;
pub mod retry;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{json, Value};

use endpoint::Told;

use crate::base::clock::Deadline;
use crate::base::secret::Secret;
use crate::domain::brain::{Model, Sensitivity};
use crate::domain::calls;
use crate::domain::completion::{
    Completion, Failure, Lane, ModelFacts, Offer, Prompt, Said, ToolCall, ToolSpec,
};
use crate::domain::limits::Limits;
use crate::domain::reasoning::{strip, strip_reasoning};
use crate::net::cancel::Cancel;
use crate::net::http::Wire;

/// One model of one brain, behind the policy of that brain.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Asks once, without retries. A model that must be looked at first (privacy) is looked at here.
    ///
    /// Blocks: until `deadline` at most, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`Failure`] whose kind says what the caller can do.
    fn chat(
        &self,
        prompt: &Prompt,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Completion, Failure>;

    /// How the model is told of tools: as the file says, else as its provider says; by words once
    /// it has refused the other way. A model that must be looked at first is looked at here.
    ///
    /// Blocks: until `deadline` at most, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`Failure`] as of [`Provider::chat`].
    fn lane(&self, deadline: Deadline, cancel: &Cancel) -> Result<Lane, Failure>;

    /// What was last learned of the model; `None` before it was asked.
    fn known(&self) -> Option<ModelFacts>;

    /// Asks the provider about the model: is it there, where does it run, can it call tools.
    ///
    /// Blocks: until `deadline` at most, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`Failure`] whose detail names what is missing and how to get it.
    fn look(&self, deadline: Deadline, cancel: &Cancel) -> Result<ModelFacts, Failure>;

    /// Has the provider load the model, where it loads models; elsewhere does nothing.
    ///
    /// Blocks: until `deadline` at most, or until `cancel` is raised.
    ///
    /// # Errors
    /// A [`Failure`] as of [`Provider::chat`].
    fn warm_up(&self, deadline: Deadline, cancel: &Cancel) -> Result<(), Failure>;
}

/// The provider of one model of a brain of that sensitivity, by its kind; a kind that is not in
/// the list (the configuration lets none through) speaks as most servers do. Opens nothing.
#[must_use]
pub fn build(
    model: &Model,
    sensitivity: Sensitivity,
    key: Option<&Secret>,
    wire: &Wire,
) -> Arc<dyn Provider> {
    let name = model.provider.as_str();
    let make = kinds::KINDS
        .iter()
        .find(|kind| kind.descriptor.name == name)
        .map_or(kinds::openai_style as kinds::Constructor, |kind| kind.make);
    make(model, sensitivity, key, wire)
}

/// One thing said, as both protocols write it.
fn message(said: &Said) -> Value {
    json!({"role": said.by.role(), "content": said.text})
}

/// The tools of an offer, as both protocols write them; none where it offers none.
fn tools(offer: &Offer) -> Option<Value> {
    let Offer::Native(specs) = offer else {
        return None;
    };
    let written = |tool: &ToolSpec| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters}})
    };
    (!specs.is_empty()).then(|| specs.iter().map(written).collect())
}

/// An answer's words without reasoning: call syntax stays where the run reads it.
fn words(content: &str, offer: &Offer) -> String {
    match offer {
        Offer::Nothing => strip(content),
        Offer::Native(_) | Offer::Text => strip_reasoning(content),
    }
}

/// The calls of an answer's message; those of a model that was offered none are noise.
fn calls_of(message: &Value, offer: &Offer, limits: &Limits) -> Vec<ToolCall> {
    let mut calls = match offer {
        Offer::Nothing => Vec::new(),
        Offer::Native(_) | Offer::Text => calls::native(message, limits.calls_read),
    };
    calls::settle(&mut calls, &[], &mut HashSet::new(), 0);
    calls
}

/// What a server makes of a call that its own parser could not read, as an answer: the run has the
/// model mend it. `None` where a run would not understand it.
fn unreadable(told: &Told, offer: &Offer) -> Option<Completion> {
    let words = told
        .unreadable_call()
        .filter(|_| *offer != Offer::Nothing)?;
    Some(Completion {
        text: format!("<tool_call>{words}</tool_call>"),
        ..Completion::default()
    })
}
