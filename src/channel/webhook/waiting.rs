//! Callers that wait for their answer (`?wait=`): the reply goes to the open request in place of
//! a post, and counts as delivered only once it is written to the caller's socket.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::base::sync::lock;

/// The callers that wait now, by the name under which their answer will come.
#[derive(Clone, Debug)]
pub struct Waiting {
    slots: Arc<Mutex<BTreeMap<String, Arc<Slot>>>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Open,
    Offered(Value),
    Taken,
    Left,
}

/// One caller's place; leaving it by any way gives the place back.
#[derive(Debug)]
pub struct Place {
    name: String,
    slot: Arc<Slot>,
    waiting: Waiting,
}

impl Waiting {
    /// Room for `most` callers.
    #[must_use]
    pub fn new(most: usize) -> Waiting {
        Waiting {
            slots: Arc::default(),
            most,
        }
    }

    /// A place under `name`; `None` when all are taken or one waits under that name already.
    #[must_use]
    pub fn enter(&self, name: &str) -> Option<Place> {
        let mut slots = lock(&self.slots);
        if slots.len() >= self.most || slots.contains_key(name) {
            return None;
        }
        let slot = Arc::new(Slot::default());
        slots.insert(name.to_owned(), slot.clone());
        Some(Place {
            name: name.to_owned(),
            slot,
            waiting: self.clone(),
        })
    }

    /// Offers a reply to whoever waits under `name` and says whether it reached them.
    ///
    /// Blocks: until the caller has it or is found to have left, for `span` at most.
    #[must_use]
    pub fn offer(&self, name: &str, reply: &Value, span: Duration) -> bool {
        let Some(slot) = lock(&self.slots).get(name).cloned() else {
            return false;
        };
        let mut state = lock(&slot.state);
        if *state != State::Open {
            return false;
        }
        *state = State::Offered(reply.clone());
        slot.changed.notify_all();
        let (mut state, _) = slot
            .changed
            .wait_timeout_while(state, span, |state| matches!(state, State::Offered(_)))
            .unwrap_or_else(PoisonError::into_inner);
        let taken = *state == State::Taken;
        if !taken {
            *state = State::Left;
        }
        taken
    }

    /// Tells all who wait that nothing will come any more.
    pub fn end(&self) {
        for slot in lock(&self.slots).values() {
            slot.end();
        }
    }

    /// Tells the one who waits under `name`, if anyone, that nothing will come any more.
    pub fn end_one(&self, name: &str) {
        let slot = lock(&self.slots).get(name).cloned();
        if let Some(slot) = slot {
            slot.end();
        }
    }
}

impl Slot {
    fn end(&self) {
        let mut state = lock(&self.state);
        if *state == State::Open {
            *state = State::Left;
            self.changed.notify_all();
        }
    }
}

impl Place {
    /// Waits for the reply.
    ///
    /// Blocks: for `span` at most.
    #[must_use]
    pub fn wait(&self, span: Duration) -> Option<Value> {
        let until = Instant::now() + span;
        let mut state = lock(&self.slot.state);
        loop {
            match &*state {
                State::Offered(reply) => return Some(reply.clone()),
                State::Taken | State::Left => return None,
                State::Open => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *state = State::Left;
                return None;
            }
            let waited = self.slot.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that the reply has been written to the caller's socket.
    pub fn taken(self) {
        let mut state = lock(&self.slot.state);
        if matches!(*state, State::Offered(_)) {
            *state = State::Taken;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.waiting.slots).remove(&self.name);
        let mut state = lock(&self.slot.state);
        if matches!(*state, State::Open | State::Offered(_)) {
            *state = State::Left;
        }
        self.slot.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::spawn;

    const LONG: Duration = Duration::from_secs(20);

    fn offered(waiting: &Waiting, name: &'static str) -> std::thread::JoinHandle<bool> {
        let waiting = waiting.clone();
        spawn("offer", 64 * 1024, move || {
            waiting.offer(name, &Value::from("hi"), LONG)
        })
        .unwrap()
    }

    #[test]
    fn a_reply_counts_only_once_it_is_written() {
        let waiting = Waiting::new(2);
        let place = waiting.enter("a").expect("room");
        let offer = offered(&waiting, "a");
        assert_eq!(place.wait(LONG), Some(Value::from("hi")));
        place.taken();
        assert!(offer.join().unwrap());
    }

    #[test]
    fn a_caller_that_left_gets_nothing_and_the_offer_says_so() {
        let waiting = Waiting::new(2);
        let place = waiting.enter("a").expect("room");
        let offer = offered(&waiting, "a");
        assert!(place.wait(LONG).is_some());
        drop(place);
        assert!(!offer.join().unwrap());
        assert!(!waiting.offer("a", &Value::Null, LONG));
    }

    #[test]
    fn after_the_time_is_up_an_offer_is_refused_at_once() {
        let waiting = Waiting::new(2);
        let place = waiting.enter("a").expect("room");
        assert_eq!(place.wait(Duration::ZERO), None);
        assert!(!waiting.offer("a", &Value::Null, LONG));
    }

    #[test]
    fn places_are_bounded_and_come_back() {
        let waiting = Waiting::new(1);
        let place = waiting.enter("a").expect("room");
        assert!(waiting.enter("b").is_none());
        drop(place);
        assert!(waiting.enter("b").is_some());
    }
}
