//! The folder of the Unix socket between front and admin server: private, and gone with the
//! process; what a killed one left behind is removed by the next.

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::random;

/// How the folders in the system's temporary one begin.
const PREFIX: &str = "korvun-admin-";
/// A socket that is there and refuses may be one that is being made this very moment: only after
/// this long it counts as left behind.
const YOUNG: Duration = Duration::from_secs(60);
/// Entries of the temporary folder that are looked at for left-overs.
const ENTRIES_MOST: usize = 4096;

/// A folder for sockets.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Whether it is ours to remove.
    temporary: bool,
}

impl Folder {
    /// `runtime_dir`, or a new folder of mode 0700 in `temp_dir`. Sockets that nobody listens on
    /// any more are removed from either.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn open(runtime_dir: Option<&Path>, temp_dir: &Path) -> io::Result<Folder> {
        Folder::open_beside(runtime_dir, temp_dir, YOUNG)
    }

    fn open_beside(
        runtime_dir: Option<&Path>,
        temp_dir: &Path,
        young: Duration,
    ) -> io::Result<Folder> {
        if let Some(path) = runtime_dir {
            // The service's own: nobody else makes a socket in it.
            remove_stale(path, Duration::ZERO)?;
            return Ok(Folder {
                path: path.to_owned(),
                temporary: false,
            });
        }
        if let Err(error) = remove_left_over_folders(temp_dir, young) {
            log::warn!(error:% = error; "left_over_sockets_not_removed");
        }
        let path = temp_dir.join(format!("{PREFIX}{}", random::hex::<8>()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Folder {
            path,
            temporary: true,
        })
    }

    /// Listens on a new socket of mode 0600.
    ///
    /// # Errors
    /// The file system's, or a path too long for a socket.
    pub(super) fn listen(&self) -> io::Result<(UnixListener, PathBuf)> {
        let path = self.path.join(format!("admin-{}.sock", random::hex::<4>()));
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok((listener, path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed now is removed by the next start.
            let _ = remove_stale(&self.path, Duration::ZERO);
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Removes the sockets of a folder that nobody listens on and that are older than `young`.
fn remove_stale(folder: &Path, young: Duration) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.take(ENTRIES_MOST) {
        let entry = entry?;
        let path = entry.path();
        let ours = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("admin-") && name.ends_with(".sock")
        });
        // A clock that went back makes it young, and it stays until a later start.
        let age = |facts: Metadata| facts.modified().ok()?.elapsed().ok();
        let old = young.is_zero() || entry.metadata().ok().and_then(age) >= Some(young);
        if ours && old && abandoned(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Whether nobody listens on a socket: its process is gone.
fn abandoned(socket: &Path) -> bool {
    UnixStream::connect(socket).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Removes our own folders whose sockets are all abandoned. One without any socket may be about to
/// get one, and stays.
fn remove_left_over_folders(temp_dir: &Path, young: Duration) -> io::Result<()> {
    let user = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(temp_dir)?.take(ENTRIES_MOST) {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Of the entry itself: a link is not followed.
        let facts = entry.metadata()?;
        if !facts.is_dir() || facts.uid() != user {
            continue;
        }
        let path = entry.path();
        let some = fs::read_dir(&path)?.next().is_some();
        remove_stale(&path, young)?;
        if some {
            // Not empty: another Korvun lives in it.
            let _ = fs::remove_dir(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_runtime_folder_loses_its_stale_sockets_only() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join("admin-dead.sock")).unwrap());
        let _alive = UnixListener::bind(dir.path().join("admin-alive.sock")).unwrap();
        fs::write(dir.path().join("other"), "kept").unwrap();
        let folder = Folder::open(Some(dir.path()), Path::new("/nonexistent")).unwrap();
        assert_eq!(sockets(dir.path()), 2);
        let (_listener, path) = folder.listen().unwrap();
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        drop(folder);
        assert!(dir.path().exists());
    }

    #[test]
    fn a_temporary_folder_is_private_and_goes_with_its_owner() {
        let temp = tempfile::tempdir().unwrap();
        let left_over = temp.path().join("korvun-admin-dead");
        fs::create_dir(&left_over).unwrap();
        drop(UnixListener::bind(left_over.join("admin-1.sock")).unwrap());
        drop(Folder::open(None, temp.path()).unwrap());
        assert!(left_over.exists(), "it may be about to listen");
        let living = Folder::open_beside(None, temp.path(), Duration::ZERO).unwrap();
        assert!(!left_over.exists());
        assert_eq!(fs::metadata(&living.path).unwrap().mode() & 0o777, 0o700);
        let (listener, path) = living.listen().unwrap();
        let second = Folder::open(None, temp.path()).unwrap();
        assert!(path.exists(), "another one's living socket");
        drop(second);
        drop(listener);
        drop(living);
        assert_eq!(sockets(temp.path()), 0);
    }
}
