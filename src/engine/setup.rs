//! Everything a running message needs, as one immutable value that is swapped whole.

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::base::sync::lock;
use crate::channel::port::Channel;
use crate::config::plan::Plan;
use crate::domain::brain::{Brain, Memory};
use crate::domain::catalogue::ToolDescriptor;
use crate::domain::completion::ToolSpec;
use crate::domain::gate::Cage;
use crate::domain::ids::{BrainName, ChannelName, Conversation, Endpoint};
use crate::domain::lanes::Needs;
use crate::domain::privacy;
use crate::domain::skill::Skill;
use crate::provider::Provider;
use crate::tool::port::Tool;

/// One configuration, assembled: nothing in it is open yet.
pub struct Setup {
    /// What it was assembled from.
    pub plan: Plan,
    /// Its brains.
    pub brains: BTreeMap<BrainName, Arc<LiveBrain>>,
    /// Its channels.
    pub channels: BTreeMap<ChannelName, Arc<dyn Channel>>,
    /// The local time zone, by which days begin.
    pub zone: TimeZone,
}

/// A brain with its providers.
pub struct LiveBrain {
    /// The brain as data.
    pub brain: Brain,
    /// One provider for each model that may be asked, in the places of `brain.models`; `None`
    /// where privacy dropped the model.
    pub providers: Vec<Option<Arc<dyn Provider>>>,
    /// What a run of it needs.
    pub needs: Needs,
    /// Its tools and skills; present in an agent brain.
    pub agent: Option<LiveAgent>,
}

/// What an agent brain works with.
#[derive(Default)]
pub struct LiveAgent {
    /// Its listed tools, in the file's order.
    pub tools: Vec<LiveTool>,
    /// Its skills.
    pub skills: Vec<Skill>,
    /// What they add to the head of its prompts; the same bytes each time.
    pub skills_section: String,
}

/// One listed tool of an agent brain.
pub struct LiveTool {
    /// What it is.
    pub descriptor: &'static ToolDescriptor,
    /// What a model is told of it.
    pub spec: ToolSpec,
    /// The tool in its cage; `None` where what it needs is not there.
    pub tool: Option<Arc<dyn Tool>>,
}

impl LiveAgent {
    /// The listed tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&LiveTool> {
        self.tools.iter().find(|tool| tool.name() == name)
    }

    /// The bounds of the brain's notes, where it lists the tool that makes them.
    #[must_use]
    pub fn memory(&self, brain: &Brain) -> Option<Memory> {
        let notes = self.tools.iter().any(|tool| tool.descriptor.stores);
        brain.agent.as_ref()?.memory.filter(|_| notes)
    }
}

impl LiveTool {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.descriptor.name
    }

    /// Whether its cage is there now.
    ///
    /// Blocks: as [`Tool::ready`].
    #[must_use]
    pub fn cage(&self) -> Cage {
        let ready = |tool: &Arc<dyn Tool>| catch_unwind(AssertUnwindSafe(|| tool.ready()));
        match self.tool.as_ref().map(ready) {
            Some(Ok(true)) => Cage::Ready,
            // A fault of the look itself opens nothing.
            Some(Ok(false) | Err(_)) | None => Cage::Missing,
        }
    }
}

impl LiveBrain {
    /// Joins a brain, its providers and its tools.
    #[must_use]
    pub fn new(
        brain: Brain,
        providers: Vec<Option<Arc<dyn Provider>>>,
        agent: Option<LiveAgent>,
    ) -> LiveBrain {
        let mut endpoints: Vec<Endpoint> = privacy::eligible(&brain)
            .iter()
            .map(|&at| brain.models[at].endpoint.clone())
            .collect();
        endpoints.sort();
        endpoints.dedup();
        let needs = Needs {
            endpoints: endpoints.into(),
            answer_within: brain.answer_timeout,
        };
        LiveBrain {
            brain,
            providers,
            needs,
            agent,
        }
    }

    /// The name that people see.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        let display_name = &self.brain.persona.display_name;
        if display_name.is_empty() {
            self.brain.name.as_str()
        } else {
            display_name
        }
    }
}

impl Setup {
    /// The brain that answers in a conversation: on the console the one that its key names, the
    /// longest configured name that fits; elsewhere the one that the route leads to.
    #[must_use]
    pub fn brain_of(&self, conversation: &Conversation) -> Option<&Arc<LiveBrain>> {
        if conversation.channel.as_str() == "console" {
            return self.console_brain(&conversation.id);
        }
        let route = self
            .plan
            .routes
            .iter()
            .find(|route| route.channel == conversation.channel)?;
        self.brains.get(&route.brain)
    }

    fn console_brain(&self, id: &str) -> Option<&Arc<LiveBrain>> {
        let fits = |name: &str| {
            id.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = self.brains.iter().filter(|(name, _)| fits(name.as_str()));
        named
            .max_by_key(|(name, _)| name.as_str().len())
            .map(|(_, brain)| brain)
    }

    /// What the next run of a conversation needs; nothing where no brain answers in it.
    #[must_use]
    pub fn needs_of(&self, conversation: &Conversation) -> Needs {
        let nothing = Needs {
            endpoints: Arc::new([]),
            answer_within: Duration::from_secs(60),
        };
        self.brain_of(conversation)
            .map_or(nothing, |brain| brain.needs.clone())
    }

    /// How many runs each endpoint takes at once: the highest `parallel` of the models there.
    pub fn capacities(&self) -> impl Iterator<Item = (Endpoint, u32)> + '_ {
        self.brains.values().flat_map(|live| {
            let models = privacy::eligible(&live.brain)
                .into_iter()
                .map(|at| &live.brain.models[at]);
            models
                .map(|model| (model.endpoint.clone(), model.parallel))
                .collect::<Vec<_>>()
        })
    }
}

/// The setup in force. A run keeps the one it began with.
pub struct Current(Mutex<Arc<Setup>>);

impl Current {
    /// Starts with `setup`.
    #[must_use]
    pub fn new(setup: Setup) -> Current {
        Current(Mutex::new(Arc::new(setup)))
    }

    /// The setup in force now.
    #[must_use]
    pub fn load(&self) -> Arc<Setup> {
        lock(&self.0).clone()
    }

    /// Puts `setup` in force, and gives back the one before.
    pub fn swap(&self, setup: Setup) -> Arc<Setup> {
        std::mem::replace(&mut *lock(&self.0), Arc::new(setup))
    }
}
