//! Where a message stands, for those who hold its id. Reads only, on the caller's thread.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::error::StoreError;
use super::ids::{self, Known};
use super::outbox::Delivery;
use super::state::State;
use super::{turns, Store};
use crate::domain::ids::MessageId;
use crate::domain::message::Role;

/// Where a message stands, for those who ask by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageState {
    /// Where it stands.
    pub state: State,
    /// How far its answer's delivery (or its own) has come.
    pub delivery: Option<Delivery>,
    /// What was answered, as long as it is stored.
    pub answer: Option<Answer>,
}

/// The answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its own id.
    pub message_id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// The name that people see.
    pub sender_name: String,
    /// What was said.
    pub text: String,
}

fn message(
    connection: &Connection,
    epoch: &str,
    id: &MessageId,
) -> rusqlite::Result<Option<MessageState>> {
    let (state, answer) = match ids::parse(epoch, id) {
        None => return Ok(None),
        Some(Known::Outbox(row)) => {
            let found = connection
                .prepare_cached(
                    "SELECT i.state FROM outbox o LEFT JOIN inbox i ON i.id = o.inbox
                     WHERE o.id = ?1",
                )?
                .query_row([row], |columns| columns.get::<_, Option<i64>>(0))
                .optional()?;
            match found {
                None => return Ok(None),
                // What answers nothing was said by the operator.
                Some(state) => (state.map_or(State::Operator, State::of_number), Some(row)),
            }
        }
        Some(Known::Inbox(row)) => {
            let found = connection
                .prepare_cached("SELECT state, answer FROM inbox WHERE id = ?1")?
                .query_row([row], |columns| {
                    Ok((
                        State::of_number(columns.get(0)?),
                        columns.get::<_, Option<i64>>(1)?,
                    ))
                })
                .optional()?;
            match found {
                None => return Ok(None),
                Some(found) => found,
            }
        }
    };
    let said = match answer {
        None => None,
        Some(row) => connection
            .prepare_cached(
                "SELECT o.state, t.role, t.sender_name, t.text
                 FROM outbox o LEFT JOIN turns t ON t.id = o.turn WHERE o.id = ?1",
            )?
            .query_row([row], |columns| {
                let delivery = Delivery::of_number(columns.get(0)?);
                let Some(role) = columns.get_ref(1)?.as_str_or_null()? else {
                    return Ok((delivery, None));
                };
                let answer = Answer {
                    message_id: ids::outbox_id(epoch, row),
                    role: turns::role(role),
                    sender_name: columns.get(2)?,
                    text: columns.get(3)?,
                };
                Ok((delivery, Some(answer)))
            })
            .optional()?,
    };
    let (delivery, answer) = match said {
        None => (None, None),
        Some((delivery, answer)) => (Some(delivery), answer),
    };
    Ok(Some(MessageState {
        state,
        delivery,
        answer,
    }))
}

impl Store {
    /// Where a message stands; none for an id that is unknown or no longer kept.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn message(&self, id: &MessageId) -> Result<Option<MessageState>, StoreError> {
        let (facts, id) = (Arc::clone(&self.facts), id.clone());
        self.read(move |connection| message(connection, &facts.epoch, &id))
    }
}
