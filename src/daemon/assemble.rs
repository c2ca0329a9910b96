//! From a plan to a setup: every provider and channel built, nothing opened, nothing dialled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::base::clock::{Clock, Deadline};
use crate::base::sync::spawn;
use crate::channel::console::Console;
use crate::channel::discord::{self, Discord};
use crate::channel::port::Channel;
use crate::channel::telegram::{self, Telegram};
use crate::channel::webhook::{self, Webhook};
use crate::config::plan::{self, ChannelSettings, Plan};
use crate::config::secrets::Secrets;
use crate::domain::brain::{Agent, Brain};
use crate::domain::command;
use crate::domain::ids::{BrainName, ChannelName, EnvName};
use crate::domain::limits::Limits;
use crate::domain::privacy;
use crate::domain::skill::{self, Skill};
use crate::engine::setup::{LiveAgent, LiveBrain, LiveTool, Setup};
use crate::net::cancel::Cancel;
use crate::net::http::Wire;
use crate::provider;
use crate::store::Store;
use crate::tool::{self, Forbidden};
use crate::watch::Watch;

use super::StartError;

/// What plug-ins are built with.
pub struct Tools<'a> {
    /// The values of secrets.
    pub secrets: &'a Secrets,
    /// The way out.
    pub wire: &'a Wire,
    /// Where they report.
    pub watch: &'a Watch,
    /// Time.
    pub clock: &'a Arc<dyn Clock>,
    /// Every maximum.
    pub limits: &'a Limits,
    /// Where notes are kept; none without storage.
    pub store: Option<&'a Arc<Store>>,
    /// What no tool may read.
    pub forbidden: &'a Forbidden,
    /// The skills of the brains that have some.
    pub skills: &'a BTreeMap<BrainName, Vec<Skill>>,
}

/// Whether the operator can write to the daemon, which the console needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// The admin token is known.
    Mounted,
    /// Read-only.
    Absent,
}

/// Builds a setup.
///
/// # Errors
/// A [`StartError`] naming the part that cannot be built.
pub fn setup(plan: Plan, tools: &Tools<'_>, writing: Writing) -> Result<Setup, StartError> {
    let mut brains = BTreeMap::new();
    for brain in &plan.brains {
        brains.insert(brain.name.clone(), Arc::new(live(brain, tools)));
    }
    let mut channels: BTreeMap<ChannelName, Arc<dyn Channel>> = BTreeMap::new();
    for channel in &plan.channels {
        if let Some(built) = build_channel(channel, &plan, tools)? {
            channels.insert(channel.name.clone(), built);
        }
    }
    if writing == Writing::Mounted {
        let name = ChannelName::new("console");
        let console = Console {
            name: name.clone(),
            watch: tools.watch.clone(),
        };
        channels.insert(name, Arc::new(console));
    }
    let zone = zone(&plan);
    Ok(Setup {
        plan,
        brains,
        channels,
        zone,
    })
}

/// The local zone, where a day of the plan begins by it. Without one the day begins by UTC, which
/// is said.
fn zone(plan: &Plan) -> TimeZone {
    if plan
        .session
        .as_ref()
        .and_then(|session| session.daily_at)
        .is_none()
    {
        return TimeZone::UTC;
    }
    TimeZone::try_system().unwrap_or_else(|error| {
        log::warn!(error = error.to_string().as_str(); "the local time zone is not known, session.daily_at goes by UTC: install the system's zone database (tzdata) or set TZ");
        TimeZone::UTC
    })
}

fn live(brain: &Brain, tools: &Tools<'_>) -> LiveBrain {
    let eligible = privacy::eligible(brain);
    let providers = brain.models.iter().enumerate().map(|(at, model)| {
        eligible.contains(&at).then(|| {
            let key = model
                .api_key_env
                .as_ref()
                .and_then(|name| tools.secrets.of(name));
            provider::build(model, brain.sensitivity, key, tools.wire)
        })
    });
    let agent = brain.agent.as_ref().map(|agent| {
        let skills = tools.skills.get(&brain.name).cloned().unwrap_or_default();
        LiveAgent {
            tools: live_tools(brain, agent, tools),
            skills_section: skill::section(&skills, agent.skills_body_budget),
            skills,
        }
    });
    LiveBrain::new(brain.clone(), providers.collect(), agent)
}

fn live_tools(brain: &Brain, agent: &Agent, tools: &Tools<'_>) -> Vec<LiveTool> {
    let parts = tool::kinds::Parts {
        brain: &brain.name,
        sensitivity: brain.sensitivity,
        agent,
        wire: tools.wire,
        forbidden: tools.forbidden,
        store: tools.store,
    };
    let kinds = agent
        .tools
        .iter()
        .filter_map(|name| tool::kinds::find(name));
    kinds
        .map(|kind| LiveTool {
            descriptor: kind.descriptor,
            spec: (kind.spec)(),
            tool: (kind.make)(&parts),
        })
        .collect()
}

/// A channel of the file; `None` for the console, which comes with the admin token, not with the file.
fn build_channel(
    channel: &plan::Channel,
    plan: &Plan,
    tools: &Tools<'_>,
) -> Result<Option<Arc<dyn Channel>>, StartError> {
    let offer = plan.offer(&channel.name);
    let secret = |name: &EnvName| {
        tools.secrets.of(name).cloned().ok_or_else(|| StartError {
            message: format!("channel {}: the variable {name} has no value", channel.name),
        })
    };
    match &channel.settings {
        ChannelSettings::Webhook(settings) => {
            let Some(token_env) = &channel.token_env else {
                return Err(missing(channel, "signatures"));
            };
            let webhook = Webhook::new(webhook::Parts {
                name: channel.name.clone(),
                token: secret(token_env)?,
                outbound_token: settings
                    .outbound_token_env
                    .as_ref()
                    .map(secret)
                    .transpose()?,
                settings: (**settings).clone(),
                wire: tools.wire.clone(),
                watch: tools.watch.clone(),
                clock: tools.clock.clone(),
                limits: tools.limits.clone(),
            });
            let webhook = webhook.map_err(|error| StartError {
                message: error.to_string(),
            })?;
            Ok(Some(Arc::new(webhook)))
        }
        ChannelSettings::Console => Ok(None),
        ChannelSettings::Chat(settings) if channel.name.as_str() == "telegram" => {
            let Some(token_env) = &channel.token_env else {
                return Err(missing(channel, "a channel without a token"));
            };
            let telegram = Telegram::new(telegram::Parts {
                name: channel.name.clone(),
                settings: settings.clone(),
                token: secret(token_env)?,
                commands: command::slash_words(&offer),
                menu: command::menu(&offer),
                wire: tools.wire.clone(),
                watch: tools.watch.clone(),
                clock: tools.clock.clone(),
                limits: tools.limits.clone(),
            });
            let telegram = telegram.map_err(|error| StartError {
                message: error.to_string(),
            })?;
            Ok(Some(Arc::new(telegram)))
        }
        ChannelSettings::Chat(settings) if channel.name.as_str() == "discord" => {
            let Some(token_env) = &channel.token_env else {
                return Err(missing(channel, "a channel without a token"));
            };
            let discord = Discord::new(discord::Parts {
                name: channel.name.clone(),
                settings: settings.clone(),
                token: secret(token_env)?,
                commands: command::slash_words(&offer),
                wire: tools.wire.clone(),
                watch: tools.watch.clone(),
                clock: tools.clock.clone(),
                limits: tools.limits.clone(),
            });
            let discord = discord.map_err(|error| StartError {
                message: error.to_string(),
            })?;
            Ok(Some(Arc::new(discord)))
        }
        ChannelSettings::Chat(_) => Err(missing(channel, "this channel")),
    }
}

fn missing(channel: &plan::Channel, part: &str) -> StartError {
    StartError {
        message: format!(
            "channel {}: this build does not have {part} yet",
            channel.name
        ),
    }
}

/// Has the models that ask for it loaded, one thread for each endpoint, each ended by its own limit.
pub fn warm_up(setup: &Setup, clock: &Arc<dyn Clock>) {
    let mut seen = BTreeSet::new();
    for live in setup.brains.values() {
        for (model, provider) in live.brain.models.iter().zip(&live.providers) {
            let Some(provider) = provider.clone().filter(|_| model.warmup) else {
                continue;
            };
            if !seen.insert((model.endpoint.clone(), model.model_id.clone())) {
                continue;
            }
            let (model_id, within, clock) =
                (model.model_id.clone(), model.request_timeout, clock.clone());
            let warming = spawn(&format!("warm:{model_id}"), 256 * 1024, move || {
                let deadline = Deadline::after(clock.now(), within);
                match provider.warm_up(deadline, &Cancel::new()) {
                    Ok(()) => log::info!(model = model_id.as_str(); "model loaded"),
                    Err(failure) => {
                        log::warn!(model = model_id.as_str(), kind = failure.kind.word(), error = failure.detail.as_str(); "model could not be loaded ahead")
                    }
                }
            });
            if let Err(error) = warming {
                log::warn!(model = model.model_id.as_str(), error = error.to_string().as_str(); "cannot start a thread to load a model");
            }
        }
    }
}
