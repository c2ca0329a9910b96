//! The thread `janitor`: clears what has had its time, and takes up what was left lying. Never
//! touches what is unfinished.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::sync::Stop;
use crate::store::{Store, StoreError};

use super::Engine;

/// Between two rounds: what a hanging store committed behind its caller's back waits this long.
const ROUND: Duration = Duration::from_secs(60);
/// Rounds between two sweeps: rows are kept for days, and each sweep costs an SD card some writes.
const ROUNDS_PER_SWEEP: u32 = 10;

/// What the janitor looks after.
pub struct Janitor {
    /// Whose messages are taken up.
    pub engine: Engine,
    /// Whose rows are cleared.
    pub store: Arc<Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Days that messages are kept; 0 keeps them.
    pub retention_days: u32,
}

impl Janitor {
    /// Goes round until `stop` is raised.
    ///
    /// Blocks: until then.
    pub fn work(&self, stop: &Stop) {
        let mut round: u32 = 0;
        loop {
            if round % ROUNDS_PER_SWEEP == 0 {
                if let Err(error) = self.sweep() {
                    log::warn!(error = error.to_string().as_str(); "cannot clear old rows from the store");
                }
            }
            if stop.wait(ROUND) {
                return;
            }
            if let Err(error) = self.engine.refill() {
                log::warn!(error = error.to_string().as_str(); "cannot look for messages left in the store");
            }
            round = round.wrapping_add(1);
        }
    }

    fn sweep(&self) -> Result<(), StoreError> {
        self.store.sweep()?;
        if self.retention_days > 0 {
            let kept = Duration::from_secs(u64::from(self.retention_days) * 86_400);
            self.store.expire(self.clock.unix().minus(kept))?;
        }
        Ok(())
    }
}
