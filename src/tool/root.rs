//! The folder that `read_file` may read, judged anew at each use by what it really is. Runs on the
//! run's thread; opens folders as places only (`O_PATH`), never to read them.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{openat, Mode, OFlags, CWD};

use crate::domain::paths;

/// Folders above each other: a path of 4096 bytes, the kernel's longest, seldom has as many.
const HEIGHT_MOST: usize = 512;

/// What may not be read by any way.
#[derive(Clone, Debug)]
pub struct Forbidden {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Forbidden {
    /// The folders of the system, that of the credentials, and these files: the configuration, the
    /// env file, the database.
    #[must_use]
    pub fn new(files: Vec<PathBuf>, credentials: Option<PathBuf>) -> Forbidden {
        let folders = paths::FORBIDDEN.iter().map(PathBuf::from);
        Forbidden {
            folders: folders.chain(credentials).collect(),
            files,
        }
    }

    /// What they are now. What is not there is nothing.
    fn ids(&self) -> io::Result<Vec<Id>> {
        let all = self.folders.iter().chain(&self.files);
        all.filter_map(|path| found(std::fs::metadata(path)).transpose())
            .map(|facts| facts.map(|facts| Id(facts.dev(), facts.ino())))
            .collect()
    }
}

/// Which file or folder something is: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(u64, u64);

impl Id {
    /// That of an open one.
    pub(super) fn of(file: &File) -> io::Result<Id> {
        let facts = file.metadata()?;
        Ok(Id(facts.dev(), facts.ino()))
    }
}

/// The folder, open.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) folder: File,
    /// Its path without links: a text to compare with, never opened.
    pub(super) real: PathBuf,
    /// What must not be met on the way down.
    pub(super) forbidden: Vec<Id>,
}

/// Opens the root.
///
/// # Errors
/// It is not there, or it is what may not be read, lies in it or contains it.
pub(super) fn open(path: &Path, forbidden: &Forbidden) -> io::Result<Root> {
    let folder = place(path)?;
    let own = Id::of(&folder)?;
    let above = upwards(&folder)?;
    let refused = || io::Error::other("the root is, lies in or contains what may not be read");
    for folder in &forbidden.folders {
        let Some(other) = found(place(folder))? else {
            continue;
        };
        if above.contains(&Id::of(&other)?) || upwards(&other)?.contains(&own) {
            return Err(refused());
        }
    }
    for file in &forbidden.files {
        // The folder in which its name stands, and that in which it lies.
        let real = std::fs::canonicalize(file).ok();
        for folder in [Some(file), real.as_ref()].into_iter().flatten() {
            let folder = folder.parent().filter(|path| !path.as_os_str().is_empty());
            let Some(folder) = found(place(folder.unwrap_or(Path::new("."))))? else {
                continue;
            };
            if upwards(&folder)?.contains(&own) {
                return Err(refused());
            }
        }
    }
    Ok(Root {
        folder,
        real: std::fs::canonicalize(path)?,
        forbidden: forbidden.ids()?,
    })
}

fn place(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// What is not there is no error.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The folder and all those above it.
fn upwards(folder: &File) -> io::Result<Vec<Id>> {
    let mut ids = vec![Id::of(folder)?];
    let mut at = folder.try_clone()?;
    while ids.len() < HEIGHT_MOST {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        at = File::from(openat(&at, "..", flags, Mode::empty())?);
        let id = Id::of(&at)?;
        // Above the topmost stands itself.
        if ids.last() == Some(&id) {
            return Ok(ids);
        }
        ids.push(id);
    }
    Err(io::Error::other("too many folders above each other"))
}
