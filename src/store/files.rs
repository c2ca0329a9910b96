//! The files of a store: directory, modes, and the lock that keeps a second daemon out. Runs on
//! the thread that opens the store; must never widen a permission.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};

use super::error::StoreError;

/// Who may read and write our files: their owner.
const OWNER_ONLY: u32 = 0o600;

/// The files of one database, made and locked.
#[derive(Debug)]
pub(super) struct Files {
    /// The database, by its resolved path.
    pub path: PathBuf,
    /// What the operator should know about permissions.
    pub warnings: Vec<String>,
    /// Held open for as long as the store is.
    pub lock: Lock,
}

/// Makes what is missing, tightens what is ours, and takes the lock.
pub(super) fn prepare(path: &Path) -> Result<Files, StoreError> {
    let named = |error: std::io::Error| StoreError::unreachable(path, &error);
    let mut warnings = Vec::new();
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    directory_ready(directory, &mut warnings)?;
    // Made before SQLite sees it: SQLite gives the log files beside it the same mode.
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)
    {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(OWNER_ONLY))
                .map_err(named)?;
            // The name itself must survive a power cut, or the first commit is in no directory.
            File::open(directory)
                .and_then(|opened| opened.sync_all())
                .map_err(named)?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(named(error)),
    }
    // Links are resolved, so that two names of one file meet at one lock.
    let path = fs::canonicalize(path).map_err(named)?;
    if !fs::metadata(&path).map_err(named)?.is_file() {
        return Err(StoreError::NotADatabase(path));
    }
    let lock = Lock::acquire(&path)?;
    for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        tighten(&file, &mut warnings);
    }
    Ok(Files {
        path,
        warnings,
        lock,
    })
}

/// The file beside the database whose name has `suffix` added.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn directory_ready(directory: &Path, warnings: &mut Vec<String>) -> Result<(), StoreError> {
    match fs::metadata(directory) {
        Ok(facts) => {
            // A sticky directory lets nobody replace another's files.
            if facts.mode() & 0o022 != 0 && facts.mode() & 0o1000 == 0 {
                warnings.push(format!(
                    "others can write to {}; take their permission away with chmod go-w",
                    directory.display()
                ));
            }
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| StoreError::unreachable(directory, &error)),
        Err(error) => Err(StoreError::unreachable(directory, &error)),
    }
}

/// Takes the permissions of group and others from a file that is there.
fn tighten(file: &Path, warnings: &mut Vec<String>) {
    let Ok(facts) = fs::metadata(file) else {
        return;
    };
    if facts.mode() & 0o077 == 0 {
        return;
    }
    let told = match fs::set_permissions(file, Permissions::from_mode(OWNER_ONLY)) {
        Ok(()) => "it is the owner's alone now".to_owned(),
        Err(error) => format!("taking that away failed: {error}"),
    };
    warnings.push(format!("others could open {}; {told}", file.display()));
}

/// The right to use a database, held by one process at a time. It ends with the value, and with
/// the process however that ends.
///
/// It is a `flock` on a file of its own: SQLite's locks are of another kind, and closing any
/// descriptor of the database itself would drop them (sqlite.org/howtocorrupt.html, 2.2).
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held open, never read")] File);

impl Lock {
    /// Takes the lock of the database at `path`.
    ///
    /// # Errors
    /// [`StoreError::InUse`] where another process has it; else the file beside it cannot be made.
    pub fn acquire(path: &Path) -> Result<Lock, StoreError> {
        let beside = beside(path, ".lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(OWNER_ONLY)
            .open(&beside)
            .map_err(|error| StoreError::unreachable(&beside, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::InUse(path.to_owned())),
            Err(error) => Err(StoreError::unreachable(&beside, &error.into())),
        }
    }
}
