//! What `/recall` brings back, to whom, and when it says that it cannot.

use serde_json::json;

use super::{answered, ask, last, site_with, SOON};
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;

#[test]
fn the_tail_of_the_last_session_is_one_block_that_the_model_sees_too() {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site_with(&model, &sink, json!({"recall_max": 3}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    let (nothing, id) = ask(&mut poster, &sink, "/recall");
    answered(&daemon, &id);
    assert!(!nothing.contains('['), "nothing yet: {nothing}");
    for text in ["one", "two", "three"] {
        ask(&mut poster, &sink, text);
    }
    let (late, _) = ask(&mut poster, &sink, "/recall 1");
    assert!(!late.contains("three"), "there is dialogue: {late}");
    ask(&mut poster, &sink, "/new");
    // At most recall_max, the newest.
    let (block, id) = ask(&mut poster, &sink, "/recall 50");
    answered(&daemon, &id);
    let lines: Vec<&str> = block.split("\n\n").collect();
    assert_eq!(lines.len(), 5, "{block}");
    assert!(
        lines[1].ends_with(&echo("two")) && lines[2].ends_with("three"),
        "{block}"
    );
    // A second one takes the place of the first, for the model.
    let (shorter, _) = ask(&mut poster, &sink, "/recall 1");
    ask(&mut poster, &sink, "four");
    assert_eq!(last(&model), [format!("{shorter}\n\nfour")]);
    ask(&mut poster, &sink, "five");
    assert_eq!(
        last(&model),
        [
            format!("{shorter}\n\nfour"),
            echo(&format!("{shorter}\n\nfour")),
            "five".to_owned()
        ]
    );
    // What was brought back is no dialogue of its session.
    ask(&mut poster, &sink, "/new");
    ask(&mut poster, &sink, "/recall 9");
    let (again, _) = ask(&mut poster, &sink, "/recall 9");
    assert!(again.starts_with('[') && again.contains("five"), "{again}");
    assert!(!again.contains("two"), "{again}");
}

#[test]
fn a_recall_that_is_off_says_so() {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site_with(&model, &sink, json!({}));
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "one");
    ask(&mut poster, &sink, "/new");
    let (words, id) = ask(&mut poster, &sink, "/recall");
    answered(&daemon, &id);
    assert!(!words.contains("one"), "{words}");
    let (help, _) = ask(&mut poster, &sink, "/help");
    assert!(help.contains("/new") && !help.contains("/recall"), "{help}");
}

#[test]
fn what_a_private_brain_had_is_brought_back_to_no_public_one() {
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site_with(&model, &sink, json!({"recall_max": 9}));
    site.config["brains"][0]["sensitivity"] = json!("private");
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "secret");
    // To the private brain itself it is.
    for text in ["hidden", "/new"] {
        let id = poster.say("p", text, None).expect("accepted").id;
        sink.reply_to(&id, SOON);
    }
    let id = poster.say("p", "/recall", None).expect("accepted").id;
    assert!(sink.reply_to(&id, SOON).text().contains("hidden"));
    daemon.stop();
    // The same conversations go to a public brain from now on.
    site.config["brains"][0]["sensitivity"] = json!("public");
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "open");
    assert_eq!(last(&model), ["open"], "in the session of the secret");
    ask(&mut poster, &sink, "/new");
    let (block, _) = ask(&mut poster, &sink, "/recall");
    assert!(
        block.contains("open") && !block.contains("secret"),
        "{block}"
    );
    ask(&mut poster, &sink, "more");
    assert!(!last(&model).concat().contains("secret"));
    // The block that was brought back in private is not shown either.
    let id = poster.say("p", "plain", None).expect("accepted").id;
    sink.reply_to(&id, SOON);
    assert_eq!(last(&model), ["plain"]);
    for text in ["/new", "/new"] {
        let id = poster.say("p", text, None).expect("accepted").id;
        sink.reply_to(&id, SOON);
    }
    let id = poster.say("p", "/recall", None).expect("accepted").id;
    assert!(!sink.reply_to(&id, SOON).text().contains("hidden"));
}
