//! What an update of Telegram means: a message for the engine, or a reason to pass it over. Pure.
//! Every byte of it is somebody else's: unknown fields are not looked at, wrong types are as absent.
//! Field names and meanings: Telegram Bot API, `Update`, `Message`, `MessageEntity`.

use serde_json::Value;

use crate::base::text::prefix;
use crate::channel::rules::Rules;
use crate::domain::ids::Conversation;
use crate::domain::message::{ChatKind, Inbound, Language};
use crate::watch::Ignored;

use super::place::{Answerable, Place};

/// Bytes of a name that are kept: Telegram's own limit is 64 characters for each of two.
const NAME_BYTES: usize = 256;

/// Entities that are looked at: Telegram finds a hundred or two in its longest text.
const ENTITIES_MOST: usize = 1000;
/// Bytes of a text with entities that are looked at: Telegram's longest has 16 KiB.
const NAMED_TEXT_BYTES: usize = 64 * 1024;

/// Stands where a text was cut.
const CUT: &str = " […]";

/// What people send beside or instead of words, in the words of `domain::excuse`.
const ATTACHMENTS: [&str; 18] = [
    "photo",
    "voice",
    "audio",
    "video",
    "video_note",
    // An animation is a document too: the more telling word first.
    "animation",
    "sticker",
    "document",
    "location",
    "venue",
    "contact",
    "poll",
    "dice",
    "game",
    "story",
    "paid_media",
    "checklist",
    "invoice",
];

/// The bot itself, as `getMe` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Its id.
    pub id: i64,
    /// Its name, without the `@`.
    pub username: String,
}

impl Me {
    /// The bot in the answer of `getMe`; none where that is no bot.
    pub fn of(answer: &Value) -> Option<Me> {
        Some(Me {
            id: answer["id"].as_i64()?,
            username: answer["username"].as_str().unwrap_or_default().to_owned(),
        })
    }

    fn is_called(&self, name: &str) -> bool {
        !self.username.is_empty() && name.eq_ignore_ascii_case(&self.username)
    }
}

/// What an update is.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A message for the engine.
    Message(Box<Inbound>),
    /// Nothing for the engine; nothing of it is kept. The sender is told where `allow_from` or
    /// nobody else decided.
    Passed {
        /// Why.
        reason: Ignored,
        /// Whose it is, where `allow_from` decided.
        sender: Option<String>,
    },
    /// A group has become a supergroup under another id.
    Moved {
        /// The old id.
        from: i64,
        /// The new one.
        to: i64,
    },
}

/// The number of an update.
pub fn number(update: &Value) -> Option<i64> {
    update["update_id"].as_i64()
}

/// Reads an update.
pub fn read(update: &Value, me: &Me, rules: &Rules) -> Seen {
    let message = &update["message"];
    if !message.is_object() {
        let edited = update["edited_message"].is_object();
        return passed(if edited { Ignored::Edit } else { Ignored::Kind });
    }
    let Some(place) = Place::of_message(message) else {
        return passed(Ignored::Kind);
    };
    if let Some(to) = message["migrate_to_chat_id"].as_i64() {
        return Seen::Moved {
            from: place.chat,
            to,
        };
    }
    let chat = match message["chat"]["type"].as_str() {
        Some("private") => ChatKind::Direct,
        Some("group" | "supergroup") => ChatKind::Group,
        _ => return passed(Ignored::Kind),
    };
    let from = &message["from"];
    let Some(sender) = from["id"].as_i64() else {
        return passed(Ignored::Kind);
    };
    let attachment = ATTACHMENTS
        .into_iter()
        .find(|kind| !message[*kind].is_null());
    let words = Words::of(message);
    if attachment.is_none() && words.text.trim().is_empty() {
        return passed(Ignored::Kind);
    }
    if sender == me.id {
        return passed(Ignored::Own);
    }
    if from["is_bot"].as_bool() == Some(true) {
        return passed(Ignored::Bot);
    }
    let sender = sender.to_string();
    if !rules.admits(&sender) {
        return Seen::Passed {
            reason: Ignored::NotAllowed,
            sender: Some(sender),
        };
    }
    let heard =
        rules.hears_all(chat) || words.calls(me, &rules.commands) || is_reply_to(message, me.id);
    if !heard {
        return passed(Ignored::NotAddressed);
    }
    let number = number(update).unwrap_or_default();
    // An album is several updates: what cannot be read in it is said once.
    let album = message["media_group_id"].as_str();
    let dedup = match album.filter(|_| words.text.trim().is_empty()) {
        Some(album) => format!("{}:album:{}", me.id, prefix(album, 64)),
        None => format!("{}:{number}", me.id),
    };
    let answerable = Answerable {
        message: message["message_id"].as_i64(),
        chat,
    };
    Seen::Message(Box::new(Inbound {
        conversation: Conversation::new(&rules.channel, &place.to_string()),
        dedup: Some(dedup),
        sender_id: sender,
        sender_name: name_of(from),
        text: within(&words.without_call(me, attachment), rules.text_bytes),
        attachment: attachment.map(str::to_owned),
        language: Language::of_tag(from["language_code"].as_str().unwrap_or_default()),
        chat,
        reply_to: answerable.written(),
    }))
}

fn passed(reason: Ignored) -> Seen {
    Seen::Passed {
        reason,
        sender: None,
    }
}

/// First and last name, as people see them.
fn name_of(from: &Value) -> String {
    let part = |key: &str| from[key].as_str().unwrap_or_default().trim().to_owned();
    let name = format!("{} {}", part("first_name"), part("last_name"));
    prefix(name.trim(), NAME_BYTES).to_owned()
}

/// A text cut, with a mark, to what is kept of it.
fn within(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}{CUT}", prefix(text, most.saturating_sub(CUT.len())))
}

/// Whether a message answers one of the bot's. In a forum each message of a topic answers the
/// service message that opened it, which is nobody's saying.
fn is_reply_to(message: &Value, bot: i64) -> bool {
    let replied = &message["reply_to_message"];
    replied["from"]["id"].as_i64() == Some(bot) && replied["forum_topic_created"].is_null()
}

/// A text and what Telegram has found in it.
struct Words<'a> {
    text: &'a str,
    entities: &'a [Value],
}

impl<'a> Words<'a> {
    fn of(message: &'a Value) -> Words<'a> {
        let (text, entities) = match message["text"].as_str() {
            Some(text) => (text, &message["entities"]),
            None => (
                message["caption"].as_str().unwrap_or_default(),
                &message["caption_entities"],
            ),
        };
        let entities = entities.as_array().map_or(&[][..], Vec::as_slice);
        // Each is looked for from the beginning of the text.
        let most = match text.len() <= NAMED_TEXT_BYTES {
            true => ENTITIES_MOST.min(entities.len()),
            false => 0,
        };
        let entities = &entities[..most];
        Words { text, entities }
    }

    /// The stretch of an entity. Offsets are UTF-16 units; one that leads out of the text or into
    /// the middle of a character is none.
    fn stretch(&self, entity: &Value) -> Option<&'a str> {
        let from = usize::try_from(entity["offset"].as_u64()?).ok()?;
        let length = usize::try_from(entity["length"].as_u64()?).ok()?;
        let to = from.checked_add(length)?;
        self.text.get(self.byte_at(from)?..self.byte_at(to)?)
    }

    fn byte_at(&self, unit: usize) -> Option<usize> {
        let mut units = 0;
        for (at, c) in self.text.char_indices() {
            if units >= unit {
                return (units == unit).then_some(at);
            }
            units += c.len_utf16();
        }
        (units == unit).then_some(self.text.len())
    }

    /// Whether an entity names the bot: `@bot`, a mention of its id, or `/word@bot`.
    fn names(&self, entity: &Value, me: &Me) -> bool {
        match entity["type"].as_str() {
            Some("text_mention") => entity["user"]["id"].as_i64() == Some(me.id),
            Some("mention") => self
                .stretch(entity)
                .and_then(|word| word.strip_prefix('@'))
                .is_some_and(|name| me.is_called(name)),
            Some("bot_command") => self
                .stretch(entity)
                .and_then(|word| word.split_once('@'))
                .is_some_and(|(_, name)| me.is_called(name)),
            _ => false,
        }
    }

    /// Whether the text calls the bot: by its name, or by a command of ours at its beginning that
    /// is not for another bot.
    fn calls(&self, me: &Me, commands: &[String]) -> bool {
        self.entities.iter().any(|entity| {
            let command = entity["type"] == "bot_command" && entity["offset"].as_u64() == Some(0);
            let ours = || {
                let word = self.stretch(entity);
                word.is_some_and(|word| commands.iter().any(|command| command == word))
            };
            self.names(entity, me) || (command && ours())
        })
    }

    /// The text without the bot's name at its beginning: a mention goes with the comma behind it,
    /// of `/word@bot` the word stays. A mention that is all there is stays too, unless it stands
    /// beside an attachment.
    fn without_call(&self, me: &Me, attachment: Option<&str>) -> String {
        let whole = || self.text.to_owned();
        let leads = |entity: &&Value| {
            let unit = entity["offset"].as_u64();
            let at = unit.and_then(|unit| self.byte_at(usize::try_from(unit).ok()?));
            at.is_some_and(|at| self.text[..at].trim().is_empty())
        };
        let mut named = self.entities.iter().filter(|entity| self.names(entity, me));
        let Some(entity) = named.find(leads) else {
            return whole();
        };
        let stretch = self.stretch(entity).unwrap_or_default();
        let Some(rest) = self.text.trim_start().strip_prefix(stretch) else {
            return whole();
        };
        if entity["type"] == "bot_command" {
            let word = stretch.split('@').next().unwrap_or_default();
            return format!("{word}{rest}");
        }
        let rest = rest.trim_start_matches([',', ':']).trim_start();
        if rest.is_empty() && attachment.is_none() {
            return whole();
        }
        rest.to_owned()
    }
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;
