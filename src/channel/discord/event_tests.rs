//! Events as Discord sends them, and as nobody should.

use serde_json::json;

use super::*;
use crate::config::plan::Respond;
use crate::domain::ids::ChannelName;

const ME: &str = "900";

fn me() -> Me {
    Me {
        id: ME.to_owned(),
        name: "korvun".to_owned(),
    }
}

fn rules() -> Rules {
    Rules {
        channel: ChannelName::new("discord"),
        allow_from: None,
        respond: Respond::Mention,
        commands: vec!["/help".to_owned(), "/new".to_owned()],
        text_bytes: 100,
    }
}

/// A message in a server, with `change` laid over it.
fn guild(change: &Value) -> Value {
    let mut message = json!({"id": "1", "channel_id": "52", "guild_id": "80", "type": 0, "content": "hola",
        "author": {"id": "41", "username": "ana", "global_name": "Ana"}, "mentions": [], "attachments": [], "embeds": []});
    for (key, value) in change.as_object().unwrap() {
        message[key] = value.clone();
    }
    message
}

/// A private one.
fn direct(change: &Value) -> Value {
    let mut message = guild(change);
    message.as_object_mut().unwrap().remove("guild_id");
    message
}

fn seen(data: &Value, rules: &Rules) -> Seen {
    read("MESSAGE_CREATE", data, &me(), rules)
}

fn text_of(data: &Value) -> Option<String> {
    match seen(data, &rules()) {
        Seen::Message(inbound) => Some(inbound.text),
        _ => None,
    }
}

#[test]
fn a_private_message_is_taken_whole() {
    let Seen::Message(inbound) = seen(&direct(&json!({})), &rules()) else {
        panic!("a message")
    };
    assert_eq!(
        *inbound,
        Inbound {
            conversation: Conversation::new(&ChannelName::new("discord"), "52"),
            dedup: Some("1".into()),
            sender_id: "41".into(),
            sender_name: "Ana".into(),
            text: "hola".into(),
            attachment: None,
            language: Language::En,
            chat: ChatKind::Direct,
            reply_to: None,
        }
    );
}

#[test]
fn in_a_server_a_mention_a_reply_or_a_command_is_heard() {
    let mentioned = json!([{"id": ME, "username": "korvun", "bot": true}]);
    let other = json!([{"id": "42", "username": "eva", "global_name": "Eva"}]);
    for (change, text) in [
        (json!({}), None),
        (
            json!({"content": "<@900> hola", "mentions": mentioned}),
            Some("hola"),
        ),
        (
            json!({"content": "<@!900>: hola", "mentions": mentioned}),
            Some("hola"),
        ),
        (
            json!({"content": " <@900>, hola", "mentions": mentioned}),
            Some("hola"),
        ),
        (
            json!({"content": "<@900>", "mentions": mentioned}),
            Some("@korvun"),
        ),
        (
            json!({"content": "hola <@900>", "mentions": mentioned}),
            Some("hola @korvun"),
        ),
        (
            json!({"content": "<@900> /new", "mentions": mentioned}),
            Some("/new"),
        ),
        (
            json!({"content": "<@900> ask <@42> or <@43>", "mentions": [mentioned[0], other[0]]}),
            Some("ask @Eva or <@43>"),
        ),
        (json!({"content": "<@42> hola", "mentions": other}), None),
        // A mention that is written but none: in code, for example.
        (json!({"content": "`<@900>`"}), None),
        (
            json!({"type": 19, "referenced_message": {"author": {"id": ME}}}),
            Some("hola"),
        ),
        (
            json!({"type": 19, "referenced_message": {"author": {"id": "42"}}}),
            None,
        ),
        (json!({"type": 19, "referenced_message": null}), None),
        (json!({"content": "/help"}), Some("/help")),
        (json!({"content": "/new begin"}), Some("/new begin")),
        (json!({"content": "/helpme"}), None),
        (json!({"content": "say /help"}), None),
        (json!({"content": "/other"}), None),
    ] {
        assert_eq!(text_of(&guild(&change)).as_deref(), text, "{change}");
    }
    let all = Rules {
        respond: Respond::All,
        ..rules()
    };
    assert!(matches!(seen(&guild(&json!({})), &all), Seen::Message(_)));
}

#[test]
fn an_answer_in_a_server_refers_to_the_message_and_names_who_speaks() {
    for (member, name) in [
        (json!({"nick": "La jefa"}), "La jefa"),
        (json!({"nick": null}), "Ana"),
        (json!({"nick": " "}), "Ana"),
        (json!(7), "Ana"),
    ] {
        let Seen::Message(inbound) = seen(
            &guild(&json!({"content": "/help", "member": member})),
            &rules(),
        ) else {
            panic!("a message")
        };
        assert_eq!(inbound.sender_name, name);
        assert_eq!(inbound.reply_to.as_deref(), Some("1"));
        assert_eq!(inbound.chat, ChatKind::Group);
    }
}

#[test]
fn what_is_not_for_us_is_passed_over_with_its_reason() {
    let rules = Rules {
        allow_from: Some(vec!["41".into()]),
        ..rules()
    };
    let passed = |reason| Seen::Passed {
        reason,
        sender: None,
    };
    for (change, expected) in [
        (
            json!({"author": {"id": ME, "bot": true}}),
            passed(Ignored::Own),
        ),
        (
            json!({"author": {"id": "7", "bot": true}}),
            passed(Ignored::Bot),
        ),
        (json!({"webhook_id": "7"}), passed(Ignored::Bot)),
        (json!({"type": 7}), passed(Ignored::Kind)),
        (json!({"type": 20}), passed(Ignored::Kind)),
        (json!({"content": ""}), passed(Ignored::Kind)),
        (json!({"content": 7}), passed(Ignored::Kind)),
        (json!({"id": "1/2"}), passed(Ignored::Kind)),
        (json!({"id": 1}), passed(Ignored::Kind)),
        (json!({"channel_id": "../users/@me"}), passed(Ignored::Kind)),
        (json!({"author": null}), passed(Ignored::Kind)),
        (
            json!({"author": {"id": "42", "username": "eva"}}),
            Seen::Passed {
                reason: Ignored::NotAllowed,
                sender: Some("42".into()),
            },
        ),
    ] {
        assert_eq!(seen(&direct(&change), &rules), expected, "{change}");
    }
    let nobody = json!({"author": {"id": "42"}});
    assert!(matches!(
        seen(&guild(&nobody), &rules),
        Seen::Passed {
            reason: Ignored::NotAllowed,
            ..
        }
    ));
    let edit = json!({"edited_timestamp": "2026-01-01T00:00:00Z"});
    assert_eq!(
        read("MESSAGE_UPDATE", &edit, &me(), &rules),
        passed(Ignored::Edit)
    );
    let preview = json!({"edited_timestamp": null, "embeds": [{}]});
    assert_eq!(
        read("MESSAGE_UPDATE", &preview, &me(), &rules),
        Seen::Nothing
    );
    assert_eq!(
        read("A_NEW_EVENT", &json!([]), &me(), &rules),
        Seen::Nothing
    );
}

#[test]
fn what_cannot_be_read_is_named() {
    for (change, kind, text) in [
        (
            json!({"content": "", "attachments": [{"content_type": "image/png"}]}),
            Some("image/png"),
            "",
        ),
        (
            json!({"content": "look", "attachments": [{"content_type": "image/png"}]}),
            Some("image/png"),
            "look",
        ),
        (
            json!({"content": "", "attachments": [{}]}),
            Some("file"),
            "",
        ),
        (
            json!({"content": "", "sticker_items": [{}]}),
            Some("sticker"),
            "",
        ),
        (json!({"content": "", "poll": {}}), Some("poll"), ""),
        (
            json!({"content": "", "message_snapshots": [{}]}),
            Some("forward"),
            "",
        ),
        (json!({"content": "x", "attachments": "no"}), None, "x"),
    ] {
        let Seen::Message(inbound) = seen(&direct(&change), &rules()) else {
            panic!("{change}")
        };
        assert_eq!(
            (inbound.attachment.as_deref(), inbound.text.as_str()),
            (kind, text),
            "{change}"
        );
    }
    // A mention beside a picture is no words.
    let change = json!({"content": "<@900>", "mentions": [{"id": ME}], "attachments": [{"content_type": "image/png"}]});
    assert_eq!(text_of(&guild(&change)).as_deref(), Some(""));
}

#[test]
fn a_text_that_discord_keeps_back_is_told_from_an_empty_one() {
    for (change, withheld) in [
        (json!({"content": ""}), true),
        (json!({"content": "", "embeds": [{}]}), false),
        (json!({"content": " "}), false),
        (json!({"content": "", "type": 7}), false),
    ] {
        let seen = seen(&guild(&change), &rules());
        assert_eq!(seen == Seen::Withheld, withheld, "{change}");
    }
}

#[test]
fn a_text_is_cut_with_a_mark_and_mentions_without_end_do_no_harm() {
    let long = text_of(&direct(&json!({"content": "é".repeat(90)}))).unwrap();
    assert!(long.len() <= 100 && long.ends_with(CUT));
    let many = "<@42><@".repeat(100_000);
    let change = json!({"content": many, "mentions": [{"id": "42", "username": "eva"}]});
    assert!(text_of(&direct(&change)).unwrap().starts_with("@eva<@@eva"));
    for content in [
        "<@",
        "<@>",
        "<@!",
        "<@900",
        "<@x>",
        "<@99999999999999999999999>",
    ] {
        assert_eq!(
            text_of(&direct(&json!({"content": content}))).as_deref(),
            Some(content)
        );
    }
}

#[test]
fn no_event_makes_it_panic() {
    let scraps = [
        json!(null),
        json!([]),
        json!({}),
        json!("x"),
        json!(-1),
        json!(1e300),
        json!([[[]]]),
        json!({"id": {"id": 7}}),
    ];
    let keys = [
        "id",
        "channel_id",
        "guild_id",
        "type",
        "content",
        "author",
        "member",
        "mentions",
        "attachments",
        "embeds",
        "poll",
        "sticker_items",
        "message_snapshots",
        "referenced_message",
        "webhook_id",
    ];
    for key in keys {
        for scrap in &scraps {
            let change = json!({ key: scrap });
            let _ = seen(&guild(&change), &rules());
            let _ = seen(&direct(&change), &rules());
        }
    }
    for scrap in scraps {
        for name in ["MESSAGE_CREATE", "MESSAGE_UPDATE", ""] {
            let _ = read(name, &scrap, &me(), &rules());
        }
        let _ = Me::of(&scrap);
    }
}
