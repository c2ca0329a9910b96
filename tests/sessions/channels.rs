//! The same commands over Telegram and Discord.

use std::time::{Duration, Instant};

use serde_json::json;

use super::SOON;
use crate::support::discord::{Discord, BOT};
use crate::support::http::Reply;
use crate::support::scripted::{echo, Model, Play};
use crate::support::telegram::{person_of, Telegram, BOT_NAME};

fn hanging() -> Model {
    Model::start(|ask| {
        if ask.text.ends_with("slow") {
            Play::Do(Reply::Hang)
        } else {
            Play::Say(echo(&ask.text))
        }
    })
}

#[test]
fn commands_over_telegram() {
    let (peer, model) = (Telegram::start(), hanging());
    let mut site = crate::telegram::site_of(&peer, &model.url());
    site.config["session"] = json!({"triggers": ["/new", "nuevo"], "recall_max": 4});
    let daemon = site.start();
    peer.say(7, "one");
    peer.wait_for_sent(1, SOON);
    peer.say(7, "/new");
    peer.say(7, "/recall");
    let sent = peer.wait_for_sent(3, SOON);
    assert!(sent[2].text.contains(&echo("one")), "{sent:?}");
    peer.say(7, "slow");
    model.wait_for_asks(2, SOON);
    let begun = Instant::now();
    peer.say(7, "/stop");
    peer.say(7, "on");
    let sent = peer.wait_for_sent(5, SOON);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(sent[4].text.ends_with("on"), "{sent:?}");
    // In a group: ours by name, ours alone, another bot's, and no command at all.
    let group = |text: &str, entities: serde_json::Value| {
        peer.message(
            json!({"from": person_of(7), "chat": {"id": -100, "type": "supergroup", "title": "g"},
            "text": text, "entities": entities}),
        );
    };
    let command = |length: usize| json!([{"type": "bot_command", "offset": 0, "length": length}]);
    group("/weather", command(8));
    group("/new@another_bot", command(16));
    let named = format!("/help@{BOT_NAME}");
    group(&named, command(named.len()));
    group("/new", command(4));
    let sent = peer.wait_for_sent(7, SOON);
    assert!(sent[5].text.contains("nuevo"), "{sent:?}");
    assert_eq!((sent[5].chat, sent[6].chat), (-100, -100));
    peer.wait_for_acknowledged(SOON);
    // What Telegram is told of: what is there, and only what it takes as a name.
    let told = peer.seen("setMyCommands");
    assert_eq!(told.len(), 2);
    for (told, language) in told.iter().zip([json!(null), json!("es")]) {
        let all = told.params["commands"].as_array().unwrap();
        let words: Vec<&str> = all
            .iter()
            .map(|one| one["command"].as_str().unwrap())
            .collect();
        assert_eq!(words, ["new", "recall", "stop", "help"]);
        assert_eq!(told.params["language_code"], language);
    }
    assert_ne!(told[0].params["commands"], told[1].params["commands"]);
    assert_eq!(model.asks().len(), 3);
    daemon.stop();
}

#[test]
fn a_stop_is_not_done_again_when_the_process_was_killed_behind_it() {
    let (peer, model) = (Telegram::start(), hanging());
    let mut site = crate::telegram::site_of(&peer, &model.url());
    site.config["session"] = json!({});
    let daemon = site.start();
    peer.say(7, "slow");
    model.wait_for_asks(1, SOON);
    peer.say(7, "/stop");
    peer.wait_for_sent(1, SOON);
    daemon.kill();
    let daemon = site.start();
    peer.say(7, "and slow");
    model.wait_for_asks(2, SOON);
    peer.wait_for_acknowledged(SOON);
    let cancelled = "korvun_run_duration_seconds_count{brain=\"main\",outcome=\"cancelled\"}";
    let metrics = || daemon.admin("GET", "/metrics", None).text();
    assert!(!metrics().contains(cancelled), "{}", metrics());
    let before = peer.sent().len();
    peer.say(7, "/stop");
    peer.wait_for_sent(before + 1, SOON);
    peer.say(7, "on");
    peer.wait_for_sent(before + 2, SOON);
    assert!(
        metrics().contains(&format!("{cancelled} 1")),
        "{}",
        metrics()
    );
}

#[test]
fn commands_over_discord() {
    let (peer, model) = (Discord::start(), hanging());
    let mut site = crate::discord::site_of(&peer, &model.url());
    site.config["session"] = json!({"recall_max": 4});
    let daemon = site.start();
    peer.wait_for_live(SOON);
    peer.say("51", "one");
    peer.wait_for_sent(1, SOON);
    peer.say("51", "/new");
    peer.say("51", "/recall");
    let sent = peer.wait_for_sent(3, SOON);
    assert!(sent[2].text.contains(&echo("one")), "{sent:?}");
    peer.say("51", "slow");
    model.wait_for_asks(2, SOON);
    let begun = Instant::now();
    peer.say("51", "/stop");
    peer.say("51", "on");
    let sent = peer.wait_for_sent(5, SOON);
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(sent[4].text.ends_with("on"), "{sent:?}");
    // In a server: a word that is none of ours is no command, and a mention before one is taken off.
    peer.say_in_guild("52", "/weather", &[]);
    peer.say_in_guild("52", &format!("<@{BOT}> /help"), &[BOT]);
    peer.say_in_guild("52", "/reset", &[]);
    let sent = peer.wait_for_sent(7, SOON);
    assert!(sent[5].text.contains("/recall"), "{sent:?}");
    assert_eq!(sent[6].channel, "52");
    assert_eq!(model.asks().len(), 3);
    daemon.stop();
}
