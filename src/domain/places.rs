//! Who may run where, fairly: places at endpoints, taken all or none, first come, first served.
//! Pure, guarded by the lanes' lock. Must never give an endpoint more runs than it has places, nor
//! let an endpoint that hangs hold up those who do not need it.
//!
//! A conversation that needs several endpoints at once meets them seldom free together. So it may
//! *hold*: keep a free place back from those who came later, while it lacks another. It holds only
//! while each endpoint that it lacks is *moving*, that is, has given a place back within the last
//! `moving` span. An endpoint that hangs stops moving, and then nobody holds anything for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::ids::Endpoint;
use crate::base::clock::Deadline;

/// The places of all endpoints and those who wait for them. `K` names who takes them: a conversation.
#[derive(Debug)]
pub struct Places<K> {
    slots: BTreeMap<Endpoint, Slot>,
    waiters: BTreeMap<Ticket, Waiter<K>>,
    tickets: HashMap<K, Ticket>,
    deadlines: BTreeSet<(Deadline, Ticket)>,
    last_ticket: Ticket,
    /// The first moment at which a hold ends because what it waits for has stopped moving.
    hold_ends: Option<Instant>,
    moving: Duration,
    most_waiting: usize,
}

type Ticket = u64;

#[derive(Debug)]
struct Slot {
    capacity: u32,
    used: u32,
    /// Free places that nobody holds.
    open: u32,
    released: Option<Instant>,
    queue: BTreeSet<Ticket>,
    /// Whether the plan in force names it.
    planned: bool,
}

#[derive(Debug)]
struct Waiter<K> {
    who: K,
    needs: Vec<Endpoint>,
    deadline: Deadline,
}

/// Refused: too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What the passing of time has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<K> {
    /// Those whose deadline has passed while they waited; they wait no longer.
    pub overdue: Vec<K>,
    /// Those whose places are taken for them now, oldest first.
    pub granted: Vec<K>,
}

impl<K: Clone + Eq + Hash> Places<K> {
    /// No endpoints yet. `moving` is how long after its last release an endpoint counts as moving;
    /// at most `most_waiting` wait at once.
    #[must_use]
    pub fn new(moving: Duration, most_waiting: usize) -> Places<K> {
        Places {
            slots: BTreeMap::new(),
            waiters: BTreeMap::new(),
            tickets: HashMap::new(),
            deadlines: BTreeSet::new(),
            last_ticket: 0,
            hold_ends: None,
            moving,
            most_waiting,
        }
    }

    /// Replaces all capacities by those of a plan; the highest counts where an endpoint comes more
    /// than once, and none is below 1. Places in use stay in use: where there are more than the new
    /// capacity, none is given out until enough came back. An endpoint that no plan names has one
    /// place, so that runs and waiters of an older plan come to an end. Returns who is granted now.
    pub fn set_capacities(
        &mut self,
        plan: impl IntoIterator<Item = (Endpoint, u32)>,
        now: Instant,
    ) -> Vec<K> {
        for slot in self.slots.values_mut() {
            slot.planned = false;
            slot.capacity = 1;
        }
        for (endpoint, capacity) in plan {
            let slot = self.slot(&endpoint);
            slot.planned = true;
            slot.capacity = slot.capacity.max(capacity);
        }
        self.slots.retain(|_, slot| !slot.idle_and_unplanned());
        self.grant(now)
    }

    /// Takes one place at each of `needs`, all or none, and says whether it did. A place that is
    /// held for one who has waited longer is not free. Without needs it always succeeds.
    #[must_use]
    pub fn take(&mut self, needs: &[Endpoint]) -> bool {
        let needs = distinct(needs);
        let open = |need: &Endpoint| self.slots.get(need).map_or(1, |slot| slot.open);
        if needs.iter().any(|need| open(need) == 0) {
            return false;
        }
        for need in &needs {
            let slot = self.slot(need);
            slot.used += 1;
            slot.open -= 1;
        }
        true
    }

    /// Queues `who` behind all who wait. Returns who is granted now, as `release` does: `who` itself
    /// is among them where the places are free. One who waits already keeps its seat and its
    /// deadline and waits for the new `needs` from now on (after a reload).
    ///
    /// # Errors
    /// [`Full`] where too many wait; nothing has changed then.
    pub fn wait(
        &mut self,
        who: &K,
        needs: &[Endpoint],
        deadline: Deadline,
        now: Instant,
    ) -> Result<Vec<K>, Full> {
        let (ticket, deadline) = match self.tickets.get(who).copied() {
            Some(ticket) => {
                let deadline = self.waiters[&ticket].deadline;
                self.forget(ticket);
                (ticket, deadline)
            }
            None if self.waiters.len() >= self.most_waiting => return Err(Full),
            None => {
                self.last_ticket += 1;
                (self.last_ticket, deadline)
            }
        };
        let needs = distinct(needs);
        for need in &needs {
            self.slot(need).queue.insert(ticket);
        }
        if needs.is_empty() {
            return Ok([vec![who.clone()], self.grant(now)].concat());
        }
        self.deadlines.insert((deadline, ticket));
        self.tickets.insert(who.clone(), ticket);
        let who = who.clone();
        self.waiters.insert(
            ticket,
            Waiter {
                who,
                needs,
                deadline,
            },
        );
        Ok(self.grant(now))
    }

    /// Gives back one place at each of `needs`. Returns who is granted now, oldest first; their
    /// places are taken already.
    #[must_use = "the places of those returned are taken"]
    pub fn release(&mut self, needs: &[Endpoint], now: Instant) -> Vec<K> {
        for need in distinct(needs) {
            if let Some(slot) = self.slots.get_mut(&need) {
                slot.used = slot.used.saturating_sub(1);
                slot.released = Some(now);
                if slot.idle_and_unplanned() {
                    self.slots.remove(&need);
                }
            }
        }
        self.grant(now)
    }

    /// `who` waits no longer (cancelled, or its conversation is gone). Returns who is granted now.
    #[must_use = "the places of those returned are taken"]
    pub fn leave(&mut self, who: &K, now: Instant) -> Vec<K> {
        match self.tickets.get(who).copied() {
            Some(ticket) => {
                self.forget(ticket);
                self.grant(now)
            }
            None => Vec::new(),
        }
    }

    /// Takes out those whose deadline has passed at `now`, and grants what that frees and what
    /// holds that have ended free.
    #[must_use = "the places of those granted are taken"]
    pub fn due(&mut self, now: Instant) -> Due<K> {
        let mut overdue = Vec::new();
        while let Some(&(deadline, ticket)) = self.deadlines.first() {
            if !deadline.passed(now) {
                break;
            }
            if let Some(waiter) = self.forget(ticket) {
                overdue.push(waiter.who);
            }
        }
        let granted = self.grant(now);
        Due { overdue, granted }
    }

    /// The next moment at which [`Places::due`] has something to do; `None` while nobody waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let first = self.deadlines.first().map(|(deadline, _)| deadline.0);
        match (first, self.hold_ends) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// Whether `who` waits.
    #[must_use]
    pub fn waits(&self, who: &K) -> bool {
        self.tickets.contains_key(who)
    }

    fn slot(&mut self, endpoint: &Endpoint) -> &mut Slot {
        self.slots
            .entry(endpoint.clone())
            .or_insert_with(Slot::unplanned)
    }

    fn forget(&mut self, ticket: Ticket) -> Option<Waiter<K>> {
        let waiter = self.waiters.remove(&ticket)?;
        self.tickets.remove(&waiter.who);
        self.deadlines.remove(&(waiter.deadline, ticket));
        for need in &waiter.needs {
            if let Some(slot) = self.slots.get_mut(need) {
                slot.queue.remove(&ticket);
                if slot.idle_and_unplanned() {
                    self.slots.remove(need);
                }
            }
        }
        Some(waiter)
    }

    /// Goes through those who wait for an endpoint with open places, oldest first: takes the places
    /// of whoever can have all that it needs, and holds for whoever may hold.
    fn grant(&mut self, now: Instant) -> Vec<K> {
        for slot in self.slots.values_mut() {
            slot.open = slot.capacity.saturating_sub(slot.used);
        }
        self.hold_ends = None;
        let mut granted = Vec::new();
        let mut last = 0;
        while let Some(ticket) = self.next_candidate(last) {
            last = ticket;
            let needs = &self.waiters[&ticket].needs;
            let lacking = || {
                needs
                    .iter()
                    .map(|need| &self.slots[need])
                    .filter(|s| s.open == 0)
            };
            if lacking().next().is_none() {
                for need in needs {
                    if let Some(slot) = self.slots.get_mut(need) {
                        slot.used += 1;
                        slot.open -= 1;
                    }
                }
                granted.extend(self.forget(ticket).map(|waiter| waiter.who));
                continue;
            }
            let moves_until = lacking()
                .map(|slot| slot.moves_until(self.moving))
                .min()
                .flatten();
            let Some(until) = moves_until.filter(|&until| until > now) else {
                continue;
            };
            self.hold_ends = Some(self.hold_ends.map_or(until, |ends| ends.min(until)));
            for need in needs {
                if let Some(slot) = self.slots.get_mut(need) {
                    slot.open = slot.open.saturating_sub(1);
                }
            }
        }
        granted
    }

    fn next_candidate(&self, last: Ticket) -> Option<Ticket> {
        let later = (Bound::Excluded(last), Bound::Unbounded);
        self.slots
            .values()
            .filter(|slot| slot.open > 0)
            .filter_map(|slot| slot.queue.range(later).next().copied())
            .min()
    }
}

impl Slot {
    fn unplanned() -> Slot {
        Slot {
            capacity: 1,
            used: 0,
            open: 1,
            released: None,
            queue: BTreeSet::new(),
            planned: false,
        }
    }

    fn idle_and_unplanned(&self) -> bool {
        !self.planned && self.used == 0 && self.queue.is_empty()
    }

    /// Until when it counts as moving; `None` where it has not given a place back yet.
    fn moves_until(&self, moving: Duration) -> Option<Instant> {
        self.released?.checked_add(moving)
    }
}

fn distinct(needs: &[Endpoint]) -> Vec<Endpoint> {
    let mut distinct: Vec<Endpoint> = Vec::with_capacity(needs.len());
    for need in needs {
        if !distinct.contains(need) {
            distinct.push(need.clone());
        }
    }
    distinct
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
