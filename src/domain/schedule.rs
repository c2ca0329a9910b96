//! Which outbox row goes next: in order within a conversation, by due time between them. Pure,
//! guarded by a delivery part's lock. Must never let one conversation hold up another.
//!
//! It holds a bounded number of rows. Once one did not fit, rows come from the store only, through
//! [`Schedule::load`], so that none overtakes an older one that had no room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use crate::base::clock::UnixMs;

/// An outbox row's number; grows.
pub type Row = i64;

/// The rows to be delivered of one channel. `K` is a conversation.
#[derive(Debug)]
pub struct Schedule<K> {
    lines: HashMap<K, Line>,
    owners: HashMap<Row, K>,
    /// The first row of each line that has none in flight, by the moment it may go.
    heads: BTreeSet<(UnixMs, Row)>,
    in_flight: usize,
    held_until: Option<UnixMs>,
    behind: bool,
    /// What happens while the store is being read; none while it is not.
    reading: Option<Reading>,
    /// Confirmed parts of rows that are not over yet.
    parts: HashMap<Row, u32>,
    capacity: usize,
}

/// What whoever reads the store may have been too early for.
#[derive(Debug, Default)]
struct Reading {
    /// Rows that have ended since.
    ended: BTreeSet<Row>,
    /// Whether one had no room since.
    left: bool,
}

/// What waits in one conversation, oldest first.
#[derive(Debug, Default)]
struct Line {
    rows: BTreeMap<Row, UnixMs>,
    in_flight: Option<Row>,
    held_until: Option<UnixMs>,
}

impl Line {
    fn head(&self) -> Option<(UnixMs, Row)> {
        if self.in_flight.is_some() {
            return None;
        }
        let (row, due) = self.rows.first_key_value()?;
        Some((self.held_until.map_or(*due, |held| held.max(*due)), *row))
    }
}

/// What became of a pushed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is scheduled (or was already).
    Kept,
    /// There is no room, or older rows wait in the store: it stays there until [`Schedule::load`].
    LeftInStore,
}

/// Whether the store has more rows than those handed to [`Schedule::load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// These were all.
    None,
    /// There are more.
    More,
}

impl<K: Clone + Eq + Hash> Schedule<K> {
    /// An empty one for at most `capacity` rows.
    #[must_use]
    pub fn new(capacity: usize) -> Schedule<K> {
        Schedule {
            lines: HashMap::new(),
            owners: HashMap::new(),
            heads: BTreeSet::new(),
            in_flight: 0,
            held_until: None,
            behind: false,
            reading: None,
            parts: HashMap::new(),
            capacity,
        }
    }

    /// Adds a row that has just been stored. Within its conversation it goes after all lower ones.
    pub fn push(&mut self, row: Row, conversation: &K, due: UnixMs) -> Pushed {
        if self.owners.contains_key(&row) {
            return Pushed::Kept;
        }
        if self.behind || self.room() == 0 {
            self.behind = true;
            if let Some(reading) = &mut self.reading {
                reading.left = true;
            }
            return Pushed::LeftInStore;
        }
        self.insert(row, conversation, due);
        Pushed::Kept
    }

    /// The store's undelivered rows are about to be read, for [`Schedule::load`] or
    /// [`Schedule::unread`]; says whether they may be: one reading at a time.
    #[must_use]
    pub fn read(&mut self) -> bool {
        if self.reading.is_some() {
            return false;
        }
        self.reading = Some(Reading::default());
        true
    }

    /// The store could not be read.
    pub fn unread(&mut self) {
        self.reading = None;
    }

    /// Adds the store's undelivered rows, lowest first, as far as there is room; those known
    /// already are passed over, and those that ended since [`Schedule::read`]: whoever read them
    /// may have been before their mark. `rest` says whether the store has more than these.
    pub fn load(&mut self, rows: impl IntoIterator<Item = (Row, K, UnixMs)>, rest: Rest) {
        let Reading { ended, left } = self.reading.take().unwrap_or_default();
        let mut all = true;
        for (row, conversation, due) in rows {
            if self.owners.contains_key(&row) || ended.contains(&row) {
                continue;
            }
            if self.room() == 0 {
                all = false;
                break;
            }
            self.insert(row, &conversation, due);
        }
        self.behind = left || !(all && rest == Rest::None);
    }

    /// Whether rows wait in the store for room here.
    #[must_use]
    pub fn behind(&self) -> bool {
        self.behind
    }

    /// Whether the store is to be read now: rows wait there, and there is room for many. Not for
    /// each row that goes: one reading brings in half a schedule.
    #[must_use]
    pub fn wants_reading(&self) -> bool {
        self.behind && self.reading.is_none() && self.room() >= self.capacity / 2
    }

    /// How many more rows fit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.owners.len())
    }

    /// How many rows are scheduled, those in flight included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether none is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// How many rows are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The next row that is due at `now`: the longest due one among conversations that are neither
    /// held nor in flight. It is in flight from now on, until [`Schedule::done`] or
    /// [`Schedule::retry`].
    pub fn next(&mut self, now: UnixMs) -> Option<Row> {
        if self.held_until.is_some_and(|until| now < until) {
            return None;
        }
        self.held_until = None;
        let &(due, row) = self.heads.first()?;
        if due > now {
            return None;
        }
        self.change(row, |line| line.in_flight = Some(row));
        self.in_flight += 1;
        Some(row)
    }

    /// The next moment at which [`Schedule::next`] has a row; `None` while nothing waits but what
    /// is in flight or behind it.
    #[must_use]
    pub fn next_due(&self) -> Option<UnixMs> {
        let (due, _) = self.heads.first()?;
        Some(self.held_until.map_or(*due, |held| held.max(*due)))
    }

    /// The row in flight is delivered or given up: it goes, and the next of its conversation may
    /// follow. A row that is not in flight stays.
    pub fn done(&mut self, row: Row) {
        self.parts.remove(&row);
        if let Some(reading) = &mut self.reading {
            reading.ended.insert(row);
        }
        if self.land(row) {
            self.take_out(row);
        }
    }

    /// Takes out a row that is not to be delivered any more, and says whether it did. One in
    /// flight stays until its sender says [`Schedule::done`].
    pub fn remove(&mut self, row: Row) -> bool {
        let flies = |line: &Line| line.in_flight == Some(row);
        let waits = self
            .owners
            .get(&row)
            .and_then(|conversation| self.lines.get(conversation))
            .is_some_and(|line| !flies(line));
        if waits {
            self.take_out(row);
        }
        waits
    }

    /// The row in flight has failed and is tried again at `at`, still before all later ones of its
    /// conversation.
    pub fn retry(&mut self, row: Row, at: UnixMs) {
        if self.land(row) {
            self.change(row, |line| {
                line.rows.insert(row, at);
            });
        }
    }

    /// The first `parts` parts of a row in flight are confirmed: another try begins behind them,
    /// whatever the store knows of it by then.
    pub fn confirmed(&mut self, row: Row, parts: u32) {
        self.parts.insert(row, parts);
    }

    /// How many parts of a row are confirmed.
    #[must_use]
    pub fn parts(&self, row: Row) -> u32 {
        self.parts.get(&row).copied().unwrap_or(0)
    }

    /// Nothing of this conversation goes before `until` (its flood limit). Forgotten once the
    /// conversation has no row left.
    pub fn hold(&mut self, conversation: &K, until: UnixMs) {
        let line = self.lines.get(conversation);
        if let Some((&row, _)) = line.and_then(|line| line.rows.first_key_value()) {
            self.change(row, |line| {
                line.held_until = line.held_until.max(Some(until))
            });
        }
    }

    /// Nothing at all goes before `until` (a flood limit of the whole channel).
    pub fn hold_all(&mut self, until: UnixMs) {
        self.held_until = self.held_until.max(Some(until));
    }

    fn insert(&mut self, row: Row, conversation: &K, due: UnixMs) {
        self.owners.insert(row, conversation.clone());
        self.change(row, |line| {
            line.rows.insert(row, due);
        });
    }

    /// Ends the flight of a row and says whether it was in flight.
    fn land(&mut self, row: Row) -> bool {
        let mut landed = false;
        self.change(row, |line| {
            landed = line.in_flight == Some(row);
            if landed {
                line.in_flight = None;
            }
        });
        self.in_flight -= usize::from(landed);
        landed
    }

    fn take_out(&mut self, row: Row) {
        self.change(row, |line| {
            line.rows.remove(&row);
        });
        if let Some(conversation) = self.owners.remove(&row) {
            let line = self.lines.get(&conversation);
            if line.is_some_and(|line| line.rows.is_empty()) {
                self.lines.remove(&conversation);
            }
        }
    }

    /// Changes the line of a known row and keeps the index of heads true.
    fn change(&mut self, row: Row, change: impl FnOnce(&mut Line)) {
        let Some(conversation) = self.owners.get(&row) else {
            return;
        };
        let line = self.lines.entry(conversation.clone()).or_default();
        if let Some(head) = line.head() {
            self.heads.remove(&head);
        }
        change(line);
        if let Some(head) = line.head() {
            self.heads.insert(head);
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
