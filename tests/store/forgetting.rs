//! What goes goes for good, what is unfinished stays, and nothing grows without end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use korvun::base::clock::Clock;
use korvun::domain::limits::Limits;
use korvun::domain::message::{Outcome, Role};
use korvun::store::{Accepted, Audience, Claim, Finished, Place, Store};

use super::{
    accept, answer, begin, conversation, end, keyed, on_both, open, said, TestClock, HOUR,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How often `mark` stands in any file of the store.
fn found(folder: &Path, mark: &str) -> Vec<String> {
    let mut places = Vec::new();
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("listed").path();
        let bytes = fs::read(&path).expect("read");
        let hits = bytes
            .windows(mark.len())
            .filter(|window| *window == mark.as_bytes())
            .count();
        if hits > 0 {
            places.push(format!("{hits} in {}", path.display()));
        }
    }
    places
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Says and answers one message whose every 40 bytes or so carry the mark.
fn talk(store: &Store, dice: &mut Dice, id: &str, mark: &str) {
    let mut text = || {
        let pieces = match dice.below(10) {
            0 => dice.below(400),
            1..=3 => dice.below(40),
            _ => dice.below(4),
        };
        format!("{mark} words between the marks ").repeat(usize::try_from(pieces).unwrap_or(0) + 1)
    };
    let (question, reply) = (text(), text());
    let work = begin(store, &said(id, &question));
    let out = answer(store, work.row, &reply);
    store.sent(out.row);
}

#[test]
fn deleted_and_expired_text_is_in_no_byte_of_the_files() {
    for seed in 0..4 {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = TestClock::new();
        let store = Store::open(
            &Place::File(folder.path().join("korvun.db")),
            &Limits::default(),
            clock.clone(),
        )
        .expect("opens");
        let mut dice = Dice(seed);
        let names = ["a", "b", "c", "d", "e"];
        for _ in 0..300 {
            let name = names[usize::try_from(dice.below(5)).expect("small")];
            talk(&store, &mut dice, name, &format!("MARK-{name}-OLD"));
        }
        for (gone, stay) in [(0, 1), (2, 1), (4, 1)] {
            let mark = format!("MARK-{}-OLD", names[gone]);
            assert!(
                !found(folder.path(), &mark).is_empty(),
                "the search finds it first"
            );
            let turns = store
                .delete_conversation(&conversation(names[gone]))
                .expect("deleted");
            assert!(turns > 0);
            assert_eq!(
                found(folder.path(), &mark),
                [""; 0],
                "seed {seed}, {}",
                names[gone]
            );
            assert!(!found(folder.path(), &format!("MARK-{}-OLD", names[stay])).is_empty());
        }
        clock.forward(40 * DAY);
        let border = clock.unix();
        for _ in 0..100 {
            let name = names[usize::try_from(dice.below(5)).expect("small")];
            talk(&store, &mut dice, name, &format!("MARK-{name}-NEW"));
        }
        let unfinished = begin(&store, &said("b", "MARK-b-NEW"));
        assert!(store.expire(border).expect("expired") > 0);
        for name in ["b", "d"] {
            assert_eq!(
                found(folder.path(), &format!("MARK-{name}-OLD")),
                [""; 0],
                "seed {seed}"
            );
            assert!(!found(folder.path(), &format!("MARK-{name}-NEW")).is_empty());
        }
        clock.forward(DAY);
        store.expire(clock.unix()).expect("expired");
        for name in ["a", "c", "d", "e"] {
            assert_eq!(
                found(folder.path(), &format!("MARK-{name}-NEW")),
                [""; 0],
                "seed {seed}"
            );
        }
        // What is in work is not taken from under it.
        assert!(!found(folder.path(), "MARK-b-NEW").is_empty());
        let out = answer(&store, unfinished.row, "buenas");
        assert!(store.outgoing(out.row).expect("read").is_some());
        assert!(store.health().error.is_none());
    }
}

#[test]
fn deleting_takes_what_is_open_and_leaves_the_others() {
    on_both(&Limits::default(), |store, _| {
        let work = begin(store, &said("a", "hola"));
        accept(store, &keyed("a", "k"), Claim::No);
        let out = {
            let other = begin(store, &said("b", "hola"));
            answer(store, other.row, "to b")
        };
        let done = begin(store, &said("c", "hola"));
        answer(store, done.row, "to c");
        assert_eq!(
            store
                .delete_conversation(&conversation("a"))
                .expect("deleted"),
            2
        );
        assert_eq!(
            store
                .delete_conversation(&conversation("c"))
                .expect("deleted"),
            2
        );
        let counts = store.counts();
        assert_eq!((counts.inbox_open, counts.outbox_open), (0, 1));
        assert_eq!(
            store
                .finish(work.row, end(Outcome::Answered, Role::Assistant, "late"))
                .expect("asked"),
            Finished::Gone
        );
        assert_eq!(store.message(&work.message_id).expect("read"), None);
        assert!(store.outgoing(out.row).expect("read").is_some());
        // The conversation begins anew, its keys forgotten, its ids never used again.
        let Accepted::New {
            message_id, work, ..
        } = accept(store, &keyed("a", "k"), Claim::IfIdle)
        else {
            panic!("not new")
        };
        assert!(work.is_some());
        assert_ne!(message_id, done.message_id);
        let history = store
            .history(&conversation("b"), i64::MAX, 10, Audience::Public)
            .expect("read");
        assert_eq!(history.len(), 2);
        assert_eq!(
            store
                .delete_conversation(&conversation("nobody"))
                .expect("asked"),
            0
        );
    });
}

#[test]
fn sweeping_takes_old_finished_rows_and_old_keys_and_nothing_else() {
    on_both(&Limits::default(), |store, clock| {
        let mut old = Vec::new();
        for n in 0..30 {
            let work = begin(store, &keyed(&format!("old {n}"), &format!("k{n}")));
            let out = answer(store, work.row, "buenas");
            if n != 7 {
                store.sent(out.row);
            }
            old.push((work.message_id, out.row));
        }
        let open = begin(store, &keyed("open", "open"));
        clock.forward(DAY);
        let newer = begin(store, &keyed("newer", "newer"));
        answer(store, newer.row, "buenas");
        let swept = store.sweep().expect("swept");
        assert_eq!((swept.rows, swept.keys), (0, 31));
        let swept = store.sweep().expect("swept");
        assert_eq!((swept.rows, swept.keys), (0, 0), "nothing twice");
        assert!(store.message(&old[0].0).expect("read").is_some());

        clock.forward(6 * DAY + HOUR);
        let swept = store.sweep().expect("swept");
        assert_eq!(swept.rows, 30 + 29, "all but what is queued");
        assert_eq!(store.message(&old[0].0).expect("read"), None);
        assert!(store.outgoing(old[7].1).expect("read").is_some());
        assert!(store.message(&newer.message_id).expect("read").is_some());
        answer(store, open.row, "buenas");
        let counts = store.counts();
        assert_eq!((counts.inbox_open, counts.outbox_open), (0, 3));
    });
}

#[test]
fn a_batch_is_no_border() {
    let clock = TestClock::new();
    let store = Store::open(
        &Place::Memory,
        &Limits {
            memory_messages: 10_000,
            ..Limits::default()
        },
        clock.clone(),
    )
    .expect("opens");
    for n in 0..1200 {
        let work = begin(&store, &keyed("c", &n.to_string()));
        let out = answer(&store, work.row, "buenas");
        store.sent(out.row);
    }
    store.write(|_| Ok(())).expect("the last mark is committed");
    clock.forward(8 * DAY);
    let swept = store.sweep().expect("swept");
    assert_eq!((swept.rows, swept.keys), (2400, 0));
    assert_eq!(store.expire(clock.unix()).expect("expired"), 2400);
    assert_eq!(
        store
            .delete_conversation(&conversation("c"))
            .expect("asked"),
        0
    );
}

#[test]
fn in_memory_nothing_grows_with_the_messages() {
    let limits = Limits {
        memory_messages: 100,
        memory_keys: 1000,
        ..Limits::default()
    };
    let store = Store::open(&Place::Memory, &limits, TestClock::new()).expect("opens");
    let sizes = |store: &Store| {
        store
            .read(|connection| {
                connection.query_row(
                    "SELECT (SELECT count(*) FROM turns), (SELECT count(*) FROM inbox),
                            (SELECT count(*) FROM outbox), (SELECT page_count FROM pragma_page_count)",
                    [],
                    |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?)),
                )
            })
            .expect("read")
    };
    let open = begin(&store, &said("open", "stays"));
    let text = "words ".repeat(100);
    let mut halfway = 0;
    let mut last = None;
    for n in 0..10_000 {
        let inbound = if n % 2 == 0 {
            keyed(&format!("{}", n % 16), &n.to_string())
        } else {
            said(&format!("{}", n % 16), &text)
        };
        let work = begin(&store, &inbound);
        let out = answer(&store, work.row, &text);
        store.sent(out.row);
        last = Some(work.message_id);
        if n == 5_000 {
            halfway = sizes(&store).3;
        }
    }
    let (turns, inbox, outbox, pages) = sizes(&store);
    println!("{turns} turns, {inbox} inbox, {outbox} outbox rows, {pages} pages");
    assert!(turns <= 2 * (100 + 64) + 2, "{turns} turns");
    assert!(inbox <= 1000 + 64 + 1, "{inbox} inbox rows");
    assert!(outbox <= 100 + 64, "{outbox} outbox rows");
    assert!(pages <= halfway + 8, "{pages} pages, {halfway} before");
    // The newest keep their answers, older ones their keys, and what is open all it has.
    let state = store
        .message(&last.expect("some"))
        .expect("read")
        .expect("kept");
    assert_eq!(state.answer.expect("kept").text, text);
    assert!(matches!(
        accept(&store, &keyed("0", "9500"), Claim::No),
        Accepted::Duplicate { .. }
    ));
    answer(&store, open.row, "at last");
}

#[test]
fn the_log_is_cut_back_when_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &Limits::default());
    begin(&store, &said("c", &"x".repeat(100_000)));
    let log = folder.path().join("korvun.db-wal");
    assert!(fs::metadata(&log).expect("is there").len() > 100_000);
    store.sweep().expect("swept");
    assert_eq!(fs::metadata(&log).expect("is there").len(), 0);
}

/// Sessions go with what was said in them, and not before.
#[test]
fn sessions_go_with_their_conversation_and_with_the_turns_of_later_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let clock = TestClock::new();
    let place = Place::File(path.clone());
    let store = Store::open(&place, &Limits::default(), clock.clone()).expect("opened");
    let numbers = |id: &str| -> Vec<i64> {
        let c = conversation(id);
        store
            .write(move |tx| {
                tx.prepare("SELECT session FROM sessions WHERE conversation = ?1 ORDER BY session")?
                    .query_map([&*c.id], |row| row.get(0))?
                    .collect()
            })
            .expect("read")
    };
    let talk = |id: &str| {
        let work = begin(&store, &said(id, "hola"));
        let c = work.conversation.clone();
        let turn = work.turn;
        let session = store
            .write(move |tx| tx.begin_session(&c, turn))
            .expect("begun");
        let c = work.conversation.clone();
        let again = store.write(move |tx| tx.begin_session(&c, turn));
        assert_eq!(again, Ok(session), "the same turn, the same session");
        answer(&store, work.row, "buenas");
    };
    for _ in 0..2 {
        talk("a");
    }
    talk("b");
    let before = clock.unix().plus(Duration::from_secs(1));
    clock.forward(Duration::from_secs(10 * 86_400));
    talk("a");
    assert_eq!((numbers("a"), numbers("b")), (vec![2, 3, 4], vec![2]));
    for id in ["a", "b"] {
        for queued in store
            .queued(&conversation(id).channel, 0, 100)
            .expect("read")
        {
            store.sent(queued.row);
        }
    }
    store.expire(before).expect("expired");
    // The active session of each stays.
    assert_eq!((numbers("a"), numbers("b")), (vec![4], vec![2]));
    store
        .delete_conversation(&conversation("a"))
        .expect("deleted");
    assert_eq!((numbers("a"), numbers("b")), (vec![], vec![2]));
}
