//! The seven tools, made from the list of kinds and called as the engine calls them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use korvun::base::clock::{Clock, Deadline};
use korvun::domain::audit::Rule;
use korvun::domain::brain::{
    Agent, HttpFetchCage, Memory, ReadFileCage, Sensitivity, WebhookCallCage,
};
use korvun::domain::ids::{BrainName, ChannelName, Conversation};
use korvun::net::cancel::Cancel;
use korvun::net::http::Wire;
use korvun::store::Store;
use korvun::tool::kinds::{find, Parts, KINDS};
use korvun::tool::port::{Arguments, Call, Fault, Tool};
use korvun::tool::Forbidden;
use serde_json::{json, Value};

use crate::support::asking::{wire, within};
use crate::support::netns;

mod files;
mod flows;
mod net;
mod notes;
mod race;
mod web;

/// What the tools of a test are made of.
struct Bench {
    brain: BrainName,
    sensitivity: Sensitivity,
    agent: Agent,
    wire: Wire,
    forbidden: Forbidden,
    store: Option<Arc<Store>>,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            brain: BrainName::new("casa"),
            sensitivity: Sensitivity::Public,
            agent: Agent {
                tools: Vec::new(),
                max_iterations: 5,
                system_prompt: String::new(),
                governance: None,
                extra_sensitive: Vec::new(),
                read_file: None,
                http_fetch: None,
                webhook_call: None,
                memory: None,
                skills_dir: None,
                skills_body_budget: 0,
            },
            wire: wire(),
            forbidden: Forbidden::new(Vec::new(), None),
            store: None,
        }
    }

    fn reading(root: impl Into<PathBuf>, max_bytes: u32) -> Bench {
        let mut bench = Bench::new();
        bench.agent.read_file = Some(ReadFileCage {
            root: root.into(),
            max_bytes,
        });
        bench
    }

    fn reaching(sensitivity: Sensitivity, hosts: &[&str]) -> Bench {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut bench = Bench::new();
        bench.sensitivity = sensitivity;
        bench.agent.http_fetch = Some(HttpFetchCage {
            allow_hosts: hosts.clone(),
            max_bytes: 1000,
            max_redirects: 3,
        });
        bench.agent.webhook_call = Some(WebhookCallCage {
            allow_hosts: hosts,
            max_bytes: 1000,
            timeout: Duration::from_secs(10),
        });
        bench
    }

    fn noting(memory: Memory, store: &Arc<Store>) -> Bench {
        let mut bench = Bench::new();
        bench.agent.memory = Some(memory);
        bench.store = Some(Arc::clone(store));
        bench
    }

    fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let parts = Parts {
            brain: &self.brain,
            sensitivity: self.sensitivity,
            agent: &self.agent,
            wire: &self.wire,
            forbidden: &self.forbidden,
            store: self.store.as_ref(),
        };
        (find(name).expect("a kind").make)(&parts).expect("its cage is there")
    }
}

fn conversation(channel: &str, id: &str) -> Conversation {
    Conversation::new(&ChannelName::new(channel), id)
}

fn object(value: Value) -> Arguments {
    match value {
        Value::Object(arguments) => arguments,
        other => panic!("no object: {other}"),
    }
}

/// One call with time enough.
fn call(tool: &dyn Tool, arguments: Value) -> Result<String, Fault> {
    call_as(tool, arguments, "key-1", &conversation("webhook", "a"))
}

fn call_as(
    tool: &dyn Tool,
    arguments: Value,
    key: &str,
    conversation: &Conversation,
) -> Result<String, Fault> {
    call_within(
        tool,
        arguments,
        key,
        conversation,
        within(Duration::from_secs(60)),
    )
}

fn call_within(
    tool: &dyn Tool,
    arguments: Value,
    key: &str,
    conversation: &Conversation,
    deadline: Deadline,
) -> Result<String, Fault> {
    let arguments = object(arguments);
    let called = tool.call(&Call {
        arguments: &arguments,
        conversation,
        key,
        deadline,
        cancel: &Cancel::new(),
    });
    // What a rehearsal refuses, a call refuses.
    if let Err(fault) = tool.rehearse(&arguments) {
        assert_eq!(called, Err(fault), "a rehearsal says otherwise");
    }
    called
}

fn rule(fault: &Fault) -> Option<Rule> {
    match fault {
        Fault::Refused { rule, .. } => Some(*rule),
        Fault::Failed { .. } => None,
    }
}

fn told(fault: &Fault) -> &str {
    match fault {
        Fault::Refused { told, .. } | Fault::Failed { told } => told,
    }
}

#[test]
fn every_kind_says_what_it_is_and_none_exists_without_its_cage() {
    let bench = Bench::new();
    let parts = Parts {
        brain: &bench.brain,
        sensitivity: bench.sensitivity,
        agent: &bench.agent,
        wire: &bench.wire,
        forbidden: &bench.forbidden,
        store: None,
    };
    let mut size = 0;
    for kind in KINDS {
        let spec = (kind.spec)();
        assert_eq!(spec.name, kind.descriptor.name);
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        size += spec.description.len() + spec.parameters.to_string().len();
        assert_eq!(
            (kind.make)(&parts).is_some(),
            kind.descriptor.cage.is_none(),
            "{}",
            spec.name
        );
    }
    // Each byte of them is read by the model before each answer.
    assert!(size < 1000, "{size}");
}

#[test]
fn the_tools_without_reach_do_what_they_say() {
    let bench = Bench::new();
    let clock = crate::store::TestClock::new();
    let limits = korvun::domain::limits::Limits::default();
    let bench = Bench {
        wire: Wire::new(None, &limits, clock.clone()),
        ..bench
    };
    assert_eq!(
        call(&*bench.tool("time"), json!({"zone": "ignored"})),
        Ok(clock.unix().rfc3339())
    );
    for (name, arguments, result) in [
        ("echo", json!({"text": "hola ñ"}), Ok("hola ñ")),
        ("echo", json!({"text": ""}), Ok("")),
        ("echo", json!({}), Err("`text` is missing")),
        ("echo", json!({"text": 7}), Err("`text` has to be a string")),
        (
            "echo",
            json!({"text": null}),
            Err("`text` has to be a string"),
        ),
        ("calc", json!({"expression": "0.1+0.2"}), Ok("0.3")),
        (
            "calc",
            json!({"expression": "1/0"}),
            Err("division by zero"),
        ),
        (
            "calc",
            json!({"expression": ["1"]}),
            Err("`expression` has to be a string"),
        ),
    ] {
        let tool = bench.tool(name);
        assert!(tool.ready());
        match (call(&*tool, arguments), result) {
            (Ok(text), Ok(known)) => assert_eq!(text, known),
            (Err(fault), Err(known)) => {
                assert_eq!((rule(&fault), told(&fault)), (None, known));
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}
