//! One model server as a provider sees it: sends JSON, reads JSON, and says by kind what went wrong.
//! Runs on the thread of the run; keeps no lock while it waits.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::clock::Deadline;
use crate::base::json;
use crate::base::secret::{Redactor, Secret};
use crate::base::text::{prefix, printable};
use crate::domain::address::Shield;
use crate::domain::brain::{Model, Sensitivity};
use crate::domain::completion::{Failure, FailureKind};
use crate::domain::url::{Url, UrlError};
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;
use crate::net::header::{reset_span, retry_after};
use crate::net::http::{Client, Request, Resend, Response, Wire};

/// Characters of a server's own words in a detail: enough for its message, not for a page.
const QUOTED_MOST: usize = 400;
/// Bytes of an answer that is no JSON that are looked at for a detail.
const READ_MOST: usize = 64 * 1024;
/// Values in one JSON answer: a whole answer has dozens, a look at a model a few thousand. Bounds
/// what a liar's four megabytes of commas cost in memory.
const VALUES_MOST: usize = 100_000;

/// A model server behind the policy of one brain.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    wire: Wire,
    base: Result<Url, UrlError>,
    key: Option<Secret>,
    /// Knows this endpoint's own key, so that a server that echoes it does not get it into a detail.
    redactor: Redactor,
}

impl Endpoint {
    pub(super) fn new(
        model: &Model,
        sensitivity: Sensitivity,
        key: Option<&Secret>,
        wire: &Wire,
    ) -> Endpoint {
        let shield = match sensitivity {
            Sensitivity::Private => Shield::Private,
            Sensitivity::Public => Shield::Open,
        };
        let redactor = Redactor::new();
        if let Some(key) = key {
            redactor.learn(key);
        }
        Endpoint {
            client: wire.client(shield),
            wire: wire.clone(),
            base: Url::parse(&model.base_url),
            key: key.cloned(),
            redactor,
        }
    }

    /// Posts `body` to `path` below the base, or with no body asks for it, and gives the answer of
    /// whatever status.
    ///
    /// Blocks: until `deadline` at most, or until `cancel` is raised.
    ///
    /// # Errors
    /// `Connect`, `Timeout`, `Body`, `Shield` or `Cancelled`.
    pub(super) fn send(
        &self,
        path: &str,
        body: Option<&Value>,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Response, Failure> {
        let base = self.base.as_ref().map_err(|why| {
            Failure::new(
                FailureKind::Refused,
                format!("base_url cannot be used: {why}"),
            )
        })?;
        let json = body.map(Value::to_string);
        self.client
            .send(&Request {
                url: &base.join(path),
                json: json.as_deref().map(str::as_bytes),
                headers: &[],
                bearer: self.key.as_ref(),
                deadline,
                cancel,
                body_most: self.wire.limits().completion_bytes,
                resend: Resend::Once,
            })
            .map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &HttpError) -> Failure {
        let kind = match error {
            HttpError::Connect(_) | HttpError::Tls(..) => FailureKind::Connect,
            HttpError::Request(_) => FailureKind::Refused,
            HttpError::Timeout(_) => FailureKind::Timeout,
            HttpError::Protocol(_) => FailureKind::Body,
            HttpError::Shield(_) => FailureKind::Shield,
            HttpError::Cancelled => FailureKind::Cancelled,
        };
        self.failure(kind, &error.to_string())
    }

    /// A server's own words, cut to a length; the key is taken out first, so that no part of it stays.
    fn quoted(&self, text: &str) -> String {
        prefix(&self.redactor.clean(text), QUOTED_MOST).to_owned()
    }

    /// A failure whose detail is fit for a log: no secret, no control characters.
    pub(super) fn failure(&self, kind: FailureKind, detail: &str) -> Failure {
        Failure::new(kind, printable(&self.redactor.clean(detail)))
    }

    /// The JSON of a successful answer.
    ///
    /// # Errors
    /// `Body` where it is too large or no JSON object.
    pub(super) fn json(&self, response: &Response) -> Result<Value, Failure> {
        if response.truncated {
            return Err(self.failure(
                FailureKind::Body,
                &format!("the answer is over {} bytes", response.body.len()),
            ));
        }
        match parse(&response.body) {
            Some(value) if value.is_object() => Ok(value),
            _ => Err(self.failure(
                FailureKind::Body,
                &format!(
                    "the answer is no JSON object: {}",
                    self.quoted(&text(&response.body))
                ),
            )),
        }
    }

    /// What a status other than success means.
    pub(super) fn refusal(&self, response: &Response) -> Failure {
        let told = Told::read(&response.body);
        let mut failure = self.told(response.status, &told);
        if failure.kind == FailureKind::Rate {
            failure.retry_after = self.wait(response);
            if failure.retry_after > Some(self.limits().retry_after_most) {
                // A budget of a day comes back, but not while somebody waits for an answer.
                failure.kind = FailureKind::Quota;
            }
        }
        failure
    }

    /// The same for a status and an error message, wherever they stood.
    pub(super) fn told(&self, status: u16, told: &Told) -> Failure {
        let (kind, cure) = match status {
            300..=399 => (
                FailureKind::Refused,
                "redirects are not followed: base_url must name the final address",
            ),
            401 | 403 => (FailureKind::Auth, "check the key that api_key_env names"),
            402 => (FailureKind::Quota, "the account has no credit left"),
            429 if told.quota() => (FailureKind::Quota, "the account has no credit left"),
            429 => (FailureKind::Rate, "too many requests"),
            400..=599 if told.no_tools() => {
                (FailureKind::ToolsUnsupported, "the model takes no tools")
            }
            _ => (FailureKind::Status, "the server reports an error"),
        };
        let mut failure = self.failure(
            kind,
            &format!("status {status}: {}; {cure}", self.quoted(&told.text)),
        );
        failure.status = Some(status);
        failure.loading = told.loading();
        failure
    }

    /// How long the server asks to wait: `Retry-After`, else what `x-ratelimit-reset-*` say of the
    /// budget that is used up.
    fn wait(&self, response: &Response) -> Option<Duration> {
        if let Some(value) = response.header("retry-after") {
            return retry_after(value, self.wire.clock().unix());
        }
        let reset = |budget: &str| {
            let used_up = response
                .header(&format!("x-ratelimit-remaining-{budget}"))
                .is_some_and(|left| left.trim() == "0");
            let span = reset_span(response.header(&format!("x-ratelimit-reset-{budget}"))?)?;
            Some((used_up, span))
        };
        [reset("requests"), reset("tokens")]
            .into_iter()
            .flatten()
            .max()
            .map(|(_, span)| span)
    }

    pub(super) fn now(&self) -> Instant {
        self.wire.clock().now()
    }

    pub(super) fn limits(&self) -> &crate::domain::limits::Limits {
        self.wire.limits()
    }

    /// The server's root, for a text.
    pub(super) fn shown(&self) -> String {
        self.base
            .as_ref()
            .map_or_else(|_| "an unusable base_url".to_owned(), Url::to_string)
    }
}

/// What an error body says.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The message, or the beginning of the body.
    pub(super) text: String,
    /// Codes and types, lower case.
    words: Vec<String>,
    /// What the model wrote, where the server tells (Groq).
    generation: String,
    /// A code that is a number.
    pub(super) code: Option<u16>,
}

impl Told {
    /// From a whole error body.
    pub(super) fn read(body: &[u8]) -> Told {
        match parse(body) {
            Some(value) if value.is_object() => Told::of(value.get("error").unwrap_or(&value)),
            _ => Told {
                text: text(body),
                ..Told::default()
            },
        }
    }

    /// From the value of an `error` member: a text, or an object with message, code, type, status.
    pub(super) fn of(error: &Value) -> Told {
        let message = ["message", "error", "detail"]
            .iter()
            .find_map(|key| error.get(key)?.as_str())
            .or(error.as_str());
        let said = match message {
            Some(message) => text(message.as_bytes()),
            None => text(error.to_string().as_bytes()),
        };
        let code = error.get("code").and_then(|code| match code {
            Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
        Told {
            text: said,
            words: ["code", "type", "status"]
                .iter()
                .filter_map(|key| Some(error.get(key)?.as_str()?.to_lowercase()))
                .collect(),
            generation: prefix(error["failed_generation"].as_str().unwrap_or(""), READ_MOST)
                .to_owned(),
            code,
        }
    }

    /// Whether it speaks of a budget that does not come back by waiting.
    pub(super) fn quota(&self) -> bool {
        const WORDS: [&str; 8] = [
            "insufficient_quota",
            "quota_exceeded",
            "exceeded_current_quota_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "insufficient_credits",
            "credits_exhausted",
        ];
        const PHRASES: [&str; 4] = [
            "insufficient_quota",
            "insufficient balance",
            "credit balance",
            "check your plan and billing",
        ];
        let text = self.text.to_lowercase();
        // A quota by the minute has the same sentence and says when to come again.
        let heals = ["retry in", "try again in"]
            .iter()
            .any(|phrase| text.contains(phrase));
        self.words.iter().any(|word| WORDS.contains(&word.as_str()))
            || (!heals && PHRASES.iter().any(|phrase| text.contains(phrase)))
    }

    /// Whether it says that the model, or the server as it runs, takes no tools: Ollama, Groq and
    /// OpenRouter, vLLM and llama.cpp, each in its own words.
    fn no_tools(&self) -> bool {
        const PHRASES: [&str; 7] = [
            "does not support tools",
            "does not support tool calling",
            "`tool calling` is not supported",
            "no endpoints found that support tool use",
            "tool choice requires --enable-auto-tool-choice",
            "tools param requires --jinja",
            "unsupported param: tools",
        ];
        let text = self.text.to_lowercase();
        PHRASES.iter().any(|phrase| text.contains(phrase))
    }

    /// What the model wrote, as far as it is told, where a server's own parser could not read its
    /// call: Ollama's JSON and XML parsers, Groq's `tool_use_failed`.
    pub(super) fn unreadable_call(&self) -> Option<String> {
        const PHRASES: [&str; 4] = [
            "error parsing tool call",
            "xml syntax error",
            "failed to parse xml",
            "expected element type <",
        ];
        if self.words.iter().any(|word| word == "tool_use_failed") {
            return Some(self.generation.clone());
        }
        let text = self.text.to_lowercase();
        if !PHRASES.iter().any(|phrase| text.contains(phrase)) {
            return None;
        }
        let raw = self.text.split_once("raw='").map(|(_, raw)| raw);
        let raw = raw
            .and_then(|raw| raw.rsplit_once("', err="))
            .map(|(raw, _)| raw);
        Some(raw.unwrap_or_default().to_owned())
    }

    /// Whether the model is on its way into memory (llama.cpp: "Loading model"; Ollama: "timed out
    /// waiting for llama runner to start", "llm server loading model").
    fn loading(&self) -> bool {
        let text = self.text.to_lowercase();
        [
            "loading model",
            "model is loading",
            "waiting for llama runner",
        ]
        .iter()
        .any(|phrase| text.contains(phrase))
    }
}

/// JSON of bounded cost; `None` for anything else.
pub(super) fn parse(body: &[u8]) -> Option<Value> {
    json::bounded(body, VALUES_MOST)
}

/// What a server sent, as text; more than enough of it for a detail.
fn text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(READ_MOST)]);
    match text.trim() {
        "" => "(empty)".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_body_is_understood_in_every_shape() {
        for (body, text, code) in [
            (json!({"error": "boom"}), "boom", None),
            (
                json!({"error": {"message": "boom", "code": 429}}),
                "boom",
                Some(429),
            ),
            (
                json!({"error": {"message": "boom", "code": "503"}}),
                "boom",
                Some(503),
            ),
            (
                json!({"error": {"message": "boom", "code": "rate"}}),
                "boom",
                None,
            ),
            (json!({"error": {"code": -1}}), "{\"code\":-1}", None),
            (json!({"message": "boom"}), "boom", None),
            (json!({"detail": "boom"}), "boom", None),
            (json!({"error": ["a"]}), "[\"a\"]", None),
            (json!(["boom"]), "[\"boom\"]", None),
        ] {
            let told = Told::read(body.to_string().as_bytes());
            assert_eq!((told.text.as_str(), told.code), (text, code), "{body}");
        }
        assert_eq!(Told::read(b" \n").text, "(empty)");
        assert_eq!(Told::read(b"<html>").text, "<html>");
        assert_eq!(Told::read(&[0xff; 100_000]).text.chars().count(), READ_MOST);
    }

    #[test]
    fn a_quota_is_told_from_a_rate() {
        let billing =
            "You exceeded your current quota, please check your plan and billing details.";
        for (error, quota) in [
            (json!({"code": "insufficient_quota", "message": "x"}), true),
            (json!({"type": "insufficient_quota", "message": "x"}), true),
            (json!({"type": "billing_not_active", "message": "x"}), true),
            (json!({"status": "QUOTA_EXCEEDED", "message": "x"}), true),
            (json!({"message": billing}), true),
            (json!({"message": "Insufficient Balance"}), true),
            (
                json!({"message": format!("{billing} Please retry in 12s.")}),
                false,
            ),
            (
                json!({"code": "rate_limit_exceeded", "message": "Rate limit reached, try again in 7m"}),
                false,
            ),
            (json!("slow down"), false),
        ] {
            assert_eq!(Told::of(&error).quota(), quota, "{error}");
        }
    }

    #[test]
    fn json_that_costs_too_much_is_not_parsed() {
        let list = |values: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(values));
        assert!(parse(list(1000).as_bytes()).is_some());
        assert!(parse(list(VALUES_MOST).as_bytes()).is_none());
        let commas = format!("{{\"a\":\"{}\"}}", ",[{\\\",".repeat(VALUES_MOST));
        assert!(
            parse(commas.as_bytes()).is_some(),
            "commas in a text cost nothing"
        );
    }
}
