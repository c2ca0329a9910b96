//! The thread `janitor`: clears what has had its time. Never touches what is unfinished.

use std::time::Duration;

use crate::base::clock::Clock;
use crate::base::sync::Stop;
use crate::store::Store;
use crate::watch::{metrics, Watch};

/// Between two rounds: rows are kept for days, so minutes more do not matter.
const ROUND: Duration = Duration::from_secs(300);

/// Goes round until `stop` is raised.
///
/// Blocks: until then.
pub fn work(store: &Store, watch: &Watch, clock: &dyn Clock, retention_days: u32, stop: &Stop) {
    loop {
        let now = clock.unix();
        let swept = store.sweep().and_then(|_| match retention_days {
            0 => Ok(0),
            days => store.expire(now.minus(Duration::from_secs(u64::from(days) * 86_400))),
        });
        if let Err(error) = swept {
            log::warn!(error = error.to_string().as_str(); "cannot clear old rows from the store");
        }
        watch
            .metrics
            .set(&metrics::STORE_BYTES, &[], store.bytes() as f64);
        if stop.wait(ROUND) {
            return;
        }
    }
}
