//! Servers that speak OpenAI's `/chat/completions` (OpenAI API reference, "Chat completions"); Groq
//! is one of them with its own root. Tolerates what such servers send in the wild. Runs on the
//! thread of the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use serde_json::{json, Map, Value};

use super::endpoint::{Endpoint, Told};
use super::Provider;
use crate::base::clock::Deadline;
use crate::base::secret::Secret;
use crate::base::sync::lock;
use crate::domain::brain::{Model, Sensitivity, ToolLane};
use crate::domain::completion::{
    Completion, Failure, FailureKind, Lane, ModelFacts, Offer, Prompt, Turn,
};
use crate::domain::prompt::{Fitted, Fitter};
use crate::net::cancel::Cancel;
use crate::net::http::Wire;

/// Names of models that a detail lists at most.
const NAMES_SHOWN: usize = 8;

/// One model of an OpenAI-style server.
#[derive(Debug)]
pub(super) struct OpenAi {
    endpoint: Endpoint,
    model_id: String,
    options: Map<String, Value>,
    tools: ToolLane,
    /// Whether the model was told of tools by the protocol and refused.
    refused_tools: AtomicBool,
    known: Mutex<Option<ModelFacts>>,
    fitter: Mutex<Fitter>,
}

impl OpenAi {
    pub(super) fn new(
        model: &Model,
        sensitivity: Sensitivity,
        key: Option<&Secret>,
        wire: &Wire,
    ) -> OpenAi {
        OpenAi {
            endpoint: Endpoint::new(model, sensitivity, key, wire),
            model_id: model.model_id.as_str().to_owned(),
            options: model.options.clone(),
            tools: model.tools,
            refused_tools: AtomicBool::new(false),
            known: Mutex::new(None),
            fitter: Mutex::new(Fitter::new()),
        }
    }

    fn request(&self, fitted: &Fitted, offer: &Offer) -> Value {
        let mut body = self.options.clone();
        body.insert("model".into(), self.model_id.as_str().into());
        let said = fitted.said.iter().map(super::message);
        let messages = said.chain(fitted.turns.iter().map(turn)).collect();
        body.insert("messages".into(), Value::Array(messages));
        if let Some(tools) = super::tools(offer) {
            body.insert("tools".into(), tools);
        }
        body.insert("stream".into(), false.into());
        Value::Object(body)
    }

    fn body(&self, detail: &str) -> Failure {
        self.endpoint.failure(FailureKind::Body, detail)
    }

    /// An `error` member in an answer of status 200: its own code counts, if it has one.
    fn error_inside(&self, error: &Value) -> Failure {
        let told = Told::of(error);
        let status = match told.code {
            Some(code) if (400..600).contains(&code) => code,
            _ if told.quota() => 429,
            _ => 500,
        };
        self.endpoint.told(status, &told)
    }

    fn completion(
        &self,
        answer: &Value,
        offer: &Offer,
        left_out: u32,
    ) -> Result<Completion, Failure> {
        if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
            return Err(self.error_inside(error));
        }
        let choice = answer["choices"]
            .get(0)
            .ok_or_else(|| self.body("the answer has no choices"))?;
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            return Err(self.error_inside(error));
        }
        let finish = choice["finish_reason"].as_str().unwrap_or_default();
        if finish == "content_filter" {
            return Err(self.endpoint.failure(
                FailureKind::Refused,
                "the provider's content filter refused",
            ));
        }
        let message = choice
            .get("message")
            .filter(|message| message.is_object())
            .ok_or_else(|| self.body("the answer has no choices[0].message"))?;
        let content =
            content(message).ok_or_else(|| self.body("choices[0].message.content is no text"))?;
        let cut = finish == "length";
        let calls = super::calls_of(message, offer, self.endpoint.limits());
        let mut text = super::words(&content, offer);
        if text.trim().is_empty() && calls.is_empty() {
            // A refusal has words of its own: they are the answer.
            text = message["refusal"].as_str().unwrap_or_default().to_owned();
        }
        if text.trim().is_empty() && calls.is_empty() {
            return Err(self.endpoint.failure(
                FailureKind::Empty,
                if cut {
                    "the model's length limit left no words of an answer"
                } else {
                    "the model answered with nothing"
                },
            ));
        }
        Ok(Completion {
            text,
            calls,
            cut,
            left_out,
        })
    }
}

impl Provider for OpenAi {
    fn chat(
        &self,
        prompt: &Prompt,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Completion, Failure> {
        let context_tokens = self
            .known()
            .and_then(|facts| facts.context_tokens)
            .unwrap_or(u32::MAX);
        let fitted = lock(&self.fitter).fit(prompt, context_tokens);
        let body = self.request(&fitted, &prompt.offer);
        let response = self
            .endpoint
            .send("/chat/completions", Some(&body), deadline, cancel)?;
        if !(200..300).contains(&response.status) {
            let told = Told::read(&response.body);
            if let Some(completion) = super::unreadable(&told, &prompt.offer) {
                let left_out = fitted.left_out;
                return Ok(Completion {
                    left_out,
                    ..completion
                });
            }
            let failure = self.endpoint.refusal(&response);
            if failure.kind == FailureKind::ToolsUnsupported {
                self.refused_tools.store(true, Ordering::Relaxed);
            }
            return Err(failure);
        }
        let answer = self.endpoint.json(&response)?;
        let tokens = answer["usage"]["prompt_tokens"].as_u64();
        if let Some(tokens) = tokens.and_then(|tokens| u32::try_from(tokens).ok()) {
            lock(&self.fitter).learn(fitted.estimated_tokens, tokens);
        }
        self.completion(&answer, &prompt.offer, fitted.left_out)
    }

    /// By the protocol unless the file or the server objects: such servers do not tell before.
    fn lane(&self, _: Deadline, _: &Cancel) -> Result<Lane, Failure> {
        let refused = self.refused_tools.load(Ordering::Relaxed);
        Ok(match self.tools {
            ToolLane::Auto | ToolLane::Native if !refused => Lane::Native,
            ToolLane::Auto | ToolLane::Native | ToolLane::Text => Lane::Text,
        })
    }

    fn known(&self) -> Option<ModelFacts> {
        lock(&self.known).clone()
    }

    /// By the list of models; a server without one is believed.
    fn look(&self, deadline: Deadline, cancel: &Cancel) -> Result<ModelFacts, Failure> {
        let response = self.endpoint.send("/models", None, deadline, cancel)?;
        let facts = match response.status {
            200..=299 => self.listed(&self.endpoint.json(&response)?)?,
            404 | 405 | 501 => ModelFacts::default(),
            _ => return Err(self.endpoint.refusal(&response)),
        };
        *lock(&self.known) = Some(facts.clone());
        Ok(facts)
    }

    fn warm_up(&self, _: Deadline, _: &Cancel) -> Result<(), Failure> {
        Ok(())
    }
}

impl OpenAi {
    /// The facts of this model in the answer of `/models`.
    fn listed(&self, list: &Value) -> Result<ModelFacts, Failure> {
        let Some(models) = list["data"].as_array() else {
            return Err(self.body("the answer of /models has no data"));
        };
        let id = |model: &Value| model["id"].as_str().map(str::to_owned);
        let Some(model) = models
            .iter()
            .find(|model| model["id"].as_str() == Some(self.model_id.as_str()))
        else {
            let names: Vec<String> = models.iter().filter_map(id).take(NAMES_SHOWN).collect();
            let mut failure = self.endpoint.failure(
                FailureKind::Status,
                &format!(
                    "{} does not list the model {}; it lists {} models, among them: {}",
                    self.endpoint.shown(),
                    self.model_id,
                    models.len(),
                    names.join(", ")
                ),
            );
            failure.status = Some(404);
            return Err(failure);
        };
        // Groq, OpenRouter, vLLM, each by its own name.
        let context_tokens = ["context_window", "context_length", "max_model_len"]
            .iter()
            .find_map(|key| model.get(key)?.as_u64())
            .and_then(|tokens| u32::try_from(tokens).ok())
            .filter(|tokens| *tokens > 0);
        Ok(ModelFacts {
            context_tokens,
            tools: None,
            remote: None,
        })
    }
}

/// What happened in a run, as the API has it: arguments as text, results by the call's id.
fn turn(turn: &Turn) -> Value {
    match turn {
        Turn::Said(said) => super::message(said),
        Turn::Called { text, calls } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let function =
                        json!({"name": call.name, "arguments": call.written_arguments()});
                    json!({"id": call.id, "type": "function", "function": function})
                })
                .collect();
            // A blank text beside calls is refused by some servers, null by none.
            let content = Some(text).filter(|text| !text.trim().is_empty());
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Turn::Observed { id, text, .. } => {
            json!({"role": "tool", "tool_call_id": id, "content": text})
        }
    }
}

/// The text of a message: a string, nothing, or an array of parts of which the texts count.
fn content(message: &Value) -> Option<String> {
    match message.get("content") {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(parts)) => Some(
            parts
                .iter()
                .filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()))
                .collect(),
        ),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_text_nothing_or_parts() {
        for (message, text) in [
            (json!({"content": "a"}), Some("a")),
            (json!({"content": null}), Some("")),
            (json!({}), Some("")),
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                Some("ab"),
            ),
            (
                json!({"content": [{"type": "image_url"}, "c", 5, null]}),
                Some("c"),
            ),
            (json!({"content": []}), Some("")),
            (json!({"content": {"text": "a"}}), None),
            (json!({"content": 5}), None),
        ] {
            assert_eq!(content(&message).as_deref(), text, "{message}");
        }
    }
}
