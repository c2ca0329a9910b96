//! `korvun explain` held against the oracle: the configuration of each case stands in a file, each
//! call of its hostile model is asked about, and what would come of it has to be what the guide
//! allows. Explain is offline: where the oracle needs the world to refuse, explain says that the
//! call would be executed, and parts from the oracle nowhere else.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use korvun::cli::command::{Chats, Explain, Form, Target as Asked};
use korvun::cli::explain::explained;
use serde_json::Value;

use super::rules::{self, Arguments, Call, Case, Host, Mode, Rule, Target, Verdict};
use super::words::{Ground, BRAIN};
use super::{calls, cases, seeds_of, Disagreement};

/// Cases of a plain run: each asks for some six answers, and each of these reads and checks a file.
const CASES: u64 = 1500;
/// Cases for which the real program is started: one process for each call.
const OF_THE_PROGRAM: usize = 20;

/// Two grounds, one with the root of `read_file` and one without.
struct Grounds {
    with_root: Ground,
    without: Ground,
    _folder: tempfile::TempDir,
}

impl Grounds {
    fn lay() -> Grounds {
        let folder = tempfile::tempdir().expect("a folder");
        let mut case = cases::case(1);
        let mut ground = |name: &str, root_is_there| {
            let ground = Ground {
                folder: folder.path().join(name),
                model_url: "http://127.0.0.1:11434".into(),
            };
            case.root_is_there = root_is_there;
            ground.lay(&case).expect("files");
            ground
        };
        Grounds {
            with_root: ground("with", true),
            without: ground("without", false),
            _folder: folder,
        }
    }

    /// The ground of the case, with its configuration in `korvun.json`.
    fn of(&self, case: &Case) -> &Ground {
        let ground = match case.root_is_there {
            true => &self.with_root,
            false => &self.without,
        };
        let config = case.config_json(ground).to_string();
        fs::write(file(ground), config).expect("the configuration");
        ground
    }
}

fn file(ground: &Ground) -> PathBuf {
    ground.folder.join("korvun.json")
}

/// The question about every tool of the case, in its place.
fn question(case: &Case, ground: &Ground) -> Explain {
    Explain {
        brain: BRAIN.to_owned(),
        config: Some(file(ground)),
        channel: Some(case.place.channel().word().to_owned()),
        chat: case.place.chat().map(|chat| match chat {
            "direct" => Chats::Direct,
            _ => Chats::Group,
        }),
        tool: None,
        target: None,
        form: Form::Json,
    }
}

/// The question about one call.
fn question_of(case: &Case, ground: &Ground, call: &Call) -> Explain {
    Explain {
        tool: Some(call.tool.clone()),
        target: match &call.arguments {
            Arguments::Url(url) => Some(Asked::Url(url.text())),
            Arguments::Path(target) => Some(Asked::Path(ground.path(*target))),
            Arguments::None | Arguments::Text(..) => None,
        },
        ..question(case, ground)
    }
}

/// The tools of an answer of the library.
fn by_library(asked: &Explain) -> Vec<Value> {
    let told = explained(asked).unwrap_or_else(|(problem, help)| panic!("{problem}: {help}"));
    tools(&told.json())
}

/// The tools of an answer of the real program.
fn by_program(asked: &Explain) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_korvun"));
    command.args(["explain", &asked.brain, "--json"]);
    let config = asked.config.as_ref().expect("a configuration");
    command.arg("--config").arg(config);
    let chat = asked.chat.map(|chat| match chat {
        Chats::Direct => "direct".to_owned(),
        Chats::Group => "group".to_owned(),
    });
    let (url, path) = match &asked.target {
        Some(Asked::Url(url)) => (Some(url.clone()), None),
        Some(Asked::Path(path)) => (None, Some(path.clone())),
        None => (None, None),
    };
    for (flag, value) in [
        ("--channel", &asked.channel),
        ("--chat", &chat),
        ("--tool", &asked.tool),
        ("--url", &url),
        ("--path", &path),
    ] {
        if let Some(value) = value {
            command.args([flag, value]);
        }
    }
    let ran = command.env_clear().stdin(Stdio::null()).output();
    let ran = ran.expect("the program");
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{asked:?}: {err}");
    tools(&serde_json::from_slice(&ran.stdout).expect("JSON"))
}

fn tools(told: &Value) -> Vec<Value> {
    told["tools"].as_array().expect("tools").clone()
}

/// What explain says of a call; of the tool, where no target was asked about.
fn said(line: &Value) -> Verdict {
    let (outcome, rule) = match &line["call"] {
        Value::Null => (&line["effective"], &line["rule"]),
        call => (&call["outcome"], &call["rule"]),
    };
    let rule = rule
        .as_str()
        .map(|word| Rule::of_word(word).expect("a rule"));
    match (outcome.as_str().expect("a word"), rule) {
        ("allow" | "ok", None) => Verdict::Executed,
        ("shadow" | "shadowed", rule) => Verdict::Shadowed(rule),
        ("deny" | "denied", Some(rule)) => Verdict::Denied(rule),
        _ => panic!("an answer that cannot be: {line}"),
    }
}

/// Whether the call is refused only when a name is dialled or a link is followed.
fn waits_for_the_world(case: &Case, call: &Call, verdict: Verdict) -> bool {
    match &call.arguments {
        Arguments::Url(url) => {
            verdict == Verdict::Denied(Rule::PrivateNetworkShield)
                && matches!(url.host, Host::Name(_))
        }
        Arguments::Path(Target::LinkOutside | Target::FolderOutside) => {
            verdict == Verdict::Denied(Rule::Cage) && case.root_is_there
        }
        _ => false,
    }
}

/// How often each kind of answer was met.
type Tally = BTreeMap<String, usize>;

/// Asks about the case, whose place and calls are `case`'s and whose file says what `written` says.
///
/// # Errors
/// The first answer that is not the oracle's.
fn agrees(
    case: &Case,
    written: &Case,
    grounds: &Grounds,
    ask: impl Fn(&Explain) -> Vec<Value>,
    met: &mut Tally,
) -> Result<(), Disagreement> {
    let ground = grounds.of(written);
    let differs = |what: String| Err(Disagreement::new(case, what));
    let lines = ask(&question(case, ground));
    let listed: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["tool"].as_str())
        .collect();
    if listed != case.brain.tools {
        return differs(format!("explain tells of {listed:?}"));
    }
    let announced = rules::announced(case);
    for (tool, line) in case.brain.tools.iter().zip(&lines) {
        let bare = Call {
            tool: tool.clone(),
            arguments: Arguments::None,
            position: 1,
        };
        // A tool that is told of is refused by nothing but its arguments, and there are none yet.
        let expected = match rules::verdict(case, &bare) {
            Verdict::Shadowed(_) => Verdict::Shadowed(None),
            _ if announced.contains(tool) => Verdict::Executed,
            denied => denied,
        };
        let found = said(line);
        if found != expected {
            return differs(format!("{tool} is {found:?} and should be {expected:?}"));
        }
        *met.entry(format!("{found:?} tool")).or_default() += 1;
    }
    for (_, call) in calls(case) {
        // Explain is asked about a call alone; which one of its reply it would be is not known.
        let alone = Call {
            position: 1,
            ..call.clone()
        };
        let verdict = rules::verdict(case, &alone);
        let (expected, kind) = match waits_for_the_world(case, &alone, verdict) {
            true => (Verdict::Executed, "left to the world, else "),
            false => (verdict, ""),
        };
        let answer = ask(&question_of(case, ground, &alone));
        let [line] = answer.as_slice() else {
            return differs(format!("{} lines about {call:?}", answer.len()));
        };
        let found = said(line);
        if found != expected || line["tool"] != call.tool.as_str() {
            return differs(format!(
                "{call:?} is {found:?} and should be {expected:?}; explain says {line}"
            ));
        }
        *met.entry(format!("{kind}{verdict:?}")).or_default() += 1;
    }
    Ok(())
}

#[test]
fn explain_agrees_with_the_oracle() {
    let (grounds, mut met) = (Grounds::lay(), Tally::new());
    for seed in seeds_of(CASES) {
        let case = cases::case(seed);
        if let Err(found) = agrees(&case, &case, &grounds, by_library, &mut met) {
            panic!("{found}");
        }
    }
    println!("{met:?}");
    if seeds_of(CASES).count() >= 1000 {
        let mut must = vec![
            "Executed".to_owned(),
            "Shadowed(None)".to_owned(),
            "Shadowed(Some(Cage))".to_owned(),
            "Shadowed(Some(PrivateNetworkShield))".to_owned(),
            "left to the world, else Denied(Cage)".to_owned(),
            "left to the world, else Denied(PrivateNetworkShield)".to_owned(),
        ];
        // How many calls a reply has is nothing that explain could know.
        let rules = Rule::WORDS.iter().map(|(rule, _)| rule);
        let rules = rules.filter(|rule| **rule != Rule::PerRunBudget);
        must.extend(rules.map(|rule| format!("Denied({rule:?})")));
        for what in must {
            let count = met.get(&what).copied().unwrap_or_default();
            assert!(count >= 5, "{what} was met {count} times: {met:?}");
        }
    }
}

#[test]
fn the_program_says_what_its_library_says() {
    let (grounds, mut met) = (Grounds::lay(), Tally::new());
    for seed in seeds_of(CASES).take(OF_THE_PROGRAM) {
        let case = cases::case(seed);
        let both = |asked: &Explain| {
            let told = by_program(asked);
            assert_eq!(told, by_library(asked), "KORVUN_SEED={seed}");
            told
        };
        if let Err(found) = agrees(&case, &case, &grounds, both, &mut met) {
            panic!("{found}");
        }
    }
    println!("{met:?}");
}

/// Does wrong to what the file of a case says.
type Bend = fn(&mut Case);

/// A comparison that finds nothing wrong in an explain that does not read its file is worth nothing.
#[test]
fn an_explain_that_forgets_is_found_out() {
    let grounds = Grounds::lay();
    let faults: [(&str, Bend); 7] = [
        ("chats", |case| {
            grants(case, |grant| grant.chats = None);
        }),
        ("channels", |case| {
            grants(case, |grant| grant.channels = None);
        }),
        ("shadow", |case| {
            grants(case, |grant| {
                if grant.mode == Mode::Shadow {
                    grant.mode = Mode::Allow;
                }
            });
        }),
        ("deny", |case| {
            grants(case, |grant| {
                if grant.mode == Mode::Deny {
                    grant.mode = Mode::Shadow;
                }
            });
        }),
        ("ports", |case| {
            let cages = &mut case.brain.cages;
            for entry in cages.http_fetch.iter_mut().chain(&mut cages.webhook_call) {
                entry.port = None;
            }
            // No entry twice.
            cages.http_fetch.dedup_by(|a, b| a.host == b.host);
            cages.webhook_call.dedup_by(|a, b| a.host == b.host);
        }),
        ("the shield", |case| {
            if !case.brain.has_eligible_cloud() {
                case.brain.models.retain(|model| !model.is_cloud());
                case.brain.sensitivity = rules::Sensitivity::Public;
            }
        }),
        ("a missing root", |case| case.root_is_there = true),
    ];
    for (fault, bend) in faults {
        let found = (1..=300).find(|seed| {
            let case = cases::case(*seed);
            let mut written = case.clone();
            bend(&mut written);
            written != case
                && agrees(&case, &written, &grounds, by_library, &mut Tally::new()).is_err()
        });
        assert!(found.is_some(), "{fault}: nobody noticed in 300 cases");
        println!("{fault}: found in case {}", found.unwrap_or(0));
    }
}

fn grants(case: &mut Case, bend: impl Fn(&mut rules::Grant)) {
    case.brain.governance.iter_mut().flatten().for_each(bend);
}
