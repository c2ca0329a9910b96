//! The bot over https, by a TLS server that hands each call on to the peer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{site_of, SOON};
use crate::support::authority::{Authority, Time};
use crate::support::daemon::{Daemon, Site};
use crate::support::http::{request, Client};
use crate::support::model::{ModelServer, Reply};
use crate::support::scripted::{echo, Model};
use crate::support::telegram::Telegram;

/// A TLS server in front of a peer.
fn before(peer: SocketAddr, config: Arc<rustls::ServerConfig>) -> ModelServer {
    ModelServer::start_tls(config, move |seen| {
        let target = seen.line.split(' ').nth(1).unwrap_or("/");
        let kind = [("Content-Type", "application/json")];
        let call = request("POST", target, "peer", &kind, &seen.body);
        match Client::new(peer, SOON).send(&call) {
            Ok(answer) => Reply::body(answer.status, "application/json", &answer.text()),
            Err(_) => Reply::raw(""),
        }
    })
}

fn state(daemon: &Daemon) -> (String, String) {
    let all = daemon.admin("GET", "/api/channels", None).json();
    let one = all
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "telegram")
        .unwrap()
        .clone();
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("last_error"))
}

fn trusting(site: &mut Site, bundle: &std::path::Path, url: &str) {
    site.env.push(("SSL_CERT_FILE".to_owned(), bundle.into()));
    site.config["channels"][1]["base_url"] = json!(url);
}

#[test]
fn the_bot_speaks_https_to_a_server_of_a_trusted_authority_only() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    for (config, trusted) in [
        (ours.server("127.0.0.1", Time::Valid), Ok(())),
        (
            ours.server("elsewhere.test", Time::Valid),
            Err("another name"),
        ),
        (
            theirs.server("127.0.0.1", Time::Valid),
            Err("unknown authority"),
        ),
    ] {
        let (peer, model) = (Telegram::start(), Model::echo());
        let tls = before(peer.addr(), config);
        let mut site = site_of(&peer, &model.url());
        let bundle = ours.bundle(site.path());
        trusting(&mut site, &bundle, &tls.https("127.0.0.1"));
        let daemon = site.start();
        peer.say(7, "hola");
        match trusted {
            Ok(()) => {
                let sent = peer.wait_for_sent(1, SOON);
                assert_eq!(sent[0].text, echo("hola"));
            }
            Err(why) => {
                let until = std::time::Instant::now() + SOON;
                while state(&daemon).0 != "reconnecting" {
                    assert!(std::time::Instant::now() < until, "{}", daemon.log());
                    std::thread::sleep(Duration::from_millis(5));
                }
                let told = state(&daemon).1;
                assert!(told.contains(why), "{told}");
                assert!(peer.seen("getMe").is_empty(), "nothing was said");
            }
        }
        daemon.stop();
    }
}
