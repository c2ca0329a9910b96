//! What must be true after each step, judged from the store's tables and from what the platforms
//! have seen; it knows nothing of how Korvun decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use korvun::store::Store;

use super::plan::Platform;
use super::sending::{Parcel, Rank};

/// A row of the inbox as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    id: i64,
    channel: String,
    conversation: String,
    key: Option<String>,
    state: i64,
    attempts: i64,
    answer: Option<i64>,
    /// Outbox rows that answer it, and whether `answer` is one of them.
    answers: i64,
    own: bool,
}

/// A part of an answer as a platform has it.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    /// The process that sent it last.
    life: u64,
    /// Whether that process has been told.
    told: bool,
    lost: bool,
}

#[derive(Default)]
pub struct Oracle {
    open: BTreeMap<i64, Row>,
    last: i64,
    keys: HashMap<(String, String), i64>,
    /// Every conversation's parts in the order in which they came first.
    heard: BTreeMap<(Platform, String), (i64, u32)>,
    arrived: HashMap<(i64, u32), Arrived>,
    /// Attempts at each message that ended badly, and times that a model was asked.
    pub bad_ends: HashMap<i64, u32>,
    pub asked: HashMap<i64, u32>,
    pub forgiven: HashMap<i64, u32>,
    /// Rows of the outbox that a platform will never take.
    pub refused: BTreeSet<i64>,
    pub doubles: u64,
    pub finished: u64,
    pub set_aside: u64,
    /// Whether keys may be forgotten because the calendar was set by days.
    far_jumps: bool,
}

const ROWS: &str = "SELECT i.id, i.channel, i.conversation, i.dedup, i.state, i.attempts, i.answer,
        (SELECT count(*) FROM outbox o WHERE o.inbox = i.id),
        EXISTS (SELECT 1 FROM outbox o WHERE o.inbox = i.id AND o.id = i.answer)
     FROM inbox i WHERE i.id > ?1 OR i.id IN (SELECT value FROM json_each(?2)) ORDER BY i.id";

fn rows(store: &Store, after: i64, open: &[i64]) -> Vec<Row> {
    let open = format!("{open:?}");
    store
        .read(move |connection| {
            connection
                .prepare_cached(ROWS)?
                .query_map((after, open), |row| {
                    Ok(Row {
                        id: row.get(0)?,
                        channel: row.get(1)?,
                        conversation: row.get(2)?,
                        key: row.get(3)?,
                        state: row.get(4)?,
                        attempts: row.get(5)?,
                        answer: row.get(6)?,
                        answers: row.get(7)?,
                        own: row.get(8)?,
                    })
                })?
                .collect()
        })
        .expect("the store can be read")
}

/// The stored number of a message that was set aside.
const SET_ASIDE: i64 = 6;

impl Oracle {
    pub fn new(far_jumps: bool) -> Oracle {
        Oracle {
            far_jumps,
            ..Oracle::default()
        }
    }

    /// Looks at what a step has done to the inbox.
    pub fn look(&mut self, store: &Store) -> Result<(), String> {
        let known: Vec<i64> = self.open.keys().copied().collect();
        let now = rows(store, self.last, &known);
        let seen: BTreeSet<i64> = now.iter().map(|row| row.id).collect();
        if let Some(gone) = known.iter().find(|row| !seen.contains(row)) {
            return Err(format!("message {gone} was accepted and is gone"));
        }
        for row in now {
            if row.id > self.last {
                self.new_row(&row)?;
                self.last = row.id;
            }
            let was_open = self.open.contains_key(&row.id);
            match row.state {
                0 | 1 => {
                    if row.answers > 0 {
                        return Err(format!("an answer without an end: {row:?}"));
                    }
                    self.open.insert(row.id, row);
                }
                _ => self.ended(&row, was_open)?,
            }
        }
        self.order()
    }

    fn new_row(&mut self, row: &Row) -> Result<(), String> {
        let Some(key) = &row.key else {
            return Err(format!("a message without its key: {row:?}"));
        };
        let key = (row.channel.clone(), key.clone());
        match self.keys.insert(key, row.id) {
            Some(first) if !self.far_jumps => {
                Err(format!("accepted twice, as {first} and as {row:?}"))
            }
            _ => Ok(()),
        }
    }

    fn ended(&mut self, row: &Row, was_open: bool) -> Result<(), String> {
        if row.answers != 1 || !row.own {
            return Err(format!("ended without exactly one stored answer: {row:?}"));
        }
        let before = |other: &Row| {
            other.id < row.id
                && (&other.channel, &other.conversation) == (&row.channel, &row.conversation)
        };
        // The busy sentence ends a message with its acceptance.
        if was_open && self.open.values().any(before) {
            return Err(format!("answered before an earlier message: {row:?}"));
        }
        if row.state == SET_ASIDE {
            self.set_aside += 1;
            let bad = self.bad_ends.get(&row.id).copied().unwrap_or(0);
            if bad < 3 {
                return Err(format!(
                    "set aside after {bad} attempts that failed: {row:?}"
                ));
            }
        }
        self.finished += 1;
        self.open.remove(&row.id);
        Ok(())
    }

    /// One message in work for each conversation, and it is the first.
    fn order(&self) -> Result<(), String> {
        let mut waits: BTreeSet<(&str, &str)> = BTreeSet::new();
        for row in self.open.values() {
            let conversation = (row.channel.as_str(), row.conversation.as_str());
            let first = waits.insert(conversation);
            if row.state == 1 && !first {
                return Err(format!(
                    "in work before, or beside, an earlier message: {row:?}"
                ));
            }
        }
        Ok(())
    }

    /// Whether a message is in the store.
    pub fn accepted(&self, platform: Platform, key: &str) -> bool {
        self.keys
            .contains_key(&(platform.name().to_owned(), key.to_owned()))
    }

    /// Messages that have not ended.
    pub fn open(&self) -> Vec<i64> {
        self.open.keys().copied().collect()
    }

    /// The messages in work when a process ends.
    pub fn cut_off(&mut self) {
        for row in self.open.values().filter(|row| row.state == 1) {
            *self.bad_ends.entry(row.id).or_default() += 1;
        }
    }

    /// A model is asked about a message.
    pub fn asks(&mut self, row: i64, attempts_most: u32) -> Result<(), String> {
        let asked = self.asked.entry(row).or_default();
        *asked += 1;
        let allowed = attempts_most + self.forgiven.get(&row).copied().unwrap_or(0);
        match *asked > allowed {
            true => Err(format!(
                "message {row} is tried {asked} times, allowed are {allowed}"
            )),
            false => Ok(()),
        }
    }

    /// A platform takes a part of an answer. `durable` says whether it was known as sent before.
    pub fn hears(
        &mut self,
        platform: Platform,
        parcel: &Parcel,
        durable: bool,
    ) -> Result<(), String> {
        let Parcel {
            life, row, part, ..
        } = *parcel;
        let conversation = &parcel.conversation;
        let what = format!("part {part} of answer {row} in {conversation}");
        if let Some(before) = self.arrived.get_mut(&(row, part)) {
            // What a process that is gone had sent may still be on its way.
            let late = life < before.life;
            let excused =
                late || !durable && (before.life != life || (before.lost && !before.told));
            if !excused {
                return Err(format!(
                    "{what} is doubled though its confirmation was not lost"
                ));
            }
            if !late {
                before.life = life;
                (before.told, before.lost) = (false, false);
            }
            self.doubles += 1;
            return Ok(());
        }
        let first = Arrived {
            life,
            told: false,
            lost: false,
        };
        self.arrived.insert((row, part), first);
        if parcel.rank == Rank::AtOnce {
            return Ok(());
        }
        let conversation = (platform, conversation.id.to_string());
        let heard = self.heard.entry(conversation).or_default();
        if *heard >= (row, part) {
            return Err(format!(
                "{what} comes after part {} of answer {}",
                heard.1, heard.0
            ));
        }
        *heard = (row, part);
        Ok(())
    }

    /// What became of the confirmation of a part.
    pub fn confirmation(&mut self, row: i64, part: u32, came: bool) {
        if let Some(arrived) = self.arrived.get_mut(&(row, part)) {
            arrived.told |= came;
            arrived.lost |= !came;
        }
    }

    /// The books at the end: every answer has arrived, or the platform said that it never will.
    pub fn close(&self, store: &Store, parts: impl Fn(&str) -> u32) -> Result<(), String> {
        let outbox: Vec<(i64, i64, i64, String)> = store
            .read(|connection| {
                connection
                    .prepare(
                        "SELECT o.id, o.state, o.attempts, t.text
                         FROM outbox o JOIN turns t ON t.id = o.turn",
                    )?
                    .query_map([], |row| {
                        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                    })?
                    .collect()
            })
            .map_err(|error| error.to_string())?;
        for (row, state, attempts, text) in outbox {
            let given_up = state == 2;
            if given_up && !self.refused.contains(&row) && !self.far_jumps {
                return Err(format!("answer {row} was given up after {attempts} tries"));
            }
            for part in (1..=parts(&text)).filter(|_| !given_up) {
                if !self.arrived.contains_key(&(row, part)) {
                    return Err(format!(
                        "part {part} of answer {row} counts as sent and never came"
                    ));
                }
            }
        }
        Ok(())
    }
}
