//! What follows a failed delivery: another try, and when, or the end. Pure, runs on the sending
//! thread; must never ask a peer earlier than it allows, nor go on for ever.

use std::time::Duration;

use super::limits::Limits;
use crate::base::backoff::Backoff;
use crate::base::clock::UnixMs;

/// Tries that a delivery gets even where its window has passed: a box without a battery starts
/// with a clock that is days off, and one that was switched off for days is late through no fault
/// of the peer. With the waits between them these are about two minutes.
const TRIES_AT_LEAST: u32 = 8;

/// How long a row rests when the store cannot be read, or a stop has cut its try.
const STORE_REST: Duration = Duration::from_secs(2);

/// What came of one try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The peer has confirmed it.
    Sent,
    /// The store has no such row any more: it is over.
    Gone,
    /// The store could not be read; nothing was tried.
    Unread,
    /// A stop has cut it: the row stays as it is for the next start.
    Cut,
    /// Nothing was tried: it is known that it may not be before this wait is over.
    NotYet(Duration),
    /// Another try may work, after so long where the peer names a time.
    Again(Option<Duration>),
    /// No other try will.
    Never,
    /// Our own code has failed.
    Panicked,
}

/// The try, as far as it matters for what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// When the row was put into the outbox.
    pub queued_at: UnixMs,
    /// Tries that had failed before.
    pub failed: u32,
    /// The calendar's time.
    pub now: UnixMs,
    /// Uniform over all of `u32`.
    pub random: u32,
}

/// What the store is told of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    Nothing,
    /// It is delivered.
    Sent,
    /// The try has failed; the next one is due at this moment of the calendar.
    RetryAt(UnixMs),
    /// It is given up.
    Failed,
}

/// Decides what follows a try: what the store is told, and after how long the row is tried again;
/// none where it is over.
#[must_use]
pub fn after_try(came: Came, this: &Try, limits: &Limits) -> (Mark, Option<Duration>) {
    let after = match came {
        Came::Sent => return (Mark::Sent, None),
        Came::Gone => return (Mark::Nothing, None),
        Came::Never => return (Mark::Failed, None),
        Came::Unread | Came::Cut => return (Mark::Nothing, Some(STORE_REST)),
        // The schedule counts whole milliseconds: cut down to them, the row would be due at once, and
        // again, until the wait is over.
        Came::NotYet(wait) => {
            return (
                Mark::Nothing,
                Some(wait.saturating_add(Duration::from_millis(1))),
            )
        }
        Came::Panicked => return (Mark::Nothing, Some(limits.delivery_backoff_most)),
        Came::Again(after) => after,
    };
    let attempts = this.failed.saturating_add(1);
    match after_failure(
        this.queued_at,
        this.now,
        attempts,
        after,
        this.random,
        limits,
    ) {
        Next::RetryAt(at) => (Mark::RetryAt(at), Some(at.since(this.now))),
        Next::Failed => (Mark::Failed, None),
    }
}

/// What to do with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again at this moment.
    RetryAt(UnixMs),
    /// Give it up: its window has passed.
    Failed,
}

/// A delivery that can heal has failed at `now`; this is what follows. `attempts` counts the failed
/// ones, this one included; `retry_after` is what the peer asked for; `random` is uniform over all
/// of `u32`. A peer that asks for more time than the window has left makes it [`Next::Failed`],
/// since a try before that time would only lengthen its ban.
#[must_use]
pub fn after_failure(
    queued_at: UnixMs,
    now: UnixMs,
    attempts: u32,
    retry_after: Option<Duration>,
    random: u32,
    limits: &Limits,
) -> Next {
    let backoff = Backoff {
        first: limits.delivery_backoff_first,
        most: limits.delivery_backoff_most,
    };
    let wait = backoff
        .wait(attempts, random)
        .max(retry_after.unwrap_or_default());
    // Time queued is zero where the clock went back.
    let left = limits.delivery_window.saturating_sub(now.since(queued_at));
    if left.is_zero() && attempts >= TRIES_AT_LEAST {
        return Next::Failed;
    }
    match retry_after {
        Some(asked) if asked > left.max(limits.delivery_backoff_most) => Next::Failed,
        _ => Next::RetryAt(now.plus(wait)),
    }
}

/// When a row read from the store is due: as stored, but never later than the longest wait of our own
/// from now, so that a clock that was set back delays nothing for days. A peer that asked for more is
/// asked once too early after a restart.
#[must_use]
pub fn due_of_stored(due: UnixMs, now: UnixMs, limits: &Limits) -> UnixMs {
    due.min(now.plus(limits.delivery_backoff_most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_failed_delivery_is_tried_again_within_its_window() {
        let s = |n| Some(Duration::from_secs(n));
        let at = |ms| Next::RetryAt(UnixMs(ms));
        let day = 24 * HOUR;
        // now, attempts, Retry-After, what follows (with the longest jitter; queued at 0)
        for (now, attempts, asked, next) in [
            (0, 1, None, at(1000)),
            (0, 2, None, at(2000)),
            (0, 9, None, at(256_000)),
            (0, 10, None, at(300_000)),
            (0, u32::MAX, None, at(300_000)),
            (0, 1, s(0), at(1000)),
            (0, 1, s(45), at(45_000)),
            (0, 10, s(45), at(300_000)),
            (0, 1, s(13_938), at(13_938_000)),
            (0, 1, s(86_400), at(day)),
            (0, 1, s(86_401), Next::Failed),
            (23 * HOUR, 9, s(3600), at(day)),
            (23 * HOUR, 9, s(3601), Next::Failed),
            (day - 1, 300, None, at(day - 1 + 300_000)),
            (day, 300, None, Next::Failed),
            (day, 8, None, Next::Failed),
            (day, 7, None, at(day + 64_000)),
            (9 * day, 1, s(60), at(9 * day + 60_000)),
            (9 * day, 1, s(3600), Next::Failed),
            (-9 * day, 300, None, at(-9 * day + 300_000)),
        ] {
            let limits = Limits::default();
            let got = after_failure(UnixMs(0), UnixMs(now), attempts, asked, u32::MAX, &limits);
            assert_eq!(got, next, "now {now} attempts {attempts} asked {asked:?}");
        }
    }

    #[test]
    fn a_row_is_over_only_when_it_is_sent_given_up_or_gone() {
        let s = Duration::from_secs;
        let this = Try {
            queued_at: UnixMs(0),
            failed: 0,
            now: UnixMs(500),
            random: u32::MAX,
        };
        for (came, mark, again) in [
            (Came::Sent, Mark::Sent, None),
            (Came::Gone, Mark::Nothing, None),
            (Came::Never, Mark::Failed, None),
            (Came::Unread, Mark::Nothing, Some(s(2))),
            (Came::Cut, Mark::Nothing, Some(s(2))),
            (
                Came::NotYet(Duration::from_micros(7)),
                Mark::Nothing,
                Some(Duration::from_micros(1007)),
            ),
            (Came::Panicked, Mark::Nothing, Some(s(300))),
            (Came::Again(None), Mark::RetryAt(UnixMs(1500)), Some(s(1))),
            (
                Came::Again(Some(s(60))),
                Mark::RetryAt(UnixMs(60_500)),
                Some(s(60)),
            ),
            (Came::Again(Some(s(90_000))), Mark::Failed, None),
        ] {
            let got = after_try(came, &this, &Limits::default());
            assert_eq!(got, (mark, again), "{came:?}");
        }
    }

    #[test]
    fn a_peer_is_never_asked_before_the_time_it_named() {
        let limits = Limits::default();
        let asked = Some(Duration::from_secs(2));
        let next = after_failure(UnixMs(0), UnixMs(0), 1, asked, 0, &limits);
        assert_eq!(next, Next::RetryAt(UnixMs(2000)));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_put_a_row_off_for_days() {
        let limits = Limits::default();
        let due = |ms| due_of_stored(UnixMs(ms), UnixMs(0), &limits);
        assert_eq!(due(-5), UnixMs(-5));
        assert_eq!(due(HOUR / 60), UnixMs(HOUR / 60));
        assert_eq!(due(900 * HOUR), UnixMs(300_000));
    }
}
