//! Rules of brains: which models may be asked, how they rank, whether an answer can be picked; and
//! the brains of the plan.

use std::collections::HashSet;
use std::time::Duration;

use super::agent;
use super::facts::Facts;
use super::models::{self, Around};
use super::uses::Uses;
use super::view::Object;
use super::words::{near_or_all, shown};
use crate::domain::brain::{Brain, Dispatch, Model, Persona, Policy, PolicyKind, Sensitivity};
use crate::domain::ids::BrainName;
use crate::domain::privacy;

/// The brains of the file that could be read.
pub(super) fn brains(root: &Object<'_>, facts: &Facts<'_>, uses: &mut Uses) -> Vec<Brain> {
    let mut names: HashSet<&str> = HashSet::new();
    let mut brains = Vec::new();
    for view in root.objects("brains") {
        if let Some(name) = view.text("name") {
            if !names.insert(name) {
                view.error(
                    "name",
                    format!("a second brain named {}", shown(name)),
                    "names are unique: routes refer to them",
                );
            }
        }
        brains.extend(brain(&view, root.span("request_timeout"), facts, uses));
    }
    brains
}

fn brain(
    view: &Object<'_>,
    request_timeout: Option<Duration>,
    facts: &Facts<'_>,
    uses: &mut Uses,
) -> Option<Brain> {
    let sensitivity = view.text("sensitivity").map(|word| match word {
        "private" => Sensitivity::Private,
        _ => Sensitivity::Public,
    });
    let dispatch = view.text("dispatch").map(|word| match word {
        "sequential" => Dispatch::Sequential,
        _ => Dispatch::Fanout,
    });
    let around = Around {
        sensitivity,
        dispatch,
        request_timeout,
    };
    let views = view.objects("models");
    let mut models: Vec<Option<Model>> = views
        .iter()
        .map(|view| models::model(view, &around, uses))
        .collect();
    repeated(&views, &models);
    let eligible = sensitivity.and_then(|sensitivity| eligible(&models, sensitivity));
    if eligible.as_ref().is_some_and(Vec::is_empty) && !models.is_empty() {
        view.error(
            "models",
            "a private brain with cloud models only: none is left to ask",
            "add a local model, or declare the brain `public`",
        );
    }
    let policy = policy(view, &mut models, dispatch, eligible.as_deref());
    let cloud = eligible.as_ref().map(|eligible| {
        eligible
            .iter()
            .flat_map(|index| &models[*index])
            .any(|model| privacy::cloud(model).is_some())
    });
    let agent = agent::agent(view, cloud, facts);
    if view.given("agent").is_some() && eligible.as_ref().is_some_and(|list| list.len() > 1) {
        view.warning(
            "models",
            "an agent works with its first eligible model; the others are never asked",
            "leave the others out",
        );
    }
    Some(Brain {
        name: BrainName::new(view.text("name")?),
        sensitivity: sensitivity?,
        dispatch: dispatch?,
        policy,
        models: models.into_iter().collect::<Option<_>>()?,
        persona: persona(view),
        history_turns: view.whole("history_turns")?,
        answer_timeout: view.span("answer_timeout")?,
        agent,
    })
}

/// Which models privacy leaves; `None` while one of them could not be read.
fn eligible(models: &[Option<Model>], sensitivity: Sensitivity) -> Option<Vec<usize>> {
    let mut left = Vec::new();
    for (index, model) in models.iter().enumerate() {
        let local = privacy::cloud(model.as_ref()?).is_none();
        if local || sensitivity == Sensitivity::Public {
            left.push(index);
        }
    }
    Some(left)
}

/// The same model twice in one brain.
fn repeated(views: &[Object<'_>], models: &[Option<Model>]) {
    let mut seen = HashSet::new();
    for (view, model) in views.iter().zip(models) {
        let Some(model) = model else { continue };
        if !seen.insert((&model.provider, &model.base_url, &model.model_id)) {
            view.error(
                "model_id",
                format!(
                    "the model {} of {} stands in this brain twice",
                    shown(model.model_id.as_str()),
                    model.provider
                ),
                "a model agrees with itself: keep it once",
            );
        }
    }
}

fn persona(view: &Object<'_>) -> Persona {
    let Some(view) = view.object("persona") else {
        return Persona::default();
    };
    let text = |key| view.text(key).unwrap_or_default().to_owned();
    Persona {
        display_name: text("display_name"),
        tone: text("tone"),
        language: text("language"),
        instructions: text("instructions"),
    }
}

fn policy(
    view: &Object<'_>,
    models: &mut [Option<Model>],
    dispatch: Option<Dispatch>,
    eligible: Option<&[usize]>,
) -> Option<Policy> {
    let is_agent = view.given("agent").is_some();
    let Some(block) = view.object("policy") else {
        if view.given("policy").is_none() && !is_agent {
            view.error(
                "policy",
                "`policy` is missing",
                "say how the answer is picked, such as \"policy\": {\"kind\": \"priority\"}",
            );
        }
        return None;
    };
    let order: Vec<String> = block
        .texts("order")
        .into_iter()
        .map(|(_, _, entry)| entry.to_owned())
        .collect();
    rank(&block, models);
    if dispatch == Some(Dispatch::Sequential) && !order.is_empty() {
        block.warning(
            "order",
            "an order under sequential dispatch: models are asked in catalogue order and the first success ends it",
            "order the models themselves",
        );
    }
    let kind = match block.text("kind")? {
        "consensus" => PolicyKind::Consensus,
        _ => PolicyKind::Priority,
    };
    if kind == PolicyKind::Consensus {
        let why = if dispatch == Some(Dispatch::Sequential) {
            Some("under sequential dispatch the first success ends it")
        } else if eligible.is_some_and(|list| list.len() < 2) {
            Some("fewer than two of its models may be asked")
        } else if is_agent {
            Some("an agent asks one model only")
        } else {
            None
        };
        if let Some(why) = why {
            block.warning(
                "kind",
                format!("a consensus that cannot be reached: {why}"),
                "use `priority`, or two eligible models and `fanout`",
            );
        }
    }
    Some(Policy { kind, order })
}

/// What an entry of `order` says of a model: a `model_id`, else a provider, else both at once.
fn matches(entry: &str, model: &Model, reading: Reading) -> bool {
    match reading {
        Reading::ModelId => model.model_id.as_str() == entry,
        Reading::Provider => model.provider.as_str() == entry,
        Reading::Both => entry.split_once('/').is_some_and(|(provider, model_id)| {
            model.provider.as_str() == provider && model.model_id.as_str() == model_id
        }),
    }
}

#[derive(Clone, Copy)]
enum Reading {
    ModelId,
    Provider,
    Both,
}

/// Fills in the ranks: each model has that of the first entry that names it, unlisted ones the last.
fn rank(block: &Object<'_>, models: &mut [Option<Model>]) {
    let whole = models.iter().all(Option::is_some);
    let entries = block.texts("order");
    let last = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    for model in models.iter_mut().flatten() {
        model.rank = last;
    }
    for (place, (index, node, entry)) in entries.into_iter().enumerate() {
        let reading = [Reading::ModelId, Reading::Provider, Reading::Both]
            .into_iter()
            .find(|reading| {
                models
                    .iter()
                    .flatten()
                    .any(|model| matches(entry, model, *reading))
            });
        match reading {
            Some(reading) => {
                let place = u32::try_from(place).unwrap_or(u32::MAX);
                for model in models.iter_mut().flatten() {
                    if matches(entry, model, reading) {
                        model.rank = model.rank.min(place);
                    }
                }
            }
            // With a model that could not be read, what the entry means cannot be judged.
            None if whole => unmatched(block, models, index, node.at, entry),
            None => {}
        }
    }
}

fn unmatched(block: &Object<'_>, models: &[Option<Model>], index: usize, at: usize, entry: &str) {
    let cx = block.cx;
    let path = || block.entry_path("order", index);
    let provider = entry
        .split_once('/')
        .map_or(entry, |(provider, _)| provider);
    let known = cx.catalogue.provider(provider).is_some();
    let here = models
        .iter()
        .flatten()
        .any(|model| model.provider.as_str() == provider);
    if known && !here {
        cx.found.warning(at, path, || {
            (
                format!("this brain has no model of {}", shown(provider)),
                "leave the entry out, or add the model".into(),
            )
        });
        return;
    }
    cx.found.error(at, path, || {
        let mut names: Vec<&str> = Vec::new();
        for model in models.iter().flatten() {
            names.push(model.model_id.as_str());
            names.push(model.provider.as_str());
        }
        names.dedup();
        (
            format!("{} names no model of this brain", shown(entry)),
            near_or_all(entry, &names),
        )
    });
}
