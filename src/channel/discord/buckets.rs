//! Discord's rate limits: who is held until when. Pure; times come in by value. Documentation of
//! Discord: "Rate Limits". Each route has a limit for each channel, told in the headers of every
//! answer; over all, a bot may send 50 requests a second.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::channel::port::Held;

/// The second within which requests over all are counted, with room for requests that take different
/// times on their way.
const GLOBAL_SPAN: Duration = Duration::from_millis(1050);
/// Nothing holds longer than this, whatever a header says: a day.
const HELD_MOST: Duration = Duration::from_secs(24 * 3600);

/// What is asked of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    /// `POST /channels/ID/messages`.
    Messages,
    /// `POST /channels/ID/typing`.
    Typing,
}

/// What is known of the limits.
#[derive(Clone, Debug)]
pub struct Buckets {
    held: BTreeMap<(Route, u64), Instant>,
    most: usize,
    a_second: usize,
    held_all: Option<Instant>,
    sent: VecDeque<Instant>,
}

impl Buckets {
    /// Nothing is known yet; of at most `most` channels something will be. Over all, `a_second`
    /// requests go within a second.
    pub fn new(most: usize, a_second: usize) -> Buckets {
        Buckets {
            held: BTreeMap::new(),
            most: most.max(1),
            a_second: a_second.max(1),
            held_all: None,
            sent: VecDeque::new(),
        }
    }

    /// Takes the right to send one request now; else how long to wait, and who is held.
    ///
    /// # Errors
    /// The wait and the held.
    pub fn take(
        &mut self,
        route: Route,
        channel: u64,
        now: Instant,
    ) -> Result<(), (Duration, Held)> {
        let left = |until: Instant| until.saturating_duration_since(now);
        let own = self.held.get(&(route, channel)).copied();
        for (until, held) in [(own, Held::Conversation), (self.held_all, Held::Channel)] {
            let wait = until.map(left).unwrap_or_default();
            if !wait.is_zero() {
                return Err((wait, held));
            }
        }
        let over = |at: &Instant| now.saturating_duration_since(*at) >= GLOBAL_SPAN;
        while self.sent.front().is_some_and(over) {
            self.sent.pop_front();
        }
        if let (true, Some(first)) = (self.sent.len() >= self.a_second, self.sent.front()) {
            return Err((left(*first + GLOBAL_SPAN), Held::Channel));
        }
        self.sent.push_back(now);
        Ok(())
    }

    /// An answer says that nothing more is left on a route until `after` has passed.
    pub fn spent(&mut self, route: Route, channel: u64, after: Duration, now: Instant) {
        self.room(now);
        let until = now + after.min(HELD_MOST);
        let known = self.held.entry((route, channel)).or_insert(until);
        *known = until.max(*known);
    }

    /// A request was refused, to be made again after `wait`.
    pub fn limited(&mut self, route: Route, channel: u64, who: Held, wait: Duration, now: Instant) {
        match who {
            Held::Conversation => self.spent(route, channel, wait, now),
            Held::Channel => {
                self.held_all = self.held_all.max(Some(now + wait.min(HELD_MOST)));
            }
        }
    }

    /// Makes room for one more: what holds no longer goes, then any.
    fn room(&mut self, now: Instant) {
        if self.held.len() < self.most {
            return;
        }
        self.held.retain(|_, until| *until > now);
        while self.held.len() >= self.most {
            self.held.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Route::{Messages, Typing};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_spent_bucket_holds_its_route_in_its_channel_alone() {
        let (mut buckets, now) = (Buckets::new(9, 50), Instant::now());
        assert_eq!(buckets.take(Messages, 7, now), Ok(()));
        buckets.spent(Messages, 7, MS(1500), now);
        assert_eq!(
            buckets.take(Messages, 7, now + MS(500)),
            Err((MS(1000), Held::Conversation))
        );
        assert_eq!(buckets.take(Typing, 7, now + MS(500)), Ok(()));
        assert_eq!(buckets.take(Messages, 8, now + MS(500)), Ok(()));
        assert_eq!(buckets.take(Messages, 7, now + MS(1500)), Ok(()));
    }

    #[test]
    fn a_global_limit_holds_everything_and_an_earlier_end_does_not_shorten_it() {
        let (mut buckets, now) = (Buckets::new(9, 50), Instant::now());
        buckets.limited(Messages, 7, Held::Channel, MS(2000), now);
        buckets.limited(Typing, 8, Held::Channel, MS(100), now);
        assert_eq!(buckets.take(Typing, 9, now), Err((MS(2000), Held::Channel)));
        assert_eq!(buckets.take(Typing, 9, now + MS(2000)), Ok(()));
    }

    #[test]
    fn fifty_a_second_and_no_more() {
        let (mut buckets, now) = (Buckets::new(9, 50), Instant::now());
        for n in 0..50 {
            assert_eq!(buckets.take(Messages, n, now + MS(n)), Ok(()), "{n}");
        }
        assert_eq!(
            buckets.take(Messages, 99, now + MS(50)),
            Err((MS(1000), Held::Channel))
        );
        assert_eq!(buckets.take(Messages, 99, now + MS(1050)), Ok(()));
        assert_eq!(
            buckets.take(Messages, 99, now + MS(1050)),
            Err((MS(1), Held::Channel))
        );
    }

    #[test]
    fn no_more_channels_are_known_than_there_is_room_for() {
        let (mut buckets, now) = (Buckets::new(3, 50), Instant::now());
        for channel in 0..100 {
            buckets.spent(Messages, channel, MS(1000 * 3600 * 24 * 9), now);
            assert!(buckets.held.len() <= 3);
        }
        assert!(buckets.take(Messages, 99, now).unwrap_err().0 <= HELD_MOST);
    }
}
