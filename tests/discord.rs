//! Discord by the letter of its contract, the real daemon against a strict peer; its parts in the
//! folder of this name.

mod alone;
mod gateway;
mod house;
mod preflight;
mod sends;
mod tls;
mod way;

use std::time::Duration;

use serde_json::json;

use crate::support::daemon::Site;
use crate::support::discord::{Discord, TOKEN};
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);

/// A site whose bot talks to the peer, beside the webhook that each site has.
pub fn site_of(peer: &Discord, model_url: &str) -> Site {
    let mut site = site(model_url, "http://127.0.0.1:9/");
    let channel = json!({"type": "discord", "mode": "gateway", "token_env": "T_DISCORD", "base_url": peer.url()});
    site.config["channels"]
        .as_array_mut()
        .unwrap()
        .push(channel);
    let route = json!({"channel": "discord", "brain": "main"});
    site.config["routes"].as_array_mut().unwrap().push(route);
    site.env.push(("T_DISCORD".to_owned(), TOKEN.into()));
    site
}
