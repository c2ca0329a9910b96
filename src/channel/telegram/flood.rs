//! Telegram's flood limits, as far as they can be known: who is held until when, and whether a 429
//! is about one chat or about the bot. Pure; times come in by value.
//!
//! Telegram names no limits and does not say which one was hit. Its FAQ speaks of one message a
//! second in a chat, twenty a minute in a group and thirty a second over all, with short bursts above.
//! So whoever has never been limited is not slowed down, and who has been keeps that pace from then on:
//! a limit is met once, not with each message.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::channel::port::Held;

/// Messages a minute in a group.
const GROUP_A_MINUTE: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);
/// Within so long after a message to a chat its own limit may be what was hit.
const CHAT_REST: Duration = Duration::from_secs(2);
/// What the FAQ allows: between two messages in a chat and in a group, and over all.
const CHAT_PACE: Duration = Duration::from_secs(1);
const GROUP_PACE: Duration = Duration::from_secs(3);
const BOT_MOST: usize = 30;
/// The second of these, with room for messages that take different times on their way.
const BOT_SPAN: Duration = Duration::from_millis(1030);
/// How long the pace is kept after it last held anybody.
const PACED: Duration = MINUTE;
/// Two chats that did not deserve it, limited within so long, show that the bot is.
const TOGETHER: Duration = Duration::from_secs(3);

/// What is known of the limits.
#[derive(Clone, Debug)]
pub struct Flood {
    chats: BTreeMap<i64, Chat>,
    most: usize,
    held_until: Option<Instant>,
    paced_until: Option<Instant>,
    /// When the last messages over all were begun, oldest first.
    begun: VecDeque<Instant>,
    /// The last chat that was limited though it had not been written to much.
    innocent: Option<(i64, Instant)>,
}

#[derive(Clone, Debug, Default)]
struct Chat {
    /// The last messages to it, oldest first.
    sent: VecDeque<Instant>,
    held_until: Option<Instant>,
    paced_until: Option<Instant>,
}

impl Flood {
    /// Nothing is known yet; of at most `most` chats something will be.
    pub fn new(most: usize) -> Flood {
        Flood {
            chats: BTreeMap::new(),
            most: most.max(1),
            held_until: None,
            paced_until: None,
            begun: VecDeque::new(),
            innocent: None,
        }
    }

    /// How long nothing may be sent to a chat; none where it may now.
    pub(super) fn wait(&self, chat: i64, now: Instant) -> Option<Duration> {
        let own = self.chats.get(&chat).and_then(|chat| chat.held_until);
        left(own.max(self.held_until), now)
    }

    /// Takes the right to send a message to a chat now; else how long to wait, and who is held.
    ///
    /// # Errors
    /// The wait and the held.
    pub fn take(&mut self, chat: i64, now: Instant) -> Result<(), (Duration, Held)> {
        if let Some(known) = self.chats.get_mut(&chat) {
            let next = known.next(chat, now);
            if let Some(wait) = left(next.max(known.held_until), now) {
                if left(next, now).is_some() {
                    known.paced_until = now.checked_add(PACED);
                }
                return Err((wait, Held::Conversation));
            }
        }
        let paced = left(self.paced_until, now).is_some();
        let first = self
            .begun
            .front()
            .filter(|_| paced && self.begun.len() == BOT_MOST);
        let next = first.and_then(|first| first.checked_add(BOT_SPAN));
        if let Some(wait) = left(next.max(self.held_until), now) {
            if left(next, now).is_some() {
                self.paced_until = now.checked_add(PACED);
            }
            return Err((wait, Held::Channel));
        }
        if self.begun.len() == BOT_MOST {
            self.begun.pop_front();
        }
        self.begun.push_back(now);
        Ok(())
    }

    /// A message was sent to a chat.
    pub fn sent(&mut self, chat: i64, now: Instant) {
        self.room(chat, now);
        let known = self.chats.entry(chat).or_default();
        if known.sent.len() == GROUP_A_MINUTE {
            known.sent.pop_front();
        }
        known.sent.push_back(now);
    }

    /// A message to a chat was refused, to be tried again after `wait`: who is held?
    pub fn limited(&mut self, chat: i64, now: Instant, wait: Duration) -> Held {
        self.room(chat, now);
        let until = now.checked_add(wait);
        let known = self.chats.entry(chat).or_default();
        let much = known.has_had_much(chat, now);
        known.held_until = known.held_until.max(until);
        if much {
            known.paced_until = until.and_then(|until| until.checked_add(PACED));
            return Held::Conversation;
        }
        let before = self.innocent.replace((chat, now));
        let together = before.is_some_and(|(other, at)| {
            other != chat && now.saturating_duration_since(at) <= TOGETHER
        });
        if together {
            self.held_until = self.held_until.max(until);
            self.paced_until = until.and_then(|until| until.checked_add(PACED));
            return Held::Channel;
        }
        Held::Conversation
    }

    /// Makes room for a chat: those of which nothing matters any more go, then any.
    fn room(&mut self, chat: i64, now: Instant) {
        if self.chats.len() < self.most || self.chats.contains_key(&chat) {
            return;
        }
        self.chats.retain(|_, known| known.matters(now));
        while self.chats.len() >= self.most {
            self.chats.pop_first();
        }
    }
}

/// How long it is until then; none where that is past.
fn left(until: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = until?.saturating_duration_since(now);
    (!left.is_zero()).then_some(left)
}

/// Between two messages in a chat. Groups and supergroups have negative ids.
fn pace(chat: i64) -> Duration {
    match chat < 0 {
        true => GROUP_PACE,
        false => CHAT_PACE,
    }
}

impl Chat {
    fn matters(&self, now: Instant) -> bool {
        let recent = |at: &Instant| now.saturating_duration_since(*at) < MINUTE;
        self.sent.back().is_some_and(recent) || self.held_until.is_some_and(|until| until > now)
    }

    /// When the pace that a chat keeps allows the next message; none where it keeps none.
    fn next(&self, chat: i64, now: Instant) -> Option<Instant> {
        left(self.paced_until, now)?;
        self.sent.back()?.checked_add(pace(chat))
    }

    /// Whether a chat's own limit may be what was hit.
    fn has_had_much(&self, chat: i64, now: Instant) -> bool {
        let age = |at: &Instant| now.saturating_duration_since(*at);
        let rest = match left(self.paced_until, now) {
            // It has kept its pace, so that cannot be it.
            Some(_) => pace(chat),
            None => CHAT_REST,
        };
        let just_now = self.sent.back().is_some_and(|at| age(at) < rest);
        let full = self.sent.len() == GROUP_A_MINUTE;
        let busy_group = chat < 0 && full && self.sent.front().is_some_and(|at| age(at) < MINUTE);
        just_now || busy_group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn one_chat_s_limit_holds_that_chat_alone() {
        let (mut flood, now) = (Flood::new(10), Instant::now());
        flood.sent(7, now);
        assert_eq!(flood.limited(7, now, S(60)), Held::Conversation);
        assert_eq!(flood.wait(7, now), Some(S(60)));
        assert_eq!(flood.wait(7, now + S(59)), Some(S(1)));
        assert_eq!(flood.wait(7, now + S(60)), None);
        assert_eq!(flood.wait(8, now), None);
        // A lone chat of which nothing is known, as after a restart, holds nobody else either.
        assert_eq!(flood.limited(9, now, S(60)), Held::Conversation);
        assert_eq!(flood.wait(8, now), None);
    }

    #[test]
    fn two_chats_that_had_little_show_that_the_bot_is_limited() {
        let (mut flood, now) = (Flood::new(10), Instant::now());
        assert_eq!(flood.limited(1, now, S(4)), Held::Conversation);
        // The same again proves nothing, nor does one that had a message just now, nor one much later.
        assert_eq!(flood.limited(1, now, S(4)), Held::Conversation);
        flood.sent(2, now);
        assert_eq!(flood.limited(2, now + S(1), S(4)), Held::Conversation);
        assert_eq!(flood.limited(3, now + S(9), S(4)), Held::Conversation);
        assert_eq!(flood.limited(4, now + S(10), S(4)), Held::Channel);
        assert_eq!(flood.wait(8, now + S(10)), Some(S(4)));
        assert_eq!(flood.wait(8, now + S(14)), None);
    }

    #[test]
    fn a_group_of_twenty_a_minute_is_its_own_limit() {
        let now = Instant::now();
        for (chat, held) in [(-5, Held::Conversation), (5, Held::Channel)] {
            let mut flood = Flood::new(10);
            for n in 0..20 {
                flood.sent(chat, now + S(2 * n));
            }
            let then = now + S(45);
            flood.limited(99, then, S(1));
            assert_eq!(flood.limited(chat, then, S(15)), held, "{chat}");
        }
    }

    /// Sends whenever it may, through `took`, until `end`; when each message was begun.
    fn sent_until(flood: &mut Flood, chats: &[i64], now: Instant, end: Duration) -> Vec<Duration> {
        let took = Duration::from_millis(5);
        let (mut at, mut begun) = (Duration::ZERO, Vec::new());
        while at < end {
            let mut next = end;
            for chat in chats {
                match flood.take(*chat, now + at) {
                    Ok(()) => {
                        begun.push(at);
                        flood.sent(*chat, now + at + took);
                        next = next.min(at + took);
                    }
                    Err((wait, _)) => next = next.min(at + wait),
                }
            }
            at = next;
        }
        begun
    }

    #[test]
    fn a_chat_that_was_limited_keeps_the_pace_and_no_other_does() {
        for (chat, most) in [(7, 19), (-7, 6)] {
            let (mut flood, now) = (Flood::new(10), Instant::now());
            flood.sent(chat, now);
            assert_eq!(flood.limited(chat, now, S(1)), Held::Conversation);
            let begun = sent_until(&mut flood, &[chat], now, S(20));
            assert_eq!(begun.len(), most, "{begun:?}");
            let steady = |pair: &[Duration]| pair[1] - pair[0] >= pace(chat);
            assert!(begun.windows(2).all(steady), "{begun:?}");
            assert_eq!(flood.take(8, now + S(20)), Ok(()));
            assert_eq!(flood.take(8, now + S(20)), Ok(()));
            // A limit while it keeps the pace is not its own.
            flood.limited(99, now + S(23), S(1));
            assert_eq!(flood.limited(chat, now + S(23), S(1)), Held::Channel);
            // Once nobody has been held for long, it is forgotten.
            let then = now + S(23 + 62);
            flood.sent(chat, then);
            assert_eq!(flood.take(chat, then), Ok(()));
        }
    }

    #[test]
    fn a_bot_that_was_limited_sends_thirty_a_second() {
        let (mut flood, now) = (Flood::new(100), Instant::now());
        assert_eq!(flood.limited(1, now, S(1)), Held::Conversation);
        assert_eq!(flood.limited(2, now, S(1)), Held::Channel);
        assert_eq!(flood.take(3, now), Err((S(1), Held::Channel)));
        let chats: Vec<i64> = (3..=60).collect();
        let begun = sent_until(&mut flood, &chats, now, S(11));
        assert!((291..=300).contains(&begun.len()), "{}", begun.len());
        let full = |window: &[Duration]| window[30] - window[0] >= S(1);
        assert!(begun.windows(31).all(full), "{begun:?}");
    }

    #[test]
    fn no_more_chats_are_known_than_there_is_room_for_and_the_held_stay_longest() {
        let (mut flood, now) = (Flood::new(3), Instant::now());
        flood.limited(1, now, S(600));
        for chat in 2..50 {
            flood.sent(chat, now + S(100 * chat as u64 / 10));
            assert!(flood.chats.len() <= 3);
        }
        let mut flood = Flood::new(2);
        flood.limited(9, now, S(600));
        for chat in 10..15 {
            flood.sent(chat, now + S(100 * (chat as u64 - 9)));
        }
        assert!(flood.wait(9, now + S(599)).is_some());
    }
}
