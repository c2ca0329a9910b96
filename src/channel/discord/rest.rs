//! One request of Discord's HTTP API and what its answer means. Runs on the thread that calls. It
//! never follows a redirect and never shows the token.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::clock::{Clock, Deadline};
use crate::base::json;
use crate::base::secret::Secret;
use crate::base::text::{prefix, printable};
use crate::channel::port::Held;
use crate::domain::address::Shield;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;
use crate::net::http::{Client, Request, Resend, Response, Wire};

/// How the client names itself; Discord asks for this form ("User Agent"). No address on the web is
/// ours, and somebody else's would be a lie: the name is one that never resolves (RFC 2606).
pub(super) const USER_AGENT: &str = concat!(
    "DiscordBot (https://korvun.invalid, ",
    env!("CARGO_PKG_VERSION"),
    ")"
);
/// Bytes of an answer: a message comes back whole, with whom it answers.
const ANSWER_BYTES: usize = 256 * 1024;
/// Values of an answer: a message with a hundred people named in it has a few thousand.
const ANSWER_VALUES: usize = 10_000;
/// Bytes of Discord's message about an error that are kept: it is one sentence.
const MESSAGE_BYTES: usize = 200;
/// What is waited for when a limit names no time.
const UNNAMED_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that is believed: a day.
const WAIT_MOST: Duration = Duration::from_secs(24 * 3600);

/// The API of one bot.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    root: Url,
    token: Secret,
    clock: Arc<dyn Clock>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// Beginning with a slash.
    pub path: &'a str,
    /// What is posted; without it, it is a GET.
    pub post: Option<&'a Value>,
    pub within: Duration,
    pub cancel: &'a Cancel,
    pub line: Line,
}

/// Which connection a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// An idle one.
    Kept,
    /// One of its own: after a failure the idle ones may be dead too.
    Fresh,
}

/// A good answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// Its body; null where there was none.
    pub body: Value,
    /// Nothing more is left on this route until so long has passed.
    pub spent: Option<Duration>,
}

/// Why a request brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer.
    Net(HttpError),
    /// An answer that is not Discord's, such as a proxy's page.
    Odd { status: u16 },
    /// A rate limit.
    Limited { wait: Duration, who: Held },
    /// Discord says no.
    Refused {
        status: u16,
        /// Its own code, 0 where there is none.
        code: u64,
        /// Its sentence, cut, without control characters.
        message: String,
    },
}

impl Failure {
    /// In words for the operator: what came back from what.
    pub(super) fn told(&self, what: &str) -> String {
        match self {
            Failure::Net(error) => error.to_string(),
            Failure::Odd { status } => format!(
                "{what}: what answered (status {status}) is not Discord: a proxy, or a wrong base_url"
            ),
            Failure::Limited { wait, .. } => format!(
                "{what}: Discord asks to wait {:.1} s",
                wait.as_secs_f64()
            ),
            Failure::Refused {
                status,
                code,
                message,
            } => format!("{what}: Discord answered {status} ({message}, code {code})"),
        }
    }
}

impl Api {
    /// The API below `base_url` for the bot with that token. Over plain http only private addresses
    /// are asked.
    pub(super) fn new(base_url: &Url, token: &Secret, wire: &Wire) -> Api {
        let shield = match base_url.secure() {
            true => Shield::Open,
            false => Shield::Private,
        };
        Api {
            client: wire.client(shield).authorized_as("Bot"),
            root: base_url.clone(),
            token: token.clone(),
            clock: wire.clock().clone(),
        }
    }

    /// Asks and takes the answer apart.
    ///
    /// Blocks: for `call.within`, or until `call.cancel` is raised.
    pub(super) fn call(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let json = call.post.map(Value::to_string);
        let request = Request {
            url: &self.root.join(call.path),
            json: json.as_deref().map(str::as_bytes),
            headers: &[("User-Agent", USER_AGENT)],
            bearer: Some(&self.token),
            deadline: Deadline::after(self.clock.now(), call.within),
            cancel: call.cancel,
            body_most: ANSWER_BYTES,
            // A message carries a nonce: Discord knows the second one for the first.
            resend: Resend::Once,
        };
        let answer = match call.line {
            Line::Kept => self.client.send(&request),
            Line::Fresh => self.client.fresh().send(&request),
        };
        judge(&answer.map_err(Failure::Net)?)
    }
}

fn judge(answer: &Response) -> Result<Answer, Failure> {
    judged(answer.status, &answer.body, &|name| answer.header(name))
}

/// What an answer means.
fn judged<'a>(
    status: u16,
    body: &[u8],
    header: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<Answer, Failure> {
    let body = json::bounded(body, ANSWER_VALUES).unwrap_or_default();
    let wait = |name| header(name).and_then(|text| seconds(text.trim().parse().ok()?));
    if (200..300).contains(&status) {
        // An answer that cannot be read is still an answer to what was posted.
        let left = header("x-ratelimit-remaining").map(str::trim);
        let spent = (left == Some("0"))
            .then(|| wait("x-ratelimit-reset-after"))
            .flatten();
        return match (status, body.is_null()) {
            (204, _) | (_, false) => Ok(Answer { body, spent }),
            (_, true) => Err(Failure::Odd { status }),
        };
    }
    if status == 429 {
        let told = body["retry_after"].as_f64().and_then(seconds);
        let global = body["global"].as_bool() == Some(true)
            || header("x-ratelimit-global").is_some()
            || header("x-ratelimit-scope") == Some("global")
            // Not from the API but from what stands before it: it is about our address.
            || body.is_null();
        return Err(Failure::Limited {
            wait: told.max(wait("retry-after")).unwrap_or(UNNAMED_WAIT),
            who: match global {
                true => Held::Channel,
                false => Held::Conversation,
            },
        });
    }
    let Some(message) = body["message"].as_str() else {
        return Err(Failure::Odd { status });
    };
    Err(Failure::Refused {
        status,
        code: body["code"].as_u64().unwrap_or(0),
        message: prefix(&printable(message), MESSAGE_BYTES).to_owned(),
    })
}

/// A number of seconds as a time; none for what is no time at all.
fn seconds(number: f64) -> Option<Duration> {
    let sound = number.is_finite() && number >= 0.0;
    sound.then(|| Duration::from_secs_f64(number.min(WAIT_MOST.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_told_apart() {
        let odd = |status| Err(Failure::Odd { status });
        let good = |body, spent: Option<u64>| {
            Ok(Answer {
                body,
                spent: spent.map(Duration::from_millis),
            })
        };
        let limited = |ms, who| {
            Err(Failure::Limited {
                wait: Duration::from_millis(ms),
                who,
            })
        };
        let refused = |status, code, message: &str| {
            Err(Failure::Refused {
                status,
                code,
                message: message.to_owned(),
            })
        };
        let one = Held::Conversation;
        type Headers = &'static [(&'static str, &'static str)];
        let none: Headers = &[];
        for (status, body, headers, meaning) in [
            (200, r#"{"id":"1"}"#, none, good(json!({"id": "1"}), None)),
            (204, "", none, good(Value::Null, None)),
            (200, "<html>", none, odd(200)),
            (
                200,
                "{}",
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset-after", "1.25"),
                ],
                good(json!({}), Some(1250)),
            ),
            (
                200,
                "{}",
                &[
                    ("x-ratelimit-remaining", "1"),
                    ("x-ratelimit-reset-after", "1.25"),
                ],
                good(json!({}), None),
            ),
            (
                200,
                "{}",
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset-after", "-1"),
                ],
                good(json!({}), None),
            ),
            (429, r#"{"retry_after":0.5}"#, none, limited(500, one)),
            (
                429,
                r#"{"retry_after":64.57}"#,
                &[("retry-after", "65")],
                limited(65_000, one),
            ),
            (
                429,
                r#"{"retry_after":1,"global":true}"#,
                none,
                limited(1000, Held::Channel),
            ),
            (
                429,
                r#"{"retry_after":1}"#,
                &[("x-ratelimit-scope", "global")],
                limited(1000, Held::Channel),
            ),
            (429, r#"{"retry_after":"soon"}"#, none, limited(5000, one)),
            (
                429,
                r#"{"retry_after":1e300}"#,
                none,
                limited(86_400_000, one),
            ),
            (
                429,
                "<html>",
                &[("retry-after", "30")],
                limited(30_000, Held::Channel),
            ),
            (429, "", none, limited(5000, Held::Channel)),
            (
                403,
                r#"{"message":"Missing Access","code":50001}"#,
                none,
                refused(403, 50001, "Missing Access"),
            ),
            (
                401,
                r#"{"message":"401: Unauthorized","code":0}"#,
                none,
                refused(401, 0, "401: Unauthorized"),
            ),
            (
                400,
                r#"{"message":"a\nb","code":"x"}"#,
                none,
                refused(400, 0, "a\\nb"),
            ),
            (502, "<html>Bad Gateway</html>", none, odd(502)),
            (302, "", none, odd(302)),
        ] {
            let header = |name: &str| {
                headers
                    .iter()
                    .find(|(own, _)| *own == name)
                    .map(|(_, v)| *v)
            };
            assert_eq!(
                judged(status, body.as_bytes(), &header),
                meaning,
                "{status} {body}"
            );
        }
    }
}
