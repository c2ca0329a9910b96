//! How far Telegram's updates have been taken, and from where the next ones are asked for: asking
//! acknowledges all before. Pure; the thread `in:telegram` performs it. Must never leave an update
//! behind that is neither stored nor passed over.

use crate::base::clock::UnixMs;
use crate::domain::cursor::Reached;

/// How far the updates of one bot have been taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    reached: Option<Reached>,
    /// The last of those passed over since the last one that was stored.
    passed: Option<i64>,
}

impl Offset {
    /// As the store knows it.
    #[must_use]
    pub fn new(reached: Option<Reached>) -> Offset {
        Offset {
            reached,
            passed: None,
        }
    }

    /// The first update to ask for at `now`; none where nothing is known.
    #[must_use]
    pub fn ask_from(&self, now: UnixMs) -> Option<i64> {
        let position = self.reached?.usable(now)?;
        Some(position.saturating_add(1))
    }

    /// This update is stored, and the cursor with it.
    pub fn stored(&mut self, position: i64, now: UnixMs) {
        self.passed = None;
        self.reached = Some(Reached { position, at: now });
    }

    /// This update is nothing for anybody.
    pub fn passed(&mut self, position: i64) {
        self.passed = Some(position);
    }

    /// The updates that came are gone through, or the next one cannot be taken now. Returns where
    /// the store's cursor has to be moved to past those that were passed over.
    #[must_use]
    pub fn paused(&mut self, now: UnixMs) -> Option<i64> {
        let position = self.passed.take()?;
        self.reached = Some(Reached { position, at: now });
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_stored_or_passed_over_is_left_behind() {
        let now = UnixMs(1000);
        let mut offset = Offset::new(None);
        assert_eq!(offset.ask_from(now), None);
        offset.stored(7, now);
        assert_eq!(offset.ask_from(now), Some(8));
        // 8 is passed over, 9 finds no room: it comes again.
        offset.passed(8);
        assert_eq!(offset.ask_from(now), Some(8));
        assert_eq!(offset.paused(now), Some(8));
        assert_eq!(offset.ask_from(now), Some(9));
        // The cursor of a message that is stored leaves those before it behind too.
        offset.passed(9);
        offset.stored(10, now);
        assert_eq!(offset.paused(now), None);
        assert_eq!(offset.ask_from(now), Some(11));
    }

    #[test]
    fn a_cursor_of_over_a_week_asks_from_the_beginning() {
        let at = UnixMs(0);
        let offset = Offset::new(Some(Reached { position: 7, at }));
        assert_eq!(offset.ask_from(UnixMs(7 * 86_400_000)), Some(8));
        assert_eq!(offset.ask_from(UnixMs(7 * 86_400_000 + 1)), None);
    }
}
