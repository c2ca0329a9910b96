//! The generic webhook: JSON in by POST, answers out by POST. Connection threads of its front take
//! messages in, delivery threads send answers out; nothing here waits for a model except callers
//! that asked to (`?wait=`).

mod body;
mod waiting;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{json, Value};

use crate::base::clock::{Clock, Deadline};
use crate::base::random;
use crate::base::secret::Secret;
use crate::base::sync::lock;
use crate::config::plan::Webhook as Settings;
use crate::domain::address::Shield;
use crate::domain::ids::{ChannelName, MessageId};
use crate::domain::limits::Limits;
use crate::domain::message::{Inbound, Outgoing};
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::door::{Door, Entry};
use crate::net::error::HttpError;
use crate::net::front::{Announced, Client, Ends, Front, Head, Owner, Request, Response, Verdict};
use crate::net::header::retry_after;
use crate::net::http::{self, Resend, Wire};
use crate::watch::board::ChannelState;
use crate::watch::{Dropped, Watch};

use super::port::{Acceptance, Channel, Intake, Refusal, SendFailure, StartError};
use body::{Reply, Unfit};
use waiting::{Place, Waiting};

/// How long one post of an answer may take: a slow flow in n8n answers within seconds.
const POST_WITHIN: Duration = Duration::from_secs(30);
/// The longest `?wait=`, in seconds (contract 4).
const LONGEST_WAIT_S: u64 = 60;
/// How long a caller is asked to wait when there is no room.
const COME_AGAIN_S: &str = "5";
/// How long requests in work may go on when the channel stops: they only wait for one commit.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// What the webhook channel is built with.
pub struct Parts {
    /// Its name.
    pub name: ChannelName,
    /// Its block of the configuration.
    pub settings: Settings,
    /// What inbound requests must carry.
    pub token: Secret,
    /// What outbound posts carry.
    pub outbound_token: Option<Secret>,
    /// The way out.
    pub wire: Wire,
    /// Where it reports.
    pub watch: Watch,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Every maximum.
    pub limits: Limits,
}

/// The webhook channel.
pub struct Webhook {
    desk: Arc<Desk>,
    client: http::Client,
    outbound_url: Url,
    front: Mutex<Option<Front>>,
}

/// What inbound requests meet.
struct Desk {
    parts: Parts,
    door: Door,
    waiting: Waiting,
    intake: OnceLock<Arc<dyn Intake>>,
}

impl Webhook {
    /// Builds the channel; opens nothing.
    ///
    /// # Errors
    /// A [`StartError`] when `outbound_url` is no URL.
    pub fn new(parts: Parts) -> Result<Webhook, StartError> {
        let outbound_url =
            Url::parse(&parts.settings.outbound_url).map_err(|error| StartError {
                message: format!("webhook.outbound_url: {error}"),
            })?;
        let client = parts.wire.client(Shield::Open);
        let door = Door::new(&parts.limits);
        let waiting = Waiting::new(parts.limits.webhook_waiting);
        let desk = Arc::new(Desk {
            parts,
            door,
            waiting,
            intake: OnceLock::new(),
        });
        Ok(Webhook {
            desk,
            client,
            outbound_url,
            front: Mutex::new(None),
        })
    }

    /// Posts one answer.
    fn post(&self, outgoing: &Outgoing, body: &Value, cancel: &Cancel) -> Result<(), SendFailure> {
        let parts = &self.desk.parts;
        let json = body.to_string();
        let answer = self.client.send(&http::Request {
            url: &self.outbound_url,
            json: Some(json.as_bytes()),
            headers: &[("X-Idempotency-Key", outgoing.message_id.as_str())],
            bearer: parts.outbound_token.as_ref(),
            deadline: Deadline::after(parts.clock.now(), POST_WITHIN),
            cancel,
            body_most: parts.limits.error_body_bytes,
            // The idempotency key makes a second post harmless.
            resend: Resend::Once,
        });
        let answer = answer.map_err(|error| match error {
            // A policy or a request that cannot be sent will be no different next time.
            HttpError::Shield(_) | HttpError::Request(_) => SendFailure::Never {
                reason: error.to_string(),
            },
            _ => SendFailure::Again {
                after: None,
                reason: error.to_string(),
            },
        })?;
        let reason = format!("POST {} answered {}", self.outbound_url, answer.status);
        match answer.status {
            200..=299 => Ok(()),
            408 | 429 | 500.. => {
                let after = answer
                    .header("retry-after")
                    .and_then(|text| retry_after(text, parts.clock.unix()));
                Err(SendFailure::Again { after, reason })
            }
            _ => Err(SendFailure::Never { reason }),
        }
    }
}

impl Channel for Webhook {
    fn start(&self, intake: Arc<dyn Intake>) -> Result<(), StartError> {
        let bind = self.desk.parts.settings.bind;
        let failed = |error: std::io::Error| {
            StartError {
            message: format!(
                "cannot listen on {bind} (webhook.bind): {error}; another program, or another Korvun, may have the port: stop it, or choose another"
            ),
        }
        };
        let listener = std::net::TcpListener::bind(bind).map_err(failed)?;
        // A second start of the same channel keeps the first intake: there is one engine.
        let _ = self.desk.intake.set(intake);
        let front = Front::start(
            "webhook",
            listener,
            self.desk.clone(),
            &self.desk.parts.limits,
        );
        let front = front.map_err(failed)?;
        log::info!(address = front.local_addr().to_string().as_str(), path = self.desk.parts.settings.path.as_str(); "webhook listens");
        *lock(&self.front) = Some(front);
        let parts = &self.desk.parts;
        parts
            .watch
            .channel_state(&parts.name, ChannelState::Connected, None);
        Ok(())
    }

    fn send(
        &self,
        outgoing: &Outgoing,
        _confirmed: &dyn Fn(u32),
        cancel: &Cancel,
    ) -> Result<(), SendFailure> {
        let body = body::render(&outgoing.into(), &self.desk.parts.settings.mapping);
        let names = [
            &outgoing.reply_to,
            &outgoing.in_reply_to.as_ref().map(MessageId::to_string),
        ];
        for name in names.into_iter().flatten() {
            if self
                .desk
                .waiting
                .offer(name, &body, self.desk.parts.limits.answer_write)
            {
                return Ok(());
            }
        }
        self.post(outgoing, &body, cancel)
    }

    fn given_up(&self, message_id: &MessageId, reply_to: Option<&str>) {
        for name in [Some(message_id.as_str()), reply_to].into_iter().flatten() {
            self.desk.waiting.end_one(name);
        }
    }

    fn stop(&self) {
        self.desk.waiting.end();
        let front = lock(&self.front).take();
        if let Some(front) = front {
            front.stop(STOP_PATIENCE);
        }
    }
}

impl Owner for Desk {
    fn judge(&self, head: &Head, _ends: Ends) -> Verdict {
        match self.refusal(head) {
            Some(refusal) => Verdict::Refuse(refusal),
            None => Verdict::Accept {
                body_cap: self.parts.limits.webhook_body_bytes,
            },
        }
    }

    fn serve(&self, request: Request, client: Client<'_>) {
        let mut keys = request.head.values("x-idempotency-key");
        // A key that is no text, or sent twice, is no key: the empty one is refused.
        let key = match (keys.next().map(std::str::from_utf8), keys.next()) {
            (None, _) => None,
            (Some(Ok(key)), None) => Some(key.to_owned()),
            _ => Some(String::new()),
        };
        let key = key.as_deref();
        let mapping = &self.parts.settings.mapping;
        let inbound = body::parse(
            &self.parts.name,
            &request.body,
            key,
            mapping,
            self.parts.limits.text_bytes,
        );
        let inbound = match inbound {
            Ok(inbound) => inbound,
            Err(unfit) => {
                if unfit == Unfit::TooLarge {
                    self.parts
                        .watch
                        .dropped(&self.parts.name, Dropped::TooLarge);
                }
                return answer(client, &unfit_response(&unfit));
            }
        };
        match wait_of(&request.head) {
            Ok(Some(span)) => self.take_and_wait(inbound, span, client),
            _ => answer(
                client,
                &self
                    .take(inbound)
                    .map_or_else(|refused| refused, |taken| accepted(200, taken.id())),
            ),
        }
    }
}

impl Desk {
    /// The order of the contract: path, method, secret, type, wait, announced length.
    fn refusal(&self, head: &Head) -> Option<Response> {
        if head.path() != self.parts.settings.path {
            return Some(Response::error(
                404,
                "not_found",
                "messages are posted to the configured webhook.path",
            ));
        }
        if head.method() != "POST" {
            let refusal = Response::error(405, "method_not_allowed", "messages come by POST");
            return Some(refusal.with("Allow", "POST"));
        }
        // A header sent twice is no secret: two readers could take it in two ways.
        let mut headers = head.values("authorization");
        let header = headers.next().map(|value| {
            if headers.next().is_some() {
                &b""[..]
            } else {
                value
            }
        });
        match self
            .door
            .knock(header, &self.parts.token, self.parts.clock.now())
        {
            Entry::Open => {}
            entry @ (Entry::Missing | Entry::Wrong) => {
                // The door looks at few wrong ones in a minute, so the log cannot be flooded.
                if entry == Entry::Wrong {
                    log::warn!(channel = self.parts.name.as_str(); "a request with a wrong secret was refused");
                }
                let refusal = Response::error(
                    401,
                    "unauthorized",
                    "send the channel's secret as Authorization: Bearer",
                );
                return Some(refusal.with("WWW-Authenticate", "Bearer"));
            }
            Entry::TooMany => {
                let refusal = Response::error(
                    429,
                    "too_many_failures",
                    "too many wrong secrets, wait a minute",
                );
                return Some(refusal.with("Retry-After", "60"));
            }
        }
        if !is_json(head.text("content-type")) {
            return Some(Response::error(
                415,
                "unsupported_media_type",
                "send Content-Type: application/json",
            ));
        }
        if wait_of(head).is_err() {
            return Some(Response::error(
                400,
                "invalid_wait",
                "wait takes whole seconds from 1 to 60",
            ));
        }
        match head.announced() {
            Announced::Length(bytes) if bytes > self.parts.limits.webhook_body_bytes as u64 => {
                self.parts
                    .watch
                    .dropped(&self.parts.name, Dropped::TooLarge);
                Some(unfit_response(&Unfit::TooLarge))
            }
            _ => None,
        }
    }

    fn take(&self, inbound: Inbound) -> Result<Acceptance, Response> {
        let busy =
            |message: &str| Response::error(503, "busy", message).with("Retry-After", COME_AGAIN_S);
        let Some(intake) = self.intake.get() else {
            return Err(busy("not started yet"));
        };
        let taken = intake.accept(inbound);
        taken.map_err(|refusal: Refusal| busy(&format!("{}, come again later", refusal.why())))
    }

    /// Takes a message and keeps the caller until its answer, for `span` at most. The place is
    /// taken before the message is, so that no answer can come too early for it.
    fn take_and_wait(&self, mut inbound: Inbound, span: Duration, client: Client<'_>) {
        let name = random::hex::<12>();
        let place = self.waiting.enter(&name);
        let conversation = inbound.conversation.id.clone();
        inbound.reply_to = place.as_ref().map(|_| name);
        let taken = match self.take(inbound) {
            Ok(taken) => taken,
            Err(refused) => return answer(client, &refused),
        };
        let place = match &taken {
            Acceptance::New(_) => place,
            Acceptance::Repeated(id) => {
                drop(place);
                let place = self.waiting.enter(id.as_str());
                if let Some(reply) = self.known(id, &conversation) {
                    return answer(client, &with_reply(id, &reply));
                }
                place
            }
        };
        let Some(place) = place else {
            return answer(client, &accepted(202, taken.id()));
        };
        let Some(client) = keep(place, span, taken.id(), client) else {
            return;
        };
        // Nothing came to this caller. A repeated message may have been answered to another one.
        let known = match &taken {
            Acceptance::New(_) => None,
            Acceptance::Repeated(id) => self.known(id, &conversation),
        };
        let response = known.map_or_else(
            || accepted(202, taken.id()),
            |reply| with_reply(taken.id(), &reply),
        );
        answer(client, &response);
    }

    /// The reply to a message that was taken earlier, where it is there.
    fn known(&self, id: &MessageId, conversation: &str) -> Option<Value> {
        let answer = self.intake.get()?.answer(id)?;
        let reply = Reply {
            role: answer.role,
            sender_name: &answer.sender_name,
            text: &answer.text,
            conversation,
            message_id: &answer.message_id,
            in_reply_to: Some(id),
        };
        Some(body::render(&reply, &self.parts.settings.mapping))
    }
}

/// Keeps a caller at its place until the reply is there or the time is up; gives the caller back
/// who got nothing.
fn keep<'c>(
    place: Place,
    span: Duration,
    id: &MessageId,
    client: Client<'c>,
) -> Option<Client<'c>> {
    match place.wait(span) {
        // Leaving the place without taking the reply has it posted instead.
        Some(_) if client.left() => answer(client, &accepted(202, id)),
        Some(reply) => {
            if client.respond(&with_reply(id, &reply)).is_ok() {
                place.taken();
            }
        }
        None => return Some(client),
    }
    None
}

fn answer(client: Client<'_>, response: &Response) {
    if let Err(error) = client.respond(response) {
        log::debug!(error = error.to_string().as_str(); "webhook caller left before its answer");
    }
}

fn accepted(status: u16, id: &MessageId) -> Response {
    Response::json(status, json!({ "message_id": id.as_str() }).to_string())
}

fn with_reply(id: &MessageId, reply: &Value) -> Response {
    Response::json(
        200,
        json!({ "message_id": id.as_str(), "reply": reply }).to_string(),
    )
}

fn unfit_response(unfit: &Unfit) -> Response {
    let (status, code, message) = match unfit {
        Unfit::InvalidJson => (
            400,
            "invalid_json",
            "the body must be one JSON object, of 20,000 values at most".to_owned(),
        ),
        Unfit::MissingSender => (
            400,
            "missing_sender",
            "name who writes: sender_id, or what webhook.mapping calls it".to_owned(),
        ),
        Unfit::MissingContent => (
            400,
            "missing_content",
            "send text, or a media_url".to_owned(),
        ),
        Unfit::InvalidValue(name) => (
            400,
            "invalid_value",
            format!("{name} must be a string or a number, ids of 256 bytes at most"),
        ),
        Unfit::InvalidKey => (
            400,
            "invalid_key",
            "X-Idempotency-Key takes 1 to 128 bytes".to_owned(),
        ),
        Unfit::TooLarge => (
            413,
            "too_large",
            "bodies take 1 MiB, texts 64 KiB".to_owned(),
        ),
    };
    Response::error(status, code, &message)
}

/// `application/json`, with or without parameters.
fn is_json(content_type: Option<&str>) -> bool {
    let kind = content_type
        .and_then(|text| text.split(';').next())
        .unwrap_or("");
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The `wait` of a request: how long its caller wants to be kept.
fn wait_of(head: &Head) -> Result<Option<Duration>, ()> {
    let mut wait = None;
    for pair in head.query().unwrap_or("").split('&') {
        let Some(text) = pair.strip_prefix("wait=") else {
            if pair == "wait" {
                return Err(());
            }
            continue;
        };
        let digits =
            !text.is_empty() && text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let seconds = if digits {
            text.parse().map_err(|_| ())?
        } else {
            0
        };
        if wait.is_some() || !(1..=LONGEST_WAIT_S).contains(&seconds) {
            return Err(());
        }
        wait = Some(Duration::from_secs(seconds));
    }
    Ok(wait)
}
