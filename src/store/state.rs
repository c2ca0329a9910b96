//! Where a message stands, from its acceptance to the one thing it ends in. Pure.

use crate::domain::message::Outcome;

/// Where a message stands. The numbers are stored; those up to 1 are unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Accepted, not begun.
    Waiting = 0,
    /// A run works on it.
    Working = 1,
    /// Ended in an answer or an acknowledgement.
    Answered = 2,
    /// Ended in an honest sentence.
    Excused = 3,
    /// Kept for the operator.
    Operator = 4,
    /// Cancelled by the user.
    Cancelled = 5,
    /// Given up after too many attempts.
    SetAside = 6,
}

impl State {
    /// The word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "queued",
            State::Working => "working",
            State::Answered => Outcome::Answered.word(),
            State::Excused => Outcome::Excused.word(),
            State::Operator => Outcome::Operator.word(),
            State::Cancelled => Outcome::Cancelled.word(),
            State::SetAside => Outcome::SetAside.word(),
        }
    }

    /// Whether something is still to come.
    #[must_use]
    pub fn open(self) -> bool {
        matches!(self, State::Waiting | State::Working)
    }

    pub(super) fn of_number(number: i64) -> State {
        match number {
            0 => State::Waiting,
            1 => State::Working,
            2 => State::Answered,
            3 => State::Excused,
            4 => State::Operator,
            5 => State::Cancelled,
            _ => State::SetAside,
        }
    }
}

impl From<Outcome> for State {
    fn from(outcome: Outcome) -> State {
        match outcome {
            Outcome::Answered => State::Answered,
            Outcome::Excused => State::Excused,
            Outcome::Operator => State::Operator,
            Outcome::Cancelled => State::Cancelled,
            Outcome::SetAside => State::SetAside,
        }
    }
}
