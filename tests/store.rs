//! The store's rules on real files and in memory alike: what is committed stays, what is refused
//! leaves nothing.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use korvun::base::clock::{Clock, UnixMs};
use korvun::domain::ids::{ChannelName, Conversation, MessageId};
use korvun::domain::limits::Limits;
use korvun::domain::message::{ChatKind, Inbound, Language, Outcome, Outgoing, Role};
use korvun::store::{
    Accepted, Audience, Claim, Delivery, Excuse, Finish, Finished, Place, Reply, State, Store,
    TurnOutcome, Work,
};

mod cursors;
mod faults;
mod forgetting;
mod journal;
mod writing;

const HOUR: Duration = Duration::from_secs(3600);

/// A calendar that the test sets.
#[derive(Debug)]
pub struct TestClock(Mutex<UnixMs>);

impl TestClock {
    pub fn new() -> Arc<TestClock> {
        Arc::new(TestClock(Mutex::new(UnixMs(1_800_000_000_000))))
    }

    pub fn forward(&self, span: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.plus(span);
    }
}

impl Clock for TestClock {
    fn unix(&self) -> UnixMs {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

pub fn open(path: &Path, limits: &Limits) -> Store {
    Store::open(&Place::File(path.to_owned()), limits, TestClock::new()).expect("the store opens")
}

/// Runs a test on a file and in memory.
fn on_both(limits: &Limits, test: impl Fn(&Store, &TestClock)) {
    let folder = tempfile::tempdir().expect("a folder");
    for place in [Place::File(folder.path().join("korvun.db")), Place::Memory] {
        println!("on {place:?}");
        let clock = TestClock::new();
        let store = Store::open(&place, limits, Arc::clone(&clock) as Arc<dyn Clock>)
            .expect("the store opens");
        test(&store, &clock);
    }
}

pub fn conversation(id: &str) -> Conversation {
    Conversation::new(&ChannelName::new("webhook"), id)
}

pub fn said(id: &str, text: &str) -> Inbound {
    Inbound {
        conversation: conversation(id),
        dedup: None,
        sender_id: "7".to_owned(),
        sender_name: "Ana".to_owned(),
        text: text.to_owned(),
        attachment: None,
        language: Language::Es,
        chat: ChatKind::Program,
        reply_to: Some("in place".to_owned()),
    }
}

fn keyed(id: &str, key: &str) -> Inbound {
    Inbound {
        dedup: Some(key.to_owned()),
        ..said(id, "hola")
    }
}

pub fn busy() -> Excuse {
    Excuse {
        text: "busy, sorry".to_owned(),
        sender_name: "Korvun".to_owned(),
    }
}

pub fn accept(store: &Store, inbound: &Inbound, claim: Claim) -> Accepted {
    store
        .accept(inbound, claim, None, &busy())
        .expect("accepted")
}

/// The work that a claim without customs comes to: no command is answered.
pub fn claim(store: &Store, conversation: &Conversation) -> Option<Work> {
    let claimed = store.claim(conversation).expect("asked");
    assert!(claimed.said.is_empty(), "{claimed:?}");
    claimed.work
}

pub fn begin(store: &Store, inbound: &Inbound) -> Work {
    match accept(store, inbound, Claim::IfIdle) {
        Accepted::New {
            work: Some(work), ..
        } => work,
        other => panic!("not begun: {other:?}"),
    }
}

fn id_of(accepted: Accepted) -> MessageId {
    match accepted {
        Accepted::New { message_id, .. }
        | Accepted::Busy { message_id, .. }
        | Accepted::Answered { message_id, .. }
        | Accepted::Duplicate { message_id } => message_id,
        Accepted::Full | Accepted::Crowded => panic!("no room"),
    }
}

pub fn end(outcome: Outcome, role: Role, text: &str) -> Finish {
    Finish {
        outcome,
        reply: Some(Reply {
            role,
            sender_name: "Brain".to_owned(),
            brain: Some("brain".to_owned()),
            text: text.to_owned(),
        }),
        audience: Audience::Public,
    }
}

pub fn answer(store: &Store, row: i64, text: &str) -> Outgoing {
    match store
        .finish(row, end(Outcome::Answered, Role::Assistant, text))
        .expect("finished")
    {
        Finished::Closed {
            outgoing: Some(outgoing),
            ..
        } => outgoing,
        other => panic!("not closed: {other:?}"),
    }
}

#[test]
fn a_message_goes_in_is_answered_and_goes_out() {
    on_both(&Limits::default(), |store, clock| {
        let inbound = Inbound {
            attachment: Some("photo".to_owned()),
            ..said("c", "hola")
        };
        let Accepted::New {
            message_id,
            waiting,
            work,
        } = accept(store, &inbound, Claim::IfIdle)
        else {
            panic!("not new")
        };
        let work = work.expect("begun in the same commit");
        assert_eq!((waiting, work.attempt), (1, 1));
        assert_eq!(work.message_id, message_id);
        assert_eq!(work.conversation, inbound.conversation);
        assert_eq!(work.received_at, clock.unix());
        assert_eq!(
            (&work.sender_id, &work.sender_name, &work.text),
            (&inbound.sender_id, &inbound.sender_name, &inbound.text)
        );
        assert_eq!(
            (&work.attachment, work.language, work.chat, &work.reply_to),
            (
                &inbound.attachment,
                Language::Es,
                ChatKind::Program,
                &inbound.reply_to
            )
        );
        assert_eq!(store.counts().inbox_open, 1);
        let seen = |id: &MessageId| store.message(id).expect("read").expect("known");
        assert_eq!(seen(&message_id).state, State::Working);
        assert_eq!(seen(&message_id).delivery, None);

        let outgoing = answer(store, work.row, "buenas");
        assert_eq!(outgoing.in_reply_to.as_ref(), Some(&message_id));
        assert_eq!(outgoing.reply_to, inbound.reply_to);
        assert_eq!(
            store.outgoing(outgoing.row).expect("read").as_ref(),
            Some(&outgoing)
        );
        assert_eq!(
            (store.counts().inbox_open, store.counts().outbox_open),
            (0, 1)
        );
        for id in [&message_id, &outgoing.message_id] {
            let state = seen(id);
            assert_eq!(state.state, State::Answered);
            assert_eq!(state.delivery, Some(Delivery::Queued));
            let said = state.answer.expect("kept");
            assert_eq!(said.text, "buenas");
            assert_eq!(said.message_id, outgoing.message_id);
        }

        store.sent(outgoing.row);
        store
            .write(|_| Ok(()))
            .expect("what is urgent takes marks along");
        assert_eq!(seen(&message_id).delivery, Some(Delivery::Sent));
        assert_eq!(store.outgoing(outgoing.row).expect("read"), None);
        assert_eq!(store.counts().outbox_open, 0);
    });
}

#[test]
fn a_key_is_recognised_within_its_window_on_its_channel() {
    on_both(&Limits::default(), |store, clock| {
        let first = begin(store, &keyed("a", "k"));
        let again = |inbound: &Inbound| accept(store, inbound, Claim::IfIdle);
        let duplicate = Accepted::Duplicate {
            message_id: first.message_id.clone(),
        };
        // Whatever conversation it names, and when the first is finished too.
        assert_eq!(again(&keyed("b", "k")), duplicate);
        answer(store, first.row, "x");
        assert_eq!(again(&keyed("a", "k")), duplicate);
        assert_eq!(store.counts().inbox_open, 0);

        let mut elsewhere = keyed("a", "k");
        elsewhere.conversation = Conversation::new(&ChannelName::new("telegram"), "a");
        assert!(matches!(again(&elsewhere), Accepted::New { .. }));

        clock.forward(24 * HOUR - Duration::from_millis(1));
        assert_eq!(again(&keyed("a", "k")), duplicate);
        clock.forward(Duration::from_millis(1));
        let later = begin(store, &keyed("a", "k"));
        assert_ne!(later.message_id, first.message_id);
        assert_eq!(
            again(&keyed("a", "k")),
            Accepted::Duplicate {
                message_id: later.message_id
            }
        );
    });
}

#[test]
fn twenty_wait_behind_the_one_in_work_and_the_next_is_excused_in_its_own_commit() {
    on_both(&Limits::default(), |store, _| {
        let first = begin(store, &said("c", "0"));
        for n in 1..=20 {
            let Accepted::New { waiting, work, .. } =
                accept(store, &said("c", &n.to_string()), Claim::IfIdle)
            else {
                panic!("{n} was not let in")
            };
            assert_eq!((waiting, work), (n + 1, None));
        }
        let before = store.counts();
        let Accepted::Busy {
            message_id,
            outgoing,
        } = accept(store, &keyed("c", "k"), Claim::IfIdle)
        else {
            panic!("the 22nd was let in")
        };
        assert_eq!(outgoing.text, "busy, sorry");
        assert_eq!(outgoing.role, Role::System);
        assert_eq!(outgoing.in_reply_to.as_ref(), Some(&message_id));
        let state = store.message(&message_id).expect("read").expect("known");
        assert_eq!(state.state, State::Excused);
        assert_eq!(state.delivery, Some(Delivery::Queued));
        let after = store.counts();
        assert_eq!(after.inbox_open, before.inbox_open);
        assert_eq!(after.outbox_open, before.outbox_open + 1);
        assert_eq!(after.commits, before.commits + 1);
        assert_eq!(
            accept(store, &keyed("c", "k"), Claim::IfIdle),
            Accepted::Duplicate { message_id }
        );
        // Others are not held, and one more place is there as soon as one is finished.
        begin(store, &said("other", "hola"));
        answer(store, first.row, "x");
        assert!(matches!(
            accept(store, &said("c", "21"), Claim::No),
            Accepted::New { waiting: 21, .. }
        ));
    });
}

#[test]
fn a_full_inbox_stores_nothing_more_but_still_knows_its_keys() {
    let limits = Limits {
        inbox_rows: 3,
        ..Limits::default()
    };
    on_both(&limits, |store, _| {
        let first = begin(store, &keyed("a", "k"));
        begin(store, &said("b", "hola"));
        begin(store, &said("c", "hola"));
        let commits = store.counts().commits;
        assert_eq!(
            accept(store, &keyed("d", "n"), Claim::IfIdle),
            Accepted::Full
        );
        assert_eq!(
            id_of(accept(store, &keyed("a", "k"), Claim::IfIdle)),
            first.message_id
        );
        assert_eq!(store.counts().commits, commits, "nothing was written");
        answer(store, first.row, "x");
        begin(store, &keyed("d", "n"));
    });
}

#[test]
fn a_full_outbox_holds_back_what_would_fill_it_more() {
    let limits = Limits {
        outbox_rows: 2,
        ..Limits::default()
    };
    on_both(&limits, |store, _| {
        let work = [begin(store, &said("a", "1")), begin(store, &said("b", "2"))];
        let out = work.map(|work| answer(store, work.row, "x"));
        assert_eq!(
            accept(store, &said("c", "3"), Claim::IfIdle),
            Accepted::Full
        );
        assert!(store.failed(out[0].row, "gone").expect("given up"));
        begin(store, &said("c", "3"));
    });
}

#[test]
fn a_conversation_that_cannot_be_written_to_leaves_room_for_the_others() {
    let limits = Limits {
        outbox_per_conversation: 2,
        ..Limits::default()
    };
    on_both(&limits, |store, _| {
        let out = ["1", "2"].map(|text| answer(store, begin(store, &said("a", text)).row, "x"));
        let crowded = accept(store, &said("a", "3"), Claim::IfIdle);
        assert_eq!(crowded, Accepted::Crowded);
        begin(store, &said("b", "1"));
        store.sent(out[0].row);
        begin(store, &said("a", "4"));
    });
}

#[test]
fn the_inbox_holds_a_thousand_unfinished_messages() {
    let store = Store::open(&Place::Memory, &Limits::default(), TestClock::new()).expect("opens");
    for n in 0..1000 {
        begin(&store, &said(&n.to_string(), "hola"));
    }
    assert_eq!(
        accept(&store, &said("one more", "hola"), Claim::IfIdle),
        Accepted::Full
    );
    assert_eq!(store.counts().inbox_open, 1000);
}

#[test]
fn a_conversation_is_worked_on_in_order_and_by_one() {
    on_both(&Limits::default(), |store, _| {
        let c = conversation("c");
        for n in 0..5 {
            accept(store, &said("c", &n.to_string()), Claim::No);
        }
        for n in 0..5 {
            let work = claim(store, &c).expect("one waits");
            assert_eq!(work.text, n.to_string());
            assert_eq!(claim(store, &c), None, "one is in work");
            answer(store, work.row, &format!("to {n}"));
        }
        assert_eq!(claim(store, &c), None);
        let queued = store
            .queued(&ChannelName::new("webhook"), 0, 100)
            .expect("read");
        let texts: Vec<String> = queued
            .iter()
            .map(|row| store.outgoing(row.row).expect("read").expect("queued").text)
            .collect();
        assert_eq!(texts, ["to 0", "to 1", "to 2", "to 3", "to 4"]);
        let behind = store
            .queued(&ChannelName::new("webhook"), queued[2].row, 1)
            .expect("read");
        assert_eq!(behind, queued[3..4]);
    });
}

#[test]
fn of_many_who_claim_at_once_one_gets_the_work() {
    on_both(&Limits::default(), |store, _| {
        for n in 0..20 {
            let c = conversation(&n.to_string());
            accept(store, &said(&n.to_string(), "hola"), Claim::No);
            let won: usize = std::thread::scope(|scope| {
                let claims: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| claim(store, &c).is_some()))
                    .collect();
                claims
                    .into_iter()
                    .map(|claim| usize::from(claim.join().expect("no panic")))
                    .sum()
            });
            assert_eq!(won, 1);
        }
    });
}

#[test]
fn a_second_answer_is_never_stored() {
    on_both(&Limits::default(), |store, _| {
        let work = begin(store, &said("c", "hola"));
        let first = answer(store, work.row, "first");
        let second = store
            .finish(work.row, end(Outcome::Answered, Role::Assistant, "second"))
            .expect("asked");
        assert_eq!(
            second,
            Finished::NotWorking {
                state: State::Answered,
                outgoing: Some(first.clone())
            }
        );
        assert_eq!(store.counts().outbox_open, 1);
        let waiting = id_of(accept(store, &said("d", "hola"), Claim::No));
        let row = row_of(&waiting);
        assert_eq!(
            store
                .finish(row, end(Outcome::Excused, Role::System, "no"))
                .expect("asked"),
            Finished::NotWorking {
                state: State::Waiting,
                outgoing: None
            }
        );
        assert_eq!(
            store
                .finish(999, end(Outcome::Excused, Role::System, "no"))
                .expect("asked"),
            Finished::Gone
        );
        let history = store
            .history(&work.conversation, i64::MAX, 20, Audience::Public)
            .expect("read");
        let texts: Vec<&str> = history.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, ["hola", "first"]);
    });
}

fn row_of(id: &MessageId) -> i64 {
    let (_, row) = id.as_str().rsplit_once("-i").expect("an inbox id");
    row.parse().expect("a number")
}

#[test]
fn a_message_whose_run_failed_goes_back_with_its_attempt_counted() {
    on_both(&Limits::default(), |store, _| {
        let work = begin(store, &said("c", "try me"));
        assert_eq!(work.attempt, 1);
        assert_eq!(claim(store, &work.conversation), None);
        // Nobody waits for it, and it comes before whatever is asked next.
        store.put_back(work.row);
        let again = claim(store, &work.conversation);
        assert_eq!(again.map(|work| work.attempt), Some(2));
    });
}

#[test]
fn a_planned_stop_gives_the_attempt_back_and_an_end_without_one_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let c = conversation("c");
    let mut ids = Vec::new();
    for attempt in 1..=3 {
        let store = open(&path, &Limits::default());
        assert_eq!(store.recovered(), u64::from(attempt > 1));
        if attempt == 1 {
            ids.push(begin(&store, &said("c", "hola")).message_id);
            accept(&store, &said("c", "behind"), Claim::IfIdle);
        } else {
            assert_eq!(
                store.open_conversations().expect("read"),
                [(c.clone(), 2)],
                "what was in work waits again"
            );
            assert_eq!(store.counts().inbox_open, 2);
            let work = claim(&store, &c).expect("waits");
            assert_eq!((work.attempt, work.text.as_str()), (attempt, "hola"));
            ids.push(work.message_id.clone());
            assert!(store.give_back(work.row).expect("given back"));
            assert!(!store.give_back(work.row).expect("asked"), "once only");
            let again = claim(&store, &c).expect("waits");
            assert_eq!((again.attempt, again.text.as_str()), (attempt, "hola"));
        }
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_stop_asked_for_forgives_what_is_in_work_even_if_the_process_is_killed_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    for life in 0..5 {
        let store = open(&path, &Limits::default());
        if life == 0 {
            accept(&store, &said("c", "hola"), Claim::No);
            accept(&store, &said("c", "behind"), Claim::No);
        }
        let work = claim(&store, &conversation("c")).expect("waits");
        assert_eq!(
            (work.attempt, work.text.as_str()),
            (1, "hola"),
            "life {life}"
        );
        assert_eq!(store.forgive().expect("forgiven"), [work.row]);
        // Still in work: nobody else begins it, and its end is its end.
        assert!(claim(&store, &conversation("c")).is_none());
        if life == 4 {
            let closed = store
                .finish(work.row, end(Outcome::Answered, Role::Assistant, "yes"))
                .expect("finished");
            assert!(matches!(closed, Finished::Closed { .. }));
        }
    }
}

#[test]
fn history_shows_answered_exchanges_in_order_and_nothing_private_to_the_public() {
    on_both(&Limits::default(), |store, _| {
        let c = conversation("c");
        let close = |work: &Work, outcome, role, text: &str, audience| {
            let closed = store
                .finish(
                    work.row,
                    Finish {
                        audience,
                        ..end(outcome, role, text)
                    },
                )
                .expect("finished");
            assert!(matches!(closed, Finished::Closed { .. }));
        };
        // The second comes in before the first is answered: its answer stands behind it all the same.
        let first = begin(store, &said("c", "q1"));
        accept(store, &said("c", "q2"), Claim::No);
        begin(store, &said("elsewhere", "not here"));
        close(
            &first,
            Outcome::Answered,
            Role::Assistant,
            "a1",
            Audience::Public,
        );
        for (question, outcome, role, text, audience) in [
            (
                "q2",
                Outcome::Answered,
                Role::Assistant,
                "a2",
                Audience::Private,
            ),
            (
                "/help",
                Outcome::Answered,
                Role::System,
                "help",
                Audience::Public,
            ),
            (
                "fails",
                Outcome::Excused,
                Role::System,
                "sorry",
                Audience::Public,
            ),
            (
                "stop",
                Outcome::Cancelled,
                Role::System,
                "stopped",
                Audience::Public,
            ),
            (
                "q3",
                Outcome::Answered,
                Role::Assistant,
                "a3",
                Audience::Public,
            ),
        ] {
            if question != "q2" {
                accept(store, &said("c", question), Claim::No);
            }
            let work = claim(store, &c).expect("waits");
            assert_eq!(work.text, question);
            close(&work, outcome, role, text, audience);
        }
        let kept = begin(store, &said("c", "to the operator"));
        let operator = Finish {
            outcome: Outcome::Operator,
            reply: None,
            audience: Audience::Private,
        };
        store.finish(kept.row, operator).expect("finished");
        let open = begin(store, &said("c", "open"));
        accept(store, &said("c", "waiting"), Claim::No);

        let texts = |before, limit, audience| -> Vec<String> {
            store
                .history(&c, before, limit, audience)
                .expect("read")
                .into_iter()
                .map(|turn| turn.text)
                .collect()
        };
        let all = ["q1", "a1", "q2", "a2", "q3", "a3", "to the operator"];
        for before in [open.turn, i64::MAX] {
            assert_eq!(texts(before, 20, Audience::Private), all);
            assert_eq!(
                texts(before, 20, Audience::Public),
                ["q1", "a1", "q3", "a3"]
            );
        }
        assert_eq!(texts(open.turn, 3, Audience::Private), all[4..]);
        assert_eq!(texts(open.turn, 0, Audience::Private), [""; 0]);
        assert_eq!(texts(first.turn + 1, 20, Audience::Private), ["q1", "a1"]);
        let turns = store
            .history(&c, i64::MAX, 20, Audience::Public)
            .expect("read");
        assert_eq!(turns[0].outcome, Some(TurnOutcome::Ok));
        assert_eq!(turns[1].after, Some(turns[0].id));
        assert_eq!((turns[1].role, turns[1].outcome), (Role::Assistant, None));
    });
}

#[test]
fn a_delivery_is_tried_again_counted_and_given_up() {
    on_both(&Limits::default(), |store, clock| {
        let work = begin(store, &said("c", "hola"));
        let out = answer(store, work.row, "buenas");
        let due = clock.unix().plus(HOUR);
        store.part_sent(out.row, 2);
        store.part_sent(out.row, 1);
        store.retry(out.row, due, "connection refused");
        store.write(|_| Ok(())).expect("committed");
        let queued = store
            .queued(&ChannelName::new("webhook"), 0, 10)
            .expect("read");
        assert_eq!((queued[0].next_at, queued[0].attempts), (due, 1));
        assert_eq!(queued[0].queued_at, out.queued_at);
        let held = store.outgoing(out.row).expect("read").expect("queued");
        assert_eq!((held.parts_sent, held.attempts), (2, 1));
        assert!(store.failed(out.row, "404").expect("given up"));
        assert!(!store.failed(out.row, "404").expect("asked"), "once only");
        store.sent(out.row);
        store.retry(out.row, due, "too late");
        store.write(|_| Ok(())).expect("committed");
        let state = store
            .message(&work.message_id)
            .expect("read")
            .expect("known");
        assert_eq!(state.delivery, Some(Delivery::Failed));
        assert_eq!(store.counts().outbox_open, 0);
    });
}

/// Whom a message was meant for outlives the process, and whoever answers it does not change it.
#[test]
fn what_was_meant_for_a_private_brain_stays_private() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::File(folder.path().join("korvun.db"));
    let open = || Store::open(&place, &Limits::default(), TestClock::new()).expect("opened");
    let store = open();
    for (id, meant_for) in [
        ("private", Some(Audience::Private)),
        ("public", Some(Audience::Public)),
        ("nobody", None),
    ] {
        store
            .accept(&said(id, "hola"), Claim::No, meant_for, &busy())
            .expect("accepted");
    }
    store.close();
    let store = open();
    for (id, meant_for, seen) in [
        ("private", Some(Audience::Private), vec!["answer"]),
        ("public", Some(Audience::Public), vec!["hola", "answer"]),
        ("nobody", None, vec!["hola", "answer"]),
    ] {
        let work = claim(&store, &conversation(id)).expect("work");
        assert_eq!(work.meant_for, meant_for, "{id}");
        answer(&store, work.row, "answer");
        let shown = store
            .history(&conversation(id), i64::MAX, 20, Audience::Public)
            .expect("read");
        let texts: Vec<&str> = shown.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, seen, "{id}");
    }
}
