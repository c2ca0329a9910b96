//! The gate as tables: each rule alone, which of two wins, and that nothing that restricts opens.

use super::*;
use crate::domain::brain::{samples, Locality, Sensitivity};
use crate::domain::catalogue::Docs;

const PLAIN: ToolDescriptor = ToolDescriptor {
    name: "time",
    docs: Docs { en: "", es: "" },
    cage: None,
    sensitive: false,
    network: false,
    effects: false,
    stores: false,
    stage: Stage::Built,
};
const READ: ToolDescriptor = ToolDescriptor {
    name: "read_file",
    sensitive: true,
    ..PLAIN
};
const FETCH: ToolDescriptor = ToolDescriptor {
    name: "http_fetch",
    network: true,
    ..PLAIN
};
const UNBUILT: ToolDescriptor = ToolDescriptor {
    name: "calc",
    stage: Stage::Later,
    ..PLAIN
};

fn kind(name: &str) -> Option<&'static ToolDescriptor> {
    [&PLAIN, &READ, &FETCH, &UNBUILT]
        .into_iter()
        .find(|kind| kind.name == name)
}

fn grant(tool: &str, mode: Mode) -> Grant {
    Grant {
        tool: tool.to_owned(),
        mode,
        channels: None,
        chats: Chats::All,
    }
}

fn on(channels: &[&str], grant: Grant) -> Grant {
    Grant {
        channels: Some(channels.iter().map(|name| (*name).to_owned()).collect()),
        ..grant
    }
}

fn direct(grant: Grant) -> Grant {
    Grant {
        chats: Chats::Direct,
        ..grant
    }
}

/// A public agent brain with a local model that lists four tools.
fn brain(governance: Option<Vec<Grant>>) -> Brain {
    let tools = ["time", "read_file", "http_fetch", "calc"];
    Brain {
        models: vec![samples::model("ollama", "m")],
        agent: Some(Agent {
            tools: tools.map(str::to_owned).to_vec(),
            max_iterations: 5,
            system_prompt: String::new(),
            governance,
            extra_sensitive: Vec::new(),
            read_file: None,
            http_fetch: None,
            webhook_call: None,
            memory: None,
            skills_dir: None,
            skills_body_budget: 0,
        }),
        ..samples::brain("b")
    }
}

fn ask(tool: &str) -> Question<'_> {
    Question {
        tool,
        kind: kind(tool),
        place: Place {
            channel: "telegram",
            chat: ChatKind::Direct,
        },
        cage: Cage::Ready,
        found: Found::AsDeclared,
        budget: Budget::Left,
    }
}

fn from(chat: ChatKind, question: Question<'_>) -> Question<'_> {
    let place = Place {
        chat,
        ..question.place
    };
    Question { place, ..question }
}

fn with_cloud(mut brain: Brain) -> Brain {
    let mut model = samples::model("groq", "big");
    model.locality = Locality::Cloud;
    brain.models.push(model);
    brain
}

#[test]
fn each_rule_alone() {
    use Decision::{Execute, Refuse, Rehearse};
    let (allow, shadow, deny) = (Mode::Allow, Mode::Shadow, Mode::Deny);
    let governed = |grants: &[Grant]| brain(Some(grants.to_vec()));
    let time = |grant: Grant| governed(&[grant]);
    let missing = Question {
        cage: Cage::Missing,
        ..ask("read_file")
    };
    let ninth = Question {
        budget: Budget::Spent,
        ..ask("time")
    };
    let no_agent = samples::brain("plain");
    for (what, brain, question, decision) in [
        ("ungoverned", brain(None), ask("time"), Execute),
        (
            "ungoverned, sensitive, local",
            brain(None),
            ask("read_file"),
            Execute,
        ),
        ("allowed", time(grant("time", allow)), ask("time"), Execute),
        (
            "shadowed",
            time(grant("time", shadow)),
            ask("time"),
            Rehearse,
        ),
        (
            "denied",
            time(grant("time", deny)),
            ask("time"),
            Refuse(Rule::Deny),
        ),
        (
            "not granted",
            time(grant("calc", allow)),
            ask("time"),
            Refuse(Rule::NotGranted),
        ),
        (
            "an empty block",
            governed(&[]),
            ask("time"),
            Refuse(Rule::NotGranted),
        ),
        (
            "on its channel",
            time(on(&["console", "telegram"], grant("time", allow))),
            ask("time"),
            Execute,
        ),
        (
            "on another channel",
            time(on(&["console"], grant("time", allow))),
            ask("time"),
            Refuse(Rule::Channel),
        ),
        (
            "on no channel",
            time(on(&[], grant("time", allow))),
            ask("time"),
            Refuse(Rule::Channel),
        ),
        (
            "denied everywhere",
            time(on(&["console"], grant("time", deny))),
            ask("time"),
            Refuse(Rule::Deny),
        ),
        (
            "direct",
            time(direct(grant("time", allow))),
            ask("time"),
            Execute,
        ),
        (
            "direct only, in a group",
            time(direct(grant("time", allow))),
            from(ChatKind::Group, ask("time")),
            Refuse(Rule::Channel),
        ),
        (
            "direct only, by webhook",
            time(direct(grant("time", allow))),
            from(ChatKind::Program, ask("time")),
            Refuse(Rule::Channel),
        ),
        (
            "anywhere, in a group",
            time(grant("time", allow)),
            from(ChatKind::Group, ask("time")),
            Execute,
        ),
        (
            "sensitive beside a cloud model",
            with_cloud(brain(None)),
            ask("read_file"),
            Refuse(Rule::SensitiveLocality),
        ),
        (
            "plain beside a cloud model",
            with_cloud(brain(None)),
            ask("time"),
            Execute,
        ),
        (
            "the cage is missing",
            brain(None),
            missing,
            Refuse(Rule::Cage),
        ),
        (
            "the ninth call",
            brain(None),
            ninth,
            Refuse(Rule::PerRunBudget),
        ),
        (
            "not listed",
            brain(None),
            ask("rm"),
            Refuse(Rule::UnknownTool),
        ),
        (
            "by another case",
            brain(None),
            ask("Time"),
            Refuse(Rule::UnknownTool),
        ),
        (
            "listed, not built",
            brain(None),
            ask("calc"),
            Refuse(Rule::UnknownTool),
        ),
        ("no agent", no_agent, ask("time"), Refuse(Rule::UnknownTool)),
    ] {
        assert_eq!(decide(&brain, &question), decision, "{what}");
    }
}

#[test]
fn a_known_tool_that_the_brain_does_not_list_is_unknown() {
    let mut brain = brain(None);
    brain
        .agent
        .as_mut()
        .unwrap()
        .tools
        .retain(|name| name != "time");
    assert_eq!(
        decide(&brain, &ask("time")),
        Decision::Refuse(Rule::UnknownTool)
    );
    brain.agent.as_mut().unwrap().governance = Some(vec![grant("time", Mode::Allow)]);
    assert_eq!(
        decide(&brain, &ask("time")),
        Decision::Refuse(Rule::UnknownTool)
    );
}

#[test]
fn a_sensitive_tool_stays_away_from_every_cloud_model_that_may_be_asked() {
    let refused = Decision::Refuse(Rule::SensitiveLocality);
    // Private: the cloud model is dropped, so it may not be asked.
    let mut private = with_cloud(brain(None));
    private.sensitivity = Sensitivity::Private;
    assert_eq!(decide(&private, &ask("read_file")), Decision::Execute);
    // Declared local, and cloud all the same.
    for (provider, model) in [
        ("groq", "m"),
        ("ollama", "m:cloud"),
        ("ollama", "big-cloud"),
    ] {
        let mut brain = brain(None);
        brain.models.push(samples::model(provider, model));
        assert_eq!(decide(&brain, &ask("read_file")), refused, "{model}");
    }
    // Local by all that is declared, and found elsewhere.
    let elsewhere = Question {
        found: Found::Elsewhere,
        ..ask("read_file")
    };
    assert_eq!(decide(&brain(None), &elsewhere), refused);
    // Sensitive by the file.
    let mut by_file = with_cloud(brain(None));
    assert_eq!(decide(&by_file, &ask("http_fetch")), Decision::Execute);
    by_file.agent.as_mut().unwrap().extra_sensitive = vec!["http_fetch".to_owned()];
    assert_eq!(decide(&by_file, &ask("http_fetch")), refused);
}

#[test]
fn of_two_restrictions_the_first_in_order_is_the_rule() {
    // Everything is wrong at once; one after the other is put right.
    let mut brain = with_cloud(brain(Some(vec![direct(on(
        &["console"],
        grant("read_file", Mode::Deny),
    ))])));
    let mut question = Question {
        cage: Cage::Missing,
        budget: Budget::Spent,
        kind: None,
        ..from(ChatKind::Group, ask("read_file"))
    };
    let refused_by = |brain: &Brain, question: &Question<'_>, rule: Rule| {
        assert_eq!(decide(brain, question), Decision::Refuse(rule));
    };
    refused_by(&brain, &question, Rule::PerRunBudget);
    question.budget = Budget::Left;
    refused_by(&brain, &question, Rule::UnknownTool);
    question.kind = Some(&READ);
    refused_by(&brain, &question, Rule::Deny);
    let mut grants = |change: &dyn Fn(&mut Grant)| {
        let agent = brain.agent.as_mut().unwrap();
        change(&mut agent.governance.as_mut().unwrap()[0]);
        brain.clone()
    };
    let brain = grants(&|grant| grant.mode = Mode::Shadow);
    refused_by(&brain, &question, Rule::Channel);
    let brain = grants(&|grant| grant.channels = None);
    refused_by(&brain, &question, Rule::Channel);
    let mut brain = grants(&|grant| grant.chats = Chats::All);
    refused_by(&brain, &question, Rule::SensitiveLocality);
    brain.models.truncate(1);
    refused_by(&brain, &question, Rule::Cage);
    question.cage = Cage::Ready;
    assert_eq!(decide(&brain, &question), Decision::Rehearse);
}

#[test]
fn a_fault_denies() {
    let decision = contained(|| panic!("a fault of the gate"));
    assert_eq!(decision, Decision::Refuse(Rule::GateFault));
    let lines = report(
        &brain(None),
        &kind,
        &|_| panic!("a fault of a cage"),
        &Viewpoint {
            channel: None,
            chat: None,
            found: Found::AsDeclared,
        },
    );
    assert_eq!(lines.len(), 4);
    for line in lines {
        assert_eq!(
            line.effective,
            Decision::Refuse(Rule::GateFault),
            "{}",
            line.tool
        );
    }
}

#[test]
fn the_stricter_of_two_counts() {
    use Decision::{Execute, Refuse, Rehearse};
    let (deny, cage) = (Refuse(Rule::Deny), Refuse(Rule::Cage));
    for (one, other, strict) in [
        (Execute, Execute, Execute),
        (Execute, Rehearse, Rehearse),
        (Rehearse, Execute, Rehearse),
        (Rehearse, Rehearse, Rehearse),
        (Execute, deny, deny),
        (deny, Execute, deny),
        (Rehearse, deny, deny),
        (deny, Rehearse, deny),
        (deny, cage, deny),
        (cage, deny, cage),
    ] {
        assert_eq!(one.stricter(other), strict, "{one:?} {other:?}");
    }
}

#[test]
fn a_grant_made_stricter_acts_on_a_run_in_work_and_one_made_wider_does_not() {
    let with = |mode| brain(Some(vec![grant("time", mode)]));
    let (allow, shadow, deny) = (with(Mode::Allow), with(Mode::Shadow), with(Mode::Deny));
    let refused = Decision::Refuse;
    for (began, now, decision) in [
        (&allow, Some(&allow), Decision::Execute),
        (&allow, Some(&shadow), Decision::Rehearse),
        (&allow, Some(&deny), refused(Rule::Deny)),
        (&shadow, Some(&allow), Decision::Rehearse),
        (&deny, Some(&allow), refused(Rule::Deny)),
        (&allow, None, refused(Rule::NotGranted)),
        (&deny, None, refused(Rule::Deny)),
        (
            &allow,
            Some(&samples::brain("b")),
            refused(Rule::UnknownTool),
        ),
        (
            &allow,
            Some(&with_cloud(with(Mode::Allow))),
            Decision::Execute,
        ),
    ] {
        assert_eq!(decide_in_work(began, now, &ask("time")), decision);
    }
}

/// Every brain and question of a small world.
fn world() -> Vec<(Brain, Question<'static>)> {
    let mut all = Vec::new();
    let modes = [Mode::Allow, Mode::Shadow, Mode::Deny];
    let mut blocks = vec![None, Some(Vec::new())];
    for mode in modes {
        for channels in [None, Some(vec!["telegram"]), Some(vec!["console"])] {
            for chats in [Chats::All, Chats::Direct] {
                let plain = Grant {
                    chats,
                    ..grant("read_file", mode)
                };
                let grant = match &channels {
                    Some(names) => on(names, plain),
                    None => plain,
                };
                blocks.push(Some(vec![grant]));
            }
        }
    }
    for block in blocks {
        for cloud in [false, true] {
            let brain = match cloud {
                true => with_cloud(brain(block.clone())),
                false => brain(block.clone()),
            };
            for chat in [ChatKind::Direct, ChatKind::Group, ChatKind::Program] {
                for cage in [Cage::Ready, Cage::Missing] {
                    for found in [Found::AsDeclared, Found::Elsewhere] {
                        let question = Question {
                            cage,
                            found,
                            ..from(chat, ask("read_file"))
                        };
                        all.push((brain.clone(), question));
                    }
                }
            }
        }
    }
    all
}

#[test]
fn nothing_that_restricts_opens() {
    let world = world();
    assert_eq!(world.len(), 20 * 2 * 3 * 2 * 2);
    for (brain, question) in &world {
        let before = decide(brain, question);
        let agent = |change: &dyn Fn(&mut Agent)| {
            let mut brain = brain.clone();
            change(brain.agent.as_mut().unwrap());
            brain
        };
        let first = |change: &dyn Fn(&mut Grant)| {
            agent(&|agent| {
                for grant in agent.governance.iter_mut().flatten() {
                    change(grant);
                }
            })
        };
        let restricted = [
            decide(&with_cloud(brain.clone()), question),
            decide(
                &agent(&|agent| agent.governance = Some(Vec::new())),
                question,
            ),
            decide(&agent(&|agent| agent.tools.clear()), question),
            decide(&first(&|grant| grant.mode = Mode::Deny), question),
            decide(&first(&|grant| grant.channels = Some(Vec::new())), question),
            decide(&first(&|grant| grant.chats = Chats::Direct), question),
            decide(
                brain,
                &Question {
                    cage: Cage::Missing,
                    ..*question
                },
            ),
            decide(
                brain,
                &Question {
                    found: Found::Elsewhere,
                    ..*question
                },
            ),
            decide(
                brain,
                &Question {
                    budget: Budget::Spent,
                    ..*question
                },
            ),
            decide(
                brain,
                &Question {
                    kind: None,
                    ..*question
                },
            ),
        ];
        for after in restricted {
            let opened = match before {
                Decision::Execute => false,
                Decision::Rehearse => after == Decision::Execute,
                Decision::Refuse(_) => after.announced(),
            };
            assert!(
                !opened,
                "{before:?} became {after:?}: {:?} {question:?}",
                brain.agent
            );
        }
    }
}

#[test]
fn the_report_says_what_the_gate_says() {
    for (brain, question) in &world() {
        let cage = |tool: &str| match tool {
            "read_file" => question.cage,
            _ => Cage::Ready,
        };
        let from = Viewpoint {
            channel: Some(question.place.channel),
            chat: Some(question.place.chat),
            found: question.found,
        };
        let lines = report(brain, &kind, &cage, &from);
        assert_eq!(lines.len(), 4);
        for line in &lines {
            let asked = Question {
                tool: &line.tool,
                kind: kind(&line.tool),
                cage: cage(&line.tool),
                ..*question
            };
            assert_eq!(line.effective, decide(brain, &asked), "{}", line.tool);
        }
    }
}

#[test]
fn a_report_without_a_place_shows_limits_and_judges_the_rest() {
    let brain = brain(Some(vec![
        direct(on(&["console"], grant("time", Mode::Allow))),
        grant("http_fetch", Mode::Shadow),
    ]));
    let from = Viewpoint {
        channel: None,
        chat: None,
        found: Found::AsDeclared,
    };
    let lines = report(&brain, &kind, &|_| Cage::Ready, &from);
    let line = |tool: &str, mode, effective| Line {
        tool: tool.to_owned(),
        mode,
        effective,
        channels: None,
        chats: None,
        sensitive: false,
        network: false,
    };
    let refused = Decision::Refuse(Rule::NotGranted);
    assert_eq!(
        lines,
        [
            Line {
                channels: Some(vec!["console".to_owned()]),
                chats: Some(Chats::Direct),
                ..line("time", Some(Mode::Allow), Decision::Execute)
            },
            Line {
                sensitive: true,
                ..line("read_file", None, refused)
            },
            Line {
                network: true,
                ..line("http_fetch", Some(Mode::Shadow), Decision::Rehearse)
            },
            line("calc", None, Decision::Refuse(Rule::UnknownTool)),
        ]
    );
    assert_eq!(
        report(&samples::brain("plain"), &kind, &|_| Cage::Ready, &from),
        []
    );
}
