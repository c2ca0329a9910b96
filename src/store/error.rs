//! What can go wrong with the store, by what the caller can do about it. Pure; any thread.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;

/// Why the store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// It has not answered in time: the disk hangs. What was asked may still come to be.
    Hangs(Duration),
    /// It has been closed.
    Closed,
    /// No space is left on its disk (or its quota is used up).
    Full,
    /// The file or its file system is read-only.
    ReadOnly,
    /// Reading or writing failed below SQLite.
    Io(String),
    /// The database is damaged.
    Corrupt(String),
    /// The file is no SQLite database; it was left as it is.
    NotADatabase(PathBuf),
    /// The file is another program's database; it was left as it is.
    Foreign(PathBuf),
    /// The file was written by a newer Korvun; it was left as it is.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this build knows.
        known: i64,
    },
    /// Another Korvun has this database open.
    InUse(PathBuf),
    /// Another program holds a lock on the database.
    Locked,
    /// The file or its directory cannot be made, opened or written.
    Unreachable {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system says.
        why: String,
    },
    /// The file was deleted or replaced while it was open; what is written now would be gone with
    /// the process.
    Replaced(PathBuf),
    /// A piece of work panicked and was taken back.
    Panicked,
    /// A statement was refused: a mistake of Korvun's own.
    Refused(String),
}

impl StoreError {
    /// Whether the disk has failed, so that nothing of a transaction can be kept.
    pub(super) fn disk_failed(&self) -> bool {
        matches!(
            self,
            StoreError::Full | StoreError::ReadOnly | StoreError::Io(_) | StoreError::Locked
        )
    }

    /// The error of a path that the operating system refused.
    pub(super) fn unreachable(path: &Path, error: &std::io::Error) -> StoreError {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreError::Full,
            std::io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly,
            _ => StoreError::Unreachable {
                path: path.to_owned(),
                why: error.to_string(),
            },
        }
    }

    /// The error of an SQLite call on the file `path`.
    pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> StoreError {
        let rusqlite::Error::SqliteFailure(failure, text) = error else {
            return StoreError::Refused(error.to_string());
        };
        let text = || {
            let words = text.clone().unwrap_or_else(|| failure.to_string());
            format!("{words} (SQLite code {})", failure.extended_code)
        };
        match failure.code {
            ErrorCode::DiskFull => StoreError::Full,
            ErrorCode::ReadOnly => StoreError::ReadOnly,
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt(text()),
            ErrorCode::NotADatabase => StoreError::NotADatabase(path.to_owned()),
            ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory => StoreError::Io(text()),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Locked,
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied => StoreError::Unreachable {
                path: path.to_owned(),
                why: text(),
            },
            _ => StoreError::Refused(text()),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Hangs(waited) => write!(
                f,
                "the store has not answered within {} s: the disk hangs",
                waited.as_secs()
            ),
            StoreError::Closed => f.write_str("the store is closed"),
            StoreError::Full => f.write_str("writing the database: no space left; make room on its disk"),
            StoreError::ReadOnly => f.write_str(
                "writing the database: the file or its file system is read-only; remount it or correct the permissions",
            ),
            StoreError::Io(why) => write!(f, "reading or writing the database: {why}; check the disk"),
            StoreError::Corrupt(why) => write!(
                f,
                "the database is damaged: {why}; stop Korvun and restore a backup"
            ),
            StoreError::NotADatabase(path) => write!(
                f,
                "{} is not a database; it was left as it is; move it away or correct storage.path",
                path.display()
            ),
            StoreError::Foreign(path) => write!(
                f,
                "{} is the database of another program; it was left as it is; correct storage.path",
                path.display()
            ),
            StoreError::Newer { path, found, known } => write!(
                f,
                "{} was written by a newer Korvun (schema {found}, this one knows {known}); it was left as it is; install the newer version",
                path.display()
            ),
            StoreError::InUse(path) => write!(
                f,
                "{} is in use by another Korvun; stop that one first",
                path.display()
            ),
            StoreError::Locked => f.write_str(
                "writing the database: another program holds a lock on it; close that program",
            ),
            StoreError::Unreachable { path, why } => write!(
                f,
                "opening {}: {why}; its directory must exist or be creatable, and be writable",
                path.display()
            ),
            StoreError::Replaced(path) => write!(
                f,
                "{} was deleted or replaced while Korvun runs, nothing new is taken; put it back, or restart Korvun to begin anew",
                path.display()
            ),
            StoreError::Panicked => f.write_str("a piece of work on the store panicked and was taken back"),
            StoreError::Refused(why) => write!(f, "the database refused a statement: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}
