//! The measured runs: each drives a real daemon and hands back samples. Threads of the rig only.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::Daemon;
use crate::http::{request, Client};
use crate::load::{Accepted, Poster};
use crate::scripted::{echo, Model};
use crate::sink::{Delivery, Sink};
use crate::unit::Unit;

/// Longer than any answer here may take.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// One conversation in a closed loop: says, waits for the answer, says again.
struct Talk {
    poster: Poster,
    conversation: String,
    answers: Receiver<Delivery>,
    said: usize,
}

impl Talk {
    fn new(daemon: &Daemon, sink: &Sink, name: &str) -> Talk {
        let conversation = name.to_owned();
        let answers = sink.follow(&conversation);
        Talk {
            poster: daemon.poster(),
            conversation,
            answers,
            said: 0,
        }
    }

    /// One message and its answer; the run fails when it is not the brain's.
    fn turn(&mut self) -> (String, Accepted, Delivery) {
        self.said += 1;
        let text = format!(
            "{} message {} of a usual length, say",
            self.conversation, self.said
        );
        let accepted = self
            .poster
            .say(&self.conversation, &text, None)
            .expect("the webhook accepts");
        let answer = loop {
            let answer = self
                .answers
                .recv_timeout(ANSWER_WAIT)
                .expect("an answer at the sink");
            if answer.in_reply_to() == accepted.id {
                break answer;
            }
        };
        assert_eq!(answer.text(), echo(&text), "answered by the brain");
        (text, accepted, answer)
    }
}

/// What became of one message's time.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// From the first byte of the POST to the first byte at the sink, the model's own time taken off.
    pub added: Duration,
    /// From the first byte of the POST to the whole acknowledgement.
    pub acknowledged: Duration,
    /// From the first byte of the POST to the first byte at the model.
    pub asked: Duration,
    /// From the model's answer to the first byte at the sink.
    pub delivered: Duration,
}

/// Messages one at a time over 16 conversations, with a sample of the unit beside each where one is
/// handed in.
pub fn one_at_a_time(
    daemon: &Daemon,
    sink: &Sink,
    model: &Model,
    count: usize,
    mut unit: Option<&mut Unit>,
) -> Vec<Way> {
    let mut talks: Vec<_> = (0..16)
        .map(|index| Talk::new(daemon, sink, &format!("alone-{index}")))
        .collect();
    let mut ways = Vec::with_capacity(count);
    model.forget();
    for index in 0..count {
        let (text, accepted, answer) = talks[index % 16].turn();
        let spent = model
            .take_spent()
            .into_iter()
            .find(|spent| spent.text == text);
        let spent = spent.expect("the model was asked");
        let since = |later: Instant| later.saturating_duration_since(accepted.sent);
        let (whole, asked) = (since(answer.first_byte), since(spent.asked));
        ways.push(Way {
            added: whole.saturating_sub(spent.own),
            acknowledged: since(accepted.acknowledged),
            asked,
            delivered: whole.saturating_sub(asked + spent.own),
        });
        model.forget();
        if let Some(unit) = unit.as_deref_mut() {
            unit.measure(1);
        }
    }
    ways
}

/// `count` messages over 16 conversations in closed loops; how long they took.
pub fn closed_loops(
    daemon: &Daemon,
    sink: &Sink,
    model: &Model,
    name: &str,
    count: usize,
) -> Duration {
    let talks: Vec<_> = (0..16)
        .map(|index| Talk::new(daemon, sink, &format!("{name}-{index}")))
        .collect();
    let start = Instant::now();
    thread::scope(|scope| {
        for mut talk in talks {
            scope.spawn(move || {
                for index in 0..count / 16 {
                    talk.turn();
                    if index % 64 == 0 {
                        model.forget();
                    }
                }
            });
        }
    });
    start.elapsed()
}

/// The rig with nothing between: the load asks the model itself and posts the answer to the sink
/// itself, in `loops` closed loops; rounds a second and the time of each round.
pub fn ceiling(sink: &Sink, model: &Model, loops: usize, window: Duration) -> (f64, Vec<Duration>) {
    let start = Instant::now();
    let mut rounds = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..loops)
            .map(|index| scope.spawn(move || rounds_of(sink, model, index, window)))
            .collect();
        for thread in threads {
            rounds.extend(thread.join().expect("a loop of the rig"));
        }
    });
    model.forget();
    (rounds.len() as f64 / start.elapsed().as_secs_f64(), rounds)
}

fn rounds_of(sink: &Sink, model: &Model, index: usize, window: Duration) -> Vec<Duration> {
    let mut to_model = Client::new(model.addr(), ANSWER_WAIT);
    let mut to_sink = Client::new(sink.addr(), ANSWER_WAIT);
    let fields = [("Content-Type", "application/json")];
    let mut rounds = Vec::new();
    let start = Instant::now();
    while start.elapsed() < window {
        let round = Instant::now();
        let ask = json!({"model": "tiny", "stream": false, "messages": [
            {"role": "user", "content": format!("rig-{index} message {} of a usual length, say", rounds.len())}]});
        let ask = request(
            "POST",
            "/api/chat",
            "127.0.0.1",
            &fields,
            ask.to_string().as_bytes(),
        );
        let answer = to_model
            .send(&ask)
            .expect("the model answers the rig")
            .json();
        let reply = json!({"sender_id": "korvun", "sender_name": "main", "conversation_id": format!("rig-{index}"),
            "text": answer["message"]["content"]});
        let reply = request(
            "POST",
            "/in",
            "127.0.0.1",
            &fields,
            reply.to_string().as_bytes(),
        );
        assert_eq!(
            to_sink
                .send(&reply)
                .expect("the sink answers the rig")
                .status,
            200
        );
        rounds.push(round.elapsed());
        if rounds.len() % 64 == 0 {
            model.forget();
        }
    }
    rounds
}

/// From exec to the first message accepted.
pub fn first_accepted(daemon: &Daemon, webhook: std::net::SocketAddr) -> Duration {
    let body = json!({"sender_id": "tester", "conversation_id": "first", "text": "good morning"});
    let deadline = daemon.started + Duration::from_secs(10);
    loop {
        let mut poster = Poster::new(webhook, crate::daemon::WEBHOOK_TOKEN);
        if poster
            .post("", None, &body)
            .is_ok_and(|response| response.status == 200)
        {
            return daemon.started.elapsed();
        }
        assert!(
            Instant::now() < deadline,
            "no message accepted in ten seconds:\n{}",
            daemon.log()
        );
        thread::sleep(Duration::from_micros(200));
    }
}

/// Messages one at a time to a brain of several models: what came on top of the slowest.
pub fn over_the_slowest(
    daemon: &Daemon,
    sink: &Sink,
    slowest: &Model,
    count: usize,
) -> Vec<Duration> {
    let mut talk = Talk::new(daemon, sink, "fan");
    (0..count)
        .map(|_| {
            slowest.forget();
            let (text, accepted, answer) = talk.turn();
            let own = slowest
                .take_spent()
                .into_iter()
                .find(|spent| spent.text == text)
                .expect("the slowest was asked")
                .own;
            answer
                .first_byte
                .saturating_duration_since(accepted.sent)
                .saturating_sub(own)
        })
        .collect()
}
