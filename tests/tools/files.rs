//! `read_file` on real files, folders, links, pipes and sockets.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use korvun::domain::audit::Rule;
use korvun::tool::port::{Fault, Tool};
use korvun::tool::Forbidden;
use serde_json::json;

use super::{call, rule, told, Bench};

const NOT_THERE: &str = "there is no such file in the folder that may be read";

fn read(tool: &dyn Tool, path: &str) -> Result<String, Fault> {
    call(tool, json!({"path": path}))
}

/// A folder with a root in it, and beside the root what nobody may see.
struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("tree/sub/deep")).unwrap();
        fs::create_dir_all(at("outside/sub")).unwrap();
        fs::write(at("tree/a.txt"), "inside a").unwrap();
        fs::write(at("tree/sub/b.txt"), "inside b").unwrap();
        fs::write(at("tree/ñ o.txt"), "inside ñ").unwrap();
        fs::write(at("outside/secret.txt"), "SECRET").unwrap();
        fs::write(at("outside/sub/b.txt"), "SECRET").unwrap();
        Site { folder }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.at("tree").join(name)).unwrap();
    }

    fn tool(&self) -> std::sync::Arc<dyn Tool> {
        Bench::reading(self.at("tree"), 65_536).tool("read_file")
    }
}

#[test]
fn files_below_the_root_are_read_by_every_honest_way_to_name_them() {
    let site = Site::new();
    let root = site.at("tree");
    site.link("to_a", "a.txt");
    site.link("to_sub", "sub");
    site.link("sub/up", "../a.txt");
    site.link("absolute", root.join("sub/b.txt"));
    site.link("round", "../tree/sub/b.txt");
    site.link("round_twice", "sub/../../tree/./sub/b.txt");
    site.link("self", ".");
    let tool = site.tool();
    assert!(tool.ready());
    let absolute = root.join("sub/b.txt");
    for (path, text) in [
        ("a.txt", "inside a"),
        ("./a.txt", "inside a"),
        ("sub/b.txt", "inside b"),
        ("sub//b.txt", "inside b"),
        ("sub/../a.txt", "inside a"),
        ("sub/deep/../b.txt", "inside b"),
        ("ñ o.txt", "inside ñ"),
        (absolute.to_str().unwrap(), "inside b"),
        ("to_a", "inside a"),
        ("to_sub/b.txt", "inside b"),
        ("to_sub/../a.txt", "inside a"),
        ("sub/up", "inside a"),
        ("absolute", "inside b"),
        ("round", "inside b"),
        ("round_twice", "inside b"),
        ("self/self/sub/b.txt", "inside b"),
    ] {
        assert_eq!(read(&*tool, path), Ok(text.to_owned()), "{path}");
    }
}

#[test]
fn everything_outside_has_one_answer_existing_or_not() {
    let site = Site::new();
    let outside = site.at("outside/secret.txt");
    let nowhere = site.at("outside/nothing.txt");
    let root = site.at("tree");
    for (name, target) in [
        ("out", outside.clone()),
        ("out_missing", nowhere.clone()),
        ("out_up", "../outside/secret.txt".into()),
        ("out_up_missing", "../outside/nothing.txt".into()),
        ("out_folder", "../outside".into()),
        ("out_folder_missing", "../nowhere".into()),
        ("passwd", "/etc/passwd".into()),
        ("fd", "/proc/self/fd/0".into()),
        ("top", "/".into()),
        ("above", "..".into()),
        ("through", "../outside/../tree/a.txt".into()),
        ("chain", "out".into()),
    ] {
        site.link(name, target);
    }
    let tool = site.tool();
    let prefixed = format!("{}x/../outside/secret.txt", root.display());
    let climbing = format!("{}/../outside/secret.txt", root.display());
    let beside = format!("{}-beside/a.txt", root.display());
    let long = "x/".repeat(4000);
    for path in [
        outside.to_str().unwrap(),
        nowhere.to_str().unwrap(),
        &prefixed,
        &climbing,
        &beside,
        "../outside/secret.txt",
        "../outside/nothing.txt",
        "../tree/a.txt",
        "sub/../../outside/secret.txt",
        "sub/deep/../../../tree/a.txt",
        "..",
        "../..",
        "/",
        "/etc/passwd",
        "/etc/nothing-there",
        "/proc/self/environ",
        "a.txt\0",
        "\0",
        &long,
        "out",
        "out_missing",
        "out_up",
        "out_up_missing",
        "out_folder",
        "out_folder/secret.txt",
        "out_folder/sub/b.txt",
        "out_folder_missing/secret.txt",
        "passwd",
        "fd",
        "top",
        "above",
        "top/etc/passwd",
        "above/outside/secret.txt",
        "through",
        "chain",
    ] {
        let fault = read(&*tool, path).expect_err(path);
        assert_eq!(
            (rule(&fault), told(&fault)),
            (Some(Rule::Cage), NOT_THERE),
            "{path}"
        );
    }
    // To the model, what is merely missing is told in the same bytes.
    let deep = format!("{}a.txt", "sub/../".repeat(580));
    for path in [
        "missing",
        "sub/missing",
        "missing/a.txt",
        "a.txt/x",
        "a.txt/",
        "~",
        &"n".repeat(300),
        &deep,
    ] {
        let fault = read(&*tool, path).expect_err(path);
        assert_eq!((rule(&fault), told(&fault)), (None, NOT_THERE), "{path}");
    }
}

#[test]
fn loops_and_long_chains_of_links_end() {
    let site = Site::new();
    site.link("l0", "a.txt");
    for number in 1..60 {
        site.link(&format!("l{number}"), format!("l{}", number - 1));
    }
    site.link("me", "me");
    site.link("ping", "pong");
    site.link("pong", "ping");
    site.link("grow", "grow/grow");
    let tool = site.tool();
    assert_eq!(read(&*tool, "l39"), Ok("inside a".into()));
    for path in ["l40", "l59", "me", "ping", "grow", "grow/a.txt"] {
        assert_eq!(
            told(&read(&*tool, path).expect_err(path)),
            NOT_THERE,
            "{path}"
        );
    }
    let mut deep = site.at("tree");
    for _ in 0..70 {
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("x"), "deep").unwrap();
    fs::write(site.at("tree").join("d/".repeat(60)).join("x"), "deep").unwrap();
    assert_eq!(
        read(&*tool, &format!("{}x", "d/".repeat(60))),
        Ok("deep".into())
    );
    assert!(read(&*tool, &format!("{}x", "d/".repeat(70))).is_err());
}

#[test]
fn only_regular_files_are_read_and_nothing_blocks() {
    let site = Site::new();
    let fifo = site.at("tree/pipe");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    let _socket = UnixListener::bind(site.at("tree/socket")).unwrap();
    site.link("to_pipe", "pipe");
    site.link("to_null", "/dev/null");
    let tool = site.tool();
    let began = Instant::now();
    for (path, words) in [
        ("pipe", "this is no regular file"),
        ("to_pipe", "this is no regular file"),
        ("socket", "this is no regular file"),
        ("sub", "this is a folder; the name of a file is needed"),
        (".", "this is a folder; the name of a file is needed"),
        ("to_null", NOT_THERE),
        ("", "`path` is empty"),
    ] {
        assert_eq!(told(&read(&*tool, path).expect_err(path)), words, "{path}");
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn long_files_are_cut_between_characters_and_binary_ones_described() {
    let site = Site::new();
    let put = |name: &str, bytes: &[u8]| fs::write(site.at("tree").join(name), bytes).unwrap();
    put("exact", "ñandú 10b".as_bytes());
    put("long", "0123456789ñ".as_bytes());
    put("binary", b"\x7fELF\0\0\0");
    put("latin", b"a\xf1o");
    put("empty", b"");
    put("long_binary", &[0; 5000]);
    let tool = Bench::reading(site.at("tree"), 11).tool("read_file");
    for (path, text) in [
        ("exact", "ñandú 10b"),
        ("long", "0123456789\n[cut after 10 bytes of 12]"),
        (
            "binary",
            "a binary file of 7 bytes; its content is not shown",
        ),
        (
            "latin",
            "a binary file of 3 bytes; its content is not shown",
        ),
        ("empty", "[the file is empty]"),
        (
            "long_binary",
            "a binary file of 5000 bytes; its content is not shown",
        ),
    ] {
        assert_eq!(read(&*tool, path), Ok(text.to_owned()), "{path}");
    }
    // A file that is larger than any memory costs no more than the cap.
    fs::File::create(site.at("tree/huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    assert!(read(&*tool, "huge")
        .unwrap()
        .starts_with("a binary file of 1099511627776"));
}

#[test]
fn a_root_that_is_missing_is_looked_for_at_each_use() {
    let site = Site::new();
    let later = site.at("later");
    let tool = Bench::reading(&later, 100).tool("read_file");
    let refused = || {
        assert!(!tool.ready());
        let fault = read(&*tool, "a.txt").expect_err("no root");
        assert_eq!(rule(&fault), Some(Rule::Cage));
        assert!(!told(&fault).contains("later"), "{}", told(&fault));
    };
    refused();
    fs::rename(site.at("tree"), &later).unwrap();
    assert!(tool.ready());
    assert_eq!(read(&*tool, "a.txt"), Ok("inside a".into()));
    fs::rename(&later, site.at("tree")).unwrap();
    refused();
    // A link is as good, wherever it leads; but not to what may not be read.
    symlink(site.at("tree"), &later).unwrap();
    assert_eq!(read(&*tool, "a.txt"), Ok("inside a".into()));
    let by_name = later.join("a.txt");
    assert_eq!(
        read(&*tool, by_name.to_str().unwrap()),
        Ok("inside a".into())
    );
    for target in ["/proc", "/proc/self", "/sys/kernel", "/dev", "/"] {
        fs::remove_file(&later).unwrap();
        symlink(target, &later).unwrap();
        refused();
    }
}

#[test]
fn a_root_that_holds_what_is_forbidden_is_refused_by_what_it_is() {
    let site = Site::new();
    let base = site.folder.path();
    fs::create_dir_all(site.at("creds/deep")).unwrap();
    fs::create_dir_all(site.at("data")).unwrap();
    fs::write(site.at("data/korvun.db"), "db").unwrap();
    symlink(site.at("data/korvun.db"), site.at("alias.db")).unwrap();
    symlink(site.at("data"), site.at("data_alias")).unwrap();
    let judged = |root: &str, files: &[&str]| {
        let files = files.iter().map(|file| base.join(file)).collect();
        let mut bench = Bench::reading(base.join(root), 100);
        bench.forbidden = Forbidden::new(files, Some(base.join("creds")));
        bench.tool("read_file").ready()
    };
    for (root, files, ready) in [
        ("tree", &["data/korvun.db"][..], true),
        ("tree", &["data/not-there.db", "nowhere/x"], true),
        ("data", &[], true),
        ("data", &["data/korvun.db"], false),
        ("data", &["data/not-made-yet.db"], false),
        ("data_alias", &["data/korvun.db"], false),
        ("data", &["data_alias/korvun.db"], false),
        ("data", &["alias.db"], false),
        ("creds", &[], false),
        ("creds/deep", &[], false),
        ("", &[], false),
    ] {
        assert_eq!(judged(root, files), ready, "{root} {files:?}");
    }
    // One that lies below the root by a second name is met on the way, and not read.
    fs::hard_link(site.at("data/korvun.db"), site.at("tree/innocent.txt")).unwrap();
    let mut bench = Bench::reading(site.at("tree"), 100);
    bench.forbidden = Forbidden::new(vec![site.at("data/korvun.db")], None);
    let tool = bench.tool("read_file");
    assert!(tool.ready());
    let fault = read(&*tool, "innocent.txt").expect_err("a second name");
    assert_eq!((rule(&fault), told(&fault)), (Some(Rule::Cage), NOT_THERE));
    assert_eq!(read(&*tool, "a.txt"), Ok("inside a".into()));
}

#[test]
fn a_file_that_grows_while_it_is_read_is_cut_all_the_same() {
    let site = Site::new();
    let path = site.at("tree/growing");
    fs::write(&path, "x").unwrap();
    let tool = Bench::reading(site.at("tree"), 1000).tool("read_file");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                fs::write(&path, "y".repeat(100_000)).unwrap();
                fs::write(&path, "").unwrap();
            }
        });
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            if let Ok(text) = read(&*tool, "growing") {
                assert!(text.len() < 1100);
            }
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}
