//! Empties the outbox: threads `out:CHANNEL:N`, one for each channel and a few more on demand, take the next due row of a conversation that is
//! not held and hand it to the channel. What to do after a failure is decided in `domain::delivery`,
//! who is next in `domain::schedule`; the rows themselves stay in the store until they are due.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::base::clock::{Clock, Deadline, UnixMs};
use crate::base::random;
use crate::base::sync::{lock, spawn};
use crate::channel::port::{Channel, Held, SendFailure};
use crate::domain::delivery::{after_failure, due_of_stored, Next};
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::limits::Limits;
use crate::domain::message::Outgoing;
use crate::domain::schedule::{Pushed, Rest, Row, Schedule};
use crate::net::cancel::Cancel;
use crate::store::{Store, StoreError};
use crate::watch::{Fault, Watch};

/// The stack of a delivery thread: one HTTP exchange.
const STACK: usize = 256 * 1024;

/// How long a thread rests when the store cannot be read, before it tries again.
const STORE_REST: Duration = Duration::from_secs(2);

/// The delivery of all channels.
pub struct Delivery {
    store: Arc<Store>,
    watch: Watch,
    clock: Arc<dyn Clock>,
    began: (UnixMs, Instant),
    limits: Limits,
    lines: Mutex<BTreeMap<ChannelName, Arc<Line>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    cancel: Cancel,
}

/// One channel's deliveries.
struct Line {
    name: ChannelName,
    channel: Arc<dyn Channel>,
    state: Mutex<LineState>,
    changed: Condvar,
    /// Told when the last delivery in flight has ended.
    quiet: Condvar,
    /// Confirmed parts of rows that are not over yet.
    parts: Mutex<BTreeMap<Row, u32>>,
}

struct LineState {
    schedule: Schedule<Conversation>,
    stopping: bool,
    /// Threads of this channel, and those of them that are at work.
    threads: usize,
    working: usize,
    fresh: Fresh,
    /// Rows that ended while the outbox is being read; `None` while it is not.
    done_while_reading: Option<BTreeSet<Row>>,
}

/// Rows as they were stored a moment ago, so that the next delivery need not read them again. It
/// may forget any of them at any time.
#[derive(Default)]
struct Fresh {
    rows: BTreeMap<Row, Outgoing>,
    bytes: usize,
}

impl Fresh {
    /// Bytes of text kept for each channel: a burst of usual answers, nothing that a Pi would feel.
    const MOST_BYTES: usize = 128 * 1024;

    fn keep(&mut self, outgoing: &Outgoing) {
        if self.bytes + outgoing.text.len() <= Fresh::MOST_BYTES {
            self.bytes += outgoing.text.len();
            self.rows.insert(outgoing.row, outgoing.clone());
        }
    }

    fn take(&mut self, row: Row) -> Option<Outgoing> {
        let outgoing = self.rows.remove(&row)?;
        self.bytes -= outgoing.text.len();
        Some(outgoing)
    }
}

/// Why a channel's delivery could not be taken up.
#[derive(Debug)]
pub enum AttachError {
    /// Its rows cannot be read.
    Store(StoreError),
    /// The operating system gives no thread.
    Thread(std::io::Error),
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttachError::Store(error) => write!(f, "cannot read the outbox: {error}"),
            AttachError::Thread(error) => write!(f, "cannot start a delivery thread: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

impl Delivery {
    /// Delivery without channels.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        watch: Watch,
        clock: Arc<dyn Clock>,
        limits: &Limits,
    ) -> Delivery {
        Delivery {
            store,
            watch,
            began: (clock.unix(), clock.now()),
            clock,
            limits: limits.clone(),
            lines: Mutex::default(),
            threads: Mutex::default(),
            cancel: Cancel::new(),
        }
    }

    /// Takes up a channel: loads what the store has for it and starts its threads.
    ///
    /// # Errors
    /// The store's, when the rows cannot be read; the operating system's, when it gives no thread.
    pub fn attach(
        self: &Arc<Self>,
        name: &ChannelName,
        channel: Arc<dyn Channel>,
    ) -> Result<(), AttachError> {
        let line = Arc::new(Line {
            name: name.clone(),
            channel,
            state: Mutex::new(LineState {
                schedule: Schedule::new(self.limits.delivery_scheduled),
                stopping: false,
                threads: 0,
                working: 0,
                fresh: Fresh::default(),
                done_while_reading: None,
            }),
            changed: Condvar::new(),
            quiet: Condvar::new(),
            parts: Mutex::default(),
        });
        self.load(&line).map_err(AttachError::Store)?;
        lock(&self.lines).insert(name.clone(), line.clone());
        lock(&line.state).threads = 1;
        self.start_sender(&line, 1).map_err(AttachError::Thread)?;
        Ok(())
    }

    /// The schedule's own time: it begins as the calendar's and only grows, so that a clock that is
    /// set neither hurries nor holds a delivery.
    fn now(&self) -> UnixMs {
        let (unix, instant) = self.began;
        unix.plus(self.clock.now().saturating_duration_since(instant))
    }

    fn start_sender(self: &Arc<Self>, line: &Arc<Line>, n: usize) -> std::io::Result<()> {
        let (this, theirs) = (self.clone(), line.clone());
        let name = format!("out:{}:{n}", line.name);
        let thread = spawn(&name, STACK, move || this.work(&theirs))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Starts another thread for a channel all of whose threads are at work while more is due.
    fn grow(self: &Arc<Self>, line: &Arc<Line>) {
        let n = {
            let mut state = lock(&line.state);
            let now = self.now();
            let due = state.schedule.next_due().is_some_and(|due| due <= now);
            let wanted = due && !state.stopping && state.working == state.threads;
            if !wanted || state.threads == self.limits.senders {
                return;
            }
            state.threads += 1;
            state.threads
        };
        if let Err(error) = self.start_sender(line, n) {
            lock(&line.state).threads -= 1;
            log::warn!(channel = line.name.as_str(), error = error.to_string().as_str(); "cannot start another delivery thread, those that run go on");
        }
    }

    /// A row has just been stored: it is due now.
    pub fn push(self: &Arc<Self>, outgoing: &Outgoing) {
        let line = lock(&self.lines)
            .get(&outgoing.conversation.channel)
            .cloned();
        let Some(line) = line else { return };
        let now = self.now();
        let (row, conversation) = (outgoing.row, &outgoing.conversation);
        let busy = {
            let mut state = lock(&line.state);
            if state.schedule.push(row, conversation, now) == Pushed::LeftInStore {
                return;
            }
            state.fresh.keep(outgoing);
            state.working == state.threads
        };
        line.changed.notify_one();
        if busy {
            self.grow(&line);
        }
    }

    /// Reads the outbox again where it holds more than is scheduled; `open` is all that it holds.
    ///
    /// Blocks: for a few reads of the store.
    ///
    /// # Errors
    /// The store's, when it cannot be read.
    pub fn refill(&self, open: u64) -> Result<(), StoreError> {
        let lines: Vec<Arc<Line>> = lock(&self.lines).values().cloned().collect();
        let scheduled: usize = lines
            .iter()
            .map(|line| lock(&line.state).schedule.len())
            .sum();
        if open <= scheduled as u64 {
            return Ok(());
        }
        for line in &lines {
            self.load(line)?;
            line.changed.notify_one();
        }
        Ok(())
    }

    /// How many rows of a channel wait for delivery, as far as they are scheduled.
    #[must_use]
    pub fn queued(&self, name: &ChannelName) -> u64 {
        let line = lock(&self.lines).get(name).cloned();
        line.map_or(0, |line| lock(&line.state).schedule.len() as u64)
    }

    /// Cuts what is in flight; nothing else is sent.
    pub fn hurry(&self) {
        let lines: Vec<Arc<Line>> = lock(&self.lines).values().cloned().collect();
        for line in &lines {
            lock(&line.state).stopping = true;
            line.changed.notify_all();
            line.quiet.notify_all();
        }
        self.cancel.raise();
    }

    /// Ends delivery: what is in flight may go on until `deadline`, the rest stays in the outbox.
    ///
    /// Blocks: until `deadline`, and then for as long as a cut connection takes to be noticed.
    pub fn stop(&self, deadline: Deadline) {
        let lines: Vec<Arc<Line>> = lock(&self.lines).values().cloned().collect();
        for line in &lines {
            let mut state = lock(&line.state);
            loop {
                let now = self.now();
                let due = state.schedule.next_due().is_some_and(|due| due <= now);
                let left = deadline.left(Instant::now());
                if state.stopping || (!due && state.working == 0) || left.is_zero() {
                    break;
                }
                let waited = line.quiet.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.stopping = true;
            line.changed.notify_all();
        }
        self.cancel.raise();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A panic was contained and counted in the thread; nothing is left to do with it.
            let _ = thread.join();
        }
    }

    /// Reads undelivered rows, those that are scheduled already among them, up to the schedule's size.
    /// A row that is delivered meanwhile is not taken up again: its mark is either committed before
    /// the reading, or the row is remembered while the reading goes on.
    fn load(&self, line: &Line) -> Result<(), StoreError> {
        {
            let mut state = lock(&line.state);
            if state.done_while_reading.is_some() {
                return Ok(());
            }
            state.done_while_reading = Some(BTreeSet::new());
        }
        let most = self.limits.delivery_scheduled;
        let read = self.store.write(|_| Ok(()));
        let read = read.and_then(|()| self.store.queued(&line.name, 0, most + 1));
        let now = self.clock.unix();
        let mut state = lock(&line.state);
        let done = state.done_while_reading.take().unwrap_or_default();
        let read = read?;
        let rest = if read.len() > most {
            Rest::More
        } else {
            Rest::None
        };
        let rows = read
            .into_iter()
            .filter(|queued| !done.contains(&queued.row))
            .map(|queued| {
                let due = due_of_stored(queued.next_at, now, &self.limits);
                let due = self.now().plus(due.since(now)).minus(now.since(due));
                (queued.row, queued.conversation, due)
            });
        state.schedule.load(rows, rest);
        Ok(())
    }

    fn work(self: &Arc<Self>, line: &Arc<Line>) {
        while let Some(row) = self.next(line) {
            let done = catch_unwind(AssertUnwindSafe(|| self.deliver(line, row)));
            let at = done.unwrap_or_else(|_| {
                self.watch.fault(Fault::Send);
                Some(self.now().plus(self.limits.delivery_backoff_most))
            });
            if at.is_none() {
                lock(&line.parts).remove(&row);
            }
            let mut state = lock(&line.state);
            state.working -= 1;
            match at {
                None => {
                    state.schedule.done(row);
                    if let Some(done) = &mut state.done_while_reading {
                        done.insert(row);
                    }
                }
                Some(at) => state.schedule.retry(row, at),
            }
            // Not for each row that goes: one reading brings in half a schedule.
            let half = self.limits.delivery_scheduled / 2;
            let behind = state.schedule.behind() && state.schedule.room() >= half;
            let more = state.stopping || state.schedule.next_due().is_some();
            let quiet = state.working == 0;
            drop(state);
            if quiet {
                line.quiet.notify_all();
            }
            if behind {
                if let Err(error) = self.load(line) {
                    log::warn!(channel = line.name.as_str(), error = error.to_string().as_str(); "cannot read the outbox");
                }
            }
            if more || behind {
                line.changed.notify_one();
            }
        }
        line.changed.notify_all();
    }

    /// The next due row; `None` when delivery ends.
    fn next(&self, line: &Line) -> Option<Row> {
        let mut state = lock(&line.state);
        loop {
            if state.stopping {
                return None;
            }
            let now = self.now();
            if let Some(row) = state.schedule.next(now) {
                state.working += 1;
                return Some(row);
            }
            state = match state.schedule.next_due() {
                None => line
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = line.changed.wait_timeout(state, due.since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Delivers one row and returns when to try again; `None` when it is over.
    fn deliver(&self, line: &Line, row: Row) -> Option<UnixMs> {
        let fresh = lock(&line.state).fresh.take(row);
        let read = fresh.map_or_else(|| self.store.outgoing(row), |fresh| Ok(Some(fresh)));
        let outgoing = match read {
            Ok(Some(outgoing)) => outgoing,
            Ok(None) => return None,
            Err(error) => {
                log::warn!(channel = line.name.as_str(), error = error.to_string().as_str(); "cannot read an outbox row");
                return Some(self.now().plus(STORE_REST));
            }
        };
        let mut outgoing = outgoing;
        // The store's count is written when there is company for it, and may come too late.
        let known = lock(&line.parts).get(&row).copied();
        outgoing.parts_sent = outgoing.parts_sent.max(known.unwrap_or(0));
        let confirmed = |parts| {
            lock(&line.parts).insert(row, parts);
            self.store.part_sent(row, parts);
        };
        let cancel = self.cancel.clone();
        let failure = match line.channel.send(&outgoing, &confirmed, &cancel) {
            Ok(()) => {
                self.store.sent(row);
                self.watch.sent(&line.name, &outgoing.message_id);
                log::debug!(channel = line.name.as_str(), message_id = outgoing.message_id.as_str(); "delivered");
                return None;
            }
            // The stop cut it: the row stays as it is for the next start.
            Err(_) if cancel.raised() => return Some(self.now().plus(STORE_REST)),
            Err(failure) => failure,
        };
        self.failed(line, &outgoing, failure)
    }

    fn failed(&self, line: &Line, outgoing: &Outgoing, failure: SendFailure) -> Option<UnixMs> {
        let now = self.clock.unix();
        let attempts = outgoing.attempts + 1;
        let again = |after| {
            let random = random::number();
            let queued_at = outgoing.queued_at;
            after_failure(queued_at, now, attempts, after, random, &self.limits)
        };
        let (next, reason) = match &failure {
            SendFailure::NotYet { wait, held } => {
                let at = self.now().plus(*wait);
                let mut state = lock(&line.state);
                if *held == Held::Channel {
                    state.schedule.hold_all(at);
                }
                // It will be sent as it is, and may be waiting for less than a second.
                state.fresh.keep(outgoing);
                return Some(at);
            }
            SendFailure::Never { reason } => (Next::Failed, reason.as_str()),
            SendFailure::Again { after, reason } => (again(*after), reason.as_str()),
            SendFailure::Flood { wait, held, reason } => {
                if *held == Held::Channel {
                    lock(&line.state).schedule.hold_all(self.now().plus(*wait));
                }
                (again(Some(*wait)), reason.as_str())
            }
        };
        let (channel, id) = (line.name.as_str(), outgoing.message_id.as_str());
        match next {
            Next::RetryAt(at) => {
                let wait_ms = u64::try_from(at.since(now).as_millis()).unwrap_or(u64::MAX);
                log::warn!(channel = channel, message_id = id, attempt = attempts, wait_ms = wait_ms, error = reason; "delivery failed, trying again");
                self.store.retry(outgoing.row, at, reason);
                Some(self.now().plus(at.since(now)))
            }
            Next::Failed => {
                log::error!(channel = channel, message_id = id, attempt = attempts, error = reason; "delivery given up");
                if let Err(error) = self.store.failed(outgoing.row, reason) {
                    log::warn!(channel = channel, message_id = id, error = error.to_string().as_str(); "cannot note a delivery given up, the next start tries it again");
                }
                self.watch
                    .send_failed(&line.name, &outgoing.message_id, reason);
                None
            }
        }
    }
}
