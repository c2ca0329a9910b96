//! A look at a bot from outside, for the preflight: whose token it is and whether a webhook is set.
//! Runs on the caller's thread. Never asks for updates: that would cut off a running daemon's poll.

use std::time::Duration;

use serde_json::{json, Value};

use crate::base::clock::Deadline;
use crate::base::secret::Secret;
use crate::channel::port::{Look, Sight};
use crate::config::plan::{Chat, Respond};
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::Wire;

use super::api::{Api, Call, Failure, Line, Refused};

/// Bytes of an answer: some facts about one bot.
const ANSWER_BYTES: usize = 64 * 1024;

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
    let ask = |method: &str| {
        let answer = api.call(&Call {
            method,
            params: &json!({}),
            within: deadline.left(wire.clock().now()),
            cancel: &Cancel::new(),
            body_most: ANSWER_BYTES,
            line: Line::Kept,
        });
        answer.map_err(|failure| amiss(method, &failure))
    };
    match ask("getMe").and_then(|bot| Ok((bot, ask("getWebhookInfo")?))) {
        Ok((bot, hook)) => seen(&bot, &hook, settings.respond),
        Err(look) => look,
    }
}

fn seen(bot: &Value, hook: &Value, respond: Respond) -> Look {
    let name = bot["username"].as_str().unwrap_or("a bot without a name");
    if hook["url"].as_str().is_some_and(|url| !url.is_empty()) {
        return Look {
            sight: Sight::Doubtful,
            message: format!("@{name}: a webhook is set, which keeps messages from whoever polls"),
            help: "stop the program that uses it; Korvun deletes it when it starts".to_owned(),
        };
    }
    // Which groups a bot reads is decided with @BotFather, and shown here.
    if respond == Respond::All && bot["can_read_all_group_messages"].as_bool() == Some(false) {
        return Look {
            sight: Sight::Doubtful,
            message: format!("@{name}: in groups Telegram shows it mentions, replies and commands only, though `respond` is `all`"),
            help: "turn the privacy mode off (@BotFather, /setprivacy), then take the bot out of the group and in again".to_owned(),
        };
    }
    let waiting = hook["pending_update_count"].as_u64().unwrap_or(0);
    Look {
        sight: Sight::Fine,
        message: match waiting {
            0 => format!("@{name} answers"),
            waiting => format!("@{name} answers, {waiting} updates wait for it"),
        },
        help: String::new(),
    }
}

fn amiss(method: &str, failure: &Failure) -> Look {
    let told = failure.told(method);
    let help = match failure {
        Failure::Refused(Refused {
            code: 401 | 404, ..
        }) => {
            return Look::broken(
                told,
                "put the token that @BotFather gives (/mybots, API Token) into the variable that token_env names",
            )
        }
        Failure::Refused(Refused {
            retry_after: Some(wait),
            ..
        }) => {
            return Look {
                sight: Sight::Doubtful,
                message: told,
                help: format!("try again in {} s", wait.as_secs()),
            }
        }
        Failure::Net(error) => return Look::unreached(told, error),
        _ => "correct base_url: it must be the root of a Bot API",
    };
    Look::broken(told, help)
}
