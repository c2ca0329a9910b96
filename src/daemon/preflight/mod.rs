//! The preflight: tries what a configuration needs, as the daemon would find it, and says what
//! would help. The main thread runs it, with one short thread for each model server. It must never
//! disturb a daemon at work: it writes nothing, and asks no model anything but about itself.

mod channels;
mod machine;
mod models;
mod tried;

use std::collections::BTreeSet;

use crate::base::secret::Redactor;
use crate::config::check::Places;
use crate::config::missing::missing;
use crate::config::plan::Plan;
use crate::config::problem::{Problem, Severity};
use crate::config::secrets::{self, Need, Resolved, Sources};
use crate::domain::catalogue::Catalogue;
use crate::net::http::Wire;

pub use tried::{Outcome, Tried};

/// What a preflight looks at, and with what.
pub struct Preflight<'a> {
    /// What would be served.
    pub plan: &'a Plan,
    /// Where in the file secrets are named.
    pub places: &'a Places,
    /// Every kind of part, and what this build lacks.
    pub catalogue: &'a Catalogue,
    /// Where secrets are looked up.
    pub sources: &'a Sources,
    /// Learns every secret found.
    pub redactor: &'a Redactor,
    /// The way out; its clock and its limits count.
    pub wire: &'a Wire,
}

/// Tries everything: parts, secrets, trust, models, chat platforms, store, ports. No result holds a secret.
///
/// Blocks: for the model servers and for each chat platform up to `limits.preflight`, for the store up to another program's
/// lock of 5 s.
#[must_use]
pub fn run(preflight: &Preflight<'_>) -> Vec<Tried> {
    let plan = preflight.plan;
    let resolved = secrets::resolve(
        plan,
        preflight.places,
        preflight.sources,
        preflight.redactor,
    );
    let mut all = parts(plan, preflight.catalogue);
    all.extend(values(plan, &resolved));
    all.extend(machine::trust(plan, preflight.wire));
    all.extend(models::reach(plan, &resolved.found, preflight.wire));
    all.extend(channels::reach(plan, &resolved.found, preflight.wire));
    all.extend(machine::store(plan));
    all.extend(machine::ports(plan));
    all.into_iter()
        .map(|tried| tried.clean(preflight.redactor))
        .collect()
}

/// What the file asks for and this build does not have.
fn parts(plan: &Plan, catalogue: &Catalogue) -> Vec<Tried> {
    missing(plan, catalogue)
        .into_iter()
        .map(|part| {
            Tried::failed(
                format!("part {}", part.path),
                part.sentence,
                "take this part out of the file until a later version",
            )
        })
        .collect()
}

/// One line for each variable; the first finding about one is the one shown.
fn values(plan: &Plan, resolved: &Resolved) -> Vec<Tried> {
    let about = |path: &str| {
        let problems = resolved.problems.iter();
        problems.into_iter().find(|problem| problem.path == path)
    };
    let told = |name: String, problem: &Problem| {
        let (message, help) = (problem.message.clone(), problem.help.clone());
        match problem.severity {
            Severity::Error => Tried::failed(name, message, help),
            Severity::Warning => Tried::warn(name, message, help),
        }
    };
    let mut all = Vec::new();
    // Only the env file itself is named by no key.
    all.extend(about("").map(|problem| told("env file".to_owned(), problem)));
    let mut seen = BTreeSet::new();
    for wanted in secrets::wanted(plan) {
        if wanted.need == Need::Unused || !seen.insert(wanted.env.clone()) {
            continue;
        }
        let name = format!("secret {}", wanted.env);
        all.push(match about(&wanted.path) {
            Some(problem) => told(name, problem),
            None if resolved.found.of(&wanted.env).is_some() => {
                Tried::ok(name, format!("has a value ({})", wanted.path))
            }
            None => Tried::ok(name, "has no value: the admin server will be read-only"),
        });
    }
    all
}
