//! Looks at the chat platforms as the daemon would find them. The main thread runs it, one after the
//! other; it must never take a message from a daemon at work.

use super::tried::{Outcome, Tried};
use crate::channel::port::Sight;
use crate::channel::{discord, telegram};
use crate::config::plan::{ChannelSettings, Plan};
use crate::config::secrets::Secrets;
use crate::net::http::Wire;

/// One line for each chat platform of the file that this build has.
///
/// Blocks: up to `limits.preflight` for each.
pub(super) fn reach(plan: &Plan, secrets: &Secrets, wire: &Wire) -> Vec<Tried> {
    let mut all = Vec::new();
    for channel in &plan.channels {
        let (ChannelSettings::Chat(settings), Some(env)) = (&channel.settings, &channel.token_env)
        else {
            continue;
        };
        let look = match channel.name.as_str() {
            "telegram" => telegram::look,
            "discord" => discord::look,
            _ => continue,
        };
        let name = format!("channel {}", channel.name);
        let Some(token) = secrets.of(env) else {
            all.push(Tried::failed(
                name,
                format!("not contacted: its token {env} has no value"),
                format!("give {env} its value first"),
            ));
            continue;
        };
        let look = look(settings, token, wire, wire.limits().preflight);
        all.push(Tried {
            name,
            outcome: match look.sight {
                Sight::Fine => Outcome::Ok,
                Sight::Doubtful => Outcome::Warn,
                Sight::Broken => Outcome::Failed,
            },
            message: look.message,
            help: look.help,
        });
    }
    all
}
