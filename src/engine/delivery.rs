//! Empties the outbox: threads `out:CHANNEL:N`, one for each channel and a few more on demand, take the next due row of a conversation that is
//! not held and hand it to the channel. What to do after a failure is decided in `domain::delivery`,
//! who is next in `domain::schedule`; the rows themselves stay in the store until they are due.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::base::clock::{Clock, Deadline, UnixMs};
use crate::base::random;
use crate::base::sync::{lock, spawn};
use crate::channel::port::{Channel, Held, SendFailure};
use crate::domain::delivery::{after_try, due_of_stored, Came, Mark, Try};
use crate::domain::ids::{ChannelName, Conversation};
use crate::domain::limits::Limits;
use crate::domain::message::Outgoing;
use crate::domain::schedule::{Pushed, Rest, Row, Schedule};
use crate::net::cancel::Cancel;
use crate::store::{Store, StoreError};
use crate::watch::{Fault, Watch};

/// The stack of a delivery thread: one HTTP exchange.
const STACK: usize = 256 * 1024;

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
}

struct LineState {
    schedule: Schedule<Conversation>,
    stopping: bool,
    /// Threads of this channel, and those of them that are at work.
    threads: usize,
    working: usize,
    fresh: Fresh,
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
            }),
            changed: Condvar::new(),
            quiet: Condvar::new(),
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
        while lock(&line.state).schedule.read() {
            self.read(line)?;
            // Once more where rows were left in the store meanwhile, of which nobody else would hear.
            if !lock(&line.state).schedule.wants_reading() {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, line: &Line) -> Result<(), StoreError> {
        let most = self.limits.delivery_scheduled;
        let read = self.store.write(|_| Ok(()));
        let read = read.and_then(|()| self.store.queued(&line.name, 0, most + 1));
        let now = self.clock.unix();
        let mut state = lock(&line.state);
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                state.schedule.unread();
                return Err(error);
            }
        };
        let rest = if read.len() > most {
            Rest::More
        } else {
            Rest::None
        };
        let rows = read.into_iter().map(|queued| {
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
            let again = done.unwrap_or_else(|_| {
                self.watch.fault(Fault::Send);
                self.after(Came::Panicked, None).1
            });
            let at = again.map(|wait| self.now().plus(wait));
            let mut state = lock(&line.state);
            state.working -= 1;
            match at {
                None => state.schedule.done(row),
                Some(at) => state.schedule.retry(row, at),
            }
            let behind = state.schedule.wants_reading();
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

    /// Delivers one row and returns after how long it is tried again; `None` when it is over.
    fn deliver(&self, line: &Line, row: Row) -> Option<Duration> {
        let fresh = lock(&line.state).fresh.take(row);
        let read = fresh.map_or_else(|| self.store.outgoing(row), |fresh| Ok(Some(fresh)));
        let mut outgoing = match read {
            Ok(Some(outgoing)) => outgoing,
            Ok(None) => return self.after(Came::Gone, None).1,
            Err(error) => {
                log::warn!(channel = line.name.as_str(), error = error.to_string().as_str(); "cannot read an outbox row");
                return self.after(Came::Unread, None).1;
            }
        };
        // The store's count is written when there is company for it, and may come too late.
        let known = lock(&line.state).schedule.parts(row);
        outgoing.parts_sent = outgoing.parts_sent.max(known);
        let confirmed = |parts| {
            lock(&line.state).schedule.confirmed(row, parts);
            self.store.part_sent(row, parts);
        };
        let cancel = self.cancel.clone();
        let sent = line.channel.send(&outgoing, &confirmed, &cancel);
        let (came, reason) = match &sent {
            Ok(()) => (Came::Sent, ""),
            Err(_) if cancel.raised() => (Came::Cut, ""),
            Err(SendFailure::NotYet { wait, held }) => {
                let mut state = lock(&line.state);
                if *held == Held::Channel {
                    state.schedule.hold_all(self.now().plus(*wait));
                }
                // It will be sent as it is, and may be waiting for less than a second.
                state.fresh.keep(&outgoing);
                (Came::NotYet(*wait), "")
            }
            Err(SendFailure::Never { reason }) => (Came::Never, reason.as_str()),
            Err(SendFailure::Again { after, reason }) => (Came::Again(*after), reason.as_str()),
            Err(SendFailure::Flood { wait, held, reason }) => {
                if *held == Held::Channel {
                    lock(&line.state).schedule.hold_all(self.now().plus(*wait));
                }
                (Came::Again(Some(*wait)), reason.as_str())
            }
        };
        let (mark, again) = self.after(came, Some(&outgoing));
        self.note(line, &outgoing, mark, again, reason);
        again
    }

    fn after(&self, came: Came, outgoing: Option<&Outgoing>) -> (Mark, Option<Duration>) {
        let now = self.clock.unix();
        let this = Try {
            queued_at: outgoing.map_or(now, |outgoing| outgoing.queued_at),
            failed: outgoing.map_or(0, |outgoing| outgoing.attempts),
            now,
            random: random::number(),
        };
        after_try(came, &this, &self.limits)
    }

    /// Tells the store and those who watch what has become of a row.
    fn note(
        &self,
        line: &Line,
        outgoing: &Outgoing,
        mark: Mark,
        again: Option<Duration>,
        reason: &str,
    ) {
        let (channel, id) = (line.name.as_str(), outgoing.message_id.as_str());
        let attempt = outgoing.attempts + 1;
        match mark {
            Mark::Nothing => {}
            Mark::Sent => {
                self.store.sent(outgoing.row);
                self.watch.sent(&line.name, &outgoing.message_id);
                log::debug!(channel = channel, message_id = id; "delivered");
            }
            Mark::RetryAt(at) => {
                let wait_ms = again.unwrap_or_default().as_millis();
                let wait_ms = u64::try_from(wait_ms).unwrap_or(u64::MAX);
                log::warn!(channel = channel, message_id = id, attempt = attempt, wait_ms = wait_ms, error = reason; "delivery failed, trying again");
                self.store.retry(outgoing.row, at, reason);
            }
            Mark::Failed => {
                log::error!(channel = channel, message_id = id, attempt = attempt, error = reason; "delivery given up");
                if let Err(error) = self.store.failed(outgoing.row, reason) {
                    log::warn!(channel = channel, message_id = id, error = error.to_string().as_str(); "cannot note a delivery given up, the next start tries it again");
                }
                self.watch
                    .send_failed(&line.name, &outgoing.message_id, reason);
            }
        }
    }
}
