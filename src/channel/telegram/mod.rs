//! Telegram: messages in by long polling on the thread `in:telegram`, answers out by the delivery
//! threads, signs of life by `typing:telegram`. Never acknowledges an update before it is stored, and
//! never shows the token, which stands in the path of each call.

mod api;
pub mod flood;
mod listen;
mod look;
pub mod offset;
mod place;
pub mod poll;
mod render;
pub mod update;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{json, Value};

use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::base::sync::{lock, spawn, Stop};
use crate::config::plan::Chat;
use crate::domain::command::Entry;
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::limits::Limits;
use crate::domain::message::{Language, Outgoing};
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;
use crate::net::http::Wire;
use crate::watch::Watch;

use super::port::{Channel, Intake, SendFailure, StartError, Working};
use super::rules::Rules;
use super::typing::Typing;
use api::{Api, Call, Line};
use flood::Flood;
use listen::Listener;
use place::{Answerable, Place};
use render::Part;

pub use api::{Failure, Refused};
pub use look::look;

/// The stack of the threads: TLS and JSON of a bounded depth.
const STACK: usize = 512 * 1024;
/// How long a stop waits for the poll to end: its socket is closed, only a connect goes on.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How long a message waits for a sign to the same chat that is on its way.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// How long one sign may take: it is late then.
const SIGN_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer to a message: it is the message again.
const ANSWER_BYTES: usize = 256 * 1024;
/// Groups of which the new id is remembered; it comes back with the next refusal otherwise.
const MOVED_MOST: usize = 256;
/// What Telegram takes as the name of a command (Bot API, `BotCommand`), and how many.
const COMMAND_MOST: usize = 32;
const COMMANDS_MOST: usize = 100;

/// What the channel is built with.
pub struct Parts {
    /// Its name.
    pub name: ChannelName,
    /// Its block of the configuration.
    pub settings: Chat,
    /// The bot's token.
    pub token: Secret,
    /// Words that are commands here, each with its slash.
    pub commands: Vec<String>,
    /// The commands that people are told of.
    pub menu: Vec<Entry>,
    /// The way out.
    pub wire: Wire,
    /// Where it reports.
    pub watch: Watch,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Every maximum.
    pub limits: Limits,
}

/// The Telegram channel.
pub struct Telegram {
    shared: Arc<Shared>,
    /// Raised when the poll has ended; none before it has begun.
    polled: Mutex<Option<Stop>>,
}

/// What its threads share.
struct Shared {
    parts: Parts,
    api: Api,
    rules: Rules,
    /// Ends polling.
    cancel: Cancel,
    typing: Arc<Typing<Place>>,
    flood: Mutex<Flood>,
    /// Groups that have become supergroups: the old id is dead.
    moved: Mutex<BTreeMap<i64, i64>>,
}

impl Telegram {
    /// Builds the channel; opens nothing.
    ///
    /// # Errors
    /// A [`StartError`] when `base_url` is no URL.
    pub fn new(parts: Parts) -> Result<Telegram, StartError> {
        let root = Url::parse(&parts.settings.base_url).map_err(|error| StartError {
            message: format!("{}: base_url: {error}", parts.name),
        })?;
        let limits = &parts.limits;
        Ok(Telegram {
            polled: Mutex::new(None),
            shared: Arc::new(Shared {
                api: Api::new(&root, &parts.token, &parts.wire),
                rules: Rules {
                    channel: parts.name.clone(),
                    allow_from: parts.settings.allow_from.clone(),
                    respond: parts.settings.respond,
                    commands: parts.commands.clone(),
                    text_bytes: limits.text_bytes,
                },
                cancel: Cancel::new(),
                typing: Arc::new(Typing::new(
                    limits.typing_after,
                    limits.typing_again,
                    parts.clock.clone(),
                )),
                flood: Mutex::new(Flood::new(limits.chats_known)),
                moved: Mutex::default(),
                parts,
            }),
        })
    }
}

impl Channel for Telegram {
    fn start(&self, intake: Arc<dyn Intake>) -> Result<(), StartError> {
        let failed = |error: std::io::Error| StartError {
            message: format!(
                "cannot start a thread of {}: {error}",
                self.shared.parts.name
            ),
        };
        let name = &self.shared.parts.name;
        let shared = self.shared.clone();
        spawn(&format!("typing:{name}"), STACK, move || {
            let typing = shared.typing.clone();
            typing.work(|place, cancel| shared.sign(place, cancel));
        })
        .map_err(failed)?;
        let polled = Stop::new();
        let (ended, listener) = (polled.clone(), Listener::new(self.shared.clone(), intake));
        *lock(&self.polled) = Some(polled);
        spawn(&format!("in:{name}"), STACK, move || {
            listener.work();
            ended.raise();
        })
        .map_err(failed)?;
        Ok(())
    }

    fn send(
        &self,
        outgoing: &Outgoing,
        confirmed: &dyn Fn(u32),
        cancel: &Cancel,
    ) -> Result<(), SendFailure> {
        let Some(place) = Place::of_id(&outgoing.conversation.id) else {
            return Err(never("the conversation's id is no chat of Telegram's"));
        };
        let parts = render::parts(&outgoing.text);
        if parts.is_empty() {
            return Err(never("there is nothing in it that Telegram would show"));
        }
        let reply_to = Answerable::message_of(outgoing.reply_to.as_deref());
        let line = if outgoing.attempts == 0 {
            Line::Kept
        } else {
            Line::Fresh
        };
        for (n, part) in (1..).zip(&parts) {
            if n > outgoing.parts_sent {
                let reply_to = reply_to.filter(|_| n == 1);
                let way = Way { line, cancel };
                self.shared.send_part(place, part, reply_to, &way)?;
                confirmed(n);
            }
        }
        Ok(())
    }

    fn working(&self, conversation: &Conversation) -> Option<Working> {
        let place = Place::of_id(&conversation.id)?;
        Some(Box::new(self.shared.typing.begin(place)))
    }

    fn stop(&self) {
        self.shared.cancel.raise();
        self.shared.typing.end();
        if let Some(polled) = &*lock(&self.polled) {
            if !polled.wait(STOP_PATIENCE) {
                log::debug!(
                    "a connection of Telegram's poll is still being made; it ends by itself"
                );
            }
        }
    }
}

fn never(reason: &str) -> SendFailure {
    SendFailure::Never {
        reason: reason.to_owned(),
    }
}

/// How a message goes out.
struct Way<'a> {
    line: Line,
    cancel: &'a Cancel,
}

/// With which markup a part is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Plain,
}

impl Shared {
    /// Sends one part: once more plain where Telegram does not take the markup, once more to the new
    /// chat where the group has moved.
    fn send_part(
        &self,
        place: Place,
        part: &Part,
        reply_to: Option<i64>,
        way: &Way<'_>,
    ) -> Result<(), SendFailure> {
        let mut form = Form::Html;
        let mut moved = false;
        loop {
            let chat = self.chat_of(place.chat);
            let now = self.parts.clock.now();
            lock(&self.flood)
                .take(chat, now)
                .map_err(|(wait, held)| SendFailure::NotYet { wait, held })?;
            let target = Place { chat, ..place };
            self.typing.quiet(place, QUIET_WITHIN);
            // The numbers of the messages stayed with the old chat.
            let reply_to = reply_to.filter(|_| chat == place.chat);
            let params = message(target, part, form, reply_to);
            let sent = self.api.call(&Call {
                method: "sendMessage",
                params: &params,
                within: self.parts.limits.chat_call,
                cancel: way.cancel,
                body_most: ANSWER_BYTES,
                line: way.line,
            });
            let Some(failure) = sent.err().filter(|failure| !failure.is_done()) else {
                lock(&self.flood).sent(chat, self.parts.clock.now());
                return Ok(());
            };
            match &failure {
                Failure::Refused(refused) if form == Form::Html && refused.about_markup() => {
                    log::warn!(channel = self.parts.name.as_str(), error = refused.description.as_str(); "Telegram does not take the markup of an answer, it is sent plain");
                    form = Form::Plain;
                }
                Failure::Refused(Refused {
                    migrate_to: Some(to),
                    ..
                }) if !moved => {
                    self.moved(chat, *to);
                    moved = true;
                }
                _ => return Err(self.send_failure(chat, &failure)),
            }
        }
    }

    fn send_failure(&self, chat: i64, failure: &Failure) -> SendFailure {
        let reason = failure.told("sendMessage");
        match failure {
            Failure::Refused(Refused {
                retry_after: Some(wait),
                ..
            }) => SendFailure::Flood {
                wait: *wait,
                held: lock(&self.flood).limited(chat, self.parts.clock.now(), *wait),
                reason,
            },
            // A token that was mistyped is put right within the day; then the answers go out.
            Failure::Refused(refused) if matches!(refused.code, 401 | 404 | 409 | 500..) => {
                SendFailure::Again {
                    after: None,
                    reason,
                }
            }
            Failure::Refused(_) | Failure::Net(HttpError::Shield(_) | HttpError::Request(_)) => {
                SendFailure::Never { reason }
            }
            Failure::Net(_) | Failure::Odd { .. } | Failure::Unreadable { .. } => {
                SendFailure::Again {
                    after: None,
                    reason,
                }
            }
        }
    }

    /// Shows in a chat that an answer is being made; says how long the next sign has to wait beyond
    /// the usual. Failures matter to nobody.
    fn sign(&self, place: Place, cancel: &Cancel) -> Duration {
        let chat = self.chat_of(place.chat);
        let now = self.parts.clock.now();
        if let Some(wait) = lock(&self.flood).wait(chat, now) {
            return wait;
        }
        let mut params = json!({ "chat_id": chat, "action": "typing" });
        if let Some(topic) = place.topic {
            params["message_thread_id"] = json!(topic);
        }
        let signed = self.api.call(&Call {
            method: "sendChatAction",
            params: &params,
            within: SIGN_WITHIN,
            cancel,
            body_most: ANSWER_BYTES,
            line: Line::Kept,
        });
        match signed {
            Err(Failure::Refused(Refused {
                retry_after: Some(wait),
                ..
            })) => wait,
            _ => Duration::ZERO,
        }
    }

    /// The id under which a chat is known today.
    fn chat_of(&self, chat: i64) -> i64 {
        lock(&self.moved).get(&chat).copied().unwrap_or(chat)
    }

    fn moved(&self, from: i64, to: i64) {
        let mut moved = lock(&self.moved);
        if moved.len() >= MOVED_MOST {
            moved.pop_first();
        }
        if moved.insert(from, to) != Some(to) {
            log::info!(channel = self.parts.name.as_str(), from = from, to = to; "a group has become a supergroup");
        }
    }

    /// What Telegram is told of the commands, without those whose names it would refuse. English is
    /// for all who read no language that has a list of its own.
    fn announced(&self, language: Language) -> Value {
        let shown = self.parts.menu.iter().filter_map(|entry| {
            let what = match language {
                Language::En => entry.docs.en,
                Language::Es => entry.docs.es,
            };
            let name = entry.word.strip_prefix('/')?;
            let sound = !name.is_empty()
                && name.len() <= COMMAND_MOST
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            sound.then(|| json!({ "command": name, "description": what }))
        });
        let shown: Vec<Value> = shown.take(COMMANDS_MOST).collect();
        match language {
            Language::En => json!({ "commands": shown }),
            Language::Es => json!({ "commands": shown, "language_code": language.tag() }),
        }
    }
}

impl Refused {
    /// Whether the markup is what Telegram does not take: it cannot be parsed, there is too much of
    /// it (`ENTITIES_TOO_LONG`, an answer full of links), or a link is none (`ENTITY_..._INVALID`).
    fn about_markup(&self) -> bool {
        let said = self.description.to_ascii_lowercase();
        self.code == 400
            && ["parse entities", "entities_", "entity_"]
                .iter()
                .any(|word| said.contains(word))
    }
}

fn message(target: Place, part: &Part, form: Form, reply_to: Option<i64>) -> Value {
    let mut params = json!({
        "chat_id": target.chat,
        "text": match form {
            Form::Html => &part.html,
            Form::Plain => &part.plain,
        },
        // A preview would have Telegram fetch whatever address a model has written.
        "link_preview_options": { "is_disabled": true },
    });
    if form == Form::Html {
        params["parse_mode"] = json!("HTML");
    }
    if let Some(topic) = target.topic {
        params["message_thread_id"] = json!(topic);
    }
    if let Some(message) = reply_to {
        params["reply_parameters"] = json!({
            "message_id": message,
            "allow_sending_without_reply": true,
        });
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_of_markup_leads_to_a_plain_message() {
        for (code, description, about) in [
            (
                400,
                "Bad Request: can't parse entities: Unsupported start tag",
                true,
            ),
            (400, "Bad Request: ENTITIES_TOO_LONG", true),
            (400, "Bad Request: entities_too_long", true),
            (400, "Bad Request: ENTITY_TEXTURL_INVALID", true),
            (400, "Bad Request: message is too long", false),
            (400, "Bad Request: chat not found", false),
            (403, "Forbidden: can't parse entities", false),
        ] {
            let refused = Refused {
                code,
                description: description.to_owned(),
                ..Refused::default()
            };
            assert_eq!(refused.about_markup(), about, "{code} {description}");
        }
    }
}
