//! Tests of reading updates: who is heard, what is said, and that nothing hurts.

use serde_json::json;

use super::*;
use crate::config::plan::Respond;

fn me() -> Me {
    Me {
        id: 42,
        username: "korvun_bot".to_owned(),
    }
}

fn rules() -> Rules {
    Rules {
        channel: "telegram".into(),
        allow_from: None,
        respond: Respond::Mention,
        commands: vec!["/help".to_owned(), "/stop".to_owned()],
        text_bytes: 64 * 1024,
    }
}

/// A message of Ana's with these fields laid over it.
fn update(chat: &str, fields: Value) -> Value {
    let mut message = json!({
        "message_id": 9,
        "from": {"id": 7, "is_bot": false, "first_name": "Ana", "last_name": "García", "language_code": "es-AR"},
        "chat": {"id": if chat == "private" { 7 } else { -100 }, "type": chat},
        "date": 1,
    });
    for (name, value) in fields.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"update_id": 1000, "message": message})
}

fn said(seen: Seen) -> Inbound {
    match seen {
        Seen::Message(inbound) => *inbound,
        other => panic!("not heard: {other:?}"),
    }
}

fn reason(seen: Seen) -> Option<Ignored> {
    match seen {
        Seen::Passed { reason, .. } => Some(reason),
        Seen::Message(_) => None,
        Seen::Moved { .. } => panic!("moved"),
    }
}

fn entity(kind: &str, offset: usize, length: usize) -> Value {
    json!({"type": kind, "offset": offset, "length": length})
}

#[test]
fn a_private_message_is_heard_as_it_is() {
    let inbound = said(read(
        &update("private", json!({"text": "hola"})),
        &me(),
        &rules(),
    ));
    assert_eq!(
        inbound,
        Inbound {
            conversation: Conversation::new(&"telegram".into(), "7"),
            dedup: Some("42:1000".to_owned()),
            sender_id: "7".to_owned(),
            sender_name: "Ana García".to_owned(),
            text: "hola".to_owned(),
            attachment: None,
            language: Language::Es,
            chat: ChatKind::Direct,
            reply_to: None,
        }
    );
}

#[test]
fn in_groups_the_bot_hears_what_is_said_to_it() {
    let mention = |text: &str, offset, length| json!({"text": text, "entities": [entity("mention", offset, length)]});
    let command =
        |text: &str, length| json!({"text": text, "entities": [entity("bot_command", 0, length)]});
    let replied = |from: i64| json!({"text": "x", "reply_to_message": {"message_id": 1, "from": {"id": from}, "text": "y"}});
    let mut topic = replied(42);
    topic["reply_to_message"]["forum_topic_created"] = json!({"name": "t"});
    let text_mention = |id: i64| {
        let mut entity = entity("text_mention", 0, 3);
        entity["user"] = json!({"id": id});
        json!({"text": "Bot hola", "entities": [entity]})
    };
    for (fields, heard) in [
        (json!({"text": "hola"}), None),
        (mention("@korvun_bot hola", 0, 11), Some("hola")),
        (mention("@Korvun_Bot: hola", 0, 11), Some("hola")),
        (mention("  @korvun_bot, hola", 2, 11), Some("hola")),
        (
            mention("di @korvun_bot hola", 3, 11),
            Some("di @korvun_bot hola"),
        ),
        (mention("@korvun_bots hola", 0, 12), None),
        (mention("@korvun_bot", 0, 11), Some("@korvun_bot")),
        // Offsets are UTF-16 units: an emoji before the mention takes two.
        (
            mention("😀 @korvun_bot hola", 3, 11),
            Some("😀 @korvun_bot hola"),
        ),
        (mention("😀 @korvun_bot hola", 2, 11), None),
        // A name without its entity is only text; entities that lead nowhere are none.
        (json!({"text": "@korvun_bot hola"}), None),
        (mention("@korvun_bot", 0, 99), None),
        (mention("@korvun_bot", 18_446_744_073_709_551_615, 2), None),
        (mention("😀", 1, 1), None),
        (text_mention(42), Some("hola")),
        (text_mention(43), None),
        (command("/help me", 5), Some("/help me")),
        (command("/help@korvun_bot me", 16), Some("/help me")),
        (command("/help@other_bot me", 15), None),
        (command("/weather me", 8), None),
        (command("/weather@korvun_bot me", 19), Some("/weather me")),
        (
            json!({"text": "see /help", "entities": [entity("bot_command", 4, 5)]}),
            None,
        ),
        (replied(42), Some("x")),
        (replied(43), None),
        (topic, None),
    ] {
        for chat in ["group", "supergroup"] {
            let seen = read(&update(chat, fields.clone()), &me(), &rules());
            match heard {
                Some(text) => assert_eq!(said(seen).text, text, "{fields}"),
                None => assert_eq!(reason(seen), Some(Ignored::NotAddressed), "{fields}"),
            }
        }
    }
    let all = Rules {
        respond: Respond::All,
        ..rules()
    };
    let inbound = said(read(&update("group", json!({"text": "hola"})), &me(), &all));
    assert_eq!(
        (inbound.chat, &*inbound.conversation.id),
        (ChatKind::Group, "-100")
    );
    assert_eq!(Answerable::message_of(inbound.reply_to.as_deref()), Some(9));
}

#[test]
fn a_bot_without_a_name_is_called_by_nobody() {
    let nameless = Me {
        username: String::new(),
        ..me()
    };
    let fields = json!({"text": "@", "entities": [entity("mention", 0, 1)]});
    let seen = read(&update("group", fields), &nameless, &rules());
    assert_eq!(reason(seen), Some(Ignored::NotAddressed));
}

#[test]
fn the_gate_is_for_every_kind_of_message() {
    let photo = json!([{"file_id": "x"}]);
    let caption = json!({"photo": photo, "caption": "@korvun_bot look", "caption_entities": [entity("mention", 0, 11)]});
    let inbound = said(read(&update("group", caption), &me(), &rules()));
    assert_eq!(
        (inbound.text.as_str(), inbound.attachment.as_deref()),
        ("look", Some("photo"))
    );
    let bare = json!({"photo": photo, "caption": "@korvun_bot", "caption_entities": [entity("mention", 0, 11)]});
    let inbound = said(read(&update("group", bare), &me(), &rules()));
    assert_eq!(
        (inbound.text.as_str(), inbound.attachment.as_deref()),
        ("", Some("photo"))
    );
    let seen = read(&update("group", json!({"photo": photo})), &me(), &rules());
    assert_eq!(reason(seen), Some(Ignored::NotAddressed));
    let inbound = said(read(
        &update("private", json!({"photo": photo})),
        &me(),
        &rules(),
    ));
    assert_eq!(
        (inbound.text.as_str(), inbound.attachment.as_deref()),
        ("", Some("photo"))
    );
    for kind in [
        "voice",
        "sticker",
        "video",
        "video_note",
        "document",
        "location",
        "poll",
    ] {
        let inbound = said(read(
            &update("private", json!({kind: {"x": 1}})),
            &me(),
            &rules(),
        ));
        assert_eq!(inbound.attachment.as_deref(), Some(kind));
    }
    // An animation comes as a document too.
    let fields = json!({"document": {}, "animation": {}});
    let inbound = said(read(&update("private", fields), &me(), &rules()));
    assert_eq!(inbound.attachment.as_deref(), Some("animation"));
}

#[test]
fn what_cannot_be_read_in_an_album_is_said_once() {
    let fields = json!({"photo": [], "media_group_id": "g1"});
    let inbound = said(read(&update("private", fields), &me(), &rules()));
    assert_eq!(inbound.dedup.as_deref(), Some("42:album:g1"));
    let fields = json!({"photo": [], "media_group_id": "g1", "caption": "words"});
    let inbound = said(read(&update("private", fields), &me(), &rules()));
    assert_eq!(inbound.dedup.as_deref(), Some("42:1000"));
}

#[test]
fn strangers_bots_edits_and_services_are_passed_over() {
    let family = Rules {
        allow_from: Some(vec!["7".to_owned()]),
        ..rules()
    };
    let from = |id: i64, is_bot: bool| json!({"text": "x", "from": {"id": id, "is_bot": is_bot}});
    for (fields, passed) in [
        (from(7, false), None),
        (from(8, false), Some(Ignored::NotAllowed)),
        (from(77, false), Some(Ignored::NotAllowed)),
        (from(7, true), Some(Ignored::Bot)),
        (from(42, true), Some(Ignored::Own)),
        (json!({"new_chat_members": []}), Some(Ignored::Kind)),
        (json!({"text": "  "}), Some(Ignored::Kind)),
        (json!({"text": "x", "from": null}), Some(Ignored::Kind)),
        (
            json!({"text": "x", "chat": {"id": 7, "type": "channel"}}),
            Some(Ignored::Kind),
        ),
        (
            json!({"text": "x", "chat": {"id": "7", "type": "private"}}),
            Some(Ignored::Kind),
        ),
    ] {
        let seen = read(&update("private", fields.clone()), &me(), &family);
        let stranger = matches!(
            &seen,
            Seen::Passed {
                sender: Some(_),
                ..
            }
        );
        assert_eq!(stranger, passed == Some(Ignored::NotAllowed), "{fields}");
        assert_eq!(reason(seen), passed, "{fields}");
    }
    for (update, passed) in [
        (
            json!({"update_id": 1, "edited_message": {"text": "x"}}),
            Ignored::Edit,
        ),
        (json!({"update_id": 1, "poll_answer": {}}), Ignored::Kind),
        (json!({"update_id": 1}), Ignored::Kind),
        (json!({"update_id": 1, "message": "x"}), Ignored::Kind),
        (json!({"update_id": 1, "message": {}}), Ignored::Kind),
        (json!([]), Ignored::Kind),
        (json!(null), Ignored::Kind),
    ] {
        assert_eq!(
            reason(read(&update, &me(), &rules())),
            Some(passed),
            "{update}"
        );
    }
}

#[test]
fn topics_are_conversations_and_groups_move() {
    let fields = json!({"text": "/help", "entities": [entity("bot_command", 0, 5)],
        "message_thread_id": 5, "is_topic_message": true});
    let inbound = said(read(&update("supergroup", fields), &me(), &rules()));
    assert_eq!(&*inbound.conversation.id, "-100/5");
    let seen = read(
        &update("group", json!({"migrate_to_chat_id": -100_200})),
        &me(),
        &rules(),
    );
    assert_eq!(
        seen,
        Seen::Moved {
            from: -100,
            to: -100_200
        }
    );
}

#[test]
fn long_texts_and_names_are_cut() {
    let short = Rules {
        text_bytes: 20,
        ..rules()
    };
    let fields = json!({"text": "ñ".repeat(30), "from": {"id": 7, "first_name": "x".repeat(1000)}});
    let inbound = said(read(&update("private", fields), &me(), &short));
    assert_eq!(inbound.text, format!("{} […]", "ñ".repeat(7)));
    assert_eq!(inbound.sender_name.len(), NAME_BYTES);
}

#[test]
fn whatever_stands_in_an_update_it_is_read() {
    // Every field in turn replaced by every kind of value.
    let whole = update(
        "group",
        json!({"text": "😀@korvun_bot", "entities": [entity("mention", 2, 11)],
            "reply_to_message": {"from": {"id": 42}}, "media_group_id": "x", "message_thread_id": 1}),
    );
    let kinds = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!([]),
        json!({}),
        json!([[{}]]),
    ];
    let mut paths = Vec::new();
    fn walk(at: &str, value: &Value, out: &mut Vec<String>) {
        out.push(at.to_owned());
        match value {
            Value::Object(fields) => fields
                .iter()
                .for_each(|(k, v)| walk(&format!("{at}/{k}"), v, out)),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .for_each(|(n, v)| walk(&format!("{at}/{n}"), v, out)),
            _ => {}
        }
    }
    walk("", &whole, &mut paths);
    assert!(paths.len() > 20);
    for path in &paths {
        for kind in &kinds {
            let mut update = whole.clone();
            *update.pointer_mut(path).unwrap() = kind.clone();
            let _ = read(&update, &me(), &rules());
        }
    }
}

#[test]
fn no_number_of_entities_takes_long() {
    let named = |text: String, before: usize| {
        let mut entities = vec![entity("mention", 1, 1); before];
        entities.push(entity("mention", 0, 11));
        json!({"text": text, "entities": entities})
    };
    let name = "@korvun_bot ";
    for (text, before, heard) in [
        (name.to_owned(), ENTITIES_MOST - 1, true),
        (name.to_owned(), ENTITIES_MOST, false),
        (name.to_owned() + &"x".repeat(64 * 1024 - 12), 9, true),
        (name.to_owned() + &"x".repeat(64 * 1024), 9, false),
    ] {
        let seen = read(&update("group", named(text, before)), &me(), &rules());
        assert_eq!(reason(seen).is_none(), heard, "{before}");
    }
}
