//! The cases themselves: each loads, each number makes the same one, and together they go
//! everywhere often enough.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::rules::{
    self, Arguments, Case, Chats, Host, Locality, Mode, Rule, Sensitivity, Shape, Verdict,
};
use super::words::Ground;
use super::{calls, cases, seeds, CASES};
use crate::config::{checked, errors};

/// A place that nothing is read from or written to.
fn nowhere() -> Ground {
    Ground {
        folder: PathBuf::from("/srv/korvun-oracle"),
        model_url: "http://127.0.0.1:11434".into(),
    }
}

#[test]
fn every_configuration_loads() {
    let ground = nowhere();
    for seed in seeds() {
        let text = cases::case(seed).config_json(&ground).to_string();
        let found = checked(&text);
        let errors = errors(&found);
        assert!(errors.is_empty(), "KORVUN_SEED={seed}: {errors:?}\n{text}");
    }
}

#[test]
fn a_number_makes_the_same_case_and_another_another() {
    assert_eq!(cases::case(7), cases::case(7));
    let all: BTreeSet<String> = (1..=200).map(|n| format!("{:?}", cases::case(n))).collect();
    assert_eq!(all.len(), 200);
}

/// What holds in every case, whatever the rules' details.
#[test]
fn what_can_never_be() {
    for seed in seeds() {
        let case = cases::case(seed);
        let told = rules::announced(&case);
        for (_, call) in calls(&case) {
            let verdict = rules::verdict(&case, call);
            let grant = case.brain.governance.as_ref();
            let mode = grant.map(|grants| grants.iter().find(|g| g.tool == call.tool));
            let mode = mode.map(|grant| grant.map(|grant| grant.mode));
            if !told.contains(&call.tool) {
                assert!(matches!(verdict, Verdict::Denied(_)), "KORVUN_SEED={seed}");
            }
            match verdict {
                Verdict::Executed => {
                    assert!(matches!(mode, None | Some(Some(Mode::Allow))), "{seed}");
                    assert!(case.brain.tools.contains(&call.tool), "{seed}");
                    let leaks = case.brain.is_sensitive(&call.tool)
                        && case.brain.eligible().any(rules::Model::is_cloud);
                    assert!(!leaks, "KORVUN_SEED={seed}");
                }
                Verdict::Shadowed(_) => assert_eq!(mode, Some(Some(Mode::Shadow)), "{seed}"),
                Verdict::Denied(_) => {
                    assert_eq!(rules::dialled(&case, call), Vec::<IpAddr>::new(), "{seed}");
                }
            }
        }
    }
}

/// Each thing that the cases must meet, and how often.
fn tally(case: &Case, met: &mut BTreeMap<String, usize>) {
    let mut meet = |what: String| *met.entry(what).or_default() += 1;
    let brain = &case.brain;
    meet(format!("{:?}", case.place));
    meet(format!("{:?} calls", case.shape));
    meet(format!("{:?} brain", brain.sensitivity));
    if brain.eligible().count() < brain.models.len() {
        meet("dropped models".into());
    }
    if brain.has_eligible_cloud() {
        meet("an eligible cloud model".into());
    }
    if brain
        .models
        .iter()
        .any(|m| m.is_cloud() && m.locality == Locality::Local)
    {
        meet("a cloud model that is declared local".into());
    }
    match &brain.governance {
        None => meet("ungoverned".into()),
        Some(grants) => {
            for grant in grants {
                meet(format!("a grant {:?}", grant.mode));
                meet(format!("a grant for {:?} chats", grant.chats));
                if grant.channels.is_some() {
                    meet(format!("a grant {:?} with channels", grant.mode));
                }
                if grant.chats == Some(Chats::Direct) && grant.mode != Mode::Deny {
                    meet(format!("direct chats only, {:?}", case.place));
                }
            }
        }
    }
    for (_, call) in calls(case) {
        let verdict = rules::verdict(case, call);
        meet(format!("{verdict:?}"));
        if cases::TOOLS.contains(&call.tool.as_str()) && verdict == Verdict::Executed {
            meet(format!("{} executed", call.tool));
        }
        match &call.arguments {
            Arguments::Path(target) if verdict == Verdict::Executed => {
                meet(format!("{target:?} executed"));
            }
            Arguments::Path(target) if verdict == Verdict::Denied(Rule::Cage) => {
                meet(format!("{target:?} denied"));
            }
            Arguments::Url(url) if verdict == Verdict::Executed => {
                meet(format!("{:?} executed", url.spelling));
                meet(format!("{:?} executed", url.scheme));
                if brain.sensitivity == Sensitivity::Private {
                    meet("a private brain reaches an address".into());
                }
                if let Host::Name(name) = &url.host {
                    let all = rules::addresses(case, name).len();
                    if rules::dialled(case, call).len() < all {
                        meet("a name with good and bad addresses".into());
                    }
                }
            }
            Arguments::Url(url) if verdict == Verdict::Denied(Rule::Cage) => {
                meet(format!("{:?} denied", url.spelling));
                meet(format!("{:?} denied", url.scheme));
            }
            Arguments::Url(url) if verdict == Verdict::Denied(Rule::PrivateNetworkShield) => {
                let kind = match url.host {
                    Host::Name(_) => "a name",
                    Host::Address(_) => "an address",
                };
                meet(format!(
                    "the shield refuses {kind} on a {:?} brain",
                    brain.sensitivity
                ));
            }
            _ => {}
        }
    }
}

#[test]
fn the_cases_go_everywhere() {
    let mut met = BTreeMap::new();
    for seed in 1..=CASES {
        tally(&cases::case(seed), &mut met);
    }
    let mut must: Vec<(String, usize)> = Vec::new();
    let mut often = |what: String, least: usize| must.push((what, least));
    for place in cases::PLACES {
        often(format!("{place:?}"), 300);
        often(format!("direct chats only, {place:?}"), 50);
    }
    for shape in [Shape::Native, Shape::Text] {
        often(format!("{shape:?} calls"), 1000);
    }
    for sensitivity in [Sensitivity::Public, Sensitivity::Private] {
        often(format!("{sensitivity:?} brain"), 1000);
        for kind in ["a name", "an address"] {
            often(
                format!("the shield refuses {kind} on a {sensitivity:?} brain"),
                10,
            );
        }
    }
    for what in [
        "dropped models",
        "an eligible cloud model",
        "a cloud model that is declared local",
        "ungoverned",
        "a private brain reaches an address",
        "a name with good and bad addresses",
    ] {
        often(what.into(), 50);
    }
    for mode in [Mode::Allow, Mode::Shadow, Mode::Deny] {
        often(format!("a grant {mode:?}"), 500);
        often(format!("a grant {mode:?} with channels"), 200);
    }
    for chats in [None, Some(Chats::All), Some(Chats::Direct)] {
        often(format!("a grant for {chats:?} chats"), 500);
    }
    often(format!("{:?}", Verdict::Executed), 1000);
    often(format!("{:?}", Verdict::Shadowed(None)), 300);
    for rule in [Rule::Cage, Rule::PrivateNetworkShield] {
        often(format!("{:?}", Verdict::Shadowed(Some(rule))), 10);
    }
    for (rule, _) in Rule::WORDS {
        often(format!("{:?}", Verdict::Denied(rule)), 50);
    }
    for tool in cases::TOOLS {
        often(format!("{tool} executed"), 50);
    }
    for target in cases::TARGETS {
        use rules::Target as T;
        let outcome = match target {
            T::Note | T::Deep | T::WholePath | T::Winding | T::LinkInside | T::NothingInside => {
                "executed"
            }
            _ => "denied",
        };
        often(format!("{target:?} {outcome}"), 10);
    }
    for spelling in ["Plain", "Capitals", "Dot", "Groups"] {
        often(format!("{spelling} executed"), 10);
    }
    for spelling in [
        "TwoDots", "Login", "Decoy", "Longer", "Percent", "Wide", "Decimal", "Octal", "Hex",
        "Short", "Zone",
    ] {
        often(format!("{spelling} denied"), 10);
    }
    for (scheme, outcome) in [
        ("Http", "executed"),
        ("Https", "executed"),
        ("Ftp", "denied"),
    ] {
        often(format!("{scheme} {outcome}"), 20);
    }
    let rare: Vec<String> = must
        .iter()
        .filter(|(what, least)| met.get(what).is_none_or(|count| count < least))
        .map(|(what, least)| format!("{what}: {:?} of at least {least}", met.get(what)))
        .collect();
    assert!(rare.is_empty(), "{rare:#?}\nof {met:#?}");
}

/// What the oracle believes of paths is what the file system says of them.
#[test]
fn paths_end_where_the_rules_say() {
    use rules::Target as T;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let ground = Ground {
        folder: folder.path().canonicalize().expect("a path"),
        model_url: String::new(),
    };
    let mut case = cases::case(1);
    case.root_is_there = true;
    ground.lay(&case).expect("files");
    for target in cases::TARGETS {
        let path = ground.root().join(ground.path(target));
        let inside = path
            .canonicalize()
            .map(|end| end.starts_with(ground.root()));
        let expected = match target {
            T::Note | T::Deep | T::WholePath | T::Winding | T::LinkInside => Some(true),
            T::NothingInside | T::NothingElsewhere => None,
            _ => Some(false),
        };
        assert_eq!(inside.ok(), expected, "{target:?}: {}", path.display());
    }
}

/// The oracle is worth something only as long as it is its own.
#[test]
fn the_oracle_knows_nothing_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    for (file, banned) in [
        ("rules.rs", ["korvun::", "super::", "crate::"].as_slice()),
        ("cases.rs", &["korvun::", "crate::"]),
        ("words.rs", &["korvun::", "crate::"]),
        ("mod.rs", &["korvun::", "crate::"]),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).expect("a source");
        for path in banned {
            assert!(!text.contains(path), "{file} names {path}");
        }
    }
}
