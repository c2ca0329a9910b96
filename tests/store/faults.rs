//! Files that are not ours, disks that are full or read-only, a second daemon: each has its name,
//! and nothing is overwritten.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use korvun::domain::limits::Limits;
use korvun::store::{inspect, Accepted, Claim, Delivery, Place, Store, StoreError};

use crate::support::rig;

use super::{answer, begin, busy, open, said, TestClock};

/// The newest schema.
const NEWEST: i64 = 5;

fn refusal(path: &Path) -> StoreError {
    match Store::open(
        &Place::File(path.to_owned()),
        &Limits::default(),
        TestClock::new(),
    ) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let made = |name: &str, sql: &str| -> PathBuf {
        let connection = rusqlite::Connection::open(path(name)).expect("made");
        connection.execute_batch(sql).expect("filled");
        path(name)
    };
    let short = path("short.db");
    fs::write(&short, "not a database").expect("written");
    let long = path("long.db");
    fs::write(&long, "x".repeat(100_000)).expect("written");
    let foreign = made(
        "foreign.db",
        "CREATE TABLE theirs(a); INSERT INTO theirs VALUES (1)",
    );
    let numbered = made(
        "numbered.db",
        "PRAGMA user_version = 1; CREATE TABLE theirs(a)",
    );

    let newer = path("newer.db");
    begin(&open(&newer, &Limits::default()), &said("c", "hola"));
    rusqlite::Connection::open(&newer)
        .and_then(|connection| connection.execute_batch("PRAGMA user_version = 99"))
        .expect("marked");

    for (file, error) in [
        (&short, StoreError::NotADatabase(short.clone())),
        (&long, StoreError::NotADatabase(long.clone())),
        (&foreign, StoreError::Foreign(foreign.clone())),
        (&numbered, StoreError::Foreign(numbered.clone())),
        (
            &newer,
            StoreError::Newer {
                path: newer.clone(),
                found: 99,
                known: NEWEST,
            },
        ),
    ] {
        let before = fs::read(file).expect("read");
        assert_eq!(inspect(file), Err(error.clone()));
        assert_eq!(refusal(file), error);
        assert!(error.to_string().contains("left as it is"), "{error}");
        assert_eq!(fs::read(file).expect("read"), before, "{error}");
    }
    let folder_named = path("folder.db");
    fs::create_dir(&folder_named).expect("made");
    assert_eq!(
        refusal(&folder_named),
        StoreError::NotADatabase(folder_named.clone())
    );
    assert!(matches!(
        inspect(&path("missing.db")),
        Err(StoreError::Unreachable { .. })
    ));
    assert!(!path("missing.db").exists());
    let below_a_file = short.join("korvun.db");
    assert!(matches!(
        refusal(&below_a_file),
        StoreError::Unreachable { .. }
    ));
}

#[test]
fn an_empty_file_and_a_known_one_are_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    fs::write(&path, "").expect("written");
    assert_eq!(inspect(&path), Ok(0));
    let store = open(&path, &Limits::default());
    assert_eq!(inspect(&path), Ok(NEWEST), "beside a daemon at work");
    let id = begin(&store, &said("c", "hola")).message_id;
    drop(store);
    assert_eq!(inspect(&path), Ok(NEWEST));
    let store = open(&path, &Limits::default());
    assert!(store.message(&id).expect("read").is_some());
}

#[test]
fn an_older_schema_is_brought_up_to_date_with_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &Limits::default());
    let id = begin(&store, &said("c", "hola")).message_id;
    drop(store);
    let older = rusqlite::Connection::open(&path).expect("opened");
    older
        .execute_batch(
            "DROP TABLE cursors; DROP TABLE journal; DROP TABLE audit; DROP TABLE notes;
             DROP TABLE sessions; ALTER TABLE turns DROP COLUMN lead;
             ALTER TABLE turns DROP COLUMN recalled; PRAGMA user_version = 1",
        )
        .expect("as it was");
    drop(older);
    assert_eq!(inspect(&path), Ok(1));
    let store = open(&path, &Limits::default());
    assert_eq!(inspect(&path), Ok(NEWEST));
    assert!(store.message(&id).expect("read").is_some());
}

#[test]
fn one_database_has_one_daemon_by_whatever_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    let store = open(&path, &Limits::default());
    assert_eq!(refusal(&path), StoreError::InUse(path.clone()));
    assert_eq!(refusal(&link), StoreError::InUse(path.clone()));
    begin(&store, &said("c", "the first goes on"));
    store.close();
    let again = open(&link, &Limits::default());
    assert_eq!(again.recovered(), 1);
}

#[test]
fn loose_permissions_are_tightened_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("made");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("set");
    let path = shared.join("korvun.db");
    drop(open(&path, &Limits::default()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
    let store = open(&path, &Limits::default());
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(
        mode(&shared),
        0o777,
        "a folder that was there is left alone"
    );
    let told = store.warnings();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("chmod go-w"), "{told:?}");
    assert!(told[1].contains("korvun.db"), "{told:?}");
}

#[test]
fn a_damaged_page_is_named_where_it_is_met_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &Limits::default());
    let work = begin(&store, &said("c", &"long ".repeat(20_000)));
    let (page, page_bytes) = store
        .read(|connection| {
            connection.query_row(
                "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size
                 WHERE name = 'turns'",
                [],
                |row| {
                    Ok((
                        row.get::<_, u32>(0)? as usize,
                        row.get::<_, u32>(1)? as usize,
                    ))
                },
            )
        })
        .expect("read");
    drop(store);
    let mut bytes = fs::read(&path).expect("read");
    let at = (page - 1) * page_bytes;
    bytes[at..at + page_bytes].fill(0xee);
    fs::write(&path, &bytes).expect("written");
    let store = open(&path, &Limits::default());
    let refused = store.claim(&work.conversation);
    assert!(
        matches!(refused, Err(StoreError::Corrupt(_))),
        "{refused:?}"
    );
    assert!(store.message(&work.message_id).expect("read").is_some());
}

/// Runs the child `test` in a mount namespace of its own after `mount`, with `path` as its place.
/// Says whether that could be had.
fn in_a_mount_namespace(test: &str, mount: &str, path: &Path) -> bool {
    let program = std::env::current_exe().expect("this program");
    for unshare in [&["--mount"][..], &["--user", "--map-root-user", "--mount"]] {
        let possible = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &format!("{mount} >/dev/null 2>&1")])
            .env("AT", path)
            .status()
            .is_ok_and(|status| status.success());
        if !possible {
            continue;
        }
        let status = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")])
            .arg(&program)
            .args(["--exact", test, "--nocapture"])
            .env("AT", path)
            .env("KORVUN_TEST_PLACE", path)
            .status()
            .expect("the child starts");
        assert!(status.success(), "{test} failed");
        return true;
    }
    rig::missing("loop", "mounting needs root or user namespaces");
    false
}

fn place_of_child() -> Option<PathBuf> {
    std::env::var_os("KORVUN_TEST_PLACE").map(PathBuf::from)
}

#[test]
fn a_full_disk_is_named_reads_go_on_and_it_heals() {
    let folder = tempfile::tempdir().expect("a folder");
    in_a_mount_namespace(
        "store::faults::child_on_a_full_disk",
        "mount -t tmpfs -o size=1200k tmpfs \"$AT\"",
        folder.path(),
    );
}

/// The child of the test above, on a disk of 1200 KiB.
#[test]
fn child_on_a_full_disk() {
    let Some(place) = place_of_child() else {
        return;
    };
    let filler = place.join("filler");
    fs::write(&filler, vec![1; 600 * 1024]).expect("half of the disk");
    let limits = Limits {
        store_lazy: Duration::from_millis(5),
        ..Limits::default()
    };
    let store = open(&place.join("korvun.db"), &limits);
    let first = begin(&store, &said("first", "hola"));
    let out = answer(&store, first.row, "buenas");
    let text = "x".repeat(20_000);
    let mut accepted = 0_u64;
    let error = loop {
        let inbound = said(&accepted.to_string(), &text);
        match store.accept(&inbound, Claim::IfIdle, None, &busy()) {
            Ok(Accepted::New { .. }) => accepted += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        assert!(accepted < 100, "the disk does not fill");
    };
    println!("full after {accepted} messages: {error}");
    assert_eq!(error, StoreError::Full);
    assert_eq!(store.health().error, Some(StoreError::Full));
    assert_eq!(
        store.counts().inbox_open,
        accepted,
        "the refused one is not counted"
    );
    // Reads go on; a mark waits for better times.
    assert!(store.message(&first.message_id).expect("read").is_some());
    store.sent(out.row);
    let again = store.accept(&said("again", &text), Claim::IfIdle, None, &busy());
    assert_eq!(again, Err(StoreError::Full));
    assert_eq!(
        store
            .message(&first.message_id)
            .expect("read")
            .expect("kept")
            .delivery,
        Some(Delivery::Queued)
    );

    fs::remove_file(&filler).expect("room is made");
    heals(&store);
    begin(&store, &said("after", &text));
    assert_eq!(
        store
            .message(&first.message_id)
            .expect("read")
            .expect("kept")
            .delivery,
        Some(Delivery::Sent),
        "the mark was kept"
    );
    assert_eq!(store.counts().marks_lost, 0);

    // Once more with nothing at all to write: it looks for itself.
    fs::write(&filler, vec![1; 1024 * 1024]).expect_err("no room for that");
    let mut more = 0;
    while store
        .accept(
            &said(&format!("more {more}"), &text),
            Claim::IfIdle,
            None,
            &busy(),
        )
        .is_ok()
    {
        more += 1;
        assert!(more < 100, "the disk does not fill");
    }
    assert_eq!(store.health().error, Some(StoreError::Full));
    fs::remove_file(&filler).expect("room is made");
    heals(&store);
    let accepted = accepted + more;
    drop(store);
    let store = open(&place.join("korvun.db"), &limits);
    assert_eq!(store.counts().inbox_open, accepted + 1);
    let verdict: String = store
        .read(|connection| connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)))
        .expect("checked");
    assert_eq!(verdict, "ok");
}

fn heals(store: &Store) {
    let until = Instant::now() + Duration::from_secs(30);
    while store.health().error.is_some() {
        assert!(
            Instant::now() < until,
            "it does not notice that there is room"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_read_only_file_system_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(open(&folder.path().join("korvun.db"), &Limits::default()));
    in_a_mount_namespace(
        "store::faults::child_on_a_read_only_file_system",
        "mount --bind \"$AT\" \"$AT\" && mount -o remount,bind,ro \"$AT\"",
        folder.path(),
    );
}

/// The child of the test above.
#[test]
fn child_on_a_read_only_file_system() {
    let Some(place) = place_of_child() else {
        return;
    };
    assert_eq!(refusal(&place.join("korvun.db")), StoreError::ReadOnly);
    assert_eq!(refusal(&place.join("new.db")), StoreError::ReadOnly);
    assert_eq!(refusal(&place.join("new/korvun.db")), StoreError::ReadOnly);
}

#[test]
fn a_folder_without_permission_is_named() {
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("made");
    drop(open(&closed.join("korvun.db"), &Limits::default()));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("set");
    let program = std::env::current_exe().expect("this program");
    let child = |program: &Path| {
        let mut child = Command::new(program);
        child
            .args(["--exact", "store::faults::child_without_permission"])
            .arg("--nocapture")
            .env("KORVUN_TEST_PLACE", &closed);
        child
    };
    // Root may write everywhere; then the child is somebody else.
    let status = if fs::write(closed.join("probe"), "").is_ok() {
        fs::remove_file(closed.join("probe")).expect("removed");
        // Where the program itself lies may be closed to others.
        let copy = folder.path().join("program");
        fs::hard_link(&program, &copy)
            .or_else(|_| fs::copy(&program, &copy).map(drop))
            .expect("copied");
        child(&copy).uid(65_534).gid(65_534).status()
    } else {
        child(&program).status()
    };
    assert!(status.expect("the child starts").success());
}

/// The child of the test above.
#[test]
fn child_without_permission() {
    let Some(place) = place_of_child() else {
        return;
    };
    for name in ["korvun.db", "new.db", "new/korvun.db"] {
        let error = refusal(&place.join(name));
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
        println!("{error}");
    }
}

#[test]
fn a_sync_that_fails_is_named_and_what_was_refused_is_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let strace = |inject: &str| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null"]).args([
            "-e",
            "trace=fsync,fdatasync",
            "-e",
            inject,
        ]);
        strace
    };
    let possible = strace("inject=fsync:error=EIO")
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !possible {
        return rig::missing("strace", "it is not installed or may not trace");
    }
    let status = strace("inject=fsync,fdatasync:error=EIO:when=15..17")
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "store::faults::child_whose_syncs_fail"])
        .arg("--nocapture")
        .env("KORVUN_TEST_PLACE", folder.path())
        .status()
        .expect("the child starts");
    assert!(status.success());
}

/// The child of the test above: its 15th to 17th sync fail.
#[test]
fn child_whose_syncs_fail() {
    let Some(place) = place_of_child() else {
        return;
    };
    let path = place.join("korvun.db");
    let store = open(&path, &Limits::default());
    let (mut told, mut failures) = (Vec::new(), 0);
    for n in 0..40 {
        let text = format!("message {n}");
        match store.accept(&said(&n.to_string(), &text), Claim::No, None, &busy()) {
            Ok(Accepted::New { .. }) => told.push(text),
            Ok(other) => panic!("{other:?}"),
            Err(StoreError::Io(why)) => {
                println!("{why}");
                failures += 1;
                assert!(store.health().error.is_some());
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!((failures, told.len()), (3, 37));
    assert_eq!(store.health().error, None);
    let texts = |store: &Store| -> Vec<String> {
        store
            .read(|connection| {
                connection
                    .prepare("SELECT text FROM turns ORDER BY id")?
                    .query_map([], |row| row.get(0))?
                    .collect()
            })
            .expect("read")
    };
    assert_eq!(texts(&store), told);
    drop(store);
    assert_eq!(texts(&open(&path, &Limits::default())), told);
}

#[test]
fn a_database_that_is_deleted_while_it_is_open_takes_nothing_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("korvun.db");
    let store = open(&path, &Limits::default());
    begin(&store, &said("c", "kept"));
    let aside = folder.path().join("aside.db");
    fs::rename(&path, &aside).expect("moved");
    let refused = store.accept(&said("d", "lost?"), Claim::No, None, &busy());
    assert!(
        matches!(refused, Err(StoreError::Replaced(_))),
        "{refused:?}"
    );
    assert!(store.health().error.is_some());
    // Put back, it goes on.
    fs::rename(&aside, &path).expect("moved back");
    let taken = store.accept(&said("d", "safe"), Claim::No, None, &busy());
    assert!(matches!(taken, Ok(Accepted::New { .. })), "{taken:?}");
}
