//! The thread `signal`: turns signals into orders. Does nothing else.

use std::sync::mpsc::Sender;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::base::sync::spawn;

use super::Order;

/// Starts listening. SIGTERM and SIGINT become [`Order::Stop`], SIGHUP becomes [`Order::Reload`].
///
/// # Errors
/// The operating system's, when handlers or the thread cannot be had.
pub fn listen(orders: Sender<Order>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    spawn("signal", 64 * 1024, move || {
        for signal in signals.forever() {
            let order = if signal == SIGHUP {
                Order::Reload
            } else {
                Order::Stop
            };
            if orders.send(order).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
