//! What was accepted is answered, once and in order, whatever happens to the process: `kill -9` under
//! load, restarts while an answer is slow, the order of sync and acknowledgement, and the same way
//! without storage.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use rusqlite::{Connection, OpenFlags};
use rustix::process::Signal;
use serde_json::json;

use crate::support::daemon::{Daemon, WEBHOOK_TOKEN};
use crate::support::load::Poster;
use crate::support::rig;
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::sink::{Delivery, Sink};
use crate::support::site;

const KILLS: usize = 50;
const CONVERSATIONS: usize = 8;
/// Messages of one conversation under way at once: below the bound that brings the busy sentence.
const OPEN_MOST: usize = 4;
const SOON: Duration = Duration::from_secs(60);

/// Numbers from a seed (splitmix64, Steele, Lea and Flood 2014): a failing run can be had again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % most
    }
}

fn seed() -> u64 {
    let given = std::env::var("KORVUN_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(1, |now| now.as_micros() as u64)
    })
}

/// What one conversation knows of its own messages.
#[derive(Debug, Default)]
struct Ledger {
    /// Acknowledged: id, text; in the order they were said.
    accepted: Vec<(String, String)>,
    /// Said without a key; whether they were taken nobody told.
    unsure: HashSet<String>,
}

/// Talks until told to stop. With keys a message is repeated until it is acknowledged; without them one
/// whose acknowledgement never came is left to its fate.
fn talk(
    webhook: std::net::SocketAddr,
    name: &str,
    keys: bool,
    answers: &Receiver<Delivery>,
    stop: &AtomicBool,
) -> Ledger {
    let mut poster = Poster::new(webhook, WEBHOOK_TOKEN);
    let mut ledger = Ledger::default();
    let mut open = HashSet::new();
    let mut said = 0;
    while !stop.load(Ordering::SeqCst) {
        said += 1;
        let text = format!("{name} says {said}");
        let key = keys.then(|| format!("key-{name}-{said}"));
        loop {
            match poster.say(name, &text, key.as_deref()) {
                Ok(accepted) => {
                    open.insert(accepted.id.clone());
                    ledger.accepted.push((accepted.id, text));
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Other => {
                    panic!("the webhook refuses: {error}")
                }
                // Repeated by its key, or surely not taken, as nobody listened.
                Err(error) if keys || error.kind() == io::ErrorKind::ConnectionRefused => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(_) => {
                    ledger.unsure.insert(text);
                    break;
                }
            }
        }
        while open.len() >= OPEN_MOST && !stop.load(Ordering::SeqCst) {
            if let Ok(delivery) = answers.recv_timeout(Duration::from_millis(20)) {
                open.remove(delivery.in_reply_to());
            }
        }
    }
    ledger
}

#[test]
fn kill_9_loses_no_accepted_message_and_answers_none_twice() {
    let seed = seed();
    println!("seed {seed} (KORVUN_TEST_SEED repeats it)");
    let mut dice = Dice(seed);
    let model = Model::start(|ask| {
        let length: u64 = ask.text.bytes().map(u64::from).sum();
        Play::SayAfter(Duration::from_millis(2 + length % 40), echo(&ask.text))
    });
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    site.model()["parallel"] = json!(CONVERSATIONS);
    let stop = AtomicBool::new(false);
    let names: Vec<String> = (0..CONVERSATIONS)
        .map(|index| format!("talk-{index}"))
        .collect();

    let (ledgers, daemon) = thread::scope(|scope| {
        let talks: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let (answers, stop, webhook) = (sink.follow(name), &stop, site.webhook);
                scope.spawn(move || talk(webhook, name, index % 2 == 0, &answers, stop))
            })
            .collect();
        for kill in 0..KILLS {
            // The moment of the kill is what is drawn; every fifth lies in the start itself.
            let daemon = if kill % 5 == 4 {
                site.spawn(&[])
            } else {
                site.start()
            };
            thread::sleep(Duration::from_micros(dice.below(if kill % 5 == 4 {
                60_000
            } else {
                250_000
            })));
            daemon.kill();
        }
        let daemon = site.start();
        stop.store(true, Ordering::SeqCst);
        let ledgers: Vec<Ledger> = talks
            .into_iter()
            .map(|talk| talk.join().expect("a talk"))
            .collect();
        (ledgers, daemon)
    });

    let accepted: HashMap<&str, &str> = ledgers
        .iter()
        .flat_map(|ledger| &ledger.accepted)
        .map(|(id, text)| (id.as_str(), text.as_str()))
        .collect();
    assert!(
        accepted.len() >= KILLS,
        "only {} messages were accepted: no load",
        accepted.len()
    );
    let deliveries = sink.wait("an answer to each accepted message", SOON, |all| {
        let answered: HashSet<_> = all.iter().map(Delivery::in_reply_to).collect();
        accepted.keys().all(|id| answered.contains(id))
    });
    let (status, log) = daemon.stop();
    assert!(status.success(), "{status}\n{log}");
    delivered(&deliveries, &accepted, &names);
    stored(&site.database(), &ledgers, &names);
}

/// What came at the sink: each message answered under one id, in order; doubles are the same delivery again.
fn delivered(deliveries: &[Delivery], accepted: &HashMap<&str, &str>, names: &[String]) {
    let mut ids: HashMap<&str, &str> = HashMap::new();
    let mut doubles = 0;
    for delivery in deliveries {
        let id = delivery.field("message_id");
        assert!(
            !id.is_empty() && delivery.key.is_some(),
            "a delivery without id or key: {delivery:?}"
        );
        match ids.insert(delivery.in_reply_to(), id) {
            Some(before) => {
                assert_eq!(
                    before,
                    id,
                    "two different answers to {}",
                    delivery.in_reply_to()
                );
                doubles += 1;
            }
            None => {
                if let Some(text) = accepted.get(delivery.in_reply_to()) {
                    let set_aside = delivery.text() != echo(text);
                    assert!(!delivery.text().is_empty(), "an empty answer: {delivery:?}");
                    if set_aside {
                        println!("not the brain's answer to {text:?}: {:?}", delivery.text());
                    }
                }
            }
        }
    }
    println!(
        "{} answers delivered, {doubles} of them again because the confirmation was lost",
        ids.len()
    );
    for name in names {
        let mut seen = HashSet::new();
        let order: Vec<usize> = deliveries
            .iter()
            .filter(|one| one.field("conversation_id") == name && seen.insert(one.in_reply_to()))
            .filter_map(|one| accepted.get(one.in_reply_to()).map(|text| number(text)))
            .collect();
        assert!(
            order.is_sorted(),
            "answers of {name} came out of order: {order:?}"
        );
    }
}

fn number(text: &str) -> usize {
    text.rsplit(' ')
        .next()
        .and_then(|last| last.parse().ok())
        .unwrap_or_else(|| panic!("no number in {text:?}"))
}

/// One inbox row with all that hangs on it.
#[derive(Debug)]
struct Row {
    text: String,
    state: String,
    attempts: i64,
    answers: i64,
    answer: Option<(i64, String)>,
}

/// What lies in the database: each message with exactly one answer, in order, and nothing open.
fn stored(database: &Path, ledgers: &[Ledger], names: &[String]) {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("open the database");
    let check: String = db
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("integrity check");
    assert_eq!(check, "ok");
    let rows = rows(&db);
    let mut by_name: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &rows {
        let name = row.text.split(' ').next().unwrap_or("");
        by_name.entry(name).or_default().push(row);
    }
    for (name, ledger) in names.iter().zip(ledgers) {
        let rows = by_name.remove(name.as_str()).unwrap_or_default();
        let numbers: Vec<usize> = rows.iter().map(|row| number(&row.text)).collect();
        assert!(
            numbers.windows(2).all(|pair| pair[0] < pair[1]),
            "{name} was stored out of order or twice: {numbers:?}"
        );
        let texts: HashSet<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        for (id, text) in &ledger.accepted {
            assert!(
                texts.contains(text.as_str()),
                "{id} {text:?} was acknowledged and is not stored"
            );
        }
        let known: HashSet<&str> = ledger
            .accepted
            .iter()
            .map(|(_, text)| text.as_str())
            .collect();
        for row in &rows {
            assert!(
                known.contains(row.text.as_str()) || ledger.unsure.contains(&row.text),
                "nobody said {row:?}"
            );
            assert_eq!(row.answers, 1, "not exactly one stored answer: {row:?}");
            let (_, words) = row.answer.as_ref().expect("an answer");
            if row.state == "set_aside" {
                println!(
                    "set aside after {} attempts: {:?}: {words:?}",
                    row.attempts, row.text
                );
            } else {
                assert_eq!(
                    (row.state.as_str(), words.as_str()),
                    ("answered", echo(&row.text).as_str()),
                    "{row:?}"
                );
            }
        }
        let answers: Vec<i64> = rows
            .iter()
            .filter_map(|row| row.answer.as_ref().map(|(turn, _)| *turn))
            .collect();
        assert!(
            answers.is_sorted(),
            "answers of {name} were stored out of order: {answers:?}"
        );
    }
    assert!(by_name.is_empty(), "rows of nobody: {by_name:?}");
    println!("{} messages stored, each with one answer", rows.len());
}

/// Inbox rows in the order they were accepted. The numbers of the states are those of the schema's
/// first migration.
fn rows(db: &Connection) -> Vec<Row> {
    let mut query = db
        .prepare(
            "SELECT u.text, i.state, i.attempts, (SELECT count(*) FROM outbox o WHERE o.inbox = i.id),
                    (SELECT o.turn FROM outbox o WHERE o.inbox = i.id), (SELECT t.text FROM outbox o JOIN turns t ON t.id = o.turn WHERE o.inbox = i.id)
             FROM inbox i JOIN turns u ON u.id = i.turn ORDER BY i.id",
        )
        .expect("read the inbox");
    let rows = query
        .query_map([], |row| {
            let state: i64 = row.get(1)?;
            let answer: Option<i64> = row.get(4)?;
            let words: Option<String> = row.get(5)?;
            Ok(Row {
                text: row.get(0)?,
                state: [
                    "queued",
                    "working",
                    "answered",
                    "excused",
                    "operator",
                    "cancelled",
                    "set_aside",
                ][state as usize]
                    .to_owned(),
                attempts: row.get(2)?,
                answers: row.get(3)?,
                answer: answer.zip(words),
            })
        })
        .expect("read the inbox");
    rows.map(|row| row.expect("a row of the inbox")).collect()
}

#[test]
fn ten_plain_restarts_set_no_slow_message_aside() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        door.wait();
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let mut daemon = site.start();
    let id = daemon
        .poster()
        .say("patient", "a hard question", None)
        .expect("accepted")
        .id;
    for restart in 0..10 {
        // Each life has asked the model and is stopped in the middle of the answer.
        model.wait_for_asks(restart + 1, SOON);
        daemon.signal(Signal::TERM);
        // Three wait out the ten seconds that a stop leaves to runs; the others are hurried by a second signal.
        let hurried = restart >= 3;
        if hurried {
            thread::sleep(Duration::from_millis(200));
            daemon.signal(Signal::TERM);
        }
        let status = daemon.wait(Duration::from_secs(30));
        assert_eq!(
            status.code(),
            Some(i32::from(hurried)),
            "restart {restart}:\n{}",
            daemon.log()
        );
        assert!(
            sink.deliveries().is_empty(),
            "restart {restart}: {:?}",
            sink.deliveries()
        );
        daemon = site.start();
    }
    model.wait_for_asks(11, SOON);
    gate.open();
    let answer = sink.reply_to(&id, SOON);
    assert_eq!(answer.text(), echo("a hard question"));
    daemon.wait_for_message(&id, "delivery", "sent", SOON);
    assert_eq!(daemon.message(&id)["state"], "answered");
    daemon.stop();
    let db = Connection::open_with_flags(site.database(), OpenFlags::SQLITE_OPEN_READ_ONLY)
        .expect("open the database");
    let rows = rows(&db);
    assert_eq!((rows.len(), rows[0].answers), (1, 1), "{rows:?}");
}

#[test]
fn a_stop_waits_for_the_run_in_work_and_its_delivery_and_no_longer() {
    let gate = Gate::default();
    let door = gate.clone();
    let model = Model::start(move |ask| {
        door.wait();
        Play::Say(echo(&ask.text))
    });
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let mut daemon = site.start();
    let id = daemon
        .poster()
        .say("last", "one more", None)
        .expect("accepted")
        .id;
    model.wait_for_asks(1, SOON);
    daemon.signal(Signal::TERM);
    thread::sleep(Duration::from_millis(300));
    let opened = Instant::now();
    gate.open();
    assert_eq!(sink.reply_to(&id, SOON).text(), echo("one more"));
    assert_eq!(daemon.wait(SOON).code(), Some(0), "{}", daemon.log());
    // The bounds of a stop are 10 s for runs and 5 s for deliveries; neither is waited out.
    assert!(
        opened.elapsed() < Duration::from_secs(4),
        "{:?}",
        opened.elapsed()
    );
}

#[test]
fn the_sync_comes_before_the_200() {
    let traceable = Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status();
    if !traceable.is_ok_and(|status| status.success()) {
        return rig::missing("strace", "it is not installed or may not trace");
    }
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let trace = site.path().join("trace");
    let calls = "trace=read,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync";
    // As a grandchild (-D), so that the daemon itself is the child that the test kills.
    let mut daemon = site.spawn(&[
        "strace",
        "-D",
        "-f",
        "-y",
        "-s",
        "400",
        "-e",
        calls,
        "-o",
        trace.to_str().expect("path"),
    ]);
    daemon.wait_until_ready();
    let accepted = daemon
        .poster()
        .say("traced", "is it safe?", None)
        .expect("accepted");
    sink.reply_to(&accepted.id, SOON);
    let (status, _) = daemon.stop();
    assert!(status.success(), "{status}");
    // The tracer writes its last lines when the daemon has gone.
    let deadline = Instant::now() + SOON;
    let text = loop {
        let text = String::from_utf8_lossy(&fs::read(&trace).expect("read the trace")).into_owned();
        if text.contains("+++ exited with 0 +++") || Instant::now() > deadline {
            break text;
        }
        thread::sleep(Duration::from_millis(10));
    };
    let lines: Vec<&str> = text.lines().collect();
    let position = |what: &str, wanted: &dyn Fn(&str) -> bool| {
        lines
            .iter()
            .position(|line| wanted(line))
            .unwrap_or_else(|| panic!("no {what} in the trace:\n{text}"))
    };
    let received = position("POST", &|line| line.contains("POST /webhook"));
    let acknowledged = position("200", &|line| {
        line.contains("HTTP/1.1 200")
            && !line.contains("POST /webhook")
            && is_write(line)
            && after_head(line, &accepted.id, &lines)
    });
    assert!(received < acknowledged, "the 200 before the POST:\n{text}");
    let syncs = synced(&lines[received..acknowledged]);
    assert!(
        syncs > 0,
        "no sync of the log between the POST and its 200:\n{}",
        lines[received..=acknowledged].join("\n")
    );
}

fn is_write(line: &str) -> bool {
    ["write(", "writev(", "sendto(", "sendmsg("]
        .iter()
        .any(|call| line.contains(call))
}

/// Whether the line, or a later write of the same thread, carries the id: head and body may be two writes.
fn after_head(line: &str, id: &str, lines: &[&str]) -> bool {
    if line.contains(id) {
        return true;
    }
    let thread = line.split(' ').next().unwrap_or("");
    let from = lines.iter().position(|one| *one == line).unwrap_or(0);
    lines[from + 1..]
        .iter()
        .filter(|one| one.starts_with(thread) && is_write(one))
        .take(1)
        .any(|one| one.contains(id))
}

/// Syncs of the write-ahead log that ended within these lines, whether on one line or resumed.
fn synced(lines: &[&str]) -> usize {
    let mut begun: HashSet<&str> = HashSet::new();
    let mut ended = 0;
    for line in lines {
        let thread = line.split(' ').next().unwrap_or("");
        if line.contains("sync(") && line.contains("-wal>") {
            if line.contains("<unfinished") {
                begun.insert(thread);
            } else if line.ends_with("= 0") {
                ended += 1;
            }
        } else if line.contains("sync resumed>") && line.ends_with("= 0") && begun.remove(thread) {
            ended += 1;
        }
    }
    ended
}

#[test]
fn without_storage_the_same_way_leaves_nothing_on_disk() {
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site(&model.url(), &sink.url());
    site.config
        .as_object_mut()
        .expect("object")
        .remove("storage");
    let daemon = site.start();
    let mut poster = daemon.poster();
    let first = poster
        .say("volatile", "first", Some("k1"))
        .expect("accepted")
        .id;
    assert_eq!(
        poster
            .say("volatile", "first", Some("k1"))
            .expect("accepted")
            .id,
        first,
        "a repeated key"
    );
    let second = poster.say("volatile", "second", None).expect("accepted").id;
    assert_eq!(sink.reply_to(&first, SOON).text(), echo("first"));
    assert_eq!(sink.reply_to(&second, SOON).text(), echo("second"));
    assert_eq!(model.asked("first"), 1);
    // Stateless: the model is told nothing of what was said before.
    let told = model
        .asks()
        .into_iter()
        .find(|ask| ask.text == "second")
        .expect("asked")
        .messages
        .to_string();
    assert!(!told.contains("first"), "history without storage: {told}");
    files(&daemon, site.path());
    let (status, log) = daemon.stop();
    assert!(status.success(), "{status}\n{log}");
    let left: Vec<_> = fs::read_dir(site.path())
        .expect("folder")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["korvun.json"], "left on disk");
}

/// No regular file below the folder is held open for writing.
fn files(daemon: &Daemon, folder: &Path) {
    for entry in fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .expect("descriptors")
        .flatten()
    {
        if let Ok(target) = fs::read_link(entry.path()) {
            let socket = fs::metadata(entry.path()).is_ok_and(|about| !about.is_file());
            assert!(
                socket || !target.starts_with(folder),
                "holds {} open",
                target.display()
            );
        }
    }
}
