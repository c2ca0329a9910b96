//! Name look-ups that a caller can walk away from. The system's resolver cannot be interrupted, so
//! each name in question gets one short-lived thread, which all who ask for it wait on; their number
//! is bounded. Never dials anything itself.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::HttpError;
use crate::base::sync::{lock, spawn};

/// Stack of a look-up thread in bytes: the C library's resolver keeps whole answers on it.
const STACK_BYTES: usize = 512 * 1024;
/// How often a waiting caller looks whether it has been given up.
const LOOK_UP_TICK: Duration = Duration::from_millis(50);

/// Where names become addresses.
pub trait Names: Send + Sync + Debug {
    /// The addresses of a name, in the order to try them.
    ///
    /// Blocks: as long as the system's resolver does; nothing can interrupt it.
    ///
    /// # Errors
    /// The resolver's own.
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver: hosts file, DNS and whatever else the machine is set up with.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut found: Vec<IpAddr> = Vec::new();
        for address in (name, 0).to_socket_addrs()?.map(|address| address.ip()) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        Ok(found)
    }
}

type Found = Result<Vec<IpAddr>, String>;

/// A look-up in progress.
#[derive(Debug, Default)]
struct Pending {
    found: Mutex<Option<Found>>,
    bell: Condvar,
}

/// Shares look-ups among all who ask for the same name at the same time.
#[derive(Debug)]
pub(super) struct LookUps {
    names: Arc<dyn Names>,
    most: usize,
    running: Mutex<HashMap<String, Arc<Pending>>>,
}

impl LookUps {
    pub(super) fn new(names: Arc<dyn Names>, most: usize) -> Arc<LookUps> {
        Arc::new(LookUps {
            names,
            most,
            running: Mutex::new(HashMap::new()),
        })
    }

    /// The addresses of a name.
    ///
    /// Blocks: until `until`, or a moment longer than until `given_up` says so.
    ///
    /// # Errors
    /// `Connect` where there is no such name, no answer in time, or no room for one more look-up.
    pub(super) fn find(
        self: &Arc<LookUps>,
        name: &str,
        until: Instant,
        given_up: impl Fn() -> bool,
    ) -> Result<Vec<IpAddr>, HttpError> {
        let pending = self.start(name)?;
        let mut found = lock(&pending.found);
        loop {
            if let Some(found) = found.as_ref() {
                return found.clone().map_err(|error| {
                    HttpError::Connect(format!("look-up of the name {name}: {error}"))
                });
            }
            if given_up() {
                return Err(HttpError::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HttpError::Connect(format!(
                    "look-up of the name {name}: no answer in time"
                )));
            }
            found = pending
                .bell
                .wait_timeout(found, left.min(LOOK_UP_TICK))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The look-up of `name` in progress, or a new one.
    fn start(self: &Arc<LookUps>, name: &str) -> Result<Arc<Pending>, HttpError> {
        let mut running = lock(&self.running);
        if let Some(pending) = running.get(name) {
            return Ok(Arc::clone(pending));
        }
        if running.len() >= self.most {
            return Err(HttpError::Connect(format!(
                "look-up of the name {name}: {} others are waiting for the resolver",
                running.len()
            )));
        }
        let pending = Arc::new(Pending::default());
        let (all, theirs, asked) = (Arc::clone(self), Arc::clone(&pending), name.to_owned());
        spawn("lookup", STACK_BYTES, move || all.work(&asked, &theirs)).map_err(|error| {
            HttpError::Connect(format!("look-up of the name {name}: no thread: {error}"))
        })?;
        running.insert(name.to_owned(), Arc::clone(&pending));
        Ok(pending)
    }

    fn work(&self, name: &str, pending: &Pending) {
        let found =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.names.addresses(name)))
                .unwrap_or_else(|_| Err(io::Error::other("the look-up panicked")))
                .map_err(|error| error.to_string());
        // First out of the list, so that a caller who comes now starts afresh.
        lock(&self.running).remove(name);
        *lock(&pending.found) = Some(found);
        pending.bell.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::Stop;

    /// Answers once it is let go.
    #[derive(Debug)]
    struct Held {
        go: Stop,
        asked: Mutex<Vec<String>>,
    }

    impl Names for Held {
        fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            lock(&self.asked).push(name.to_owned());
            let _ = self.go.wait(Duration::from_secs(60));
            Ok(vec![IpAddr::from([10, 0, 0, 1])])
        }
    }

    #[test]
    fn a_resolver_that_hangs_holds_one_thread_a_name_and_no_caller() {
        let names = Arc::new(Held {
            go: Stop::new(),
            asked: Mutex::new(Vec::new()),
        });
        let look_ups = LookUps::new(names.clone(), 2);
        let soon = || Instant::now() + Duration::from_millis(10);
        for name in ["a", "a", "b", "a"] {
            let error = look_ups.find(name, soon(), || false).unwrap_err();
            assert!(error.to_string().contains("no answer in time"), "{error}");
        }
        let error = look_ups.find("c", soon(), || false).unwrap_err();
        assert!(error.to_string().contains("2 others"), "{error}");
        let later = Instant::now() + Duration::from_secs(60);
        assert_eq!(
            look_ups.find("a", later, || true).unwrap_err(),
            HttpError::Cancelled
        );
        names.go.raise();
        let found = look_ups.find("b", later, || false).unwrap();
        assert_eq!(found, vec![IpAddr::from([10, 0, 0, 1])]);
        let mut asked = lock(&names.asked).clone();
        asked.sort();
        asked.dedup();
        assert_eq!(asked, ["a", "b"]);
    }

    #[test]
    fn the_systems_resolver_knows_this_machine() {
        let look_ups = LookUps::new(Arc::new(SystemNames), 4);
        let later = Instant::now() + Duration::from_secs(60);
        let found = look_ups.find("localhost", later, || false).unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(!found.is_empty());
    }
}
