//! One run per conversation, others beside it, and no run thread that waits for a place.
//!
//! A conversation with an open message is either waiting for its places or in work. Places are
//! taken all or none before a thread is; the rule is `domain::places`, the truth about messages
//! is the store. Run threads (`run:N`) are grown on demand and end when idle; the thread `lanes`
//! wakes only when somebody has waited too long.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock::{Clock, Deadline};
use crate::base::sync::{lock, spawn, Bell};
use crate::domain::ids::{Conversation, Endpoint};
use crate::domain::limits::Limits;
use crate::domain::places::Places;
use crate::net::cancel::Cancel;
use crate::store::Work;

/// The stack of a run thread: JSON of a bounded depth, TLS and SQLite.
const STACK: usize = 512 * 1024;

/// What a conversation's next run needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// A place at each of these.
    pub endpoints: Arc<[Endpoint]>,
    /// The longest time from being first in its conversation to the answer.
    pub answer_within: Duration,
}

/// The right of one conversation to a run: its places are taken.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// Whose run it is.
    pub conversation: Conversation,
    /// When the whole answer is due.
    pub deadline: Deadline,
    /// Gives the run up.
    pub cancel: Cancel,
    endpoints: Arc<[Endpoint]>,
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

#[derive(Debug)]
struct Lane {
    needs: Needs,
    deadline: Deadline,
    /// The run in work; `None` while it waits for places.
    working: Option<Cancel>,
    /// A message came in after the run in work was given its own.
    again: bool,
}

struct State {
    places: Places<Conversation>,
    lanes: BTreeMap<Conversation, Lane>,
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    started: u64,
    /// Until when the timer sleeps, if it has a reason to wake at all.
    armed: Option<Instant>,
    closed: bool,
    /// Idle threads to be woken once the lock is given back: woken under it, they would run into it.
    wake: usize,
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
        // Every conversation that waits has an unfinished row, so the inbox's bound is theirs too.
        let most_waiting = limits.inbox_rows as usize + limits.run_threads;
        Lanes(Arc::new(Shared {
            state: Mutex::new(State {
                places: Places::new(limits.place_moving, most_waiting),
                lanes: BTreeMap::new(),
                jobs: VecDeque::new(),
                threads: 0,
                idle: 0,
                started: 0,
                armed: None,
                closed: false,
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
        let mut state = lock(&self.0.state);
        let granted = state.places.set_capacities(capacities, now);
        self.grant(&mut state, granted);
        self.unlock(state);
    }

    /// Takes the places of an idle conversation for a message that is about to be stored; `None`
    /// when it is not idle or the places are not free, and the message has to wait.
    #[must_use]
    pub fn begin(&self, conversation: &Conversation, needs: &Needs) -> Option<Ticket> {
        let deadline = Deadline::after(self.0.clock.now(), needs.answer_within);
        let mut state = lock(&self.0.state);
        if state.closed
            || state.lanes.contains_key(conversation)
            || !state.places.take(&needs.endpoints)
        {
            return None;
        }
        let cancel = Cancel::new();
        state.lanes.insert(
            conversation.clone(),
            Lane {
                needs: needs.clone(),
                deadline,
                working: Some(cancel.clone()),
                again: false,
            },
        );
        Some(Ticket {
            conversation: conversation.clone(),
            deadline,
            cancel,
            endpoints: needs.endpoints.clone(),
        })
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

    /// A stored message of this conversation waits to be worked on.
    pub fn queue(&self, conversation: &Conversation, needs: &Needs) {
        let mut state = lock(&self.0.state);
        match state.lanes.get_mut(conversation) {
            Some(lane) if lane.working.is_some() => lane.again = true,
            Some(_) => {}
            None => self.wait(&mut state, conversation, needs),
        }
        self.unlock(state);
    }

    /// The message for which a conversation waits may be gone: whoever is next waits anew, with a
    /// time of its own.
    pub fn renew(&self, conversation: &Conversation, needs: &Needs) {
        let now = self.0.clock.now();
        let mut state = lock(&self.0.state);
        let waits = |lane: &Lane| lane.working.is_none();
        if state.lanes.get(conversation).is_some_and(waits) {
            state.lanes.remove(conversation);
            let granted = state.places.leave(conversation, now);
            self.grant(&mut state, granted);
            self.wait(&mut state, conversation, needs);
        }
        self.unlock(state);
    }

    /// Ends a run: gives its places back, and queues the conversation again when it has more to
    /// do (`waiting`, or a message that came meanwhile). The second call for a ticket does nothing.
    pub fn finish(&self, ticket: &Ticket, waiting: bool, needs: &Needs) {
        let now = self.0.clock.now();
        let mut state = lock(&self.0.state);
        let conversation = &ticket.conversation;
        match state
            .lanes
            .get(conversation)
            .and_then(|lane| lane.working.as_ref())
        {
            Some(cancel) if cancel.same(&ticket.cancel) => {}
            _ => return,
        }
        let again = state
            .lanes
            .remove(conversation)
            .is_some_and(|lane| lane.again);
        let granted = state.places.release(&ticket.endpoints, now);
        self.grant(&mut state, granted);
        if waiting || again {
            self.wait(&mut state, conversation, needs);
        }
        self.unlock(state);
    }

    /// How many runs are in work.
    #[must_use]
    pub fn working(&self) -> usize {
        lock(&self.0.state)
            .lanes
            .values()
            .filter(|lane| lane.working.is_some())
            .count()
    }

    /// Starts no further run. Those in work go on.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
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
        let cancels: Vec<Cancel> = lock(&self.0.state)
            .lanes
            .values()
            .filter_map(|lane| lane.working.clone())
            .collect();
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
                if state.closed {
                    return;
                }
                let due = state.places.due(self.0.clock.now());
                for conversation in due.overdue {
                    self.excuse(&mut state, &conversation);
                }
                self.grant(&mut state, due.granted);
                let until = state.places.next_deadline();
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

    fn wait(&self, state: &mut State, conversation: &Conversation, needs: &Needs) {
        let now = self.0.clock.now();
        let deadline = Deadline::after(now, needs.answer_within);
        let lane = Lane {
            needs: needs.clone(),
            deadline,
            working: None,
            again: false,
        };
        state.lanes.insert(conversation.clone(), lane);
        match state
            .places
            .wait(conversation, &needs.endpoints, deadline, now)
        {
            Ok(granted) => self.grant(state, granted),
            Err(_) => {
                // Unreachable while the inbox is bounded; the message stays in the store for the next start.
                state.lanes.remove(conversation);
                log::error!(conversation_channel = conversation.channel.as_str(); "too many conversations wait for a place");
            }
        }
        let next = state.places.next_deadline();
        if next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed)) {
            state.armed = next;
            self.0.timer.ring();
        }
    }

    fn grant(&self, state: &mut State, granted: Vec<Conversation>) {
        for conversation in granted {
            let Some(lane) = state.lanes.get_mut(&conversation) else {
                continue;
            };
            let cancel = Cancel::new();
            lane.working = Some(cancel.clone());
            let ticket = Ticket {
                deadline: lane.deadline,
                endpoints: lane.needs.endpoints.clone(),
                conversation,
                cancel,
            };
            self.push(
                state,
                Job {
                    ticket,
                    work: None,
                    overdue: false,
                },
            );
        }
    }

    fn excuse(&self, state: &mut State, conversation: &Conversation) {
        let Some(lane) = state.lanes.get_mut(conversation) else {
            return;
        };
        let cancel = Cancel::new();
        lane.working = Some(cancel.clone());
        let ticket = Ticket {
            conversation: conversation.clone(),
            deadline: lane.deadline,
            cancel,
            endpoints: Arc::new([]),
        };
        self.push(
            state,
            Job {
                ticket,
                work: None,
                overdue: true,
            },
        );
    }

    fn push(&self, state: &mut State, job: Job) {
        // While the lanes close, a message that waits goes on waiting, in the store; one that was
        // claimed with its acceptance is worked on.
        if state.closed && job.work.is_none() {
            return;
        }
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
            if state.closed || left.is_zero() {
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
