//! The writing thread: groups, savepoints, panics, marks, hanging, `kill -9`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use korvun::base::clock::{Clock, UnixMs};
use korvun::domain::ids::MessageId;
use korvun::domain::limits::Limits;
use korvun::store::{Accepted, Claim, Delivery, Place, State, Store, StoreError};

use super::{accept, answer, begin, claim, conversation, open, said, TestClock};

/// A refused statement: the key is there already.
const REFUSED: &str = "INSERT INTO meta(key, value) VALUES ('epoch', 'again')";

fn put(key: &str) -> String {
    format!("INSERT INTO meta(key, value) VALUES ('{key}', '')")
}

fn kept(store: &Store) -> Vec<String> {
    store
        .read(|connection| {
            connection
                .prepare("SELECT key FROM meta WHERE key LIKE 'test%' ORDER BY key")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
        .expect("read")
}

/// Limits under which marks wait for urgent company.
fn patient() -> Limits {
    Limits {
        store_lazy: Duration::from_secs(600),
        ..Limits::default()
    }
}

#[test]
fn many_who_write_at_once_share_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("korvun.db"), &Limits::default());
    let (threads, each) = (16, 50);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..each {
                    let id = format!("{thread}");
                    let inbound = said(&id, "hola");
                    let accepted = accept(store, &inbound, Claim::IfIdle);
                    let Accepted::New { work, .. } = accepted else {
                        panic!("{accepted:?}")
                    };
                    answer(store, work.expect("idle").row, "buenas");
                }
            });
        }
    });
    let (writes, commits) = (threads * each * 2, store.counts().commits);
    println!(
        "{writes} writes by {threads} threads in {commits} commits, {:?}",
        began.elapsed()
    );
    assert!(
        commits * 3 <= writes,
        "{writes} writes took {commits} commits"
    );
}

#[test]
fn a_write_that_fails_or_panics_spoils_nothing_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for place in [Place::File(folder.path().join("korvun.db")), Place::Memory] {
        let store = Store::open(&place, &patient(), TestClock::new()).expect("opens");
        let before = store.counts();
        store.write_later(|tx| tx.execute(&put("test 1"), []).map(drop));
        store.write_later(|tx| {
            tx.execute(&put("test lost"), [])?;
            tx.execute(REFUSED, []).map(drop)
        });
        store.write_later(|tx| {
            tx.execute(&put("test panicked"), [])?;
            panic!("planted");
        });
        store.write_later(|tx| tx.execute(&put("test 2"), []).map(drop));
        store
            .write(|tx| tx.execute(&put("test 3"), []))
            .expect("what stands beside a failure is committed");
        assert_eq!(kept(&store), ["test 1", "test 2", "test 3"]);
        let after = store.counts();
        assert_eq!(after.commits, before.commits + 1, "one group");
        assert_eq!(after.marks_lost, 2);

        // The same for writes that somebody waits for.
        let refused = store.write(|tx| {
            tx.execute(&put("test lost"), [])?;
            tx.execute(REFUSED, [])
        });
        assert!(
            matches!(refused, Err(StoreError::Refused(_))),
            "{refused:?}"
        );
        let panicked = store.write(|tx| {
            tx.execute(&put("test lost"), [])?;
            if tx.inbox_open() == 0 {
                panic!("planted");
            }
            Ok(())
        });
        assert_eq!(panicked, Err(StoreError::Panicked));
        assert_eq!(kept(&store), ["test 1", "test 2", "test 3"]);
        assert_eq!(store.health().error, None, "the store itself is well");
    }
}

#[test]
fn counts_follow_what_is_committed_and_not_what_was_taken_back() {
    let store = Store::open(&Place::Memory, &patient(), TestClock::new()).expect("opens");
    let work = begin(&store, &said("c", "hola"));
    let out = answer(&store, work.row, "buenas");
    store.sent(out.row);
    store.sent(out.row);
    store.write(|_| Ok(())).expect("committed");
    assert_eq!(
        store.counts().outbox_open,
        0,
        "a second mark counts nothing"
    );
}

#[test]
fn a_mark_is_committed_alone_after_a_while() {
    let limits = Limits {
        store_lazy: Duration::from_millis(20),
        ..Limits::default()
    };
    let store = Store::open(&Place::Memory, &limits, TestClock::new()).expect("opens");
    let (tell, told) = channel();
    store.write_later(move |tx| {
        tell.send(()).expect("heard");
        tx.execute(&put("test"), []).map(drop)
    });
    told.recv_timeout(Duration::from_secs(30)).expect("it ran");
    let until = Instant::now() + Duration::from_secs(30);
    while store.counts().commits == 0 {
        assert!(Instant::now() < until, "never committed");
        std::thread::yield_now();
    }
}

#[test]
fn closing_commits_what_waits_and_lets_nothing_more_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &patient());
    let work = begin(&store, &said("c", "hola"));
    let out = answer(&store, work.row, "buenas");
    store.sent(out.row);
    store.close();
    assert_eq!(store.write(|_| Ok(())), Err(StoreError::Closed));
    assert_eq!(store.read(|_| Ok(())), Err(StoreError::Closed));
    store.write_later(|_| Ok(()));
    assert_eq!(store.counts().marks_lost, 1);
    let log = folder.path().join("korvun.db-wal");
    assert!(!log.exists(), "all is in the database itself");
    let store = open(&path, &patient());
    let state = store
        .message(&work.message_id)
        .expect("read")
        .expect("known");
    assert_eq!(state.delivery, Some(Delivery::Sent));
}

/// A clock at which the store thread can be held, in the middle of a group.
#[derive(Debug)]
struct Gate {
    armed: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Gate {
    fn new() -> Arc<Gate> {
        Arc::new(Gate {
            armed: Mutex::new(None),
        })
    }

    /// Holds the next write as it begins; gives what tells of it and what lets it go.
    fn arm(&self) -> (Receiver<()>, Sender<()>) {
        let (tell, told) = channel();
        let (release, released) = channel();
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some((tell, released));
        (told, release)
    }
}

impl Clock for Gate {
    fn unix(&self) -> UnixMs {
        let armed = self
            .armed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((tell, released)) = armed {
            tell.send(()).expect("heard");
            released.recv().expect("let go");
        }
        UnixMs(1_800_000_000_000)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

#[test]
fn a_store_that_hangs_says_so_and_gives_back_what_nobody_took() {
    let limits = Limits {
        store_wait: Duration::from_millis(50),
        store_queue: 1,
        ..Limits::default()
    };
    let gate = Gate::new();
    let store =
        Store::open(&Place::Memory, &limits, Arc::clone(&gate) as Arc<dyn Clock>).expect("opens");
    let c = conversation("c");
    accept(&store, &said("c", "hola"), Claim::No);

    let (held, release) = gate.arm();
    let hangs = StoreError::Hangs(limits.store_wait);
    assert_eq!(
        store.claim(&c),
        Err(hangs.clone()),
        "its commit takes too long"
    );
    held.recv().expect("the claim had begun");
    assert!(store.health().busy_since.is_some());
    // One more has room and waits in vain, and another finds no room.
    std::thread::scope(|scope| {
        let one = scope.spawn(|| store.write(|tx| tx.execute(&put("test"), [])));
        let two = scope.spawn(|| store.write(|tx| tx.execute(&put("test"), [])));
        assert_eq!(one.join().expect("no panic"), Err(hangs.clone()));
        assert_eq!(two.join().expect("no panic"), Err(hangs.clone()));
    });
    release.send(()).expect("held");

    let until = Instant::now() + Duration::from_secs(30);
    let work = loop {
        match store.claim(&c).map(|claimed| claimed.work) {
            Ok(Some(work)) => break work,
            Ok(None) | Err(StoreError::Hangs(_)) => {
                assert!(Instant::now() < until, "the orphan was not given back");
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(work.attempt, 1, "its attempt was given back");
    assert_eq!(kept(&store), [""; 0], "what was given up in time never ran");
}

/// The child: accepts and answers in eight conversations until it is killed, and tells each
/// acknowledgement. A test only in name, and only where its parent asks for it.
#[test]
fn child_writes_until_killed() {
    let Ok(path) = std::env::var("KORVUN_TEST_STORE") else {
        return;
    };
    let store = open(Path::new(&path), &Limits::default());
    let start = std::process::id();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                let id = format!("c{thread}");
                let c = conversation(&id);
                for n in 0.. {
                    let text = format!("{start} {n}");
                    match accept(store, &said(&id, &text), Claim::No) {
                        Accepted::New { message_id, .. } => {
                            println!("accepted {message_id} {id} {text}");
                        }
                        Accepted::Busy { message_id, .. } => println!("busy {message_id} {id}"),
                        other => panic!("{other:?}"),
                    }
                    if n % 2 == 1 {
                        let work = claim(&store, &c).expect("one waits");
                        let out = answer(store, work.row, &format!("to {}", work.text));
                        println!("answered {} {id}", work.message_id);
                        store.sent(out.row);
                    }
                }
            });
        }
    });
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let mut accepted: Vec<(MessageId, String)> = Vec::new();
    let mut answered: Vec<MessageId> = Vec::new();
    for round in 0..10_u32 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "store::writing::child_writes_until_killed"])
            .args(["--nocapture", "--test-threads=1"])
            .env("KORVUN_TEST_STORE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // Killed after so many acknowledgements; what it still says before it is gone counts too.
        let enough = 40 + 37 * round;
        let mut seen = 0;
        for line in lines.map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["accepted", id, conversation, _, _] => {
                    accepted.push((MessageId::new(id), conversation.to_owned()));
                }
                ["busy", id, _] | ["answered", id, _] => answered.push(MessageId::new(id)),
                _ => continue,
            }
            seen += 1;
            if seen == enough {
                child.kill().expect("killed");
            }
        }
        assert!(seen >= enough, "the child ended by itself after {seen}");
        child.wait().expect("gone");

        let connection = rusqlite::Connection::open(&path).expect("opens");
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .expect("checked");
        assert_eq!(verdict, "ok", "round {round}");
        drop(connection);

        let store = open(&path, &Limits::default());
        for (id, _) in &accepted {
            assert!(store.message(id).expect("read").is_some(), "{id} is lost");
        }
        for id in &answered {
            let state = store.message(id).expect("read").expect("kept");
            assert!(
                !state.state.open(),
                "{id} was answered and is {:?}",
                state.state
            );
            assert!(state.answer.is_some(), "the answer to {id} is lost");
        }
        one_answer_each_and_counts_right(&store);
    }
    in_order(&accepted);
    println!("{} accepted, {} answered", accepted.len(), answered.len());
}

fn one_answer_each_and_counts_right(store: &Store) {
    let (twice, halves, open, queued): (i64, i64, u32, u32) = store
        .read(|connection| {
            connection.query_row(
                "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox GROUP BY inbox HAVING count(*) > 1)),
                        (SELECT count(*) FROM inbox WHERE (state > 1) <> (answer IS NOT NULL)),
                        (SELECT count(*) FROM inbox WHERE state <= 1),
                        (SELECT count(*) FROM outbox WHERE state = 0)",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )
        })
        .expect("read");
    assert_eq!((twice, halves), (0, 0), "answered twice, closed by half");
    let counts = store.counts();
    assert_eq!(
        (counts.inbox_open, counts.outbox_open),
        (open.into(), queued.into())
    );
}

/// Ids grow in each conversation in the order of the acknowledgements.
fn in_order(accepted: &[(MessageId, String)]) {
    let mut last: HashMap<&str, i64> = HashMap::new();
    for (id, conversation) in accepted {
        let row = super::row_of(id);
        let before = last.insert(conversation, row).unwrap_or(0);
        assert!(before < row, "{conversation}: {before} before {row}");
    }
}

#[test]
fn the_file_is_written_with_full_sync_and_the_owner_alone_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made").join("korvun.db");
    let store = open(&path, &Limits::default());
    begin(&store, &said("c", "hola"));
    let settings = store
        .write(|tx| {
            let number = |sql: &str| tx.query_row(sql, [], |row| row.get::<_, i64>(0));
            let mode: String = tx.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
            Ok((
                mode,
                number("PRAGMA synchronous")?,
                number("PRAGMA secure_delete")?,
            ))
        })
        .expect("read");
    assert_eq!(settings, ("wal".to_owned(), 2, 1));
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&folder.path().join("made")), 0o700);
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path().join("made")).expect("listed") {
        let file = entry.expect("listed").path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        files += 1;
    }
    assert_eq!(files, 4, "database, log, index, lock");
    assert_eq!(store.warnings(), [""; 0]);
    assert_eq!(store.health().error, None);
    assert!(store.health().durable && store.bytes() > 0);
    let refused = store.read(|connection| connection.execute("DELETE FROM turns", []));
    assert_eq!(refused, Err(StoreError::ReadOnly), "readers cannot write");
    assert_eq!(
        store.message(&MessageId::new("nonsense")).expect("read"),
        None
    );
    let known = store.open_conversations().expect("read");
    assert_eq!(known, [(conversation("c"), 1)]);
    let state = State::Working;
    assert!(state.open());
}
