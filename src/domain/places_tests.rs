//! Places under tables and under random play.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::domain::dice::Dice;

const NONE: [u32; 0] = [];
const MOVING: Duration = Duration::from_secs(60);

fn ends(names: &str) -> Vec<Endpoint> {
    names.split_whitespace().map(Endpoint::new).collect()
}

fn places(capacities: &[(&str, u32)], now: Instant) -> Places<u32> {
    let mut places = Places::new(MOVING, 1000);
    let plan = capacities.iter().map(|&(e, n)| (Endpoint::new(e), n));
    assert_eq!(places.set_capacities(plan, now), NONE);
    places
}

fn later(now: Instant) -> Deadline {
    Deadline::after(now, Duration::from_secs(900))
}

fn after(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}

#[test]
fn places_are_taken_all_or_none() {
    let now = Instant::now();
    let mut p = places(&[("a", 1), ("b", 2)], now);
    assert!(p.take(&ends("a b a")));
    assert!(!p.take(&ends("a b")));
    assert!(p.take(&ends("b")), "the failed try left b as it was");
    assert!(!p.take(&ends("b")));
    assert!(p.take(&[]), "whoever needs nothing waits for nothing");
    assert_eq!(p.release(&ends("a b"), now), NONE);
    assert!(p.take(&ends("a b")));
}

#[test]
fn whoever_waits_is_served_in_order_and_nobody_passes() {
    let now = Instant::now();
    let mut p = places(&[("a", 1)], now);
    assert!(p.take(&ends("a")));
    for who in [1, 2, 3] {
        assert_eq!(p.wait(&who, &ends("a"), later(now), now), Ok(vec![]));
    }
    assert_eq!(p.leave(&2, now), NONE);
    assert_eq!(p.release(&ends("a"), now), [1]);
    assert!(!p.take(&ends("a")), "the place is 1's already");
    assert_eq!(p.wait(&1, &ends("a"), later(now), now), Ok(vec![]));
    assert_eq!(
        p.release(&ends("a"), now),
        [3],
        "1's next message is at the tail"
    );
    assert_eq!(p.release(&ends("a"), now), [1]);
    assert_eq!(p.release(&ends("a"), now), NONE);
    assert_eq!(p.waiting(), 0);
}

#[test]
fn a_place_that_came_free_between_take_and_wait_is_not_slept_through() {
    let now = Instant::now();
    let mut p = places(&[("a", 1)], now);
    assert!(p.take(&ends("a")));
    assert!(!p.take(&ends("a")));
    assert_eq!(p.release(&ends("a"), now), NONE);
    assert_eq!(p.wait(&1, &ends("a"), later(now), now), Ok(vec![1]));
    assert!(!p.waits(&1));
    assert_eq!(p.wait(&2, &[], later(now), now), Ok(vec![2]));
}

#[test]
fn the_queue_is_bounded() {
    let now = Instant::now();
    let mut p = Places::new(MOVING, 2);
    assert!(p.take(&ends("a")));
    assert_eq!(p.wait(&1, &ends("a"), later(now), now), Ok(vec![]));
    assert_eq!(p.wait(&2, &ends("a"), later(now), now), Ok(vec![]));
    assert_eq!(p.wait(&3, &ends("a"), later(now), now), Err(Full));
    assert_eq!(
        p.wait(&2, &ends("a"), later(now), now),
        Ok(vec![]),
        "has its seat"
    );
    assert!(!p.waits(&3));
    assert_eq!(p.release(&ends("a"), now), [1]);
}

#[test]
fn deadlines_pass_while_waiting_and_free_what_was_held() {
    let now = Instant::now();
    let mut p = places(&[("a", 1), ("b", 1)], now);
    assert!(p.take(&ends("a b")));
    assert_eq!(p.next_deadline(), None);
    assert_eq!(p.release(&ends("b"), now), NONE);
    assert!(p.take(&ends("b")));
    let soon = Deadline::after(now, Duration::from_secs(5));
    assert_eq!(p.wait(&1, &ends("a b"), soon, now), Ok(vec![]));
    assert_eq!(p.wait(&2, &ends("a"), later(now), now), Ok(vec![]));
    let held = p.release(&ends("a"), after(now, 1));
    assert_eq!(held, NONE, "b has moved, so 1 holds a");
    assert!(!p.take(&ends("a")));
    assert_eq!(p.next_deadline(), Some(after(now, 5)));
    let due = p.due(after(now, 4));
    assert_eq!((due.overdue, due.granted), (vec![], vec![]));
    let due = p.due(after(now, 5));
    assert_eq!((due.overdue, due.granted), (vec![1], vec![2]));
    assert_eq!((p.waiting(), p.next_deadline()), (0, None));
}

#[test]
fn one_that_lacks_an_endpoint_that_never_moved_holds_nothing() {
    let now = Instant::now();
    let mut p = places(&[("a", 1), ("stuck", 1)], now);
    assert!(p.take(&ends("stuck")));
    for who in 0..200 {
        let needs = if who % 2 == 0 { "stuck" } else { "stuck a" };
        assert_eq!(p.wait(&who, &ends(needs), later(now), now), Ok(vec![]));
    }
    for _ in 0..50 {
        assert!(
            p.take(&ends("a")),
            "200 at a stuck endpoint hold up nobody else"
        );
        assert_eq!(p.release(&ends("a"), now), NONE);
    }
}

#[test]
fn an_endpoint_that_stops_moving_gives_free_what_was_held_for_it() {
    let now = Instant::now();
    let mut p = places(&[("a", 1), ("b", 1)], now);
    assert!(p.take(&ends("a")));
    assert!(p.take(&ends("b")));
    assert_eq!(p.release(&ends("b"), now), NONE);
    assert!(p.take(&ends("b")));
    assert_eq!(p.wait(&1, &ends("a b"), later(now), now), Ok(vec![]));
    assert_eq!(p.wait(&2, &ends("a"), later(now), now), Ok(vec![]));
    assert_eq!(
        p.release(&ends("a"), after(now, 10)),
        NONE,
        "held for 1: b moves"
    );
    assert_eq!(p.next_deadline(), Some(after(now, 60)));
    let due = p.due(after(now, 59));
    assert_eq!((due.granted, due.overdue), (vec![], vec![]));
    let due = p.due(after(now, 60));
    assert_eq!((due.granted, due.overdue), (vec![2], vec![]), "b hangs");
    assert_eq!(p.next_deadline(), Some(later(now).0));
    // b comes back: now it is b that is held, for a moves.
    assert_eq!(p.release(&ends("b"), after(now, 61)), NONE);
    assert!(!p.take(&ends("b")));
    assert_eq!(p.release(&ends("a"), after(now, 62)), [1]);
}

#[test]
fn a_reload_replaces_capacities_and_needs_and_keeps_seats() {
    let now = Instant::now();
    let mut p = places(&[("a", 2), ("a", 1)], now);
    assert!(p.take(&ends("a")) && p.take(&ends("a")));
    for who in [1, 2, 3] {
        assert_eq!(p.wait(&who, &ends("a"), later(now), now), Ok(vec![]));
    }
    let plan = |n: u32| [(Endpoint::new("a"), n), (Endpoint::new("new"), 1)];
    assert_eq!(p.set_capacities(plan(1), now), NONE);
    assert_eq!(
        p.release(&ends("a"), now),
        NONE,
        "still one in use, none more fits"
    );
    assert_eq!(p.set_capacities(plan(3), now), [1, 2]);
    assert_eq!(p.wait(&3, &ends("new"), later(now), now), Ok(vec![3]));
    // Endpoints of older plans end when their runs do.
    assert_eq!(p.set_capacities([(Endpoint::new("new"), 1)], now), NONE);
    for _ in 0..3 {
        assert_eq!(p.release(&ends("a"), now), NONE);
    }
    assert_eq!(p.slots.keys().cloned().collect::<Vec<_>>(), ends("new"));
}

/// Two busy endpoints whose single runs end in turn, never together. `moving` zero switches
/// holding off, which shows that it is the hold that ends the wait.
fn rounds_until_a_pair_runs(moving: Duration) -> Option<usize> {
    let mut now = Instant::now();
    let mut p: Places<u32> = Places::new(moving, 100);
    assert_eq!(
        p.set_capacities(ends("a b").into_iter().map(|e| (e, 1)), now),
        NONE
    );
    assert!(p.take(&ends("a")) && p.take(&ends("b")));
    assert_eq!(p.wait(&99, &ends("a b"), later(now), now), Ok(vec![]));
    let mut running = BTreeMap::from([("a", Some(100)), ("b", Some(101))]);
    let mut fresh = 200;
    for round in 0..50 {
        let side = ["a", "b"][round % 2];
        now += Duration::from_secs(5);
        fresh += 1;
        assert_eq!(p.wait(&fresh, &ends(side), later(now), now), Ok(vec![]));
        if running.insert(side, None).flatten().is_some() {
            for who in p.release(&ends(side), now) {
                if who == 99 {
                    return Some(round);
                }
                running.insert(side, Some(who));
            }
        }
    }
    None
}

#[test]
fn one_that_needs_two_endpoints_is_not_starved_by_those_that_need_one() {
    let round = rounds_until_a_pair_runs(MOVING);
    assert!(round.is_some_and(|round| round <= 4), "{round:?}");
    assert_eq!(rounds_until_a_pair_runs(Duration::ZERO), None);
}

#[test]
fn random_play_never_overfills_never_splits_and_serves_everybody() {
    let capacities = [("a", 1), ("b", 1), ("c", 2), ("d", 3)];
    let kinds = ["a", "b", "c", "d", "a b", "b c", "a c d", "a b c d"];
    for series in 0..15 {
        let mut dice = Dice::new(series);
        let mut now = Instant::now();
        let mut p = places(&capacities, now);
        let mut used: BTreeMap<Endpoint, u32> = BTreeMap::new();
        let mut running: BTreeMap<u32, Vec<Endpoint>> = BTreeMap::new();
        let mut waiting: BTreeMap<u32, (Vec<Endpoint>, usize)> = BTreeMap::new();
        let mut longest = 0;
        for step in 0..4000 {
            now += Duration::from_millis(dice.roll(3000) as u64);
            let who = dice.roll(40) as u32;
            let granted = if let Some(needs) = running.remove(&who) {
                for need in &needs {
                    *used.get_mut(need).unwrap() -= 1;
                }
                p.release(&needs, now)
            } else if p.waits(&who) {
                if dice.roll(20) > 0 {
                    continue;
                }
                waiting.remove(&who);
                p.leave(&who, now)
            } else {
                let needs = ends(kinds[dice.roll(kinds.len())]);
                waiting.insert(who, (needs.clone(), step));
                if p.take(&needs) {
                    vec![who]
                } else {
                    p.wait(&who, &needs, later(now), now).unwrap()
                }
            };
            for who in granted {
                let (needs, since) = waiting.remove(&who).expect("only who waits is granted");
                longest = longest.max(step - since);
                for need in &needs {
                    *used.entry(need.clone()).or_default() += 1;
                }
                running.insert(who, needs);
            }
            for (endpoint, most) in capacities {
                let taken = used.get(&Endpoint::new(endpoint)).copied().unwrap_or(0);
                assert!(taken <= most, "{endpoint} has {taken} of {most}");
                assert_eq!(p.slots[&Endpoint::new(endpoint)].used, taken);
            }
            let seats: BTreeSet<u32> = p.tickets.keys().copied().collect();
            assert_eq!(seats, waiting.keys().copied().collect());
            // Whoever could run does not wait: only a hold keeps a free place free.
            for (needs, _) in waiting.values() {
                assert!(needs.iter().any(|need| p.slots[need].open == 0));
            }
        }
        assert!(
            longest < 1500,
            "series {series}: somebody waited {longest} steps"
        );
    }
}
