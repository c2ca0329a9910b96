//! The operator's own chat. Messages come in through the admin API and answers are read there, so
//! that an answer is delivered the moment it is stored.

use std::sync::Arc;

use crate::domain::ids::ChannelName;
use crate::domain::message::Outgoing;
use crate::net::cancel::Cancel;
use crate::watch::board::ChannelState;
use crate::watch::Watch;

use super::port::{Channel, Intake, SendFailure, StartError};

/// The console channel.
#[derive(Debug)]
pub struct Console {
    /// Its name.
    pub name: ChannelName,
    /// Where it reports.
    pub watch: Watch,
}

impl Channel for Console {
    fn start(&self, _intake: Arc<dyn Intake>) -> Result<(), StartError> {
        self.watch
            .channel_state(&self.name, ChannelState::Connected, None);
        Ok(())
    }

    fn send(
        &self,
        _outgoing: &Outgoing,
        _confirmed: &dyn Fn(u32),
        _cancel: &Cancel,
    ) -> Result<(), SendFailure> {
        Ok(())
    }

    fn stop(&self) {}
}
