//! `korvun explain`: what the gate would decide about a brain's tools, and by which rule. The main
//! thread runs it, offline: nothing is executed, dialled or looked up.

use std::fmt::Write;

use serde_json::{json, Value};

use super::command::{Chats, Explain, Form};
use super::style::{Role, Style};
use super::{answer, check, file_or_default, note, Exit};
use crate::base::text::{nearest, printable};
use crate::daemon::load::catalogue;
use crate::domain::audit::Rule;
use crate::domain::brain::{self, Brain, Sensitivity};
use crate::domain::catalogue::{Catalogue, ChannelForm};
use crate::domain::gate::{self, Cage, Decision, Found, Line, Viewpoint};
use crate::domain::message::{ChatKind, Language};
use crate::domain::report;

/// Explains.
///
/// Blocks: for as long as the disk takes.
pub fn run(typed: &Explain, style: Style) -> Exit {
    match explained(typed) {
        Ok(told) => answer(&told.write(typed.form, style), Exit::Done),
        Err((problem, help)) => {
            note(&format!("korvun: {}", printable(&problem)));
            note(&format!("help: {}", printable(&help)));
            Exit::Usage
        }
    }
}

/// What is told.
struct Told {
    brain: String,
    channel: Option<String>,
    chat: Option<ChatKind>,
    governed: bool,
    shield: bool,
    tools: Vec<Line>,
}

fn explained(typed: &Explain) -> Result<Told, (String, String)> {
    let file = file_or_default(typed.config.as_deref());
    let catalogue = catalogue();
    let checked = check::look(&file, None, &catalogue)
        .map_err(|problem| (problem.to_string(), "--config names the file".to_owned()))?;
    let plan = checked.plan.ok_or_else(|| {
        (
            format!("{} has errors", file.display()),
            "`korvun config check` shows them".to_owned(),
        )
    })?;
    let names = || plan.brains.iter().map(|brain| brain.name.as_str());
    let brain = plan
        .brain(&typed.brain.as_str().into())
        .ok_or_else(|| unknown("brain", &typed.brain, names()))?;
    let chat = chat(typed, &catalogue)?;
    let from = Viewpoint {
        channel: typed.channel.as_deref(),
        chat,
        found: Found::AsDeclared,
    };
    let kind = |tool: &str| catalogue.tool(tool);
    let cage = |_: &str| Cage::Ready;
    let mut tools = gate::report(brain, &kind, &cage, &from);
    if let Some(tool) = &typed.tool {
        tools.retain(|line| line.tool == *tool);
        if tools.is_empty() {
            tools.push(unlisted(tool));
        }
    }
    Ok(Told {
        brain: typed.brain.clone(),
        channel: typed.channel.clone(),
        chat,
        governed: governed(brain),
        shield: brain.sensitivity == Sensitivity::Private,
        tools,
    })
}

fn governed(brain: &Brain) -> bool {
    let agent = brain.agent.as_ref();
    agent.is_some_and(|agent| agent.governance.is_some())
}

/// A tool that the brain does not list, as the gate judges it.
fn unlisted(tool: &str) -> Line {
    Line {
        tool: tool.to_owned(),
        mode: None,
        effective: Decision::Refuse(Rule::UnknownTool),
        channels: None,
        chats: None,
        sensitive: false,
        network: false,
    }
}

fn unknown<'a>(
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> (String, String) {
    let help = match nearest(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
    };
    (format!("there is no {what} `{name}`"), help)
}

/// The kind of chat: on a chat platform as typed, elsewhere there is one only.
fn chat(typed: &Explain, catalogue: &Catalogue) -> Result<Option<ChatKind>, (String, String)> {
    let asked = typed.chat.map(|chat| match chat {
        Chats::Direct => ChatKind::Direct,
        Chats::Group => ChatKind::Group,
    });
    let Some(channel) = &typed.channel else {
        return Ok(asked);
    };
    let kinds = catalogue.channels.iter();
    let kind = catalogue
        .channel(channel)
        .ok_or_else(|| unknown("channel", channel, kinds.map(|kind| kind.name)))?;
    let only = match kind.form {
        ChannelForm::Chat => return Ok(asked),
        ChannelForm::Webhook => ChatKind::Program,
        ChannelForm::Console => ChatKind::Direct,
    };
    match asked {
        Some(asked) if asked != only => Err((
            format!("the channel {channel} has no such chats"),
            "leave --chat out".to_owned(),
        )),
        _ => Ok(Some(only)),
    }
}

fn chat_word(chat: ChatKind) -> &'static str {
    match chat {
        ChatKind::Direct => "direct",
        ChatKind::Group => "group",
        ChatKind::Program => "program",
    }
}

impl Told {
    fn write(&self, form: Form, style: Style) -> String {
        match form {
            Form::Json => format!("{}\n", self.json()),
            Form::Text => self.text(style),
        }
    }

    fn json(&self) -> Value {
        let tools: Vec<Value> = self.tools.iter().map(tool_json).collect();
        json!({
            "brain": self.brain,
            "channel": self.channel,
            "chat": self.chat.map(chat_word),
            "governed": self.governed,
            "shield": self.shield,
            "tools": tools,
        })
    }

    fn text(&self, style: Style) -> String {
        let mut out = style.paint(Role::Name, &self.brain);
        if let Some(channel) = &self.channel {
            let _ = write!(out, ", on {}", printable(channel));
        }
        if let Some(chat) = self.chat {
            let _ = write!(out, ", {} chat", chat_word(chat));
        }
        out.push_str(match self.governed {
            true => ": governed",
            false => ": no governance block, every listed tool is allowed",
        });
        out.push_str(match self.shield {
            true => "; network shield: private addresses only\n",
            false => "; no network shield (the brain is public)\n",
        });
        if self.tools.is_empty() {
            out.push_str("  it has no tools\n");
        }
        for line in &self.tools {
            let role = match line.effective {
                Decision::Execute => Role::Good,
                Decision::Rehearse => Role::Odd,
                Decision::Refuse(_) => Role::Bad,
            };
            let name = printable(&line.tool);
            let decision = style.paint(role, line.effective.word());
            let reason = printable(&report::reason(line, Language::En));
            let _ = writeln!(out, "  {name}: {decision}{reason}");
        }
        out
    }
}

fn tool_json(line: &Line) -> Value {
    json!({
        "tool": line.tool,
        "mode": line.mode.map(brain::Mode::word),
        "effective": line.effective.word(),
        "rule": line.effective.rule().map(Rule::word),
        "channels": line.channels,
        "chats": line.chats.map(brain::Chats::word),
        "sensitive": line.sensitive,
        "network": line.network,
    })
}
