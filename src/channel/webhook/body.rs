//! The bodies of the webhook, in and out: pure. The caller's field names come from the mapping.

use serde_json::{Map, Value};

use crate::base::json;
use crate::config::plan::Mapping;
use crate::domain::ids::{ChannelName, Conversation, MessageId};
use crate::domain::message::{ChatKind, Inbound, Language, Outgoing, Role};

/// The longest sender or conversation id, in bytes (contract 4).
const ID_BYTES: usize = 256;
/// The longest idempotency key, in bytes (contract 4).
const KEY_BYTES: usize = 128;

/// Values of one body: far above what any service posts, far below what sixteen bodies at once could
/// cost a small box.
const VALUES_MOST: usize = 20_000;

/// Why a body is not a message. Each has its code in the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Not a JSON object.
    InvalidJson,
    /// Nobody said it.
    MissingSender,
    /// Nothing was said.
    MissingContent,
    /// A field is of the wrong type or too long; its name as the caller knows it.
    InvalidValue(String),
    /// The idempotency key is too long or empty.
    InvalidKey,
    /// The text is too long.
    TooLarge,
}

/// Reads a body. `key` is the idempotency key; `text_bytes` the longest text.
///
/// # Errors
/// The first [`Unfit`] in the contract's order.
pub fn parse(
    channel: &ChannelName,
    body: &[u8],
    key: Option<&str>,
    mapping: &Mapping,
    text_bytes: usize,
) -> Result<Inbound, Unfit> {
    let object = match json::bounded(body, VALUES_MOST) {
        Some(object @ Value::Object(_)) => object,
        _ => return Err(Unfit::InvalidJson),
    };
    let sender_id = id(&object, &mapping.sender_id)?.ok_or(Unfit::MissingSender)?;
    let text = field(&object, &mapping.text)?.unwrap_or_default();
    let media_url = field(&object, &mapping.media_url)?;
    let media_type = field(&object, &mapping.media_type)?;
    if text.trim().is_empty() && media_url.is_none() {
        return Err(Unfit::MissingContent);
    }
    let sender_name = field(&object, &mapping.sender_name)?.unwrap_or_default();
    let conversation = id(&object, &mapping.conversation_id)?.unwrap_or_else(|| sender_id.clone());
    if key.is_some_and(|key| key.is_empty() || key.len() > KEY_BYTES) {
        return Err(Unfit::InvalidKey);
    }
    if text.len() > text_bytes {
        return Err(Unfit::TooLarge);
    }
    Ok(Inbound {
        conversation: Conversation::new(channel, &conversation),
        dedup: key.map(str::to_owned),
        sender_id,
        sender_name,
        text,
        attachment: media_url.map(|_| media_type.unwrap_or_else(|| "media".to_owned())),
        language: Language::En,
        chat: ChatKind::Program,
        reply_to: None,
    })
}

fn id(object: &Value, name: &str) -> Result<Option<String>, Unfit> {
    match field(object, name)? {
        Some(text) if text.len() > ID_BYTES => Err(Unfit::InvalidValue(name.to_owned())),
        other => Ok(other),
    }
}

/// A field's text: strings as they are, numbers as they were written; null and the empty string
/// count as absent.
fn field(object: &Value, name: &str) -> Result<Option<String>, Unfit> {
    let value = if name.starts_with('/') {
        object.pointer(name)
    } else {
        object.get(name)
    };
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Unfit::InvalidValue(name.to_owned())),
    }
}

/// What goes out to the caller.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// Who speaks.
    pub role: Role,
    /// The name that people see.
    pub sender_name: &'a str,
    /// What is said.
    pub text: &'a str,
    /// The conversation, by the caller's id.
    pub conversation: &'a str,
    /// Its own id.
    pub message_id: &'a MessageId,
    /// The message it answers, if it answers one.
    pub in_reply_to: Option<&'a MessageId>,
}

impl<'a> From<&'a Outgoing> for Reply<'a> {
    fn from(outgoing: &'a Outgoing) -> Reply<'a> {
        Reply {
            role: outgoing.role,
            sender_name: &outgoing.sender_name,
            text: &outgoing.text,
            conversation: &outgoing.conversation.id,
            message_id: &outgoing.message_id,
            in_reply_to: outgoing.in_reply_to.as_ref(),
        }
    }
}

/// The body of a reply: the caller's names where they are plain keys, our own where the mapping
/// points into a structure. Empty fields are left out.
#[must_use]
pub fn render(reply: &Reply<'_>, mapping: &Mapping) -> Value {
    let plain = |mapped: &str, own: &str| {
        if mapped.starts_with('/') {
            own.to_owned()
        } else {
            mapped.to_owned()
        }
    };
    let sender = if reply.role == Role::Operator {
        "operator"
    } else {
        "korvun"
    };
    let mut body = Map::new();
    for (name, value) in [
        (plain(&mapping.sender_id, "sender_id"), sender),
        (
            plain(&mapping.sender_name, "sender_name"),
            reply.sender_name,
        ),
        (plain(&mapping.text, "text"), reply.text),
        (
            plain(&mapping.conversation_id, "conversation_id"),
            reply.conversation,
        ),
        ("message_id".to_owned(), reply.message_id.as_str()),
        (
            "in_reply_to".to_owned(),
            reply.in_reply_to.map_or("", MessageId::as_str),
        ),
    ] {
        if !value.is_empty() {
            body.insert(name, value.into());
        }
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Inbound, Unfit> {
        parse(
            &"webhook".into(),
            body.as_bytes(),
            None,
            &Mapping::default(),
            20,
        )
    }

    #[test]
    fn bodies_are_judged_in_the_contract_s_order() {
        let long = format!(r#"{{"sender_id":"{}","text":"x"}}"#, "s".repeat(257));
        for (body, unfit) in [
            ("", Unfit::InvalidJson),
            ("[]", Unfit::InvalidJson),
            ("{} {}", Unfit::InvalidJson),
            ("{}", Unfit::MissingSender),
            (r#"{"sender_id":null,"text":"x"}"#, Unfit::MissingSender),
            (r#"{"sender_id":"","text":"x"}"#, Unfit::MissingSender),
            (
                r#"{"sender_id":true,"text":"x"}"#,
                Unfit::InvalidValue("sender_id".into()),
            ),
            (r#"{"sender_id":"a"}"#, Unfit::MissingContent),
            (r#"{"sender_id":"a","text":" \n"}"#, Unfit::MissingContent),
            (
                r#"{"sender_id":"a","text":["x"]}"#,
                Unfit::InvalidValue("text".into()),
            ),
            (
                r#"{"sender_id":"a","text":"123456789012345678901"}"#,
                Unfit::TooLarge,
            ),
            (&long, Unfit::InvalidValue("sender_id".into())),
        ] {
            assert_eq!(read(body), Err(unfit), "{body}");
        }
    }

    #[test]
    fn a_body_of_very_many_values_is_not_read() {
        let body = format!(
            r#"{{"sender_id":"a","text":"x","z":[{}0]}}"#,
            "0,".repeat(VALUES_MOST)
        );
        assert_eq!(read(&body), Err(Unfit::InvalidJson));
    }

    #[test]
    fn numbers_keep_their_literal_text() {
        let inbound = read(r#"{"sender_id":12345678901234567890123,"text":1.50}"#).expect("fit");
        assert_eq!(
            (inbound.sender_id.as_str(), inbound.text.as_str()),
            ("12345678901234567890123", "1.50")
        );
        assert_eq!(&*inbound.conversation.id, "12345678901234567890123");
    }

    #[test]
    fn mapped_names_may_point_into_a_structure() {
        let mapping = Mapping {
            sender_id: "/user/id".into(),
            text: "/msgs/0/body".into(),
            conversation_id: "room".into(),
            ..Mapping::default()
        };
        let body = br#"{"user":{"id":7},"msgs":[{"body":"hi"}],"room":"r1"}"#;
        let inbound = parse(&"webhook".into(), body, Some("k"), &mapping, 20).expect("fit");
        assert_eq!(
            (inbound.sender_id.as_str(), inbound.text.as_str()),
            ("7", "hi")
        );
        assert_eq!(
            (&*inbound.conversation.id, inbound.dedup.as_deref()),
            ("r1", Some("k"))
        );
    }

    #[test]
    fn media_alone_is_a_message_that_cannot_be_read() {
        let inbound =
            read(r#"{"sender_id":"a","media_url":"http://x/y","media_type":"image/png"}"#);
        let inbound = inbound.expect("fit");
        assert_eq!(
            (inbound.text.as_str(), inbound.attachment.as_deref()),
            ("", Some("image/png"))
        );
    }

    #[test]
    fn keys_have_a_length() {
        for (key, fits) in [
            ("k", true),
            (&"k".repeat(128), true),
            (&"k".repeat(129), false),
            ("", false),
        ] {
            let body = br#"{"sender_id":"a","text":"x"}"#;
            let read = parse(&"webhook".into(), body, Some(key), &Mapping::default(), 20);
            assert_eq!(read.is_ok(), fits, "{}", key.len());
        }
    }

    #[test]
    fn answers_use_the_caller_s_names_and_leave_out_what_is_empty() {
        let asked = "i1".into();
        let reply = Reply {
            role: Role::Assistant,
            sender_name: "",
            text: "hello",
            conversation: "c",
            message_id: &"o1".into(),
            in_reply_to: Some(&asked),
        };
        let mapping = Mapping {
            text: "body".into(),
            sender_id: "/user/id".into(),
            ..Mapping::default()
        };
        let body = render(&reply, &mapping).to_string();
        assert_eq!(
            body,
            r#"{"sender_id":"korvun","body":"hello","conversation_id":"c","message_id":"o1","in_reply_to":"i1"}"#
        );
    }
}
