//! Where a message was said and where its answer goes: a chat, perhaps a topic in it, perhaps a
//! message to refer to. Pure.

use std::fmt;

use serde_json::{json, Value};

use crate::domain::message::ChatKind;

/// A chat, or a topic of a forum. Written `CHAT` or `CHAT/TOPIC`, which is the conversation's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub chat: i64,
    pub topic: Option<i64>,
}

impl Place {
    /// Where a message was said.
    pub(super) fn of_message(message: &Value) -> Option<Place> {
        let in_topic = message["is_topic_message"].as_bool() == Some(true);
        Some(Place {
            chat: message["chat"]["id"].as_i64()?,
            topic: message["message_thread_id"].as_i64().filter(|_| in_topic),
        })
    }

    /// The place of a conversation's id.
    pub(super) fn of_id(id: &str) -> Option<Place> {
        let (chat, topic) = match id.split_once('/') {
            Some((chat, topic)) => (chat, Some(topic.parse().ok()?)),
            None => (id, None),
        };
        Some(Place {
            chat: chat.parse().ok()?,
            topic,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topic {
            Some(topic) => write!(f, "{}/{topic}", self.chat),
            None => write!(f, "{}", self.chat),
        }
    }
}

/// What the channel gives along with a message, to answer it in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answerable {
    pub message: Option<i64>,
    pub chat: ChatKind,
}

impl Answerable {
    /// As it is stored: in groups an answer refers to the message that it answers.
    pub(super) fn written(self) -> Option<String> {
        match (self.chat, self.message) {
            (ChatKind::Group, Some(message)) => Some(json!({ "message": message }).to_string()),
            _ => None,
        }
    }

    /// The message to refer to, from what was stored.
    pub(super) fn message_of(stored: Option<&str>) -> Option<i64> {
        let value: Value = serde_json::from_str(stored?).ok()?;
        value["message"].as_i64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_and_read() {
        for (id, chat, topic) in [
            ("7", 7, None),
            ("-1001234567890", -1_001_234_567_890, None),
            ("-1001234567890/5", -1_001_234_567_890, Some(5)),
        ] {
            let place = Place { chat, topic };
            assert_eq!(Place::of_id(id), Some(place));
            assert_eq!(place.to_string(), id);
        }
        for id in ["", "x", "7/", "7/x", "7/1/2", "99999999999999999999"] {
            assert_eq!(Place::of_id(id), None, "{id}");
        }
    }

    #[test]
    fn a_thread_that_is_no_topic_is_no_place_of_its_own() {
        let message =
            |topic| json!({"chat": {"id": -5}, "message_thread_id": 9, "is_topic_message": topic});
        assert_eq!(
            Place::of_message(&message(true)).unwrap().to_string(),
            "-5/9"
        );
        assert_eq!(
            Place::of_message(&message(false)).unwrap().to_string(),
            "-5"
        );
        assert_eq!(Place::of_message(&json!({"chat": {"id": "x"}})), None);
    }

    #[test]
    fn answers_refer_to_their_message_in_groups_only() {
        let answerable = |chat| Answerable {
            message: Some(9),
            chat,
        };
        let stored = answerable(ChatKind::Group).written();
        assert_eq!(Answerable::message_of(stored.as_deref()), Some(9));
        assert_eq!(answerable(ChatKind::Direct).written(), None);
        assert_eq!(Answerable::message_of(Some("not ours")), None);
    }
}
