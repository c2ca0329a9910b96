//! The bearer door: who may come in by `Authorization: Bearer`, and how often wrong secrets are
//! looked at. A right secret is never delayed, and nothing sleeps. Called on connection threads.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::secret::Secret;
use crate::base::sync::lock;
use crate::domain::limits::Limits;

/// The span over which wrong secrets are counted (contract 7).
const SPAN: Duration = Duration::from_secs(60);

/// What a caller meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The right secret.
    Open,
    /// No secret.
    Missing,
    /// A wrong secret, or another scheme.
    Wrong,
    /// A wrong secret after too many others.
    TooMany,
}

/// One door, with a count of its own over all addresses.
#[derive(Debug)]
pub struct Door {
    wrong: Mutex<VecDeque<Instant>>,
    most: usize,
}

impl Door {
    /// A door that looks at `limits.auth_failures` wrong secrets in any minute.
    #[must_use]
    pub fn new(limits: &Limits) -> Door {
        Door {
            wrong: Mutex::default(),
            most: limits.auth_failures as usize,
        }
    }

    /// Judges the `Authorization` of one request at `now`. A missing one is not counted, any other
    /// that is not the right one is.
    #[must_use]
    pub fn knock(&self, authorization: Option<&[u8]>, secret: &Secret, now: Instant) -> Entry {
        let Some(value) = authorization else {
            return Entry::Missing;
        };
        if token(value).is_some_and(|token| secret.matches(token)) {
            return Entry::Open;
        }
        let mut wrong = lock(&self.wrong);
        while wrong
            .front()
            .is_some_and(|at| now.saturating_duration_since(*at) >= SPAN)
        {
            wrong.pop_front();
        }
        if wrong.len() >= self.most {
            return Entry::TooMany;
        }
        wrong.push_back(now);
        Entry::Wrong
    }
}

/// The token of `Bearer TOKEN`; the scheme's case does not matter (RFC 9110 section 11.1).
fn token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_secret_opens_whatever_came_before() {
        let (door, now) = (Door::new(&Limits::default()), Instant::now());
        let secret = Secret::new("right");
        for _ in 0..10 {
            assert_eq!(
                door.knock(Some(b"Bearer wrong"), &secret, now),
                Entry::Wrong
            );
        }
        assert_eq!(
            door.knock(Some(b"Bearer wrong"), &secret, now),
            Entry::TooMany
        );
        assert_eq!(door.knock(Some(b"bearer right"), &secret, now), Entry::Open);
        assert_eq!(door.knock(None, &secret, now), Entry::Missing);
        let later = now + SPAN;
        assert_eq!(
            door.knock(Some(b"Basic right"), &secret, later),
            Entry::Wrong
        );
    }

    #[test]
    fn only_bearer_counts_as_a_token() {
        for (value, found) in [
            (&b"Bearer x"[..], Some(&b"x"[..])),
            (b"BEARER  x ", Some(b"x")),
            (b"Bearer", None),
            (b"Basic xxxx", None),
            (b"Bearerx", None),
            (b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8", None),
        ] {
            assert_eq!(token(value), found);
        }
    }
}
