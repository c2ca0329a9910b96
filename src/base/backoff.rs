//! How long to wait before the next try: doubling, capped, with jitter.

use std::time::Duration;

/// The shape of a series of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait, before jitter.
    pub first: Duration,
    /// No wait is longer.
    pub most: Duration,
}

impl Backoff {
    /// The wait before try number `attempt` (the first retry is 1). `random` is uniform over the
    /// whole range of `u32` and spreads the wait over its upper half, so that many callers that
    /// failed together do not come back together.
    #[must_use]
    pub fn wait(self, attempt: u32, random: u32) -> Duration {
        let doubled = self.first.saturating_mul(
            1_u32
                .checked_shl(attempt.saturating_sub(1).min(31))
                .unwrap_or(u32::MAX),
        );
        let full = doubled.min(self.most);
        let half = full / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_jitter_stays_in_the_upper_half() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            most: Duration::from_secs(60),
        };
        for (attempt, full) in [
            (1, 1),
            (2, 2),
            (3, 4),
            (6, 32),
            (7, 60),
            (4_000_000_000, 60),
        ] {
            assert_eq!(
                backoff.wait(attempt, u32::MAX),
                Duration::from_secs(full),
                "attempt {attempt}"
            );
            assert_eq!(
                backoff.wait(attempt, 0),
                Duration::from_secs(full) / 2,
                "attempt {attempt}"
            );
        }
    }
}
