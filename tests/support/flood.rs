//! Flood limits as a chat platform keeps them: buckets that fill with time, one for each chat and one
//! for the whole bot. Pure; times come in by value.

use std::collections::BTreeMap;
use std::time::Instant;

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug)]
struct Rate {
    a_second: f64,
    burst: f64,
}

/// Telegram tells of about one message a second in a chat with short bursts above, twenty a minute
/// in a group and thirty a second over all (its FAQ for bots).
const CHAT: Rate = Rate {
    a_second: 1.0,
    burst: 3.0,
};
const GROUP: Rate = Rate {
    a_second: 20.0 / 60.0,
    burst: 3.0,
};
const ALL: Rate = Rate {
    a_second: 30.0,
    burst: 30.0,
};

/// What is left in a bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, at: Instant) -> Bucket {
        let left = rate.burst;
        Bucket { left, at }
    }

    /// Fills it up to now; the seconds until there is a whole one in it.
    fn wait(&mut self, rate: Rate, now: Instant) -> f64 {
        let filled = now.duration_since(self.at).as_secs_f64() * rate.a_second;
        self.left = (self.left + filled).min(rate.burst);
        self.at = now;
        ((1.0 - self.left) / rate.a_second).max(0.0)
    }
}

/// The limits of one bot.
#[derive(Debug)]
pub struct Flood {
    chats: BTreeMap<i64, Bucket>,
    all: Bucket,
}

impl Flood {
    /// Telegram's, with nothing sent yet.
    pub fn of_telegram(now: Instant) -> Flood {
        Flood {
            chats: BTreeMap::new(),
            all: Bucket::full(ALL, now),
        }
    }

    /// Counts one message to a chat; the whole seconds to wait where it is one too many, and then it
    /// is not counted.
    pub fn take(&mut self, chat: i64, now: Instant) -> Option<u64> {
        // Groups and supergroups have negative ids.
        let rate = if chat < 0 { GROUP } else { CHAT };
        let own = self.chats.entry(chat).or_insert(Bucket::full(rate, now));
        let wait = own.wait(rate, now).max(self.all.wait(ALL, now));
        if wait > 0.0 {
            return Some(wait.ceil() as u64);
        }
        own.left -= 1.0;
        self.all.left -= 1.0;
        None
    }

    /// The shortest time in which `count` messages can go to each of `chats` private chats.
    pub fn shortest(chats: usize, count: usize) -> f64 {
        let own = (count as f64 - CHAT.burst) / CHAT.a_second;
        let all = ((chats * count) as f64 - ALL.burst) / ALL.a_second;
        own.max(all).max(0.0)
    }
}
