//! The thread `signal`: turns signals into orders for the main thread; a second request to stop
//! ends the process at once.

use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::base::sync::spawn;

use super::Order;

/// Starts listening. SIGTERM and SIGINT become [`Order::Stop`], SIGHUP becomes [`Order::Reload`].
/// The second SIGTERM or SIGINT exits with 1: whoever asks twice does not want to wait for a drain.
///
/// # Errors
/// The operating system's, when handlers or the thread cannot be had.
pub fn listen(orders: Sender<Order>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    spawn("signal", 64 * 1024, move || {
        let mut stopping = false;
        for signal in signals.forever() {
            if signal != SIGHUP && stopping {
                log::warn!("stopped at once by a second signal");
                std::process::exit(1);
            }
            stopping |= signal != SIGHUP;
            let order = if signal == SIGHUP {
                Order::Reload
            } else {
                Order::Stop
            };
            // Nobody listens any more: the daemon is on its way out, a second signal still counts.
            let _ = orders.send(order);
        }
    })?;
    Ok(())
}
