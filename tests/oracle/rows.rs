//! The oracle's own tables: each sentence of the guide as named rows, and the guide's worked example
//! `casa`.

use std::net::IpAddr;
use std::path::PathBuf;

use super::cases::PLACES;
use super::rules::{
    self, announced, Arguments, Brain, Cages, Call, Case, Channel, Chats, Entry, Grant, Host,
    Locality, Mode, Model, Place, Rule, Scheme, Sensitivity, Shape, Spelling, Target, Url, Verdict,
};
use super::words::Ground;
use crate::config::{checked, errors};

const EXECUTED: Verdict = Verdict::Executed;

fn denied(rule: Rule) -> Verdict {
    Verdict::Denied(rule)
}

/// A brain on its own machine with these tools, ungoverned.
fn brain(sensitivity: Sensitivity, tools: &[&str]) -> Case {
    Case {
        seed: 0,
        brain: Brain {
            sensitivity,
            models: vec![model("ollama", "llama3.2", Locality::Local)],
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            governance: None,
            sensitive: Vec::new(),
            cages: Cages::default(),
        },
        place: Place::Console,
        shape: Shape::Native,
        root_is_there: true,
        names: Vec::new(),
        replies: Vec::new(),
    }
}

fn public(tools: &[&str]) -> Case {
    brain(Sensitivity::Public, tools)
}

fn private(tools: &[&str]) -> Case {
    brain(Sensitivity::Private, tools)
}

fn model(provider: &str, model_id: &str, locality: Locality) -> Model {
    Model {
        provider: provider.into(),
        model_id: model_id.into(),
        locality,
    }
}

fn grant(tool: &str, mode: Mode) -> Grant {
    Grant {
        tool: tool.into(),
        mode,
        channels: None,
        chats: None,
    }
}

impl Case {
    fn granted(mut self, grants: &[Grant]) -> Case {
        self.brain.governance = Some(grants.to_vec());
        self
    }

    fn at(mut self, place: Place) -> Case {
        self.place = place;
        self
    }

    fn fetching(mut self, hosts: &[(&str, Option<u16>)]) -> Case {
        let entries = hosts.iter().map(|(name, port)| Entry {
            host: host(name),
            port: *port,
            spelling: Spelling::Plain,
        });
        self.brain.cages.http_fetch = entries.collect();
        self.brain.cages.webhook_call = self.brain.cages.http_fetch.clone();
        self
    }

    fn resolving(mut self, name: &str, addresses: &[&str]) -> Case {
        let addresses = addresses
            .iter()
            .map(|text| text.parse().expect("an address"));
        self.names.push((name.into(), addresses.collect()));
        self
    }

    fn asks(&self, tool: &str) -> Verdict {
        rules::verdict(self, &call(tool, Arguments::None))
    }

    fn reads(&self, target: Target) -> Verdict {
        rules::verdict(self, &call("read_file", Arguments::Path(target)))
    }

    fn fetches(&self, url: &Url) -> Verdict {
        rules::verdict(self, &call("http_fetch", Arguments::Url(url.clone())))
    }
}

fn call(tool: &str, arguments: Arguments) -> Call {
    Call {
        tool: tool.into(),
        arguments,
        position: 1,
    }
}

fn host(text: &str) -> Host {
    text.parse()
        .map_or_else(|_| Host::Name(text.into()), Host::Address)
}

fn http(host_text: &str, port: Option<u16>) -> Url {
    Url {
        scheme: Scheme::Http,
        host: host(host_text),
        port,
        spelling: Spelling::Plain,
    }
}

#[test]
fn a_brain_without_a_governance_block_is_ungoverned() {
    let case = private(&["time", "read_file"]);
    for place in PLACES {
        let case = case.clone().at(place);
        assert_eq!(case.asks("time"), EXECUTED, "{place:?}");
        assert_eq!(case.reads(Target::Note), EXECUTED, "{place:?}");
        assert_eq!(announced(&case).len(), 2, "{place:?}");
    }
}

#[test]
fn the_three_modes_and_no_grant() {
    let case = public(&["time", "echo", "calc", "http_fetch"]).granted(&[
        grant("time", Mode::Allow),
        grant("echo", Mode::Shadow),
        grant("calc", Mode::Deny),
    ]);
    for (tool, verdict, told) in [
        ("time", EXECUTED, true),
        ("echo", Verdict::Shadowed(None), true),
        ("calc", denied(Rule::Deny), false),
        ("http_fetch", denied(Rule::NotGranted), false),
        ("read_file", denied(Rule::UnknownTool), false),
        ("shell", denied(Rule::UnknownTool), false),
        ("Time", denied(Rule::UnknownTool), false),
    ] {
        assert_eq!(case.asks(tool), verdict, "{tool}");
        assert_eq!(announced(&case).contains(tool), told, "{tool}");
    }
    let nothing = public(&["time"]).granted(&[]);
    assert_eq!(nothing.asks("time"), denied(Rule::NotGranted));
}

#[test]
fn channels_and_chats() {
    use Channel as C;
    let channel = denied(Rule::Channel);
    // Each row: channels, chats, then the places in their order.
    type Row = (Option<&'static [Channel]>, Option<Chats>, [bool; 6]);
    let rows: [Row; 7] = [
        (None, None, [true; 6]),
        (None, Some(Chats::All), [true; 6]),
        (
            None,
            Some(Chats::Direct),
            [true, false, true, false, false, true],
        ),
        (
            Some(&[C::Console]),
            None,
            [false, false, false, false, false, true],
        ),
        (
            Some(&[C::Telegram, C::Webhook]),
            None,
            [true, true, false, false, true, false],
        ),
        (Some(&[C::Webhook]), Some(Chats::Direct), [false; 6]),
        (
            Some(&[C::Discord]),
            Some(Chats::Direct),
            [false, false, true, false, false, false],
        ),
    ];
    for (channels, chats, open) in rows {
        for (mode, passed) in [
            (Mode::Allow, EXECUTED),
            (Mode::Shadow, Verdict::Shadowed(None)),
            (Mode::Deny, denied(Rule::Deny)),
        ] {
            let grant = Grant {
                channels: channels.map(<[Channel]>::to_vec),
                chats,
                ..grant("time", mode)
            };
            for (place, open) in PLACES.into_iter().zip(open) {
                let case = public(&["time"])
                    .granted(std::slice::from_ref(&grant))
                    .at(place);
                // A `deny` stays one, wherever it is asked.
                let expected = match (mode, open) {
                    (Mode::Deny, _) | (_, true) => passed,
                    _ => channel,
                };
                assert_eq!(case.asks("time"), expected, "{grant:?} {place:?}");
                let told = expected == EXECUTED || expected == Verdict::Shadowed(None);
                assert_eq!(
                    announced(&case).contains("time"),
                    told,
                    "{grant:?} {place:?}"
                );
            }
        }
    }
}

#[test]
fn a_sensitive_tool_never_reaches_a_cloud_model() {
    use Locality::{Cloud, Local};
    let locality = denied(Rule::SensitiveLocality);
    type Declared = (&'static str, &'static str, Locality);
    let rows: [(&str, Sensitivity, &[Declared], Verdict); 10] = [
        (
            "local",
            Sensitivity::Public,
            &[("ollama", "a", Local)],
            EXECUTED,
        ),
        (
            "cloud",
            Sensitivity::Public,
            &[("ollama", "a", Cloud)],
            locality,
        ),
        (
            "a cloud model that is never asked",
            Sensitivity::Public,
            &[("ollama", "a", Local), ("groq", "b", Cloud)],
            locality,
        ),
        (
            "a cloud model that privacy drops",
            Sensitivity::Private,
            &[("groq", "b", Cloud), ("ollama", "a", Local)],
            EXECUTED,
        ),
        (
            "groq",
            Sensitivity::Public,
            &[("groq", "b", Local)],
            locality,
        ),
        (
            "-cloud",
            Sensitivity::Public,
            &[("ollama", "g:120b-cloud", Local)],
            locality,
        ),
        (
            ":cloud",
            Sensitivity::Public,
            &[("ollama", "k:cloud", Local)],
            locality,
        ),
        (
            "a cloud inside",
            Sensitivity::Public,
            &[("ollama", "cloudy", Local)],
            EXECUTED,
        ),
        (
            "a compatible server's model of that name",
            Sensitivity::Public,
            &[("openai-compatible", "k:cloud", Local)],
            EXECUTED,
        ),
        (
            "compatible",
            Sensitivity::Public,
            &[("openai-compatible", "x", Cloud)],
            locality,
        ),
    ];
    for (name, sensitivity, models, verdict) in rows {
        let mut case = brain(sensitivity, &["read_file", "time", "echo"]).granted(&[
            grant("read_file", Mode::Allow),
            grant("time", Mode::Allow),
            grant("echo", Mode::Shadow),
        ]);
        case.brain.models = models.iter().map(|(p, m, l)| model(p, m, *l)).collect();
        assert_eq!(case.reads(Target::Note), verdict, "{name}");
        assert_eq!(case.asks("time"), EXECUTED, "{name}");
        // Marked by the operator, any tool is as sensitive, and shadow is no way around it.
        case.brain.sensitive = vec!["time".into(), "echo".into()];
        assert_eq!(case.asks("time"), verdict, "{name}, marked");
        let shadow = if verdict == EXECUTED {
            Verdict::Shadowed(None)
        } else {
            verdict
        };
        assert_eq!(case.asks("echo"), shadow, "{name}, marked, in shadow");
        assert_eq!(announced(&case).is_empty(), verdict != EXECUTED, "{name}");
    }
}

#[test]
fn restrictions_in_their_order() {
    let console_only = Some(vec![Channel::Console]);
    let cloud = |case: Case| {
        let mut case = case;
        case.brain.models = vec![model("groq", "b", Locality::Cloud)];
        case
    };
    let everything_wrong = |mode| {
        let grant = Grant {
            channels: console_only.clone(),
            ..grant("read_file", mode)
        };
        let mut case = cloud(public(&["read_file"]).granted(&[grant])).at(Place::Webhook);
        case.root_is_there = false;
        case
    };
    let mut case = everything_wrong(Mode::Deny);
    assert_eq!(case.reads(Target::System), denied(Rule::Deny));
    case = everything_wrong(Mode::Allow);
    assert_eq!(case.reads(Target::System), denied(Rule::Channel));
    case.place = Place::Console;
    assert_eq!(case.reads(Target::System), denied(Rule::SensitiveLocality));
    case.brain.models[0] = model("ollama", "a", Locality::Local);
    assert_eq!(case.reads(Target::Note), denied(Rule::Cage));
    assert!(announced(&case).is_empty());
    case.root_is_there = true;
    assert_eq!(case.reads(Target::System), denied(Rule::Cage));
    assert_eq!(case.reads(Target::Note), EXECUTED);
    let ninth = Call {
        position: 9,
        ..call("shell", Arguments::None)
    };
    for case in [everything_wrong(Mode::Deny), everything_wrong(Mode::Shadow)] {
        assert_eq!(rules::verdict(&case, &ninth), denied(Rule::PerRunBudget));
    }
}

#[test]
fn eight_calls_of_a_reply_and_no_more() {
    let case = public(&["time"]);
    for (position, verdict) in [
        (1, EXECUTED),
        (8, EXECUTED),
        (9, denied(Rule::PerRunBudget)),
        (11, denied(Rule::PerRunBudget)),
    ] {
        let call = Call {
            position,
            ..call("time", Arguments::None)
        };
        assert_eq!(rules::verdict(&case, &call), verdict, "{position}");
    }
}

#[test]
fn reads_below_its_root_only() {
    use Target as T;
    let case = private(&["read_file"]);
    let shadow = private(&["read_file"]).granted(&[grant("read_file", Mode::Shadow)]);
    let cage = Some(Rule::Cage);
    // What is refused when it is done, and what a rehearsal can tell from the words alone.
    for (target, refused, told) in [
        (T::Note, None, None),
        (T::Deep, None, None),
        (T::WholePath, None, None),
        (T::Winding, None, None),
        (T::LinkInside, None, None),
        (T::NothingInside, None, None),
        (T::Elsewhere, cage, cage),
        (T::Climbing, cage, cage),
        (T::NothingElsewhere, cage, cage),
        (T::Neighbour, cage, cage),
        (T::System, cage, cage),
        (T::LinkOutside, cage, None),
        (T::FolderOutside, cage, None),
    ] {
        assert_eq!(
            case.reads(target),
            refused.map_or(EXECUTED, denied),
            "{target:?}"
        );
        assert_eq!(shadow.reads(target), Verdict::Shadowed(told), "{target:?}");
    }
}

#[test]
fn hosts_of_the_list_only() {
    let case = public(&["http_fetch"]).fetching(&[
        ("n8n.casa", Some(5678)),
        ("example.org", None),
        ("10.0.0.1", None),
        ("::1", None),
        ("::ffff:10.0.0.2", None),
    ]);
    let case = case
        .resolving("n8n.casa", &["10.0.0.9"])
        .resolving("example.org", &["1.1.1.1"]);
    let with = |spelling, url: Url| Url { spelling, ..url };
    let https = |url: Url| Url {
        scheme: Scheme::Https,
        ..url
    };
    let ftp = |url: Url| Url {
        scheme: Scheme::Ftp,
        ..url
    };
    use Spelling as S;
    for (url, listed) in [
        (http("n8n.casa", Some(5678)), true),
        (https(http("n8n.casa", Some(5678))), true),
        (http("n8n.casa", None), false),
        (http("n8n.casa", Some(5679)), false),
        (http("example.org", None), true),
        (http("example.org", Some(80)), true),
        (http("example.org", Some(443)), false),
        (https(http("example.org", None)), true),
        (https(http("example.org", Some(443))), true),
        (https(http("example.org", Some(80))), false),
        (ftp(http("example.org", None)), false),
        (http("www.example.org", None), false),
        (with(S::Capitals, http("example.org", None)), true),
        (with(S::Dot, http("example.org", None)), true),
        (with(S::TwoDots, http("example.org", None)), false),
        (with(S::Login, http("example.org", None)), false),
        (with(S::Decoy, http("example.org", None)), false),
        (with(S::Longer, http("example.org", None)), false),
        (with(S::Percent, http("example.org", None)), false),
        (with(S::Wide, http("example.org", None)), false),
        (http("10.0.0.1", None), true),
        (with(S::Decimal, http("10.0.0.1", None)), false),
        (with(S::Octal, http("10.0.0.1", None)), false),
        (with(S::Hex, http("10.0.0.1", None)), false),
        (with(S::Short, http("10.0.0.1", None)), false),
        (http("::ffff:10.0.0.1", None), false),
        (http("::ffff:10.0.0.2", None), true),
        (http("10.0.0.2", None), false),
        (http("::1", None), true),
        (with(S::Groups, http("::1", None)), true),
        (with(S::Zone, http("::1", None)), false),
    ] {
        let expected = if listed { EXECUTED } else { denied(Rule::Cage) };
        assert_eq!(case.fetches(&url), expected, "{url:?}");
    }
}

#[test]
fn which_addresses_a_brain_may_dial() {
    // Each row: the address, whether a private brain may dial it, whether a public one may.
    for (text, private, public) in [
        ("127.0.0.1", true, true),
        ("127.255.255.255", true, true),
        ("128.0.0.0", false, true),
        ("10.0.0.0", true, true),
        ("10.255.255.255", true, true),
        ("11.0.0.0", false, true),
        ("9.255.255.255", false, true),
        ("172.15.255.255", false, true),
        ("172.16.0.0", true, true),
        ("172.31.255.255", true, true),
        ("172.32.0.0", false, true),
        ("192.168.0.0", true, true),
        ("192.168.255.255", true, true),
        ("192.167.255.255", false, true),
        ("192.169.0.0", false, true),
        ("0.0.0.0", false, true),
        ("100.64.0.1", false, true),
        ("224.0.0.1", false, true),
        ("8.8.8.8", false, true),
        ("169.254.0.0", false, false),
        ("169.254.169.254", false, false),
        ("169.253.255.255", false, true),
        ("169.255.0.0", false, true),
        ("100.100.100.200", false, false),
        ("100.100.100.201", false, true),
        ("::1", true, true),
        ("::2", false, true),
        ("::", false, true),
        ("fc00::", true, true),
        ("fdff:ffff::1", true, true),
        ("fe00::", false, true),
        ("fbff::1", false, true),
        ("fe80::1", true, true),
        ("febf:ffff::1", true, true),
        ("fec0::", false, true),
        ("fe7f::1", false, true),
        ("fd00:ec2::254", false, false),
        ("fd00:ec2::253", true, true),
        ("fd20:ce::254", false, false),
        ("::ffff:192.168.1.20", true, true),
        ("::ffff:8.8.8.8", false, true),
        ("::ffff:169.254.169.254", false, false),
        ("::ffff:100.100.100.200", false, false),
        ("::10.0.0.1", false, true),
        ("::169.254.169.254", false, false),
        ("64:ff9b::10.0.0.1", false, true),
        ("64:ff9b::169.254.169.254", false, false),
        ("64:ff9b::6464:64c8", false, false),
        ("64:ff9b:1::169.254.169.254", false, true),
        ("2002:a00:1::", false, true),
        ("2002:a9fe:a9fe::1", false, false),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", false, true),
        ("2001:0:4136:e378:8000:63bf:5601:5601", false, false),
        ("ff02::1", false, true),
        ("2606:4700::1111", false, true),
    ] {
        let address: IpAddr = text.parse().expect("an address");
        for (sensitivity, may) in [
            (Sensitivity::Private, private),
            (Sensitivity::Public, public),
        ] {
            let found = rules::may_be_dialled(address, sensitivity);
            assert_eq!(found, may, "{text} {sensitivity:?}");
            // The same by literal, and by a name that leads there.
            let case = brain(sensitivity, &["http_fetch"])
                .fetching(&[(text, None), ("a.name", None)])
                .resolving("a.name", &[text]);
            let expected = if may {
                EXECUTED
            } else {
                denied(Rule::PrivateNetworkShield)
            };
            assert_eq!(case.fetches(&http(text, None)), expected, "{text}");
            assert_eq!(case.fetches(&http("a.name", None)), expected, "{text}");
        }
    }
}

#[test]
fn the_shield_restricts_and_never_widens() {
    let case = private(&["http_fetch"])
        .fetching(&[("listed.public", None), ("mixed", None), ("bad", None)])
        .resolving("listed.public", &["8.8.8.8"])
        .resolving("mixed", &["8.8.8.8", "10.0.0.1", "169.254.169.254"])
        .resolving("bad", &["8.8.8.8", "2606:4700::1111"])
        .resolving("unlisted.private", &["10.0.0.1"]);
    let shield = denied(Rule::PrivateNetworkShield);
    for (name, verdict, dialled) in [
        ("listed.public", shield, &[][..]),
        ("mixed", EXECUTED, &["10.0.0.1"]),
        ("bad", shield, &[]),
        ("unlisted.private", denied(Rule::Cage), &[]),
        ("unlisted.public", denied(Rule::Cage), &[]),
    ] {
        let call = call("http_fetch", Arguments::Url(http(name, None)));
        assert_eq!(rules::verdict(&case, &call), verdict, "{name}");
        let found = rules::dialled(&case, &call);
        let dialled: Vec<IpAddr> = dialled.iter().map(|t| t.parse().expect("one")).collect();
        assert_eq!(found, dialled, "{name}");
    }
}

#[test]
fn a_rehearsal_says_what_would_have_been_refused_and_asks_nobody() {
    let shadow = [grant("http_fetch", Mode::Shadow)];
    let hosts = [("n8n.casa", None), ("8.8.8.8", None), ("10.0.0.1", None)];
    let case = private(&["http_fetch"])
        .granted(&shadow)
        .fetching(&hosts)
        .resolving("n8n.casa", &["8.8.8.8"]);
    for (name, rule) in [
        ("10.0.0.1", None),
        ("8.8.8.8", Some(Rule::PrivateNetworkShield)),
        ("1.1.1.1", Some(Rule::Cage)),
        // Its address is not looked up.
        ("n8n.casa", None),
        ("elsewhere.casa", Some(Rule::Cage)),
    ] {
        let url = http(name, None);
        assert_eq!(case.fetches(&url), Verdict::Shadowed(rule), "{name}");
        let call = call("http_fetch", Arguments::Url(url));
        assert!(rules::dialled(&case, &call).is_empty(), "{name}");
    }
}

/// The guide's example, word for word.
const CASA: &str = r#"{
  "name": "casa",
  "sensitivity": "private",
  "policy": {"kind": "priority"},
  "models": [{"provider": "ollama", "model_id": "llama3.2", "locality": "local"}],
  "agent": {
    "tools": ["time", "calc", "read_file", "webhook_call"],
    "governance": [
      {"tool": "time", "mode": "allow"},
      {"tool": "calc", "mode": "allow"},
      {"tool": "read_file", "mode": "allow", "channels": ["console"]},
      {"tool": "webhook_call", "mode": "shadow"}
    ],
    "read_file": {"root": "/home/chano/korvun-notes"},
    "webhook_call": {"allow_hosts": ["192.168.1.20:5678"]},
    "skills_dir": "/home/chano/korvun-skills"
  }
}"#;

fn casa() -> Case {
    private(&["time", "calc", "read_file", "webhook_call"])
        .granted(&[
            grant("time", Mode::Allow),
            grant("calc", Mode::Allow),
            Grant {
                channels: Some(vec![Channel::Console]),
                ..grant("read_file", Mode::Allow)
            },
            grant("webhook_call", Mode::Shadow),
        ])
        .fetching(&[("192.168.1.20", Some(5678))])
}

#[test]
fn casa_is_written_down_as_the_guide_has_it() {
    let ground = Ground {
        folder: PathBuf::from("/home/chano"),
        model_url: "http://127.0.0.1:11434".into(),
    };
    let written = casa().brain_json(&ground);
    let guide: serde_json::Value = serde_json::from_str(CASA).expect("JSON");
    for key in ["sensitivity", "policy"] {
        assert_eq!(written[key], guide[key], "{key}");
    }
    for key in ["tools", "governance", "webhook_call"] {
        assert_eq!(written["agent"][key], guide["agent"][key], "{key}");
    }
    let mut whole = casa().config_json(&ground);
    for route in whole["routes"].as_array_mut().expect("routes") {
        route["brain"] = "casa".into();
    }
    whole["brains"] = serde_json::json!([guide]);
    let found = checked(&whole.to_string());
    assert!(errors(&found).is_empty(), "{:?}", found.problems);
}

#[test]
fn casa_does_what_the_guide_says() {
    let listed = Arguments::Url(http("192.168.1.20", Some(5678)));
    let webhook = |arguments: Arguments| call("webhook_call", arguments);
    for place in PLACES {
        let case = casa().at(place);
        let console = place == Place::Console;
        assert_eq!(case.asks("time"), EXECUTED);
        assert_eq!(case.asks("calc"), EXECUTED);
        // Reads notes only from one folder and only from the console.
        let (note, other) = match console {
            true => (EXECUTED, denied(Rule::Cage)),
            false => (denied(Rule::Channel), denied(Rule::Channel)),
        };
        assert_eq!(case.reads(Target::Note), note, "{place:?}");
        assert_eq!(case.reads(Target::Elsewhere), other, "{place:?}");
        // Rehearses the n8n call.
        let told = announced(&case);
        assert_eq!(told.contains("read_file"), console, "{place:?}");
        assert!(told.contains("webhook_call"));
        let verdict = rules::verdict(&case, &webhook(listed.clone()));
        assert_eq!(verdict, Verdict::Shadowed(None), "{place:?}");
        // And what it would have refused is said.
        let public = Arguments::Url(http("93.184.215.14", None));
        let verdict = rules::verdict(&case, &webhook(public));
        assert_eq!(verdict, Verdict::Shadowed(Some(Rule::Cage)), "{place:?}");
        assert_eq!(case.asks("http_fetch"), denied(Rule::UnknownTool));
        assert_eq!(case.asks("shell"), denied(Rule::UnknownTool));
    }
    // After the promotion to allow it really calls, and still no public address, listed or not.
    let mut case = casa().fetching(&[("192.168.1.20", Some(5678)), ("93.184.215.14", None)]);
    for grant in case.brain.governance.iter_mut().flatten() {
        grant.mode = Mode::Allow;
    }
    assert_eq!(rules::verdict(&case, &webhook(listed)), EXECUTED);
    let public = Arguments::Url(http("93.184.215.14", None));
    assert_eq!(
        rules::verdict(&case, &webhook(public)),
        denied(Rule::PrivateNetworkShield)
    );
}

#[test]
fn rules_have_the_words_of_the_audit() {
    for (rule, word) in Rule::WORDS {
        assert_eq!(rule.word(), word);
        assert_eq!(Rule::of_word(word), Some(rule));
    }
    assert_eq!(Rule::of_word(""), None);
}
