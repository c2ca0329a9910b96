//! What an event of Discord's gateway means: a message for the engine, or a reason to pass it over.
//! Pure. Every byte of it is somebody else's: unknown fields are not looked at, wrong types are as
//! absent. Field names and meanings: Discord developer documentation, "Message" and "Gateway Events".

use serde_json::Value;

use crate::base::text::prefix;
use crate::channel::rules::Rules;
use crate::domain::ids::Conversation;
use crate::domain::message::{ChatKind, Inbound, Language};
use crate::watch::Ignored;

/// Bytes of a name that are kept: Discord's own limit is 32 characters.
const NAME_BYTES: usize = 256;
/// Bytes of a media type that are kept.
const TYPE_BYTES: usize = 100;
/// Mentions in one text that are given their names: a message cannot name more people in a useful way.
const MENTIONS_MOST: usize = 100;
/// Stands where a text was cut.
const CUT: &str = " […]";

/// The bot itself, as READY tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl Me {
    /// The bot in a user object; none where that is no user.
    pub fn of(user: &Value) -> Option<Me> {
        Some(Me {
            id: snowflake(&user["id"])?.to_owned(),
            name: prefix(user["username"].as_str().unwrap_or_default(), NAME_BYTES).to_owned(),
        })
    }

    /// Whether a mention, `<@ID>` or `<@!ID>`, is of the bot.
    fn is_called(&self, id: &str) -> bool {
        id == self.id
    }
}

/// What an event is.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A message for the engine.
    Message(Box<Inbound>),
    /// Nothing for the engine; nothing of it is kept. The sender is told where `allow_from` decided.
    Passed {
        /// Why.
        reason: Ignored,
        /// Whose it is, where `allow_from` decided.
        sender: Option<String>,
    },
    /// A message whose text Discord keeps back: Message Content Intent is off.
    Withheld,
    /// No message at all.
    Nothing,
}

/// An id, which is digits: it stands in paths of the API.
fn snowflake(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| is_snowflake(text))
}

/// Whether a text can be an id of Discord's: an unsigned number of 64 bits.
pub fn is_snowflake(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Reads an event.
pub fn read(name: &str, data: &Value, me: &Me, rules: &Rules) -> Seen {
    match name {
        "MESSAGE_CREATE" => message(data, me, rules),
        // Discord sends updates for previews of links too; only people's edits have a time.
        "MESSAGE_UPDATE" if data["edited_timestamp"].is_string() => passed(Ignored::Edit),
        _ => Seen::Nothing,
    }
}

fn message(data: &Value, me: &Me, rules: &Rules) -> Seen {
    let author = &data["author"];
    let (Some(channel), Some(id), Some(sender)) = (
        snowflake(&data["channel_id"]),
        snowflake(&data["id"]),
        snowflake(&author["id"]),
    ) else {
        return passed(Ignored::Kind);
    };
    if sender == me.id {
        return passed(Ignored::Own);
    }
    if !data["webhook_id"].is_null() || author["bot"].as_bool() == Some(true) {
        return passed(Ignored::Bot);
    }
    // 0 is what people write, 19 the same as a reply; the rest are notices of Discord's own.
    if !matches!(data["type"].as_u64().unwrap_or(0), 0 | 19) {
        return passed(Ignored::Kind);
    }
    let chat = match data["guild_id"].is_null() {
        true => ChatKind::Direct,
        false => ChatKind::Group,
    };
    if !rules.admits(sender) {
        return Seen::Passed {
            reason: Ignored::NotAllowed,
            sender: Some(sender.to_owned()),
        };
    }
    let text = data["content"].as_str().unwrap_or_default();
    let attachment = attachment(data);
    if text.trim().is_empty() && attachment.is_none() {
        return match chat {
            ChatKind::Group if bare(data) => Seen::Withheld,
            _ => passed(Ignored::Kind),
        };
    }
    let heard = rules.hears_all(chat)
        || list(&data["mentions"]).any(|user| user["id"].as_str() == Some(me.id.as_str()))
        || data["referenced_message"]["author"]["id"].as_str() == Some(me.id.as_str())
        || is_command(text, &rules.commands);
    if !heard {
        return passed(Ignored::NotAddressed);
    }
    let text = named(without_call(text, me, attachment.is_some()), data, me);
    Seen::Message(Box::new(Inbound {
        conversation: Conversation::new(&rules.channel, channel),
        dedup: Some(id.to_owned()),
        sender_id: sender.to_owned(),
        sender_name: name_of(&data["member"], author),
        text: within(&text, rules.text_bytes),
        attachment,
        language: Language::of_tag(author["locale"].as_str().unwrap_or_default()),
        chat,
        // In a direct chat there is nobody else whom an answer could be for.
        reply_to: (chat == ChatKind::Group).then(|| id.to_owned()),
    }))
}

fn passed(reason: Ignored) -> Seen {
    Seen::Passed {
        reason,
        sender: None,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What stands beside or instead of words, in the words of `domain::excuse`.
fn attachment(data: &Value) -> Option<String> {
    if let Some(first) = list(&data["attachments"]).next() {
        let kind = first["content_type"].as_str().unwrap_or("file");
        return Some(prefix(kind, TYPE_BYTES).to_owned());
    }
    let has = |key: &str| list(&data[key]).next().is_some();
    if has("sticker_items") {
        return Some("sticker".to_owned());
    }
    if !data["poll"].is_null() {
        return Some("poll".to_owned());
    }
    // A forwarded message.
    has("message_snapshots").then(|| "forward".to_owned())
}

/// Whether nothing at all is in a message, which nobody can send: what is in it was kept back.
fn bare(data: &Value) -> bool {
    let none = |key: &str| list(&data[key]).next().is_none();
    data["content"].as_str() == Some("") && none("embeds") && none("components")
}

fn is_command(text: &str, commands: &[String]) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    commands.iter().any(|command| command == word)
}

/// As people see it: the name in this server, else the one shown everywhere, else the account's.
fn name_of(member: &Value, author: &Value) -> String {
    let all = [&member["nick"], &author["global_name"], &author["username"]];
    let name = all
        .into_iter()
        .filter_map(Value::as_str)
        .map(str::trim)
        .find(|name| !name.is_empty());
    prefix(name.unwrap_or_default(), NAME_BYTES).to_owned()
}

/// A text cut, with a mark, to what is kept of it.
fn within(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}{CUT}", prefix(text, most.saturating_sub(CUT.len())))
}

/// The mention at the beginning of a text: whose it is and what follows it.
fn mention(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) = text.strip_prefix("<@")?.split_once('>')?;
    let id = inside.strip_prefix('!').unwrap_or(inside);
    is_snowflake(id).then_some((id, rest))
}

/// The text without the bot's mention at its beginning and the comma behind it. A mention that is
/// all there is stays, unless it stands beside an attachment.
fn without_call<'a>(text: &'a str, me: &Me, beside: bool) -> &'a str {
    match mention(text.trim_start()) {
        Some((id, rest)) if me.is_called(id) => {
            let rest = rest.trim_start_matches([',', ':']).trim_start();
            match rest.is_empty() && !beside {
                true => text,
                false => rest,
            }
        }
        _ => text,
    }
}

/// The text with names in place of the ids of those whom it mentions.
fn named(text: &str, data: &Value, me: &Me) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut left = MENTIONS_MOST;
    while let Some(at) = rest.find("<@").filter(|_| left > 0) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        left -= 1;
        let known = mention(rest).and_then(|(id, behind)| Some((name_in(id, data, me)?, behind)));
        match known {
            Some((name, behind)) => {
                out.push('@');
                out.push_str(&name);
                rest = behind;
            }
            None => {
                out.push_str("<@");
                rest = &rest[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn name_in(id: &str, data: &Value, me: &Me) -> Option<String> {
    if me.is_called(id) {
        return Some(me.name.clone());
    }
    let user = list(&data["mentions"]).find(|user| user["id"].as_str() == Some(id))?;
    let name = name_of(&user["member"], user);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
