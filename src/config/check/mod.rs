//! Checks a configuration as a whole and turns it into a [`Plan`]. Offline and pure: it looks at
//! the bytes, the catalogue and what [`Surroundings`] carries; it reads no secret and no network.
//! The running daemon calls it on posted bytes, so its time and memory are bounded.

mod agent;
mod brains;
mod cages;
mod channels;
mod facts;
mod findings;
mod keys;
mod models;
mod plain;
mod rest;
mod shape;
mod uses;
mod view;
mod words;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::json;
use super::plan::Plan;
use super::problem::{Problem, Severity};
use crate::domain::catalogue::Catalogue;
use facts::Facts;
use findings::Findings;
use uses::Uses;
use view::Object;

/// What the check may know of the world beside the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The folder that holds the file; relative paths start from it. Absolute.
    pub directory: PathBuf,
    /// `HOME`, where set.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, where set.
    pub xdg_config_home: Option<PathBuf>,
    /// `OLLAMA_HOST`, which is not read: only to say so.
    pub ollama_host: Option<String>,
    /// `CREDENTIALS_DIRECTORY`, where set.
    pub credentials_directory: Option<PathBuf>,
    /// The file of `--env-file`, where given.
    pub env_file: Option<PathBuf>,
    /// How the bytes came.
    pub entry: Entry,
}

/// How a configuration comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// From the file on disk, which the operator alone writes.
    #[default]
    File,
    /// By the admin API: one variable in two kinds of use is an error there.
    Post,
}

impl Surroundings {
    /// Those of this process for the configuration `file`.
    #[must_use]
    pub fn of_process(file: &Path, env_file: Option<&Path>) -> Surroundings {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.into());
        Surroundings {
            directory: absolute(file)
                .parent()
                .map_or_else(|| PathBuf::from("/"), Path::to_path_buf),
            home: variable("HOME").map(PathBuf::from),
            xdg_config_home: variable("XDG_CONFIG_HOME").map(PathBuf::from),
            ollama_host: variable("OLLAMA_HOST").map(|value| value.to_string_lossy().into_owned()),
            credentials_directory: variable("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            env_file: env_file.map(absolute),
            entry: Entry::File,
        }
    }
}

/// What the check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Every problem, in the file's order.
    pub problems: Vec<Problem>,
    /// The plan; there is one exactly when no problem is an error.
    pub plan: Option<Plan>,
    /// Where each key stands that names a secret, or a part that a build may lack.
    pub places: Places,
}

impl Checked {
    /// Whether nothing stops the configuration from running.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.plan.is_some()
    }
}

/// Line and column, from 1, of the keys that name secrets or parts that a build may lack, by their
/// path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(HashMap<String, (usize, usize)>);

impl Places {
    /// Where the value at `path` stands; zeros where that is not known.
    #[must_use]
    pub fn of(&self, path: &str) -> (usize, usize) {
        self.0.get(path).copied().unwrap_or((0, 0))
    }
}

/// What every part of the check has at hand.
struct Context<'a> {
    catalogue: &'a Catalogue,
    env: &'a Surroundings,
    /// The configuration file itself, absolute.
    file: PathBuf,
    found: &'a Findings<'a>,
}

/// Reads the bytes of the configuration file, at most one more than it may have.
///
/// Blocks: for as long as the disk takes.
///
/// # Errors
/// One problem that says why there is no file to check.
pub fn read(file: &Path) -> Result<Vec<u8>, Problem> {
    use std::io::Read;
    let shown = crate::base::text::printable(&file.to_string_lossy());
    let failed = |error: &std::io::Error| {
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "start from korvun.example.json, or see everything at work with `korvun demo`"
            }
            std::io::ErrorKind::PermissionDenied => "let the user that runs korvun read it",
            _ => "give the path of a configuration file",
        };
        Problem::of_file(format!("cannot read {shown}: {error}"), help)
    };
    let opened = std::fs::File::open(file).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    opened
        .take(json::FILE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed(&error))?;
    Ok(bytes)
}

/// Checks the bytes of the configuration `file`.
#[must_use]
pub fn check(text: &[u8], file: &Path, catalogue: &Catalogue, env: &Surroundings) -> Checked {
    let found = Findings::new(json::readable(text));
    let root = match json::parse(text) {
        Ok(root) => root,
        Err(fault) => {
            found.error(
                fault.at,
                || fault.path.clone(),
                || (fault.message.clone(), fault.help.clone()),
            );
            return finish(found, None, Places::default());
        }
    };
    let cx = Context {
        catalogue,
        env,
        file: env
            .directory
            .join(file.file_name().unwrap_or(file.as_os_str())),
        found: &found,
    };
    shape::keys(&cx, &root);
    shape::document(&cx, &root);
    let Some(view) = Object::root(&cx, &root) else {
        return finish(found, None, Places::default());
    };
    let (plan, places) = plan(&view);
    finish(found, plan, places)
}

/// The whole plan, where nothing in the file was refused; where a part is missing, another rule has
/// reported why.
fn plan(root: &Object<'_>) -> (Option<Plan>, Places) {
    let mut uses = Uses::default();
    let channels = channels::channels(root, &mut uses);
    let storage = rest::storage(root);
    let facts = Facts {
        has_storage: root.given("storage").is_some(),
        database: storage.as_ref().map(|storage| storage.path.clone()),
        channels: root
            .objects("channels")
            .iter()
            .filter_map(|view| view.text_given("type"))
            .collect(),
    };
    let brains = brains::brains(root, &facts, &mut uses);
    let admin_token_env = root.object("admin").and_then(|view| {
        let env = view.env("token_env");
        uses.admin(&view);
        env
    });
    let observability = rest::observability(root, &channels);
    rest::console(root, &channels);
    let routes = rest::routes(root, &facts);
    let session = rest::session(root);
    uses.judge(root);
    let mut places = uses.places(root);
    parts(root, &mut places);
    let plan = observability.map(|observability| Plan {
        channels,
        brains,
        routes,
        storage,
        session,
        observability,
        admin_token_env,
    });
    (plan, places)
}

/// Takes note of where the parts stand that a build may lack.
fn parts(root: &Object<'_>, places: &mut Places) {
    let mut note = |path: String, at: usize| {
        places.0.insert(path, root.cx.found.place(at));
    };
    note(root.path_of("session"), root.at("session"));
    for channel in root.objects("channels") {
        note(channel.path_of("type"), channel.at("type"));
        if let Some(block) = channel.object("webhook") {
            note(block.path_of("signature"), block.at("signature"));
        }
    }
    for brain in root.objects("brains") {
        note(brain.path_of("agent"), brain.at("agent"));
        for model in brain.objects("models") {
            note(model.path_of("provider"), model.at("provider"));
        }
        let Some(agent) = brain.object("agent") else {
            continue;
        };
        note(agent.path_of("skills_dir"), agent.at("skills_dir"));
        if let Some(cage) = agent.object("read_file") {
            note(cage.path_of("root"), cage.at("root"));
        }
        for (index, node, _) in agent.texts("tools") {
            note(agent.entry_path("tools", index), node.at);
        }
    }
}

fn finish(found: Findings<'_>, plan: Option<Plan>, places: Places) -> Checked {
    let problems = found.into_problems();
    let broken = problems
        .iter()
        .any(|problem| problem.severity == Severity::Error);
    Checked {
        problems,
        plan: plan.filter(|_| !broken),
        places,
    }
}
