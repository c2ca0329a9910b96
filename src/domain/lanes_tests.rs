//! Tables of the lanes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::domain::ids::ChannelName;

fn conversation(id: &str) -> Conversation {
    Conversation::new(&ChannelName::new("webhook"), id)
}

fn needs(endpoints: &[&str]) -> Needs {
    Needs {
        endpoints: endpoints.iter().map(|&name| Endpoint::new(name)).collect(),
        answer_within: Duration::from_secs(60),
    }
}

fn lanes(now: Instant) -> Lanes {
    let mut lanes = Lanes::new(&Limits::default());
    let one_place = [(Endpoint::new("a"), 1)];
    assert!(lanes.set_capacities(one_place, now).is_empty());
    lanes
}

fn grants(steps: Vec<Step>) -> Vec<Grant> {
    steps
        .into_iter()
        .filter_map(|step| match step {
            Step::Run(grant) => Some(grant),
            Step::Excuse(_) | Step::Left(_) => None,
        })
        .collect()
}

#[test]
fn a_conversation_has_one_run_and_is_queued_again_for_what_came_meanwhile() {
    let now = Instant::now();
    let (mut lanes, needs, who) = (lanes(now), needs(&[]), conversation("one"));
    let first = lanes.begin(&who, &needs, now).unwrap();
    assert!(lanes.begin(&who, &needs, now).is_none());
    assert!(lanes.queue(&who, &needs, now).is_empty());
    assert_eq!(lanes.working(), 1);
    let next = grants(lanes.finish(&first, After::Idle, &needs, now));
    assert_eq!(next.len(), 1, "the message that came meanwhile");
    // The first run says once more that it is over: its right has gone to the next.
    assert!(lanes.finish(&first, After::Waiting, &needs, now).is_empty());
    assert_eq!(lanes.working(), 1);
    assert!(lanes.finish(&next[0], After::Idle, &needs, now).is_empty());
    assert_eq!(lanes.working(), 0);
}

#[test]
fn what_was_stored_without_being_begun_waits_or_is_forgotten() {
    let now = Instant::now();
    let needs = needs(&["a"]);
    for (begun, after, runs) in [
        (true, After::Waiting, 1),
        (true, After::Idle, 0),
        (false, After::Waiting, 1),
        (false, After::Idle, 0),
    ] {
        let (mut lanes, who) = (lanes(now), conversation("one"));
        let grant = begun.then(|| lanes.begin(&who, &needs, now).unwrap());
        let steps = lanes.not_begun(grant.as_ref(), &who, after, &needs, now);
        assert_eq!(grants(steps).len(), runs, "{begun} {after:?}");
        assert_eq!(lanes.working(), runs, "{begun} {after:?}");
    }
}

#[test]
fn who_waits_too_long_is_excused_without_a_place() {
    let now = Instant::now();
    let (mut lanes, needs) = (lanes(now), needs(&["a"]));
    let first = lanes.begin(&conversation("one"), &needs, now).unwrap();
    assert!(lanes.queue(&conversation("two"), &needs, now).is_empty());
    let late = lanes.next_deadline().unwrap();
    let steps = lanes.due(late);
    assert!(matches!(&steps[..], [Step::Excuse(grant)] if grant.endpoints.is_empty()));
    let [Step::Excuse(excused)] = &steps[..] else {
        return;
    };
    // Its place is still the other's.
    assert!(lanes.finish(excused, After::Idle, &needs, late).is_empty());
    assert!(lanes.begin(&conversation("three"), &needs, late).is_none());
    assert!(lanes.finish(&first, After::Idle, &needs, late).is_empty());
    assert!(lanes.begin(&conversation("three"), &needs, late).is_some());
}

#[test]
fn closed_lanes_grant_nothing_more() {
    let now = Instant::now();
    let (mut lanes, needs) = (lanes(now), needs(&["a"]));
    let first = lanes.begin(&conversation("one"), &needs, now).unwrap();
    assert!(lanes.queue(&conversation("two"), &needs, now).is_empty());
    lanes.close();
    assert!(lanes.closed());
    assert!(lanes.begin(&conversation("three"), &needs, now).is_none());
    assert!(lanes.finish(&first, After::Waiting, &needs, now).is_empty());
}

#[test]
fn more_than_may_wait_are_left_in_the_store() {
    let now = Instant::now();
    let limits = Limits {
        inbox_rows: 1,
        run_threads: 0,
        ..Limits::default()
    };
    let mut lanes = Lanes::new(&limits);
    let needs = Needs {
        endpoints: Arc::new([Endpoint::new("a")]),
        ..needs(&[])
    };
    let _first = lanes.begin(&conversation("one"), &needs, now).unwrap();
    assert!(lanes.queue(&conversation("two"), &needs, now).is_empty());
    let steps = lanes.queue(&conversation("three"), &needs, now);
    assert!(matches!(&steps[..], [Step::Left(_)]), "{steps:?}");
}
