//! Sessions that end by themselves: after silence, and when the local day begins.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{json, Value};

use super::{ask, last, site_with};
use crate::support::daemon::Site;
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;

/// Makes everything that is stored so many minutes older.
fn age(site: &Site, minutes: i64) {
    let connection = rusqlite::Connection::open(site.database()).expect("opened");
    connection
        .execute("UPDATE turns SET at_ms = at_ms - ?1", [minutes * 60_000])
        .expect("aged");
}

/// Says `one`, lets so many minutes pass, says `two`; whether the model was shown `one` with it,
/// and what the log said.
fn remembers(session: Value, zone: &str, minutes: i64) -> (bool, String) {
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site_with(&model, &sink, session);
    site.env.push(("TZ".to_owned(), zone.into()));
    let daemon = site.start();
    ask(&mut daemon.poster(), &sink, "one");
    daemon.stop();
    age(&site, minutes);
    let daemon = site.start();
    let mut poster = daemon.poster();
    ask(&mut poster, &sink, "two");
    let all = last(&model);
    // A session that has begun stays.
    ask(&mut poster, &sink, "three");
    let mut more = all.clone();
    more.extend([echo("two"), "three".to_owned()]);
    assert_eq!(last(&model), more);
    (all != ["two"], daemon.stop().1)
}

#[test]
fn silence_ends_a_session() {
    assert!(remembers(json!({"idle_min": 10}), "UTC", 9).0);
    assert!(!remembers(json!({"idle_min": 10}), "UTC", 11).0);
}

#[test]
fn a_session_ends_when_the_local_day_begins() {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    // An hour ago by the clocks of Tokyo, which is ten hours ago by those of London in winter.
    let minutes = (seconds / 60 + 9 * 60 - 60) % (24 * 60);
    let daily = json!({"daily_at": format!("{:02}:{:02}", minutes / 60, minutes % 60)});
    assert!(!remembers(daily.clone(), "Asia/Tokyo", 120).0);
    assert!(remembers(daily.clone(), "Asia/Tokyo", 30).0);
    let (kept, log) = remembers(daily.clone(), "UTC", 120);
    assert!(kept && !log.contains("time zone"), "{log}");
    // A zone that nobody knows: UTC, and a warning.
    let (kept, log) = remembers(daily, "Nowhere/Land", 120);
    assert!(
        kept && log.contains("local time zone is not known"),
        "{log}"
    );
}
