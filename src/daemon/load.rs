//! From a configuration file to what a daemon is started with: read, checked, its secrets
//! resolved. Writes nothing, dials nothing.

use std::collections::BTreeMap;
use std::path::Path;

use crate::base::secret::Redactor;
use crate::channel;
use crate::config::check::{self, Surroundings};
use crate::config::missing::missing;
use crate::config::plan::Plan;
use crate::config::problem::{Problem, Severity};
use crate::config::secrets::{self, Secrets, Sources};
use crate::config::skills;
use crate::domain::catalogue::{Catalogue, Part};
use crate::domain::ids::BrainName;
use crate::domain::limits::Limits;
use crate::domain::skill::Skill;
use crate::provider;
use crate::tool::{self, Forbidden};

/// A configuration that can run.
pub struct Loaded {
    /// What it says.
    pub plan: Plan,
    /// The values of the secrets that it names.
    pub secrets: Secrets,
    /// The skills of each brain that has a folder of them.
    pub skills: BTreeMap<BrainName, Vec<Skill>>,
    /// What it runs with all the same, but perhaps not as meant.
    pub warnings: Vec<Problem>,
    /// What no tool may read.
    pub forbidden: Forbidden,
}

/// Every kind of channel, provider and tool, and what this build does not have yet.
#[must_use]
pub fn catalogue() -> Catalogue {
    Catalogue {
        channels: channel::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        providers: provider::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        tools: tool::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        lacks: &[Part::Signatures],
    }
}

/// Reads and checks `file` and resolves its secrets, which `redactor` learns.
///
/// # Errors
/// Everything that keeps it from running, at once: problems of the file, parts that this build
/// does not have yet, secrets without a value.
pub fn load(
    file: &Path,
    env_file: Option<&Path>,
    redactor: &Redactor,
) -> Result<Loaded, Vec<Problem>> {
    let text = check::read(file).map_err(|problem| vec![problem])?;
    let catalogue = catalogue();
    let surroundings = Surroundings::of_process(file, env_file);
    let checked = check::check(&text, file, &catalogue, &surroundings);
    let Some(plan) = checked.plan else {
        return Err(checked.problems);
    };
    let lacking: Vec<Problem> = missing(&plan, &catalogue)
        .into_iter()
        .map(|part| {
            let (line, column) = checked.places.of(&part.path);
            Problem {
                severity: Severity::Error,
                path: part.path,
                line,
                column,
                message: part.sentence,
                help: "take this part out of the file until a later version".to_owned(),
            }
        })
        .collect();
    if !lacking.is_empty() {
        return Err(lacking);
    }
    let sources = Sources::of_process(env_file);
    let resolved = secrets::resolve(&plan, &checked.places, &sources, redactor);
    let Some(secrets) = resolved.secrets else {
        return Err(resolved.problems);
    };
    let (skills, odd) = skills::of_plan(&plan, &checked.places, &Limits::default());
    let mut warnings = checked.problems;
    warnings.extend(resolved.problems);
    warnings.extend(odd);
    Ok(Loaded {
        forbidden: forbidden(&plan, file, &surroundings),
        plan,
        secrets,
        skills,
        warnings,
    })
}

/// What no tool may read: the files that hold secrets or everybody's words.
fn forbidden(plan: &Plan, file: &Path, surroundings: &Surroundings) -> Forbidden {
    let mut files = vec![std::path::absolute(file).unwrap_or_else(|_| file.into())];
    files.extend(surroundings.env_file.clone());
    files.extend(plan.storage.as_ref().map(|storage| storage.path.clone()));
    Forbidden::new(files, surroundings.credentials_directory.clone())
}
