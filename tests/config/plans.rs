//! What a correct file becomes.

use std::time::Duration;

use korvun::config::plan::{
    Channel, ChannelSettings, Chat, Mapping, Observability, Plan, Respond, Route, Storage, Webhook,
};
use korvun::domain::brain::{
    Agent, Brain, Chats, Dispatch, Grant, Locality, Mode, Model, Persona, Policy, PolicyKind,
    ReadFileCage, Sensitivity, ToolLane, WebhookCallCage,
};

use super::{checked, errors, whole};

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

/// The plan of a piece put into [`LEAST`].
fn plan_with(piece: &str) -> Plan {
    let checked = checked(&whole(piece));
    assert_eq!(errors(&checked), Vec::<&_>::new(), "{piece}");
    checked.plan.expect("a plan")
}

fn bot(name: &str, token: &str, base_url: &str) -> Channel {
    Channel {
        name: name.into(),
        token_env: Some(token.into()),
        settings: ChannelSettings::Chat(Chat {
            base_url: base_url.into(),
            allow_from: None,
            respond: Respond::Mention,
        }),
    }
}

#[test]
fn a_telegram_channel() {
    let piece = r#"{ "type": "telegram", "mode": "polling", "token_env": "TELEGRAM_BOT_TOKEN" }"#;
    let mut expected = least();
    expected.channels.push(bot(
        "telegram",
        "TELEGRAM_BOT_TOKEN",
        "https://api.telegram.org",
    ));
    expected.routes.push(Route {
        channel: "telegram".into(),
        brain: "assistant".into(),
    });
    assert_eq!(plan_with(piece), expected);
}

#[test]
fn a_discord_channel() {
    let piece = r#"{ "type": "discord", "mode": "gateway", "token_env": "DISCORD_BOT_TOKEN" }"#;
    let mut expected = least();
    expected.channels.push(bot(
        "discord",
        "DISCORD_BOT_TOKEN",
        "https://discord.com/api/v10",
    ));
    expected.routes.push(Route {
        channel: "discord".into(),
        brain: "assistant".into(),
    });
    assert_eq!(plan_with(piece), expected);
}

#[test]
fn a_route_and_the_admin_block() {
    let plan = plan_with(r#"{ "channel": "telegram", "brain": "assistant" }"#);
    assert_eq!(
        plan.routes[1],
        Route {
            channel: "telegram".into(),
            brain: "assistant".into(),
        }
    );
    let plan = plan_with(r#"{ "admin": { "token_env": "KORVUN_ADMIN_TOKEN" } }"#);
    assert_eq!(
        plan,
        Plan {
            admin_token_env: Some("KORVUN_ADMIN_TOKEN".into()),
            ..least()
        }
    );
}

#[test]
fn the_agent_brain_of_a_house() {
    let piece = r#"{
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
    let grant = |tool: &str, mode, channels: Option<&str>| Grant {
        tool: tool.into(),
        mode,
        channels: channels.map(|channel| vec![channel.to_owned()]),
        chats: Chats::All,
    };
    let mut expected = least();
    let mut casa = expected.brains[0].clone();
    casa.name = "casa".into();
    casa.agent = Some(Agent {
        tools: ["time", "calc", "read_file", "webhook_call"]
            .map(str::to_owned)
            .to_vec(),
        max_iterations: 5,
        system_prompt: String::new(),
        governance: Some(vec![
            grant("time", Mode::Allow, None),
            grant("calc", Mode::Allow, None),
            grant("read_file", Mode::Allow, Some("console")),
            grant("webhook_call", Mode::Shadow, None),
        ]),
        extra_sensitive: Vec::new(),
        read_file: Some(ReadFileCage {
            root: "/home/chano/korvun-notes".into(),
            max_bytes: 65536,
        }),
        http_fetch: None,
        webhook_call: Some(WebhookCallCage {
            allow_hosts: vec!["192.168.1.20:5678".into()],
            max_bytes: 65536,
            timeout: Duration::from_secs(10),
        }),
        memory: None,
        skills_dir: Some("/home/chano/korvun-skills".into()),
        skills_body_budget: 8192,
    });
    expected.brains.push(casa);
    let checked = checked(&whole(piece));
    assert_eq!(checked.problems, [], "not even a warning");
    assert_eq!(checked.plan, Some(expected));
}

#[test]
fn the_words_of_the_reference() {
    // Every optional object by its shortest form, and the hardened unit's database.
    let plan = plan_with(r#"{ "storage": {}, "observability": {} }"#);
    assert_eq!(
        plan,
        Plan {
            storage: Some(Storage {
                path: "/home/chano/.config/korvun/korvun.db".into(),
                retention_days: 0,
            }),
            ..least()
        }
    );
    let plan = plan_with(
        r#"{ "storage": {"path": "/var/lib/korvun/korvun.db"}, "observability": {"enabled": false} }"#,
    );
    assert_eq!(
        plan.storage.expect("storage").path.to_str(),
        Some("/var/lib/korvun/korvun.db")
    );
    assert!(!plan.observability.enabled);
    // The first tools without governance, one of them in a public brain with a cloud model.
    let plan = plan_with(
        r#"{"name": "x", "sensitivity": "public", "dispatch": "sequential", "policy": {"kind": "priority"},
            "models": [{"provider": "groq", "model_id": "m", "locality": "cloud", "api_key_env": "GROQ_API_KEY"}],
            "agent": {"tools": ["time", "echo", "calc"], "max_iterations": 3, "system_prompt": "s"}}"#,
    );
    let brain = &plan.brains[1];
    assert_eq!(brain.models[0].max_retries, 0, "sequential goes on at once");
    assert_eq!(brain.models[0].request_timeout, Duration::from_secs(120));
    assert_eq!(brain.agent.as_ref().expect("an agent").governance, None);
}

#[test]
fn ranks_follow_the_order() {
    let ranks = |order: &str| {
        let piece = format!(
            r#"{{"name": "x", "sensitivity": "public", "policy": {{"kind": "priority", "order": {order}}},
            "models": [
              {{"provider": "ollama", "model_id": "a", "locality": "local"}},
              {{"provider": "groq", "model_id": "b/c", "locality": "cloud", "api_key_env": "GROQ_API_KEY"}},
              {{"provider": "groq", "model_id": "a", "locality": "cloud", "api_key_env": "GROQ_API_KEY"}},
              {{"provider": "openai-compatible", "model_id": "groq", "locality": "local", "base_url": "http://127.0.0.1:1"}}
            ]}}"#
        );
        let plan = plan_with(&piece);
        let models = &plan.brains[1].models;
        models.iter().map(|model| model.rank).collect::<Vec<_>>()
    };
    for (order, expected) in [
        ("[]", [0, 0, 0, 0]),
        ("null", [0, 0, 0, 0]),
        // A model_id ranks every model of that name, whoever serves it.
        (r#"["a"]"#, [0, 1, 0, 1]),
        (r#"["ollama"]"#, [0, 1, 1, 1]),
        // A word that is both is read as a model_id.
        (r#"["groq"]"#, [1, 1, 1, 0]),
        (r#"["groq/b/c", "groq/a"]"#, [2, 0, 1, 2]),
        (r#"["b/c", "a"]"#, [1, 0, 1, 2]),
        // The first entry that names a model counts.
        (r#"["groq/a", "a", "ollama"]"#, [1, 3, 0, 3]),
    ] {
        assert_eq!(ranks(order), expected, "{order}");
    }
}
