//! From a message to its answer.

use super::{site_of, SOON};
use crate::support::discord::{Discord, BOT, TOKEN};
use crate::support::scripted::{echo, Model};

#[test]
fn a_message_is_heard_and_answered() {
    let (peer, model) = (Discord::start(), Model::echo());
    let site = site_of(&peer, &model.url());
    let daemon = site.start();
    peer.wait_for_live(SOON);
    peer.say("51", "hola");
    let sent = peer.wait_for_sent(1, SOON);
    assert_eq!(
        (sent[0].channel.as_str(), sent[0].text.as_str()),
        ("51", echo("hola").as_str())
    );
    assert_eq!(sent[0].reply_to, None);
    // In a server: a mention, and the answer refers to the message.
    peer.say_in_guild("52", "nothing for the bot", &[]);
    let id = peer.say_in_guild("52", &format!("<@{BOT}> how are you?"), &[BOT]);
    let sent = peer.wait_for_sent(2, SOON);
    assert_eq!(sent[1].reply_to, Some(id));
    assert_eq!(sent[1].channel, "52");
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    assert!(!log.contains("hola"), "{log}");
    assert_eq!(model.asks().len(), 2);
    // A stop says goodbye for good.
    assert_eq!(peer.world().closes, [1000]);
    assert_eq!(peer.world().identifies.len(), 1);
}
