//! One run per conversation, others beside it: who may run, who waits, who has waited too long.
//! Pure, guarded by the lock of the engine's lanes. Must never grant a conversation a second run
//! while its first goes on, nor forget one that has something to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ids::{Conversation, Endpoint};
use super::limits::Limits;
use super::places::Places;
use crate::base::clock::Deadline;

/// What a conversation's next run needs.
#[derive(Clone, Debug)]
pub struct Needs {
    /// A place at each of these.
    pub endpoints: Arc<[Endpoint]>,
    /// The longest time from being first in its conversation to the answer.
    pub answer_within: Duration,
}

/// The right of one conversation to a run: its places are taken until [`Lanes::finish`].
#[derive(Clone, Debug)]
pub struct Grant {
    /// Whose run it is.
    pub conversation: Conversation,
    /// When the whole answer is due.
    pub deadline: Deadline,
    /// Where it holds a place.
    pub endpoints: Arc<[Endpoint]>,
    run: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Step {
    /// Work on the conversation's first message.
    Run(Grant),
    /// It got no place in time: it holds none, and only excuses itself.
    Excuse(Grant),
    /// Too many conversations wait; its messages stay in the store until they are looked for again.
    Left(Conversation),
}

/// Whether a conversation has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Not that anybody knows of.
    Idle,
    /// A message of it waits in the store.
    Waiting,
}

/// The lanes of all conversations that have something to do.
#[derive(Debug)]
pub struct Lanes {
    places: Places<Conversation>,
    lanes: BTreeMap<Conversation, Lane>,
    last_run: u64,
    closed: bool,
}

#[derive(Debug)]
struct Lane {
    needs: Needs,
    deadline: Deadline,
    /// The run in work; none while it waits for places.
    run: Option<u64>,
    /// A message came in after the run in work was given its own.
    again: bool,
}

impl Lanes {
    /// Lanes without endpoints.
    #[must_use]
    pub fn new(limits: &Limits) -> Lanes {
        // Every conversation that waits has an unfinished row, so the inbox's bound is theirs too.
        let most_waiting = limits.inbox_rows as usize + limits.run_threads;
        Lanes {
            places: Places::new(limits.place_moving, most_waiting),
            lanes: BTreeMap::new(),
            last_run: 0,
            closed: false,
        }
    }

    /// Sets how many runs each endpoint takes at once.
    #[must_use = "the places of those returned are taken"]
    pub fn set_capacities(
        &mut self,
        capacities: impl IntoIterator<Item = (Endpoint, u32)>,
        now: Instant,
    ) -> Vec<Step> {
        let granted = self.places.set_capacities(capacities, now);
        self.grant(granted)
    }

    /// Takes the places of an idle conversation for a message that is about to be stored; none
    /// where it is not idle or the places are not free, and the message has to wait.
    #[must_use]
    pub fn begin(
        &mut self,
        conversation: &Conversation,
        needs: &Needs,
        now: Instant,
    ) -> Option<Grant> {
        let idle = !self.closed && !self.knows(conversation);
        if !idle || !self.places.take(&needs.endpoints) {
            return None;
        }
        self.last_run += 1;
        let lane = Lane {
            needs: needs.clone(),
            deadline: Deadline::after(now, needs.answer_within),
            run: Some(self.last_run),
            again: false,
        };
        let grant = Grant::of(conversation.clone(), &lane, self.last_run);
        self.lanes.insert(conversation.clone(), lane);
        Some(grant)
    }

    /// A message was stored, or was not, without being begun in the same commit; `grant` is what
    /// [`Lanes::begin`] gave for it.
    #[must_use = "the places of those returned are taken"]
    pub fn not_begun(
        &mut self,
        grant: Option<&Grant>,
        conversation: &Conversation,
        after: After,
        needs: &Needs,
        now: Instant,
    ) -> Vec<Step> {
        match (grant, after) {
            (Some(grant), after) => self.finish(grant, after, needs, now),
            (None, After::Waiting) => self.queue(conversation, needs, now),
            (None, After::Idle) => Vec::new(),
        }
    }

    /// A stored message of this conversation waits to be worked on.
    #[must_use = "the places of those returned are taken"]
    pub fn queue(&mut self, conversation: &Conversation, needs: &Needs, now: Instant) -> Vec<Step> {
        match self.lanes.get_mut(conversation) {
            Some(lane) => {
                lane.again |= lane.run.is_some();
                Vec::new()
            }
            None => self.wait(conversation, needs, now),
        }
    }

    /// The message for which a conversation waits may be gone: whoever is next waits anew, with a
    /// time of its own.
    #[must_use = "the places of those returned are taken"]
    pub fn renew(&mut self, conversation: &Conversation, needs: &Needs, now: Instant) -> Vec<Step> {
        let waits = |lane: &Lane| lane.run.is_none();
        if !self.lanes.get(conversation).is_some_and(waits) {
            return Vec::new();
        }
        self.lanes.remove(conversation);
        let granted = self.places.leave(conversation, now);
        let mut steps = self.grant(granted);
        steps.append(&mut self.wait(conversation, needs, now));
        steps
    }

    /// Ends a run: gives its places back, and queues the conversation again when it has more to
    /// do, by `after` or by a message that came meanwhile. The second call for a grant does nothing.
    #[must_use = "the places of those returned are taken"]
    pub fn finish(
        &mut self,
        grant: &Grant,
        after: After,
        needs: &Needs,
        now: Instant,
    ) -> Vec<Step> {
        let conversation = &grant.conversation;
        let again = match self.lanes.get(conversation) {
            Some(lane) if lane.run == Some(grant.run) => lane.again,
            _ => return Vec::new(),
        };
        self.lanes.remove(conversation);
        let granted = self.places.release(&grant.endpoints, now);
        let mut steps = self.grant(granted);
        if again || after == After::Waiting {
            steps.append(&mut self.wait(conversation, needs, now));
        }
        steps
    }

    /// Excuses those who have waited too long for a place, and grants what that frees.
    #[must_use = "the places of those returned are taken"]
    pub fn due(&mut self, now: Instant) -> Vec<Step> {
        let due = self.places.due(now);
        let mut steps: Vec<Step> = due
            .overdue
            .into_iter()
            .filter_map(|conversation| {
                let mut grant = self.begin_run(conversation)?;
                grant.endpoints = Arc::new([]);
                Some(Step::Excuse(grant))
            })
            .collect();
        steps.append(&mut self.grant(due.granted));
        steps
    }

    /// The next moment at which [`Lanes::due`] has something to do; none while nobody waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.places.next_deadline()
    }

    /// Grants no further run. Those in work go on; what waits goes on waiting, in the store.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Whether it has been closed.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Whether a conversation is in work or waits for its places.
    #[must_use]
    pub fn knows(&self, conversation: &Conversation) -> bool {
        self.lanes.contains_key(conversation)
    }

    /// How many runs are in work.
    #[must_use]
    pub fn working(&self) -> usize {
        self.lanes
            .values()
            .filter(|lane| lane.run.is_some())
            .count()
    }

    fn wait(&mut self, conversation: &Conversation, needs: &Needs, now: Instant) -> Vec<Step> {
        let lane = Lane {
            needs: needs.clone(),
            deadline: Deadline::after(now, needs.answer_within),
            run: None,
            again: false,
        };
        let (endpoints, deadline) = (needs.endpoints.clone(), lane.deadline);
        self.lanes.insert(conversation.clone(), lane);
        match self.places.wait(conversation, &endpoints, deadline, now) {
            Ok(granted) => self.grant(granted),
            Err(_) => {
                self.lanes.remove(conversation);
                vec![Step::Left(conversation.clone())]
            }
        }
    }

    fn grant(&mut self, granted: Vec<Conversation>) -> Vec<Step> {
        granted
            .into_iter()
            .filter_map(|conversation| self.begin_run(conversation).map(Step::Run))
            .collect()
    }

    fn begin_run(&mut self, conversation: Conversation) -> Option<Grant> {
        let lane = self.lanes.get_mut(&conversation)?;
        self.last_run += 1;
        lane.run = Some(self.last_run);
        let grant = Grant::of(conversation, lane, self.last_run);
        // Once closed, it keeps its places: nobody else is to have them any more.
        (!self.closed).then_some(grant)
    }
}

impl Grant {
    fn of(conversation: Conversation, lane: &Lane, run: u64) -> Grant {
        Grant {
            conversation,
            deadline: lane.deadline,
            endpoints: lane.needs.endpoints.clone(),
            run,
        }
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
