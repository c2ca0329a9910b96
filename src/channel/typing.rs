//! Shows that an answer is being made, for as long as it is: the thread `typing:CHANNEL` has a sign
//! sent and renewed. It never waits behind a message, and a message waits for it only while a sign to
//! the very same place is on its way.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::sync::lock;
use crate::net::cancel::Cancel;

/// Where answers are being made.
#[derive(Debug)]
pub(super) struct Typing<P> {
    state: Mutex<State<P>>,
    changed: Condvar,
    after: Duration,
    again: Duration,
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
    pub(super) fn new(after: Duration, again: Duration) -> Typing<P> {
        Typing {
            state: Mutex::new(State {
                rooms: BTreeMap::new(),
                in_flight: None,
                ended: false,
            }),
            changed: Condvar::new(),
            after,
            again,
        }
    }

    /// An answer is being made from `now` on.
    pub(super) fn begin(self: &Arc<Self>, place: P, now: Instant) -> Run<P> {
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
        let until = Instant::now() + span;
        let mut state = lock(&self.state);
        while let Some((_, cancel)) = state
            .in_flight
            .as_ref()
            .filter(|(there, _)| *there == place)
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let cancel = cancel.clone();
                drop(state);
                return cancel.raise();
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
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
                room.next += more;
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
            let now = Instant::now();
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
    use std::sync::mpsc;

    const PLACE: u64 = 7;
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn signs_come_while_runs_last_and_a_message_waits_for_one_on_its_way() {
        let typing = Arc::new(Typing::new(Duration::ZERO, Duration::from_millis(20)));
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
        let first = typing.begin(PLACE, Instant::now());
        let second = typing.begin(PLACE, Instant::now());
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
    fn a_sign_that_does_not_arrive_is_cut() {
        let typing = Arc::new(Typing::new(Duration::ZERO, LONG));
        let (signed, signs) = mpsc::channel();
        let theirs = typing.clone();
        let thread = std::thread::spawn(move || {
            theirs.work(|_, cancel| {
                let _ = signed.send(());
                assert!(cancel.wait(LONG), "cut");
                Duration::ZERO
            });
        });
        let _run = typing.begin(PLACE, Instant::now());
        signs.recv_timeout(LONG).unwrap();
        typing.quiet(PLACE, Duration::ZERO);
        typing.end();
        thread.join().unwrap();
    }
}
