//! One run per conversation, others beside it, and no run thread that waits for a place.
//!
//! A conversation with an open message is either waiting for its places or in work. Places are
//! taken all or none before a thread is; the rules are `domain::lanes` and `domain::places`, the
//! truth about messages is the store. Run threads (`run:N`) are grown on demand and end when idle; the thread `lanes`
//! wakes only when somebody has waited too long.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock::{Clock, Deadline};
use crate::base::sync::{lock, spawn, Bell};
use crate::domain::ids::{Conversation, Endpoint};
use crate::domain::lanes::{self as domain, After, Grant, Needs, Step};
use crate::domain::limits::Limits;
use crate::net::cancel::Cancel;
use crate::store::Work;

/// The stack of a run thread: JSON of a bounded depth, TLS and SQLite.
const STACK: usize = 512 * 1024;

/// The right of one conversation to a run, and the way to give it up.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The right.
    pub grant: Grant,
    /// Gives the run up.
    pub cancel: Cancel,
}

/// One run to be performed.
#[derive(Debug)]
pub struct Job {
    /// Its right to run.
    pub ticket: Ticket,
    /// The message, where it was claimed with its acceptance; else the run claims it.
    pub work: Option<Work>,
    /// Whether it got no place in time: it holds none, and only excuses itself.
    pub overdue: bool,
}

struct State {
    lanes: domain::Lanes,
    /// Of the runs in work.
    cancels: BTreeMap<Conversation, Cancel>,
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    started: u64,
    /// Until when the timer sleeps, if it has a reason to wake at all.
    armed: Option<Instant>,
    /// Idle threads to be woken once the lock is given back: woken under it, they would run into it.
    wake: usize,
}

impl State {
    fn ticket(&mut self, grant: Grant) -> Ticket {
        let cancel = Cancel::new();
        self.cancels
            .insert(grant.conversation.clone(), cancel.clone());
        Ticket { grant, cancel }
    }
}

type Perform = dyn Fn(Job) + Send + Sync;

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    timer: Bell,
    clock: Arc<dyn Clock>,
    most_threads: usize,
    idle_wait: Duration,
    perform: Box<Perform>,
}

/// The lanes. Clones share them.
#[derive(Clone)]
pub struct Lanes(Arc<Shared>);

impl Lanes {
    /// Lanes without endpoints; `perform` does a run and must end it with [`Lanes::finish`].
    pub fn new(
        limits: &Limits,
        clock: Arc<dyn Clock>,
        perform: impl Fn(Job) + Send + Sync + 'static,
    ) -> Lanes {
        Lanes(Arc::new(Shared {
            state: Mutex::new(State {
                lanes: domain::Lanes::new(limits),
                cancels: BTreeMap::new(),
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
                started: 0,
                armed: None,
                wake: 0,
            }),
            work: Condvar::new(),
            timer: Bell::new(),
            clock,
            most_threads: limits.run_threads,
            idle_wait: limits.run_thread_idle,
            perform: Box::new(perform),
        }))
    }

    /// Sets how many runs each endpoint takes at once.
    pub fn set_capacities(&self, capacities: impl IntoIterator<Item = (Endpoint, u32)>) {
        let now = self.0.clock.now();
        self.change(|lanes| lanes.set_capacities(capacities, now));
    }

    /// Takes the places of an idle conversation for a message that is about to be stored; `None`
    /// when it is not idle or the places are not free, and the message has to wait.
    #[must_use]
    pub fn begin(&self, conversation: &Conversation, needs: &Needs) -> Option<Ticket> {
        let now = self.0.clock.now();
        let mut state = lock(&self.0.state);
        let grant = state.lanes.begin(conversation, needs, now)?;
        Some(state.ticket(grant))
    }

    /// Starts the run of a message that was claimed with its acceptance.
    pub fn start(&self, ticket: Ticket, work: Work) {
        let mut state = lock(&self.0.state);
        self.push(
            &mut state,
            Job {
                ticket,
                work: Some(work),
                overdue: false,
            },
        );
        self.unlock(state);
    }

    /// A message was stored, or was not, without being begun in the same commit; `ticket` is what
    /// [`Lanes::begin`] gave for it.
    pub fn not_begun(
        &self,
        ticket: Option<&Ticket>,
        conversation: &Conversation,
        after: After,
        needs: &Needs,
    ) {
        let now = self.0.clock.now();
        let grant = ticket.map(|ticket| &ticket.grant);
        self.end(ticket, |lanes| {
            lanes.not_begun(grant, conversation, after, needs, now)
        });
    }

    /// A stored message of this conversation waits to be worked on.
    pub fn queue(&self, conversation: &Conversation, needs: &Needs) {
        let now = self.0.clock.now();
        self.change(|lanes| lanes.queue(conversation, needs, now));
    }

    /// The message for which a conversation waits may be gone: whoever is next waits anew, with a
    /// time of its own.
    pub fn renew(&self, conversation: &Conversation, needs: &Needs) {
        let now = self.0.clock.now();
        self.change(|lanes| lanes.renew(conversation, needs, now));
    }

    /// Ends a run: gives its places back, and queues the conversation again when it has more to
    /// do (`after`, or a message that came meanwhile). The second call for a ticket does nothing.
    pub fn finish(&self, ticket: &Ticket, after: After, needs: &Needs) {
        let now = self.0.clock.now();
        self.end(Some(ticket), |lanes| {
            lanes.finish(&ticket.grant, after, needs, now)
        });
    }

    /// How many runs are in work.
    #[must_use]
    pub fn working(&self) -> usize {
        lock(&self.0.state).lanes.working()
    }

    /// Starts no further run. Those in work go on.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.lanes.close();
        state.jobs.retain(|job| job.work.is_some());
        drop(state);
        self.0.timer.ring();
        self.0.work.notify_all();
    }

    /// Waits until the last run has ended and says how many are left at the deadline.
    ///
    /// Blocks: until `deadline` at most.
    pub fn drained(&self, deadline: Deadline) -> usize {
        let mut state = lock(&self.0.state);
        loop {
            let left = deadline.left(Instant::now());
            if state.threads == 0 || left.is_zero() {
                return state.threads;
            }
            let waited = self.0.work.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Gives up every run in work.
    pub fn cancel_all(&self) {
        let cancels: Vec<Cancel> = lock(&self.0.state).cancels.values().cloned().collect();
        for cancel in cancels {
            cancel.raise();
        }
    }

    /// The timer's loop: excuses those who have waited too long for a place.
    ///
    /// Blocks: until [`Lanes::close`].
    pub fn keep_time(&self) {
        loop {
            let until = {
                let mut state = lock(&self.0.state);
                if state.lanes.closed() {
                    return;
                }
                let steps = state.lanes.due(self.0.clock.now());
                self.perform(&mut state, steps);
                let until = state.lanes.next_deadline();
                state.armed = until;
                self.unlock(state);
                until
            };
            self.0.timer.wait(until);
        }
    }

    /// Gives the lock back and wakes whom it was changed for.
    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let wake = std::mem::take(&mut state.wake);
        drop(state);
        for _ in 0..wake {
            self.0.work.notify_one();
        }
    }

    fn change(&self, decide: impl FnOnce(&mut domain::Lanes) -> Vec<Step>) {
        self.end(None, decide);
    }

    /// Takes a decision and performs it; the run of `ticket` is over then.
    fn end(&self, ticket: Option<&Ticket>, decide: impl FnOnce(&mut domain::Lanes) -> Vec<Step>) {
        let mut state = lock(&self.0.state);
        if let Some(ticket) = ticket {
            let conversation = &ticket.grant.conversation;
            let known = state.cancels.get(conversation);
            if known.is_some_and(|cancel| cancel.same(&ticket.cancel)) {
                state.cancels.remove(conversation);
            }
        }
        let steps = decide(&mut state.lanes);
        self.perform(&mut state, steps);
        let next = state.lanes.next_deadline();
        if next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed)) {
            state.armed = next;
            self.0.timer.ring();
        }
        self.unlock(state);
    }

    fn perform(&self, state: &mut State, steps: Vec<Step>) {
        for step in steps {
            let (grant, overdue) = match step {
                Step::Run(grant) => (grant, false),
                Step::Excuse(grant) => (grant, true),
                Step::Left(conversation) => {
                    // Unreachable while the inbox is bounded.
                    log::error!(conversation_channel = conversation.channel.as_str(); "too many conversations wait for a place");
                    continue;
                }
            };
            let ticket = state.ticket(grant);
            self.push(
                state,
                Job {
                    ticket,
                    work: None,
                    overdue,
                },
            );
        }
    }

    fn push(&self, state: &mut State, job: Job) {
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            state.wake += 1;
            return;
        }
        if state.threads < self.0.most_threads {
            state.started += 1;
            let lanes = self.clone();
            match spawn(&format!("run:{}", state.started), STACK, move || {
                lanes.run()
            }) {
                Ok(_) => state.threads += 1,
                Err(error) => {
                    log::error!(error = error.to_string().as_str(), threads = state.threads; "cannot start a run thread");
                }
            }
        }
    }

    /// A run thread's loop: performs runs until it has been idle for a while.
    fn run(&self) {
        while let Some(job) = self.next_job() {
            // A run that panics is ended by whoever performs it; here only the thread is kept.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.0.perform)(job)));
        }
        self.0.work.notify_all();
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = lock(&self.0.state);
        let until = Instant::now() + self.0.idle_wait;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.lanes.closed() || left.is_zero() {
                // Counted out under the same lock, so that a job pushed next finds no thread that leaves.
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let waited = self.0.work.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
    }
}
