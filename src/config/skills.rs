//! Reads folders of skills. The main thread runs it at start and at a reload, `config check` too.
//! Writes nothing, and follows no link out of the folder; a bad skill is passed over with a
//! sentence and stops nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::check::Places;
use super::plan::Plan;
use super::problem::{Problem, Severity};
use crate::base::text::{prefix, printable};
use crate::domain::ids::BrainName;
use crate::domain::limits::Limits;
use crate::domain::skill::{self, Skill};

/// The only name of the file.
const FILE: &str = "SKILL.md";
/// Bytes of one sentence that may repeat what stands in a file.
const SENTENCE_BYTES: usize = 300;

/// What a folder of skills holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The good ones, in name order.
    pub skills: Vec<Skill>,
    /// What was passed over, and what is odd.
    pub warnings: Vec<Warning>,
}

/// Something about a folder of skills that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Where: the folder, or a path in it. May hold any characters.
    pub place: PathBuf,
    /// What. Holds no control characters.
    pub what: String,
    /// What would help.
    pub help: &'static str,
}

/// The skills of every brain that has some, and the warnings as findings about the file.
///
/// Blocks: for as long as the disk takes.
#[must_use]
pub fn of_plan(
    plan: &Plan,
    places: &Places,
    limits: &Limits,
) -> (BTreeMap<BrainName, Vec<Skill>>, Vec<Problem>) {
    let mut skills = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, brain) in plan.brains.iter().enumerate() {
        let agent = brain.agent.as_ref();
        let Some((agent, dir)) = agent.and_then(|agent| Some((agent, agent.skills_dir.as_ref()?)))
        else {
            continue;
        };
        let path = format!("brains[{index}].agent.skills_dir");
        let (line, column) = places.of(&path);
        let mut warn = |message: String, help: &str| {
            problems.push(Problem {
                severity: Severity::Warning,
                path: path.clone(),
                line,
                column,
                message,
                help: help.to_owned(),
            });
        };
        let found = read(dir, limits);
        for warning in &found.warnings {
            let place = printable(&warning.place.to_string_lossy());
            warn(format!("{place}: {}", warning.what), warning.help);
        }
        for name in skill::left_out(&found.skills, agent.skills_body_budget) {
            warn(
                format!(
                    "the body of the skill {name} does not fit into the {} characters that are left for it; its name and description join the prompt all the same",
                    agent.skills_body_budget
                ),
                "shorten it, or raise skills_body_budget",
            );
        }
        skills.insert(brain.name.clone(), found.skills);
    }
    (skills, problems)
}

/// Reads the skills of `dir`.
///
/// Blocks: for as long as the disk takes; never for a pipe or a device.
#[must_use]
pub fn read(dir: &Path, limits: &Limits) -> Found {
    let mut found = Found::default();
    let folder = match Folder::open(dir, limits) {
        Ok(folder) => folder,
        Err(error) => {
            found.warn(
                dir,
                format!("the folder of skills cannot be read: {error}"),
                "without it the brain has no skills; create it or make it readable",
            );
            return found;
        }
    };
    if folder.more {
        found.warn(
            dir,
            format!("only {} of its entries are looked at", limits.skill_entries),
            "name a folder that holds nothing but skills",
        );
    }
    let mut bytes_left = limits.skills_bytes;
    for name in &folder.names {
        let place = dir.join(name).join(FILE);
        match folder.skill(name, limits.skill_bytes) {
            Ok(None) => {}
            Ok(Some((_, bytes))) if found.skills.len() == limits.skills || bytes > bytes_left => {
                found.warn(
                    &place,
                    "this skill and all behind it are too many".to_owned(),
                    "keep the skills that this brain needs",
                );
                break;
            }
            Ok(Some((read, bytes))) => {
                bytes_left -= bytes;
                for what in read.warnings {
                    found.warn(&place, what, "");
                }
                found.skills.push(read.skill);
            }
            Err((what, help)) => found.warn(&place, what, help),
        }
    }
    found
}

impl Found {
    fn warn(&mut self, place: &Path, what: String, help: &'static str) {
        let what = printable(&what);
        self.warnings.push(Warning {
            place: place.to_owned(),
            what: prefix(&what, SENTENCE_BYTES).to_owned(),
            help,
        });
    }
}

/// A folder of skills whose entries are known.
struct Folder {
    /// Where it is, without links.
    root: PathBuf,
    /// The names of entries that may be skills, in order.
    names: Vec<String>,
    /// Whether there are more than were looked at.
    more: bool,
}

/// What is wrong and what would help.
type Complaint = (String, &'static str);

const SKIPPED: &str = "the skill is passed over; mend it, then restart Korvun";

impl Folder {
    fn open(dir: &Path, limits: &Limits) -> std::io::Result<Folder> {
        let root = dir.canonicalize()?;
        let mut entries = fs::read_dir(&root)?;
        let mut names = Vec::new();
        for entry in entries.by_ref().take(limits.skill_entries) {
            // A name that is not UTF-8 fits no skill's name; it is told of like any other.
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        Ok(Folder {
            root,
            names,
            more: entries.next().is_some(),
        })
    }

    /// The skill in the entry `name`, and the bytes of its file; `None` where the entry is a plain
    /// file, which is nobody's skill.
    fn skill(&self, name: &str, most: usize) -> Result<Option<(skill::Read, usize)>, Complaint> {
        let entry = self.root.join(name);
        let kind = match fs::metadata(&entry) {
            Ok(kind) => kind,
            Err(error) => return Err((format!("it cannot be reached: {error}"), SKIPPED)),
        };
        if !kind.is_dir() {
            return Ok(None);
        }
        let path = match entry.join(FILE).canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(absent(&entry)),
            Err(error) => return Err((format!("it cannot be reached: {error}"), SKIPPED)),
        };
        if !path.starts_with(&self.root) {
            return Err((
                "it is a link that leads out of the folder of skills".to_owned(),
                "copy the skill into the folder",
            ));
        }
        let cannot = |error| (format!("it cannot be read: {error}"), SKIPPED);
        let mut file = open(&path)
            .map_err(cannot)?
            .ok_or(("it is no regular file".to_owned(), SKIPPED))?;
        let mut bytes = Vec::new();
        let limit = u64::try_from(most).unwrap_or(u64::MAX);
        Read::by_ref(&mut file)
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
        if bytes.len() > most {
            return Err((format!("it is larger than {most} bytes"), SKIPPED));
        }
        let read = skill::parse(name, &bytes).map_err(|refused| (refused.to_string(), SKIPPED))?;
        Ok(Some((read, bytes.len())))
    }
}

/// Opens a regular file; `None` for anything else. What it is is asked before it is opened, since
/// opening some devices acts, and again afterwards, since it may have been swapped.
fn open(path: &Path) -> std::io::Result<Option<File>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let regular = file.metadata()?.is_file();
    Ok(regular.then_some(file))
}

/// What is said of a folder without a `SKILL.md`.
fn absent(entry: &Path) -> Complaint {
    let other = ["skill.md", "Skill.md", "SKILL.MD", "skills.md", "SKILLS.md"]
        .into_iter()
        .find(|other| entry.join(other).exists());
    let what = match other {
        Some(other) => format!("there is no file of this name, only {other}"),
        None => "there is no file of this name".to_owned(),
    };
    (
        what,
        "each skill is a folder with a file named exactly SKILL.md",
    )
}
