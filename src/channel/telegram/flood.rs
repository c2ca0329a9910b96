//! Telegram's flood limits, as far as they can be known: who is held until when, and whether a 429
//! is about one chat or about the bot. Pure; times come in by value.
//!
//! Telegram names no limits and does not say which one was hit. Its FAQ speaks of one message a
//! second in a chat, twenty a minute in a group and thirty a second over all.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::channel::port::Held;

/// Messages a minute in a group.
const GROUP_A_MINUTE: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);
/// Within so long after a message to a chat its own limit may be what was hit.
const CHAT_REST: Duration = Duration::from_secs(2);
/// Two chats that did not deserve it, limited within so long, show that the bot is.
const TOGETHER: Duration = Duration::from_secs(3);

/// What is known of the limits.
#[derive(Clone, Debug)]
pub struct Flood {
    chats: BTreeMap<i64, Chat>,
    most: usize,
    held_until: Option<Instant>,
    /// The last chat that was limited though it had not been written to much.
    innocent: Option<(i64, Instant)>,
}

#[derive(Clone, Debug, Default)]
struct Chat {
    /// The last messages to it, oldest first.
    sent: VecDeque<Instant>,
    held_until: Option<Instant>,
}

impl Flood {
    /// Nothing is known yet; of at most `most` chats something will be.
    pub fn new(most: usize) -> Flood {
        Flood {
            chats: BTreeMap::new(),
            most: most.max(1),
            held_until: None,
            innocent: None,
        }
    }

    /// How long nothing may be sent to a chat; none where it may now.
    pub fn wait(&self, chat: i64, now: Instant) -> Option<Duration> {
        let own = self.chats.get(&chat).and_then(|chat| chat.held_until);
        let until = own.max(self.held_until)?;
        let left = until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
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
        known.held_until = known.held_until.max(until);
        if known.has_had_much(chat, now) {
            return Held::Conversation;
        }
        let before = self.innocent.replace((chat, now));
        let together = before.is_some_and(|(other, at)| {
            other != chat && now.saturating_duration_since(at) <= TOGETHER
        });
        if together {
            self.held_until = self.held_until.max(until);
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

impl Chat {
    fn matters(&self, now: Instant) -> bool {
        let recent = |at: &Instant| now.saturating_duration_since(*at) < MINUTE;
        self.sent.back().is_some_and(recent) || self.held_until.is_some_and(|until| until > now)
    }

    /// Whether a chat's own limit may be what was hit.
    fn has_had_much(&self, chat: i64, now: Instant) -> bool {
        let age = |at: &Instant| now.saturating_duration_since(*at);
        let just_now = self.sent.back().is_some_and(|at| age(at) < CHAT_REST);
        // Groups and supergroups have negative ids.
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
