//! Skills on a disk: files as people write them, folders that mean harm, what `config check` says
//! of them, and where the reference validator agrees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use korvun::config::skills::{read, Found};
use korvun::domain::limits::Limits;
use korvun::domain::skill;
use serde_json::{json, Value};

use crate::support::rig;

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(folder)
}

/// Reads within a time that no disk here needs; a pipe that is waited for would need for ever.
fn read_soon(dir: &Path, limits: &Limits) -> Found {
    let (send, receive) = mpsc::channel();
    let (dir, limits) = (dir.to_owned(), limits.clone());
    std::thread::spawn(move || send.send(read(&dir, &limits)));
    let found = receive.recv_timeout(Duration::from_secs(20));
    found.expect("reading skills waits for nothing")
}

fn names(found: &Found) -> Vec<&str> {
    found.skills.iter().map(|skill| &*skill.name).collect()
}

/// The warnings about `folder`.
fn said<'a>(found: &'a Found, folder: &str) -> Vec<&'a str> {
    let within = |place: &Path| place.components().any(|part| part.as_os_str() == folder);
    let warnings = found.warnings.iter();
    warnings
        .filter(|warning| within(&warning.place))
        .map(|warning| warning.what.as_str())
        .collect()
}

/// The skills of tests/data/skills: name, the whole description, tools recorded, words of warnings.
const GOOD: [(&str, &str, &[&str], &[&str]); 23] = [
    ("bike-repair", "Helps to mend a bicycle, step by step.", &[], &[]),
    ("carriage-returns", "Lines that end as on Windows, folded.", &[], &[]),
    (
        "code-first",
        "`systemctl status` and friends, explained. Use when a service does not start.",
        &[],
        &["`description` is no YAML"],
    ),
    (
        "colon-in-words",
        "Use when: the user asks about opening hours. Examples: \"are you open?\", it's Sunday # really",
        &[],
        &["`description` is no YAML"],
    ),
    (
        "extra-keys",
        "Translates letters from offices into plain words.",
        &[],
        &["`version`", "`author`", "`tags`", "`model`", "`disable-model-invocation`"],
    ),
    ("flow-metadata", "Keys within braces, as some tools write them.", &[], &[]),
    (
        "garden-watering",
        "Decides when to water. Use it when the user asks about the garden.",
        &[],
        &[],
    ),
    (
        "git-review",
        "Reviews a change before it is committed. Use when the user says review, check my diff, or LGTM?",
        &["Bash(git diff *)", "Bash(git log:*)", "Read", "Grep"],
        &[],
    ),
    ("head-only", "Says all it has to say in this line. Answer briefly.", &[], &[]),
    (
        "home-assistant",
        "Teaches when to call the home automation webhook. Use when the user asks to turn things on or off.",
        &[],
        &[],
    ),
    ("house-manual", "Where things are in the house.", &[], &[]),
    ("long-compatibility", "Tells at length where it works.", &[], &["`compatibility` is longer"]),
    ("long-distance", "Plans trips --- by train --- within a day.", &[], &[]),
    (
        "made-on-windows",
        "Written with an editor that puts a mark at the beginning. Use it never.",
        &[],
        &[],
    ),
    (
        "meeting-notes",
        "Writes down what was decided in a meeting. Use it when somebody says: 'note that'.",
        &[],
        &[],
    ),
    (
        "pdf-forms",
        "Fill PDF forms, merge and split documents. Use when working with PDF files.",
        &["Bash(pdftk *)", "Read", "Write"],
        &[],
    ),
    (
        "recipe-finder",
        "Suggests a recipe for what is at home.",
        &["read_file", "http_fetch"],
        &[],
    ),
    (
        "recordatorios",
        "Apunta recordatorios. Úsala cuando alguien diga «acuérdate», «no me dejes olvidar…» o 🔔.",
        &[],
        &[],
    ),
    (
        "shopping-list",
        "Keeps the shopping list of the household. Use it when somebody asks what is missing, or says that something ran out. Not for recipes.",
        &[],
        &[],
    ),
    (
        "starred-words",
        "*Important* things first. Sorts a list of tasks by what hurts most.",
        &[],
        &["`description` is no YAML"],
    ),
    (
        "tabs-and-spaces",
        "Spaces at the ends of lines, also behind the dashes.",
        &[],
        &[],
    ),
    (
        "weather-report",
        "Reads the weather: today, tomorrow, the week. Use when somebody asks \"will it rain?\"",
        &[],
        &[],
    ),
    (
        "wrapped-line",
        "A plain description that an editor has wrapped at eighty columns, and wrapped once more, without any sign of YAML for it.",
        &[],
        &[],
    ),
];

/// The folders of tests/data/bad-skills, and what is said of each.
const BAD: [(&str, &str); 18] = [
    ("Upper-Case", "small letters"),
    ("a-list", "line 2: it is no list of keys and values"),
    ("alias-bomb", "line 4: an anchor"),
    ("anchored", "line 3: an anchor"),
    ("año-nuevo", "small letters a to z"),
    ("double--hyphen", "single hyphens only between"),
    ("empty-words", "`description` is empty"),
    ("latin-one", "not UTF-8"),
    ("never-closed", "a second line of three dashes is missing"),
    (
        "no-head",
        "line 1: it must begin with a line of three dashes",
    ),
    ("no-yaml", "line "),
    (
        "other-folder",
        "the name `some-folder` is not the name of its folder, `other-folder`",
    ),
    ("says-nothing", "`description` is missing"),
    ("small-file-name", "only skill.md"),
    ("tagged", "line 3: the tag `tag:yaml.org,2002:!str`"),
    ("too-much-to-say", "longer than 1024"),
    ("twice", "line 4: the key `description` stands twice"),
    ("under_score", "small letters"),
];

#[test]
fn skills_as_people_write_them_are_read() {
    let found = read_soon(&data("skills"), &Limits::default());
    assert_eq!(names(&found), GOOD.map(|row| row.0));
    for (skill, (name, description, tools, warnings)) in found.skills.iter().zip(GOOD) {
        assert_eq!(skill.description, description, "{name}");
        assert_eq!(skill.allowed_tools, tools, "{name}");
        assert_eq!(skill.body.is_empty(), name == "head-only", "{name}");
        assert!(!skill.body.contains(['\r', '\u{feff}']), "{name}");
        let said = said(&found, name);
        assert_eq!(said.len(), warnings.len(), "{name}: {said:?}");
        for (said, warning) in said.iter().zip(warnings) {
            assert!(said.contains(warning), "{name}: {said}");
        }
    }
}

#[test]
fn a_bad_skill_is_passed_over_and_said_where() {
    let found = read_soon(&data("bad-skills"), &Limits::default());
    assert_eq!(names(&found), [""; 0]);
    assert_eq!(found.warnings.len(), BAD.len(), "{:#?}", found.warnings);
    for (folder, what) in BAD {
        let said = said(&found, folder);
        assert_eq!(said.len(), 1, "{folder}: {said:?}");
        assert!(said[0].contains(what), "{folder}: {said:?}");
    }
}

#[test]
fn a_body_that_does_not_fit_leaves_room_for_a_smaller_one() {
    let found = read_soon(&data("skills"), &Limits::default());
    let section = skill::section(&found.skills, 8192);
    for (name, description, ..) in GOOD {
        assert!(
            section.contains(&format!("\n- {name}: {description}\n")),
            "{name}"
        );
    }
    assert!(!section.contains("Drawer 7:"), "the long body is left out");
    assert!(
        section.contains("Fewer") || section.contains("fewer changes"),
        "a later one is in"
    );
    assert_eq!(skill::left_out(&found.skills, 8192), ["house-manual"]);
    let again = read_soon(&data("skills"), &Limits::default());
    assert_eq!(skill::section(&again.skills, 8192), section);
}

/// A folder of skills in a folder that holds more.
struct Yard {
    folder: tempfile::TempDir,
}

impl Yard {
    fn new() -> Yard {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("skills")).unwrap();
        Yard { folder }
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("skills")
    }

    fn put(&self, path: &str, text: &[u8]) -> PathBuf {
        let file = self.folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    fn skill(&self, path: &str) -> PathBuf {
        let name = path.rsplit('/').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: About {name}.\n---\nBody of {name}.\n");
        self.put(&format!("{path}/SKILL.md"), text.as_bytes())
    }
}

#[test]
fn links_stay_inside_and_what_is_no_file_is_not_waited_for() {
    let yard = Yard::new();
    let dir = yard.dir();
    yard.skill("skills/good");
    yard.skill("skills/.hidden");
    yard.put("skills/README.md", b"Not a skill.");
    fs::create_dir(dir.join("empty")).unwrap();
    // Links within the folder are fine, to a folder and to a file.
    yard.skill("skills/.store/linked");
    symlink(".store/linked", dir.join("linked")).unwrap();
    let file = yard.put(
        "skills/.store/x.md",
        b"---\nname: by-file\ndescription: x\n---\n",
    );
    fs::create_dir(dir.join("by-file")).unwrap();
    symlink(&file, dir.join("by-file/SKILL.md")).unwrap();
    // Links that leave it are not.
    yard.skill("outside");
    symlink("../outside", dir.join("outside")).unwrap();
    fs::create_dir(dir.join("leaving")).unwrap();
    symlink("../../outside/SKILL.md", dir.join("leaving/SKILL.md")).unwrap();
    symlink(dir.join("../skills/../outside"), dir.join("winding")).unwrap();
    symlink("/etc", dir.join("etc")).unwrap();
    symlink("nowhere", dir.join("broken")).unwrap();
    symlink("circle", dir.join("circle")).unwrap();
    // What would hang or act if it were opened.
    for name in ["pipe", "device", "folder", "socket"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    let made = Command::new("mkfifo")
        .arg(dir.join("pipe/SKILL.md"))
        .status();
    assert!(made.unwrap().success());
    symlink("/dev/zero", dir.join("device/SKILL.md")).unwrap();
    fs::create_dir(dir.join("folder/SKILL.md")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket/SKILL.md")).unwrap();
    // Too large by a byte, and just not.
    let head = "---\nname: large\ndescription: x\n---\n";
    let large = format!("{head}{}", "x".repeat(64 * 1024 + 1 - head.len()));
    yard.put("skills/large/SKILL.md", large.as_bytes());
    yard.put(
        "skills/fits/SKILL.md",
        large.replacen("large", "fits", 1).as_bytes(),
    );

    let found = read_soon(&dir, &Limits::default());
    assert_eq!(names(&found), ["by-file", "fits", "good", "linked"]);
    for (folder, what) in [
        ("empty", "there is no file of this name"),
        ("outside", "leads out of the folder"),
        ("leaving", "leads out of the folder"),
        ("winding", "leads out of the folder"),
        ("etc", "there is no file of this name"),
        ("broken", "cannot be reached"),
        ("circle", "cannot be reached"),
        ("pipe", "no regular file"),
        ("device", "leads out of the folder"),
        ("folder", "no regular file"),
        ("socket", "no regular file"),
        ("large", "larger than 65536 bytes"),
    ] {
        let said = said(&found, folder);
        assert_eq!(said.len(), 1, "{folder}: {said:?}");
        assert!(said[0].contains(what), "{folder}: {said:?}");
    }
    assert_eq!(found.warnings.len(), 12, "{:#?}", found.warnings);
}

#[test]
fn the_folder_itself_may_be_a_link_or_missing() {
    let yard = Yard::new();
    yard.skill("skills/good");
    let link = yard.folder.path().join("link");
    symlink(yard.dir(), &link).unwrap();
    assert_eq!(names(&read_soon(&link, &Limits::default())), ["good"]);
    let pipe = yard.folder.path().join("pipe");
    assert!(Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap()
        .success());
    let file = yard.put("file", b"");
    for dir in [yard.folder.path().join("missing"), pipe, file] {
        let found = read_soon(&dir, &Limits::default());
        assert!(found.skills.is_empty());
        assert_eq!(found.warnings.len(), 1, "{dir:?}");
        assert_eq!(found.warnings[0].place, dir);
        assert!(found.warnings[0].what.contains("cannot be read"), "{dir:?}");
    }
}

#[test]
fn a_huge_folder_is_read_up_to_the_limits() {
    let yard = Yard::new();
    for n in 0..8 {
        yard.skill(&format!("skills/s{n}"));
    }
    let limits = |skills, skills_bytes, skill_entries| Limits {
        skills,
        skills_bytes,
        skill_entries,
        ..Limits::default()
    };
    let one = fs::metadata(yard.dir().join("s0/SKILL.md")).unwrap().len();
    let three = usize::try_from(one * 3).unwrap();
    for (limits, most, what) in [
        (limits(3, 1 << 20, 100), 3, "too many"),
        (limits(100, three, 100), 3, "too many"),
        (limits(100, 1 << 20, 3), 3, "only 3 of its entries"),
        (limits(8, three * 3, 8), 8, ""),
    ] {
        let found = read_soon(&yard.dir(), &limits);
        assert_eq!(found.skills.len(), most);
        assert_eq!(found.warnings.len(), usize::from(!what.is_empty()));
        assert!(found
            .warnings
            .iter()
            .all(|warning| warning.what.contains(what)));
    }
}

/// A configuration with a brain that has the skills of `dir`, and what `config check` says of it.
fn checked(dir: &Path, budget: u32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = json!({
        "channels": [{"type": "webhook", "token_env": "HOOK", "webhook": {"outbound_url": "http://127.0.0.1:9/x"}}],
        "brains": [{"name": "casa", "sensitivity": "private",
            "models": [{"provider": "ollama", "model_id": "m", "locality": "local"}],
            "agent": {"tools": ["time"], "skills_dir": dir, "skills_body_budget": budget}}],
        "routes": [{"channel": "webhook", "brain": "casa"}]
    });
    fs::write(folder.path().join("korvun.json"), file.to_string()).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_korvun"))
        .args(["config", "check", "--json"])
        .current_dir(folder.path())
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let out: Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(
        ran.status.code(),
        Some(0),
        "warnings alone are well: {out:#}"
    );
    out
}

#[test]
fn config_check_shows_skills_and_what_is_wrong_with_others() {
    let out = checked(&data("skills"), 8192);
    let checks: BTreeMap<&str, &str> = out["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| {
            (
                check["name"].as_str().unwrap(),
                check["message"].as_str().unwrap(),
            )
        })
        .collect();
    for (name, ..) in GOOD {
        assert!(
            checks.contains_key(&*format!("brain casa: skill {name}")),
            "{name}"
        );
    }
    assert_eq!(
        checks["brain casa: skill git-review"],
        "good; allowed-tools: Bash(git diff *), Bash(git log:*), Read, Grep (recorded, grants nothing)"
    );
    let about = |what: &str| {
        let mut problems = out["problems"].as_array().unwrap().iter();
        let found = problems.find(|problem| problem["message"].as_str().unwrap().contains(what));
        found.unwrap_or_else(|| panic!("{what}: {out:#}")).clone()
    };
    let left_out = about("the body of the skill house-manual");
    assert_eq!(left_out["severity"], "warning");
    assert_eq!(left_out["path"], "brains[0].agent.skills_dir");
    assert_eq!(left_out["line"], 1);
    about("code-first/SKILL.md: the value of `description` is no YAML");

    let out = checked(&data("bad-skills"), 8192);
    assert_eq!(out["problems"].as_array().unwrap().len(), BAD.len());
    assert_eq!(out["checks"], json!([]));
    let out = checked(Path::new("/nonexistent/skills"), 8192);
    assert_eq!(out["problems"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_skill_says_never_reaches_a_terminal_as_it_is() {
    let yard = Yard::new();
    yard.put(
        "skills/bad/SKILL.md",
        b"---\nname: \"b\\e[2J\\nad\"\ndescription: x\n---\n",
    );
    yard.put("skills/b\u{1b}[2J/SKILL.md", b"");
    for problem in checked(&yard.dir(), 0)["problems"].as_array().unwrap() {
        let message = problem["message"].as_str().unwrap();
        assert!(!message.contains(['\u{1b}', '\n']), "{message:?}");
    }
}

/// Where the reference validator and Korvun differ, as docs/TOOLS-AND-SKILLS.md tells it.
const DIFFER: [&str; 9] = [
    "año-nuevo",
    "code-first",
    "colon-in-words",
    "extra-keys",
    "flow-metadata",
    "long-compatibility",
    "made-on-windows",
    "small-file-name",
    "starred-words",
];

#[test]
fn the_reference_validator_agrees_but_for_the_differences_that_are_told() {
    let beside =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/skills-ref/bin/agentskills");
    let program = match beside.exists() {
        true => beside,
        false => PathBuf::from("agentskills"),
    };
    let valid = |dir: &Path| {
        let mut command = Command::new(&program);
        command.arg("validate").arg(dir).stdin(Stdio::null());
        command.output().map(|ran| ran.status.success())
    };
    if valid(&data("skills/home-assistant")).is_err() {
        rig::missing(
            "skills-ref",
            "`agentskills` (PyPI skills-ref 0.1.1) is not here",
        );
        return;
    }
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/skills");
    let mut compared = 0;
    for folder in [data("skills"), data("bad-skills"), contrib.clone()] {
        let ours = read_soon(&folder, &Limits::default());
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let good = names(&ours).contains(&&*name);
            let differs = DIFFER.contains(&&*name) && folder != contrib;
            assert_eq!(
                valid(&path).unwrap() != good,
                differs,
                "{name}: ours says {good}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 40, "{compared}");
}

#[test]
fn an_unreadable_file_is_passed_over() {
    let yard = Yard::new();
    let file = yard.skill("skills/secret");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    yard.skill("skills/good");
    let found = read_soon(&yard.dir(), &Limits::default());
    // Root reads it all the same.
    match rustix::process::geteuid().is_root() {
        true => assert_eq!(names(&found), ["good", "secret"]),
        false => {
            assert_eq!(names(&found), ["good"]);
            assert!(said(&found, "secret")[0].contains("cannot be read"));
        }
    }
}
