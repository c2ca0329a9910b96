//! The schedule under tables and under random play.

use super::*;
use crate::domain::dice::Dice;

fn at(seconds: i64) -> UnixMs {
    UnixMs(seconds * 1000)
}

#[test]
fn rows_go_in_order_within_a_conversation_and_by_due_time_between_them() {
    let mut s = Schedule::new(10);
    for (row, who, due) in [(2, "x", 0), (1, "x", 5), (3, "y", 1), (4, "z", 9)] {
        assert_eq!(s.push(row, &who, at(due)), Pushed::Kept);
    }
    assert_eq!(s.next_due(), Some(at(1)));
    assert_eq!(s.next(at(0)), None, "2 is due but 1 goes before it");
    assert_eq!(s.next(at(7)), Some(3));
    assert_eq!(s.next(at(7)), Some(1));
    assert_eq!(s.next(at(7)), None, "both conversations are in flight");
    assert_eq!((s.in_flight(), s.next_due()), (2, Some(at(9))));
    s.done(1);
    assert_eq!(s.next(at(7)), Some(2));
    s.done(2);
    s.done(3);
    assert_eq!((s.in_flight(), s.len()), (0, 1));
    assert_eq!(s.lines.len(), 1, "empty lines go");
}

#[test]
fn a_failed_row_is_tried_again_before_all_later_ones() {
    let mut s = Schedule::new(10);
    s.push(1, &"x", at(0));
    s.push(2, &"x", at(0));
    assert_eq!(s.next(at(0)), Some(1));
    s.retry(1, at(30));
    assert_eq!(s.next(at(29)), None);
    assert_eq!(s.next(at(30)), Some(1));
    s.done(1);
    assert_eq!(s.next(at(30)), Some(2));
}

#[test]
fn a_held_conversation_holds_no_other() {
    let mut s = Schedule::new(1000);
    for row in 0..100 {
        s.push(row, &(row % 10), at(0));
    }
    assert_eq!(s.next(at(0)), Some(0));
    s.retry(0, at(0));
    s.hold(&0, at(60));
    s.hold(&0, at(5));
    let mut sent = Vec::new();
    while let Some(row) = s.next(at(1)) {
        sent.push(row);
        s.done(row);
    }
    assert_eq!(
        sent,
        (0..100).filter(|row| row % 10 != 0).collect::<Vec<_>>()
    );
    assert_eq!(s.next_due(), Some(at(60)));
    assert_eq!(s.next(at(59)), None);
    assert_eq!(s.next(at(60)), Some(0));
}

#[test]
fn a_global_hold_holds_all() {
    let mut s = Schedule::new(10);
    s.push(1, &"x", at(0));
    s.push(2, &"y", at(20));
    s.hold_all(at(10));
    s.hold_all(at(3));
    assert_eq!((s.next(at(9)), s.next_due()), (None, Some(at(10))));
    assert_eq!(s.next(at(10)), Some(1));
    assert_eq!((s.next(at(10)), s.next_due()), (None, Some(at(20))));
}

#[test]
fn what_finds_no_room_stays_in_the_store_and_is_not_overtaken() {
    let mut s = Schedule::new(2);
    s.push(1, &"x", at(0));
    s.push(2, &"y", at(0));
    assert_eq!(s.push(2, &"y", at(0)), Pushed::Kept, "known already");
    assert_eq!(s.push(3, &"x", at(0)), Pushed::LeftInStore);
    assert_eq!(s.next(at(0)), Some(1));
    s.done(1);
    assert_eq!(s.room(), 1);
    let pushed = s.push(4, &"x", at(0));
    assert_eq!(pushed, Pushed::LeftInStore, "or 4 would overtake 3");
    s.load(
        [(2, "y", at(0)), (3, "x", at(0)), (4, "x", at(0))],
        Rest::None,
    );
    assert!(s.behind(), "4 had no room");
    assert_eq!(s.next(at(0)), Some(2));
    s.done(2);
    s.load([(3, "x", at(0)), (4, "x", at(0))], Rest::More);
    assert!(s.behind(), "the store has more");
    s.load([], Rest::None);
    assert!(!s.behind());
    assert_eq!(s.next(at(0)), Some(3));
    s.done(3);
    assert_eq!(s.push(5, &"x", at(0)), Pushed::Kept);
    assert_eq!(s.next(at(0)), Some(4));
}

#[test]
fn a_row_in_flight_is_not_taken_from_its_sender() {
    let mut s = Schedule::new(10);
    for row in [1, 2, 3] {
        s.push(row, &"x", at(0));
    }
    s.done(2);
    s.retry(2, at(9));
    assert_eq!(s.len(), 3, "2 was not in flight");
    assert_eq!(s.next(at(0)), Some(1));
    assert!(!s.remove(1));
    assert!(s.remove(2));
    assert!(!s.remove(2));
    assert_eq!(s.next(at(0)), None);
    s.done(1);
    assert_eq!(s.next(at(0)), Some(3));
}

#[test]
fn random_play_keeps_order_and_loses_nothing() {
    for series in 0..30 {
        let mut dice = Dice::new(series);
        let mut s = Schedule::new(50);
        let mut stored: BTreeMap<Row, usize> = BTreeMap::new();
        let (mut row, mut now) = (0, 0);
        let mut flying: Vec<Row> = Vec::new();
        let mut last: HashMap<usize, Row> = HashMap::new();
        let mut sent = 0;
        for step in 0..100_000 {
            let draining = step > 4000;
            if draining && stored.is_empty() {
                break;
            }
            now += dice.roll(3) as i64;
            match dice.roll(6) {
                0 | 1 if !draining => {
                    row += 1;
                    let who = dice.roll(8);
                    stored.insert(row, who);
                    let _ = s.push(row, &who, at(now));
                }
                2 if !draining => s.hold(&dice.roll(8), at(now + 5)),
                3 if !draining && dice.roll(20) == 0 => s.hold_all(at(now + 5)),
                0..=3 => {
                    if let Some(row) = s.next(at(now)) {
                        let who = stored[&row];
                        assert!(!flying.iter().any(|other| stored[other] == who));
                        assert!(last.get(&who).is_none_or(|before| *before <= row));
                        last.insert(who, row);
                        flying.push(row);
                    }
                }
                _ if !flying.is_empty() => {
                    let row = flying.swap_remove(dice.roll(flying.len()));
                    if dice.roll(3) == 0 {
                        s.retry(row, at(now + 7));
                    } else {
                        s.done(row);
                        stored.remove(&row);
                        sent += 1;
                    }
                }
                _ => {}
            }
            assert!(s.len() <= 50 && s.in_flight() == flying.len());
            if s.behind() && s.room() > 25 {
                let rows = stored.iter().map(|(row, who)| (*row, *who, at(now)));
                s.load(rows, Rest::None);
            }
        }
        assert_eq!((sent, stored.len()), (row, 0), "series {series}");
    }
}

#[test]
fn what_ended_while_the_store_was_read_is_not_taken_up_again() {
    let mut schedule = Schedule::new(9);
    assert_eq!(schedule.push(1, &"a", UnixMs(0)), Pushed::Kept);
    assert_eq!(schedule.next(UnixMs(0)), Some(1));
    schedule.confirmed(1, 2);
    assert_eq!(schedule.parts(1), 2);
    assert!(schedule.read());
    assert!(!schedule.read(), "one reading at a time");
    schedule.done(1);
    assert_eq!(schedule.parts(1), 0);
    // Read before the mark was written.
    schedule.load([(1, "a", UnixMs(0)), (2, "a", UnixMs(0))], Rest::None);
    assert_eq!(schedule.next(UnixMs(0)), Some(2));
    assert_eq!(schedule.len(), 1);
    // A reading that failed is over too.
    assert!(schedule.read());
    schedule.unread();
    assert!(schedule.read());
}

#[test]
fn what_found_no_room_while_the_store_was_read_is_not_overtaken() {
    let mut schedule = Schedule::new(1);
    assert_eq!(schedule.push(1, &"a", UnixMs(0)), Pushed::Kept);
    assert_eq!(schedule.push(2, &"a", UnixMs(0)), Pushed::LeftInStore);
    assert_eq!(schedule.next(UnixMs(0)), Some(1));
    schedule.done(1);
    assert!(schedule.read());
    // Stored behind the back of the reading, which brings row 2 and knows of no more.
    assert_eq!(schedule.push(3, &"a", UnixMs(0)), Pushed::LeftInStore);
    schedule.load([(2, "a", UnixMs(0))], Rest::None);
    assert_eq!(schedule.next(UnixMs(0)), Some(2));
    schedule.done(2);
    assert!(schedule.wants_reading(), "row 3 is still to be read");
    assert_eq!(schedule.push(4, &"a", UnixMs(0)), Pushed::LeftInStore);
    assert!(schedule.read());
    schedule.load([(3, "a", UnixMs(0)), (4, "a", UnixMs(0))], Rest::None);
    assert_eq!(schedule.next(UnixMs(0)), Some(3));
}
