//! What must be true when a seed is over, whatever it did.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::run::Stage;
use super::schedule::{answer, units, Channel, Say, MARK};
use crate::support::daemon::{Daemon, ADMIN_TOKEN, OUTBOUND_TOKEN, WEBHOOK_TOKEN};
use crate::support::{discord, telegram};

/// A confirmation that is so old when its process is killed has long been written down.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);

/// One accepted message and one answer to it.
#[derive(Clone, Debug)]
pub struct Row {
    inbox: i64,
    channel: String,
    conversation: String,
    text: String,
    state: i64,
    /// State, failed tries and words of the answer.
    answer: Option<(i64, i64, String)>,
}

/// All of them, in the order in which they were accepted. The numbers of states are those of the
/// schema's first migration.
#[derive(Debug)]
pub struct Rows(Vec<Row>);

const ANSWERED: i64 = 2;
const EXCUSED: i64 = 3;
const SENT: i64 = 1;

impl Rows {
    pub fn read(database: &Path) -> rusqlite::Result<Rows> {
        let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut query = db.prepare(
            "SELECT i.id, i.channel, i.conversation, u.text, i.state, o.state, o.attempts, t.text
             FROM inbox i JOIN turns u ON u.id = i.turn
             LEFT JOIN outbox o ON o.inbox = i.id LEFT JOIN turns t ON t.id = o.turn ORDER BY i.id, o.id",
        )?;
        let rows = query.query_map([], |row| {
            let state: Option<i64> = row.get(5)?;
            let answer = match state {
                Some(state) => Some((state, row.get(6)?, row.get(7)?)),
                None => None,
            };
            Ok(Row {
                inbox: row.get(0)?,
                channel: row.get(1)?,
                conversation: row.get(2)?,
                text: row.get(3)?,
                state: row.get(4)?,
                answer,
            })
        })?;
        Ok(Rows(rows.collect::<rusqlite::Result<_>>()?))
    }

    pub fn with_text<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.text == text)
    }

    /// What is not over yet.
    pub fn open(&self) -> Option<String> {
        let open = |row: &&Row| {
            row.state < ANSWERED || row.answer.as_ref().is_none_or(|(state, ..)| *state == 0)
        };
        self.0.iter().find(open).map(|row| format!("{row:?}"))
    }

    fn of(&self, channel: Channel) -> impl Iterator<Item = &Row> {
        self.0
            .iter()
            .filter(move |row| row.channel == channel.name())
    }
}

/// Both chat platforms and the webhook are connected again, and nothing is wrong.
pub fn connected(daemon: &Daemon) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let ready = daemon.admin("GET", "/readyz", None);
        let parts = ready.json();
        let all = Channel::ALL.iter().all(|channel| {
            parts["components"][format!("channel:{}", channel.name())]["state"] == "connected"
        });
        if ready.status == 200 && all {
            return;
        }
        assert!(Instant::now() < until, "{parts}\n{}", daemon.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// No secret, no text of a message and no panic is in the log.
pub fn quiet(log: &str) {
    let secrets = [
        telegram::TOKEN,
        discord::TOKEN,
        WEBHOOK_TOKEN,
        OUTBOUND_TOKEN,
        ADMIN_TOKEN,
    ];
    for word in secrets
        .into_iter()
        .chain([MARK, "you said", "palabra", "panicked"])
    {
        let line = log.lines().find(|line| line.contains(word));
        assert!(line.is_none(), "{word:?} is in the log: {line:?}");
    }
}

/// Everything that was offered was accepted once, in order, and has one stored answer.
pub fn stored(stage: &Stage, rows: &Rows, log: &str) {
    for say in &stage.schedule.says {
        let found = rows.with_text(&say.text).count();
        assert!(
            found <= 1,
            "{say:?} was accepted, or answered, {found} times"
        );
        assert!(found == 1 || !due(stage, say), "{say:?} was lost");
    }
    let (said, stumbled) = (
        &stage.schedule.says,
        stage.stumbled.lock().expect("stumbled"),
    );
    let mut unexplained = Vec::new();
    for row in &rows.0 {
        assert!(
            said.iter().any(|say| say.text == row.text),
            "nobody said {row:?}"
        );
        let (sent, _, words) = row.answer.as_ref().expect("a stored answer");
        assert_eq!(*sent, SENT, "{row:?}");
        match row.state {
            ANSWERED => assert_eq!(*words, answer(&row.text), "{row:?}"),
            EXCUSED if stumbled.contains(&row.text) => {}
            EXCUSED => unexplained.push(row),
            _ => panic!("neither answered nor excused: {row:?}"),
        }
    }
    // On a machine that stood still an honest model was too late, and the log says so.
    let late = log.matches("kind=\"timeout\"").count();
    let late = late.saturating_sub(stumbled.len());
    assert!(
        unexplained.len() <= late,
        "excused for nothing: {unexplained:#?}"
    );
    for (conversation, said) in by_conversation(said.iter().map(|say| {
        (
            say.channel.name(),
            say.conversation.as_str(),
            say.text.as_str(),
        )
    })) {
        let stored = by_conversation(rows.0.iter().map(|row| {
            (
                row.channel.as_str(),
                row.conversation.as_str(),
                row.text.as_str(),
            )
        }));
        let stored = stored.get(&conversation).cloned().unwrap_or_default();
        let expected: Vec<&str> = said
            .into_iter()
            .filter(|text| stored.contains(text))
            .collect();
        assert_eq!(stored, expected, "the order of {conversation:?}");
    }
}

fn by_conversation<'a>(
    all: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> BTreeMap<(&'a str, &'a str), Vec<&'a str>> {
    let mut sorted: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (channel, conversation, text) in all {
        sorted
            .entry((channel, conversation))
            .or_default()
            .push(text);
    }
    sorted
}

/// Whether it must have been accepted. Discord keeps what it says for a session only: what a session
/// took with it before the client had told that it is taken may be gone.
fn due(stage: &Stage, say: &Say) -> bool {
    if say.channel != Channel::Discord {
        return true;
    }
    let world = stage.discord.world();
    let mut sessions = world.sessions.iter();
    sessions.any(|(id, known)| {
        let at = known
            .events
            .iter()
            .find(|(_, event)| event.contains(&say.text));
        at.is_some_and(|(seq, _)| *seq <= known.taken || world.live.as_ref() == Some(id))
    })
}

/// One thing as people saw it.
#[derive(Clone, Debug)]
struct Show {
    at: Instant,
    conversation: String,
    text: String,
    /// Whether its confirmation was lost.
    lost: bool,
}

fn shows(stage: &Stage, channel: Channel) -> Vec<Show> {
    match channel {
        Channel::Telegram => stage
            .telegram
            .sent()
            .into_iter()
            .map(|sent| Show {
                at: sent.at,
                conversation: sent.chat.to_string(),
                text: sent.text,
                lost: sent.lost,
            })
            .collect(),
        Channel::Discord => stage
            .discord
            .sent()
            .into_iter()
            .map(|sent| Show {
                at: sent.at,
                conversation: sent.channel,
                text: sent.text,
                lost: false,
            })
            .collect(),
        Channel::Webhook => {
            let taken = |status| [0, 200].contains(&status);
            let all = stage
                .sink
                .deliveries()
                .into_iter()
                .filter(|one| taken(one.status));
            all.map(|one| Show {
                at: one.first_byte,
                conversation: one.field("conversation_id").to_owned(),
                text: one.text().to_owned(),
                lost: one.status == 0,
            })
            .collect()
        }
    }
}

/// Each answer was shown, in order, and again only where its confirmation was lost or its process
/// died with it. How many are due, and how many of them were shown again.
pub fn shown(stage: &Stage, rows: &Rows) -> (usize, usize) {
    let (mut due, mut seen) = (0, 0);
    for channel in Channel::ALL {
        let shows = shows(stage, channel);
        let mut expected: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for row in rows.of(channel) {
            let (_, _, words) = row.answer.as_ref().expect("a stored answer");
            let parts = match row.state {
                ANSWERED => units(&row.text).collect(),
                _ => vec![words.clone()],
            };
            for part in parts {
                *expected.entry((&row.conversation, part)).or_default() += 1;
            }
        }
        for ((conversation, part), count) in &expected {
            let own: Vec<&Show> = shows
                .iter()
                .filter(|show| {
                    show.conversation == *conversation && show.text.contains(part.as_str())
                })
                .collect();
            assert!(
                own.len() >= *count,
                "{part:?} is due {count} times in {channel:?} {conversation}, seen: {own:#?}"
            );
            let excused = own
                .windows(2)
                .filter(|pair| may_double(stage, pair[0], pair[1]))
                .count();
            assert!(own.len() <= count + excused, "{part:?} is due {count} times in {channel:?} {conversation}, seen: {own:#?}, ends {:?}", stage.lives.deaths());
        }
        for show in &shows {
            let known = expected.keys().any(|(conversation, part)| {
                show.conversation == *conversation && show.text.contains(part.as_str())
            });
            assert!(known, "nobody's answer: {show:?}");
        }
        in_order(channel, rows, &shows);
        due += expected.values().sum::<usize>();
        let parts = expected.keys().map(|(conversation, part)| {
            shows
                .iter()
                .filter(|show| {
                    show.conversation == *conversation && show.text.contains(part.as_str())
                })
                .count()
        });
        seen += parts.sum::<usize>();
    }
    (due, seen - due)
}

/// Whether the second may be there though the first is.
fn may_double(stage: &Stage, first: &Show, second: &Show) -> bool {
    let died = |death: &super::life::Death| {
        let age = death.struck.saturating_duration_since(first.at);
        first.at <= death.over && death.over <= second.at && age < WRITTEN_WITHIN
    };
    first.lost || stage.lives.deaths().iter().any(died)
}

fn in_order(channel: Channel, rows: &Rows, shows: &[Show]) {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.of(channel).filter(|row| row.state == ANSWERED) {
        for part in units(&row.text) {
            let at = shows.iter().position(|show| {
                show.conversation == row.conversation && show.text.contains(&part)
            });
            let at = at.expect("shown");
            let before = last.insert(&row.conversation, at);
            // Several paragraphs may stand in one message.
            assert!(
                before.is_none_or(|before| before <= at),
                "{part:?} came before its turn in {channel:?}: {shows:#?}"
            );
        }
    }
}

/// What Korvun says of itself agrees with what happened.
pub fn counted(stage: &Stage, rows: &Rows, channels: &Value, log: &str) {
    for channel in Channel::ALL {
        // The counters are those of the last life.
        let whole = stage.lives.deaths().is_empty();
        let all = channels.as_array().expect("a list");
        let counts = all
            .iter()
            .find(|one| one["type"] == channel.name())
            .expect("a channel")["counts"]
            .clone();
        let count = |name: &str| counts[name].as_u64().expect("a count") as usize;
        let due = rows.of(channel).count();
        assert_eq!(
            (count("failed"), count("queued"), count("dropped")),
            (0, 0, 0),
            "{channel:?}: {counts}"
        );
        if whole {
            assert_eq!(
                (count("received"), count("sent")),
                (due, due),
                "{channel:?}: {counts}"
            );
        }
        let lost = shows(stage, channel)
            .iter()
            .filter(|show| show.lost)
            .count();
        let tries = rows.of(channel).filter_map(|row| row.answer.as_ref());
        let tries: i64 = tries.map(|(_, tries, _)| tries).sum();
        // A request on a kept connection that turns out to be closed is made again at once, which
        // is no failed try; the finest log tells of it.
        let at_once = log
            .matches("an idle connection was closed by the server")
            .count();
        if whole && stage.schedule.finest {
            assert!(
                lost <= tries as usize + at_once,
                "{channel:?}: {lost} confirmations were lost, {tries} tries failed"
            );
        }
    }
    let mut ids: Vec<i64> = rows.0.iter().map(|row| row.inbox).collect();
    ids.dedup();
    assert_eq!(ids.len(), rows.0.len(), "one answer each");
}
