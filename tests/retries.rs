//! Retries over real sockets: what can heal is tried again, and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use korvun::base::clock::SystemClock;
use korvun::domain::brain::Sensitivity::Public;
use korvun::domain::completion::{Completion, Failure, FailureKind};
use korvun::net::cancel::Cancel;
use korvun::provider::build;
use korvun::provider::retry::ask;
use serde_json::json;

use crate::support::asking::{model, prompt, wire, within};
use crate::support::model::{openai_says, ModelServer, Reply, Step};

/// What one attempt was reported as: its failure, and whether another one follows.
type Reported = (Option<FailureKind>, bool);

fn run(
    server: &ModelServer,
    max_retries: u32,
    timeout: Duration,
    deadline: Duration,
    cancel: &Cancel,
) -> (Result<Completion, Failure>, Vec<Reported>) {
    let mut model = model("openai-compatible", &server.url());
    model.max_retries = max_retries;
    model.request_timeout = timeout;
    let provider = build(&model, Public, None, &wire());
    let mut reported = Vec::new();
    let result = ask(
        &*provider,
        &model,
        &prompt("hello"),
        within(deadline),
        cancel,
        &SystemClock,
        &mut |attempt| {
            reported.push((
                attempt.failure.map(|failure| failure.kind),
                attempt.will_retry,
            ));
        },
    );
    (result, reported)
}

fn busy(seconds: u32) -> Reply {
    Reply::with_headers(
        429,
        &[&format!("retry-after: {seconds}")],
        &json!({"error": "slow down"}),
    )
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn what_heals_is_tried_again_up_to_its_limit() {
    for (failing, max_retries, requests) in [(2, 2, 3), (3, 2, 3), (1, 0, 1)] {
        let left = Arc::new(AtomicUsize::new(failing));
        let server = ModelServer::start(move |_| {
            let fails = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
            if fails.is_ok() {
                busy(0)
            } else {
                openai_says("hello")
            }
        });
        let (result, reported) = run(&server, max_retries, LONG, LONG, &Cancel::new());
        assert_eq!(server.seen().len(), requests);
        assert_eq!(reported.len(), requests);
        let healed = failing <= max_retries as usize;
        assert_eq!(result.is_ok(), healed);
        for (at, (failure, will_retry)) in reported.iter().enumerate() {
            let last = at + 1 == requests;
            assert_eq!(*will_retry, !last);
            assert_eq!(failure.is_none(), last && healed);
        }
    }
}

#[test]
fn an_attempt_that_used_up_its_own_time_is_the_last() {
    let server = ModelServer::start(|_| Reply::Steps(vec![Step::UntilGone]));
    let (result, reported) = run(&server, 5, Duration::from_millis(300), LONG, &Cancel::new());
    assert_eq!(result.unwrap_err().kind, FailureKind::Timeout);
    assert_eq!(reported, [(Some(FailureKind::Timeout), false)]);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn the_time_for_the_answer_bounds_every_attempt_and_every_wait() {
    let server = ModelServer::start(|_| Reply::Steps(vec![Step::UntilGone]));
    let began = Instant::now();
    let (result, _) = run(&server, 5, LONG, Duration::from_millis(300), &Cancel::new());
    assert_eq!(result.unwrap_err().kind, FailureKind::Timeout);
    assert!(began.elapsed() < Duration::from_secs(2));
    let server = ModelServer::start(|_| busy(20));
    let began = Instant::now();
    let (result, _) = run(&server, 5, LONG, Duration::from_secs(10), &Cancel::new());
    assert_eq!(
        result.unwrap_err().kind,
        FailureKind::Rate,
        "it does not wait for what comes too late"
    );
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn giving_up_ends_a_wait() {
    let server = ModelServer::start(|_| busy(20));
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| run(&server, 5, LONG, LONG, &cancel).0);
        while server.seen().is_empty() {
            std::thread::yield_now();
        }
        let raised = Instant::now();
        cancel.raise();
        assert_eq!(
            asked.join().unwrap().unwrap_err().kind,
            FailureKind::Cancelled
        );
        assert!(raised.elapsed() < Duration::from_secs(2));
    });
    assert_eq!(server.seen().len(), 1);
}
