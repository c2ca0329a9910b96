//! What a configuration asks for and this build does not have yet. Pure.

use super::plan::{ChannelSettings, Plan};
use crate::domain::catalogue::{Catalogue, Part, Stage};

/// One part that is asked for and not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// The key that asks for it.
    pub path: String,
    /// What is missing, as a sentence.
    pub sentence: String,
}

/// Every part that the plan asks for and this build lacks, in the file's order.
#[must_use]
pub fn missing(plan: &Plan, catalogue: &Catalogue) -> Vec<MissingPart> {
    let mut parts = Vec::new();
    let mut lack = |path: String, what: String| {
        parts.push(MissingPart {
            path,
            sentence: format!("this build of korvun does not have {what} yet"),
        });
    };
    let lacks = |part: Part| catalogue.lacks.contains(&part);
    for (index, channel) in plan.channels.iter().enumerate() {
        let name = channel.name.as_str();
        if catalogue.channel(name).map(|kind| kind.stage) != Some(Stage::Built) {
            lack(
                format!("channels[{index}].type"),
                format!("the {name} channel"),
            );
        }
        if let ChannelSettings::Webhook(webhook) = &channel.settings {
            if webhook.signature.is_some() && lacks(Part::Signatures) {
                lack(
                    format!("channels[{index}].webhook.signature"),
                    "signed webhook requests".into(),
                );
            }
        }
    }
    for (index, brain) in plan.brains.iter().enumerate() {
        for (place, model) in brain.models.iter().enumerate() {
            let name = model.provider.as_str();
            if catalogue.provider(name).map(|kind| kind.stage) != Some(Stage::Built) {
                lack(
                    format!("brains[{index}].models[{place}].provider"),
                    format!("the provider {name}"),
                );
            }
        }
        let Some(agent) = &brain.agent else { continue };
        if lacks(Part::Agents) {
            lack(format!("brains[{index}].agent"), "agent brains".into());
            continue;
        }
        for (place, tool) in agent.tools.iter().enumerate() {
            if catalogue.tool(tool).map(|kind| kind.stage) != Some(Stage::Built) {
                lack(
                    format!("brains[{index}].agent.tools[{place}]"),
                    format!("the tool {tool}"),
                );
            }
        }
        if agent.skills_dir.is_some() && lacks(Part::Skills) {
            lack(format!("brains[{index}].agent.skills_dir"), "skills".into());
        }
    }
    if plan.session.is_some() && lacks(Part::Sessions) {
        lack("session".into(), "sessions".into());
    }
    parts
}
