//! A look at a bot from outside, for the preflight: whose token it is, whether it may read messages,
//! how many sessions are left. Runs on the caller's thread. Never opens the gateway: that would cost
//! one of those sessions.

use std::time::Duration;

use serde_json::Value;

use crate::base::clock::Deadline;
use crate::base::secret::Secret;
use crate::base::text::{prefix, printable};
use crate::channel::port::{Look, Sight};
use crate::config::plan::Chat;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::Wire;

use super::rest::{Api, Call, Failure, Line};

/// Bytes of the bot's name that are shown.
const NAME_BYTES: usize = 100;
/// GATEWAY_MESSAGE_CONTENT and GATEWAY_MESSAGE_CONTENT_LIMITED (Discord developer documentation,
/// "Application Flags"): the switch Message Content Intent is on.
const CONTENT_FLAGS: u64 = 1 << 18 | 1 << 19;

/// Looks at the bot of a token.
///
/// Blocks: for `within`.
#[must_use]
pub fn look(settings: &Chat, token: &Secret, wire: &Wire, within: Duration) -> Look {
    let root = match Url::parse(&settings.base_url) {
        Ok(root) => root,
        Err(error) => return Look::broken(error.to_string(), "correct base_url"),
    };
    let api = Api::new(&root, token, wire);
    let deadline = Deadline::after(wire.clock().now(), within);
    let ask = |path: &str| {
        let answer = api.call(&Call {
            path,
            post: None,
            within: deadline.left(wire.clock().now()),
            cancel: &Cancel::new(),
            line: Line::Kept,
        });
        answer
            .map(|answer| answer.body)
            .map_err(|failure| amiss(path, &failure))
    };
    let all = ask("/users/@me")
        .and_then(|bot| Ok((bot, ask("/applications/@me")?, ask("/gateway/bot")?)));
    match all {
        Ok((bot, application, gateway)) => seen(&bot, &application, &gateway),
        Err(look) => look,
    }
}

fn seen(bot: &Value, application: &Value, gateway: &Value) -> Look {
    if bot["bot"].as_bool() != Some(true) {
        return Look::broken(
            "the token is no bot's",
            "use the one of the bot: https://discord.com/developers/applications, your application, Bot",
        );
    }
    let name = bot["username"].as_str().unwrap_or("a bot without a name");
    let name = printable(prefix(name, NAME_BYTES));
    let flags = application["flags"].as_u64().unwrap_or(0);
    if flags & CONTENT_FLAGS == 0 {
        return Look::broken(
            format!("{name}: Discord would close its connection, the bot may not read messages"),
            "turn on the switch Message Content Intent: https://discord.com/developers/applications, your application, Bot, Privileged Gateway Intents",
        );
    }
    let left = gateway["session_start_limit"]["remaining"].as_u64();
    if left == Some(0) {
        return Look {
            sight: Sight::Doubtful,
            message: format!("{name}: no further session may be started today"),
            help: "stop the program that starts so many; Korvun waits until there are some again"
                .to_owned(),
        };
    }
    Look {
        sight: Sight::Fine,
        message: match left {
            Some(left) => format!("{name} answers, {left} sessions are left today"),
            None => format!("{name} answers"),
        },
        help: String::new(),
    }
}

fn amiss(path: &str, failure: &Failure) -> Look {
    let told = failure.told(&format!("GET {path}"));
    let help = match failure {
        Failure::Refused { status: 401, .. } => {
            return Look::broken(
                told,
                "put the bot's token (https://discord.com/developers/applications, your application, Bot, Reset Token) into the variable that token_env names",
            )
        }
        Failure::Limited { wait, .. } => {
            return Look {
                sight: Sight::Doubtful,
                message: told,
                help: format!("try again in {} s", wait.as_secs().max(1)),
            }
        }
        Failure::Net(error) => return Look::unreached(told, error),
        _ => "correct base_url: it must be the root of Discord's API, with its version",
    };
    Look::broken(told, help)
}
