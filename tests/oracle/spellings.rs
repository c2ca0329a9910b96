//! How cases are written down: hosts in every disguise, calls as models dress them, chats by name.

use std::path::PathBuf;

use serde_json::Value;

use super::cases::PLACES;
use super::rules::{Entry, Host, Scheme, Spelling as S, Target, Url};
use super::words::Ground;
use super::{calls, cases};

fn host(text: &str) -> Host {
    text.parse()
        .map_or_else(|_| Host::Name(text.into()), Host::Address)
}

#[test]
fn urls_in_every_spelling() {
    for (name, spelling, written) in [
        ("n8n.casa", S::Plain, "n8n.casa"),
        ("n8n.casa", S::Capitals, "N8N.CASA"),
        ("n8n.casa", S::Dot, "n8n.casa."),
        ("n8n.casa", S::TwoDots, "n8n.casa.."),
        ("n8n.casa", S::Login, "user:password@n8n.casa"),
        ("n8n.casa", S::Decoy, "n8n.casa@127.0.0.1"),
        ("n8n.casa", S::Longer, "n8n.casa.example.com"),
        ("n8n.casa", S::Percent, "%6e8n.casa"),
        ("n8n.casa", S::Wide, "\u{ff4e}8n.casa"),
        ("192.168.1.20", S::Plain, "192.168.1.20"),
        ("192.168.1.20", S::Decimal, "3232235796"),
        ("192.168.1.20", S::Octal, "0300.0250.01.024"),
        ("192.168.1.20", S::Hex, "0xc0.0xa8.0x1.0x14"),
        ("192.168.1.20", S::Short, "192.168.276"),
        ("192.168.1.20", S::Wide, "\u{ff11}92.168.1.20"),
        ("::1", S::Plain, "[::1]"),
        (
            "::1",
            S::Groups,
            "[0000:0000:0000:0000:0000:0000:0000:0001]",
        ),
        ("fe80::1", S::Capitals, "[FE80::1]"),
        ("fe80::1", S::Zone, "[fe80::1%25eth0]"),
        ("::ffff:10.0.0.1", S::Plain, "[::ffff:10.0.0.1]"),
    ] {
        for (scheme, scheme_text) in [
            (Scheme::Http, "http"),
            (Scheme::Https, "https"),
            (Scheme::Ftp, "ftp"),
        ] {
            for (port, port_text) in [(None, ""), (Some(5678), ":5678")] {
                let url = Url {
                    scheme,
                    host: host(name),
                    port,
                    spelling,
                };
                let expected = format!("{scheme_text}://{written}{port_text}/hook?a=1");
                assert_eq!(url.text(), expected);
            }
        }
    }
}

#[test]
fn entries_of_allow_lists() {
    for (name, port, spelling, written) in [
        ("n8n.casa", None, S::Plain, "n8n.casa"),
        ("n8n.casa", Some(5678), S::Dot, "n8n.casa.:5678"),
        ("192.168.1.20", Some(5678), S::Plain, "192.168.1.20:5678"),
        ("::1", None, S::Plain, "[::1]"),
        (
            "::1",
            None,
            S::Groups,
            "0000:0000:0000:0000:0000:0000:0000:0001",
        ),
        ("::1", Some(80), S::Plain, "[::1]:80"),
    ] {
        let entry = Entry {
            host: host(name),
            port,
            spelling,
        };
        assert_eq!(entry.text(), written);
    }
}

/// However a call is dressed, one object in it says which tool and with what.
#[test]
fn calls_in_every_dress() {
    let ground = Ground {
        folder: PathBuf::from("/srv/korvun-oracle"),
        model_url: String::new(),
    };
    for seed in 1..=300 {
        let case = cases::case(seed);
        for (_, call) in calls(&case) {
            let arguments = call.arguments_json(&ground);
            for dress in 0..7 {
                let text = call.text(&ground, dress);
                let (from, to) = (text.find('{'), text.rfind('}'));
                let object = &text[from.expect("a start")..=to.expect("an end")];
                let object: Value = serde_json::from_str(object).expect("JSON");
                let value = |names: &[&str]| names.iter().find_map(|name| object.get(name));
                let tool = value(&["tool", "name"]).expect("a tool");
                assert_eq!(tool, &Value::from(call.tool.as_str()));
                let found = value(&["arguments", "args", "parameters"]);
                assert_eq!(found, Some(&arguments), "{text}");
            }
        }
    }
}

#[test]
fn places_and_paths_by_name() {
    let names = PLACES.map(|place| (place.channel().word(), place.chat()));
    assert_eq!(
        names,
        [
            ("telegram", Some("direct")),
            ("telegram", Some("group")),
            ("discord", Some("direct")),
            ("discord", Some("group")),
            ("webhook", None),
            ("console", None),
        ]
    );
    let ground = Ground {
        folder: PathBuf::from("/srv"),
        model_url: String::new(),
    };
    for (target, path) in [
        (Target::Note, "note.txt"),
        (Target::WholePath, "/srv/notes/note.txt"),
        (Target::Climbing, "../elsewhere/secret.txt"),
        (Target::Neighbour, "/srv/notes-of-others/secret.txt"),
    ] {
        assert_eq!(ground.path(target), path);
    }
}
