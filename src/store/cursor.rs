//! How far each channel has taken what its platform keeps for it. Writes run on the store's thread;
//! a message and the cursor that leaves it behind are one commit (see `inbox`).

use rusqlite::{params, OptionalExtension};

use super::error::StoreError;
use super::{Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::cursor::{Cursor, Reached, NUMBERS_LAST};
use crate::domain::ids::ChannelName;

/// Moves a cursor to where a message was taken, forwards or back.
pub(super) fn set(tx: &Tx<'_>, channel: &ChannelName, cursor: &Cursor) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO cursors(channel, account, position, at_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET position = excluded.position, at_ms = excluded.at_ms",
    )?
    .execute(params![
        channel.as_str(),
        cursor.account,
        cursor.position,
        tx.now.0
    ])
    .map(drop)
}

impl Store {
    /// How far `account` of `channel` has been taken; none where nothing is known of it.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn cursor(
        &self,
        channel: &ChannelName,
        account: &str,
    ) -> Result<Option<Reached>, StoreError> {
        let (channel, account) = (channel.clone(), account.to_owned());
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT position, at_ms FROM cursors WHERE channel = ?1 AND account = ?2",
                )?
                .query_row(params![channel.as_str(), account], |row| {
                    Ok(Reached {
                        position: row.get(0)?,
                        at: UnixMs(row.get(1)?),
                    })
                })
                .optional()
        })
    }

    /// Moves a cursor past what was passed over, with the next commit that comes along. One that
    /// is further already stays: this may be written after a later message.
    ///
    /// Blocks: as [`Store::write_later`].
    pub fn advance(&self, channel: &ChannelName, cursor: &Cursor) {
        let (channel, cursor) = (channel.clone(), cursor.clone());
        self.write_later(move |tx| {
            tx.prepare_cached(
                "INSERT INTO cursors(channel, account, position, at_ms) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET position = excluded.position, at_ms = excluded.at_ms
                 WHERE excluded.position > position OR at_ms < ?5",
            )?
            .execute(params![
                channel.as_str(),
                cursor.account,
                cursor.position,
                tx.now.0,
                tx.now.minus(NUMBERS_LAST).0
            ])
            .map(drop)
        });
    }
}
