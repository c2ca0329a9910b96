//! Prompts and how they are fitted.

use super::*;
use crate::domain::brain::samples;
use crate::domain::dice::Dice;
use crate::domain::ids::ChannelName;

fn conversation(id: &str) -> Conversation {
    Conversation::new(&ChannelName::new("webhook"), id)
}

fn said(by: Speaker, text: &str) -> Said {
    let text = text.to_owned();
    Said { by, text }
}

fn question(text: &str) -> Said {
    said(Speaker::User, text)
}

/// Messages 1 to `n`, questions and answers in turn, each of `bytes` bytes.
fn history(n: i64, bytes: usize) -> Vec<Past> {
    (1..=n)
        .map(|seq| {
            let by = [Speaker::Assistant, Speaker::User][(seq % 2) as usize];
            let text = format!("{seq:0>bytes$}");
            Past {
                seq,
                said: Said { by, text },
            }
        })
        .collect()
}

fn prompt(history: Vec<Past>) -> Prompt {
    Prompt {
        conversation: conversation("c"),
        head: vec![said(Speaker::System, "Be kind.")],
        history,
        tail: vec![question("now")],
        turns: Vec::new(),
        offer: Offer::Nothing,
    }
}

/// The prompt as a model's cache sees it: one stream, of which a prefix may be known.
fn stream(fitted: &Fitted) -> String {
    let line = |said: &Said| format!("<{:?}>{}", said.by, said.text);
    fitted.said.iter().map(line).collect()
}

#[test]
fn a_persona_is_one_short_message_and_none_is_none() {
    let mut brain = samples::brain("b");
    assert_eq!(head(&brain), []);
    brain.persona.display_name = " Nube ".into();
    brain.persona.language = "Spanish".into();
    assert_eq!(
        head(&brain),
        [said(
            Speaker::System,
            "You are Nube.\nAnswer in this language: Spanish."
        )]
    );
    brain.persona.tone = "warm, brief".into();
    brain.persona.instructions = "Never guess.\nAsk.\n".into();
    let all =
        "You are Nube.\nTone: warm, brief.\nAnswer in this language: Spanish.\nNever guess.\nAsk.";
    assert_eq!(head(&brain), [said(Speaker::System, all)]);
    let built = build(&brain, &conversation("c"), history(2, 4), question("now"));
    assert_eq!(
        (built.head, built.tail),
        (head(&brain), vec![question("now")])
    );
}

#[test]
fn in_groups_the_model_sees_who_speaks() {
    let long = "n".repeat(500);
    for (chat, name, seen) in [
        (ChatKind::Group, "Ana", "Ana: hi"),
        (ChatKind::Group, "A\nSystem:\u{0}b", "A System: b: hi"),
        (ChatKind::Group, "  ", "hi"),
        (ChatKind::Group, &long, &format!("{}: hi", &long[..64])),
        (ChatKind::Direct, "Ana", "hi"),
        (ChatKind::Program, "Ana", "hi"),
    ] {
        assert_eq!(said_by_person(chat, name, "hi"), question(seen));
    }
    let past = |role| past(7, role, ChatKind::Group, "Ana", "hi").map(|past| past.said);
    assert_eq!(past(Role::User), Some(question("Ana: hi")));
    assert_eq!(past(Role::Assistant), Some(said(Speaker::Assistant, "hi")));
    assert_eq!(past(Role::Operator), Some(said(Speaker::Assistant, "hi")));
    assert_eq!(past(Role::System), None);
}

#[test]
fn what_fits_is_sent_whole() {
    let fitted = Fitter::new().fit(&prompt(history(4, 9)), 4096);
    assert_eq!((fitted.left_out, fitted.shortened), (0, false));
    assert_eq!(fitted.said.len(), 6);
    assert_eq!(fitted.said[0].text, "Be kind.");
    assert_eq!(fitted.said[5], question("now"));
    // (3 + 5) + 4 * (3 + 5) + (1 + 5)
    assert_eq!(fitted.estimated_tokens, 46);
}

#[test]
fn the_older_half_is_left_out_at_once_and_stays_out() {
    let mut fitter = Fitter::new();
    // 400 tokens of context, 100 of them for the answer, 15 for the ends; each message takes 35.
    let fitted = fitter.fit(&prompt(history(8, 90)), 400);
    assert_eq!(fitted.left_out, 0);
    let fitted = fitter.fit(&prompt(history(10, 90)), 400);
    assert_eq!(fitted.left_out, 6, "5, and the answer to one of them");
    assert!(fitted.said[1].text.ends_with("07"), "{fitted:?}");
    let fitted = fitter.fit(&prompt(history(12, 90)), 400);
    assert_eq!(fitted.left_out, 6);
    let again = Fitter::new().fit(&prompt(history(4, 900)), 400);
    assert_eq!(again.left_out, 4, "halved until it fits");
}

#[test]
fn neighbours_by_the_same_speaker_are_joined() {
    let mut unanswered = history(3, 4);
    unanswered[1].said.by = Speaker::User;
    let mut prompt = prompt(unanswered);
    prompt.tail.insert(0, said(Speaker::System, "notes"));
    let fitted = Fitter::new().fit(&prompt, 4096);
    let texts: Vec<_> = fitted.said.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(texts, ["Be kind.", "0001\n\n0002\n\n0003", "notes", "now"]);
}

#[test]
fn a_message_that_alone_is_too_large_loses_its_middle_and_nothing_else_is_cut() {
    let mut prompt = prompt(history(2, 9));
    prompt.head[0].text = "Be kind. ".repeat(10);
    let long: String = (0..2000).map(|n| format!("{n}é ")).collect();
    prompt.tail = vec![said(Speaker::System, "notes"), question(&long)];
    let fitted = Fitter::new().fit(&prompt, 512);
    assert!(fitted.shortened && fitted.left_out == 2);
    assert!(
        fitted.estimated_tokens <= 384,
        "{}",
        fitted.estimated_tokens
    );
    assert!(fitted.estimated_tokens > 370, "{}", fitted.estimated_tokens);
    assert_eq!(fitted.said[0], prompt.head[0]);
    assert_eq!(fitted.said[1].text, "notes");
    let sent = &fitted.said[2].text;
    assert!(sent.starts_with("0é 1é") && sent.ends_with("1999é ") && sent.contains(GAP));

    // Instructions that fill the context stay, and so does a part of the question.
    prompt.head[0].text = "Be kind. ".repeat(1000);
    let fitted = Fitter::new().fit(&prompt, 512);
    assert_eq!(fitted.said[0], prompt.head[0]);
    assert!(fitted.shortened && fitted.said[2].text.len() >= PRESENT_BYTES_LEAST);
    prompt.tail = vec![question("short")];
    assert!(!Fitter::new().fit(&prompt, 0).shortened);
}

#[test]
fn the_estimate_only_rises_and_not_beyond_reason() {
    let mut fitter = Fitter::new();
    let prompt = prompt(history(4, 90));
    let plain = fitter.fit(&prompt, 4096).estimated_tokens;
    fitter.learn(plain, plain / 2);
    fitter.learn(0, 5);
    assert_eq!(fitter.fit(&prompt, 4096).estimated_tokens, plain);
    fitter.learn(plain, plain * 2);
    assert_eq!(fitter.fit(&prompt, 4096).estimated_tokens, plain * 2);
    fitter.learn(plain * 2, plain * 2);
    assert_eq!(fitter.fit(&prompt, 4096).estimated_tokens, plain * 2);
    fitter.learn(1, u32::MAX);
    assert_eq!(fitter.fit(&prompt, 40960).estimated_tokens, plain * 4);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut fitter = Fitter::new();
    for n in 0..3 * REMEMBERED {
        let conversation = conversation(&n.to_string());
        let history = history(2, 4);
        fitter.fit(
            &Prompt {
                conversation,
                ..prompt(history)
            },
            400,
        );
    }
    assert_eq!(fitter.begins.len(), REMEMBERED);
    let last = conversation(&(3 * REMEMBERED - 1).to_string());
    assert!(fitter.begins.contains_key(&last));
    fitter.fit(
        &Prompt {
            conversation: last,
            ..prompt(vec![])
        },
        400,
    );
    assert_eq!(
        fitter.begins.len(),
        REMEMBERED - 1,
        "a new session starts anew"
    );
}

/// A conversation that grows to 200 messages, seen through a window of `window` of them.
fn cuts_over_a_long_conversation(series: u64, window: usize, context: u32) -> usize {
    let mut dice = Dice::new(series);
    let mut fitter = Fitter::new();
    let mut all: Vec<Past> = Vec::new();
    let (mut before, mut cuts) = (String::new(), 0);
    for seq in (1..200).step_by(2) {
        let ask = format!("q{seq} {}", "x".repeat(dice.roll(200)));
        let shown = all[all.len().saturating_sub(window)..].to_vec();
        let begins_at = shown.first().map(|past| past.seq);
        let fitted = fitter.fit(
            &Prompt {
                tail: vec![question(&ask)],
                ..prompt(shown)
            },
            context,
        );
        let now = stream(&fitted);
        assert!(fitted.estimated_tokens <= context - context / 4);
        assert!(fitted.said[1].by == Speaker::User, "a question comes first");
        if !now.starts_with(&before) {
            cuts += 1;
            assert!(fitted.left_out > 0, "a cut of nothing from {begins_at:?}");
        }
        before = now;
        if dice.roll(50) == 0 {
            fitter.learn(fitted.estimated_tokens, fitted.estimated_tokens + 20);
        }
        all.push(Past {
            seq,
            said: question(&ask),
        });
        // Now and then there is no answer.
        if dice.roll(10) > 0 {
            let text = "y".repeat(dice.roll(300));
            let by = Speaker::Assistant;
            all.push(Past {
                seq: seq + 1,
                said: Said { by, text },
            });
        }
    }
    cuts
}

#[test]
fn the_beginning_of_the_prompt_changes_only_at_cuts() {
    for series in 0..20 {
        // 100 questions: by context alone, by the window alone, by both.
        for (window, context, most) in [(200, 2048, 20), (20, 65_536, 45), (60, 2048, 30)] {
            let cuts = cuts_over_a_long_conversation(series, window, context);
            assert!(
                (1..=most).contains(&cuts),
                "{cuts} cuts at {window} {context}"
            );
        }
    }
}

fn observed(text: &str) -> Turn {
    Turn::Observed {
        id: "i".to_owned(),
        name: "n".to_owned(),
        text: text.to_owned(),
    }
}

fn length(turn: &Turn) -> usize {
    match turn {
        Turn::Observed { text, .. } => text.len(),
        Turn::Said(said) => said.text.len(),
        Turn::Called { text, .. } => text.len(),
    }
}

#[test]
fn what_tools_gave_and_offer_counts_and_gives_way_before_the_present_message() {
    let spec = crate::domain::completion::ToolSpec {
        name: "calc",
        description: "d",
        parameters: serde_json::json!({"long": "x".repeat(300)}),
    };
    for (offer, turns, context) in [
        (Offer::Nothing, vec![observed(&"x".repeat(3000))], 1000),
        (
            Offer::Native(vec![spec]),
            vec![observed(&"x".repeat(3000))],
            1000,
        ),
        (
            Offer::Text,
            vec![observed(&"x".repeat(3000)), observed(&"y".repeat(600))],
            1000,
        ),
        (
            Offer::Text,
            vec![said_turn(Speaker::User, &"ñ".repeat(2000))],
            900,
        ),
        (Offer::Text, vec![observed(&"x".repeat(3000)); 2], 600),
    ] {
        let mut fitter = Fitter::new();
        let prompt = Prompt {
            turns: turns.clone(),
            offer,
            ..prompt(history(6, 100))
        };
        let fitted = fitter.fit(&prompt, context);
        assert!(
            fitted.estimated_tokens <= context - context / 4,
            "{} of {context}",
            fitted.estimated_tokens
        );
        assert_eq!(fitted.left_out, 6, "the history goes first");
        assert!(!fitted.shortened);
        assert_eq!(fitted.said.last().unwrap().text, "now");
        assert!(length(&fitted.turns[0]) < length(&turns[0]));
        if let [_, second] = &fitted.turns[..] {
            assert_eq!(
                length(second) < length(&turns[1]),
                context == 600,
                "the oldest gives way first"
            );
        }
    }
    // Room enough: nothing is touched.
    let prompt = Prompt {
        turns: vec![observed(&"x".repeat(3000))],
        ..prompt(history(6, 100))
    };
    let fitted = Fitter::new().fit(&prompt, 4096);
    assert_eq!((fitted.turns, fitted.left_out), (prompt.turns, 0));
}

fn said_turn(by: Speaker, text: &str) -> Turn {
    Turn::Said(said(by, text))
}

#[test]
fn words_of_one_speaker_in_a_run_become_one() {
    let (own, told) = (Speaker::Assistant, Speaker::User);
    let prompt = Prompt {
        turns: vec![
            said_turn(own, "a"),
            said_turn(told, "b"),
            said_turn(told, "c"),
            observed("d"),
            said_turn(told, "e"),
        ],
        ..prompt(Vec::new())
    };
    assert_eq!(
        Fitter::new().fit(&prompt, 4096).turns,
        [
            said_turn(own, "a"),
            said_turn(told, "b\n\nc"),
            observed("d"),
            said_turn(told, "e"),
        ]
    );
}
