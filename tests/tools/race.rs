//! A race that cannot be won: threads swap folders, files and links below the root while `read_file`
//! walks, and never a byte from outside comes back.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{call, told, Bench};

/// Five seconds; minutes where the variable says so.
fn span() -> Duration {
    let soak = std::env::var("KORVUN_SOAK_RACE_S").ok();
    Duration::from_secs(soak.and_then(|text| text.parse().ok()).unwrap_or(5))
}

/// Ends the swapping when it goes, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Puts `new` in the place of `old` at once.
fn swap(new: &Path, place: &Path, aside: &Path) {
    let _ = fs::rename(place, aside);
    let _ = fs::rename(new, place);
}

/// A folder, and in turn a link to the outside, under one name.
fn swap_folder(root: &Path, outside: &Path, done: &AtomicBool) {
    let (place, folder, link) = (
        root.join("door"),
        root.join("door.folder"),
        root.join("door.link"),
    );
    symlink(outside, &link).unwrap();
    while !done.load(Ordering::SeqCst) {
        swap(&link, &place, &folder);
        swap(&folder, &place, &link);
    }
}

/// A file, and in turn a link to the outside or a pipe, under one name.
fn swap_file(root: &Path, outside: &Path, done: &AtomicBool) {
    let place = root.join("file");
    let (text, link) = (root.join("file.text"), root.join("file.link"));
    while !done.load(Ordering::SeqCst) {
        let _ = symlink(outside.join("secret"), &link);
        let _ = fs::rename(&link, &place);
        let _ = fs::write(&text, "inside");
        let _ = fs::rename(&text, &place);
    }
}

/// A link that leads inside and outside in turn.
fn swap_link(root: &Path, outside: &Path, done: &AtomicBool) {
    let (place, next) = (root.join("turning"), root.join("turning.next"));
    while !done.load(Ordering::SeqCst) {
        for target in [root.join("sub"), outside.to_owned(), "..".into()] {
            let _ = symlink(target, &next);
            let _ = fs::rename(&next, &place);
        }
    }
}

#[test]
fn nobody_swaps_a_byte_from_outside_into_an_answer() {
    let site = tempfile::tempdir().unwrap();
    let (root, outside) = (site.path().join("root"), site.path().join("outside"));
    for (folder, text) in [
        (&root.join("door"), "inside"),
        (&root.join("sub"), "inside"),
        (&outside, "SECRET"),
    ] {
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("secret"), text).unwrap();
        fs::write(folder.join("deep/secret"), text).unwrap();
    }
    let tool = Bench::reading(&root, 100).tool("read_file");
    let done = AtomicBool::new(false);
    let (mut inside, mut refused) = (0_u32, 0_u32);
    std::thread::scope(|scope| {
        for swapper in [swap_folder, swap_file, swap_link] {
            let (root, outside, done) = (&root, &outside, &done);
            scope.spawn(move || swapper(root, outside, done));
        }
        let _ends = Ends(&done);
        let until = Instant::now() + span();
        while Instant::now() < until {
            for path in [
                "door/secret",
                "door/deep/secret",
                "door/deep/../secret",
                "file",
                "turning/secret",
                "turning/deep/secret",
                "turning/outside/secret",
            ] {
                match call(&*tool, json!({"path": path})) {
                    Ok(text) => {
                        assert_eq!(text, "inside", "{path}");
                        inside += 1;
                    }
                    Err(fault) => {
                        assert_eq!(
                            told(&fault),
                            "there is no such file in the folder that may be read",
                            "{path}"
                        );
                        refused += 1;
                    }
                }
            }
        }
    });
    println!("{inside} read, {refused} refused");
    assert!(
        inside > 100 && refused > 100,
        "{inside} read, {refused} refused"
    );
}
