//! Answers on their way out: cut, marked up, refused, held, moved.

use std::time::{Duration, Instant};

use korvun::channel::port::{Channel, Held, SendFailure};
use korvun::domain::ids::{ChannelName, Conversation};
use korvun::domain::message::Outgoing;
use serde_json::{json, Value};

use super::alone::{outgoing, short, Alone};
use crate::support::telegram::{Fault, Telegram};
use crate::support::telegram_text::units;

fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn a_long_answer_arrives_whole_in_parts_that_telegram_takes() {
    let peer = Telegram::start();
    let alone = Alone::built(&peer, &short());
    let fence: String = (0..1000)
        .map(|n| format!("let x{n} = \"<&>\";\n"))
        .collect();
    let prose = "Palabra 😀 👨‍👩‍👧 e\u{301} שלום **negrita** `código` & <b>. ".repeat(150);
    let nested: String = (0..60)
        .map(|n| format!("{}- item {n}\n", "  ".repeat(n % 5)))
        .collect();
    let table = format!(
        "| a | b |\n|---|---|\n{}",
        "| uno | dos & <tres> |\n".repeat(300)
    );
    let answer = format!("{prose}\n\n```rust\n{fence}```\n\n{nested}\n{table}\n\n> cita\n\nfin");
    let (confirmed, ended) = alone.send(&outgoing("7", &answer));
    assert_eq!(ended, Ok(()));
    let sent = peer.sent();
    assert!(sent.len() > 8, "{}", sent.len());
    assert_eq!(
        confirmed,
        (1..=u32::try_from(sent.len()).unwrap()).collect::<Vec<_>>()
    );
    assert!(sent
        .iter()
        .all(|part| units(&part.text) < 4096 && part.html.is_some()));
    let joined: String = sent.iter().map(|part| part.text.as_str()).collect();
    let joined = bare(&joined);
    for whole in [
        bare(&fence),
        bare("Palabra 😀 👨‍👩‍👧 e\u{301} שלום negrita código & <b>.").repeat(150),
        "•item59".to_owned(),
    ] {
        assert!(joined.contains(&whole), "missing: {}", &whole[..40]);
    }
    assert_eq!(joined.matches("dos&<tres>").count(), 300);
    assert!(joined.ends_with("citafin"));
}

#[test]
fn what_is_confirmed_is_not_sent_again() {
    let peer = Telegram::scripted(|method, nth, _| {
        (method == "sendMessage" && nth == 2).then(|| Fault::Html(502))
    });
    let alone = Alone::built(&peer, &short());
    let text = format!(
        "{}\n\n{}\n\n{}",
        "a".repeat(4000),
        "b".repeat(4000),
        "c".repeat(4000)
    );
    let (confirmed, ended) = alone.send(&outgoing("7", &text));
    assert_eq!(confirmed, [1]);
    assert!(matches!(ended, Err(SendFailure::Again { .. })), "{ended:?}");
    let again = Outgoing {
        parts_sent: 1,
        attempts: 1,
        ..outgoing("7", &text)
    };
    assert_eq!(alone.send(&again), (vec![2, 3], Ok(())));
    let first: Vec<char> = peer
        .texts(7)
        .iter()
        .filter_map(|text| text.chars().next())
        .collect();
    assert_eq!(first, ['a', 'b', 'c']);
}

#[test]
fn markup_that_is_refused_goes_plain_once() {
    let peer = Telegram::scripted(|method, _, params| {
        let refuse = Fault::Refuse(
            400,
            "Bad Request: can't parse entities: unsupported",
            Value::Null,
        );
        (method == "sendMessage" && params["parse_mode"] == "HTML").then_some(refuse)
    });
    let alone = Alone::built(&peer, &short());
    let (_, ended) = alone.send(&outgoing("7", "**a** < b & `c`"));
    assert_eq!(ended, Ok(()));
    assert_eq!(peer.texts(7), ["a < b & c"]);
    assert_eq!(peer.seen("sendMessage").len(), 2);
    peer.script(|method, _, _| {
        let refuse = Fault::Refuse(400, "Bad Request: can't parse entities: any", Value::Null);
        (method == "sendMessage").then_some(refuse)
    });
    let (_, ended) = alone.send(&outgoing("7", "**a**"));
    assert!(matches!(ended, Err(SendFailure::Never { .. })), "{ended:?}");
    assert_eq!(peer.seen("sendMessage").len(), 4);
}

#[test]
fn refusals_are_final_or_healed_by_what_they_are() {
    let again = |failure: &SendFailure| matches!(failure, SendFailure::Again { .. });
    for (fault, heals) in [
        (
            Fault::Refuse(403, "Forbidden: bot was blocked by the user", Value::Null),
            false,
        ),
        (
            Fault::Refuse(400, "Bad Request: chat not found", Value::Null),
            false,
        ),
        (Fault::Refuse(401, "Unauthorized", Value::Null), true),
        (
            Fault::Refuse(500, "Internal Server Error", Value::Null),
            true,
        ),
        (Fault::Html(502), true),
        (Fault::Close, true),
        (Fault::Hang, true),
        (
            Fault::Raw(b"HTTP/1.1 200 x\r\nContent-Length: 99\r\n\r\n{\"ok\":tr".to_vec()),
            true,
        ),
    ] {
        let shown = format!("{fault:?}");
        let peer = Telegram::scripted(move |method, _, _| {
            (method == "sendMessage").then(|| fault.clone())
        });
        let alone = Alone::built(&peer, &short());
        let (_, ended) = alone.send(&outgoing("7", "hola"));
        let failure = ended.expect_err("refused");
        assert_eq!(again(&failure), heals, "{shown}: {failure:?}");
        let told = format!("{failure:?}");
        assert!(!told.contains("AAtests"), "{told}");
    }
}

#[test]
fn a_flood_limit_holds_one_chat_and_no_other() {
    let peer = Telegram::scripted(|method, _, params| {
        (method == "sendMessage" && params["chat_id"] == 7).then(|| Fault::flood(60))
    });
    let alone = Alone::built(&peer, &short());
    let (_, ended) = alone.send(&outgoing("7", "hola"));
    let Err(SendFailure::Flood { wait, held, .. }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((wait, held), (Duration::from_secs(60), Held::Conversation));
    assert_eq!(alone.send(&outgoing("8", "hola")).1, Ok(()));
    // A topic of the same chat is held with it, and nothing is asked of Telegram.
    let (_, ended) = alone.send(&outgoing("7/3", "hola"));
    assert!(
        matches!(ended, Err(SendFailure::NotYet { wait, .. }) if wait > Duration::from_secs(50)),
        "{ended:?}"
    );
    assert_eq!(peer.seen("sendMessage").len(), 2);
}

#[test]
fn an_answer_that_is_too_much_is_no_reason_to_send_again() {
    let sent = |body: String| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let raw = (head + &body).into_bytes();
        let peer = Telegram::scripted(move |method, _, _| {
            (method == "sendMessage").then(|| Fault::Raw(raw.clone()))
        });
        let alone = Alone::built(&peer, &short());
        alone.send(&outgoing("7", "hola"))
    };
    let much = "[".repeat(300 * 1024);
    for body in [
        format!("{{\"ok\":true,\"result\":{much}"),
        format!("{{\"ok\":true,\"result\":{}", &much[..500]),
    ] {
        assert_eq!(sent(body), (vec![1], Ok(())));
    }
    // Somebody else's page is no yes.
    let (_, ended) = sent(much);
    assert!(matches!(ended, Err(SendFailure::Again { .. })), "{ended:?}");
}

#[test]
fn a_group_that_has_moved_is_followed() {
    let peer = Telegram::scripted(|method, _, params| {
        let moved = Fault::Refuse(
            400,
            "Bad Request: group chat was upgraded to a supergroup chat",
            json!({"migrate_to_chat_id": -100_500}),
        );
        (method == "sendMessage" && params["chat_id"] == -5).then_some(moved)
    });
    let alone = Alone::built(&peer, &short());
    let mut answer = outgoing("-5", "hola");
    answer.reply_to = Some(json!({"message": 9}).to_string());
    for _ in 0..2 {
        assert_eq!(alone.send(&answer).1, Ok(()));
    }
    assert_eq!(peer.texts(-100_500).len(), 2);
    // The number of a message means another one there.
    let referring: Vec<bool> = peer
        .seen("sendMessage")
        .iter()
        .map(|seen| !seen.params["reply_parameters"].is_null())
        .collect();
    assert_eq!(referring, [true, false, false]);
    // The second one goes there at once.
    assert_eq!(peer.seen("sendMessage").len(), 3);
}

#[test]
fn topic_and_message_are_kept() {
    let peer = Telegram::start();
    let alone = Alone::built(&peer, &short());
    let answer = Outgoing {
        reply_to: Some(json!({"message": 99}).to_string()),
        ..outgoing(
            "-100200/5",
            &format!("{}\n\n{}", "a".repeat(3000), "b".repeat(3000)),
        )
    };
    assert_eq!(alone.send(&answer).1, Ok(()));
    let sent = peer.sent();
    let places: Vec<_> = sent
        .iter()
        .map(|part| (part.chat, part.topic, part.reply_to))
        .collect();
    assert_eq!(
        places,
        [(-100_200, Some(5), Some(99)), (-100_200, Some(5), None)]
    );
}

#[test]
fn typing_shows_while_a_run_lasts_and_ends_before_the_answer() {
    let peer = Telegram::start();
    let alone = Alone::start(&peer, &short());
    let conversation = Conversation::new(&ChannelName::new("telegram"), "-100200/5");
    let began = Instant::now();
    let run = alone.channel.working(&conversation).expect("shown");
    peer.wait_for_calls("sendChatAction", 3, super::SOON);
    drop(run);
    assert_eq!(alone.send(&outgoing("-100200/5", "hola")).1, Ok(()));
    let answered = peer.seen("sendMessage")[0].at;
    std::thread::sleep(Duration::from_millis(500));
    let signs = peer.seen("sendChatAction");
    assert!(signs.iter().all(|sign| sign.at < answered));
    assert!(signs
        .iter()
        .all(|sign| sign.params["message_thread_id"] == 5));
    // A sign may arrive late, so that the next one is close behind it; none is sent early.
    for (n, sign) in (0..).zip(&signs) {
        assert!(sign.at - began >= Duration::from_millis(200) * n);
    }
}

#[test]
fn a_short_run_shows_nothing() {
    let peer = Telegram::start();
    let alone = Alone::start(&peer, &short());
    let conversation = Conversation::new(&ChannelName::new("telegram"), "7");
    drop(alone.channel.working(&conversation));
    std::thread::sleep(Duration::from_millis(150));
    assert!(peer.seen("sendChatAction").is_empty());
}

#[test]
fn a_sign_that_hangs_does_not_hold_the_answer() {
    let peer =
        Telegram::scripted(|method, _, _| (method == "sendChatAction").then_some(Fault::Hang));
    let alone = Alone::start(&peer, &short());
    let conversation = Conversation::new(&ChannelName::new("telegram"), "7");
    let run = alone.channel.working(&conversation);
    peer.wait_for_calls("sendChatAction", 1, super::SOON);
    drop(run);
    let began = Instant::now();
    assert_eq!(alone.send(&outgoing("8", "hola")).1, Ok(()));
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "another chat does not wait"
    );
    assert_eq!(alone.send(&outgoing("7", "hola")).1, Ok(()));
    assert!(began.elapsed() < Duration::from_secs(3));
}

/// Numbers from a seed (splitmix64, Steele, Lea and Flood 2014).
fn roll(state: &mut u64, sides: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ mixed >> 31) >> 1).unwrap() % sides
}

#[test]
fn whatever_a_model_writes_telegram_takes_each_part_and_no_word_is_missing() {
    let long_line = "x".repeat(5000);
    let fence = format!("```rust\n{}```\n", "let a = b < c && d > e;\n".repeat(450));
    let pieces = [
        "palabra ",
        "**",
        "*",
        "_",
        "~~",
        "`",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "  - ",
        "1. ",
        "# ",
        "| a | b |\n|---|---|\n| c | d |\n",
        "[t](https://e.org/?a=1&b=2)",
        "<b>",
        "</b>",
        "<",
        ">",
        "&",
        "&lt;",
        "\"",
        "\\",
        "```\n",
        "😀",
        "👨\u{200d}👩\u{200d}👧",
        "e\u{301}",
        "שלום ",
        "مرحبا ",
        "\u{202e}",
        "🇪🇸",
        &long_line,
        &fence,
    ];
    let peer = Telegram::start();
    let alone = Alone::built(&peer, &short());
    for seed in 0..150_u64 {
        let mut state = seed;
        let mut words = 0;
        let mut text = String::new();
        for _ in 0..roll(&mut state, 120) {
            text.push_str(pieces[roll(&mut state, pieces.len())]);
            if roll(&mut state, 3) == 0 {
                words += 1;
                text.push_str(&format!(" w{words}w "));
            }
        }
        if text.trim().is_empty() {
            continue;
        }
        let before = peer.sent().len();
        assert_eq!(alone.send(&outgoing("7", &text)).1, Ok(()), "seed {seed}");
        let said: String = peer.sent()[before..]
            .iter()
            .map(|part| part.text.clone() + "\n")
            .collect();
        let mut at = 0;
        for n in 1..=words {
            let word = format!("w{n}w");
            match said[at..].find(&word) {
                Some(found) => at += found + word.len(),
                // Behind a fence stands the name of a language, which is a class and no text.
                None => assert!(text.contains("```"), "seed {seed}: {word} is missing"),
            }
        }
    }
    // What the peer noted fails the test when it goes: markup, length, blank parts.
}

#[test]
fn a_sign_on_its_way_arrives_before_the_answer() {
    const LATE: Duration = Duration::from_millis(400);
    let peer = Telegram::scripted(|method, _, _| {
        (method == "sendChatAction").then_some(Fault::Late(LATE))
    });
    let alone = Alone::start(&peer, &short());
    let conversation = Conversation::new(&ChannelName::new("telegram"), "7");
    let run = alone.channel.working(&conversation);
    peer.wait_for_calls("sendChatAction", 1, super::SOON);
    drop(run);
    assert_eq!(alone.send(&outgoing("7", "hola")).1, Ok(()));
    let (sign, answer) = (
        peer.seen("sendChatAction")[0].at,
        peer.seen("sendMessage")[0].at,
    );
    assert!(answer - sign >= LATE, "{:?}", answer - sign);
}
