//! Time as a value that is handed in, so that rules and simulations never read a clock themselves.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z. May jump when the machine's clock is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// This moment moved forward; saturates at the ends of the range.
    #[must_use]
    pub fn plus(self, span: Duration) -> UnixMs {
        UnixMs(self.0.saturating_add(millis(span)))
    }

    /// This moment moved back; saturates at the ends of the range.
    #[must_use]
    pub fn minus(self, span: Duration) -> UnixMs {
        UnixMs(self.0.saturating_sub(millis(span)))
    }

    /// The span from `earlier` to this moment; zero where the clock went back.
    #[must_use]
    pub fn since(self, earlier: UnixMs) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment as RFC 3339 in UTC with milliseconds, `2026-11-30T08:05:09.120Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let days = self.0.div_euclid(86_400_000);
        let ms_of_day = self.0.rem_euclid(86_400_000);
        let (year, month, day) = civil(days);
        let (h, m) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
        let (s, ms) = (ms_of_day / 1000 % 60, ms_of_day % 1000);
        format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Year, month and day of a count of days since 1970-01-01 in the proleptic Gregorian calendar.
/// Counts in eras of 400 years that begin on 1 March, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Where time comes from. One for the daemon, another for simulations.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The calendar's time; may jump.
    fn unix(&self) -> UnixMs;
    /// A time that only grows, for deadlines.
    fn now(&self) -> Instant;
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix(&self) -> UnixMs {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixMs(millis(since))
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// The moment after which something is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// `span` from `now`.
    #[must_use]
    pub fn after(now: Instant, span: Duration) -> Deadline {
        // An Instant that overflows is decades away: thirty years stand for "practically never".
        Deadline(
            now.checked_add(span)
                .unwrap_or(now + Duration::from_secs(30 * 365 * 86_400)),
        )
    }

    /// What is left at `now`; zero when it has passed.
    #[must_use]
    pub fn left(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }

    /// Whether it has passed at `now`.
    #[must_use]
    pub fn passed(self, now: Instant) -> bool {
        self.left(now).is_zero()
    }

    /// The nearer one of two.
    #[must_use]
    pub fn nearer(self, other: Deadline) -> Deadline {
        self.min(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_799_999, "2024-02-28T23:59:59.999Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(UnixMs(ms).rfc3339(), text);
        }
    }

    #[test]
    fn a_clock_that_went_back_gives_no_span() {
        assert_eq!(UnixMs(5).since(UnixMs(9)), Duration::ZERO);
        assert_eq!(
            UnixMs(i64::MAX).plus(Duration::from_secs(1)),
            UnixMs(i64::MAX)
        );
    }
}
