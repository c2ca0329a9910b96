//! `korvun config check --preflight`: tries whatever `serve` would need, and changes nothing. The
//! main thread runs it, one try after the other; must never ask a model anything.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::check::{Outcome, Tried};
use crate::base::clock::{Clock, Deadline, SystemClock};
use crate::base::secret::{Redactor, Secret};
use crate::config::check::Checked;
use crate::config::missing::missing;
use crate::config::plan::{ChannelSettings, Plan};
use crate::config::problem::{Problem, Severity};
use crate::config::secrets::{self, Resolved, Secrets, Sources};
use crate::domain::brain::{Brain, Model, Sensitivity};
use crate::domain::catalogue::Catalogue;
use crate::domain::completion::{FailureKind, ModelFacts};
use crate::domain::limits::Limits;
use crate::domain::privacy;
use crate::net::cancel::Cancel;
use crate::net::http::Wire;
use crate::provider;
use crate::store::{self, StoreError};

/// For one look at one model: nothing is loaded for it, so that even a Pi answers at once.
const LOOK: Duration = Duration::from_secs(15);

/// Tries everything that a checked configuration needs; nothing where it has errors.
///
/// Blocks: up to fifteen seconds for each model, and as long as the disk takes.
#[must_use]
pub fn run(checked: &Checked, env_file: Option<&Path>, catalogue: &Catalogue) -> Vec<Tried> {
    let Some(plan) = &checked.plan else {
        return Vec::new();
    };
    let redactor = Redactor::new();
    let sources = Sources::of_process(env_file);
    let resolved = secrets::resolve(plan, &checked.places, &sources, &redactor);
    let mut tried: Vec<Tried> = missing(plan, catalogue)
        .into_iter()
        .map(|part| {
            failed(
                part.path,
                part.sentence,
                "take this part out of the file until a later version",
            )
        })
        .collect();
    tried.extend(secrets_tried(plan, &resolved));
    tried.extend(models(plan, resolved.secrets.as_ref()));
    if let Some(storage) = &plan.storage {
        tried.push(database(&storage.path));
    }
    for (key, addr) in ports(plan) {
        tried.push(port(key, addr));
    }
    for one in &mut tried {
        one.message = redactor.clean(&one.message).into_owned();
    }
    tried
}

fn ok(name: impl Into<String>, message: impl Into<String>) -> Tried {
    tried(Outcome::Ok, name, message, "")
}

fn failed(name: impl Into<String>, message: impl Into<String>, help: &str) -> Tried {
    tried(Outcome::Failed, name, message, help)
}

fn tried(
    outcome: Outcome,
    name: impl Into<String>,
    message: impl Into<String>,
    help: &str,
) -> Tried {
    Tried {
        name: name.into(),
        outcome,
        message: message.into(),
        help: help.to_owned(),
    }
}

fn secrets_tried(plan: &Plan, resolved: &Resolved) -> Vec<Tried> {
    let named: BTreeSet<_> = secrets::wanted(plan)
        .into_iter()
        .map(|one| one.env)
        .collect();
    if resolved.problems.is_empty() {
        return vec![ok(
            "secrets",
            format!("{} named, none is missing", named.len()),
        )];
    }
    let told = |problem: &Problem| {
        let outcome = match problem.severity {
            Severity::Error => Outcome::Failed,
            Severity::Warning => Outcome::Warn,
        };
        let name = match problem.path.as_str() {
            "" => "secrets".to_owned(),
            path => format!("secret {path}"),
        };
        tried(outcome, name, &problem.message, &problem.help)
    };
    resolved.problems.iter().map(told).collect()
}

/// Looks at each model once for each policy under which it is asked.
fn models(plan: &Plan, secrets: Option<&Secrets>) -> Vec<Tried> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let limits = Limits::default();
    let cert_file = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let wire = Wire::new(cert_file, &limits, clock.clone());
    let mut seen = Vec::new();
    let mut out = Vec::new();
    for brain in &plan.brains {
        let eligible = privacy::eligible(brain);
        for (at, model) in brain.models.iter().enumerate() {
            let name = format!(
                "brain {}: {}/{}",
                brain.name, model.provider, model.model_id
            );
            if !eligible.contains(&at) {
                out.push(ok(name, "left out, because the brain is private"));
                continue;
            }
            let same = (
                brain.sensitivity,
                &model.base_url,
                &model.model_id,
                &model.api_key_env,
            );
            if seen.contains(&same) {
                continue;
            }
            seen.push(same);
            let key = model
                .api_key_env
                .as_ref()
                .map(|env| secrets.and_then(|secrets| secrets.of(env)));
            if matches!(key, Some(None)) {
                out.push(failed(
                    name,
                    "not tried, its key is missing",
                    "set the variable first",
                ));
                continue;
            }
            let deadline = Deadline::after(clock.now(), LOOK.min(model.request_timeout));
            out.push(look(name, brain, model, key.flatten(), &wire, deadline));
        }
    }
    out
}

fn look(
    name: String,
    brain: &Brain,
    model: &Model,
    key: Option<&Secret>,
    wire: &Wire,
    deadline: Deadline,
) -> Tried {
    let provider = provider::build(model, brain.sensitivity, key, wire);
    match provider.look(deadline, &Cancel::new()) {
        Ok(facts) => there(name, brain, &facts),
        Err(failure) => {
            let message = format!("{}: {}", failure.kind.word(), failure.detail);
            failed(name, message, cure(failure.kind))
        }
    }
}

/// What is told of a model that is there.
fn there(name: String, brain: &Brain, facts: &ModelFacts) -> Tried {
    let mut message = "it is there".to_owned();
    if let Some(tokens) = facts.context_tokens {
        message.push_str(&format!(", with a context of {tokens} tokens"));
    }
    message.push_str(match facts.tools {
        Some(true) => ", can call tools",
        Some(false) => ", cannot call tools natively",
        None => ", does not tell whether it can call tools",
    });
    match (&facts.remote, brain.sensitivity) {
        (Some(host), Sensitivity::Private) => failed(
            name,
            format!("it runs at {host}, so this private brain will not ask it"),
            "choose a model that runs here",
        ),
        (Some(host), Sensitivity::Public) => tried(
            Outcome::Warn,
            name,
            format!("{message}; it runs at {host}, not where it is asked"),
            "declare it \"cloud\"",
        ),
        (None, _) => ok(name, message),
    }
}

fn cure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Connect => "start the model server, or mend base_url",
        FailureKind::Timeout => "see whether the model server is stuck or the network slow",
        FailureKind::Rate => "wait, then try again",
        FailureKind::Quota => "look at the plan and the payments of that account",
        FailureKind::Auth => "look at the key in the variable that api_key_env names",
        FailureKind::Status => {
            "look at model_id and base_url; Ollama gets a model by `ollama pull`"
        }
        FailureKind::Refused => "give the address itself in base_url; redirects are not followed",
        FailureKind::Shield => "a private brain needs a model on a private address",
        FailureKind::Body | FailureKind::Empty => "look whether base_url leads to a model server",
        FailureKind::ToolsUnsupported | FailureKind::Cancelled => "try again",
    }
}

/// The database, looked at and not changed; where there is none yet, the folder it will be in.
fn database(path: &Path) -> Tried {
    let name = format!("storage {}", path.display());
    if !path.exists() {
        return folder(name, path);
    }
    match store::inspect(path) {
        Ok(_) => ok(name, "it is Korvun's and can be read"),
        Err(StoreError::Locked) => tried(
            Outcome::Warn,
            name,
            StoreError::Locked.to_string(),
            "a running Korvun does not hold it for long: try again",
        ),
        Err(error) => failed(
            name,
            error.to_string(),
            "correct storage.path, or restore a backup",
        ),
    }
}

fn folder(name: String, path: &Path) -> Tried {
    let Some(nearest) = path.ancestors().skip(1).find(|folder| folder.exists()) else {
        return failed(name, "no folder above it exists", "correct storage.path");
    };
    let allowed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    match rustix::fs::access(nearest, allowed) {
        Ok(()) if nearest.is_dir() => ok(name, "it will be made at the first start"),
        Ok(()) => failed(
            name,
            format!("{} is no folder", nearest.display()),
            "correct storage.path",
        ),
        Err(error) => failed(
            name,
            format!("it cannot be made in {}: {error}", nearest.display()),
            "let the user that runs korvun write there, or correct storage.path",
        ),
    }
}

/// Every address that is listened on, with the key that names it.
fn ports(plan: &Plan) -> Vec<(&'static str, SocketAddr)> {
    let mut all = Vec::new();
    for channel in &plan.channels {
        if let ChannelSettings::Webhook(webhook) = &channel.settings {
            all.push(("webhook.bind", webhook.bind));
        }
    }
    if plan.observability.enabled {
        all.push(("observability.addr", plan.observability.addr));
    }
    all
}

/// Opens a port and closes it at once.
fn port(key: &str, addr: SocketAddr) -> Tried {
    let name = format!("{key} {addr}");
    match TcpListener::bind(addr) {
        Ok(_) => ok(name, "it is free"),
        Err(error) if error.kind() == ErrorKind::AddrInUse => tried(
            Outcome::Warn,
            name,
            "it is in use",
            "fine when it is a running Korvun; else stop what has it, or choose another",
        ),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            failed(name, error.to_string(), "choose a port above 1023")
        }
        Err(error) => failed(name, error.to_string(), "give an address of this machine"),
    }
}
