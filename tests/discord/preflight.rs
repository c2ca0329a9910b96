//! What the preflight says of a bot: each failure with its cure, and never a session.

use std::process::Command;

use serde_json::Value;

use super::site_of;
use crate::support::daemon::Site;
use crate::support::discord::{Discord, Fault, TOKEN};
use crate::support::scripted::Model;

/// Status, message and help of the check of the channel.
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
    assert!(!out.contains(TOKEN), "{out}");
    let value: Value = serde_json::from_str(&out).expect("one JSON value");
    let checks = value["checks"].as_array().expect("checks").clone();
    let is_channel = |check: &&Value| check["name"] == "channel discord";
    let check = checks.iter().find(is_channel).expect("the channel's check");
    let text = |key: &str| check[key].as_str().unwrap().to_owned();
    (text("status"), text("message"), text("help"))
}

#[test]
fn each_thing_that_can_be_amiss_is_told_with_its_cure() {
    let (peer, model) = (Discord::start(), Model::echo());
    let mut site = site_of(&peer, &model.url());
    let (status, message, _) = told(&site);
    let fine = "korvun answers, 1000 sessions are left today";
    assert_eq!((status.as_str(), message.as_str()), ("ok", fine));
    for (fault, status, help) in [
        (
            Fault::Refuse(401, 0, "401: Unauthorized"),
            "failed",
            "Reset Token",
        ),
        (Fault::Limit(0.1, false), "warn", "try again in 1 s"),
        (Fault::Html(502), "failed", "correct base_url"),
        (Fault::Close, "failed", "is the network up"),
    ] {
        peer.script(move |route, _, _| (route == "me").then(|| fault.clone()));
        let (got, message, cure) = told(&site);
        assert_eq!(got, status, "{message}");
        assert!(cure.contains(help), "{message}: {cure}");
    }
    peer.script(|_, _, _| None);
    peer.world().starts_left = 0;
    let (status, message, help) = told(&site);
    assert_eq!(status, "warn", "{message}");
    assert!(help.contains("stop the program"), "{help}");
    peer.withhold_content();
    let (status, message, help) = told(&site);
    assert_eq!(status, "failed", "{message}");
    assert!(help.contains("Message Content Intent"), "{help}");
    assert!(peer.world().counts.is_empty(), "the gateway was not opened");
    site.env.retain(|(name, _)| name != "T_DISCORD");
    let before = peer.calls("me");
    let (status, message, _) = told(&site);
    assert_eq!(status, "failed");
    assert!(message.contains("T_DISCORD has no value"), "{message}");
    assert_eq!(peer.calls("me"), before);
}
