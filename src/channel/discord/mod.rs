//! Discord: messages in by the gateway on the thread `in:discord`, answers out by the delivery threads
//! over the HTTP API, signs of life by `typing:discord`. Never acknowledges an event before it is
//! stored, and never lets an answer ring anybody's bell.

pub mod buckets;
pub mod event;
mod gateway;
mod look;
mod render;
mod rest;
pub mod session;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::base::sync::{lock, spawn, Stop};
use crate::config::plan::Chat;
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::limits::Limits;
use crate::domain::message::Outgoing;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;
use crate::net::http::Wire;
use crate::net::ws::Waker;
use crate::watch::Watch;

use super::port::{Channel, Held, Intake, SendFailure, StartError, Working};
use super::rules::Rules;
use super::typing::Typing;
use buckets::{Buckets, Route};
use gateway::Gateway;
use rest::{Api, Call, Failure, Line};

pub use look::look;

/// The stack of the threads: TLS and JSON of a bounded depth.
const STACK: usize = 512 * 1024;
/// How long a goodbye to the gateway may take.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);
/// How long a stop waits for the gateway to end: its socket is closed, only a connect goes on.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How long a message waits for a sign to the same channel that is on its way.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// How long one sign may take: it is late then.
const SIGN_WITHIN: Duration = Duration::from_secs(5);
/// Between two signs: Discord shows one for 10 s.
const SIGN_AGAIN: Duration = Duration::from_secs(8);
/// How long nothing is asked after Discord has refused the token: 10,000 refusals within ten minutes
/// have it ban the whole address.
const REFUSED_REST: Duration = Duration::from_secs(60);
/// No previews: Discord would fetch whatever address a model has written (flag SUPPRESS_EMBEDS).
const NO_PREVIEWS: u64 = 1 << 2;
/// Discord's code for a message that may not refer to another: the bot lacks the permission Read
/// Message History there.
const MAY_NOT_REFER: u64 = 160_002;
/// Bytes of a digest that make a nonce: 24 of the 25 characters that Discord takes.
const NONCE_BYTES: usize = 12;

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
    /// The way out.
    pub wire: Wire,
    /// Where it reports.
    pub watch: Watch,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Every maximum.
    pub limits: Limits,
}

/// The Discord channel.
pub struct Discord {
    shared: Arc<Shared>,
    /// Raised when the gateway's thread has ended; none before it has begun.
    listened: Mutex<Option<Stop>>,
}

/// What its threads share.
struct Shared {
    parts: Parts,
    api: Api,
    rules: Rules,
    /// Asks the gateway's thread to say goodbye; what wakes it where it listens.
    leaving: Stop,
    waker: Mutex<Option<Waker>>,
    /// Ends listening at once.
    cancel: Cancel,
    typing: Arc<Typing<u64>>,
    buckets: Mutex<Buckets>,
}

impl Discord {
    /// Builds the channel; opens nothing.
    ///
    /// # Errors
    /// A [`StartError`] when `base_url` is no URL.
    pub fn new(parts: Parts) -> Result<Discord, StartError> {
        let root = Url::parse(&parts.settings.base_url).map_err(|error| StartError {
            message: format!("{}: base_url: {error}", parts.name),
        })?;
        let limits = &parts.limits;
        Ok(Discord {
            listened: Mutex::new(None),
            shared: Arc::new(Shared {
                api: Api::new(&root, &parts.token, &parts.wire),
                rules: Rules {
                    channel: parts.name.clone(),
                    allow_from: parts.settings.allow_from.clone(),
                    respond: parts.settings.respond,
                    commands: parts.commands.clone(),
                    text_bytes: limits.text_bytes,
                },
                leaving: Stop::new(),
                waker: Mutex::new(None),
                cancel: Cancel::new(),
                typing: Arc::new(Typing::new(
                    limits.typing_after,
                    SIGN_AGAIN,
                    parts.clock.clone(),
                )),
                buckets: Mutex::new(Buckets::new(limits.chats_known, limits.discord_a_second)),
                parts,
            }),
        })
    }
}

impl Channel for Discord {
    fn start(&self, intake: Arc<dyn Intake>) -> Result<(), StartError> {
        let name = &self.shared.parts.name;
        let failed = |error: std::io::Error| StartError {
            message: format!("cannot start a thread of {name}: {error}"),
        };
        let shared = self.shared.clone();
        spawn(&format!("typing:{name}"), STACK, move || {
            let typing = shared.typing.clone();
            typing.work(|channel, cancel| shared.sign(channel, cancel));
        })
        .map_err(failed)?;
        let listened = Stop::new();
        let (ended, gateway) = (listened.clone(), Gateway::new(self.shared.clone(), intake));
        *lock(&self.listened) = Some(listened);
        spawn(&format!("in:{name}"), STACK, move || {
            gateway.work();
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
        let Some(channel) = channel_of(&outgoing.conversation) else {
            return Err(never("the conversation's id is no channel of Discord's"));
        };
        let parts = render::parts(&outgoing.text);
        if parts.is_empty() {
            return Err(never("there is nothing in it that Discord would show"));
        }
        let line = match outgoing.attempts {
            0 => Line::Kept,
            _ => Line::Fresh,
        };
        let reply_to = outgoing.reply_to.as_deref();
        for (n, part) in (1..).zip(&parts) {
            if n > outgoing.parts_sent {
                let reply_to = reply_to.filter(|id| n == 1 && event::is_snowflake(id));
                let nonce = nonce(outgoing.message_id.as_str(), n);
                let message = message(part, &nonce, reply_to);
                self.shared.post(channel, &message, line, cancel)?;
                confirmed(n);
            }
        }
        Ok(())
    }

    fn working(&self, conversation: &Conversation) -> Option<Working> {
        let channel = channel_of(conversation)?;
        Some(Box::new(self.shared.typing.begin(channel)))
    }

    fn stop(&self) {
        self.shared.typing.end();
        self.shared.leaving.raise();
        let waker = lock(&self.shared.waker).take();
        let listened = lock(&self.listened).clone();
        if let (Some(waker), Some(listened)) = (waker, &listened) {
            waker.wake();
            let _ = listened.wait(GOODBYE_WITHIN);
        }
        self.shared.cancel.raise();
        if let Some(listened) = listened {
            if !listened.wait(STOP_PATIENCE) {
                log::debug!(
                    "a connection to Discord's gateway is still being made; it ends by itself"
                );
            }
        }
    }
}

/// The channel of a conversation: its id is an unsigned number of 64 bits.
fn channel_of(conversation: &Conversation) -> Option<u64> {
    let id = &conversation.id;
    event::is_snowflake(id).then(|| id.parse().ok()).flatten()
}

fn never(reason: &str) -> SendFailure {
    SendFailure::Never {
        reason: reason.to_owned(),
    }
}

/// What makes a message that is sent again known as the same one.
fn nonce(message_id: &str, part: u32) -> String {
    let name = format!("{message_id}/{part}");
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let bytes = digest.as_ref().iter().take(NONCE_BYTES);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn message(text: &str, nonce: &str, reply_to: Option<&str>) -> Value {
    let mut message = json!({
        "content": text,
        "allowed_mentions": { "parse": [] },
        "nonce": nonce,
        "enforce_nonce": true,
        "flags": NO_PREVIEWS,
    });
    if let Some(id) = reply_to {
        message["message_reference"] = json!({ "message_id": id, "fail_if_not_exists": false });
    }
    message
}

impl Shared {
    /// Posts one message; once more without what it refers to where Discord does not allow that.
    fn post(
        &self,
        channel: u64,
        message: &Value,
        line: Line,
        cancel: &Cancel,
    ) -> Result<(), SendFailure> {
        let now = self.parts.clock.now();
        lock(&self.buckets)
            .take(Route::Messages, channel, now)
            .map_err(|(wait, held)| SendFailure::NotYet { wait, held })?;
        self.typing.quiet(channel, QUIET_WITHIN);
        let sent = self.api.call(&Call {
            path: &format!("/channels/{channel}/messages"),
            post: Some(message),
            within: self.parts.limits.chat_call,
            cancel,
            line,
        });
        let now = self.parts.clock.now();
        match sent {
            Ok(answer) => {
                if let Some(after) = answer.spent {
                    lock(&self.buckets).spent(Route::Messages, channel, after, now);
                }
                Ok(())
            }
            Err(Failure::Refused {
                code: MAY_NOT_REFER,
                ..
            }) if !message["message_reference"].is_null() => {
                let mut alone = message.clone();
                if let Some(fields) = alone.as_object_mut() {
                    fields.remove("message_reference");
                }
                self.post(channel, &alone, line, cancel)
            }
            Err(failure) => Err(self.failed(channel, &failure, now)),
        }
    }

    fn failed(&self, channel: u64, failure: &Failure, now: Instant) -> SendFailure {
        let reason = failure.told("sending a message");
        let mut buckets = lock(&self.buckets);
        match failure {
            Failure::Limited { wait, who } => {
                buckets.limited(Route::Messages, channel, *who, *wait, now);
                SendFailure::Flood {
                    wait: *wait,
                    held: *who,
                    reason,
                }
            }
            // A token that is put right within the day lets the answers go out.
            Failure::Refused { status: 401, .. } => {
                let wait = REFUSED_REST;
                buckets.limited(Route::Messages, channel, Held::Channel, wait, now);
                SendFailure::Again {
                    after: Some(wait),
                    reason,
                }
            }
            Failure::Refused {
                status: 408 | 500..,
                ..
            } => SendFailure::Again {
                after: None,
                reason,
            },
            Failure::Refused { .. }
            | Failure::Net(HttpError::Shield(_) | HttpError::Request(_)) => {
                SendFailure::Never { reason }
            }
            Failure::Net(_) | Failure::Odd { .. } => SendFailure::Again {
                after: None,
                reason,
            },
        }
    }

    /// Shows in a channel that an answer is being made; says how long the next sign has to wait
    /// beyond the usual. Failures matter to nobody.
    fn sign(&self, channel: u64, cancel: &Cancel) -> Duration {
        let now = self.parts.clock.now();
        if let Err((wait, _)) = lock(&self.buckets).take(Route::Typing, channel, now) {
            return wait;
        }
        let signed = self.api.call(&Call {
            path: &format!("/channels/{channel}/typing"),
            post: Some(&json!({})),
            within: SIGN_WITHIN,
            cancel,
            line: Line::Kept,
        });
        let now = self.parts.clock.now();
        let mut buckets = lock(&self.buckets);
        match signed {
            Ok(answer) => {
                if let Some(after) = answer.spent {
                    buckets.spent(Route::Typing, channel, after, now);
                }
                Duration::ZERO
            }
            Err(Failure::Limited { wait, who }) => {
                buckets.limited(Route::Typing, channel, who, wait, now);
                wait
            }
            Err(Failure::Refused {
                status: 401 | 403, ..
            }) => REFUSED_REST,
            Err(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_the_same_for_the_same_part_and_short_enough() {
        let id = "0123456789abcdef-o9223372036854775807";
        let first = nonce(id, 1);
        assert_eq!(first, nonce(id, 1));
        assert_ne!(first, nonce(id, 2));
        assert_ne!(first, nonce("0123456789abcdef-o1", 1));
        assert!(first.len() <= 25);
    }

    #[test]
    fn only_a_number_is_a_channel() {
        let name = ChannelName::new("discord");
        for (id, channel) in [
            ("7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("7/../../users", None),
            ("-7", None),
            ("+7", None),
            ("", None),
        ] {
            assert_eq!(channel_of(&Conversation::new(&name, id)), channel, "{id}");
        }
    }
}
