//! The real store, with what a killed process loses of it: marks that wait for company. The store
//! promises that they are written before the next urgent write, or after a while; here they wait in
//! this file until then, so that a kill can take them away.

use std::collections::BTreeSet;
use std::sync::Arc;

use korvun::base::clock::UnixMs;
use korvun::domain::cursor::{Cursor, Reached};
use korvun::domain::ids::{ChannelName, Conversation};
use korvun::domain::limits::Limits;
use korvun::domain::message::{Inbound, Outgoing};
use korvun::store::{
    self, Accepted, Audience, Claim, Excuse, Finish, Finished, Place, Queued, Store, Work,
};

use tempfile::TempDir;

use super::clock::VirtualClock;

/// A write that nobody waits for.
#[derive(Clone, Debug)]
pub enum Mark {
    Sent(i64),
    Part(i64, u32),
    Retry(i64, UnixMs),
    PutBack(i64),
    GiveBack(i64),
    Advance(ChannelName, Cursor),
}

/// Why a write brought nothing. After `Hangs` it may be done all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Refuses,
    Hangs,
}

/// How the next write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Fine,
    Refuses,
    Hangs,
}

/// Where a world has its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Memory,
    File,
}

pub struct Books {
    pub store: Store,
    place: Place,
    limits: Limits,
    clock: Arc<VirtualClock>,
    /// Goes with the world.
    _folder: Option<TempDir>,
    marks: Vec<Mark>,
    /// Set before each write by whoever rolls the dice.
    pub mood: Mood,
    /// Parts of rows that are known to be sent whatever happens to the process.
    pub durable: BTreeSet<(i64, u32)>,
    /// Whether anything was written since the oracle looked.
    pub changed: bool,
}

impl Books {
    pub fn open(on: On, limits: &Limits, clock: Arc<VirtualClock>) -> Books {
        let folder = (on == On::File).then(|| {
            // In memory too, where the machine has such a folder: here only the process dies.
            tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .expect("a folder")
        });
        let file = folder
            .as_ref()
            .map(|folder| folder.path().join("korvun.db"));
        let place = file.map_or(Place::Memory, Place::File);
        Books {
            store: Store::open(&place, limits, clock.clone()).expect("a store"),
            place,
            limits: limits.clone(),
            clock,
            _folder: folder,
            marks: Vec::new(),
            mood: Mood::Fine,
            durable: BTreeSet::new(),
            changed: true,
        }
    }

    /// The process is gone, and all that it had not written.
    pub fn killed(&mut self) {
        self.marks.clear();
    }

    /// A new process opens the store. One in memory would be gone with its process: it stays, and
    /// what opening does with rows that the last process left is done to it.
    pub fn recover(&mut self) {
        self.changed = true;
        if let Place::File(_) = self.place {
            self.store.close();
            let store = Store::open(&self.place, &self.limits, self.clock.clone());
            self.store = store.expect("a store that opens again");
            return;
        }
        let recovered = self.store.write(|tx| store::recover(tx));
        recovered.expect("a store in memory can write");
    }

    /// Leaves a mark; says whether it is the first that waits.
    pub fn mark(&mut self, mark: Mark) -> bool {
        self.marks.push(mark);
        self.marks.len() == 1
    }

    pub fn marks_wait(&self) -> bool {
        !self.marks.is_empty()
    }

    fn urgent<T>(&mut self, write: impl FnOnce(&Store) -> T) -> Result<T, Trouble> {
        if self.mood == Mood::Refuses {
            return Err(Trouble::Refuses);
        }
        self.changed = true;
        for mark in std::mem::take(&mut self.marks) {
            match mark {
                Mark::Sent(row) => {
                    self.durable.insert((row, u32::MAX));
                    self.store.sent(row);
                }
                Mark::Part(row, parts) => {
                    self.durable.insert((row, parts));
                    self.store.part_sent(row, parts);
                }
                Mark::Retry(row, at) => self.store.retry(row, at, "simulated"),
                Mark::PutBack(row) => self.store.put_back(row),
                // The store's own way: its orphans are put right by a write that waits for company.
                Mark::GiveBack(row) => {
                    self.store
                        .give_back(row)
                        .expect("a store in memory can write");
                }
                Mark::Advance(channel, cursor) => self.store.advance(&channel, &cursor),
            }
        }
        Ok(write(&self.store))
    }

    /// Whether a write that was done is told.
    fn told(&self) -> Result<(), Trouble> {
        match self.mood {
            Mood::Hangs => Err(Trouble::Hangs),
            Mood::Fine | Mood::Refuses => Ok(()),
        }
    }

    /// Writes the marks.
    pub fn flush(&mut self) -> Result<(), Trouble> {
        self.urgent(|store| {
            store
                .write(|_| Ok(()))
                .expect("a store in memory can write")
        })
    }

    pub fn accept(
        &mut self,
        inbound: &Inbound,
        cursor: Option<&Cursor>,
        claim: Claim,
    ) -> Result<Accepted, Trouble> {
        let busy = Excuse {
            text: "busy".to_owned(),
            sender_name: "Korvun".to_owned(),
        };
        let accepted = self.urgent(|store| {
            store
                .accept_at(inbound, cursor, claim, Some(Audience::Public), &busy)
                .expect("a store in memory can write")
        })?;
        self.told().inspect_err(|_| {
            if let Accepted::New {
                work: Some(work), ..
            } = &accepted
            {
                self.marks.push(Mark::GiveBack(work.row));
            }
        })?;
        Ok(accepted)
    }

    pub fn claim(&mut self, conversation: &Conversation) -> Result<Option<Work>, Trouble> {
        let claimed = self.urgent(|store| store.claim(conversation).expect("can write"))?;
        let work = claimed.work;
        self.told().inspect_err(|_| {
            if let Some(work) = &work {
                self.marks.push(Mark::GiveBack(work.row));
            }
        })?;
        Ok(work)
    }

    pub fn finish(&mut self, row: i64, end: Finish) -> Result<Finished, Trouble> {
        let finished = self.urgent(|store| store.finish(row, end).expect("can write"))?;
        self.told()?;
        Ok(finished)
    }

    pub fn give_back(&mut self, row: i64) -> Result<(), Trouble> {
        self.urgent(|store| store.give_back(row).expect("can write"))?;
        self.told()
    }

    pub fn forgive(&mut self) -> Result<Vec<i64>, Trouble> {
        let rows = self.urgent(|store| store.forgive().expect("can write"))?;
        self.told()?;
        Ok(rows)
    }

    pub fn failed(&mut self, row: i64) -> Result<(), Trouble> {
        self.urgent(|store| store.failed(row, "simulated").expect("can write"))?;
        self.told()
    }

    // Reads see what is committed, without the marks that wait.

    pub fn cursor(&self, channel: &ChannelName, account: &str) -> Option<Reached> {
        self.store.cursor(channel, account).expect("can read")
    }

    pub fn outgoing(&self, row: i64) -> Option<Outgoing> {
        self.store.outgoing(row).expect("can read")
    }

    pub fn queued(&self, channel: &ChannelName, most: usize) -> Vec<Queued> {
        self.store.queued(channel, 0, most).expect("can read")
    }

    pub fn open_conversations(&self) -> Vec<Conversation> {
        let open = self.store.open_conversations().expect("can read");
        open.into_iter()
            .map(|(conversation, _)| conversation)
            .collect()
    }
}
