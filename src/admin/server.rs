//! The admin server as a whole: the front on its port, tiny_http behind it, started and stopped
//! together.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::api::Api;
use super::auth::Auth;
use super::behind::Behind;
use super::guard::Guard;
use super::hosts::Hosts;
use super::route::Surface;
use super::socket::Folder;
use super::Backend;
use crate::base::clock::Clock;
use crate::base::secret::Secret;
use crate::domain::limits::Limits;
use crate::net::front::Front;
use crate::watch::metrics::Metrics;

/// How long answers in work may go on when the server stops: they wait for one commit at most.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// A character of a text takes at most so many bytes in JSON, as an escape.
const ESCAPED_BYTES: usize = 6;
/// Bytes of a console message's body around its text.
const AROUND_TEXT_BYTES: usize = 1024;

/// What the admin server is started with.
pub struct Options {
    /// Names accepted in `Host` beyond the built-in ones.
    pub allow_hosts: Vec<String>,
    /// The admin token; without it nothing that needs it is there.
    pub token: Option<Secret>,
    /// What is read and done.
    pub backend: Arc<dyn Backend>,
    /// What `/metrics` shows, and where wrong tokens are counted.
    pub metrics: Metrics,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// A private folder for the socket; a temporary one is made where there is none.
    pub runtime_dir: Option<PathBuf>,
}

/// A running admin server.
pub struct Admin {
    front: Front,
    behind: Arc<Behind>,
    threads: Vec<JoinHandle<()>>,
}

impl Admin {
    /// Begins to serve a bound listener.
    ///
    /// # Errors
    /// The Unix socket cannot be had, or the operating system refuses a thread.
    pub fn start(listener: TcpListener, options: Options, limits: &Limits) -> io::Result<Admin> {
        let Options {
            allow_hosts,
            token,
            backend,
            metrics,
            clock,
            runtime_dir,
        } = options;
        let folder = Folder::open(runtime_dir.as_deref(), &std::env::temp_dir())?;
        let behind = Arc::new(Behind::open(folder, limits.admin_threads)?);
        let surface = match token {
            Some(_) => Surface::Whole,
            None => Surface::ReadOnly,
        };
        let api = Arc::new(Api {
            backend,
            metrics: metrics.clone(),
            clock: Arc::clone(&clock),
            surface,
            text_bytes: limits.text_bytes,
        });
        let threads = behind.start(&api)?;
        let guard = Guard {
            hosts: Hosts::new(&allow_hosts),
            auth: token.map(|token| Auth::new(token, metrics, clock, limits)),
            behind: Arc::clone(&behind),
            say_bytes: limits.text_bytes * ESCAPED_BYTES + AROUND_TEXT_BYTES,
        };
        match Front::start("admin", listener, Arc::new(guard), limits) {
            Ok(front) => Ok(Admin {
                front,
                behind,
                threads,
            }),
            Err(error) => {
                behind.end(threads);
                Err(error)
            }
        }
    }

    /// The address it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.front.local_addr()
    }

    /// Closes the port, lets answers in work finish, removes the socket.
    ///
    /// Blocks: for some seconds at most.
    pub fn stop(self) {
        self.front.stop(STOP_PATIENCE);
        self.behind.end(self.threads);
    }
}
