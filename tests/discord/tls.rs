//! The bot over https and wss, with an authority of the test's own.

use std::time::{Duration, Instant};

use super::{site_of, SOON};
use crate::support::authority::{Authority, Time};
use crate::support::daemon::Daemon;
use crate::support::discord::{At, Discord, Do, Fault};
use crate::support::scripted::{echo, Model};
use serde_json::{json, Value};

fn state(daemon: &Daemon) -> (String, String) {
    let all = daemon.admin("GET", "/api/channels", None).json();
    let all = all.as_array().unwrap();
    let one: &Value = all.iter().find(|one| one["type"] == "discord").unwrap();
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("last_error"))
}

fn wait_for_trouble(daemon: &Daemon, why: &str) {
    let until = Instant::now() + SOON;
    while !state(daemon).1.contains(why) {
        assert!(
            Instant::now() < until,
            "{:?}\n{}",
            state(daemon),
            daemon.log()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(state(daemon).0, "reconnecting");
}

#[test]
fn the_bot_speaks_https_and_wss_to_servers_of_a_trusted_authority_only() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    for (config, trouble) in [
        (ours.server("127.0.0.1", Time::Valid), None),
        (
            ours.server("elsewhere.test", Time::Valid),
            Some("another name"),
        ),
        (
            theirs.server("127.0.0.1", Time::Valid),
            Some("unknown authority"),
        ),
    ] {
        let model = Model::echo();
        let peer = Discord::on("127.0.0.1", Some(config));
        let mut site = site_of(&peer, &model.url());
        let bundle = ours.bundle(site.path());
        site.env.push(("SSL_CERT_FILE".to_owned(), bundle.into()));
        let daemon = site.start();
        match trouble {
            None => {
                peer.wait_for_live(SOON);
                peer.order(Do::Cut);
                peer.wait_for_resumes(1, SOON);
                peer.say("51", "hola");
                assert_eq!(peer.wait_for_sent(1, SOON)[0].text, echo("hola"));
            }
            Some(why) => {
                wait_for_trouble(&daemon, why);
                assert_eq!(peer.calls("gateway"), 0, "nothing was said");
            }
        }
        daemon.stop();
    }
}

#[test]
fn a_gateway_with_a_wrong_certificate_or_an_open_address_gets_no_token() {
    let ours = Authority::new("ours");
    // What is asked over https is right; the socket that it names is not.
    for (wrong, why) in [
        ("wss", "another name"),
        // Not private, and this machine all the same, should it ever be dialled.
        ("ws", "private_network_shield"),
        ("https://127.0.0.1", "no ws or wss address"),
    ] {
        let model = Model::echo();
        let peer = Discord::on("127.0.0.1", Some(ours.server("127.0.0.1", Time::Valid)));
        let other = Discord::on(
            "127.0.0.1",
            Some(ours.server("elsewhere.test", Time::Valid)),
        );
        let plain = Discord::start();
        let url = match wrong {
            "wss" => other.socket_url(),
            "ws" => plain.socket_url().replace("127.0.0.1", "0.0.0.0"),
            url => url.to_owned(),
        };
        peer.script(move |route, _, _| {
            (route == "gateway").then(|| Fault::Json(json!({"url": url})))
        });
        let mut site = site_of(&peer, &model.url());
        let bundle = ours.bundle(site.path());
        site.env.push(("SSL_CERT_FILE".to_owned(), bundle.into()));
        let daemon = site.start();
        wait_for_trouble(&daemon, why);
        for peer in [&other, &plain] {
            assert!(!peer.world().counts.contains_key(&At::Connect));
        }
        daemon.stop();
    }
}
