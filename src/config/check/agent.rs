//! Rules of agent brains: tools, grants and cages together; and the agent of the plan.

use std::time::Duration;

use super::cages;
use super::facts::{absent_channel, Facts};
use super::view::Object;
use super::words::{near_or_all, shown};
use crate::config::json::Value;
use crate::domain::brain::{
    Agent, Chats, Grant, HttpFetchCage, Memory, MemoryScope, Mode, ReadFileCage, WebhookCallCage,
};
use crate::domain::catalogue::ToolDescriptor;

/// The agent of a brain. `cloud` tells whether one of its eligible models is in the cloud, where
/// that could be read.
pub(super) fn agent(brain: &Object<'_>, cloud: Option<bool>, facts: &Facts<'_>) -> Option<Agent> {
    let view = brain.object("agent")?;
    let mut tools: Vec<String> = Vec::new();
    for (_, _, tool) in view.texts("tools") {
        if !tools.iter().any(|known| known == tool) {
            tools.push(tool.to_owned());
        }
    }
    let listed = |name: &str| tools.iter().any(|tool| tool == name);
    let governance = governance(&view, &tools, facts);
    let extra_sensitive = tool_attrs(&view, &tools);
    for kind in &view.cx.catalogue.tools {
        caged(&view, kind, listed(kind.name));
        if listed(kind.name) && kind.stores {
            storing(&view, kind, governance.as_deref(), facts);
        }
    }
    let sensitive = tools.iter().find(|tool| {
        extra_sensitive.contains(tool)
            || view
                .cx
                .catalogue
                .tool(tool)
                .is_some_and(|kind| kind.sensitive)
    });
    if let (Some(tool), Some(true), None) = (sensitive, cloud, view.given("governance")) {
        view.error(
            "tools",
            format!("the sensitive tool {} in a brain with a cloud model and without `governance`", shown(tool)),
            "make the brain private, take the cloud model out, or add a governance block (the tool is then denied)",
        );
    }
    let memory = memory(&view, cloud);
    cages::root(&view, facts);
    Some(Agent {
        max_iterations: view.whole("max_iterations")?,
        system_prompt: view.text("system_prompt").unwrap_or_default().to_owned(),
        governance,
        extra_sensitive,
        read_file: view.object("read_file").and_then(|view| {
            Some(ReadFileCage {
                root: view.file("root")?,
                max_bytes: view.whole("max_bytes")?,
            })
        }),
        http_fetch: view.object("http_fetch").and_then(|view| {
            Some(HttpFetchCage {
                allow_hosts: hosts(&view),
                max_bytes: view.whole("max_bytes")?,
                max_redirects: view.whole("max_redirects")?,
            })
        }),
        webhook_call: view.object("webhook_call").and_then(|view| {
            Some(WebhookCallCage {
                allow_hosts: hosts(&view),
                max_bytes: view.whole("max_bytes")?,
                timeout: Duration::from_secs(view.whole("timeout_seconds")?.into()),
            })
        }),
        memory,
        skills_dir: view.file("skills_dir"),
        skills_body_budget: view.whole("skills_body_budget")?,
        tools,
    })
}

fn hosts(view: &Object<'_>) -> Vec<String> {
    view.texts("allow_hosts")
        .into_iter()
        .map(|(_, _, host)| host.to_owned())
        .collect()
}

/// A caged tool does not exist without its cage; a cage without its tool is merely odd.
fn caged(view: &Object<'_>, kind: &ToolDescriptor, listed: bool) {
    let Some(cage) = &kind.cage else { return };
    match (listed, view.given(cage.key).is_some()) {
        (true, false) => view.error(
            cage.key,
            format!("the tool `{}` without its block `{}`", kind.name, cage.key),
            "a caged tool does not exist without its cage: add the block, or take the tool out",
        ),
        (false, true) if !view.spoiled("tools") => view.warning(
            cage.key,
            format!("`{}` without the tool `{}`", cage.key, kind.name),
            "list the tool, or leave the block out",
        ),
        _ => {}
    }
}

/// A tool that keeps something needs a store and a grant that names it.
fn storing(
    view: &Object<'_>,
    kind: &ToolDescriptor,
    governance: Option<&[Grant]>,
    facts: &Facts<'_>,
) {
    if !facts.has_storage {
        view.error(
            "tools",
            format!("the tool `{}` without `storage`", kind.name),
            "add \"storage\": {} at the top, or take the tool out",
        );
    }
    let named = governance.is_some_and(|grants| grants.iter().any(|grant| grant.tool == kind.name));
    if !named && !view.spoiled("governance") {
        view.error(
            "governance",
            format!("the tool `{}` without a grant that names it", kind.name),
            format!("add {{\"tool\": \"{}\", \"mode\": \"allow\"}}", kind.name),
        );
    }
}

fn governance(view: &Object<'_>, tools: &[String], facts: &Facts<'_>) -> Option<Vec<Grant>> {
    view.raw("governance")?;
    let mut grants: Vec<Grant> = Vec::new();
    for view in view.objects("governance") {
        let Some(tool) = view.text("tool") else {
            continue;
        };
        if grants.iter().any(|grant| grant.tool == tool) {
            view.error(
                "tool",
                format!("a second grant for the tool {}", shown(tool)),
                "one grant per tool: join the two",
            );
        } else if !tools.iter().any(|listed| listed == tool) {
            let names: Vec<_> = tools.iter().map(String::as_str).collect();
            view.error(
                "tool",
                format!("a grant for {}, which `tools` does not list", shown(tool)),
                if names.is_empty() {
                    "list the tool".into()
                } else {
                    format!("list the tool, or {}", near_or_all(tool, &names))
                },
            );
        }
        let channels = view.given("channels").map(|_| {
            view.texts("channels")
                .into_iter()
                .inspect(|(index, node, word)| {
                    if !facts.has_channel(word) {
                        view.cx.found.warning(
                            node.at,
                            || view.entry_path("channels", *index),
                            || absent_channel(word),
                        );
                    }
                })
                .map(|(_, _, word)| word.to_owned())
                .collect::<Vec<_>>()
        });
        let mode = match view.text("mode") {
            Some("allow") => Mode::Allow,
            Some("shadow") => Mode::Shadow,
            _ => Mode::Deny,
        };
        if view.text("mode") == Some("deny") && channels.is_some() {
            view.warning(
                "channels",
                "a `deny` with `channels` denies everywhere",
                "leave `channels` out; to allow on some channels only, grant `allow` with those",
            );
        }
        grants.push(Grant {
            tool: tool.to_owned(),
            mode,
            channels,
            chats: match view.text("chats") {
                Some("direct") => Chats::Direct,
                _ => Chats::All,
            },
        });
    }
    Some(grants)
}

fn tool_attrs(view: &Object<'_>, tools: &[String]) -> Vec<String> {
    let Some(Value::Object(members)) = view.raw("tool_attrs").map(|node| &node.value) else {
        return Vec::new();
    };
    let mut marked: Vec<String> = Vec::new();
    for member in members {
        let Value::Object(attrs) = &member.node.value else {
            continue;
        };
        let path = || {
            let mut path = view.path_of("tool_attrs");
            crate::config::json::push_key(&mut path, &member.key);
            path
        };
        let sensitive = attrs.iter().find(|attr| attr.key == "sensitive");
        match sensitive.map(|attr| (&attr.node.value, attr.node.at)) {
            Some((Value::Bool(true), _)) if !marked.iter().any(|known| *known == *member.key) => {
                marked.push(member.key.to_string());
            }
            Some((Value::Bool(false), at)) => view.cx.found.error(
                at,
                || path() + ".sensitive",
                || {
                    (
                        "`sensitive` can only be added, not taken away".into(),
                        "write true, or leave the tool out".into(),
                    )
                },
            ),
            _ => {}
        }
        let listed = tools.iter().any(|tool| *tool == *member.key);
        if view.cx.catalogue.tool(&member.key).is_some() && !listed && !view.spoiled("tools") {
            view.cx.found.warning(member.node.at, path, || {
                (
                    format!("{} is not among `tools`", shown(&member.key)),
                    "list the tool, or leave the entry out".into(),
                )
            });
        }
    }
    marked
}

fn memory(view: &Object<'_>, cloud: Option<bool>) -> Option<Memory> {
    let view = view.object("memory")?;
    let scope = match view.text("scope")? {
        "brain" => MemoryScope::Brain,
        _ => MemoryScope::Conversation,
    };
    if scope == MemoryScope::Brain && cloud == Some(true) {
        view.error(
            "scope",
            "notes of the whole brain with a cloud model: one person's notes would leave with another's message",
            "use `conversation`, or local models only",
        );
    }
    let memory = Memory {
        scope,
        max_notes: view.whole("max_notes")?,
        max_note_runes: view.whole("max_note_runes")?,
        budget_runes: view.whole("budget_runes")?,
    };
    let needed = memory.max_notes.saturating_mul(memory.max_note_runes);
    if memory.budget_runes < needed {
        view.error(
            "budget_runes",
            format!(
                "{} characters for {} notes of {}",
                memory.budget_runes, memory.max_notes, memory.max_note_runes
            ),
            format!("at least {needed}, so that every note is shown"),
        );
    }
    Some(memory)
}
