//! The one recipe for outbound HTTP: no proxy, no redirects, no cookies, no compression; every wait
//! ends at a deadline, every body at a cap. Runs on the caller's thread, starts none but for name
//! look-ups, and never decides what an answer means.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderValue, Response as Answer};
use ureq::{Agent, Body, Timeout};

use super::call::{self, Pool};
use super::cancel::Cancel;
use super::error::HttpError;
use super::names::{LookUps, Names, SystemNames};
use super::shield::Shielded;
use super::tls::Tls;
use crate::base::clock::{Clock, Deadline};
use crate::base::secret::Secret;
use crate::domain::address::Shield;
use crate::domain::limits::Limits;
use crate::domain::url::Url;

/// How Korvun names itself.
const USER_AGENT: &str = concat!("korvun/", env!("CARGO_PKG_VERSION"));
/// Room for bytes that come in, beyond the largest head: one more read of a body.
const INPUT_ROOM_BYTES: usize = 4 * 1024;
/// Room for bytes that go out: a prompt of a small machine in one or two writes.
const OUTPUT_BYTES: usize = 8 * 1024;

/// All outbound HTTP of one process or one test: one pool of connections for each policy, shared by
/// everybody who dials under it, and one TLS client. Clones share them.
#[derive(Clone, Debug)]
pub struct Wire(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    open: Agent,
    private: Agent,
    /// What the agents dial through, for what is not HTTP.
    shielded: [Shielded; 2],
    tls: Tls,
    limits: Limits,
    clock: Arc<dyn Clock>,
}

/// What is to be sent.
#[derive(Debug)]
pub struct Request<'a> {
    /// Where to.
    pub url: &'a Url,
    /// The JSON body of a POST; without one it is a GET.
    pub json: Option<&'a [u8]>,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// Sent as `Authorization: Bearer`. Over plain http only private addresses get it, whatever
    /// the client's own policy.
    pub bearer: Option<&'a Secret>,
    /// When it is given up.
    pub deadline: Deadline,
    /// Gives it up sooner, from another thread.
    pub cancel: &'a Cancel,
    /// Bytes read of the body of a success; of any other answer `limits.error_body_bytes` are read.
    pub body_most: usize,
    /// Whether it may be sent twice.
    pub resend: Resend,
}

/// What to do when an idle connection turns out to be dead before any answer: the server may have
/// closed it while the request was on its way, or, rarely, just after it had read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// Send once more, on a new connection: doing it twice harms nobody.
    Once,
    /// Report it.
    Never,
}

/// An answer of any status.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body, as far as it was read.
    pub body: Vec<u8>,
    /// Whether there was more body than the cap.
    pub truncated: bool,
    headers: HeaderMap,
}

impl Response {
    /// The first header of that name, where it is readable text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Sends requests under one policy. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    wire: Wire,
    shield: Shield,
    pool: Pool,
    scheme: &'static str,
}

impl Wire {
    /// One that trusts `cert_file` (the value of `SSL_CERT_FILE`) or the system's roots, and asks
    /// the system's resolver for names. Dials and reads nothing yet.
    #[must_use]
    pub fn new(cert_file: Option<PathBuf>, limits: &Limits, clock: Arc<dyn Clock>) -> Wire {
        Wire::with_names(cert_file, limits, clock, Arc::new(SystemNames))
    }

    /// The same with another source of addresses.
    #[must_use]
    pub fn with_names(
        cert_file: Option<PathBuf>,
        limits: &Limits,
        clock: Arc<dyn Clock>,
        names: Arc<dyn Names>,
    ) -> Wire {
        let tls = Tls::new(cert_file);
        let look_ups = LookUps::new(names, limits.look_ups);
        let shielded = [Shield::Open, Shield::Private]
            .map(|shield| Shielded::new(shield, look_ups.clone(), tls.clone(), Arc::clone(&clock)));
        let agent = |shielded: &Shielded| {
            Agent::with_parts(recipe(limits), shielded.clone(), shielded.clone())
        };
        Wire(Arc::new(Inner {
            open: agent(&shielded[0]),
            private: agent(&shielded[1]),
            shielded,
            tls,
            limits: limits.clone(),
            clock,
        }))
    }

    /// A client behind `shield`.
    #[must_use]
    pub fn client(&self, shield: Shield) -> Client {
        Client {
            wire: self.clone(),
            shield,
            pool: Pool::Use,
            scheme: "Bearer",
        }
    }

    /// What dials behind `shield`.
    pub(super) fn shielded(&self, shield: Shield) -> &Shielded {
        match shield {
            Shield::Open => &self.0.shielded[0],
            Shield::Private => &self.0.shielded[1],
        }
    }

    /// The bounds it works by.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// The clock that its deadlines are measured by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The TLS client, for what is not HTTP.
    #[must_use]
    pub fn tls(&self) -> &Tls {
        &self.0.tls
    }
}

fn recipe(limits: &Limits) -> ureq::config::Config {
    Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(USER_AGENT)
        .accept("application/json")
        .max_response_header_size(limits.answer_head_bytes)
        .input_buffer_size(limits.answer_head_bytes + INPUT_ROOM_BYTES)
        .output_buffer_size(OUTPUT_BYTES)
        .max_idle_connections(limits.idle_connections)
        .max_idle_connections_per_host(limits.idle_per_host)
        .max_idle_age(limits.idle_kept)
        .build()
}

impl Client {
    /// The same client, each of whose requests dials a connection of its own: after a failure an
    /// idle connection may be as dead as the one that failed.
    #[must_use]
    pub fn fresh(&self) -> Client {
        Client {
            pool: Pool::Avoid,
            ..self.clone()
        }
    }

    /// The same client, whose secrets go out under another word than `Bearer`.
    #[must_use]
    pub fn authorized_as(&self, scheme: &'static str) -> Client {
        Client {
            scheme,
            ..self.clone()
        }
    }

    /// Sends a request and reads the answer, whatever its status.
    ///
    /// Blocks: until `request.deadline`, or until `request.cancel` is raised; a TCP connect in
    /// progress goes on for `limits.connect` at most.
    ///
    /// # Errors
    /// An [`HttpError`] by what can be done about it.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, HttpError> {
        let mut result = self.attempt(request, self.pool);
        if let Err(Trouble::Stale(_)) = &result {
            if request.resend == Resend::Once {
                log::debug!(url:% = request.url; "an idle connection was closed by the server");
                result = self.attempt(request, Pool::Avoid);
            }
        }
        if request.cancel.raised() {
            // What came in before the socket was closed may look complete.
            return Err(HttpError::Cancelled);
        }
        result.map_err(|trouble| {
            let (Trouble::Stale(error) | Trouble::Final(error)) = trouble;
            let verb = if request.json.is_some() {
                "POST"
            } else {
                "GET"
            };
            self.explained(error, request)
                .during(&format!("{verb} {}", request.url))
        })
    }

    /// What an error means for this request: a connection that was not there when the request's own
    /// time had passed is out of time, and a refusal may be for the secret in the clear.
    fn explained(&self, error: HttpError, request: &Request<'_>) -> HttpError {
        match error {
            HttpError::Connect(detail) if request.deadline.passed(self.wire.0.clock.now()) => {
                HttpError::Timeout(detail)
            }
            HttpError::Shield(detail) if self.shield == Shield::Open && in_the_clear(request) => {
                HttpError::Shield(format!(
                    "{detail}; over plain http a secret goes to private addresses only: use https"
                ))
            }
            error => error,
        }
    }

    fn attempt(&self, request: &Request<'_>, pool: Pool) -> Result<Response, Trouble> {
        let inner = &self.wire.0;
        if request.cancel.raised() {
            return Err(Trouble::Final(HttpError::Cancelled));
        }
        let now = inner.clock.now();
        let left = request.deadline.left(now);
        if left.is_zero() {
            return Err(Trouble::Final(HttpError::Timeout(
                "no time was left to send it".into(),
            )));
        }
        let connect = left.min(inner.limits.connect);
        let connected_by = std::time::Instant::now() + connect;
        let _running = call::begin(request.cancel, connected_by, pool);
        self.exchange(request, left, connect).map_err(|error| {
            let stale = matches!(error, ureq::Error::Io(_))
                && call::with(|call| !call.dialled && !call.answered).unwrap_or(false);
            let error = told(error, &inner.limits);
            if stale {
                Trouble::Stale(error)
            } else {
                Trouble::Final(error)
            }
        })
    }

    fn exchange(
        &self,
        request: &Request<'_>,
        left: Duration,
        connect: Duration,
    ) -> Result<Response, ureq::Error> {
        let limits = &self.wire.0.limits;
        let agent = self.agent(request);
        let mut builder = ureq::http::Request::builder().uri(request.url.to_wire());
        for (name, value) in request.headers {
            builder = builder.header(*name, *value);
        }
        if let Some(secret) = request.bearer {
            let mut value = HeaderValue::from_str(&format!("{} {}", self.scheme, secret.reveal()))
                .map_err(ureq::http::Error::from)?;
            value.set_sensitive(true);
            builder = builder.header("authorization", value);
        }
        let mut answer = match request.json {
            Some(json) => {
                let sent = builder
                    .method("POST")
                    .header("content-type", "application/json")
                    .body(json)?;
                limited(agent, sent, left, connect)
            }
            None => limited(agent, builder.method("GET").body(())?, left, connect),
        }?;
        let most = if answer.status().is_success() {
            request.body_most
        } else {
            request.body_most.min(limits.error_body_bytes)
        };
        let (body, truncated) = read(&mut answer, most)?;
        Ok(Response {
            status: answer.status().as_u16(),
            body,
            truncated,
            headers: std::mem::take(answer.headers_mut()),
        })
    }

    /// The agent of the policy: a secret in the clear stays among private addresses.
    fn agent(&self, request: &Request<'_>) -> &Agent {
        match self.shield {
            Shield::Open if !in_the_clear(request) => &self.wire.0.open,
            _ => &self.wire.0.private,
        }
    }
}

fn in_the_clear(request: &Request<'_>) -> bool {
    request.bearer.is_some() && !request.url.secure()
}

/// An error, and whether another connection may do better.
enum Trouble {
    /// An idle connection was dead before any answer.
    Stale(HttpError),
    /// Anything else.
    Final(HttpError),
}

fn limited(
    agent: &Agent,
    request: ureq::http::Request<impl ureq::AsSendBody>,
    left: Duration,
    connect: Duration,
) -> Result<Answer<Body>, ureq::Error> {
    let request = agent
        .configure_request(request)
        .timeout_global(Some(left))
        .timeout_resolve(Some(connect))
        .timeout_connect(Some(connect))
        .build();
    agent.run(request)
}

/// The body up to `most` bytes, and whether there was more.
fn read(answer: &mut Answer<Body>, most: usize) -> Result<(Vec<u8>, bool), ureq::Error> {
    let announced = answer
        .headers()
        .get("content-length")
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok())
        .unwrap_or(0);
    // What is announced is believed up to a point: a liar costs no more than a page or two.
    let mut body = Vec::with_capacity(announced.min(most).min(64 * 1024));
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    answer
        .body_mut()
        .as_reader()
        .take(limit)
        .read_to_end(&mut body)?;
    let truncated = body.len() > most;
    body.truncate(most);
    Ok((body, truncated))
}

fn told(error: ureq::Error, limits: &Limits) -> HttpError {
    match error {
        ureq::Error::Other(inner) => match inner.downcast::<HttpError>() {
            Ok(ours) => *ours,
            Err(other) => HttpError::Connect(other.to_string()),
        },
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => HttpError::Connect(format!(
            "no connection within {:.1} s",
            limits.connect.as_secs_f64()
        )),
        ureq::Error::Timeout(_) => HttpError::Timeout("no whole answer in time".into()),
        ureq::Error::Io(error) => HttpError::Connect(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                "the server closed the connection before the whole answer was there".into()
            }
            _ => error.to_string(),
        }),
        ureq::Error::LargeResponseHeader(_, most) => {
            HttpError::Protocol(format!("the head of the answer is over {most} bytes"))
        }
        ureq::Error::Protocol(error) => {
            // Its text may quote what the server sent.
            let quoted = crate::base::text::printable(&error.to_string());
            HttpError::Protocol(format!(
                "the answer is not HTTP/1.1: {}",
                crate::base::text::prefix(&quoted, 200)
            ))
        }
        ureq::Error::Http(_) | ureq::Error::BadUri(_) => HttpError::Request(
            "the URL, a header or the secret cannot be put into a request".into(),
        ),
        ureq::Error::HostNotFound => HttpError::Connect("the host was not found".into()),
        other => HttpError::Protocol(other.to_string()),
    }
}
