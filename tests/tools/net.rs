//! The network tools in a network of the test's own, where every packet is seen: nothing but what
//! is listed and allowed is ever dialled.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use korvun::base::clock::SystemClock;
use korvun::domain::audit::Rule;
use korvun::domain::brain::Sensitivity::{self, Private, Public};
use korvun::domain::limits::Limits;
use korvun::net::http::Wire;
use korvun::net::names::Names;
use serde_json::json;

use super::{call, netns, rule, Bench};
use crate::support::model::{ModelServer, Reply, Seen};
use crate::support::netns::{Capture, Place};

const LAN: &str = "192.168.1.20";
const PUBLIC: &str = "203.0.113.7";
const METADATA: &str = "169.254.169.254";
const FORBIDDEN: [&str; 6] = [
    PUBLIC,
    METADATA,
    "100.100.100.200",
    "fd00:ec2::254",
    "64:ff9b::a9fe:a9fe",
    "2001:db8::7",
];

/// Names whose addresses change with every look-up, and a note of each look-up.
#[derive(Debug)]
struct Hostile {
    answers: HashMap<&'static str, Vec<Vec<&'static str>>>,
    asked: Mutex<Vec<String>>,
}

impl Names for Hostile {
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.asked.lock().unwrap();
        let before = asked.iter().filter(|known| *known == name).count();
        asked.push(name.to_owned());
        let answers = &self.answers[name];
        let answer = &answers[before % answers.len()];
        Ok(answer.iter().map(|ip| ip.parse().unwrap()).collect())
    }
}

fn lan(seen: &Seen) -> Reply {
    let to =
        |location: &str| Reply::with_headers(302, &[&format!("location: {location}")], &json!({}));
    match seen.line.as_str() {
        "GET /to_public" => to("http://203.0.113.7:5678/"),
        "GET /to_metadata" => to("http://169.254.169.254:5678/"),
        "GET /to_rebinding" => to("http://rebinding.test:5678/"),
        _ => Reply::body(200, "text/plain", "from the lan"),
    }
}

#[test]
fn no_packet_leaves_for_what_is_refused() {
    let proxy = "http://203.0.113.7:5678";
    let environment = [
        ("http_proxy", proxy),
        ("HTTPS_PROXY", proxy),
        ("ALL_PROXY", proxy),
    ];
    let inside = netns::enter(
        "tools::net::no_packet_leaves_for_what_is_refused",
        &environment,
    );
    if inside != Place::Inside {
        return;
    }
    netns::addresses(&[&FORBIDDEN[..], &[LAN]].concat());
    let capture = Capture::start();
    let at = |address: &str| SocketAddr::new(address.parse().unwrap(), 5678);
    let home = ModelServer::on(at(LAN), None, lan);
    let traps: Vec<ModelServer> = FORBIDDEN
        .iter()
        .map(|address| {
            ModelServer::on(at(address), None, |_| {
                Reply::body(200, "text/plain", "TRAP")
            })
        })
        .collect();
    let names = Arc::new(Hostile {
        answers: [
            ("n8n.test", vec![vec![LAN]]),
            (
                "rebinding.test",
                vec![vec![LAN], vec![PUBLIC], vec![METADATA]],
            ),
            (
                "mixed.test",
                vec![vec![PUBLIC, METADATA, LAN, "2001:db8::7"]],
            ),
            ("public.test", vec![vec![PUBLIC, "2001:db8::7"]]),
            (
                "metadata.test",
                vec![vec![METADATA, "fd00:ec2::254", "64:ff9b::a9fe:a9fe"]],
            ),
        ]
        .into(),
        asked: Mutex::default(),
    });
    let hosts = [
        "192.168.1.20:5678",
        "203.0.113.7:5678",
        "169.254.169.254:5678",
        "n8n.test:5678",
        "rebinding.test:5678",
        "mixed.test:5678",
        "public.test:5678",
        "metadata.test:5678",
        "[2001:db8::7]:5678",
        "[64:ff9b::a9fe:a9fe]:5678",
        "[fd00:ec2::254]:5678",
        "100.100.100.200:5678",
    ];
    let bench = |sensitivity: Sensitivity| {
        let mut bench = Bench::reaching(sensitivity, &hosts);
        let clock = Arc::new(SystemClock);
        bench.wire = Wire::with_names(None, &Limits::default(), clock, names.clone());
        bench
    };
    let shield = Some(Rule::PrivateNetworkShield);
    let cases: [(&str, Result<(), Option<Rule>>); 14] = [
        ("http://192.168.1.20:5678/", Ok(())),
        ("http://n8n.test:5678/", Ok(())),
        ("http://mixed.test:5678/", Ok(())),
        ("http://rebinding.test:5678/", Ok(())),
        ("http://rebinding.test:5678/", Err(shield)),
        ("http://rebinding.test:5678/", Err(shield)),
        ("http://public.test:5678/", Err(shield)),
        ("http://metadata.test:5678/", Err(shield)),
        ("http://203.0.113.7:5678/", Err(shield)),
        ("http://[2001:db8::7]:5678/", Err(shield)),
        ("http://192.168.1.20:80/", Err(Some(Rule::Cage))),
        ("http://3232235796:5678/", Err(Some(Rule::Cage))),
        ("http://[::ffff:192.168.1.20]:5678/", Err(Some(Rule::Cage))),
        ("http://unlisted.test:5678/", Err(Some(Rule::Cage))),
    ];
    for tool in ["http_fetch", "webhook_call"] {
        names.asked.lock().unwrap().clear();
        let tool = bench(Private).tool(tool);
        for (url, known) in &cases {
            let called = call(&*tool, json!({"url": url, "body": {}}));
            let called = called.map(drop).map_err(|fault| rule(&fault));
            assert_eq!(called, *known, "{url}");
        }
        let asked = names.asked.lock().unwrap();
        assert!(!asked.iter().any(|name| name == "unlisted.test"));
    }
    redirects(&bench(Private), shield);
    metadata_is_refused_for_a_public_brain(&bench(Public), shield);

    let seen = capture.destinations("127.0.0.99".parse().unwrap());
    for (address, trap) in FORBIDDEN.iter().zip(&traps) {
        assert!(
            !seen.contains(&address.parse().unwrap()),
            "a packet went to {address}"
        );
        assert_eq!(trap.connections(), 0, "{address}");
    }
    assert!(seen.contains(&LAN.parse().unwrap()));
    assert!(home.connections() > 0);
    // The counter-proof: what a public brain may reach is seen.
    let tool = bench(Public).tool("http_fetch");
    assert!(call(&*tool, json!({"url": "http://203.0.113.7:5678/"})).is_ok());
    let seen = capture.destinations("127.0.0.98".parse().unwrap());
    assert!(seen.contains(&PUBLIC.parse().unwrap()));
}

fn redirects(bench: &Bench, shield: Option<Rule>) {
    let tool = bench.tool("http_fetch");
    // The rebinding name has been asked for three times: its next answer is the lan's, the one
    // after it is public.
    for (path, known) in [
        ("to_public", Err(shield)),
        ("to_metadata", Err(shield)),
        ("to_rebinding", Ok(())),
        ("to_rebinding", Err(shield)),
    ] {
        let url = format!("http://192.168.1.20:5678/{path}");
        let called = call(&*tool, json!({"url": url}));
        let called = called.map(drop).map_err(|fault| rule(&fault));
        assert_eq!(called, known, "{path}");
    }
}

fn metadata_is_refused_for_a_public_brain(bench: &Bench, shield: Option<Rule>) {
    for tool in ["http_fetch", "webhook_call"] {
        let tool = bench.tool(tool);
        for host in [
            METADATA,
            "metadata.test",
            "100.100.100.200",
            "[fd00:ec2::254]",
            "[64:ff9b::a9fe:a9fe]",
        ] {
            let url = format!("http://{host}:5678/");
            let fault = call(&*tool, json!({"url": url, "body": {}})).expect_err(host);
            assert_eq!(rule(&fault), shield, "{host}");
        }
    }
}
