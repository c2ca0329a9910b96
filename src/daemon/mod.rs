//! The whole daemon: what is opened in which order, and closed in which order, on one screen.

pub mod assemble;
pub mod desk;
pub mod load;
pub mod notify;
pub mod preflight;
pub mod signal;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::admin::server::{self, Admin};
use crate::base::clock::Clock;
use crate::base::sync::{spawn, Stop};
use crate::config::plan::{Plan, Storage};
use crate::config::secrets::Secrets;
use crate::domain::ids::BrainName;
use crate::domain::limits::Limits;
use crate::domain::skill::Skill;
use crate::engine::janitor::Janitor;
use crate::engine::Engine;
use crate::net::http::Wire;
use crate::store::{Place, Store};
use crate::tool::Forbidden;
use crate::watch::board::ChannelState;
use crate::watch::Watch;

use assemble::Writing;
use desk::Desk;
use notify::Notify;

/// The stack of threads that wait most of the time and do little when they wake.
const SMALL_STACK: usize = 128 * 1024;

/// How long a hurried stop may take: every message that is in work is given back in one commit.
const HURRY_MOST: Duration = Duration::from_secs(3);

/// What the main thread is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Drain and stop.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// What a daemon is started with. Clock, limits and wire enter by value.
pub struct Options {
    /// What to run.
    pub plan: Plan,
    /// The values of its secrets.
    pub secrets: Secrets,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Every maximum.
    pub limits: Limits,
    /// The way out.
    pub wire: Wire,
    /// The line to systemd.
    pub notify: Notify,
    /// The skills of the brains that have some.
    pub skills: BTreeMap<BrainName, Vec<Skill>>,
    /// What no tool may read.
    pub forbidden: Forbidden,
    /// A private folder for sockets; a temporary one is made where there is none.
    pub runtime_dir: Option<PathBuf>,
}

/// Why a daemon did not start: everything outside the configuration file.
#[derive(Debug)]
pub struct StartError {
    /// What was attempted, on what, and what would help.
    pub message: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StartError {}

fn start_error(message: impl fmt::Display) -> StartError {
    StartError {
        message: message.to_string(),
    }
}

/// How a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Drained. What storage keeps for the next start is not abandoned.
    Stopped,
    /// Messages were left that no storage keeps.
    Abandoned,
    /// A second signal cut the drain short; what storage keeps goes on at the next start.
    Hurried,
}

/// A running daemon.
pub struct Daemon {
    engine: Engine,
    store: Arc<Store>,
    watch: Watch,
    admin: Option<Admin>,
    notify: Arc<Notify>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    stop: Stop,
    threads: Vec<JoinHandle<()>>,
}

impl Daemon {
    /// Starts everything: store, engine, admin server, channels.
    ///
    /// # Errors
    /// A [`StartError`] naming what could not be had; nothing is left running then.
    pub fn start(options: Options) -> Result<Daemon, StartError> {
        let Options {
            plan,
            secrets,
            clock,
            limits,
            wire,
            notify,
            skills,
            forbidden,
            runtime_dir,
        } = options;
        let watch = Watch::new(clock.clone(), &limits);
        let place = match &plan.storage {
            Some(Storage { path, .. }) => Place::File(path.clone()),
            None => Place::Memory,
        };
        let store = Arc::new(Store::open(&place, &limits, clock.clone()).map_err(start_error)?);
        for warning in store.warnings() {
            log::warn!(warning = warning.as_str(); "store");
        }
        let retention_days = plan
            .storage
            .as_ref()
            .map_or(0, |storage| storage.retention_days);
        let observability = plan.observability.clone();
        let admin_token = plan
            .admin_token_env
            .as_ref()
            .and_then(|name| secrets.of(name))
            .cloned();
        let writing = if admin_token.is_some() && observability.enabled {
            Writing::Mounted
        } else {
            Writing::Absent
        };
        let tools = assemble::Tools {
            secrets: &secrets,
            wire: &wire,
            watch: &watch,
            clock: &clock,
            limits: &limits,
            store: plan.storage.is_some().then_some(&store),
            forbidden: &forbidden,
            skills: &skills,
        };
        let setup = assemble::setup(plan, &tools, writing).map_err(start_error)?;
        let engine = Engine::new(setup, store.clone(), watch.clone(), clock.clone(), &limits);
        let mut daemon = Daemon {
            engine,
            store,
            watch,
            admin: None,
            notify: Arc::new(notify),
            clock,
            limits,
            stop: Stop::new(),
            threads: Vec::new(),
        };
        let admin = observability.enabled.then(|| server::Options {
            allow_hosts: observability.allow_hosts.clone(),
            token: admin_token,
            backend: Arc::new(Desk::new(
                daemon.engine.clone(),
                daemon.store.clone(),
                daemon.watch.clone(),
                daemon.clock.clone(),
                &daemon.limits,
            )),
            metrics: daemon.watch.metrics.clone(),
            clock: daemon.clock.clone(),
            runtime_dir,
        });
        let opened = daemon
            .open_admin(admin, observability.addr)
            .and_then(|()| daemon.open(retention_days));
        if let Err(error) = opened {
            daemon.stop();
            return Err(error);
        }
        Ok(daemon)
    }

    fn open_admin(
        &mut self,
        options: Option<server::Options>,
        addr: SocketAddr,
    ) -> Result<(), StartError> {
        let Some(options) = options else {
            return Ok(());
        };
        let listener = listen(addr, "observability.addr")?;
        let admin = Admin::start(listener, options, &self.limits);
        self.admin = Some(
            admin
                .map_err(|error| start_error(format!("cannot start the admin server: {error}")))?,
        );
        Ok(())
    }

    /// Opens what `start` has built.
    fn open(&mut self, retention_days: u32) -> Result<(), StartError> {
        self.start_threads(retention_days).map_err(start_error)?;
        let setup = self.engine.setup();
        for (name, channel) in &setup.channels {
            self.watch.channel_state(name, ChannelState::Starting, None);
            let attached = self.engine.delivery().attach(name, channel.clone());
            attached.map_err(start_error)?;
        }
        for channel in setup.channels.values() {
            let intake = Arc::new(self.engine.clone());
            channel.start(intake).map_err(start_error)?;
        }
        // Only once every port is ours: a start that fails asks no model.
        let unfinished = self.engine.refill().map_err(start_error)?;
        let (channels, durable) = (setup.channels.len(), self.store.health().durable);
        let ready = {
            let notify = self.notify.clone();
            move || {
                log::info!(channels = channels, unfinished = unfinished, durable = durable; "ready");
                notify.ready(&format!("{channels} channels"));
            }
        };
        if self.watch.board.settled(Duration::ZERO) {
            ready();
        } else {
            self.when_settled(ready).map_err(start_error)?;
        }
        assemble::warm_up(&setup, &self.clock);
        Ok(())
    }

    /// Says that the daemon is ready once each channel has connected or failed once, without
    /// holding up the orders to it.
    fn when_settled(&mut self, ready: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let (board, stop) = (self.watch.board.clone(), self.stop.clone());
        let within = self.limits.ready_within;
        let thread = spawn("ready", SMALL_STACK, move || {
            let settled = board.settled(within);
            if stop.raised() {
                return;
            }
            if !settled {
                log::warn!("a channel has neither connected nor failed yet, the rest runs");
            }
            ready();
        })?;
        self.threads.push(thread);
        Ok(())
    }

    fn start_threads(&mut self, retention_days: u32) -> std::io::Result<()> {
        let lanes = self.engine.lanes().clone();
        let timer = spawn("lanes", SMALL_STACK, move || lanes.keep_time())?;
        self.threads.push(timer);
        let janitor = Janitor {
            engine: self.engine.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            retention_days,
        };
        let stop = self.stop.clone();
        let janitor = spawn("janitor", SMALL_STACK, move || janitor.work(&stop))?;
        self.threads.push(janitor);
        Ok(())
    }

    /// What is reported.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Obeys orders until one says stop, then stops. A second stop has runs and deliveries cut.
    ///
    /// Blocks: until then, and for the drain of contract 8.
    pub fn serve(self, orders: Receiver<Order>) -> Ended {
        let every = self.notify.sign_of_life_every();
        loop {
            let order = match every {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(every) => orders.recv_timeout(every),
            };
            match order {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Order::Reload) => {
                    log::warn!(
                        "this build cannot read its configuration again while it runs: restart it"
                    );
                }
                // A hanging disk is a reason to be restarted; a full one is not.
                Err(RecvTimeoutError::Timeout) if self.disk_hangs() => {}
                Err(RecvTimeoutError::Timeout) => self.notify.alive(),
            }
        }
        log::info!("stopping");
        self.notify.stopping();
        let hurried = Stop::new();
        if let Err(error) = self.listen_for_hurry(orders, hurried.clone()) {
            log::warn!(error = error.to_string().as_str(); "a second signal will not be heard");
        }
        let ended = self.stop();
        if hurried.raised() {
            Ended::Hurried
        } else {
            ended
        }
    }

    /// A second stop cuts what the first one lets go on; a third one, a cut that hangs, or a stop
    /// that a hanging disk holds up ends the process where it stands.
    fn listen_for_hurry(&self, orders: Receiver<Order>, hurried: Stop) -> std::io::Result<()> {
        let engine = self.engine.clone();
        let most = self.limits.stop_most;
        spawn("hurry", SMALL_STACK, move || loop {
            match orders.recv_timeout(most) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    log::error!(seconds = most.as_secs(); "the stop hangs, most likely in a disk that does not answer: leaving as after a power cut, what was accepted is kept");
                    std::process::exit(1);
                }
                Ok(Order::Stop) => {}
                Ok(Order::Reload) => continue,
            }
            log::warn!("a second signal: what is in work is cut");
            hurried.raise();
            engine.hurry();
            if orders.recv_timeout(HURRY_MOST) != Err(RecvTimeoutError::Disconnected) {
                std::process::exit(1);
            }
            return;
        })?;
        Ok(())
    }

    /// Whether a commit has been in progress for longer than anybody waits for one.
    fn disk_hangs(&self) -> bool {
        let busy_since = self.store.health().busy_since;
        busy_since.is_some_and(|since| {
            self.clock.now().saturating_duration_since(since) > self.limits.store_wait
        })
    }

    /// Intake first, then runs, deliveries, admin server, store.
    fn stop(mut self) -> Ended {
        self.stop.raise();
        for (name, channel) in &self.engine.setup().channels {
            channel.stop();
            self.watch.channel_state(name, ChannelState::Stopped, None);
        }
        let cut = self.engine.stop();
        if let Some(admin) = self.admin.take() {
            admin.stop();
        }
        for thread in self.threads.drain(..) {
            // A panic there was reported by the panic hook.
            let _ = thread.join();
        }
        // Before the count: marks of what was sent wait for company in the store's queue.
        self.store.close();
        let left = self.store.counts();
        log::info!(cut_runs = cut, inbox = left.inbox_open, outbox = left.outbox_open, durable = self.store.health().durable; "stopped");
        let abandoned = !self.store.health().durable && left.inbox_open + left.outbox_open > 0;
        if abandoned {
            Ended::Abandoned
        } else {
            Ended::Stopped
        }
    }
}

/// Opens a listening port.
///
/// # Errors
/// A [`StartError`] naming the key of the configuration and what would help.
pub fn listen(addr: SocketAddr, key: &str) -> Result<TcpListener, StartError> {
    TcpListener::bind(addr).map_err(|error| {
        start_error(format!(
            "cannot listen on {addr} ({key}): {error}; another program, or another Korvun, may have the port: stop it, or choose another"
        ))
    })
}
