//! `kill -9` after and within each step of a run with three effects: each reaches its receiver at
//! most once, and the run ends with an answer that knows what is done and what is unknown.

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex};

use serde_json::{json, Value};

use super::house::{
    agent_site, audit, journal_left, messages, ollama, ollama_calls, replies, row, SOON,
};
use crate::support::http::{Reply as HttpReply, Server};
use crate::support::model::ollama_says;
use crate::support::scripted::Gate;
use crate::support::sink::Sink;

/// Where the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    /// While the model thinks for the so-many-th time, from 0.
    Asked(usize),
    /// While the receiver has the so-many-th call and has not answered yet, from 0.
    Called(usize),
}

/// Holds whoever comes to the point, once, and says that somebody has come.
struct Trap {
    point: Point,
    open: Gate,
    told: Mutex<Option<Sender<()>>>,
}

impl Trap {
    fn pass(&self, here: Point) {
        if here != self.point {
            return;
        }
        let told = self.told.lock().expect("trap").take();
        if let Some(told) = told {
            told.send(()).expect("the test listens");
            self.open.wait();
        }
    }
}

/// What the model says at the end: what it has been told of each call.
fn known(body: &Value) -> String {
    let told = messages(body)
        .into_iter()
        .filter(|message| message["role"] == "tool");
    let words = told.map(|message| {
        match message["content"]
            .as_str()
            .unwrap_or("")
            .contains("unknown")
        {
            true => "unknown",
            false => "done",
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn killed_at(point: Point) {
    let (told, come) = channel();
    let trap = Arc::new(Trap {
        point,
        open: Gate::default(),
        told: Mutex::new(Some(told)),
    });
    let keys = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let (theirs, seen) = (trap.clone(), keys.clone());
    let receiver = Server::start("127.0.0.1:0", move |request| {
        let nth = request.json()["step"].as_u64().expect("a step") as usize;
        let key = request
            .header("x-idempotency-key")
            .expect("a key")
            .to_owned();
        *seen.lock().expect("keys").entry(key).or_default() += 1;
        theirs.pass(Point::Called(nth));
        HttpReply::json(200, &json!({"taken": true}))
    });
    let (theirs, url) = (trap.clone(), format!("{}/hook", receiver.url()));
    let model = ollama(move |body| {
        let nth = replies(body);
        theirs.pass(Point::Asked(nth));
        match nth {
            0..=2 => ollama_calls(&[("webhook_call", json!({"url": url, "body": {"step": nth}}))]),
            _ => ollama_says(&known(body)),
        }
    });
    let sink = Sink::start();
    let agent = json!({"tools": ["webhook_call"],
        "webhook_call": {"allow_hosts": [receiver.addr().to_string()]}});
    let site = agent_site(&model.url(), &sink.url(), "native", agent);
    let daemon = site.start();
    let id = daemon
        .poster()
        .say("c", "do all three", None)
        .expect("accepted")
        .id;
    come.recv_timeout(SOON).expect("the run comes to the point");
    daemon.kill();
    trap.open.open();
    let daemon = site.start();
    let answer = sink.reply_to(&id, SOON).text().to_owned();
    let cut = match point {
        Point::Called(nth) => Some(nth),
        Point::Asked(_) => None,
    };
    let words = |nth| if cut == Some(nth) { "unknown" } else { "done" };
    assert_eq!(
        answer,
        [words(0), words(1), words(2)].join(" "),
        "{point:?}"
    );
    let keys = keys.lock().expect("keys").clone();
    assert_eq!(keys.len(), 3, "{point:?}: {keys:?}");
    assert!(
        keys.values().all(|count| *count == 1),
        "{point:?}: {keys:?}"
    );
    let outcome = |nth: usize| if cut == Some(nth) { "unknown" } else { "ok" };
    let rows: Vec<_> = (0..3)
        .map(|nth| row(nth as i64 + 1, "webhook_call", outcome(nth), ""))
        .collect();
    assert_eq!(audit(&site), rows, "{point:?}");
    assert_eq!(journal_left(&site), 0, "{point:?}");
    let metrics = daemon.admin("GET", "/metrics", None).text();
    let counted = metrics.lines().any(|line| {
        line.starts_with("korvun_tool_calls_total") && line.contains("outcome=\"unknown\"")
    });
    assert_eq!(counted, cut.is_some(), "{point:?}: {metrics}");
}

#[test]
fn each_effect_reaches_its_receiver_once_and_the_answer_knows() {
    let asked = (0..=3).map(Point::Asked);
    for point in asked.chain((0..=2).map(Point::Called)) {
        killed_at(point);
    }
}
