//! `http_fetch`: GET from listed hosts, pages as text, redirects followed one by one through the
//! same judgement. Runs on the run's thread; dials nothing that the list or the shield refuses.

use std::sync::Arc;
use std::time::Duration;

use super::arguments::{failed, schema, text};
use super::port::{Arguments, Call, Fault, Tool};
use super::web::{caged, redirects, shown, told, unsuccessful, Reach};
use crate::base::clock::{Clock, Deadline};
use crate::domain::brain::{HttpFetchCage, Sensitivity};
use crate::domain::completion::ToolSpec;
use crate::domain::url::Url;
use crate::net::http::{Request, Resend, Response, Wire};

/// What it reads best, best first.
const ACCEPT: &str = "text/html, text/plain, application/json;q=0.9, */*;q=0.5";

/// What a model is told of it.
#[must_use]
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: "http_fetch",
        description: "Reads a web page or API (GET).",
        parameters: schema(&[("url", Some("string"), "")]),
    }
}

/// The tool.
#[derive(Debug)]
pub struct HttpFetch {
    reach: Reach,
    body_most: usize,
    redirects_most: u32,
    within: Duration,
    clock: Arc<dyn Clock>,
}

impl HttpFetch {
    /// One in its cage; a private brain's reaches private addresses only.
    #[must_use]
    pub fn new(cage: &HttpFetchCage, sensitivity: Sensitivity, wire: &Wire) -> HttpFetch {
        HttpFetch {
            reach: Reach::new(&cage.allow_hosts, sensitivity, wire),
            body_most: usize::try_from(cage.max_bytes).unwrap_or(usize::MAX),
            redirects_most: cage.max_redirects,
            within: wire.limits().fetch,
            clock: Arc::clone(wire.clock()),
        }
    }

    fn get(&self, url: &Url, call: &Call<'_>, deadline: Deadline) -> Result<Response, Fault> {
        let request = Request {
            url,
            json: None,
            headers: &[("accept", ACCEPT)],
            bearer: None,
            deadline,
            cancel: call.cancel,
            body_most: self.body_most,
            resend: Resend::Once,
        };
        self.reach
            .client()
            .send(&request)
            .map_err(|error| told(&error, "no whole answer in time"))
    }
}

impl Tool for HttpFetch {
    fn ready(&self) -> bool {
        true
    }

    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault> {
        self.reach.aim(text(arguments, "url")?).map(drop)
    }

    fn call(&self, call: &Call<'_>) -> Result<String, Fault> {
        let mut url = self.reach.aim(text(call.arguments, "url")?)?;
        // One limit for all hops together.
        let deadline = Deadline::after(self.clock.now(), self.within).nearer(call.deadline);
        let mut hops = 0;
        loop {
            let answer = self.get(&url, call, deadline)?;
            if (200..300).contains(&answer.status) {
                return Ok(shown(&answer));
            }
            if !redirects(&answer) {
                return Err(unsuccessful(&answer));
            }
            let Some(location) = answer.header("location") else {
                return Err(failed("the server redirects without saying where to"));
            };
            if hops == self.redirects_most {
                return Err(caged(format!(
                    "the server redirects more often than the {hops} times that are followed"
                )));
            }
            hops += 1;
            url = self.reach.follow(&url, location)?;
        }
    }
}
