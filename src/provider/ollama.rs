//! Ollama by its native API (Ollama docs, `api.md`): `/api/chat` and `/api/show`. Runs on the thread
//! of the run; sends a model of a private brain nothing before it has told where it runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

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
use crate::domain::prompt::Fitter;
use crate::net::cancel::Cancel;
use crate::net::http::{Response, Wire};

/// Tokens of context where the file does not say: what Ollama itself takes on a small machine.
const CONTEXT_TOKENS: u32 = 4096;

/// One model of an Ollama server.
#[derive(Debug)]
pub(super) struct Ollama {
    endpoint: Endpoint,
    model_id: String,
    options: Map<String, Value>,
    keep_alive: Option<Value>,
    think: Option<Value>,
    sensitivity: Sensitivity,
    tools: ToolLane,
    /// Whether the model was told of tools by the protocol and refused.
    refused_tools: AtomicBool,
    known: Mutex<Option<Known>>,
    fitter: Mutex<Fitter>,
    warned: AtomicBool,
}

/// What `/api/chat` gives.
enum Answer {
    /// The JSON of an answer.
    Whole(Value),
    /// A call that the server itself could not read.
    Unreadable(Completion),
}

/// What `/api/show` said, and when.
#[derive(Clone, Debug)]
struct Known {
    facts: ModelFacts,
    at: Instant,
}

impl Ollama {
    pub(super) fn new(
        model: &Model,
        sensitivity: Sensitivity,
        key: Option<&Secret>,
        wire: &Wire,
    ) -> Ollama {
        Ollama {
            endpoint: Endpoint::new(model, sensitivity, key, wire),
            model_id: model.model_id.as_str().to_owned(),
            options: model.options.clone(),
            keep_alive: model.keep_alive.clone(),
            think: model.think.clone(),
            sensitivity,
            tools: model.tools,
            refused_tools: AtomicBool::new(false),
            known: Mutex::new(None),
            fitter: Mutex::new(Fitter::new()),
            warned: AtomicBool::new(false),
        }
    }

    /// What is known of the model, asked anew when it is too old.
    fn facts(&self, deadline: Deadline, cancel: &Cancel) -> Result<ModelFacts, Failure> {
        let known = lock(&self.known).clone();
        let kept = self.endpoint.limits().model_facts_kept;
        let facts = match known {
            Some(known) if self.endpoint.now().duration_since(known.at) < kept => known.facts,
            Some(known) if self.sensitivity == Sensitivity::Public => {
                // Nothing hangs on it here but the context's length, which seldom changes.
                self.look(deadline, cancel).unwrap_or(known.facts)
            }
            _ => self.look(deadline, cancel)?,
        };
        match &facts.remote {
            Some(host) if self.sensitivity == Sensitivity::Private => Err(self.elsewhere(host)),
            _ => Ok(facts),
        }
    }

    fn remember(&self, facts: &ModelFacts) {
        *lock(&self.known) = Some(Known {
            facts: facts.clone(),
            at: self.endpoint.now(),
        });
    }

    fn elsewhere(&self, host: &str) -> Failure {
        self.endpoint.failure(
            FailureKind::Shield,
            &format!(
                "the model {} runs on {host}, not on this server: a private brain does not ask it",
                self.model_id
            ),
        )
    }

    /// The same in every call to the model: another value would have it loaded anew.
    fn context_tokens(&self, facts: &ModelFacts) -> u32 {
        self.options
            .get("num_ctx")
            .and_then(|value| u32::try_from(value.as_u64()?).ok())
            .unwrap_or_else(|| {
                facts
                    .context_tokens
                    .unwrap_or(CONTEXT_TOKENS)
                    .min(CONTEXT_TOKENS)
            })
    }

    fn request(&self, messages: Vec<Value>, context_tokens: u32) -> Value {
        let mut options = self.options.clone();
        options.insert("num_ctx".into(), context_tokens.into());
        let mut body = json!({
            "model": self.model_id,
            "messages": messages,
            "stream": false,
            "options": options,
        });
        if let Some(keep_alive) = &self.keep_alive {
            body["keep_alive"] = keep_alive.clone();
        }
        if let Some(think) = &self.think {
            body["think"] = think.clone();
        }
        body
    }

    /// What `/api/chat` gave.
    fn chat_answer(
        &self,
        body: &Value,
        offer: &Offer,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Answer, Failure> {
        let response = self
            .endpoint
            .send("/api/chat", Some(body), deadline, cancel)?;
        if !(200..300).contains(&response.status) {
            let told = Told::read(&response.body);
            return match super::unreadable(&told, offer) {
                Some(completion) => Ok(Answer::Unreadable(completion)),
                None => Err(self.refusal(&response)),
            };
        }
        let answer = self.endpoint.json(&response)?;
        if let Some(error) = answer.get("error") {
            let told = Told::of(error);
            return match super::unreadable(&told, offer) {
                Some(completion) => Ok(Answer::Unreadable(completion)),
                None => Err(self.endpoint.told(500, &told)),
            };
        }
        if let Some(host) = remote(&answer) {
            let mut facts = self.known().unwrap_or_default();
            facts.remote = Some(host.clone());
            self.remember(&facts);
            if self.sensitivity == Sensitivity::Private {
                return Err(self.elsewhere(&host));
            }
        }
        Ok(Answer::Whole(answer))
    }

    fn refusal(&self, response: &Response) -> Failure {
        let mut failure = self.endpoint.refusal(response);
        if model_not_found(response) {
            failure.detail = format!(
                "the model {} is not on {}: run `ollama pull {}`",
                self.model_id,
                self.endpoint.shown(),
                self.model_id
            );
        }
        failure
    }
}

impl Provider for Ollama {
    fn chat(
        &self,
        prompt: &Prompt,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Completion, Failure> {
        let facts = self.facts(deadline, cancel)?;
        let context_tokens = self.context_tokens(&facts);
        let fitted = lock(&self.fitter).fit(prompt, context_tokens);
        let said = fitted.said.iter().map(super::message);
        let messages = said.chain(fitted.turns.iter().map(turn)).collect();
        let mut body = self.request(messages, context_tokens);
        if let Some(tools) = super::tools(&prompt.offer) {
            body["tools"] = tools;
        }
        let answer = match self.chat_answer(&body, &prompt.offer, deadline, cancel) {
            Ok(Answer::Whole(answer)) => answer,
            Ok(Answer::Unreadable(completion)) => {
                let left_out = fitted.left_out;
                return Ok(Completion {
                    left_out,
                    ..completion
                });
            }
            Err(failure) => {
                if failure.kind == FailureKind::ToolsUnsupported {
                    self.refused_tools.store(true, Ordering::Relaxed);
                }
                return Err(failure);
            }
        };
        if let Some(tokens) = answer["prompt_eval_count"]
            .as_u64()
            .and_then(|tokens| u32::try_from(tokens).ok())
        {
            lock(&self.fitter).learn(fitted.estimated_tokens, tokens);
        }
        let calls = super::calls_of(&answer["message"], &prompt.offer, self.endpoint.limits());
        let content = match answer["message"]["content"].as_str() {
            Some(content) => content,
            None if !calls.is_empty() => "",
            None => {
                return Err(self.endpoint.failure(
                    FailureKind::Body,
                    "the answer of /api/chat has no message.content",
                ))
            }
        };
        if answer["done"] == Value::Bool(false) {
            return Err(self
                .endpoint
                .failure(FailureKind::Body, "the answer of /api/chat is unfinished"));
        }
        let cut = answer["done_reason"] == "length";
        let text = super::words(content, &prompt.offer);
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
            left_out: fitted.left_out,
        })
    }

    fn lane(&self, deadline: Deadline, cancel: &Cancel) -> Result<Lane, Failure> {
        if self.tools == ToolLane::Text || self.refused_tools.load(Ordering::Relaxed) {
            return Ok(Lane::Text);
        }
        if self.tools == ToolLane::Native {
            return Ok(Lane::Native);
        }
        Ok(match self.facts(deadline, cancel)?.tools {
            Some(true) => Lane::Native,
            // A server that does not tell may hand tools on to a template that knows none.
            Some(false) | None => Lane::Text,
        })
    }

    fn known(&self) -> Option<ModelFacts> {
        lock(&self.known).as_ref().map(|known| known.facts.clone())
    }

    fn look(&self, deadline: Deadline, cancel: &Cancel) -> Result<ModelFacts, Failure> {
        let body = json!({"model": self.model_id});
        let response = self
            .endpoint
            .send("/api/show", Some(&body), deadline, cancel)?;
        let facts = match response.status {
            200..=299 => facts(&self.endpoint.json(&response)?),
            // A server that has no such question: what the file declares is all there is.
            405 | 501 => ModelFacts::default(),
            404 if !model_not_found(&response) => ModelFacts::default(),
            _ => return Err(self.refusal(&response)),
        };
        if !(200..300).contains(&response.status) && !self.warned.swap(true, Ordering::Relaxed) {
            log::warn!(
                model = self.model_id.as_str(), server:% = self.endpoint.shown(), status = response.status;
                "the server does not tell where the model runs; as declared"
            );
        }
        self.remember(&facts);
        Ok(facts)
    }

    fn warm_up(&self, deadline: Deadline, cancel: &Cancel) -> Result<(), Failure> {
        let facts = self.facts(deadline, cancel)?;
        // Without messages the server only loads the model.
        let body = self.request(Vec::new(), self.context_tokens(&facts));
        self.chat_answer(&body, &Offer::Nothing, deadline, cancel)
            .map(|_| ())
    }
}

/// What happened in a run, as Ollama has it: arguments as an object, results by the tool's name.
fn turn(turn: &Turn) -> Value {
    match turn {
        Turn::Said(said) => super::message(said),
        Turn::Called { text, calls } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    let arguments = call.sent_arguments();
                    json!({"function": {"name": call.name, "arguments": arguments}})
                })
                .collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Turn::Observed { name, text, .. } => {
            json!({"role": "tool", "content": text, "tool_name": name})
        }
    }
}

/// Ollama's own `model 'x' not found`, as against any other 404.
fn model_not_found(response: &Response) -> bool {
    let told = Told::read(&response.body).text.to_lowercase();
    response.status == 404 && told.contains("model") && told.contains("not found")
}

/// Where the model really runs, by `/api/show` or an answer.
fn remote(answer: &Value) -> Option<String> {
    ["remote_host", "remote_model"]
        .iter()
        .filter_map(|key| answer.get(key))
        .find(|value| !value.is_null() && value.as_str() != Some(""))
        .map(|value| value.as_str().unwrap_or("another host").to_owned())
}

fn facts(shown: &Value) -> ModelFacts {
    let info = shown["model_info"].as_object();
    let context_tokens = info.and_then(|info| {
        let architecture = info.get("general.architecture").and_then(Value::as_str);
        let own = architecture.and_then(|name| info.get(&format!("{name}.context_length")));
        let any = || {
            info.iter()
                .find(|(key, _)| key.ends_with(".context_length"))
                .map(|(_, value)| value)
        };
        let tokens = own.or_else(any)?.as_u64()?;
        u32::try_from(tokens).ok().filter(|tokens| *tokens > 0)
    });
    ModelFacts {
        context_tokens,
        tools: shown["capabilities"]
            .as_array()
            .map(|all| all.iter().any(|word| word == "tools")),
        remote: remote(shown),
    }
}
