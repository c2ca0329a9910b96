//! What Discord says about a bot before it is served: for the preflight. Runs on the caller's thread.
//! It opens no gateway, which would cost a session and disturb a daemon at work.

use std::time::Duration;

use serde_json::Value;

use crate::base::secret::Secret;
use crate::base::text::{prefix, printable};
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::Wire;

use super::rest::{Api, Call, Failure, Line};

/// How long one question may take.
const ASKED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of the bot's name that are shown.
const NAME_BYTES: usize = 100;
/// GATEWAY_MESSAGE_CONTENT and GATEWAY_MESSAGE_CONTENT_LIMITED (Discord developer documentation,
/// "Application Flags"): the switch Message Content Intent is on.
const CONTENT_FLAGS: u64 = 1 << 18 | 1 << 19;

/// What a bot is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// Whether Message Content Intent is on; none where Discord does not tell.
    pub content: Option<bool>,
    /// How many more sessions it may start today; none where Discord does not tell.
    pub starts_left: Option<u64>,
}

/// Why nothing is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Discord does not take the token.
    Token,
    /// The token is no bot's.
    NoBot,
    /// What answered is not Discord, or nothing did; in words for the operator.
    Reach(String),
}

/// Asks about the bot with that token, three questions at most.
///
/// Blocks: for ten seconds for each.
///
/// # Errors
/// The first [`Trouble`] found.
pub fn inquire(base_url: &str, token: &Secret, wire: &Wire) -> Result<Facts, Trouble> {
    let root = Url::parse(base_url).map_err(|error| Trouble::Reach(error.to_string()))?;
    let api = Api::new(&root, token, wire);
    let me = ask(&api, "/users/@me").map_err(|failure| match failure {
        Failure::Refused { status: 401, .. } => Trouble::Token,
        failure => Trouble::Reach(failure.told("GET /users/@me")),
    })?;
    let Some(name) = me["username"].as_str() else {
        let why = "GET /users/@me: what answered is not Discord: a proxy, or a wrong base_url";
        return Err(Trouble::Reach(why.to_owned()));
    };
    if me["bot"].as_bool() != Some(true) {
        return Err(Trouble::NoBot);
    }
    let flags = ask(&api, "/applications/@me")
        .ok()
        .and_then(|application| application["flags"].as_u64());
    let starts = ask(&api, "/gateway/bot").ok();
    Ok(Facts {
        name: printable(prefix(name, NAME_BYTES)),
        content: flags.map(|flags| flags & CONTENT_FLAGS != 0),
        starts_left: starts.and_then(|asked| asked["session_start_limit"]["remaining"].as_u64()),
    })
}

fn ask(api: &Api, path: &str) -> Result<Value, Failure> {
    let answer = api.call(&Call {
        path,
        post: None,
        within: ASKED_WITHIN,
        cancel: &Cancel::new(),
        line: Line::Kept,
    });
    answer.map(|answer| answer.body)
}
