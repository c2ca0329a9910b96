//! Tells systemd how the daemon is: datagrams to the socket named in `NOTIFY_SOCKET`
//! (`sd_notify(3)`). Without that variable nothing is sent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The line to systemd.
#[derive(Debug)]
pub struct Notify {
    line: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` through `variable`; `own_pid` is
    /// this process.
    #[must_use]
    pub fn new(variable: &dyn Fn(&str) -> Option<std::ffi::OsString>, own_pid: u32) -> Notify {
        let line = variable("NOTIFY_SOCKET").and_then(|name| {
            let address = address(&name)?;
            let socket = UnixDatagram::unbound().ok()?;
            // A full queue at systemd must not hold up the daemon.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
        let ours =
            variable("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(own_pid.into());
        let watchdog = number("WATCHDOG_USEC").filter(|usec| ours && *usec > 0);
        Notify {
            line,
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    /// How often systemd wants a sign of life: half of its limit. `None` when it wants none.
    #[must_use]
    pub fn sign_of_life_every(&self) -> Option<Duration> {
        self.line.as_ref().and(self.watchdog).map(|limit| limit / 2)
    }

    /// The daemon is ready.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The daemon is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// The daemon is alive.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.line {
            if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
                log::debug!(error = error.to_string().as_str(); "cannot notify systemd");
            }
        }
    }
}

/// A leading `@` names an abstract address.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_told_at_the_address_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::new(
            &|name| match name {
                "NOTIFY_SOCKET" => Some(path.clone().into()),
                "WATCHDOG_USEC" => Some("30000000".into()),
                _ => None,
            },
            7,
        );
        assert_eq!(notify.sign_of_life_every(), Some(Duration::from_secs(15)));
        notify.ready("2 channels");
        let mut buffer = [0; 64];
        let read = systemd.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..read], b"READY=1\nSTATUS=2 channels");
    }

    #[test]
    fn another_process_s_watchdog_is_not_ours_and_no_socket_is_silence() {
        let notify = Notify::new(
            &|name| match name {
                "NOTIFY_SOCKET" => Some("@korvun-test".into()),
                "WATCHDOG_USEC" => Some("30000000".into()),
                "WATCHDOG_PID" => Some("8".into()),
                _ => None,
            },
            7,
        );
        assert_eq!(notify.sign_of_life_every(), None);
        Notify::new(&|_| None, 7).ready("nobody hears this");
    }
}
