//! The configuration, by its rules: what each fragment says, and what each mistake is told.

use std::path::{Path, PathBuf};

use korvun::config::check::{check, Checked, Entry, Surroundings};
use korvun::config::problem::{Problem, Severity};
use korvun::domain::catalogue::{Catalogue, Part};

mod plans;
mod rules;

/// Every kind that there is, as the program hands it down.
pub(crate) fn catalogue() -> Catalogue {
    Catalogue {
        channels: korvun::channel::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        providers: korvun::provider::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        tools: korvun::tool::kinds::KINDS
            .iter()
            .map(|kind| kind.descriptor)
            .collect(),
        lacks: &[Part::Agents, Part::Sessions, Part::Signatures, Part::Skills],
    }
}

/// A machine with a home and nothing else set.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        directory: PathBuf::from("/etc/korvun"),
        home: Some(PathBuf::from("/home/chano")),
        xdg_config_home: None,
        ollama_host: None,
        credentials_directory: None,
        env_file: None,
        entry: Entry::File,
    }
}

pub(crate) fn checked(text: &str) -> Checked {
    checked_in(text, &surroundings())
}

pub(crate) fn checked_in(text: &str, env: &Surroundings) -> Checked {
    check(
        text.as_bytes(),
        Path::new("/etc/korvun/korvun.json"),
        &catalogue(),
        env,
    )
}

pub(crate) fn errors(checked: &Checked) -> Vec<&Problem> {
    checked
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .collect()
}
