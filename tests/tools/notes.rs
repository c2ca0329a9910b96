//! `memory_note` and the notes in the store: whose they are, who sees them, how they go.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use korvun::base::clock::Clock;
use korvun::domain::brain::{Memory, MemoryScope, Sensitivity};
use korvun::domain::ids::BrainName;
use korvun::domain::limits::Limits;
use korvun::store::{Audience, Listed, Notebook, Place, Store};
use korvun::tool::port::Fault;
use serde_json::json;

use super::{call_as, conversation, rule, told, Bench};
use crate::store::TestClock;

fn memory(scope: MemoryScope) -> Memory {
    Memory {
        scope,
        max_notes: 3,
        max_note_runes: 20,
        budget_runes: 60,
    }
}

fn opened(folder: &Path, clock: &Arc<TestClock>) -> Arc<Store> {
    let place = Place::File(folder.join("korvun.db"));
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Arc::new(Store::open(&place, &Limits::default(), clock).expect("opens"))
}

fn book(scope: MemoryScope, channel: &str, id: &str, audience: Audience) -> Notebook {
    Notebook {
        brain: BrainName::new("casa"),
        conversation: conversation(channel, id),
        scope,
        audience,
    }
}

fn note(bench: &Bench, place: (&str, &str), key: &str, text: &str) -> Result<String, Fault> {
    let tool = bench.tool("memory_note");
    call_as(
        &*tool,
        json!({"note": text}),
        key,
        &conversation(place.0, place.1),
    )
}

fn listed(notes: &[&str], others: u64) -> Listed {
    Listed {
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        others,
    }
}

#[test]
fn a_note_is_one_line_is_kept_once_and_the_full_book_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path(), &TestClock::new());
    let bench = Bench::noting(memory(MemoryScope::Conversation), &store);
    let here = ("telegram", "7");
    let noted = |key: &str, text: &str| note(&bench, here, key, text);
    let kept = || {
        let book = book(MemoryScope::Conversation, here.0, here.1, Audience::Public);
        store.notes(&book).unwrap()
    };
    assert_eq!(noted("k1", " likes\n  tea "), Ok("noted".into()));
    // The same call again, as after a crash; then another call with the same words.
    assert_eq!(noted("k1", " likes\n  tea "), Ok("noted".into()));
    assert_eq!(kept(), ["likes tea"]);
    assert_eq!(noted("k2", "likes tea"), Ok("noted".into()));
    for (text, words) in [
        (
            "x".repeat(21),
            "a note has at most 20 characters; nothing was stored",
        ),
        (" \n ".to_owned(), "the note is empty"),
    ] {
        let fault = noted("k3", &text).expect_err("no");
        assert_eq!((rule(&fault), told(&fault)), (None, words));
    }
    assert_eq!(noted("k3", &"ñ".repeat(20)), Ok("noted".into()));
    let fault = noted("k4", "one more").expect_err("full");
    assert_eq!(rule(&fault), None);
    assert!(told(&fault).contains("/notes clear"), "{fault:?}");
    assert_eq!(kept(), ["likes tea", "likes tea", &"ñ".repeat(20)]);
    // A full book knows its own calls all the same.
    assert_eq!(noted("k1", "likes tea"), Ok("noted".into()));
    // Another conversation has a book of its own.
    assert!(note(&bench, ("telegram", "8"), "k5", "other").is_ok());
    assert_eq!(kept().len(), 3);
    // The budget counts characters of all notes together.
    let tight = Memory {
        budget_runes: 20,
        ..memory(MemoryScope::Conversation)
    };
    let bench = Bench::noting(tight, &store);
    assert!(note(&bench, ("telegram", "9"), "k6", "0123456789").is_ok());
    assert!(note(&bench, ("telegram", "9"), "k7", "01234567890").is_err());
    assert!(note(&bench, ("telegram", "9"), "k8", "0123456789").is_ok());
}

#[test]
fn whose_notes_are_shown_and_cleared_is_a_matter_of_scope_and_console() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path(), &TestClock::new());
    let scope = MemoryScope::Brain;
    let bench = Bench::noting(memory(scope), &store);
    assert!(note(&bench, ("telegram", "7"), "k1", "of seven").is_ok());
    assert!(note(&bench, ("telegram", "8"), "k2", "of eight").is_ok());
    assert!(note(&bench, ("console", "casa"), "k3", "of the console").is_ok());
    assert!(note(&bench, ("telegram", "9"), "k4", "full").is_err());
    let mut other = Bench::noting(memory(scope), &store);
    other.brain = BrainName::new("other");
    assert!(note(&other, ("telegram", "7"), "k5", "of another brain").is_ok());

    let all = ["of seven", "of eight", "of the console"];
    let at = |scope, channel: &str, id: &str| book(scope, channel, id, Audience::Public);
    assert_eq!(store.notes(&at(scope, "telegram", "9")).unwrap(), all);
    let conversation = MemoryScope::Conversation;
    for (scope, channel, id, shown) in [
        (scope, "telegram", "7", listed(&["of seven"], 2)),
        (scope, "telegram", "9", listed(&[], 3)),
        (scope, "console", "casa", listed(&all, 0)),
        (conversation, "telegram", "7", listed(&["of seven"], 0)),
        (
            conversation,
            "console",
            "casa",
            listed(&["of the console"], 0),
        ),
    ] {
        let book = at(scope, channel, id);
        assert_eq!(store.list_notes(&book).unwrap(), shown, "{book:?}");
    }
    // Off the console only one's own go; on it all of this brain.
    assert_eq!(store.clear_notes(&at(scope, "telegram", "7")), Ok(1));
    assert_eq!(store.notes(&at(scope, "telegram", "7")).unwrap(), all[1..]);
    assert_eq!(
        store.clear_notes(&at(conversation, "console", "casa")),
        Ok(1)
    );
    assert_eq!(
        store.notes(&at(scope, "telegram", "7")).unwrap(),
        ["of eight"]
    );
    assert_eq!(store.clear_notes(&at(scope, "console", "casa")), Ok(1));
    assert_eq!(store.clear_notes(&at(scope, "console", "casa")), Ok(0));
    assert!(note(&bench, ("telegram", "9"), "k6", "room again").is_ok());
    let mut others = at(scope, "console", "other");
    others.brain = BrainName::new("other");
    assert_eq!(store.notes(&others).unwrap(), ["of another brain"]);
}

#[test]
fn what_a_private_brain_notes_is_shown_to_no_public_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = opened(folder.path(), &TestClock::new());
    let mut bench = Bench::noting(memory(MemoryScope::Conversation), &store);
    let here = ("telegram", "7");
    assert!(note(&bench, here, "k1", "said in public").is_ok());
    bench.sensitivity = Sensitivity::Private;
    assert!(note(&bench, here, "k2", "said in private").is_ok());
    let of = |audience| book(MemoryScope::Conversation, here.0, here.1, audience);
    let (public, private) = (of(Audience::Public), of(Audience::Private));
    assert_eq!(store.notes(&public).unwrap(), ["said in public"]);
    assert_eq!(
        store.notes(&private).unwrap(),
        ["said in public", "said in private"]
    );
    assert_eq!(
        store.list_notes(&public).unwrap(),
        listed(&["said in public"], 0)
    );
    // Clearing leaves none behind, whoever may see it.
    assert_eq!(store.clear_notes(&public), Ok(2));
    assert!(store.notes(&private).unwrap().is_empty());
}

fn found(folder: &Path, mark: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes
            .windows(mark.len())
            .any(|window| window == mark.as_bytes())
    })
}

#[test]
fn a_note_goes_with_its_conversation_its_time_or_a_clearing_without_a_byte_left() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let store = opened(folder.path(), &clock);
    let wide = Memory {
        max_notes: 100,
        max_note_runes: 2000,
        budget_runes: 200_000,
        scope: MemoryScope::Conversation,
    };
    let bench = Bench::noting(wide, &store);
    let mark = |id: &str, age: &str| format!("MARK-{id}-{age} ");
    let fill = |id: &str, age: &str| {
        for number in 0..40 {
            let text = mark(id, age).repeat(1 + number * 7 % 90);
            let key = format!("{id}-{age}-{number}");
            assert!(note(&bench, ("webhook", id), &key, &text).is_ok());
        }
    };
    for id in ["a", "b", "c"] {
        fill(id, "OLD");
    }
    assert!(
        found(folder.path(), "MARK-a-OLD"),
        "the search finds it first"
    );
    store
        .delete_conversation(&conversation("webhook", "a"))
        .unwrap();
    assert!(!found(folder.path(), "MARK-a-OLD"));
    assert!(found(folder.path(), "MARK-b-OLD"));
    let at = |id: &str| book(MemoryScope::Conversation, "webhook", id, Audience::Public);
    assert_eq!(store.clear_notes(&at("b")), Ok(40));
    assert!(!found(folder.path(), "MARK-b-OLD"));
    clock.forward(Duration::from_secs(40 * 86_400));
    let border = clock.unix();
    fill("d", "NEW");
    fill("c", "NEW");
    store.expire(border).unwrap();
    assert!(!found(folder.path(), "MARK-c-OLD"));
    assert_eq!(store.notes(&at("c")).unwrap().len(), 40);
    assert_eq!(store.notes(&at("d")).unwrap().len(), 40);
    drop(bench);
    drop(store);
    let store = opened(folder.path(), &clock);
    assert_eq!(store.notes(&at("d")).unwrap().len(), 40, "after a restart");
}
