//! Model servers: one trait, and the list of kinds.

mod endpoint;
pub mod kinds;
mod ollama;
mod openai;
pub mod retry;

use std::sync::Arc;

use crate::base::clock::Deadline;
use crate::base::secret::Secret;
use crate::domain::brain::{Model, Sensitivity};
use crate::domain::completion::{Completion, Failure, Lane, ModelFacts, Prompt, Said};
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
fn message(said: &Said) -> serde_json::Value {
    serde_json::json!({"role": said.by.role(), "content": said.text})
}
