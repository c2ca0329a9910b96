//! How far a channel has taken what its platform keeps for it. Pure.

use std::time::Duration;

use crate::base::clock::UnixMs;

/// A place among the updates of one account of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Whose updates are numbered: the bot's id.
    pub account: String,
    /// The number of the last update that was taken.
    pub position: i64,
}

/// A cursor as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The number of the last update that was taken.
    pub position: i64,
    /// When it was taken.
    pub at: UnixMs,
}

/// After so long without an update a platform may number the next ones from anywhere (Telegram Bot
/// API, `Update.update_id`).
pub const NUMBERS_LAST: Duration = Duration::from_secs(7 * 86_400);

impl Reached {
    /// The number behind which the next update is to be looked for; none where the numbers may
    /// have begun anew.
    #[must_use]
    pub fn usable(self, now: UnixMs) -> Option<i64> {
        let apart = now.since(self.at).max(self.at.since(now));
        (apart <= NUMBERS_LAST).then_some(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_over_a_week_is_not_used() {
        let reached = Reached {
            position: 7,
            at: UnixMs(1000),
        };
        let week = 7 * 86_400_000;
        for (now, used) in [
            (1000, Some(7)),
            (0, Some(7)),
            (1000 + week, Some(7)),
            (1001 + week, None),
            // Told by a clock that was wrong: nobody knows how long ago it was.
            (1000 - week, Some(7)),
            (999 - week, None),
        ] {
            assert_eq!(reached.usable(UnixMs(now)), used, "{now}");
        }
    }
}
