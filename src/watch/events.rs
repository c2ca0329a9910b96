//! The last events, numbered, for whoever follows along. Metadata only.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use crate::base::clock::UnixMs;
use crate::base::sync::lock;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number; grows, over restarts too.
    pub id: u64,
    /// What happened.
    pub name: &'static str,
    /// `type`, `at` and what else applies.
    pub data: Map<String, Value>,
}

impl Event {
    /// An event of that name at that moment; its number is given when it is pushed.
    #[must_use]
    pub fn new(name: &'static str, at: UnixMs) -> Event {
        let mut data = Map::new();
        data.insert("type".into(), name.into());
        data.insert("at".into(), at.rfc3339().into());
        Event { id: 0, name, data }
    }

    /// Adds a word, where there is one.
    #[must_use]
    pub fn text(mut self, key: &str, value: &str) -> Event {
        if !value.is_empty() {
            self.data.insert(key.into(), value.into());
        }
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, key: &str, value: u64) -> Event {
        self.data.insert(key.into(), value.into());
        self
    }
}

#[derive(Debug)]
struct Ring {
    kept: VecDeque<Event>,
    most: usize,
    next: u64,
}

/// The ring of events. Clones share it.
#[derive(Clone, Debug)]
pub struct Events(Arc<(Mutex<Ring>, Condvar)>);

impl Events {
    /// An empty ring for `most` events. Numbers begin with the time of the start, so that they
    /// grow over restarts as long as fewer than a thousand events happen in a millisecond.
    #[must_use]
    pub fn new(start: UnixMs, most: usize) -> Events {
        let next = u64::try_from(start.0).unwrap_or(0).saturating_mul(1000);
        Events(Arc::new((
            Mutex::new(Ring {
                kept: VecDeque::new(),
                most,
                next,
            }),
            Condvar::new(),
        )))
    }

    /// Numbers and keeps an event, letting the oldest go, and wakes those who follow.
    pub fn push(&self, mut event: Event) {
        let mut ring = lock(&self.0 .0);
        event.id = ring.next;
        ring.next += 1;
        if ring.kept.len() == ring.most {
            ring.kept.pop_front();
        }
        ring.kept.push_back(event);
        self.0 .1.notify_all();
    }

    /// The number of the newest event so far, to follow from here on.
    #[must_use]
    pub fn newest(&self) -> u64 {
        lock(&self.0 .0).next.saturating_sub(1)
    }

    /// Waits until there are events after number `after`, up to `span`, and returns those that
    /// are still held.
    ///
    /// Blocks: for `span` at most.
    #[must_use]
    pub fn after(&self, after: u64, span: Duration) -> Vec<Event> {
        let until = Instant::now() + span;
        let mut ring = lock(&self.0 .0);
        loop {
            let fresh: Vec<Event> = ring
                .kept
                .iter()
                .filter(|event| event.id > after)
                .cloned()
                .collect();
            let left = until.saturating_duration_since(Instant::now());
            if !fresh.is_empty() || left.is_zero() {
                return fresh;
            }
            ring = self
                .0
                 .1
                .wait_timeout(ring, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_newest_and_numbers_grow_over_restarts() {
        let events = Events::new(UnixMs(5), 2);
        let start = events.newest();
        for name in ["message_received", "run_finished", "reply_sent"] {
            events.push(Event::new(name, UnixMs(6)));
        }
        let held = events.after(start, Duration::ZERO);
        assert_eq!(
            held.iter().map(|event| event.name).collect::<Vec<_>>(),
            ["run_finished", "reply_sent"]
        );
        assert!(events.after(held[1].id, Duration::ZERO).is_empty());
        assert!(Events::new(UnixMs(6), 2).newest() > held[1].id);
    }
}
