//! Reaches every model that would be asked, by the same provider and behind the same shield as the
//! daemon. A few threads, each with one model server at a time, all of them bounded by one deadline.
//! It must never contact a model that privacy drops.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::tried::Tried;
use crate::base::clock::Deadline;
use crate::base::sync::lock;
use crate::config::plan::Plan;
use crate::config::secrets::Secrets;
use crate::domain::brain::{Brain, Locality, Model, Sensitivity, ToolLane};
use crate::domain::completion::{Failure, FailureKind, ModelFacts};
use crate::domain::ids::Endpoint;
use crate::domain::privacy;
use crate::net::cancel::Cancel;
use crate::net::http::Wire;
use crate::provider::{self, Provider};

/// The stack of a thread that looks at models: TLS and JSON of a bounded depth.
const STACK_BYTES: usize = 512 * 1024;

/// One model to be looked at.
struct Job<'a> {
    /// Its place among the results.
    at: usize,
    name: String,
    brain: &'a Brain,
    model: &'a Model,
    provider: Arc<dyn Provider>,
}

/// One line for each model of each brain, in the file's order.
///
/// Blocks: up to `limits.preflight`.
pub(super) fn reach(plan: &Plan, secrets: &Secrets, wire: &Wire) -> Vec<Tried> {
    let mut results = Vec::new();
    let mut servers: BTreeMap<&Endpoint, Vec<Job<'_>>> = BTreeMap::new();
    for brain in &plan.brains {
        let dropped = privacy::dropped(brain);
        for (place, model) in brain.models.iter().enumerate() {
            let name = format!(
                "brain {}: {}/{}",
                brain.name, model.provider, model.model_id
            );
            let key = model.api_key_env.as_ref().map(|env| (env, secrets.of(env)));
            let known = match (dropped.iter().find(|(i, _)| *i == place), key) {
                (Some((_, why)), _) => Some(Tried::ok(
                    name.clone(),
                    format!("not contacted: a private brain drops it ({why})"),
                )),
                (None, Some((env, None))) => Some(Tried::failed(
                    name.clone(),
                    format!("not contacted: its key {env} has no value"),
                    format!("give {env} its value first"),
                )),
                (None, _) => None,
            };
            if known.is_none() {
                let key = key.and_then(|(_, key)| key);
                let provider = provider::build(model, brain.sensitivity, key, wire);
                servers.entry(&model.endpoint).or_default().push(Job {
                    at: results.len(),
                    name: name.clone(),
                    brain,
                    model,
                    provider,
                });
            }
            // What stands here unless a look replaces it.
            results.push(known.unwrap_or_else(|| {
                Tried::failed(name, "could not be looked at", "run the preflight again")
            }));
        }
    }
    let results = Mutex::new(results);
    ask(servers.into_values().collect(), wire, &|at, tried| {
        lock(&results)[at] = tried;
    });
    let mut guard = lock(&results);
    std::mem::take(&mut *guard)
}

/// Looks at everything, server beside server, the models of one server in turn.
fn ask(servers: Vec<Vec<Job<'_>>>, wire: &Wire, enter: &(dyn Fn(usize, Tried) + Sync)) {
    let limits = wire.limits();
    let deadline = Deadline::after(wire.clock().now(), limits.preflight);
    let threads = servers.len().min(limits.preflight_threads);
    let servers = Mutex::new(servers.into_iter());
    let work = || {
        let next = || lock(&servers).next();
        while let Some(jobs) = next() {
            for job in jobs {
                let tried = match job.provider.look(deadline, &Cancel::new()) {
                    Ok(facts) => seen(&job, &facts),
                    Err(failure) => failed(&job, &failure),
                };
                enter(job.at, tried);
            }
        }
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map_while(|_| {
                let thread = std::thread::Builder::new()
                    .name("preflight".to_owned())
                    .stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, work).ok()
            })
            .collect();
        for thread in started {
            // A panic was reported by the panic hook; its results say that there is none.
            let _ = thread.join();
        }
    });
}

/// What the server said of the model.
fn seen(job: &Job<'_>, facts: &ModelFacts) -> Tried {
    let (name, brain, model) = (job.name.clone(), job.brain, job.model);
    let private = brain.sensitivity == Sensitivity::Private;
    let mut told = vec![format!("reached at {}", model.base_url)];
    match &facts.remote {
        Some(host) if private => {
            return Tried::failed(
                name,
                format!("runs on {host}, not on {}", model.base_url),
                "choose a model that runs here: a private brain never asks this one",
            )
        }
        Some(host) if model.locality == Locality::Local => {
            return Tried::warn(
                name,
                format!("declared local, but it runs on {host}"),
                "declare it as it is, \"locality\": \"cloud\", or choose a model that runs here",
            )
        }
        Some(host) => told.push(format!("runs on {host}, as declared")),
        None => {}
    }
    let ollama = model.provider.as_str() == "ollama";
    if private && ollama && *facts == ModelFacts::default() {
        return Tried::warn(
            name,
            "the server does not tell where the model runs: believed as declared, local",
            "an Ollama of today tells; make sure that what answers there hands nothing on",
        );
    }
    if let Some(tokens) = facts.context_tokens {
        told.push(format!("context of {tokens} tokens"));
    }
    told.push(
        match facts.tools {
            Some(true) => "can call tools",
            Some(false) => "cannot call tools by itself",
            None => "does not say whether it can call tools",
        }
        .to_owned(),
    );
    if facts.tools == Some(false) && brain.agent.is_some() && model.tools == ToolLane::Native {
        return Tried::warn(
            name,
            "cannot call tools by itself",
            "leave \"tools\" out or say \"text\": then it is told of them in words",
        );
    }
    Tried::ok(name, told.join(", "))
}

/// Why the model could not be looked at, and what would help.
fn failed(job: &Job<'_>, failure: &Failure) -> Tried {
    let (name, model) = (job.name.clone(), job.model);
    let ollama = model.provider.as_str() == "ollama";
    // Behind the last semicolon of a status or of a TLS failure stands a cure of its own.
    let (what, cure) = match failure.detail.rsplit_once("; ") {
        Some((what, cure)) => (what, Some(cure)),
        None => (failure.detail.as_str(), None),
    };
    let help = match failure.kind {
        FailureKind::Rate => {
            return Tried::warn(name, what, "too many requests just now: try again later")
        }
        _ if failure.loading => {
            return Tried::warn(name, what, "it is being loaded: try again in a minute")
        }
        FailureKind::Status if failure.status == Some(404) && ollama => {
            return Tried::failed(
                name,
                format!(
                    "the model {} is not on {}",
                    model.model_id, model.base_url
                ),
                format!("ollama pull {}", model.model_id),
            )
        }
        FailureKind::Status if failure.status == Some(404) => {
            return Tried::failed(
                name,
                failure.detail.as_str(),
                "correct model_id: it must be one of those that the server lists",
            )
        }
        FailureKind::Auth => match &model.api_key_env {
            Some(env) => format!("put the right key into {env}"),
            None => "the server wants a key: name its variable in api_key_env".to_owned(),
        },
        FailureKind::Connect => match cure {
            Some(cure) => cure.to_owned(),
            None if ollama => "start Ollama (`ollama serve`), or correct base_url".to_owned(),
            None => "start the server, or correct base_url".to_owned(),
        },
        FailureKind::Timeout => "no answer in time: is base_url right, is the server overloaded?".to_owned(),
        FailureKind::Shield => match cure {
            Some(cure) if job.brain.sensitivity == Sensitivity::Public => cure.to_owned(),
            _ => "the models of a private brain must be on this machine or in a private network: correct base_url".to_owned(),
        },
        FailureKind::Body => format!("is base_url the root of a server of the kind {}?", model.provider),
        _ => cure.unwrap_or("correct base_url, or look into the server's own log").to_owned(),
    };
    Tried::failed(name, what, help)
}
