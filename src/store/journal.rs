//! The steps of a run in work and the audit of its tool calls, in one commit each. Runs on the
//! store's thread. The journal is what a restart goes on from: it goes with the end of its message.
//! The audit is metadata only, and stays.

use std::time::Duration;

use rusqlite::params;

use super::error::StoreError;
use super::{Store, Tx};
use crate::base::clock::UnixMs;
use crate::domain::audit::{Rule, ToolOutcome};

/// What one commit adds to the journal of a message in work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The entry; nothing where only the audit changes.
    pub entry: Option<Vec<u8>>,
    /// The tool call that it begins or ends, where it does.
    pub audit: Option<CallRecord>,
}

/// One tool call of a message, as it is audited. The same call recorded again replaces what was
/// recorded of it, so that each has one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Its number among the calls of its message.
    pub call: u32,
    /// The brain that makes it.
    pub brain: String,
    /// The tool; `unknown` where the brain has none of that name.
    pub tool: String,
    /// The channel of the message.
    pub channel: String,
    /// How it ended; `None` while it is in work.
    pub end: Option<CallEnd>,
}

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// In what.
    pub outcome: ToolOutcome,
    /// What refused it, or would have.
    pub rule: Option<Rule>,
    /// How long it took.
    pub latency: Duration,
}

/// One row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedCall {
    /// When it was recorded last.
    pub at: UnixMs,
    /// The tool, or `unknown`.
    pub tool: String,
    /// The channel.
    pub channel: String,
    /// The word of its outcome; empty while it is in work.
    pub outcome: String,
    /// The word of the rule that refused it; empty where none did.
    pub rule: String,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
}

/// The rehearsals of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// The tool.
    pub tool: String,
    /// How often it was rehearsed.
    pub rehearsals: u64,
    /// How many of those a cage or the shield would have refused.
    pub would_refuse: u64,
}

/// Calls that were in work when the last process ended: nobody knows what became of them.
pub(super) fn recover(connection: &rusqlite::Connection) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE audit SET outcome = ?1 WHERE outcome = ''",
        [ToolOutcome::Unknown.word()],
    )
}

/// Takes the journal of a message that has ended.
pub(super) fn end(tx: &Tx<'_>, row: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM journal WHERE inbox = ?1")?
        .execute([row])
        .map(drop)
}

/// Takes journals whose message has gone.
pub(super) fn drop_orphans(tx: &Tx<'_>) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM journal WHERE inbox NOT IN (SELECT id FROM inbox)")?
        .execute([])
        .map(drop)
}

/// Takes audit rows from before a moment, from the oldest end, some at a time; says how many went.
pub(super) fn drop_audit(tx: &Tx<'_>, before: UnixMs, most: i64) -> rusqlite::Result<u64> {
    tx.prepare_cached(
        "DELETE FROM audit WHERE id IN (
           SELECT id FROM (SELECT id, at_ms FROM audit ORDER BY id LIMIT ?2) WHERE at_ms < ?1)",
    )?
    .execute(params![before.0, most])
    .map(|rows| rows as u64)
}

/// Keeps the newest audit rows only, for a store in memory.
pub(super) fn trim_audit(tx: &Tx<'_>, kept: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?1")?
        .execute([kept])
        .map(drop)
}

fn record(tx: &Tx<'_>, row: i64, record: &CallRecord) -> rusqlite::Result<()> {
    let (outcome, rule, latency) = match record.end {
        None => ("", "", Duration::ZERO),
        Some(end) => (
            end.outcome.word(),
            end.rule.map_or("", Rule::word),
            end.latency,
        ),
    };
    let latency = i64::try_from(latency.as_millis()).unwrap_or(i64::MAX);
    tx.prepare_cached(
        "INSERT INTO audit(inbox, call, at_ms, brain, tool, channel, outcome, rule, latency_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT(inbox, call) DO UPDATE SET at_ms = ?3, brain = ?4, tool = ?5, channel = ?6,
           outcome = ?7, rule = ?8, latency_ms = ?9",
    )?
    .execute(params![
        row,
        record.call,
        tx.now.0,
        record.brain,
        record.tool,
        record.channel,
        outcome,
        rule,
        latency
    ])
    .map(drop)
}

fn begun(tx: &Tx<'_>, row: i64, call: u32) -> rusqlite::Result<bool> {
    tx.prepare_cached("SELECT EXISTS (SELECT 1 FROM audit WHERE inbox = ?1 AND call = ?2)")?
        .query_row(params![row, call], |columns| columns.get(0))
}

fn add(tx: &Tx<'_>, row: i64, steps: &[Step]) -> rusqlite::Result<bool> {
    let working: bool = tx
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM inbox WHERE id = ?1 AND state = 1)")?
        .query_row([row], |columns| columns.get(0))?;
    if !working {
        // A call that had begun before is still closed: it did what it did.
        for call in steps.iter().filter_map(|step| step.audit.as_ref()) {
            if call.end.is_some() && begun(tx, row, call.call)? {
                record(tx, row, call)?;
            }
        }
        return Ok(false);
    }
    for step in steps {
        if let Some(entry) = &step.entry {
            tx.prepare_cached(
                "INSERT INTO journal(inbox, n, entry)
                 SELECT ?1, coalesce(max(n), 0) + 1, ?2 FROM journal WHERE inbox = ?1",
            )?
            .execute(params![row, entry])?;
        }
        if let Some(call) = &step.audit {
            record(tx, row, call)?;
        }
    }
    Ok(true)
}

impl Store {
    /// Adds steps to the journal of a message in work, and their calls to the audit, in one
    /// commit. Says whether the message was still in work: of one that was taken away, deleted or
    /// ended nothing is stored but the end of a call that had begun, and its run has to give up.
    ///
    /// Blocks: as [`Store::write`].
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn add_steps(&self, row: i64, steps: Vec<Step>) -> Result<bool, StoreError> {
        self.write(move |tx| add(tx, row, &steps))
    }

    /// What an earlier attempt at a message has done, in order.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn journal(&self, row: i64) -> Result<Vec<Vec<u8>>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT entry FROM journal WHERE inbox = ?1 ORDER BY n")?
                .query_map([row], |columns| columns.get(0))?
                .collect()
        })
    }

    /// The newest tool calls of a brain, the newest first.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn recent_calls(&self, brain: &str, most: u32) -> Result<Vec<AuditedCall>, StoreError> {
        let brain = brain.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT at_ms, tool, channel, outcome, rule, latency_ms FROM audit
                     WHERE brain = ?1 ORDER BY id DESC LIMIT ?2",
                )?
                .query_map(params![brain, most], |row| {
                    Ok(AuditedCall {
                        at: UnixMs(row.get(0)?),
                        tool: row.get(1)?,
                        channel: row.get(2)?,
                        outcome: row.get(3)?,
                        rule: row.get(4)?,
                        latency_ms: u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
                    })
                })?
                .collect()
        })
    }

    /// What a brain has rehearsed, by tool, as far as the audit reaches.
    ///
    /// Blocks: as [`Store::read`].
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn rehearsals(&self, brain: &str) -> Result<Vec<Rehearsed>, StoreError> {
        let brain = brain.to_owned();
        self.read(move |connection| {
            connection
                .prepare_cached(
                    "SELECT tool, count(*), count(nullif(rule, '')) FROM audit
                     WHERE brain = ?1 AND outcome = ?2 GROUP BY tool ORDER BY tool",
                )?
                .query_map(params![brain, ToolOutcome::Shadowed.word()], |row| {
                    let count =
                        |at: usize| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
                    Ok(Rehearsed {
                        tool: row.get(0)?,
                        rehearsals: count(1)?,
                        would_refuse: count(2)?,
                    })
                })?
                .collect()
        })
    }
}
