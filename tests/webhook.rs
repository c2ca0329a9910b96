//! The webhook by the letter of its contract, over real sockets; its parts in the folder of this name.

mod answers;
mod deliveries;
mod faults;
mod requests;
mod waiting;

use std::time::Duration;

use crate::support::daemon::{Daemon, Site};
use crate::support::http::{Client, Response};
use crate::support::scripted::Model;
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);
const JSON: (&str, &str) = ("Content-Type", "application/json");
const RIGHT: (&str, &str) = (
    "Authorization",
    "Bearer inbound-token-of-the-tests-0123456789",
);

/// Model, sink, site and daemon as most tests want them.
fn house() -> (Model, Sink, Site, Daemon) {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    (model, sink, site, daemon)
}

/// Sends bytes on a fresh connection and reads one response.
fn raw(site: &Site, bytes: &[u8]) -> Response {
    let mut client = Client::new(site.webhook, Duration::from_secs(30));
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
    client
        .send(bytes)
        .unwrap_or_else(|error| panic!("no answer ({error}) to:\n{shown}"))
}
