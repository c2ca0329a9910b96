//! What a correct file becomes.

use std::time::Duration;

use korvun::config::plan::{
    Channel, ChannelSettings, Mapping, Observability, Plan, Route, Webhook,
};
use korvun::domain::brain::{
    Brain, Dispatch, Locality, Model, Persona, Policy, PolicyKind, Sensitivity, ToolLane,
};

use super::checked;

/// A webhook and a local model: the least that works.
pub(crate) const LEAST: &str = r#"{
  "channels": [
    {"type": "webhook", "token_env": "KORVUN_WEBHOOK_TOKEN",
     "webhook": {"outbound_url": "http://127.0.0.1:5678/answers"}}
  ],
  "brains": [
    {"name": "assistant", "sensitivity": "private", "policy": {"kind": "priority"},
     "models": [{"provider": "ollama", "model_id": "llama3.2", "locality": "local"}]}
  ],
  "routes": [{"channel": "webhook", "brain": "assistant"}]
}"#;

/// The model of [`LEAST`] as the plan has it.
pub(crate) fn llama() -> Model {
    Model {
        provider: "ollama".into(),
        model_id: "llama3.2".into(),
        locality: Locality::Local,
        base_url: "http://127.0.0.1:11434".into(),
        endpoint: "http://127.0.0.1:11434".into(),
        api_key_env: None,
        request_timeout: Duration::from_secs(300),
        max_retries: 2,
        warmup: false,
        options: serde_json::Map::new(),
        keep_alive: None,
        think: None,
        tools: ToolLane::Auto,
        parallel: 1,
        rank: 0,
    }
}

/// The plan of [`LEAST`].
pub(crate) fn least() -> Plan {
    Plan {
        channels: vec![Channel {
            name: "webhook".into(),
            token_env: Some("KORVUN_WEBHOOK_TOKEN".into()),
            settings: ChannelSettings::Webhook(Box::new(Webhook {
                bind: "127.0.0.1:8090".parse().expect("an address"),
                path: "/webhook".into(),
                outbound_url: "http://127.0.0.1:5678/answers".into(),
                outbound_token_env: None,
                mapping: Mapping::default(),
                signature: None,
            })),
        }],
        brains: vec![Brain {
            name: "assistant".into(),
            sensitivity: Sensitivity::Private,
            dispatch: Dispatch::Fanout,
            policy: Some(Policy {
                kind: PolicyKind::Priority,
                order: Vec::new(),
            }),
            models: vec![llama()],
            persona: Persona::default(),
            history_turns: 20,
            answer_timeout: Duration::from_secs(900),
            agent: None,
        }],
        routes: vec![Route {
            channel: "webhook".into(),
            brain: "assistant".into(),
        }],
        storage: None,
        session: None,
        observability: Observability {
            enabled: true,
            addr: "127.0.0.1:2112".parse().expect("an address"),
            allow_hosts: Vec::new(),
        },
        admin_token_env: None,
    }
}

#[test]
fn the_least_file_is_a_whole_plan() {
    let checked = checked(LEAST);
    assert_eq!(checked.problems, []);
    assert_eq!(checked.plan, Some(least()));
}
