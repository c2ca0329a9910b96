//! One call of Telegram's Bot API: JSON in by POST, and what the answer means. Runs on the thread
//! that calls. The token stands in the path of each call and must never show.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::base::clock::{Clock, Deadline};
use crate::base::json;
use crate::base::secret::Secret;
use crate::base::text::{prefix, printable};
use crate::domain::address::Shield;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::error::HttpError;
use crate::net::http::{Client, Request, Resend, Wire};

/// JSON values of one answer: a hundred updates have some thousands, full of entities some ten
/// thousands; each takes about a hundred bytes of memory.
const VALUES_MOST: usize = 60_000;
/// Bytes of Telegram's description that are kept: it is one sentence.
const DESCRIPTION_BYTES: usize = 200;
/// What is waited for when a flood limit names no time.
const UNNAMED_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that is believed: a day. What is said with a longer one is given up by then.
const WAIT_MOST: Duration = Duration::from_secs(24 * 3600);

/// The Bot API of one bot.
#[derive(Debug)]
pub(super) struct Api {
    client: Client,
    root: Url,
    clock: Arc<dyn Clock>,
}

/// Which connection a call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// An idle one.
    Kept,
    /// One of its own: after a failure the idle ones may be dead too.
    Fresh,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub method: &'a str,
    pub params: &'a Value,
    pub within: Duration,
    pub cancel: &'a Cancel,
    pub body_most: usize,
    pub line: Line,
}

/// Why a call brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No answer.
    Net(HttpError),
    /// An answer that is not Telegram's, such as a proxy's page.
    Odd {
        /// Its HTTP status.
        status: u16,
    },
    /// Telegram's yes, but larger than allowed, or no JSON that can be held; how it begins.
    Unreadable {
        /// Its first bytes.
        beginning: Vec<u8>,
    },
    /// Telegram says no.
    Refused(Refused),
}

/// How Telegram says no.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Its `error_code`, mostly an HTTP status.
    pub code: i64,
    /// Its `description`, cut, without control characters.
    pub description: String,
    /// How long it asks to wait; there for every 429.
    pub retry_after: Option<Duration>,
    /// The new id of a group that has become a supergroup.
    pub migrate_to: Option<i64>,
}

impl Failure {
    /// In words for the operator: what came back from which call.
    pub(super) fn told(&self, method: &str) -> String {
        match self {
            Failure::Net(error) => error.to_string(),
            Failure::Odd { status } => {
                format!("{method}: what answered (status {status}) is not Telegram: a proxy, or a wrong base_url")
            }
            Failure::Unreadable { .. } => {
                format!("{method}: the answer is too large or no sound JSON")
            }
            Failure::Refused(Refused {
                code, description, ..
            }) => format!("{method}: Telegram answered {code} ({description})"),
        }
    }
}

impl Api {
    /// The API of the bot with that token below `base_url`. Over plain http only private addresses
    /// get the token.
    pub(super) fn new(base_url: &Url, token: &Secret, wire: &Wire) -> Api {
        Api {
            client: wire.client(shield_of(base_url)),
            root: base_url.join_secret("/bot", token),
            clock: wire.clock().clone(),
        }
    }

    /// Calls and takes the answer apart.
    ///
    /// Blocks: for `call.within`, or until `call.cancel` is raised.
    pub(super) fn call(&self, call: &Call<'_>) -> Result<Value, Failure> {
        let json = call.params.to_string();
        let request = Request {
            url: &self.root.join(&format!("/{}", call.method)),
            json: Some(json.as_bytes()),
            headers: &[],
            bearer: None,
            deadline: Deadline::after(self.clock.now(), call.within),
            cancel: call.cancel,
            body_most: call.body_most,
            // A send whose answer is lost is made again anyway: twice is better than not at all.
            resend: Resend::Once,
        };
        let answer = match call.line {
            Line::Kept => self.client.send(&request),
            Line::Fresh => self.client.fresh().send(&request),
        };
        let answer = answer.map_err(Failure::Net)?;
        if answer.truncated && answer.status == 200 {
            return Err(Failure::Unreadable {
                beginning: answer.body,
            });
        }
        let retry_after = answer
            .header("retry-after")
            .and_then(|text| text.trim().parse().ok());
        judge(answer.status, &answer.body, retry_after)
    }
}

/// In the clear the token, which is in each path, stays among private addresses.
fn shield_of(base_url: &Url) -> Shield {
    if base_url.secure() {
        Shield::Open
    } else {
        Shield::Private
    }
}

/// What an answer means. `retry_after_s` is the header of that name.
fn judge(status: u16, body: &[u8], retry_after_s: Option<u64>) -> Result<Value, Failure> {
    let read = json::bounded(body, VALUES_MOST);
    if read.is_none() && status == 200 && body.starts_with(br#"{"ok":true"#) {
        let beginning = body.to_vec();
        return Err(Failure::Unreadable { beginning });
    }
    let mut answer: Value = read.unwrap_or_default();
    match answer["ok"].as_bool() {
        Some(true) if answer["result"] != Value::Null => return Ok(answer["result"].take()),
        Some(false) => {}
        // A page of something in between that still says to slow down.
        _ if status == 429 => {}
        _ => return Err(Failure::Odd { status }),
    }
    let code = answer["error_code"].as_i64().unwrap_or(i64::from(status));
    let parameters = &answer["parameters"];
    let asked = parameters["retry_after"].as_u64().or(retry_after_s);
    let retry_after = match (asked, code) {
        (Some(seconds), _) => Some(Duration::from_secs(seconds).min(WAIT_MOST)),
        (None, 429) => Some(UNNAMED_WAIT),
        (None, _) => None,
    };
    let description = printable(answer["description"].as_str().unwrap_or("no reason given"));
    Err(Failure::Refused(Refused {
        code,
        description: prefix(&description, DESCRIPTION_BYTES).to_owned(),
        retry_after,
        migrate_to: parameters["migrate_to_chat_id"].as_i64(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_told_apart() {
        let refused = |code, description: &str, seconds: Option<u64>, migrate_to| {
            Err(Failure::Refused(Refused {
                code,
                description: description.to_owned(),
                retry_after: seconds.map(Duration::from_secs),
                migrate_to,
            }))
        };
        let odd = |status| Err(Failure::Odd { status });
        for (status, body, header, meaning) in [
            (200, r#"{"ok":true,"result":[]}"#, None, Ok(json!([]))),
            (200, r#"{"ok":true,"result":true}"#, None, Ok(json!(true))),
            (200, r#"{"ok":true}"#, None, odd(200)),
            (200, "", None, odd(200)),
            (200, "[1]", None, odd(200)),
            (
                200,
                r#"{"ok":true,"result":[{"update_id":7,"#,
                None,
                Err(Failure::Unreadable {
                    beginning: br#"{"ok":true,"result":[{"update_id":7,"#.to_vec(),
                }),
            ),
            (200, "\u{0}\u{1}", None, odd(200)),
            (502, "<html>Bad Gateway</html>", None, odd(502)),
            (404, "<html>", None, odd(404)),
            (
                429,
                "<html>",
                Some(3),
                refused(429, "no reason given", Some(3), None),
            ),
            (
                429,
                "<html>",
                None,
                refused(429, "no reason given", Some(5), None),
            ),
            (
                401,
                r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#,
                None,
                refused(401, "Unauthorized", None, None),
            ),
            (
                429,
                r#"{"ok":false,"error_code":429,"description":"Too Many","parameters":{"retry_after":31}}"#,
                Some(3),
                refused(429, "Too Many", Some(31), None),
            ),
            (
                429,
                r#"{"ok":false,"error_code":429,"description":"Too Many","parameters":{"retry_after":18446744073709551615}}"#,
                None,
                refused(429, "Too Many", Some(86_400), None),
            ),
            (
                429,
                r#"{"ok":false,"error_code":429,"description":"Too Many","parameters":{"retry_after":-1}}"#,
                None,
                refused(429, "Too Many", Some(5), None),
            ),
            (
                400,
                r#"{"ok":false,"error_code":400,"description":"up","parameters":{"migrate_to_chat_id":-100123}}"#,
                None,
                refused(400, "up", None, Some(-100_123)),
            ),
            (
                400,
                r#"{"ok":false,"error_code":"x","description":7,"parameters":[]}"#,
                None,
                refused(400, "no reason given", None, None),
            ),
        ] {
            assert_eq!(judge(status, body.as_bytes(), header), meaning, "{body}");
        }
    }

    #[test]
    fn over_plain_http_the_token_goes_to_private_addresses_only() {
        let shield = |text| shield_of(&Url::parse(text).unwrap());
        assert_eq!(shield("https://api.telegram.org"), Shield::Open);
        assert_eq!(shield("http://192.168.1.5:8081"), Shield::Private);
    }

    #[test]
    fn what_is_told_names_the_call_and_no_more_than_a_line() {
        let Err(failure) = judge(
            400,
            json!({"ok": false, "description": "a\nb".repeat(500)})
                .to_string()
                .as_bytes(),
            None,
        ) else {
            panic!("refused");
        };
        let told = failure.told("sendMessage");
        assert!(told.starts_with("sendMessage: Telegram answered 400 (a\\nba"));
        assert!(told.len() < 300 && !told.contains('\n'));
    }
}
