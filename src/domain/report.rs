//! `/tools` in words: what the gate decides about a brain's tools and why, and what they did lately.
//! Pure. Metadata only: no argument and no result is ever here to be told.

use std::fmt::Write;

use super::audit::Rule;
use super::brain::Chats;
use super::gate::{Decision, Line};
use super::message::Language;
use super::skill::Skill;
use crate::base::clock::UnixMs;
use crate::base::text::{prefix, printable};

/// Tools of one skill that are shown; the file may name thousands.
const ALLOWED_SHOWN: usize = 16;
/// Bytes of one of them.
const ALLOWED_BYTES: usize = 64;

/// What `/tools` tells of one brain.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The brain's name.
    pub brain: &'a str,
    /// Whether it has a governance block.
    pub governed: bool,
    /// Whether the network shield stands before its network tools.
    pub shield: bool,
    /// Its tools as the gate judges them.
    pub tools: &'a [Line],
    /// What was rehearsed.
    pub rehearsed: &'a [Rehearsed],
    /// Its skills.
    pub skills: &'a [Skill],
    /// What its tools did lately, newest first.
    pub recent: &'a [Recent],
}

/// The rehearsals of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsed {
    /// The tool.
    pub tool: String,
    /// How often it was rehearsed.
    pub rehearsals: u64,
    /// How many of those a cage or the shield would have refused.
    pub would_refuse: u64,
}

/// One call of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    /// When.
    pub at: UnixMs,
    /// The tool, or `unknown`.
    pub tool: String,
    /// The channel.
    pub channel: String,
    /// The word of its outcome; empty while it is in work.
    pub outcome: String,
    /// The word of the rule that refused it; empty where none did.
    pub rule: String,
    /// How long it took, in milliseconds.
    pub latency_ms: u64,
}

impl Report<'_> {
    /// The report as text of several lines.
    #[must_use]
    pub fn words(&self, language: Language) -> String {
        let say = |en: &'static str, es: &'static str| in_language(language, en, es);
        let mut out = match self.governed {
            true => format!("{}: {}", self.brain, say("governed", "gobernado")),
            false => format!(
                "{}: {}",
                self.brain,
                say(
                    "not governed, every listed tool is allowed on every channel",
                    "sin gobernar, toda herramienta listada se permite en todos los canales"
                )
            ),
        };
        out.push_str(match self.shield {
            true => say(
                "; network shield: private addresses only",
                "; escudo de red: solo direcciones privadas",
            ),
            false => say(
                "; no network shield (the brain is public)",
                "; sin escudo de red (el cerebro es público)",
            ),
        });
        if self.tools.is_empty() {
            let _ = write!(
                out,
                "\n{}",
                say("It has no tools.", "No tiene herramientas.")
            );
        }
        for line in self.tools {
            let reason = reason(line, language);
            let _ = write!(out, "\n- {}: {}{reason}", line.tool, line.effective.word());
            let same = |rehearsed: &&Rehearsed| rehearsed.tool == line.tool;
            if let Some(of) = self.rehearsed.iter().find(same) {
                let _ = write!(
                    out,
                    "; {} {}, {} {}",
                    say("rehearsals", "ensayos"),
                    of.rehearsals,
                    say("would have been refused", "se habrían denegado"),
                    of.would_refuse
                );
            }
        }
        for (at, skill) in self.skills.iter().enumerate() {
            if at == 0 {
                out.push_str(say(
                    "\nSkills (they grant nothing):",
                    "\nSkills (no conceden nada):",
                ));
            }
            let _ = write!(out, "\n- {}{}", skill.name, allowed(skill));
        }
        match self.recent {
            [] => out.push_str(say("\nNo recent activity.", "\nSin actividad reciente.")),
            _ => out.push_str(say("\nRecent activity:", "\nActividad reciente:")),
        }
        for call in self.recent {
            let _ = write!(out, "\n- {}", recent(call, language));
        }
        out
    }
}

/// What is told behind the decision about a tool: its reason, and what limits it.
#[must_use]
pub fn reason(line: &Line, language: Language) -> String {
    let say = |en: &'static str, es: &'static str| in_language(language, en, es);
    let mut out = String::new();
    match line.effective {
        Decision::Execute if line.mode.is_none() => {
            out.push_str(say(" (no governance block)", " (sin bloque governance)"));
        }
        Decision::Execute => {}
        Decision::Rehearse => out.push_str(say(
            " (announced, never executed)",
            " (se anuncia, nunca se ejecuta)",
        )),
        Decision::Refuse(rule) => {
            let _ = write!(out, " ({}: {})", rule.word(), because(rule, language));
        }
    }
    if let Some(channels) = &line.channels {
        let _ = write!(
            out,
            "; {} {}",
            say("only on", "solo en"),
            channels.join(", ")
        );
    }
    if line.chats == Some(Chats::Direct) {
        out.push_str(say("; only in direct chats", "; solo en chats directos"));
    }
    if line.sensitive {
        out.push_str(say(
            "; sensitive, local models only",
            "; sensible, solo modelos locales",
        ));
    }
    if line.network {
        out.push_str(say("; reaches the network", "; alcanza la red"));
    }
    out
}

/// What a skill would like to be allowed, as it is recorded.
fn allowed(skill: &Skill) -> String {
    if skill.allowed_tools.is_empty() {
        return String::new();
    }
    let shown = skill.allowed_tools.iter().take(ALLOWED_SHOWN);
    let words: Vec<String> = shown
        .map(|word| prefix(&printable(word), ALLOWED_BYTES).to_owned())
        .collect();
    let more = match skill.allowed_tools.len() > ALLOWED_SHOWN {
        true => ", …",
        false => "",
    };
    format!(" (allowed-tools: {}{more})", words.join(", "))
}

fn recent(call: &Recent, language: Language) -> String {
    let say = |en: &'static str, es: &'static str| in_language(language, en, es);
    let mut out = format!("{} {} ({}): ", call.at.rfc3339(), call.tool, call.channel);
    out.push_str(match call.outcome.as_str() {
        "" => say("in work", "en curso"),
        "unknown" => say(
            "unknown, cut by a crash",
            "desconocido, cortado por una caída",
        ),
        word => word,
    });
    match (call.outcome.as_str(), call.rule.as_str()) {
        (_, "") => {}
        ("shadowed", rule) => {
            let _ = write!(
                out,
                ", {} {rule}",
                say("would have been refused by", "lo habría denegado")
            );
        }
        (_, rule) => {
            let _ = write!(out, ", {rule}");
        }
    }
    if !call.outcome.is_empty() && call.outcome != "unknown" {
        let _ = write!(out, ", {} ms", call.latency_ms);
    }
    out
}

/// Why a rule refuses, in a few words.
#[must_use]
pub fn because(rule: Rule, language: Language) -> &'static str {
    let (en, es) = match rule {
        Rule::Deny => ("the grant denies it", "el permiso la deniega"),
        Rule::NotGranted => (
            "the governance block has no grant for it",
            "el bloque governance no tiene permiso para ella",
        ),
        Rule::Channel => (
            "the grant does not cover this channel or kind of chat",
            "el permiso no cubre este canal o tipo de chat",
        ),
        Rule::SensitiveLocality => (
            "sensitive, and a cloud model may be asked here",
            "sensible, y aquí se puede preguntar a un modelo en la nube",
        ),
        Rule::PrivateNetworkShield => (
            "the address may not be reached",
            "esa dirección no se puede alcanzar",
        ),
        Rule::Cage => (
            "outside its cage, or the cage is not there",
            "fuera de su jaula, o la jaula no existe",
        ),
        Rule::UnknownTool => (
            "the brain does not list it",
            "el cerebro no la tiene en su lista",
        ),
        Rule::PerRunBudget => (
            "more calls than one reply may hold",
            "más llamadas de las que caben en una respuesta",
        ),
        Rule::ToolsUnsupported => (
            "the model cannot be told of tools",
            "al modelo no se le pueden anunciar herramientas",
        ),
        Rule::GateFault => ("the gate itself failed", "falló el propio gatekeeper"),
    };
    in_language(language, en, es)
}

fn in_language(language: Language, en: &'static str, es: &'static str) -> &'static str {
    match language {
        Language::En => en,
        Language::Es => es,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::brain::Mode;

    fn line(tool: &str, mode: Option<Mode>, effective: Decision) -> Line {
        Line {
            tool: tool.into(),
            mode,
            effective,
            channels: None,
            chats: None,
            sensitive: false,
            network: false,
        }
    }

    fn call(tool: &str, outcome: &str, rule: &str) -> Recent {
        Recent {
            at: UnixMs(1_764_500_709_120),
            tool: tool.into(),
            channel: "console".into(),
            outcome: outcome.into(),
            rule: rule.into(),
            latency_ms: 12,
        }
    }

    #[test]
    fn a_report_tells_decisions_reasons_limits_skills_and_activity() {
        let tools = [
            line("time", Some(Mode::Allow), Decision::Execute),
            Line {
                channels: Some(vec!["console".into(), "telegram".into()]),
                chats: Some(Chats::Direct),
                sensitive: true,
                ..line("read_file", Some(Mode::Allow), Decision::Execute)
            },
            Line {
                network: true,
                ..line("webhook_call", Some(Mode::Shadow), Decision::Rehearse)
            },
            line("calc", None, Decision::Refuse(Rule::NotGranted)),
        ];
        let skills = [
            Skill {
                name: "home".into(),
                description: "x".into(),
                body: "never shown".into(),
                allowed_tools: vec!["webhook_call".into(), "B\u{202e}d".into()],
            },
            Skill {
                name: "plain".into(),
                description: "x".into(),
                body: String::new(),
                allowed_tools: Vec::new(),
            },
        ];
        let report = Report {
            brain: "casa",
            governed: true,
            shield: true,
            tools: &tools,
            rehearsed: &[Rehearsed {
                tool: "webhook_call".into(),
                rehearsals: 3,
                would_refuse: 1,
            }],
            skills: &skills,
            recent: &[
                call("webhook_call", "shadowed", "cage"),
                call("webhook_call", "shadowed", ""),
                call("calc", "denied", "not_granted"),
                call("time", "ok", ""),
                call("time", "", ""),
                call("time", "unknown", ""),
            ],
        };
        assert_eq!(
            report.words(Language::En),
            "casa: governed; network shield: private addresses only\n\
             - time: allow\n\
             - read_file: allow; only on console, telegram; only in direct chats; sensitive, local models only\n\
             - webhook_call: shadow (announced, never executed); reaches the network; rehearsals 3, would have been refused 1\n\
             - calc: deny (not_granted: the governance block has no grant for it)\n\
             Skills (they grant nothing):\n\
             - home (allowed-tools: webhook_call, B\\u{202e}d)\n\
             - plain\n\
             Recent activity:\n\
             - 2025-11-30T11:05:09.120Z webhook_call (console): shadowed, would have been refused by cage, 12 ms\n\
             - 2025-11-30T11:05:09.120Z webhook_call (console): shadowed, 12 ms\n\
             - 2025-11-30T11:05:09.120Z calc (console): denied, not_granted, 12 ms\n\
             - 2025-11-30T11:05:09.120Z time (console): ok, 12 ms\n\
             - 2025-11-30T11:05:09.120Z time (console): in work\n\
             - 2025-11-30T11:05:09.120Z time (console): unknown, cut by a crash"
        );
        let spanish = report.words(Language::Es);
        for words in [
            "casa: gobernado; escudo de red: solo direcciones privadas",
            "solo en console, telegram; solo en chats directos; sensible, solo modelos locales",
            "shadow (se anuncia, nunca se ejecuta); alcanza la red; ensayos 3, se habrían denegado 1",
            "calc: deny (not_granted: el bloque governance no tiene permiso para ella)",
            "Skills (no conceden nada):",
            "Actividad reciente:",
            "shadowed, lo habría denegado cage, 12 ms",
        ] {
            assert!(spanish.contains(words), "{words}: {spanish}");
        }
    }

    #[test]
    fn a_brain_without_a_block_or_without_tools_says_so() {
        let tools = [line("time", None, Decision::Execute)];
        let report = Report {
            brain: "b",
            governed: false,
            shield: false,
            tools: &tools,
            rehearsed: &[],
            skills: &[],
            recent: &[],
        };
        assert_eq!(
            report.words(Language::En),
            "b: not governed, every listed tool is allowed on every channel; no network shield (the brain is public)\n\
             - time: allow (no governance block)\nNo recent activity."
        );
        let bare = Report {
            tools: &[],
            ..report
        };
        assert!(bare.words(Language::Es).contains("No tiene herramientas."));
    }

    #[test]
    fn of_a_skill_that_wants_everything_only_a_part_is_shown() {
        let skill = Skill {
            name: "s".into(),
            description: "x".into(),
            body: String::new(),
            allowed_tools: vec!["x".repeat(1000); 1000],
        };
        let shown = allowed(&skill);
        assert!(
            shown.len() < ALLOWED_SHOWN * (ALLOWED_BYTES + 2) + 40,
            "{}",
            shown.len()
        );
        assert!(shown.ends_with(", …)"));
    }

    #[test]
    fn every_rule_has_its_words_in_both_languages() {
        for rule in [
            Rule::Deny,
            Rule::NotGranted,
            Rule::Channel,
            Rule::SensitiveLocality,
            Rule::PrivateNetworkShield,
            Rule::Cage,
            Rule::UnknownTool,
            Rule::PerRunBudget,
            Rule::ToolsUnsupported,
            Rule::GateFault,
        ] {
            let (en, es) = (because(rule, Language::En), because(rule, Language::Es));
            assert!(!en.is_empty() && !es.is_empty() && en != es, "{rule:?}");
        }
    }
}
