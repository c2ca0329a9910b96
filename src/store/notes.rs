//! Notes that brains keep: one line each, by brain and conversation. Pure statements; writes run
//! on the store's thread, reads on the caller's. A note goes with its conversation, with its time,
//! or when somebody clears it.

use rusqlite::{params, Connection};

use super::error::StoreError;
use super::sweep::BATCH;
use super::turns::Audience;
use super::{Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::brain::{Memory, MemoryScope};
use crate::domain::ids::{BrainName, Conversation};
use crate::domain::notes::{reach, Reach};

/// Whose notes are meant, and who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notebook {
    /// The brain.
    pub brain: BrainName,
    /// The conversation in which it is asked.
    pub conversation: Conversation,
    /// Whether the brain keeps all its notes together.
    pub scope: MemoryScope,
    /// For whom they are read or written: a public one is shown nothing that a private brain has
    /// noted.
    pub audience: Audience,
}

/// What became of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It is stored, now or by an earlier try of the same call.
    Stored,
    /// There is no room for it.
    Full,
}

/// What a person is shown of the notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Those that may be shown here, oldest first.
    pub notes: Vec<String>,
    /// How many more the brain would be shown, from other conversations.
    pub others: u64,
}

const IN_BOOK: &str = "brain = ?1 AND (?2 OR (channel = ?3 AND conversation = ?4))
                       AND (?5 OR private = 0)";

impl Notebook {
    /// The notes of the book, or of its conversation alone.
    fn texts(&self, connection: &Connection, reach: Reach) -> rusqlite::Result<Vec<String>> {
        connection
            .prepare_cached(&format!(
                "SELECT text FROM notes WHERE {IN_BOOK} ORDER BY id"
            ))?
            .query_map(self.key(reach), |row| row.get(0))?
            .collect()
    }

    /// How many they are, and how many characters they have together.
    fn size(&self, connection: &Connection, reach: Reach) -> rusqlite::Result<(u64, u64)> {
        connection
            .prepare_cached(&format!(
                "SELECT count(*), coalesce(sum(length(text)), 0) FROM notes WHERE {IN_BOOK}"
            ))?
            .query_row(self.key(reach), |row| {
                let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
                Ok((number(0)?, number(1)?))
            })
    }

    fn key(&self, reach: Reach) -> (&str, bool, &str, &str, bool) {
        (
            self.brain.as_str(),
            reach == Reach::Brain,
            self.conversation.channel.as_str(),
            &*self.conversation.id,
            self.audience == Audience::Private,
        )
    }

    /// What the brain itself is shown.
    fn scope(&self) -> Reach {
        match self.scope {
            MemoryScope::Brain => Reach::Brain,
            MemoryScope::Conversation => Reach::Conversation,
        }
    }

    fn add(&self, tx: &Tx<'_>, memory: &Memory, call: &str, note: &str) -> rusqlite::Result<Noted> {
        let known: bool = tx
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM notes WHERE call = ?1)")?
            .query_row([call], |row| row.get(0))?;
        if known {
            return Ok(Noted::Stored);
        }
        let (count, runes) = self.size(tx, self.scope())?;
        let runes = runes.saturating_add(u64::try_from(note.chars().count()).unwrap_or(u64::MAX));
        if count >= u64::from(memory.max_notes) || runes > u64::from(memory.budget_runes) {
            return Ok(Noted::Full);
        }
        tx.prepare_cached(
            "INSERT INTO notes(brain, channel, conversation, private, call, text, at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            self.brain.as_str(),
            self.conversation.channel.as_str(),
            &*self.conversation.id,
            self.audience == Audience::Private,
            call,
            note,
            tx.now.0
        ])?;
        Ok(Noted::Stored)
    }
}

/// Takes the notes of a conversation, whichever brain's they are.
pub(super) fn drop_conversation(tx: &Tx<'_>, conversation: &Conversation) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM notes WHERE channel = ?1 AND conversation = ?2")?
        .execute(params![conversation.channel.as_str(), &*conversation.id])
        .map(drop)
}

/// Takes notes from before a moment, some at a time; says how many went.
pub(super) fn drop_old(tx: &Tx<'_>, before: UnixMs) -> rusqlite::Result<usize> {
    tx.prepare_cached(
        "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE at_ms < ?1 LIMIT ?2)",
    )?
    .execute(params![before.0, BATCH])
}

impl Store {
    /// Keeps a note of a book, unless the book is full. `call` tells the call that makes it from
    /// all others: tried again, it stores nothing twice.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn add_note(
        &self,
        book: &Notebook,
        memory: &Memory,
        call: &str,
        note: &str,
    ) -> Result<Noted, StoreError> {
        let (book, memory) = (book.clone(), *memory);
        let (call, note) = (call.to_owned(), note.to_owned());
        self.write(move |tx| book.add(tx, &memory, &call, &note))
    }

    /// All notes that the brain is shown in the book's conversation, oldest first.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn notes(&self, book: &Notebook) -> Result<Vec<String>, StoreError> {
        let book = book.clone();
        self.read(move |connection| book.texts(connection, book.scope()))
    }

    /// What a person in the book's conversation is shown of its notes: of a brain that keeps them
    /// together only the console shows all.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn list_notes(&self, book: &Notebook) -> Result<Listed, StoreError> {
        let book = book.clone();
        self.read(move |connection| {
            let reach = reach(book.scope, &book.conversation.channel);
            let notes = book.texts(connection, reach)?;
            let (all, _) = book.size(connection, book.scope())?;
            let others = all.saturating_sub(notes.len() as u64);
            Ok(Listed { notes, others })
        })
    }

    /// Takes the notes that a person in the book's conversation may clear: those of the
    /// conversation, and on the console all of a brain that keeps them together. They go whoever
    /// may see them; no byte of them is left in the files. Says how many went.
    ///
    /// Blocks: for several short transactions.
    ///
    /// # Errors
    /// As [`Store::expire`].
    pub fn clear_notes(&self, book: &Notebook) -> Result<u64, StoreError> {
        let mut book = book.clone();
        book.audience = Audience::Private;
        let gone = self.write(move |tx| {
            let reach = reach(book.scope, &book.conversation.channel);
            tx.prepare_cached(&format!("DELETE FROM notes WHERE {IN_BOOK}"))?
                .execute(book.key(reach))
        })?;
        if gone > 0 {
            self.wipe()?;
        }
        Ok(gone as u64)
    }
}
