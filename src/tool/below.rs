//! The way from a root to a file, one open folder after the other, so that nothing can be swapped
//! in between: each name is opened in the folder that is held, links are never followed by the
//! kernel but read and walked here. Runs on the run's thread; reads nothing but links, and opens
//! nothing that lies outside of the root.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fs::{openat, readlinkat, Mode, OFlags};
use rustix::io::Errno;

use super::root::{Id, Root};

/// Links on one way: as many as the kernel follows (path_resolution(7)).
const LINKS_MOST: usize = 40;
/// Names on one way, those in links included: bounds the work that a loop of links can make.
const STEPS_MOST: usize = 1024;
/// Folders below each other, each held open while the way is walked: far below what a process may
/// have open, above what people keep notes in.
const DEPTH_MOST: usize = 64;

/// Where a way ended.
#[derive(Debug)]
pub(super) enum End {
    /// At a regular file, open for reading.
    File(File),
    /// At a folder.
    Folder,
    /// At a pipe, a socket or a device; it was not opened.
    Special,
    /// Nowhere: there is no such file, or the way is too long.
    Nothing,
    /// The way leads out of the root, or to what may not be read.
    Outside,
    /// The system does not let us.
    Forbidden,
    /// The system cannot now.
    Unable,
}

/// Where a walk stands.
struct Walk<'a> {
    root: &'a Root,
    /// The root's path as it is configured.
    named: &'a Path,
    /// Names still to go.
    ahead: VecDeque<OsString>,
    /// The folders gone down, below the root.
    held: Vec<File>,
    /// Above the root: how many names of the root's own path lie between. Nothing is opened there;
    /// only those very names lead back.
    above: usize,
    links: usize,
    steps: usize,
}

/// Walks from the root along `path`, which is relative to it. `named` is the root's path as it is
/// configured: a link may name it.
pub(super) fn walk(root: &Root, named: &Path, path: &Path) -> End {
    let mut walk = Walk {
        root,
        named,
        ahead: names(path),
        held: Vec::new(),
        above: 0,
        links: 0,
        steps: 0,
    };
    loop {
        match walk.step() {
            Ok(()) => {}
            Err(end) => return end,
        }
    }
}

/// The names of a relative path in order; a slash at its end is a name that only a folder has.
fn names(path: &Path) -> VecDeque<OsString> {
    let mut names: VecDeque<OsString> = path
        .components()
        .map(|part| part.as_os_str().to_owned())
        .collect();
    if !names.is_empty() && path.as_os_str().as_bytes().ends_with(b"/") {
        names.push_back(".".into());
    }
    names
}

impl Walk<'_> {
    fn folder(&self) -> &File {
        self.held.last().unwrap_or(&self.root.folder)
    }

    /// Goes one name on; an end comes as an error.
    fn step(&mut self) -> Result<(), End> {
        let Some(name) = self.ahead.pop_front() else {
            return Err(match self.above {
                0 => End::Folder,
                _ => End::Outside,
            });
        };
        self.steps += 1;
        if self.steps > STEPS_MOST {
            return Err(End::Nothing);
        }
        match name.as_bytes() {
            b"." => Ok(()),
            b".." => {
                if self.above > 0 || self.held.pop().is_none() {
                    self.above = (self.above + 1).min(self.height());
                }
                Ok(())
            }
            _ if self.above > 0 => self.descend(&name),
            _ => self.enter(&name),
        }
    }

    /// How many names the root's own path has.
    fn height(&self) -> usize {
        self.root.real.components().count() - 1
    }

    /// Back towards the root: by its own names only.
    fn descend(&mut self, name: &OsStr) -> Result<(), End> {
        let next = self
            .root
            .real
            .components()
            .nth(self.height() + 1 - self.above);
        if next != Some(Component::Normal(name)) {
            return Err(End::Outside);
        }
        self.above -= 1;
        Ok(())
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), End> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(self.folder(), name, flags, Mode::empty()).map_err(ended)?;
        let entry = File::from(entry);
        let facts = entry.metadata().map_err(|_| End::Unable)?;
        let id = Id::of(&entry).map_err(|_| End::Unable)?;
        if self.root.forbidden.contains(&id) {
            return Err(End::Outside);
        }
        if facts.is_symlink() {
            return self.link(&entry);
        }
        if facts.is_dir() {
            if self.held.len() == DEPTH_MOST {
                return Err(End::Nothing);
            }
            self.held.push(entry);
            return Ok(());
        }
        if !self.ahead.is_empty() {
            return Err(End::Nothing);
        }
        Err(if facts.is_file() {
            self.open(name)
        } else {
            End::Special
        })
    }

    /// Puts what a link says in front of what is still to go.
    fn link(&mut self, entry: &File) -> Result<(), End> {
        self.links += 1;
        if self.links > LINKS_MOST {
            return Err(End::Nothing);
        }
        let target = readlinkat(entry, "", Vec::new()).map_err(ended)?;
        let target = OsString::from_vec(target.into_bytes());
        let mut target = Path::new(&target);
        if target.is_absolute() {
            self.held.clear();
            match target.strip_prefix(self.named) {
                Ok(rest) => target = rest,
                Err(_) => {
                    self.above = self.height();
                    target = target.strip_prefix("/").unwrap_or(target);
                }
            }
        }
        for name in names(target).into_iter().rev() {
            self.ahead.push_front(name);
        }
        Ok(())
    }

    /// Opens the file for reading. Another one may stand there by now: it is judged again, and a
    /// pipe or a device neither blocks nor is read.
    fn open(&self, name: &OsStr) -> End {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(self.folder(), name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(error) => return ended(error),
        };
        let judged = || -> io::Result<End> {
            if self.root.forbidden.contains(&Id::of(&file)?) {
                return Ok(End::Outside);
            }
            match file.metadata()?.is_file() {
                true => Ok(End::File(file.try_clone()?)),
                false => Ok(End::Special),
            }
        };
        judged().unwrap_or(End::Unable)
    }
}

fn ended(error: Errno) -> End {
    match error {
        // A link where none was: somebody is at work there.
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::LOOP => {
            End::Nothing
        }
        Errno::ACCESS | Errno::PERM => End::Forbidden,
        Errno::NXIO | Errno::NODEV => End::Special,
        _ => End::Unable,
    }
}
