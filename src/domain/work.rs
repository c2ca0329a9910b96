//! The work on one message, at its two ends: what is done first with a message that was claimed, and
//! what becomes of it and of its conversation when the work is over. Pure; run threads perform it.
//! Must never leave a message in work that nobody works on, nor give an attempt back twice.

use std::time::Duration;

use super::excuse::Excuse;
use super::lanes::After;
use super::limits::Limits;
use crate::base::backoff::Backoff;

/// Between tries to write what the store refuses: a full disk is cleared by a person.
pub const STORE_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    most: Duration::from_secs(30),
};

/// What is known of a message that was claimed.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// What was said.
    pub text: &'a str,
    /// The kind of thing beside or instead of text that cannot be read.
    pub attachment: Option<&'a str>,
    /// Whether it got no place in time.
    pub overdue: bool,
    /// Whether it was said to a private brain and a public one would have it now.
    pub moved: bool,
}

/// What is done first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Its brain is asked.
    Ask,
    /// It is not: this is said instead.
    Excuse(Excuse),
}

/// Decides what is done first with a message.
#[must_use]
pub fn first(facts: &Facts<'_>, limits: &Limits) -> First {
    if facts.attempt > limits.attempts {
        return First::Excuse(Excuse::SetAside);
    }
    if let (true, Some(kind)) = (facts.text.trim().is_empty(), facts.attachment) {
        let kind = kind.to_owned();
        return First::Excuse(Excuse::CannotRead { kind });
    }
    if facts.overdue {
        return First::Excuse(Excuse::TooLate);
    }
    match facts.moved {
        true => First::Excuse(Excuse::Moved),
        false => First::Ask,
    }
}

/// How the work is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// There was nothing to claim.
    Nothing,
    /// The store refused the claim.
    Unclaimed,
    /// Its ending is stored; so many unfinished messages of its conversation are left.
    Stored {
        /// How many.
        waiting: u32,
    },
    /// It had ended before: an earlier try was stored though its confirmation was lost, its user has
    /// stopped it, or the message is gone.
    Before,
    /// Its ending could not be stored for as long as the process went on.
    Held,
    /// A stop that was asked for has cut it.
    Cut(Attempt),
    /// A fault of Korvun's own has ended it.
    Failed,
}

/// Whether the stop has given the attempts of all that was in work back already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Not this one.
    Counted,
    /// This one too.
    Forgiven,
}

/// Whether the process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// It does.
    GoesOn,
    /// It does not.
    Stops,
}

/// What becomes of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// It stays as it is in the store.
    Stays,
    /// It waits for another attempt; this one stays counted.
    PutBack,
    /// It waits as before this attempt.
    GiveBack,
}

/// What is done last: with the message, then with its conversation.
#[must_use]
pub fn last(over: Over, process: Process) -> (Message, After) {
    let unless_stopped = match process {
        Process::GoesOn => After::Waiting,
        Process::Stops => After::Idle,
    };
    match over {
        Over::Nothing | Over::Stored { waiting: 0 } => (Message::Stays, After::Idle),
        Over::Stored { .. } | Over::Before => (Message::Stays, After::Waiting),
        Over::Unclaimed => (Message::Stays, unless_stopped),
        // It stays claimed; the next start takes it up again.
        Over::Held => (Message::Stays, After::Idle),
        Over::Cut(Attempt::Counted) => (Message::GiveBack, After::Idle),
        Over::Cut(Attempt::Forgiven) => (Message::PutBack, After::Idle),
        Over::Failed => (Message::PutBack, unless_stopped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thing_that_speaks_against_asking_is_said() {
        let sound = Facts {
            attempt: 3,
            text: "hello",
            attachment: None,
            overdue: false,
            moved: false,
        };
        let unread = Excuse::CannotRead {
            kind: "photo".into(),
        };
        let photo = Some("photo");
        let excuse = First::Excuse;
        for (facts, what) in [
            (sound, First::Ask),
            (
                Facts {
                    attachment: photo,
                    ..sound
                },
                First::Ask,
            ),
            (Facts { text: " ", ..sound }, First::Ask),
            (
                Facts {
                    attempt: 4,
                    overdue: true,
                    ..sound
                },
                excuse(Excuse::SetAside),
            ),
            (
                Facts {
                    text: " ",
                    attachment: photo,
                    overdue: true,
                    ..sound
                },
                excuse(unread),
            ),
            (
                Facts {
                    overdue: true,
                    moved: true,
                    ..sound
                },
                excuse(Excuse::TooLate),
            ),
            (
                Facts {
                    moved: true,
                    ..sound
                },
                excuse(Excuse::Moved),
            ),
        ] {
            assert_eq!(first(&facts, &Limits::default()), what, "{facts:?}");
        }
    }

    #[test]
    fn no_end_forgets_a_message_or_gives_an_attempt_back_twice() {
        use Message::{GiveBack, PutBack, Stays};
        use Process::{GoesOn, Stops};
        for (over, process, message, after) in [
            (Over::Nothing, GoesOn, Stays, After::Idle),
            (Over::Unclaimed, GoesOn, Stays, After::Waiting),
            (Over::Unclaimed, Stops, Stays, After::Idle),
            (Over::Stored { waiting: 0 }, GoesOn, Stays, After::Idle),
            (Over::Stored { waiting: 1 }, GoesOn, Stays, After::Waiting),
            (Over::Before, GoesOn, Stays, After::Waiting),
            (Over::Held, Stops, Stays, After::Idle),
            (Over::Cut(Attempt::Counted), Stops, GiveBack, After::Idle),
            (Over::Cut(Attempt::Forgiven), Stops, PutBack, After::Idle),
            (Over::Failed, GoesOn, PutBack, After::Waiting),
            (Over::Failed, Stops, PutBack, After::Idle),
        ] {
            assert_eq!(
                last(over, process),
                (message, after),
                "{over:?} {process:?}"
            );
        }
    }
}
