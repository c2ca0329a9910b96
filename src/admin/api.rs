//! What each route answers. Runs on the admin threads; who may ask has been judged before.

use std::sync::Arc;

use serde_json::{json, Value};

use super::exposition;
use super::process::Process;
use super::readiness;
use super::reply::missed;
use super::route::{Route, Surface};
use super::tools;
use super::{Backend, BrainView, ChannelView, ConsoleMessage, ConsoleRefusal};
use crate::base::clock::Clock;
use crate::domain::brain::{Dispatch, Locality, Sensitivity};
use crate::domain::ids::{BrainName, Conversation, MessageId};
use crate::domain::message::Language;
use crate::domain::privacy;
use crate::net::front::Response;
use crate::watch::metrics::Metrics;

/// Seconds after which whoever found no room may come again.
const COME_AGAIN_S: &str = "5";

/// What answers.
pub(super) struct Api {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) metrics: Metrics,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) surface: Surface,
    /// Bytes of a message's text.
    pub(super) text_bytes: usize,
}

/// A request as the API needs it.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) idempotency_key: Option<String>,
    /// What its `Accept-Language` asks for.
    pub(super) language: Language,
    pub(super) body: Vec<u8>,
}

impl Api {
    /// Blocks: as the [`Backend`] does.
    pub(super) fn answer(&self, asked: &Asked) -> Response {
        match Route::of(&asked.method, &asked.path, self.surface) {
            Err(miss) => missed(miss),
            Ok(Route::Ready) => self.ready(),
            Ok(Route::Metrics) => {
                self.backend.measure();
                let body = exposition::render(&self.metrics.snapshot(), &Process::read());
                Response::new(200)
                    .with("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                    .body(body.into_bytes())
            }
            Ok(Route::Brains) => list(self.backend.brains().iter().map(brain)),
            Ok(Route::Channels) => list(self.backend.channels().iter().map(channel)),
            Ok(Route::Say(conversation)) => self.say(&conversation, asked),
            Ok(Route::Message(id)) => self.message(&id),
            Ok(Route::Tools(brain)) => self.tools(&brain),
        }
    }

    fn ready(&self) -> Response {
        let (ready, body) = readiness::judge(
            &self.backend.health(),
            &self.backend.channels(),
            &self.backend.brains(),
            self.clock.unix(),
        );
        Response::json(if ready { 200 } else { 503 }, body.to_string())
    }

    fn say(&self, conversation: &Conversation, asked: &Asked) -> Response {
        if conversation.channel.as_str() != "console" {
            let message = "only console conversations take messages here";
            return Response::error(409, "not_console", message);
        }
        let text = match text_of(&asked.body, self.text_bytes) {
            Ok(text) => text,
            Err(response) => return response,
        };
        let message = ConsoleMessage {
            id: &conversation.id,
            text: &text,
            idempotency_key: asked.idempotency_key.as_deref(),
            language: asked.language,
        };
        let busy =
            |message| Response::error(503, "busy", message).with("Retry-After", COME_AGAIN_S);
        match self.backend.console_message(&message) {
            Ok(id) => Response::json(202, json!({ "message_id": id.as_str() }).to_string()),
            Err(ConsoleRefusal::NoSuchBrain) => {
                Response::error(404, "not_found", "no configured brain has this name")
            }
            Err(ConsoleRefusal::Full) => busy("too many unfinished messages, come again later"),
            Err(ConsoleRefusal::Store) => {
                busy("the message cannot be stored now, come again later")
            }
        }
    }

    fn message(&self, id: &MessageId) -> Response {
        match self.backend.message(id) {
            Ok(Some(view)) => {
                let answer = view.answer.map(|answer| {
                    json!({
                        "message_id": answer.message_id.as_str(),
                        "role": answer.role,
                        "text": answer.text,
                    })
                });
                let body = json!({
                    "state": view.state,
                    "delivery": view.delivery,
                    "answer": answer,
                });
                Response::json(200, body.to_string())
            }
            Ok(None) => Response::error(404, "not_found", "there is no message of this id"),
            Err(error) => unread("admin_message_not_read", &error),
        }
    }

    fn tools(&self, brain: &BrainName) -> Response {
        match self.backend.tools(brain) {
            Ok(Some(view)) => Response::json(200, tools::body(&view).to_string()),
            Ok(None) => Response::error(404, "not_found", "no configured brain has this name"),
            Err(error) => unread("admin_tools_not_read", &error),
        }
    }
}

fn unread(what: &str, error: &str) -> Response {
    log::warn!(error = error; "{what}");
    let message = "the store cannot be read now, come again later";
    Response::error(503, "unavailable", message).with("Retry-After", COME_AGAIN_S)
}

fn list(items: impl Iterator<Item = Value>) -> Response {
    Response::json(200, Value::Array(items.collect()).to_string())
}

/// The text of `{"text": ...}`.
fn text_of(body: &[u8], text_bytes: usize) -> Result<String, Response> {
    let refusal = |status, code, message| Err(Response::error(status, code, message));
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else {
        return refusal(400, "invalid_json", "the body must be one JSON object");
    };
    match fields.remove("text") {
        Some(Value::String(text)) if text.len() > text_bytes => {
            refusal(413, "too_large", "a text takes 64 KiB at most")
        }
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        None | Some(Value::Null | Value::String(_)) => {
            refusal(400, "missing_content", "say something in text")
        }
        Some(_) => refusal(400, "invalid_value", "text must be a string"),
    }
}

/// A brain as `/api/brains` shows it.
fn brain(view: &BrainView) -> Value {
    let brain = &view.brain;
    let eligible = privacy::eligible(brain).into_iter().filter_map(|at| {
        let (model, known) = (&brain.models[at], view.models.get(at)?);
        Some(json!({
            "provider": model.provider.as_str(),
            "model_id": model.model_id.as_str(),
            "locality": match model.locality {
                Locality::Local => "local",
                Locality::Cloud => "cloud",
            },
            "tools": known.tools.word(),
            "state": known.state.word(),
        }))
    });
    let dropped = privacy::dropped(brain).into_iter().map(|(at, reason)| {
        let model = &brain.models[at];
        json!({
            "provider": model.provider.as_str(),
            "model_id": model.model_id.as_str(),
            "reason": reason,
        })
    });
    let policy = brain
        .policy
        .as_ref()
        .map(|policy| json!({ "kind": policy.kind.word(), "order": policy.order }));
    let agent = brain.agent.as_ref().map(|agent| {
        json!({
            "tools": agent.tools,
            "governed": agent.governance.is_some(),
            "shield": brain.sensitivity == Sensitivity::Private,
        })
    });
    json!({
        "name": brain.name.as_str(),
        "sensitivity": match brain.sensitivity {
            Sensitivity::Public => "public",
            Sensitivity::Private => "private",
        },
        "dispatch": match brain.dispatch {
            Dispatch::Fanout => "fanout",
            Dispatch::Sequential => "sequential",
        },
        "policy": policy,
        "models": eligible.collect::<Vec<_>>(),
        "dropped": dropped.collect::<Vec<_>>(),
        "agent": agent,
    })
}

/// A channel as `/api/channels` shows it.
fn channel(view: &ChannelView) -> Value {
    let (health, counts) = (&view.health, &view.health.counts);
    json!({
        "type": view.name.as_str(),
        "name": view.name.as_str(),
        "mode": view.mode,
        "state": health.state.word(),
        "since": health.since.rfc3339(),
        "last_error": health.last_error,
        "counts": {
            "received": counts.received,
            "ignored": counts.ignored,
            "dropped": counts.dropped,
            "sent": counts.sent,
            "failed": counts.failed,
            "queued": view.queued,
        },
    })
}
