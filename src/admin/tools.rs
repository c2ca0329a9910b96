//! `/api/tools/BRAIN`: what a brain's tools may do and did, as JSON. Pure. Metadata only.

use serde_json::{json, Value};

use super::ToolsView;
use crate::domain::audit::Rule;
use crate::domain::brain::{Chats, Mode, Sensitivity};
use crate::domain::gate::Line;
use crate::domain::report::{Recent, Rehearsed};

/// The whole answer.
pub(super) fn body(view: &ToolsView) -> Value {
    let brain = &view.brain;
    let agent = brain.agent.as_ref();
    let tools = view.tools.iter().map(|line| tool(line, &view.rehearsed));
    json!({
        "brain": brain.name.as_str(),
        "governed": agent.is_some_and(|agent| agent.governance.is_some()),
        "shield": brain.sensitivity == Sensitivity::Private,
        "tools": tools.collect::<Vec<_>>(),
        "recent": view.recent.iter().map(recent).collect::<Vec<_>>(),
    })
}

fn tool(line: &Line, rehearsed: &[Rehearsed]) -> Value {
    let of = rehearsed.iter().find(|of| of.tool == line.tool);
    json!({
        "tool": line.tool,
        "mode": line.mode.map(Mode::word),
        "effective": line.effective.word(),
        "rule": line.effective.rule().map_or("", Rule::word),
        "channels": line.channels,
        "chats": line.chats.map(Chats::word),
        "sensitive": line.sensitive,
        "network": line.network,
        "rehearsals": of.map_or(0, |of| of.rehearsals),
        "would_refuse": of.map_or(0, |of| of.would_refuse),
    })
}

fn recent(call: &Recent) -> Value {
    json!({
        "at": call.at.rfc3339(),
        "tool": call.tool,
        "channel": call.channel,
        "outcome": call.outcome,
        "rule": call.rule,
        "latency_ms": call.latency_ms,
    })
}
