//! Answers on their way out: limits kept, nothing lost, nothing said twice.

use std::time::{Duration, Instant};

use korvun::channel::port::{Channel, Held, SendFailure};
use korvun::domain::ids::{ChannelName, Conversation};
use serde_json::json;

use super::alone::{outgoing, Alone};
use super::SOON;
use crate::support::discord::{Discord, Fault};

#[test]
fn a_long_answer_goes_in_parts_each_whole_and_only_the_first_refers() {
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    let code = "let x = \"👨\u{200d}👩\u{200d}👧 é\";\n".repeat(400);
    let mut long = outgoing("51", "o1", &format!("Look:\n```rust\n{code}```\nDone."));
    long.reply_to = Some("777".into());
    let (confirmed, ended) = alone.send(&long);
    assert_eq!(ended, Ok(()));
    let sent = peer.sent();
    let count = u32::try_from(sent.len()).unwrap();
    assert!(count >= 4);
    assert_eq!(confirmed, (1..=count).collect::<Vec<_>>());
    let lines: usize = sent
        .iter()
        .map(|sent| sent.text.matches("let x").count())
        .sum();
    assert_eq!(lines, 400);
    assert_eq!(sent[0].reply_to.as_deref(), Some("777"));
    assert!(sent[1..].iter().all(|sent| sent.reply_to.is_none()));
    // A later try begins behind what is safe.
    let mut again = outgoing("51", "o2", &long.text);
    again.parts_sent = count - 1;
    let (confirmed, _) = alone.send(&again);
    assert_eq!(confirmed, [count]);
}

#[test]
fn a_send_whose_answer_is_lost_is_made_again_and_shown_once() {
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    peer.script(|route, nth, _| (route == "messages" && nth <= 2).then_some(Fault::LoseAnswer));
    let mut answer = outgoing("51", "o1", "hola");
    let (_, ended) = alone.send(&answer);
    assert!(matches!(ended, Err(SendFailure::Again { .. })), "{ended:?}");
    answer.attempts = 1;
    while let (_, Err(failure)) = alone.send(&answer) {
        assert!(matches!(failure, SendFailure::Again { .. }), "{failure:?}");
    }
    assert_eq!(peer.texts("51"), ["hola"]);
    // The same words as another answer are said.
    assert_eq!(alone.send(&outgoing("51", "o2", "hola")).1, Ok(()));
    assert_eq!(peer.texts("51"), ["hola", "hola"]);
}

#[test]
fn the_limit_told_in_headers_is_kept_without_one_refusal_and_nearly_used_up() {
    let peer = Discord::start();
    let span = Duration::from_millis(400);
    peer.bucket(2, span);
    let alone = Alone::built(&peer);
    let began = Instant::now();
    for n in 0..10 {
        let answer = outgoing("51", &format!("o{n}"), "hola");
        loop {
            match alone.send(&answer).1 {
                Ok(()) => break,
                Err(SendFailure::NotYet { wait, .. }) => std::thread::sleep(wait),
                Err(failure) => panic!("{failure:?}"),
            }
        }
        // Another channel has a limit of its own.
        if n == 1 {
            assert_eq!(alone.send(&outgoing("52", "p1", "hola")).1, Ok(()));
        }
    }
    let took = began.elapsed();
    assert_eq!((peer.refused(), peer.sent().len()), (0, 11));
    // Ten messages need four full spans; a tenth of the limit may go to waste, and a busy machine.
    assert!(took >= span * 4, "{took:?}");
    assert!(took < span * 4 + span * 3, "{took:?}");
}

#[test]
fn a_429_holds_its_channel_alone_and_a_global_one_holds_all() {
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    peer.script(|route, nth, _| match (route, nth) {
        ("messages", 1) => Some(Fault::Limit(0.6, false)),
        ("messages", 3) => Some(Fault::Limit(0.4, true)),
        _ => None,
    });
    let limited = |conversation: &str| alone.send(&outgoing(conversation, "o", "hola")).1;
    let Err(SendFailure::Flood { wait, held, .. }) = limited("51") else {
        panic!("limited")
    };
    // The header speaks of whole seconds, and rounds up.
    assert_eq!((wait, held), (Duration::from_secs(1), Held::Conversation));
    assert!(matches!(limited("51"), Err(SendFailure::NotYet { .. })));
    assert_eq!(limited("52"), Ok(()));
    let Err(SendFailure::Flood { held, .. }) = limited("53") else {
        panic!("limited")
    };
    assert_eq!(held, Held::Channel);
    for conversation in ["51", "52", "53", "54"] {
        let ended = limited(conversation);
        assert!(
            matches!(ended, Err(SendFailure::NotYet { .. })),
            "{ended:?}"
        );
    }
    assert_eq!(peer.calls("messages"), 3, "nothing was asked meanwhile");
}

#[test]
fn what_cannot_heal_ends_and_what_can_comes_again() {
    let never = |ended: &Result<(), SendFailure>| matches!(ended, Err(SendFailure::Never { .. }));
    let again = |ended: &Result<(), SendFailure>| matches!(ended, Err(SendFailure::Again { .. }));
    for (fault, heals, words) in [
        (Fault::Refuse(403, 50001, "Missing Access"), false, "50001"),
        (Fault::Refuse(404, 10003, "Unknown Channel"), false, "10003"),
        (
            Fault::Refuse(400, 50035, "Invalid Form Body"),
            false,
            "50035",
        ),
        (Fault::Refuse(401, 0, "401: Unauthorized"), true, "401"),
        (
            Fault::Refuse(500, 0, "500: Internal Server Error"),
            true,
            "500",
        ),
        (Fault::Html(502), true, "a proxy, or a wrong base_url"),
        (Fault::Close, true, ""),
    ] {
        let peer = Discord::start();
        let alone = Alone::built(&peer);
        let first = fault.clone();
        peer.script(move |route, _, _| (route == "messages").then(|| first.clone()));
        let ended = alone.send(&outgoing("51", "o1", "hola")).1;
        assert!(
            if heals { again(&ended) } else { never(&ended) },
            "{fault:?}: {ended:?}"
        );
        let (Err(SendFailure::Again { reason, .. }) | Err(SendFailure::Never { reason })) = &ended
        else {
            panic!("{ended:?}")
        };
        assert!(reason.contains(words), "{reason}");
        if matches!(fault, Fault::Refuse(401, ..)) {
            // Thousands of refusals would ban the address: nothing more is asked for a while.
            let ended = alone.send(&outgoing("52", "o2", "hola")).1;
            assert!(
                matches!(ended, Err(SendFailure::NotYet { .. })),
                "{ended:?}"
            );
        }
    }
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    assert!(never(&alone.send(&outgoing("51", "o1", " \n ")).1));
    assert!(never(&alone.send(&outgoing("../users/@me", "o1", "x")).1));
    assert_eq!(peer.calls("messages"), 0);
}

#[test]
fn where_it_may_not_refer_to_a_message_an_answer_goes_without() {
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    let refusal = Fault::Refuse(
        403,
        160_002,
        "Cannot reply without permission to read message history",
    );
    let first = refusal.clone();
    peer.script(move |route, nth, _| (route == "messages" && nth == 1).then(|| first.clone()));
    let mut answer = outgoing("51", "o1", "hola");
    answer.reply_to = Some("777".into());
    assert_eq!(alone.send(&answer), (vec![1], Ok(())));
    let sent = peer.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].text.as_str(), &sent[0].reply_to), ("hola", &None));
    // It is asked for once more, not for ever.
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    peer.script(move |route, _, _| (route == "messages").then(|| refusal.clone()));
    let ended = alone.send(&answer).1;
    assert!(matches!(ended, Err(SendFailure::Never { .. })), "{ended:?}");
    assert_eq!(peer.calls("messages"), 2);
}

#[test]
fn an_answer_that_is_a_whole_page_of_hostile_json_is_still_an_answer() {
    let peer = Discord::start();
    let alone = Alone::built(&peer);
    peer.script(|route, _, _| (route == "messages").then(|| Fault::Json(json!([[[[{}]]]]))));
    assert_eq!(alone.send(&outgoing("51", "o1", "hola")).1, Ok(()));
}

#[test]
fn people_see_that_an_answer_is_being_made_until_it_is() {
    let peer = Discord::start();
    let alone = Alone::start(&peer);
    let conversation = Conversation::new(&ChannelName::new("discord"), "51");
    let working = alone.channel.working(&conversation).expect("a sign");
    peer.wait_until("sign", SOON, |world| {
        (!world.typed().is_empty()).then_some(())
    });
    drop(working);
    assert_eq!(alone.send(&outgoing("51", "o1", "hola")).1, Ok(()));
    let typed = peer.typed();
    assert!(typed.iter().all(|(_, channel)| channel == "51"));
    let sent = peer.sent();
    assert!(
        typed.iter().all(|(at, _)| *at <= sent[0].at),
        "none behind the answer"
    );
}
