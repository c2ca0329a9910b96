//! What a channel's listening thread says of itself: its state, what it passes over, when it waits
//! for room. Each change is one line in the log; what goes on says nothing.

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::domain::ids::ChannelName;
use crate::domain::limits::Limits;
use crate::watch::board::ChannelState;
use crate::watch::{Ignored, Watch};

use super::port::Refusal;
use super::strangers::Strangers;

/// The reports of one channel.
pub(super) struct Reports {
    channel: ChannelName,
    watch: Watch,
    clock: Arc<dyn Clock>,
    state: Option<ChannelState>,
    strangers: Strangers,
    /// Whether there was no room for the last message.
    full: bool,
}

impl Reports {
    /// Nothing said yet.
    pub(super) fn new(
        channel: &ChannelName,
        watch: &Watch,
        clock: &Arc<dyn Clock>,
        limits: &Limits,
    ) -> Reports {
        Reports {
            channel: channel.clone(),
            watch: watch.clone(),
            clock: clock.clone(),
            state: None,
            strangers: Strangers::new(limits.stranger_again, limits.strangers_known),
            full: false,
        }
    }

    /// The state, and for a failing one the cause.
    pub(super) fn state(&mut self, state: ChannelState, why: Option<&str>) {
        self.watch.channel_state(&self.channel, state, why);
        if self.state.replace(state) == Some(state) {
            return;
        }
        let (channel, why) = (self.channel.as_str(), why.unwrap_or_default());
        match state {
            ChannelState::Failed => {
                log::error!(channel = channel, error = why; "channel failed, the rest runs on");
            }
            ChannelState::Connected => log::info!(channel = channel; "channel connected"),
            state => {
                log::warn!(channel = channel, state = state.word(), error = why; "channel without its connection, trying again");
            }
        }
    }

    /// Something is passed over. A `sender` whom `allow_from` leaves out is named once in a while,
    /// so that the id can be copied.
    pub(super) fn ignored(&mut self, reason: Ignored, sender: Option<&str>) {
        self.watch.ignored(&self.channel, reason);
        let now = self.clock.now();
        if let Some(sender) = sender.filter(|sender| self.strangers.names(sender, now)) {
            log::info!(channel = self.channel.as_str(), sender = sender; "a sender who is not in allow_from was ignored");
        }
    }

    /// There is no room for a message.
    pub(super) fn full(&mut self, refusal: Refusal) {
        if !std::mem::replace(&mut self.full, true) {
            log::warn!(channel = self.channel.as_str(), reason = refusal.why(); "messages stay with the platform until there is room");
        }
    }

    /// There is room again.
    pub(super) fn room(&mut self) {
        self.full = false;
    }
}
