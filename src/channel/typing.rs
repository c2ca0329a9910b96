//! Shows that an answer is being made, for as long as it is: the thread `typing:CHANNEL` has a sign
//! sent and renewed. It never waits behind a message, and a message waits for it only while a sign to
//! the very same place is on its way.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock::Clock;
use crate::base::sync::lock;
use crate::net::cancel::Cancel;

/// Where answers are being made.
#[derive(Debug)]
pub(super) struct Typing<P> {
    state: Mutex<State<P>>,
    changed: Condvar,
    after: Duration,
    again: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct State<P> {
    rooms: BTreeMap<P, Room>,
    /// The sign on its way, and what cuts it.
    in_flight: Option<(P, Cancel)>,
    ended: bool,
}

#[derive(Debug)]
struct Room {
    runs: usize,
    next: Instant,
}

/// An answer being made; it ends with the value.
pub(super) struct Run<P: Copy + Ord> {
    typing: Arc<Typing<P>>,
    place: P,
}

impl<P: Copy + Ord> Drop for Run<P> {
    fn drop(&mut self) {
        let mut state = lock(&self.typing.state);
        if let Some(room) = state.rooms.get_mut(&self.place) {
            room.runs -= 1;
            if room.runs == 0 {
                state.rooms.remove(&self.place);
            }
        }
    }
}

impl<P: Copy + Ord> Typing<P> {
    /// The first sign comes `after` the beginning, the next `again` after it.
    pub(super) fn new(after: Duration, again: Duration, clock: Arc<dyn Clock>) -> Typing<P> {
        Typing {
            state: Mutex::new(State {
                rooms: BTreeMap::new(),
                in_flight: None,
                ended: false,
            }),
            changed: Condvar::new(),
            after,
            again,
            clock,
        }
    }

    /// An answer is being made from now on.
    pub(super) fn begin(self: &Arc<Self>, place: P) -> Run<P> {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let room = state.rooms.entry(place).or_insert(Room {
            runs: 0,
            next: now + self.after,
        });
        room.runs += 1;
        drop(state);
        self.changed.notify_all();
        Run {
            typing: self.clone(),
            place,
        }
    }

    /// Lets a sign to this place that is on its way arrive, for `span` at most, and cuts it then:
    /// one that came in behind the answer would look as if there were more to come.
    ///
    /// Blocks: for `span` at most, and only while there is such a sign.
    pub(super) fn quiet(&self, place: P, span: Duration) {
        let flies = |state: &mut State<P>| {
            let there = state.in_flight.as_ref();
            there.is_some_and(|(there, _)| *there == place)
        };
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, span, flies);
        let (state, late) = waited.unwrap_or_else(PoisonError::into_inner);
        let flying = state.in_flight.as_ref().filter(|_| late.timed_out());
        let cancel = flying.map(|(_, cancel)| cancel.clone());
        drop(state);
        if let Some(cancel) = cancel {
            cancel.raise();
        }
    }

    /// Ends it all.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        let flying = state.in_flight.take();
        drop(state);
        self.changed.notify_all();
        if let Some((_, cancel)) = flying {
            cancel.raise();
        }
    }

    /// Sends signs by `sign` until the end; `sign` says how long the next one to that place has to
    /// wait beyond the usual.
    ///
    /// Blocks: until [`Typing::end`].
    pub(super) fn work(&self, sign: impl Fn(P, &Cancel) -> Duration) {
        while let Some((place, cancel)) = self.next() {
            let more = sign(place, &cancel);
            let mut state = lock(&self.state);
            state.in_flight = None;
            if let Some(room) = state.rooms.get_mut(&place) {
                room.next = room.next.checked_add(more).unwrap_or(room.next);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The next place that is due; none at the end.
    fn next(&self) -> Option<(P, Cancel)> {
        let mut state = lock(&self.state);
        loop {
            if state.ended {
                return None;
            }
            let now = self.clock.now();
            let first = state.rooms.iter_mut().min_by_key(|(_, room)| room.next);
            state = match first {
                Some((place, room)) if room.next <= now => {
                    let place = *place;
                    room.next = now + self.again;
                    let cancel = Cancel::new();
                    state.in_flight = Some((place, cancel.clone()));
                    return Some((place, cancel));
                }
                Some((_, room)) => {
                    let left = room.next.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::SystemClock;
    use std::sync::mpsc;

    const PLACE: u64 = 7;
    const LONG: Duration = Duration::from_secs(60);

    fn typing(again: Duration) -> Typing<u64> {
        Typing::new(Duration::ZERO, again, Arc::new(SystemClock))
    }

    #[test]
    fn signs_come_while_runs_last_and_a_message_waits_for_one_on_its_way() {
        let typing = Arc::new(typing(Duration::from_millis(20)));
        let (signed, signs) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let theirs = typing.clone();
        let thread = std::thread::spawn(move || {
            theirs.work(|place, _| {
                let _ = signed.send(place);
                let _ = gate.recv();
                Duration::ZERO
            });
        });
        let first = typing.begin(PLACE);
        let second = typing.begin(PLACE);
        assert_eq!(signs.recv_timeout(LONG), Ok(PLACE));
        drop(first);
        go.send(()).unwrap();
        // The second run goes on, and so do the signs.
        assert_eq!(signs.recv_timeout(LONG), Ok(PLACE));
        drop(second);
        // Another place does not wait.
        typing.quiet(8, LONG);
        go.send(()).unwrap();
        typing.quiet(PLACE, LONG);
        assert!(lock(&typing.state).in_flight.is_none());
        assert!(lock(&typing.state).rooms.is_empty());
        assert!(signs.try_recv().is_err());
        typing.end();
        thread.join().unwrap();
    }

    #[test]
    fn a_wait_beyond_all_time_ends_nothing() {
        let typing = Arc::new(typing(Duration::from_millis(1)));
        let (signed, signs) = mpsc::channel();
        let theirs = typing.clone();
        let thread = std::thread::spawn(move || {
            theirs.work(|_, _| {
                let _ = signed.send(());
                Duration::MAX
            });
        });
        let _run = typing.begin(PLACE);
        for _ in 0..2 {
            assert_eq!(signs.recv_timeout(LONG), Ok(()));
        }
        typing.end();
        thread.join().unwrap();
    }

    #[test]
    fn a_sign_that_does_not_arrive_is_cut() {
        let typing = Arc::new(typing(LONG));
        let (signed, signs) = mpsc::channel();
        let theirs = typing.clone();
        let thread = std::thread::spawn(move || {
            theirs.work(|_, cancel| {
                let _ = signed.send(());
                assert!(cancel.wait(LONG), "cut");
                Duration::ZERO
            });
        });
        let _run = typing.begin(PLACE);
        signs.recv_timeout(LONG).unwrap();
        typing.quiet(PLACE, Duration::ZERO);
        typing.end();
        thread.join().unwrap();
    }
}
