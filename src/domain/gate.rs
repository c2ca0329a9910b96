//! May this tool be used here, and if not, why: one function, asked before a tool is announced and
//! again before it is executed, and the report of the same for people. Pure, on any thread.
//! Restrictions win, the first that applies is the rule: more calls than a reply may hold, a tool
//! that the brain does not list, a `deny` grant, no grant, channel and chat, sensitivity, a cage that
//! is not there, and only then the granted mode. It must never let a fault of its own open anything.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::audit::Rule;
use super::brain::{Agent, Brain, Chats, Grant, Mode};
use super::catalogue::{Stage, ToolDescriptor};
use super::message::ChatKind;
use super::privacy;

/// What the gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is announced and executed.
    Execute,
    /// It is announced, and a call is only rehearsed.
    Rehearse,
    /// It is not announced, and a call is denied.
    Refuse(Rule),
}

impl Decision {
    /// The word in `/tools`, API and command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Decision::Execute => Mode::Allow.word(),
            Decision::Rehearse => Mode::Shadow.word(),
            Decision::Refuse(_) => Mode::Deny.word(),
        }
    }

    /// What refuses it.
    #[must_use]
    pub fn rule(self) -> Option<Rule> {
        match self {
            Decision::Refuse(rule) => Some(rule),
            Decision::Execute | Decision::Rehearse => None,
        }
    }

    /// Whether a model is told of the tool.
    #[must_use]
    pub fn announced(self) -> bool {
        self.rule().is_none()
    }

    /// The stricter of two; of two refusals this one.
    #[must_use]
    pub fn stricter(self, other: Decision) -> Decision {
        match (self, other) {
            (Decision::Refuse(_), _) => self,
            (_, Decision::Refuse(_)) => other,
            (Decision::Rehearse, _) | (_, Decision::Rehearse) => Decision::Rehearse,
            (Decision::Execute, Decision::Execute) => Decision::Execute,
        }
    }
}

/// Where a message was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// On which channel.
    pub channel: &'a str,
    /// In what kind of chat.
    pub chat: ChatKind,
}

/// Whether a tool's cage is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cage {
    /// It is, or it needs none.
    Ready,
    /// It is missing on disk.
    Missing,
}

/// Where the brain's models turned out to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Where they are declared to, as far as is known.
    AsDeclared,
    /// One that may be asked runs on somebody else's machine.
    Elsewhere,
}

/// One question to the gate. It holds for one brain of one configuration.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The tool's name as the model wrote it.
    pub tool: &'a str,
    /// What is known of a tool of that name; `None` where there is none.
    pub kind: Option<&'a ToolDescriptor>,
    /// Where the message was said.
    pub place: Place<'a>,
    /// Whether the tool's cage is there now.
    pub cage: Cage,
    /// Where the models run.
    pub found: Found,
    /// Whether the model's reply may hold this call too.
    pub budget: Budget,
}

/// Whether a call is within what one reply of a model may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// It is, or this is no call yet.
    Left,
    /// It is not.
    Spent,
}

/// What a brain may do with a tool. A fault of the gate itself refuses.
#[must_use]
pub fn decide(brain: &Brain, question: &Question<'_>) -> Decision {
    contained(|| judged(brain, &wanted(question)))
}

/// The same for a run whose brain may have been changed since it began: the stricter of both
/// counts. A brain that is gone, or no agent any more, grants nothing.
#[must_use]
pub fn decide_in_work(began: &Brain, now: Option<&Brain>, question: &Question<'_>) -> Decision {
    let then = decide(began, question);
    let now = match now {
        Some(now) => decide(now, question),
        None => Decision::Refuse(Rule::NotGranted),
    };
    then.stricter(now)
}

/// A panic counts as a refusal, so that nothing passes a gate that has failed.
fn contained(judge: impl FnOnce() -> Decision) -> Decision {
    catch_unwind(AssertUnwindSafe(judge)).unwrap_or(Decision::Refuse(Rule::GateFault))
}

/// A question that may leave open where: a report tells of channels and chats beside.
struct Wanted<'a> {
    tool: &'a str,
    kind: Option<&'a ToolDescriptor>,
    channel: Option<&'a str>,
    chat: Option<ChatKind>,
    cage: Cage,
    found: Found,
    budget: Budget,
}

fn wanted<'a>(question: &Question<'a>) -> Wanted<'a> {
    Wanted {
        tool: question.tool,
        kind: question.kind,
        channel: Some(question.place.channel),
        chat: Some(question.place.chat),
        cage: question.cage,
        found: question.found,
        budget: question.budget,
    }
}

fn judged(brain: &Brain, wanted: &Wanted<'_>) -> Decision {
    use Decision::{Execute, Refuse, Rehearse};
    if wanted.budget == Budget::Spent {
        return Refuse(Rule::PerRunBudget);
    }
    let listed = listed(brain, wanted.tool);
    let built = wanted.kind.filter(|kind| kind.stage == Stage::Built);
    let (Some(agent), Some(kind)) = (listed, built) else {
        return Refuse(Rule::UnknownTool);
    };
    let grant = grant(agent, wanted.tool);
    match grant {
        Some(grant) if grant.mode == Mode::Deny => return Refuse(Rule::Deny),
        None if agent.governance.is_some() => return Refuse(Rule::NotGranted),
        Some(grant) if !covers(grant, wanted) => return Refuse(Rule::Channel),
        Some(_) | None => {}
    }
    if sensitive(agent, kind) && reaches_cloud(brain, wanted.found) {
        return Refuse(Rule::SensitiveLocality);
    }
    if wanted.cage == Cage::Missing {
        return Refuse(Rule::Cage);
    }
    match grant.map(|grant| grant.mode) {
        None | Some(Mode::Allow) => Execute,
        Some(Mode::Shadow) => Rehearse,
        Some(Mode::Deny) => Refuse(Rule::Deny),
    }
}

/// The agent that lists the tool.
fn listed<'a>(brain: &'a Brain, tool: &str) -> Option<&'a Agent> {
    let agent = brain.agent.as_ref()?;
    agent.tools.iter().any(|name| name == tool).then_some(agent)
}

fn grant<'a>(agent: &'a Agent, tool: &str) -> Option<&'a Grant> {
    let grants = agent.governance.as_ref()?;
    grants.iter().find(|grant| grant.tool == tool)
}

fn covers(grant: &Grant, wanted: &Wanted<'_>) -> bool {
    let channel = match (&grant.channels, wanted.channel) {
        (Some(channels), Some(channel)) => channels.iter().any(|name| name == channel),
        (None, _) | (_, None) => true,
    };
    let chat = match (grant.chats, wanted.chat) {
        (Chats::Direct, Some(chat)) => chat == ChatKind::Direct,
        (Chats::All, _) | (_, None) => true,
    };
    channel && chat
}

fn sensitive(agent: &Agent, kind: &ToolDescriptor) -> bool {
    kind.sensitive || agent.extra_sensitive.iter().any(|name| name == kind.name)
}

/// Whether a model that may be asked runs on somebody else's machine, asked or not.
fn reaches_cloud(brain: &Brain, found: Found) -> bool {
    found == Found::Elsewhere
        || privacy::eligible(brain)
            .into_iter()
            .any(|model| privacy::cloud(&brain.models[model]).is_some())
}

/// One tool of a brain, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its name.
    pub tool: String,
    /// The granted mode; `None` where no grant names it.
    pub mode: Option<Mode>,
    /// What the gate would say.
    pub effective: Decision,
    /// The channels that it is limited to; `None` where it is not.
    pub channels: Option<Vec<String>>,
    /// The chats that it is limited to; `None` where it is not.
    pub chats: Option<Chats>,
    /// Whether what it reads must not reach a cloud model.
    pub sensitive: bool,
    /// Whether it reaches the network.
    pub network: bool,
}

/// For whom a report is made; what is left open restricts nothing in it.
#[derive(Clone, Copy, Debug)]
pub struct Viewpoint<'a> {
    /// On which channel.
    pub channel: Option<&'a str>,
    /// In what kind of chat.
    pub chat: Option<ChatKind>,
    /// Where the models run.
    pub found: Found,
}

/// Every listed tool of a brain in the file's order, judged as [`decide`] judges; empty for a brain
/// without an agent. `kind` tells what is known of a tool, `cage` whether its cage is there.
#[must_use]
pub fn report<'a>(
    brain: &Brain,
    kind: &dyn Fn(&str) -> Option<&'a ToolDescriptor>,
    cage: &dyn Fn(&str) -> Cage,
    from: &Viewpoint<'_>,
) -> Vec<Line> {
    let Some(agent) = &brain.agent else {
        return Vec::new();
    };
    let line = |tool: &String| {
        let (kind, grant) = (kind(tool), grant(agent, tool));
        let effective = contained(|| {
            let wanted = Wanted {
                tool,
                kind,
                channel: from.channel,
                chat: from.chat,
                cage: cage(tool),
                found: from.found,
                budget: Budget::Left,
            };
            judged(brain, &wanted)
        });
        Line {
            tool: tool.clone(),
            mode: grant.map(|grant| grant.mode),
            effective,
            channels: grant.and_then(|grant| grant.channels.clone()),
            chats: grant
                .map(|grant| grant.chats)
                .filter(|chats| *chats != Chats::All),
            sensitive: kind.is_some_and(|kind| sensitive(agent, kind)),
            network: kind.is_some_and(|kind| kind.network),
        }
    };
    agent.tools.iter().map(line).collect()
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
