//! Which failures are tried again, and after how long: one pure decision and the loop around it.
//! Runs on the thread that asks; never tries again after an attempt's own deadline, because a cold
//! model would start loading from the beginning.

use std::time::Duration;

use super::Provider;
use crate::base::backoff::Backoff;
use crate::base::clock::{Clock, Deadline};
use crate::base::random;
use crate::domain::brain::Model;
use crate::domain::completion::{Completion, Failure, FailureKind, Lane, Prompt};
use crate::net::cancel::Cancel;

/// Waits between tries where the provider names none.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(20),
};

/// One finished attempt, for those who count.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// How long it took.
    pub elapsed: Duration,
    /// How it failed, if it did.
    pub failure: Option<&'a Failure>,
    /// Whether another one follows.
    pub will_retry: bool,
}

/// Whether a failure may heal by trying again: a connection, 408, 5xx, 429 with a rate. An untrusted
/// certificate does not heal, but costs nothing to try and comes under `connect`.
fn heals(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Connect | FailureKind::Rate => true,
        FailureKind::Status => matches!(failure.status, Some(408 | 500..=599)),
        FailureKind::Timeout
        | FailureKind::Quota
        | FailureKind::Auth
        | FailureKind::Body
        | FailureKind::Empty
        | FailureKind::Refused
        | FailureKind::Shield
        | FailureKind::ToolsUnsupported
        | FailureKind::Cancelled => false,
    }
}

/// How long to wait before the next try; `None` where there is none. `tried` counts the tries so
/// far, `left` is the time until the answer must be there, `random` spreads the waits that no
/// provider asks for. (One that asks for more than `limits.retry_after_most` reports a quota.)
#[must_use]
pub fn wait_before_next(
    failure: &Failure,
    tried: u32,
    max_retries: u32,
    left: Duration,
    random: u32,
) -> Option<Duration> {
    if tried > max_retries || !heals(failure) {
        return None;
    }
    let wait = failure
        .retry_after
        .unwrap_or_else(|| BACKOFF.wait(tried, random));
    (wait < left).then_some(wait)
}

/// Asks until there is an answer, a failure that does not heal, or no try left. Each attempt ends
/// after the model's `request_timeout`, all of them at `deadline`.
///
/// Blocks: until `deadline` at most, or until `cancel` is raised.
///
/// # Errors
/// The last attempt's failure; `Cancelled` where that was the reason to stop.
pub fn ask(
    provider: &dyn Provider,
    model: &Model,
    prompt: &Prompt,
    deadline: Deadline,
    cancel: &Cancel,
    clock: &dyn Clock,
    report: &mut dyn FnMut(&Attempt<'_>),
) -> Result<Completion, Failure> {
    let chat = |ends| provider.chat(prompt, ends, cancel);
    attempts(model, deadline, cancel, clock, report, chat)
}

/// Finds out how the model is told of tools, as [`ask`] asks.
///
/// Blocks: as [`ask`].
///
/// # Errors
/// As [`ask`].
pub fn lane(
    provider: &dyn Provider,
    model: &Model,
    deadline: Deadline,
    cancel: &Cancel,
    clock: &dyn Clock,
    report: &mut dyn FnMut(&Attempt<'_>),
) -> Result<Lane, Failure> {
    let look = |ends| provider.lane(ends, cancel);
    // Most often nobody is asked: only what went wrong was an attempt.
    let report = &mut |attempt: &Attempt<'_>| {
        if attempt.failure.is_some() {
            report(attempt);
        }
    };
    attempts(model, deadline, cancel, clock, report, look)
}

fn attempts<T>(
    model: &Model,
    deadline: Deadline,
    cancel: &Cancel,
    clock: &dyn Clock,
    report: &mut dyn FnMut(&Attempt<'_>),
    attempt: impl Fn(Deadline) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut tried = 0;
    loop {
        tried += 1;
        let began = clock.now();
        let attempt_ends = Deadline::after(began, model.request_timeout).nearer(deadline);
        let result = attempt(attempt_ends);
        let now = clock.now();
        let elapsed = now.saturating_duration_since(began);
        let failure = match result {
            Ok(completion) => {
                report(&Attempt {
                    elapsed,
                    failure: None,
                    will_retry: false,
                });
                return Ok(completion);
            }
            Err(failure) => failure,
        };
        let wait = wait_before_next(
            &failure,
            tried,
            model.max_retries,
            deadline.left(now),
            random::number(),
        );
        report(&Attempt {
            elapsed,
            failure: Some(&failure),
            will_retry: wait.is_some(),
        });
        match wait {
            None => return Err(failure),
            Some(wait) if cancel.wait(wait) => {
                return Err(Failure::new(
                    FailureKind::Cancelled,
                    "given up while waiting for the next try",
                ))
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, status: Option<u16>, retry_after: Option<u64>) -> Failure {
        Failure {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            ..Failure::new(kind, "x")
        }
    }

    #[test]
    fn only_what_can_heal_is_tried_again() {
        use FailureKind as K;
        for (kind, status, heals) in [
            (K::Connect, None, true),
            (K::Rate, Some(429), true),
            (K::Status, Some(408), true),
            (K::Status, Some(500), true),
            (K::Status, Some(503), true),
            (K::Status, Some(599), true),
            (K::Status, Some(400), false),
            (K::Status, Some(404), false),
            (K::Status, None, false),
            (K::Timeout, None, false),
            (K::Quota, Some(429), false),
            (K::Auth, Some(401), false),
            (K::Body, None, false),
            (K::Empty, None, false),
            (K::Refused, Some(302), false),
            (K::Shield, None, false),
            (K::ToolsUnsupported, Some(400), false),
            (K::Cancelled, None, false),
        ] {
            let wait = wait_before_next(
                &failure(kind, status, None),
                1,
                2,
                Duration::from_secs(100),
                u32::MAX,
            );
            let expected = heals.then_some(Duration::from_secs(1));
            assert_eq!(wait, expected, "{kind:?} {status:?}");
        }
    }

    #[test]
    fn waits_are_the_providers_or_grow_and_stay_within_the_time_left() {
        for (asked, tried, retries, left, wait) in [
            (None, 1, 0, 100, None),
            (None, 1, 1, 100, Some(1)),
            (None, 2, 1, 100, None),
            (None, 3, 9, 100, Some(4)),
            (None, 9, 9, 100, Some(20)),
            (None, 9, 9, 20, None),
            (Some(0), 1, 1, 100, Some(0)),
            (Some(60), 1, 1, 100, Some(60)),
            (Some(60), 1, 1, 60, None),
        ] {
            let got = wait_before_next(
                &failure(FailureKind::Rate, Some(429), asked),
                tried,
                retries,
                Duration::from_secs(left),
                u32::MAX,
            );
            assert_eq!(
                got,
                wait.map(Duration::from_secs),
                "{asked:?} {tried} {retries} {left}"
            );
        }
    }
}
