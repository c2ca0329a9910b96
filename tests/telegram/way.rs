//! From a message to its answer.

use super::{site_of, SOON};
use crate::support::scripted::{echo, Model};
use crate::support::telegram::{Telegram, TOKEN};

#[test]
fn a_message_is_polled_answered_and_acknowledged() {
    let (peer, model) = (Telegram::start(), Model::echo());
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.say(7, "hola");
    let sent = peer.wait_for_sent(1, SOON);
    assert_eq!(
        (sent[0].chat, sent[0].text.as_str()),
        (7, echo("hola").as_str())
    );
    assert_eq!((sent[0].topic, sent[0].reply_to), (None, None));
    peer.wait_for_acknowledged(SOON);
    peer.say(7, "otra vez");
    peer.wait_for_sent(2, SOON);
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    assert_eq!(model.asked("hola"), 1);
    assert_eq!(peer.seen("deleteWebhook").len(), 1);
}
