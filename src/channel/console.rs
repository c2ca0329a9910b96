//! The operator's own chat. Messages come in through the admin API and answers are read there, so
//! that an answer is delivered the moment it is stored.

use std::sync::Arc;

use crate::domain::message::Outgoing;
use crate::net::cancel::Cancel;

use super::port::{Channel, Intake, SendFailure, StartError};

/// The console channel.
#[derive(Debug, Default)]
pub struct Console;

impl Channel for Console {
    fn start(&self, _intake: Arc<dyn Intake>) -> Result<(), StartError> {
        Ok(())
    }

    fn send(&self, _outgoing: &Outgoing, _cancel: &Cancel) -> Result<(), SendFailure> {
        Ok(())
    }

    fn stop(&self) {}
}
