//! What one chat waits for, no other does, on both platforms at once.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{bots, verdict};
use crate::support::discord::{Discord, Fault as RestFault};
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::site;
use crate::support::telegram::{Fault, Telegram};

const SOON: Duration = Duration::from_secs(60);
/// What the platforms ask for.
const HOLD: Duration = Duration::from_secs(60);
/// Far below it; above it what a busy machine takes for twelve answers.
const MEANWHILE: Duration = Duration::from_secs(20);

#[test]
fn a_chat_held_for_a_minute_holds_no_other_and_gets_its_answer_then() {
    let telegram = Telegram::scripted(|method, nth, _| {
        (method == "sendMessage" && nth == 1).then(|| Fault::flood(HOLD.as_secs()))
    });
    let discord = Discord::start();
    discord.script(|route, nth, _| {
        (route == "messages" && nth == 1).then_some(RestFault::Limit(HOLD.as_secs_f64(), false))
    });
    let model = Model::echo();
    let mut site = site(&model.url(), "http://127.0.0.1:9/");
    site.model()["parallel"] = json!(8);
    bots(&mut site, &telegram.url(), &discord.url());
    let daemon = site.start();
    verdict::connected(&daemon);
    telegram.say(7, "held");
    discord.say("57", "held");
    telegram.wait_for_calls("sendMessage", 1, SOON);
    discord.wait_until("message", SOON, |world| {
        (world.calls("messages") >= 1).then_some(())
    });
    let held = Instant::now();
    // More chats than a channel has senders, and each is heard twice.
    for round in ["free", "free again"] {
        for place in 0..8 {
            telegram.say(100 + place, round);
            discord.say(&format!("6{place}"), round);
        }
    }
    // What is said in the held chat stays behind what is held.
    telegram.say(7, "behind");
    discord.say("57", "behind");
    let free = [
        telegram.wait_for_sent(16, MEANWHILE).len(),
        discord.wait_for_sent(16, MEANWHILE).len(),
    ];
    let waited = held.elapsed();
    assert!(waited < MEANWHILE, "{waited:?}");
    assert_eq!(free, [16, 16]);
    assert!(telegram.texts(7).is_empty() && discord.texts("57").is_empty());
    println!("sixteen answers beside each held chat after {waited:?}");
    // Too early breaks a rule, which fails the test when the peers go.
    telegram.wait_for_sent(18, HOLD + MEANWHILE);
    discord.wait_for_sent(18, HOLD + MEANWHILE);
    assert!(
        held.elapsed() + Duration::from_secs(1) > HOLD,
        "{:?}",
        held.elapsed()
    );
    let both = [echo("held"), echo("behind")];
    assert_eq!(
        (telegram.texts(7), discord.texts("57")),
        (both.to_vec(), both.to_vec())
    );
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
}

#[test]
fn a_slow_model_in_one_chat_lets_the_others_answer_meanwhile() {
    let gate = Gate::default();
    let theirs = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == "slow" {
            theirs.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let (telegram, discord) = (Telegram::start(), Discord::start());
    let mut site = site(&model.url(), "http://127.0.0.1:9/");
    site.model()["parallel"] = json!(4);
    bots(&mut site, &telegram.url(), &discord.url());
    let daemon = site.start();
    verdict::connected(&daemon);
    telegram.say(7, "slow");
    discord.say("57", "slow");
    model.wait_for_asks(2, SOON);
    telegram.say(7, "behind");
    discord.say("57", "behind");
    for place in 0..8 {
        telegram.say(100 + place, "quick");
        discord.say(&format!("6{place}"), "quick");
    }
    telegram.wait_for_sent(8, SOON);
    discord.wait_for_sent(8, SOON);
    assert!(telegram.texts(7).is_empty() && discord.texts("57").is_empty());
    // Where the answer is being made, people see it.
    telegram.wait_for_calls("sendChatAction", 1, SOON);
    assert!(telegram
        .seen("sendChatAction")
        .iter()
        .any(|sign| sign.params["chat_id"] == 7));
    discord.wait_until("sign", SOON, |world| {
        world
            .typed()
            .iter()
            .any(|(_, channel)| channel == "57")
            .then_some(())
    });
    gate.open();
    telegram.wait_for_sent(10, SOON);
    discord.wait_for_sent(10, SOON);
    let both = [echo("slow"), echo("behind")];
    assert_eq!(
        (telegram.texts(7), discord.texts("57")),
        (both.to_vec(), both.to_vec())
    );
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
}
