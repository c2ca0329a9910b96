//! The oracle held against the whole engine: the configuration of each case is checked, assembled
//! and put in force, its hostile model is played, and what was told, executed and audited has to be
//! what the user's guide allows. In a network of its own, where every address is this machine: who
//! was dialled is seen by those who listen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use korvun::domain::completion::{Completion, Lane, Offer, Prompt, ToolCall};
use korvun::domain::message::ChatKind;
use korvun::engine::setup::{LiveBrain, LiveTool};
use korvun::provider::Provider;
use korvun::store::{AuditedCall, State};
use korvun::tool::port::{Arguments as ToolArguments, Call as ToolUse, Fault, Tool};
use serde_json::Value;

use super::lab::{words, Changing, Lab, Played};
use crate::oracle::rules::{
    self, Arguments, Call, Case, Place, Rule, Shape, Target, Verdict, NETWORK_TOOLS,
};
use crate::oracle::words::Ground;
use crate::oracle::{calls, cases, foreseen, run_agrees, seeds, Seen};
use crate::support::netns;

/// The ports that URLs of cases name, and the usual ones.
const PORTS: [u16; 5] = [80, 443, 5678, 8080, 65535];
/// Cases of one engine: its outbox is never emptied.
const OF_ONE_LAB: u64 = 1000;

/// Notes what a tool really did.
struct Recorder {
    name: &'static str,
    inner: Arc<dyn Tool>,
    done: Arc<Mutex<Vec<String>>>,
}

impl Tool for Recorder {
    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn rehearse(&self, arguments: &ToolArguments) -> Result<(), Fault> {
        self.inner.rehearse(arguments)
    }

    fn call(&self, call: &ToolUse<'_>) -> Result<String, Fault> {
        let result = self.inner.call(call);
        if !matches!(result, Err(Fault::Refused { .. })) {
            self.done.lock().expect("done").push(self.name.to_owned());
        }
        result
    }
}

/// A house in which every address is this machine, and everybody who is dialled says so.
struct World {
    names: Arc<Changing>,
    dialled: Arc<Mutex<BTreeSet<IpAddr>>>,
    folder: tempfile::TempDir,
}

impl World {
    fn open() -> World {
        netns::addresses(&[]);
        for family in ["-4", "-6"] {
            let all = if family == "-4" { "0.0.0.0/0" } else { "::/0" };
            let status = Command::new("ip")
                .args([family, "route", "add", "local", all, "dev", "lo"])
                .status();
            assert!(status.expect("ip runs").success(), "ip {family} route");
        }
        let dialled = Arc::new(Mutex::new(BTreeSet::new()));
        for port in PORTS {
            let listener = TcpListener::bind(("::", port)).expect("a port");
            let seen = dialled.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let Ok(mut stream) = stream else { continue };
                    if let Ok(address) = stream.local_addr() {
                        seen.lock()
                            .expect("dialled")
                            .insert(address.ip().to_canonical());
                    }
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                    );
                }
            });
        }
        World {
            names: Arc::default(),
            dialled,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn lab(&self) -> Lab {
        let mut case = cases::case(1);
        case.brain.tools = vec!["time".to_owned()];
        case.brain.governance = None;
        case.brain.sensitive.clear();
        let config = config(&case, &self.ground(0));
        Lab::new(
            &config,
            self.names.clone(),
            Played::new(Lane::Text, |_| words("no")),
        )
    }

    fn ground(&self, seed: u64) -> Ground {
        Ground {
            folder: self.folder.path().join(seed.to_string()),
            model_url: "http://127.0.0.1:11434".to_owned(),
        }
    }
}

fn brain_name(case: &Case) -> String {
    format!("oracle-{}", case.seed)
}

/// The case's configuration, with a brain name of its own: so its audit is its own.
fn config(case: &Case, ground: &Ground) -> Value {
    let mut config = case.config_json(ground);
    let name = brain_name(case);
    config["brains"][0]["name"] = name.clone().into();
    for route in config["routes"].as_array_mut().expect("routes") {
        route["brain"] = name.clone().into();
    }
    config
}

/// The case as it is meant: a word that differs from a listed tool by its case only is that tool,
/// which the reading of calls decides before any gate is asked. The model keeps its own words.
fn as_meant(case: &Case) -> Case {
    let mut meant = case.clone();
    for call in meant.replies.iter_mut().flatten() {
        let tools = &case.brain.tools;
        let same = |tool: &&String| tool.eq_ignore_ascii_case(&call.tool);
        let Some(tool) = tools.iter().find(same).filter(|tool| **tool != call.tool) else {
            continue;
        };
        call.arguments = match tool.as_str() {
            "read_file" => Arguments::Path(Target::Note),
            _ => Arguments::None,
        };
        call.tool.clone_from(tool);
    }
    meant
}

/// A call in the model's own words.
fn spoken(case: &Case, ground: &Ground, said: &Call, meant: &Call, at: usize) -> Completion {
    let word = Call {
        tool: said.tool.clone(),
        ..meant.clone()
    };
    match case.shape {
        Shape::Native => {
            let arguments = meant.arguments_json(ground);
            Completion {
                calls: vec![ToolCall {
                    // Hostile: always the same.
                    id: "again".to_owned(),
                    name: said.tool.clone(),
                    arguments: Ok(arguments.as_object().expect("an object").clone()),
                }],
                ..Completion::default()
            }
        }
        // What names no tool of the brain is an example, unless it stands where calls stand.
        Shape::Text if !case.brain.tools.contains(&meant.tool) => words(&word.text(ground, 3)),
        Shape::Text => words(&word.text(ground, case.seed + at as u64)),
    }
}

/// The model of a case: says its replies in turn, then that it is done. Keeps what it was told of.
fn model(
    case: &Case,
    meant: &Case,
    ground: &Ground,
    told: &Arc<Mutex<BTreeSet<String>>>,
) -> Arc<dyn Provider> {
    let replies: Vec<Completion> = case
        .replies
        .iter()
        .zip(&meant.replies)
        .enumerate()
        .map(|(at, (said, meant))| {
            let mut whole = Completion::default();
            for (said, meant) in said.iter().zip(meant) {
                let one = spoken(case, ground, said, meant, at);
                whole.text = one.text;
                whole.calls.extend(one.calls);
            }
            whole
        })
        .collect();
    let (told, turn) = (told.clone(), Mutex::new(0));
    let lane = match case.shape {
        Shape::Native => Lane::Native,
        Shape::Text => Lane::Text,
    };
    Played::new(lane, move |prompt| {
        let mut turn = turn.lock().expect("turn");
        *turn += 1;
        if *turn == 1 {
            *told.lock().expect("told") = offered(prompt);
        }
        replies
            .get(*turn - 1)
            .cloned()
            .unwrap_or_else(|| words("done"))
    })
}

/// The tools that a prompt tells of.
fn offered(prompt: &Prompt) -> BTreeSet<String> {
    if let Offer::Native(tools) = &prompt.offer {
        return tools.iter().map(|tool| tool.name.to_owned()).collect();
    }
    let head: String = prompt.head.iter().map(|said| said.text.as_str()).collect();
    let lines = head.lines().skip_while(|line| *line != "Tools:").skip(1);
    let names = lines.map_while(|line| line.split_once('(').map(|(name, _)| name.to_owned()));
    names
        .take_while(|name| cases::TOOLS.contains(&name.as_str()))
        .collect()
}

fn verdict_of(row: &AuditedCall) -> Verdict {
    let rule = Rule::of_word(&row.rule);
    match (row.outcome.as_str(), rule) {
        ("ok" | "error", None) => Verdict::Executed,
        ("shadowed", rule) => Verdict::Shadowed(rule),
        ("denied", Some(rule)) => Verdict::Denied(rule),
        _ => panic!("a row that cannot be: {row:?}"),
    }
}

/// Has the engine run the case, with `change` done to its brain; what it must show and what it did.
fn run(world: &World, lab: &Lab, seed: u64, change: impl Fn(&mut LiveBrain)) -> (Case, Seen) {
    let case = cases::case(seed);
    let (meant, ground) = (as_meant(&case), world.ground(seed));
    ground.lay(&case).expect("files");
    *world.names.0.lock().expect("names") = case.names.iter().cloned().collect();
    let told = Arc::new(Mutex::new(BTreeSet::new()));
    let done = Arc::new(Mutex::new(Vec::new()));
    let model = model(&case, &meant, &ground, &told);
    lab.load(&config(&case, &ground), &model, |live| {
        for tool in &mut live.agent.as_mut().expect("an agent").tools {
            record(tool, &done);
        }
        change(live);
    });
    let chat = match case.place {
        Place::TelegramPrivate | Place::DiscordPrivate | Place::Console => ChatKind::Direct,
        Place::TelegramGroup | Place::DiscordGuild => ChatKind::Group,
        Place::Webhook => ChatKind::Program,
    };
    let id = match case.place {
        Place::Console => brain_name(&case),
        _ => format!("chat-{seed}"),
    };
    let message = lab.say(case.place.channel().word(), chat, &id, "go on");
    let (state, answer) = lab.answer(&message);
    assert_eq!(
        (state, answer.as_str()),
        (State::Answered, "done"),
        "KORVUN_SEED={seed}"
    );
    let rows = lab.audit(&brain_name(&case));
    let expected = foreseen(&meant).audit;
    let audit = rows.iter().enumerate().map(|(at, row)| {
        // Whatever was called that the brain does not list stands there as `unknown`.
        let word = match expected.get(at) {
            Some((word, _)) if row.tool == "unknown" && !case.brain.tools.contains(word) => word,
            _ => &row.tool,
        };
        (word.clone(), verdict_of(row))
    });
    let seen = Seen {
        announced: told.lock().expect("told").clone(),
        executed: done.lock().expect("done").clone(),
        audit: audit.collect(),
    };
    std::fs::remove_dir_all(&ground.folder).expect("the case's folder");
    (meant, seen)
}

fn record(tool: &mut LiveTool, done: &Arc<Mutex<Vec<String>>>) {
    if let Some(inner) = tool.tool.take() {
        tool.tool = Some(Arc::new(Recorder {
            name: tool.descriptor.name,
            inner,
            done: done.clone(),
        }));
    }
}

#[test]
fn what_is_executed_is_what_the_guide_allows() {
    if netns::enter(
        "agents::judged::what_is_executed_is_what_the_guide_allows",
        &[],
    ) != netns::Place::Inside
    {
        return;
    }
    let world = World::open();
    let mut lab = world.lab();
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in seeds() {
        if seed % OF_ONE_LAB == 0 {
            lab = world.lab();
        }
        world.dialled.lock().expect("dialled").clear();
        let (meant, seen) = run(&world, &lab, seed, |_| {});
        if let Err(found) = run_agrees(&meant, &seen) {
            panic!("{found}");
        }
        let may: BTreeSet<IpAddr> = calls(&meant)
            .flat_map(|(_, call)| rules::dialled(&meant, call))
            .map(|address| {
                if address.is_unspecified() {
                    loopback(address)
                } else {
                    address
                }
            })
            .map(|address| address.to_canonical())
            .collect();
        let dialled = world.dialled.lock().expect("dialled").clone();
        let beyond: Vec<_> = dialled.difference(&may).collect();
        assert!(
            beyond.is_empty(),
            "KORVUN_SEED={seed}: dialled {beyond:?}, allowed are {may:?}"
        );
        for (tool, verdict) in &seen.audit {
            let word = match verdict {
                Verdict::Executed if NETWORK_TOOLS.contains(&tool.as_str()) => "sent",
                Verdict::Executed => "executed",
                Verdict::Shadowed(_) => "shadowed",
                Verdict::Denied(rule) => rule.word(),
            };
            *tally.entry(word).or_default() += 1;
        }
        *tally.entry("addresses dialled").or_default() += dialled.len();
    }
    println!("{tally:?}");
    if seeds().count() > 1000 {
        assert!(
            tally.values().all(|count| *count > 20) && tally.len() >= 12,
            "{tally:?}"
        );
    }
}

/// The kernel takes the unspecified address for this machine.
fn loopback(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
    }
}

/// A join that finds nothing wrong in an engine that does wrong is worth nothing.
#[test]
fn an_engine_that_softens_its_grants_is_found_out() {
    use korvun::domain::brain::{Chats, Mode};
    if netns::enter(
        "agents::judged::an_engine_that_softens_its_grants_is_found_out",
        &[],
    ) != netns::Place::Inside
    {
        return;
    }
    let world = World::open();
    let grants = |live: &mut LiveBrain, soften: &dyn Fn(&mut korvun::domain::brain::Grant)| {
        let agent = live.brain.agent.as_mut().expect("an agent");
        agent.governance.iter_mut().flatten().for_each(soften);
    };
    let faults: [(&str, &dyn Fn(&mut LiveBrain)); 5] = [
        ("deny is allow", &|live| {
            grants(live, &|grant| {
                if grant.mode == Mode::Deny {
                    grant.mode = Mode::Allow;
                }
            });
        }),
        ("shadow is allow", &|live| {
            grants(live, &|grant| {
                if grant.mode == Mode::Shadow {
                    grant.mode = Mode::Allow;
                }
            });
        }),
        ("channels are not read", &|live| {
            grants(live, &|grant| grant.channels = None)
        }),
        ("chats are not read", &|live| {
            grants(live, &|grant| grant.chats = Chats::All)
        }),
        ("no block at all", &|live| {
            live.brain.agent.as_mut().expect("an agent").governance = None;
        }),
    ];
    for (fault, plant) in faults {
        let lab = world.lab();
        let found = (1..=200).find(|seed| {
            let (meant, seen) = run(&world, &lab, *seed, plant);
            run_agrees(&meant, &seen).is_err()
        });
        assert!(found.is_some(), "{fault}: nobody noticed in 200 cases");
        println!("{fault}: found in case {}", found.unwrap_or(0));
    }
}
