//! What the preflight says of a bot: each failure with its cure, and never a poll.

use std::process::Command;

use serde_json::{json, Value};

use super::site_of;
use crate::support::daemon::Site;
use crate::support::scripted::Model;
use crate::support::telegram::{Fault, Telegram, BOT_NAME, TOKEN};

/// Status, message and help of the check of the channel, and all that was printed.
fn told(site: &Site) -> (String, String, String) {
    std::fs::write(site.path().join("korvun.json"), site.config.to_string()).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_korvun"))
        .args(["config", "check", "korvun.json", "--preflight", "--json"])
        .current_dir(site.path())
        .env_clear()
        .envs(site.env.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    assert!(!out.contains(TOKEN) && !out.contains("AAtests"), "{out}");
    let value: Value = serde_json::from_str(&out).expect("one JSON value");
    let checks = value["checks"].as_array().expect("checks").clone();
    let is_channel = |check: &&Value| check["name"] == "channel telegram";
    let check = checks.iter().find(is_channel).expect("the channel's check");
    let text = |key: &str| check[key].as_str().unwrap().to_owned();
    (text("status"), text("message"), text("help"))
}

#[test]
fn each_thing_that_can_be_amiss_is_told_with_its_cure() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let site = site_of(&peer, &model.url());
    let (status, message, _) = told(&site);
    assert_eq!(
        (status.as_str(), message),
        ("ok", format!("@{BOT_NAME} answers"))
    );

    peer.set_webhook();
    let (status, message, help) = told(&site);
    assert_eq!(status, "warn");
    assert!(
        message.contains("a webhook is set") && help.contains("stop the program"),
        "{message} {help}"
    );
    assert!(peer.seen("deleteWebhook").is_empty());

    for (fault, status, help) in [
        (
            Fault::Refuse(401, "Unauthorized", Value::Null),
            "failed",
            "@BotFather",
        ),
        (
            Fault::Refuse(404, "Not Found", Value::Null),
            "failed",
            "@BotFather",
        ),
        (Fault::flood(3), "warn", "try again in 3 s"),
        (Fault::Html(502), "failed", "correct base_url"),
        (Fault::Close, "failed", "is the network up"),
    ] {
        peer.script(move |method, _, _| (method == "getMe").then(|| fault.clone()));
        if status == "warn" {
            peer.expect_broken("getMe before its retry_after");
        }
        let (got, message, cure) = told(&site);
        assert_eq!(got, status, "{message}");
        assert!(cure.contains(help), "{message}: {cure}");
    }
    assert!(
        peer.seen("getUpdates").is_empty(),
        "a running daemon's poll is left alone"
    );
}

#[test]
fn a_bot_that_hears_all_but_is_shown_little_is_told() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    site.config["channels"][1]["respond"] = json!("all");
    let (status, message, help) = told(&site);
    assert_eq!(status, "warn", "{message}");
    assert!(help.contains("/setprivacy"), "{help}");
}

#[test]
fn without_its_value_the_token_goes_nowhere() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    site.env.retain(|(name, _)| name != "T_TELEGRAM");
    let (status, message, _) = told(&site);
    assert_eq!(status, "failed");
    assert!(message.contains("T_TELEGRAM has no value"), "{message}");
    assert!(peer.seen("getMe").is_empty());
}
