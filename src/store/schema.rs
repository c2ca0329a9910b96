//! The tables, as migrations that are only ever added to, and the settings of each connection.
//! Runs on the thread that opens the store; must never touch a file that is not ours.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::error::StoreError;
use super::files::beside;
use crate::base::random;

/// Marks a file as Korvun's ("Krvn"; field `application_id` of the file's header,
/// sqlite.org/fileformat2.html section 1.3.17).
const APPLICATION_ID: i64 = 0x4b72_766e;

/// How long a statement waits for another program's lock (a backup, a person with a shell).
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Prepared statements kept for each connection: all that lie on a message's way.
const STATEMENTS_KEPT: usize = 64;

/// Page cache of the writer in KiB: one commit touches some ten pages of 4 KiB.
const WRITER_CACHE_KIB: i64 = 512;

/// Page cache of one reader in KiB.
const READER_CACHE_KIB: i64 = 128;

/// The write-ahead log is cut back to this many bytes once it has been written home; without
/// it the file stays as large as it ever was.
const JOURNAL_BYTES: i64 = 4 * 1024 * 1024;

/// Bytes of a page. Each page that a commit touches is written whole, twice in the end, and a
/// message touches a dozen; small pages spare an SD card most of that.
const PAGE_BYTES: u32 = 1024;

/// Pages in the write-ahead log before it is written home: 4 MiB.
const CHECKPOINT_PAGES: u32 = 4096;

/// Migration `n` (from 1) brings `user_version` from `n - 1` to `n`. Never change one that has
/// been released; add another.
const MIGRATIONS: &[&str] = &[
    // 1: the spine. The text of a message stands once, in `turns`. States are the numbers of
    // `inbox::State` and `outbox::Delivery`. Partial indexes hold only what is open, so that
    // the work on a message does not grow with the history.
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

     CREATE TABLE turns(
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       channel TEXT NOT NULL,
       conversation TEXT NOT NULL,
       session INTEGER NOT NULL DEFAULT 1,
       role TEXT NOT NULL,
       sender_name TEXT NOT NULL,
       text TEXT NOT NULL,
       at_ms INTEGER NOT NULL,
       outcome TEXT,
       private INTEGER,
       brain TEXT,
       after INTEGER);
     CREATE INDEX turns_order ON turns(channel, conversation, coalesce(after, id));

     CREATE TABLE inbox(
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       turn INTEGER NOT NULL,
       channel TEXT NOT NULL,
       conversation TEXT NOT NULL,
       dedup TEXT,
       sender_id TEXT NOT NULL,
       language TEXT NOT NULL,
       chat TEXT NOT NULL,
       attachment TEXT,
       reply_to TEXT,
       received_ms INTEGER NOT NULL,
       attempts INTEGER NOT NULL,
       state INTEGER NOT NULL,
       answer INTEGER,
       finished_ms INTEGER);
     CREATE INDEX inbox_open ON inbox(channel, conversation) WHERE state <= 1;
     CREATE UNIQUE INDEX inbox_dedup ON inbox(channel, dedup) WHERE dedup IS NOT NULL;

     CREATE TABLE outbox(
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       turn INTEGER NOT NULL,
       inbox INTEGER,
       channel TEXT NOT NULL,
       conversation TEXT NOT NULL,
       reply_to TEXT,
       parts_sent INTEGER NOT NULL DEFAULT 0,
       state INTEGER NOT NULL DEFAULT 0,
       attempts INTEGER NOT NULL DEFAULT 0,
       next_ms INTEGER NOT NULL,
       queued_ms INTEGER NOT NULL,
       finished_ms INTEGER,
       last_error TEXT);
     CREATE INDEX outbox_queued ON outbox(channel) WHERE state = 0;",
    // 2: how far a channel has taken what its platform keeps for it, by account (a bot's id).
    "CREATE TABLE cursors(
       channel TEXT NOT NULL,
       account TEXT NOT NULL,
       position INTEGER NOT NULL,
       at_ms INTEGER NOT NULL,
       PRIMARY KEY(channel, account)) WITHOUT ROWID;",
    // 3: the steps of runs in work, and the audit of tool calls: one row for each call of each
    // message, without anything that was said.
    "CREATE TABLE journal(
       inbox INTEGER NOT NULL,
       n INTEGER NOT NULL,
       entry BLOB NOT NULL,
       PRIMARY KEY(inbox, n)) WITHOUT ROWID;

     CREATE TABLE audit(
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       inbox INTEGER NOT NULL,
       call INTEGER NOT NULL,
       at_ms INTEGER NOT NULL,
       brain TEXT NOT NULL,
       tool TEXT NOT NULL,
       channel TEXT NOT NULL,
       outcome TEXT NOT NULL,
       rule TEXT NOT NULL,
       latency_ms INTEGER NOT NULL);
     CREATE UNIQUE INDEX audit_call ON audit(inbox, call);
     CREATE INDEX audit_brain ON audit(brain, id);",
    // 4: the notes of brains, each stored once for each call that makes one.
    "CREATE TABLE notes(
       id INTEGER PRIMARY KEY AUTOINCREMENT,
       brain TEXT NOT NULL,
       channel TEXT NOT NULL,
       conversation TEXT NOT NULL,
       private INTEGER NOT NULL,
       call TEXT NOT NULL UNIQUE,
       text TEXT NOT NULL,
       at_ms INTEGER NOT NULL);
     CREATE INDEX notes_brain ON notes(brain, channel, conversation);",
    // 5: sessions, each with the first turn that belongs to it; the first of a conversation has no
    // row. `lead` is how many bytes at the beginning of a text were a command that is done;
    // `recalled` marks Korvun's own turn that brings back an earlier session.
    "CREATE TABLE sessions(
       channel TEXT NOT NULL,
       conversation TEXT NOT NULL,
       session INTEGER NOT NULL,
       first_turn INTEGER NOT NULL,
       PRIMARY KEY(channel, conversation, session)) WITHOUT ROWID;
     ALTER TABLE turns ADD COLUMN lead INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE turns ADD COLUMN recalled INTEGER NOT NULL DEFAULT 0;",
];

/// The newest schema that this build knows.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Opens the file for writing, refuses what is not ours before anything is written, and brings
/// its schema up to date.
pub(super) fn open_file(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let named = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(BUSY_WAIT).map_err(named)?;
    judge(&connection, path)?;
    // A file that may not be written is opened read-only by SQLite without a word.
    if connection.is_readonly("main").map_err(named)? {
        return Err(StoreError::ReadOnly);
    }
    // Takes effect in a file that is still empty.
    connection
        .execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}"))
        .map_err(named)?;
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(named)?;
    if mode != "wal" {
        return Err(StoreError::Unreachable {
            path: path.to_owned(),
            why: format!("write-ahead log refused (journal mode {mode})"),
        });
    }
    settle(&connection, WRITER_CACHE_KIB).map_err(named)?;
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = FULL; PRAGMA journal_size_limit = {JOURNAL_BYTES};
             PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
        ))
        .map_err(named)?;
    migrate(&connection).map_err(named)?;
    // After a failed sync the log may hold frames that look committed and are on no disk; what
    // an earlier process left in it is therefore written home before anything is built on it.
    checkpoint(&connection).map_err(named)?;
    Ok(connection)
}

/// Opens a database in memory.
pub(super) fn open_memory() -> Result<Connection, StoreError> {
    let named = |error: rusqlite::Error| StoreError::sqlite(Path::new(":memory:"), &error);
    let connection = Connection::open_in_memory().map_err(named)?;
    settle(&connection, WRITER_CACHE_KIB).map_err(named)?;
    migrate(&connection).map_err(named)?;
    Ok(connection)
}

/// Opens another connection to an open store, for reading only.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let named = |error: rusqlite::Error| StoreError::sqlite(path, &error);
    let connection = Connection::open_with_flags(path, flags).map_err(named)?;
    connection.busy_timeout(BUSY_WAIT).map_err(named)?;
    settle(&connection, READER_CACHE_KIB).map_err(named)?;
    Ok(connection)
}

/// Looks at the file without changing it and says which schema it has; 0 is an empty file.
///
/// # Errors
/// The file is missing or unreadable, is no database, another program's, or a newer Korvun's.
pub fn inspect(path: &Path) -> Result<i64, StoreError> {
    let resolved =
        std::fs::canonicalize(path).map_err(|error| StoreError::unreachable(path, &error))?;
    let connection = match beside(&resolved, "-wal").exists() {
        true => open_reader(&resolved)?,
        false => open_still(&resolved)?,
    };
    judge(&connection, path)
}

/// Opens a database that nobody has open, without making the log files that even a reader makes
/// (sqlite.org/uri.html, "immutable").
fn open_still(path: &Path) -> Result<Connection, StoreError> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).map_err(|error| StoreError::sqlite(path, &error))
}

/// Refuses a file that is not ours or too new; says its schema.
fn judge(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let number = |sql: &str| -> Result<i64, StoreError> {
        connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| StoreError::sqlite(path, &error))
    };
    let version = number("PRAGMA user_version")?;
    let empty = number("SELECT count(*) FROM sqlite_schema")? == 0;
    if empty && version == 0 {
        return Ok(0);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign(PathBuf::from(path)));
    }
    if version > KNOWN {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: version,
            known: KNOWN,
        });
    }
    Ok(version)
}

/// The settings that every connection shares.
fn settle(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Plans do not depend on values, so that a statement is parsed once and not for each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.execute_batch(&format!(
        "PRAGMA secure_delete = ON; PRAGMA foreign_keys = ON;
         PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{cache_kib};"
    ))
}

/// Applies what is missing, each step in a transaction of its own.
fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let mut version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version == 0 {
        connection.execute_batch(&format!("PRAGMA application_id = {APPLICATION_ID}"))?;
    }
    while let Some(step) = usize::try_from(version)
        .ok()
        .and_then(|n| MIGRATIONS.get(n))
    {
        version += 1;
        let tx = connection.unchecked_transaction()?;
        tx.execute_batch(step)?;
        if version == 1 {
            tx.execute(
                "INSERT INTO meta(key, value) VALUES ('epoch', ?1)",
                [random::hex::<8>()],
            )?;
        }
        tx.pragma_update(None, "user_version", version)?;
        tx.commit()?;
    }
    Ok(())
}

/// What makes the message ids of this database its own.
pub(super) fn epoch(connection: &Connection) -> rusqlite::Result<Option<String>> {
    connection
        .query_row("SELECT value FROM meta WHERE key = 'epoch'", [], |row| {
            row.get(0)
        })
        .optional()
}

/// Writes the write-ahead log home and empties it; says whether no reader was in the way.
pub(super) fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0).map(|busy| busy == 0)
    })
}
