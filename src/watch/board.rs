//! Health of every named part, as readiness, status and pages show it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::base::clock::UnixMs;
use crate::base::sync::lock;
use crate::domain::ids::{BrainName, ChannelName};

/// What a channel is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelState {
    /// Not yet connected for the first time.
    Starting,
    /// Taking messages.
    Connected,
    /// Without its connection, trying again.
    Reconnecting,
    /// Another program uses its token.
    Conflict,
    /// A person must act.
    Failed,
    /// Stopped by Korvun.
    Stopped,
}

impl ChannelState {
    /// All of them.
    pub const ALL: [ChannelState; 6] = [
        ChannelState::Starting,
        ChannelState::Connected,
        ChannelState::Reconnecting,
        ChannelState::Conflict,
        ChannelState::Failed,
        ChannelState::Stopped,
    ];

    /// The word in API and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ChannelState::Starting => "starting",
            ChannelState::Connected => "connected",
            ChannelState::Reconnecting => "reconnecting",
            ChannelState::Conflict => "conflict",
            ChannelState::Failed => "failed",
            ChannelState::Stopped => "stopped",
        }
    }
}

/// What went through a channel since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted.
    pub received: u64,
    /// Neither accepted nor answered, by rule.
    pub ignored: u64,
    /// Could not be taken.
    pub dropped: u64,
    /// Delivered.
    pub sent: u64,
    /// Given up.
    pub failed: u64,
}

/// A channel's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelHealth {
    /// What it is doing.
    pub state: ChannelState,
    /// Since when.
    pub since: UnixMs,
    /// What went wrong last, in words for the operator.
    pub last_error: Option<String>,
    /// What went through.
    pub counts: Counts,
}

/// A model's health, by its last attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelState {
    /// Never asked.
    Unknown,
    /// Answered.
    Ok,
    /// Failed.
    Failing,
}

impl ModelState {
    /// The word in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ModelState::Unknown => "unknown",
            ModelState::Ok => "ok",
            ModelState::Failing => "failing",
        }
    }
}

#[derive(Debug, Default)]
struct Parts {
    channels: BTreeMap<ChannelName, ChannelHealth>,
    models: BTreeMap<(BrainName, usize), ModelState>,
}

/// The board. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    parts: Mutex<Parts>,
    /// Rung when a channel's state changes.
    changed: Condvar,
}

impl Board {
    /// An empty one.
    #[must_use]
    pub fn new() -> Board {
        Board::default()
    }

    /// Sets a channel's state and returns the one before; `None` when it is new here. The last
    /// error stays until another replaces it or the channel connects.
    pub fn set_channel_state(
        &self,
        channel: &ChannelName,
        state: ChannelState,
        error: Option<&str>,
        now: UnixMs,
    ) -> Option<ChannelState> {
        let mut parts = lock(&self.0.parts);
        let before = parts.channels.get(channel).map(|health| health.state);
        let health = parts
            .channels
            .entry(channel.clone())
            .or_insert_with(|| ChannelHealth {
                state,
                since: now,
                last_error: None,
                counts: Counts::default(),
            });
        if health.state != state {
            health.state = state;
            health.since = now;
        }
        match error {
            Some(text) => health.last_error = Some(text.to_owned()),
            None if state == ChannelState::Connected => health.last_error = None,
            None => {}
        }
        drop(parts);
        self.0.changed.notify_all();
        before
    }

    /// Waits until no channel is starting, for `span` at most, and says whether that is so.
    ///
    /// Blocks: for `span` at most.
    #[must_use]
    pub fn settled(&self, span: Duration) -> bool {
        let starting = |parts: &mut Parts| {
            let mut all = parts.channels.values();
            all.any(|health| health.state == ChannelState::Starting)
        };
        let parts = lock(&self.0.parts);
        let waited = self.0.changed.wait_timeout_while(parts, span, starting);
        let (parts, late) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(parts);
        !late.timed_out()
    }

    /// Counts something that went through a channel the board knows.
    pub fn count(&self, channel: &ChannelName, change: impl FnOnce(&mut Counts)) {
        if let Some(health) = lock(&self.0.parts).channels.get_mut(channel) {
            change(&mut health.counts);
        }
    }

    /// A channel's health.
    #[must_use]
    pub fn channel(&self, channel: &ChannelName) -> Option<ChannelHealth> {
        lock(&self.0.parts).channels.get(channel).cloned()
    }

    /// Notes how the last attempt at a model of a brain went.
    pub fn set_model(&self, brain: &BrainName, index: usize, state: ModelState) {
        lock(&self.0.parts)
            .models
            .insert((brain.clone(), index), state);
    }

    /// A model's health.
    #[must_use]
    pub fn model(&self, brain: &BrainName, index: usize) -> ModelState {
        let parts = lock(&self.0.parts);
        parts
            .models
            .get(&(brain.clone(), index))
            .copied()
            .unwrap_or(ModelState::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_until_the_channel_connects() {
        let (board, webhook) = (Board::new(), ChannelName::new("webhook"));
        assert_eq!(
            board.set_channel_state(&webhook, ChannelState::Starting, None, UnixMs(1)),
            None
        );
        board.set_channel_state(
            &webhook,
            ChannelState::Reconnecting,
            Some("no route"),
            UnixMs(2),
        );
        board.set_channel_state(&webhook, ChannelState::Reconnecting, None, UnixMs(3));
        let health = board.channel(&webhook).expect("known");
        assert_eq!(
            (health.since, health.last_error.as_deref()),
            (UnixMs(2), Some("no route"))
        );
        board.set_channel_state(&webhook, ChannelState::Connected, None, UnixMs(4));
        assert_eq!(board.channel(&webhook).expect("known").last_error, None);
    }

    #[test]
    fn the_board_is_settled_once_no_channel_is_starting() {
        let (board, at) = (Board::new(), UnixMs(0));
        let (console, webhook) = (ChannelName::new("console"), ChannelName::new("webhook"));
        board.set_channel_state(&console, ChannelState::Connected, None, at);
        assert!(board.settled(Duration::ZERO));
        board.set_channel_state(&webhook, ChannelState::Starting, None, at);
        assert!(!board.settled(Duration::ZERO));
        let theirs = board.clone();
        let waiting = std::thread::spawn(move || theirs.settled(Duration::from_secs(60)));
        board.set_channel_state(&webhook, ChannelState::Failed, Some("refused"), at);
        assert!(waiting.join().expect("no panic"));
    }

    #[test]
    fn what_a_channel_did_is_counted_once_it_is_known() {
        let (board, console) = (Board::new(), ChannelName::new("console"));
        board.count(&console, |counts| counts.sent += 1);
        assert_eq!(board.channel(&console), None);
        board.set_channel_state(&console, ChannelState::Connected, None, UnixMs(0));
        board.count(&console, |counts| counts.sent += 1);
        assert_eq!(board.channel(&console).expect("known").counts.sent, 1);
    }
}
