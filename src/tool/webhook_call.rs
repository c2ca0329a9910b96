//! `webhook_call`: one POST of JSON to a listed host, with a hard limit of time and without
//! redirects. Runs on the run's thread; sends at most once, dials nothing that the list or the
//! shield refuses.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::arguments::{failed, missing, schema, text};
use super::port::{Arguments, Call, Fault, Tool};
use super::web::{redirects, shown, told, unsuccessful, Reach};
use crate::base::clock::{Clock, Deadline};
use crate::domain::brain::{Sensitivity, WebhookCallCage};
use crate::domain::completion::ToolSpec;
use crate::domain::url::Url;
use crate::net::http::{Request, Resend, Wire};

/// The name under which a receiver finds the key of a call (contract 6).
const KEY: &str = "x-idempotency-key";

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "webhook_call",
        description: "Sends JSON to a webhook (POST).",
        parameters: schema(&[("url", Some("string"), ""), ("body", None, "any JSON")]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct WebhookCall {
    reach: Reach,
    body_most: usize,
    within: Duration,
    clock: Arc<dyn Clock>,
}

impl WebhookCall {
    /// One in its cage; a private brain's reaches private addresses only.
    #[must_use]
    pub fn new(cage: &WebhookCallCage, sensitivity: Sensitivity, wire: &Wire) -> WebhookCall {
        WebhookCall {
            reach: Reach::new(&cage.allow_hosts, sensitivity, wire),
            body_most: usize::try_from(cage.max_bytes).unwrap_or(usize::MAX),
            within: cage.timeout,
            clock: Arc::clone(wire.clock()),
        }
    }

    fn judged<'a>(&self, arguments: &'a Arguments) -> Result<(Url, &'a Value), Fault> {
        let url = self.reach.aim(text(arguments, "url")?)?;
        let body = arguments.get("body").ok_or_else(|| missing("body"))?;
        Ok((url, body))
    }
}

impl Tool for WebhookCall {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        self.judged(arguments).map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        let (url, body) = self.judged(call.arguments)?;
        let body = body.to_string();
        let request = Request {
            url: &url,
            json: Some(body.as_bytes()),
            headers: &[(KEY, call.key), ("accept", "*/*")],
            bearer: None,
            deadline: Deadline::after(self.clock.now(), self.within).nearer(call.deadline),
            cancel: call.cancel,
            body_most: self.body_most,
            resend: Resend::Never,
        };
        // On a connection of its own: an idle one may be closed by the receiver at the moment in
        // which the request goes out, and then nobody knows whether it arrived.
        let late = "no whole answer in time; the receiver may have acted all the same";
        let answer = self
            .reach
            .client()
            .fresh()
            .send(&request)
            .map_err(|error| told(&error, late))?;
        if redirects(&answer) {
            return Err(failed(
                "the receiver redirects, which is not followed; its own address is needed",
            ));
        }
        if !(200..300).contains(&answer.status) {
            return Err(unsuccessful(&answer));
        }
        let shown = shown(&answer);
        Ok(if shown.trim().is_empty() {
            format!("done (status {})", answer.status)
        } else {
            shown
        })
    }
}
