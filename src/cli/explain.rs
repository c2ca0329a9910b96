//! `korvun explain`: what the gate and the cages would decide about a brain's tools, and by which
//! rule. The main thread runs it, offline: nothing is executed, opened, dialled or looked up.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{json, Value};

use super::command::{Chats, Explain, Form, Target};
use super::style::{Role, Style};
use super::{answer, check, file_or_default, note, Exit};
use crate::base::clock::SystemClock;
use crate::base::text::{nearest, printable};
use crate::config::plan::Plan;
use crate::daemon::load::catalogue;
use crate::domain::audit::{Rule, ToolOutcome};
use crate::domain::brain::{self, Brain, Sensitivity};
use crate::domain::catalogue::{Catalogue, ChannelForm};
use crate::domain::gate::{self, Cage, Decision, Found, Line, Viewpoint};
use crate::domain::limits::Limits;
use crate::domain::message::{ChatKind, Language};
use crate::domain::report;
use crate::net::http::Wire;
use crate::tool::kinds::{find, Kind, Parts, KINDS};
use crate::tool::port::{Arguments, Fault, Tool};
use crate::tool::Forbidden;

/// Explains.
///
/// Blocks: for as long as the disk takes.
pub fn run(typed: &Explain, style: Style) -> Exit {
    match explained(typed) {
        Ok(told) => {
            for hint in &told.hints {
                note(&format!("korvun: {}", printable(hint)));
            }
            answer(&told.write(typed.form, style), Exit::Done)
        }
        Err((problem, help)) => {
            note(&format!("korvun: {}", printable(&problem)));
            note(&format!("help: {}", printable(&help)));
            Exit::Usage
        }
    }
}

/// What is told of a brain's tools.
pub struct Told {
    brain: String,
    channel: Option<String>,
    chat: Option<ChatKind>,
    governed: bool,
    shield: bool,
    tools: Vec<(Line, Option<Called>)>,
    /// What was likely not meant as it was typed.
    hints: Vec<String>,
}

/// What a call would come to.
struct Called {
    outcome: ToolOutcome,
    rule: Option<Rule>,
    /// What the model would be told instead of a result.
    told: Option<String>,
    /// What is known only when it is executed.
    open: &'static str,
}

/// What gate and cages would decide.
///
/// Blocks: for as long as the disk takes.
///
/// # Errors
/// Why there is no answer, and what would help.
pub fn explained(typed: &Explain) -> Result<Told, (String, String)> {
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
    let cages = Cages::new(&plan, brain, file);
    let kind = |tool: &str| catalogue.tool(tool);
    let cage = |tool: &str| match cages.tool(tool) {
        Some((_, tool)) if !tool.ready() => Cage::Missing,
        // What has no cage, and notes, whose store is not opened here.
        Some(_) | None => Cage::Ready,
    };
    let mut lines = gate::report(brain, &kind, &cage, &from);
    if let Some(tool) = &typed.tool {
        lines.retain(|line| line.tool == *tool);
        if lines.is_empty() {
            lines.push(unlisted(tool));
        }
    }
    let called = |line: Line| {
        let called = typed
            .target
            .as_ref()
            .and_then(|target| cages.called(&line, target));
        (line, called)
    };
    let tools = lines.into_iter().map(called).collect();
    Ok(Told {
        brain: typed.brain.clone(),
        channel: typed.channel.clone(),
        chat,
        governed: governed(brain),
        shield: brain.sensitivity == Sensitivity::Private,
        tools,
        hints: hints(typed),
    })
}

/// The tools of a brain in their cages, as far as they can be had offline.
struct Cages<'a> {
    brain: &'a Brain,
    wire: Wire,
    forbidden: Forbidden,
}

impl<'a> Cages<'a> {
    fn new(plan: &Plan, brain: &'a Brain, file: PathBuf) -> Cages<'a> {
        let database = plan.storage.as_ref().map(|storage| storage.path.clone());
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        Cages {
            brain,
            wire: Wire::new(None, &Limits::default(), Arc::new(SystemClock)),
            forbidden: Forbidden::new([file].into_iter().chain(database).collect(), credentials),
        }
    }

    fn tool(&self, name: &str) -> Option<(&'static Kind, Arc<dyn Tool>)> {
        let kind = find(name)?;
        let made = (kind.make)(&Parts {
            brain: &self.brain.name,
            sensitivity: self.brain.sensitivity,
            agent: self.brain.agent.as_ref()?,
            wire: &self.wire,
            forbidden: &self.forbidden,
            store: None,
        });
        made.map(|tool| (kind, tool))
    }

    /// What a call with this target would come to; `None` for a tool that takes no such argument.
    fn called(&self, line: &Line, target: &Target) -> Option<Called> {
        let refused = |rule| Called {
            outcome: ToolOutcome::Denied,
            rule: Some(rule),
            told: None,
            open: "",
        };
        let Some((kind, tool)) = self.tool(&line.tool) else {
            return line.effective.rule().map(refused);
        };
        let arguments = arguments(kind, target)?;
        if let Decision::Refuse(rule) = line.effective {
            return Some(refused(rule));
        }
        let (mut rule, mut told) = (None, None);
        let mut outcome = ToolOutcome::Ok;
        match tool.rehearse(&arguments) {
            Ok(()) => {}
            Err(Fault::Refused {
                rule: by,
                told: words,
            }) => {
                (outcome, rule, told) = (ToolOutcome::Denied, Some(by), Some(words));
            }
            Err(Fault::Failed { told: words }) => {
                (outcome, told) = (ToolOutcome::Error, Some(words));
            }
        }
        if line.effective == Decision::Rehearse {
            outcome = ToolOutcome::Shadowed;
        }
        let open = match target {
            Target::Url(_) => "; where a name leads is judged when it is dialled",
            Target::Path(_) => ", if the file is there; links are judged when it is opened",
        };
        Some(Called {
            outcome,
            rule,
            told,
            open,
        })
    }
}

/// What is told of a named tool that there is not, or that takes no such target.
fn hints(typed: &Explain) -> Vec<String> {
    let Some(name) = &typed.tool else {
        return Vec::new();
    };
    let Some(kind) = find(name) else {
        let names = KINDS.iter().map(|kind| kind.descriptor.name);
        let (problem, help) = unknown("tool", name, names);
        return vec![format!("{problem}: {help}")];
    };
    let word = match &typed.target {
        Some(target) if arguments(kind, target).is_none() => target.word(),
        _ => return Vec::new(),
    };
    vec![format!("{name} takes no {word}: leave --{word} out")]
}

/// A call of that kind with this target and nothing else; `None` where it takes no such argument.
fn arguments(kind: &Kind, target: &Target) -> Option<Arguments> {
    let name = target.word();
    let (Target::Url(value) | Target::Path(value)) = target;
    let spec = (kind.spec)();
    let takes = spec.parameters["properties"].as_object()?;
    takes.get(name)?;
    let mut arguments = Arguments::new();
    for key in takes.keys() {
        let value = match key == name {
            true => Value::from(value.as_str()),
            false => json!({}),
        };
        arguments.insert(key.clone(), value);
    }
    Some(arguments)
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

    /// The answer as `--json` prints it.
    #[must_use]
    pub fn json(&self) -> Value {
        let tools: Vec<Value> = self
            .tools
            .iter()
            .map(|(line, called)| tool_json(line, called.as_ref()))
            .collect();
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
        for (line, called) in &self.tools {
            let role = match line.effective {
                Decision::Execute => Role::Good,
                Decision::Rehearse => Role::Odd,
                Decision::Refuse(_) => Role::Bad,
            };
            let name = printable(&line.tool);
            let decision = style.paint(role, line.effective.word());
            let reason = printable(&report::reason(line, Language::En));
            let _ = writeln!(out, "  {name}: {decision}{reason}");
            if let Some(called) = called {
                let _ = writeln!(out, "    this call: {}", printable(&called.words()));
            }
        }
        out
    }
}

impl Called {
    fn words(&self) -> String {
        let told = self.told.as_deref().unwrap_or_default();
        match (self.outcome, self.rule) {
            (ToolOutcome::Ok, _) => format!("would be executed{}", self.open),
            (ToolOutcome::Shadowed, None) => {
                "would be rehearsed, and nothing would refuse it".to_owned()
            }
            (ToolOutcome::Shadowed, Some(rule)) => {
                format!("would be rehearsed, and refused by {}: {told}", rule.word())
            }
            (ToolOutcome::Denied, Some(rule)) if told.is_empty() => {
                format!("would be denied by {}", rule.word())
            }
            (ToolOutcome::Denied, Some(rule)) => {
                format!("would be denied by {}: {told}", rule.word())
            }
            _ => format!("would fail: {told}"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "outcome": self.outcome.word(),
            "rule": self.rule.map(Rule::word),
            "told": self.told,
        })
    }
}

fn tool_json(line: &Line, called: Option<&Called>) -> Value {
    json!({
        "tool": line.tool,
        "mode": line.mode.map(brain::Mode::word),
        "effective": line.effective.word(),
        "rule": line.effective.rule().map(Rule::word),
        "channels": line.channels,
        "chats": line.chats.map(brain::Chats::word),
        "sensitive": line.sensitive,
        "network": line.network,
        "call": called.map(Called::json),
    })
}
