//! A channel's place among its platform's updates: one commit with the message, and what is passed over.

use korvun::domain::cursor::{Cursor, Reached};
use korvun::domain::ids::ChannelName;
use korvun::domain::limits::Limits;
use korvun::domain::message::Inbound;
use korvun::store::{Accepted, Ack, Acks, Claim, Store};

use super::{answer, begin, busy, on_both, said, HOUR};

fn at(position: i64) -> Cursor {
    Cursor {
        account: "42".to_owned(),
        position,
    }
}

fn reached(store: &Store) -> Option<i64> {
    // What was left for later is written by now.
    store.write(|_| Ok(())).unwrap();
    let reached = store.cursor(&ChannelName::new("webhook"), "42").unwrap();
    reached.map(|Reached { position, .. }| position)
}

#[test]
fn a_message_and_its_cursor_are_one_commit() {
    on_both(&Limits::default(), |store, _| {
        let take = |cursor: Cursor, key: &str| {
            let inbound = Inbound {
                dedup: Some(key.to_owned()),
                ..said("a", "hola")
            };
            store
                .accept_at(&inbound, Some(&cursor), Claim::No, None, &busy())
                .unwrap()
        };
        assert_eq!(reached(store), None);
        let commits = store.counts().commits;
        assert!(matches!(take(at(7), "7"), Accepted::New { .. }));
        assert_eq!(store.counts().commits, commits + 1);
        assert_eq!(reached(store), Some(7));
        // A message that was known moves it too, and so does one that is numbered lower.
        assert!(matches!(take(at(8), "7"), Accepted::Duplicate { .. }));
        assert_eq!(reached(store), Some(8));
        take(at(3), "3");
        assert_eq!(reached(store), Some(3));
        let other = store.cursor(&ChannelName::new("webhook"), "43").unwrap();
        assert_eq!(other, None);
    });
}

#[test]
fn what_is_passed_over_moves_the_cursor_forwards_only_within_a_week() {
    on_both(&Limits::default(), |store, clock| {
        let webhook = ChannelName::new("webhook");
        for (position, then) in [(7, 7), (5, 7), (9, 9)] {
            store.advance(&webhook, &at(position));
            assert_eq!(reached(store), Some(then));
        }
        clock.forward(8 * 24 * HOUR);
        store.advance(&webhook, &at(5));
        assert_eq!(reached(store), Some(5));
    });
}

#[test]
fn a_message_without_room_leaves_the_cursor_where_it_is() {
    let limits = Limits {
        inbox_rows: 1,
        ..Limits::default()
    };
    on_both(&limits, |store, _| {
        store
            .accept(&said("a", "hola"), Claim::No, None, &busy())
            .unwrap();
        let full = store.accept_at(
            &said("more", "hola"),
            Some(&at(1)),
            Claim::No,
            None,
            &busy(),
        );
        assert_eq!(full.unwrap(), Accepted::Full);
        assert_eq!(reached(store), None);
    });
}

#[test]
fn a_message_of_a_crowded_conversation_is_left_behind() {
    let limits = Limits {
        outbox_per_conversation: 1,
        ..Limits::default()
    };
    let ack = Ack {
        sender_name: "Korvun".to_owned(),
        text: "done".to_owned(),
        brings_back: None,
    };
    on_both(&limits, |store, _| {
        answer(store, begin(store, &said("a", "hola")).row, "x");
        for (position, text) in [(1, "more"), (2, "/stop")] {
            let (inbound, cursor) = (said("a", text), at(position));
            let crowded = match text {
                "/stop" => {
                    let acks = Acks {
                        stopped: ack.clone(),
                        nothing: ack.clone(),
                    };
                    let stopped = store.stop_at(&inbound, Some(&cursor), None, acks);
                    stopped.unwrap().accepted
                }
                _ => store
                    .accept_at(&inbound, Some(&cursor), Claim::No, None, &busy())
                    .unwrap(),
            };
            assert_eq!(crowded, Accepted::Crowded);
            assert_eq!(reached(store), Some(position));
        }
    });
}
