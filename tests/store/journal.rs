//! Steps of runs and the audit of tool calls: written together, gone and kept as they should be.

use std::path::Path;
use std::time::Duration;

use korvun::base::clock::Clock;
use korvun::domain::audit::{Rule, ToolOutcome};
use korvun::domain::limits::Limits;
use korvun::store::{CallEnd, CallRecord, Place, Store};
use korvun::store::{Claim, Step};

use super::{accept, answer, begin, claim, conversation, on_both, open, said, TestClock, HOUR};

fn call(number: u32, end: Option<CallEnd>) -> CallRecord {
    CallRecord {
        call: number,
        brain: "casa".to_owned(),
        tool: "webhook_call".to_owned(),
        channel: "webhook".to_owned(),
        end,
    }
}

fn step(entry: &str, audit: Option<CallRecord>) -> Step {
    Step {
        entry: Some(entry.as_bytes().to_vec()),
        audit,
    }
}

fn ended(outcome: ToolOutcome, rule: Option<Rule>) -> Option<CallEnd> {
    Some(CallEnd {
        outcome,
        rule,
        latency: Duration::from_millis(7),
    })
}

fn outcomes(store: &Store) -> Vec<(String, String)> {
    let calls = store.recent_calls("casa", 20).expect("read");
    calls
        .into_iter()
        .map(|call| (call.outcome, call.rule))
        .collect()
}

fn words(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(outcome, rule)| ((*outcome).to_owned(), (*rule).to_owned()))
        .collect()
}

#[test]
fn steps_are_there_in_order_until_the_message_ends() {
    on_both(&Limits::default(), |store, _| {
        let work = begin(store, &said("a", "hola"));
        for entry in ["reply", "observation"] {
            assert!(store.add_steps(work.row, vec![step(entry, None)]).unwrap());
        }
        assert_eq!(
            store.journal(work.row).unwrap(),
            [b"reply".to_vec(), b"observation".to_vec()]
        );
        answer(store, work.row, "buenas");
        assert!(store.journal(work.row).unwrap().is_empty());
        assert!(
            !store
                .add_steps(work.row, vec![step("late", Some(call(1, None)))])
                .unwrap(),
            "a message that has ended takes no more steps"
        );
        assert!(store.journal(work.row).unwrap().is_empty());
        assert!(outcomes(store).is_empty());
    });
}

#[test]
fn each_call_has_one_row_whatever_is_recorded_of_it() {
    on_both(&Limits::default(), |store, _| {
        let work = begin(store, &said("a", "hola"));
        let steps = [
            call(1, None),
            call(1, ended(ToolOutcome::Ok, None)),
            call(2, ended(ToolOutcome::Denied, Some(Rule::Channel))),
            call(3, ended(ToolOutcome::Shadowed, Some(Rule::Cage))),
            call(4, ended(ToolOutcome::Shadowed, None)),
        ];
        for audit in steps {
            store
                .add_steps(work.row, vec![step("", Some(audit))])
                .unwrap();
        }
        assert_eq!(
            outcomes(store),
            words(&[
                ("shadowed", ""),
                ("shadowed", "cage"),
                ("denied", "channel"),
                ("ok", "")
            ])
        );
        let rehearsed = store.rehearsals("casa").unwrap();
        assert_eq!(rehearsed.len(), 1);
        assert_eq!((rehearsed[0].rehearsals, rehearsed[0].would_refuse), (2, 1));
        assert!(store.recent_calls("other", 20).unwrap().is_empty());
    });
}

#[test]
fn a_restart_finds_the_journal_and_says_unknown_of_a_call_in_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let row = {
        let store = open(&path, &Limits::default());
        let work = begin(&store, &said("a", "hola"));
        store
            .add_steps(
                work.row,
                vec![step("reply", None), step("started", Some(call(1, None)))],
            )
            .unwrap();
        assert_eq!(outcomes(&store), words(&[("", "")]));
        work.row
    };
    let store = open(&path, &Limits::default());
    assert_eq!(outcomes(&store), words(&[("unknown", "")]));
    assert_eq!(store.journal(row).unwrap().len(), 2);
    let work = claim(&store, &conversation("a")).expect("it waits again");
    assert_eq!(work.row, row);
    answer(&store, row, "buenas");
    assert!(store.journal(row).unwrap().is_empty());
}

#[test]
fn a_deleted_conversation_leaves_no_byte_of_its_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &Limits::default());
    let secret = "palabra-marcada-4711";
    let work = begin(&store, &said("a", "hola"));
    for _ in 0..50 {
        store
            .add_steps(work.row, vec![step(&secret.repeat(40), None)])
            .unwrap();
    }
    store.delete_conversation(&conversation("a")).unwrap();
    assert!(!store.add_steps(work.row, vec![step(secret, None)]).unwrap());
    let holds = |path: &Path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes())
    };
    assert!(!holds(&path), "in the database");
    assert!(!holds(&folder.path().join("korvun.db-wal")), "in the log");
}

#[test]
fn the_audit_stays_thirty_days() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = TestClock::new();
    let store = Store::open(
        &Place::File(folder.path().join("korvun.db")),
        &Limits::default(),
        clock.clone() as std::sync::Arc<dyn Clock>,
    )
    .expect("the store opens");
    let work = begin(&store, &said("a", "hola"));
    for number in 0..3 {
        store
            .add_steps(
                work.row,
                vec![step("", Some(call(number, ended(ToolOutcome::Ok, None))))],
            )
            .unwrap();
    }
    answer(&store, work.row, "buenas");
    clock.forward(HOUR * 24 * 29);
    store.sweep().unwrap();
    assert_eq!(outcomes(&store).len(), 3);
    clock.forward(HOUR * 48);
    store.sweep().unwrap();
    assert!(outcomes(&store).is_empty());
}

#[test]
fn in_memory_the_audit_is_bounded() {
    let limits = Limits {
        memory_messages: 64,
        ..Limits::default()
    };
    let store = Store::open(&Place::Memory, &limits, TestClock::new()).expect("opens");
    for number in 0..300 {
        let work = begin(&store, &said("a", "hola"));
        store
            .add_steps(
                work.row,
                vec![step("", Some(call(number, ended(ToolOutcome::Ok, None))))],
            )
            .unwrap();
        answer(&store, work.row, "buenas");
    }
    let kept = store.recent_calls("casa", 1000).unwrap().len();
    assert!((64..=128).contains(&kept), "{kept}");
    let _ = accept(&store, &said("b", "hola"), Claim::No);
}
