//! Tests of what follows a step of polling.

use serde_json::{json, Value};

use super::*;
use crate::net::error::HttpError;

fn poller() -> Poller {
    Poller::new(&Limits::default())
}

/// One that has come so far.
fn at(step: Step) -> Poller {
    let mut poller = poller();
    while poller.step() != step {
        poller.after(&Came::Done, 0);
    }
    poller
}

fn refused(code: i64, parameters: Value) -> Failure {
    Failure::Refused(Refused {
        code,
        description: "Conflict: webhook is active".to_owned(),
        retry_after: parameters["retry_after"].as_u64().map(Duration::from_secs),
        migrate_to: None,
    })
}

const LOST: fn() -> Failure = || Failure::Net(HttpError::Connect("no route".to_owned()));
const S: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn the_way_to_polling_is_gone_step_by_step() {
    let mut poller = poller();
    let mut steps = Vec::new();
    let mut connected = Vec::new();
    for _ in 0..7 {
        steps.push(poller.step());
        let verdict = poller.after(&Came::Done, 0);
        assert_eq!(verdict.wait, Some(Duration::ZERO));
        connected.push(verdict.state == Some((ChannelState::Connected, None)));
    }
    use Step::*;
    let (en, es) = (Announce(Language::En), Announce(Language::Es));
    assert_eq!(steps, [Greet, Unhook, en, es, Probe, Poll, Poll]);
    // Only a poll shows that messages come in.
    assert_eq!(connected, [false, false, false, false, true, true, true]);
}

#[test]
fn each_failure_has_its_state_and_its_wait() {
    use ChannelState::{Conflict, Failed, Reconnecting};
    let odd = || Failure::Odd { status: 502 };
    for (step, failure, state, wait) in [
        (Step::Greet, LOST(), Reconnecting, Some(S(1))),
        (Step::Greet, odd(), Reconnecting, Some(S(1))),
        (Step::Greet, refused(401, Value::Null), Failed, None),
        (Step::Greet, refused(404, Value::Null), Failed, None),
        (
            Step::Greet,
            refused(500, Value::Null),
            Reconnecting,
            Some(S(1)),
        ),
        (Step::Unhook, LOST(), Reconnecting, Some(S(1))),
        (Step::Poll, refused(401, Value::Null), Failed, None),
        // A proxy may say 404 for a while.
        (
            Step::Poll,
            refused(404, Value::Null),
            Reconnecting,
            Some(S(1)),
        ),
        (Step::Poll, odd(), Reconnecting, Some(S(1))),
        (
            Step::Probe,
            refused(409, Value::Null),
            Conflict,
            Some(S(35)),
        ),
        (Step::Poll, refused(409, Value::Null), Conflict, Some(S(35))),
        (
            Step::Poll,
            refused(429, json!({"retry_after": 17})),
            Reconnecting,
            Some(S(17)),
        ),
        (
            Step::Poll,
            refused(429, json!({"retry_after": 999_999_999})),
            Reconnecting,
            Some(S(3600)),
        ),
    ] {
        let verdict = at(step).after(&Came::Failed(failure.clone()), u32::MAX);
        assert_eq!(verdict.wait, wait, "{step:?} {failure:?}");
        let told = verdict.state.expect("a state");
        assert_eq!(told.0, state, "{step:?} {failure:?}");
        assert!(told.1.is_some_and(|why| !why.is_empty()));
    }
}

#[test]
fn after_a_failure_the_poll_is_tried_without_waiting_on_a_connection_of_its_own() {
    let mut poller = at(Step::Poll);
    assert!(!poller.shaken());
    poller.after(&Came::Failed(LOST()), 0);
    assert_eq!((poller.step(), poller.shaken()), (Step::Probe, true));
    poller.after(&Came::Done, 0);
    assert_eq!((poller.step(), poller.shaken()), (Step::Poll, false));
}

#[test]
fn waits_grow_up_to_their_bound_and_begin_anew() {
    let mut poller = at(Step::Poll);
    let mut wait = |came: &Came| poller.after(came, u32::MAX).wait.unwrap();
    let waits: Vec<u64> = (0..7)
        .map(|_| wait(&Came::Failed(LOST())).as_secs())
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    wait(&Came::Done);
    assert_eq!(wait(&Came::Failed(LOST())), S(1));
}

#[test]
fn commands_that_are_not_taken_stop_nothing() {
    let mut poller = at(Step::Announce(Language::En));
    let verdict = poller.after(&Came::Failed(LOST()), 0);
    assert_eq!((verdict.wait, verdict.state), (Some(Duration::ZERO), None));
    assert_eq!(poller.step(), Step::Probe);
    let verdict =
        at(Step::Announce(Language::En)).after(&Came::Failed(refused(401, Value::Null)), 0);
    assert_eq!(verdict.wait, None);
}

#[test]
fn without_room_the_poll_pauses_and_the_state_stays() {
    let mut poller = at(Step::Poll);
    let verdict = poller.after(&Came::NoRoom, 0);
    assert_eq!((verdict.wait, verdict.state), (Some(PAUSE), None));
    assert!(!poller.shaken());
}

#[test]
fn a_peer_that_does_not_wait_is_not_asked_without_a_pause() {
    let verdict = at(Step::Poll).after(&Came::TooEarly, 0);
    assert_eq!(verdict.wait, Some(S(1)));
    assert_eq!(verdict.state, Some((ChannelState::Connected, None)));
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_in_smaller_pieces() {
    let mut poller = at(Step::Poll);
    let failure = Failure::Unreadable {
        beginning: Vec::new(),
    };
    let mut batches = vec![poller.batch()];
    while poller.batch() > 1 {
        assert!(!poller.stuck(&failure));
        let verdict = poller.after(&Came::Failed(failure.clone()), 0);
        assert_eq!((verdict.wait, verdict.state), (Some(Duration::ZERO), None));
        batches.push(poller.batch());
    }
    assert_eq!(batches, [100, 50, 25, 12, 6, 3, 1]);
    assert!(poller.stuck(&failure) && !poller.stuck(&LOST()));
    // Alone it is stepped over, with a wait, lest it spin; then there is more at once again.
    assert!(poller.after(&Came::Failed(failure), 0).wait > Some(Duration::ZERO));
    poller.after(&Came::Done, 0);
    assert_eq!(poller.batch(), 2);
}

#[test]
fn the_operator_is_told_what_to_do() {
    for (failure, words) in [
        (refused(401, Value::Null), "@BotFather"),
        (refused(409, Value::Null), "a webhook is set"),
        (
            Failure::Refused(Refused {
                code: 409,
                description: "terminated by other getUpdates".to_owned(),
                ..Refused::default()
            }),
            "another program polls",
        ),
    ] {
        let verdict = at(Step::Probe).after(&Came::Failed(failure), 0);
        let why = verdict.state.and_then(|(_, why)| why).expect("told");
        assert!(why.contains(words), "{why}");
    }
}
