//! Gates that are wrong in one thing each, to see that the comparison finds them. Each is the oracle
//! itself, asked about a case that was bent by the one mistake.

use super::rules::{
    self, Call, Case, Channel, Chats, Locality, Mode, Place, Rule, Sensitivity, Shape, Spelling,
    Target, Verdict,
};
use super::rules::{Arguments, Host};
use super::{agree, agree_all, calls, cases, foreseen, run_agrees, Seen, CASES};

type Bend = fn(&mut Case, &mut Call);

fn grants(case: &mut Case, bend: impl Fn(&mut rules::Grant)) {
    case.brain.governance.iter_mut().flatten().for_each(bend);
}

fn url(call: &mut Call, bend: impl Fn(&mut rules::Url)) {
    if let Arguments::Url(url) = &mut call.arguments {
        bend(url);
    }
}

/// Each mistake with its name.
const FAULTS: [(&str, Bend); 22] = [
    ("no governance block denies", |case, _| {
        case.brain.governance.get_or_insert_default();
    }),
    ("a tool without a grant is allowed", |case, call| {
        let Some(grants) = &mut case.brain.governance else {
            return;
        };
        if !grants.iter().any(|grant| grant.tool == call.tool) {
            grants.push(rules::Grant {
                tool: call.tool.clone(),
                mode: Mode::Allow,
                channels: None,
                chats: None,
            });
        }
    }),
    ("shadow executes", |case, _| {
        grants(case, |grant| {
            if grant.mode == Mode::Shadow {
                grant.mode = Mode::Allow;
            }
        });
    }),
    ("deny rehearses", |case, _| {
        grants(case, |grant| {
            if grant.mode == Mode::Deny {
                grant.mode = Mode::Shadow;
            }
        });
    }),
    ("deny with channels denies there only", |case, _| {
        let here = case.place.channel();
        grants(case, |grant| {
            let elsewhere = grant
                .channels
                .as_ref()
                .is_some_and(|list| !list.contains(&here));
            if grant.mode == Mode::Deny && elsewhere {
                grant.mode = Mode::Allow;
                grant.channels = None;
            }
        });
    }),
    ("the channel comes before deny", |case, _| {
        let here = case.place.channel();
        grants(case, |grant| {
            if grant
                .channels
                .as_ref()
                .is_some_and(|list| !list.contains(&here))
            {
                grant.mode = Mode::Allow;
            }
        });
    }),
    ("channels are forgotten", |case, _| {
        grants(case, |grant| grant.channels = None);
    }),
    ("chats are forgotten", |case, _| {
        grants(case, |grant| grant.chats = None);
    }),
    ("a webhook is a direct chat", |case, _| {
        if case.place == Place::Webhook {
            grants(case, |grant| {
                if grant.chats == Some(Chats::Direct) {
                    grant.chats = None;
                }
            });
        }
    }),
    ("the console is no direct chat", |case, _| {
        if case.place == Place::Console {
            grants(case, |grant| {
                if grant.chats == Some(Chats::Direct) {
                    grant.channels = Some(vec![Channel::Webhook]);
                }
            });
        }
    }),
    ("marks of tool_attrs are forgotten", |case, _| {
        case.brain.sensitive.clear();
    }),
    ("declared localities are believed", |case, _| {
        for model in &mut case.brain.models {
            if model.locality == Locality::Local {
                model.provider = "openai-compatible".into();
            }
        }
    }),
    ("only the first model counts", |case, _| {
        let first = case.brain.eligible().next().cloned();
        case.brain.models = first.into_iter().collect();
    }),
    ("a missing root does not matter", |case, _| {
        case.root_is_there = true;
    }),
    ("ports are forgotten", |case, call| {
        url(call, |url| url.port = None);
        let cages = &mut case.brain.cages;
        for entry in cages.http_fetch.iter_mut().chain(&mut cages.webhook_call) {
            entry.port = None;
        }
    }),
    ("case counts", |_, call| {
        url(call, |url| {
            if url.spelling == Spelling::Capitals {
                url.spelling = Spelling::Wide;
            }
        });
    }),
    ("user names are dropped", |_, call| {
        url(call, |url| {
            if url.spelling == Spelling::Login {
                url.spelling = Spelling::Plain;
            }
        });
    }),
    ("numbers are read as addresses", |_, call| {
        url(call, |url| {
            if matches!(
                url.spelling,
                Spelling::Decimal | Spelling::Octal | Spelling::Hex
            ) {
                url.spelling = Spelling::Plain;
            }
        });
    }),
    ("private brains have no shield", |case, call| {
        if rules::NETWORK_TOOLS.contains(&call.tool.as_str()) && !case.brain.has_eligible_cloud() {
            case.brain.models.retain(|model| !model.is_cloud());
            case.brain.sensitivity = Sensitivity::Public;
        }
    }),
    ("names are resolved too late", |case, call| {
        let bound_for_a_name =
            matches!(&call.arguments, Arguments::Url(url) if matches!(url.host, Host::Name(_)));
        if bound_for_a_name {
            for (_, addresses) in &mut case.names {
                *addresses = vec![std::net::Ipv4Addr::LOCALHOST.into()];
            }
        }
    }),
    ("links are not followed", |_, call| {
        if let Arguments::Path(target @ (Target::LinkOutside | Target::FolderOutside)) =
            &mut call.arguments
        {
            *target = Target::Note;
        }
    }),
    ("calls are not counted", |_, call| {
        call.position = 1;
    }),
];

#[test]
fn each_fault_is_found() {
    let all: Vec<Case> = (1..=CASES).map(cases::case).collect();
    for (name, bend) in FAULTS {
        let wrong = |case: &Case, call: &Call| {
            let (mut case, mut call) = (case.clone(), call.clone());
            bend(&mut case, &mut call);
            rules::verdict(&case, &call)
        };
        let found = all.iter().filter(|case| agree(case, wrong).is_err());
        assert_eq!(found.take(10).count(), 10, "{name} is hardly met");
    }
}

#[test]
fn every_call_is_asked_and_the_first_fault_stops() {
    let mut asked = 0;
    let counted = agree_all(1..=300, |case, call| {
        asked += 1;
        rules::verdict(case, call)
    });
    assert_eq!(asked, counted);
    let all: usize = (1..=300).map(|n| calls(&cases::case(n)).count()).sum();
    assert_eq!(asked, all);

    let late = |case: &Case, call: &Call| match case.seed {
        250.. => Verdict::Shadowed(Some(Rule::UnknownTool)),
        _ => rules::verdict(case, call),
    };
    let stopped = std::panic::catch_unwind(|| agree_all(1..=300, late)).expect_err("a fault");
    let text = stopped.downcast_ref::<String>().expect("a text");
    assert!(text.contains("KORVUN_SEED=250\n"), "{text}");
}

#[test]
fn a_disagreement_says_where_and_how_to_meet_it_again() {
    let case = (1..=CASES)
        .map(cases::case)
        .find(|case| case.shape == Shape::Native && foreseen(case).executed.len() > 1)
        .expect("a case");
    let found = agree(&case, |_, _| Verdict::Denied(Rule::Deny)).expect_err("a disagreement");
    let text = found.to_string();
    for part in [
        format!("KORVUN_SEED={}", case.seed),
        "of reply 1".to_owned(),
        "is Denied(Deny) and should be ".to_owned(),
        "governance".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    let good = foreseen(&case);
    let bad = |bend: &dyn Fn(&mut Seen), word: &str| {
        let mut seen = good.clone();
        bend(&mut seen);
        let found = run_agrees(&case, &seen).expect_err("a disagreement");
        assert!(found.to_string().contains(word), "{word} in {found}");
    };
    let row = || ("time".to_owned(), Verdict::Executed);
    bad(&|seen| drop(seen.audit.pop()), "is None and should be (");
    bad(&|seen| seen.audit.push(row()), "without a call");
    bad(
        &|seen| seen.audit.insert(0, ("x".into(), Verdict::Executed)),
        "row 1 ",
    );
    bad(&|seen| drop(seen.executed.pop()), "executed were");
    bad(
        &|seen| seen.announced.extend(["shell".into()]),
        "was told of",
    );
}
