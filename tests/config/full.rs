//! A file with every key, and what it becomes.

use std::path::PathBuf;
use std::time::Duration;

use korvun::config::plan::{
    Channel, ChannelSettings, Chat, Mapping, Observability, Plan, Respond, Route, Session,
    Signature, SignatureKind, Storage, Webhook,
};
use korvun::domain::brain::{
    Agent, Brain, Chats, Dispatch, Grant, HttpFetchCage, Locality, Memory, MemoryScope, Mode,
    Model, Persona, Policy, PolicyKind, ReadFileCage, Sensitivity, ToolLane, WebhookCallCage,
};
use korvun::domain::catalogue::Part;
use serde_json::json;

use super::plans::llama;
use super::{catalogue, checked};

/// Every key that there is, without a problem.
pub(crate) const FULL: &str = r#"{
  "_comment": "everything",
  "schema_version": 1,
  "request_timeout": "90s",
  "channels": [
    {"type": "telegram", "mode": "polling", "token_env": "TELEGRAM_BOT_TOKEN", "allow_from": ["12345678"], "respond": "all"},
    {"type": "discord", "mode": "gateway", "token_env": "DISCORD_BOT_TOKEN", "allow_from": ["87654321"],
     "base_url": "http://127.0.0.1:9000/api/"},
    {"type": "webhook", "webhook": {"bind": "127.0.0.1:8091", "path": "/in",
      "outbound_url": "http://127.0.0.1:5678/answers?t=1", "outbound_token_env": "OUT_TOKEN",
      "mapping": {"sender_id": "/user/id", "text": "body"},
      "signature": {"kind": "hmac-sha256", "secret_env": "SIGNING_SECRET", "header": "X-Signature"}}},
    {"type": "console"}
  ],
  "brains": [
    {"name": "team", "sensitivity": "public", "dispatch": "fanout",
     "policy": {"kind": "consensus", "order": ["groq", "ollama/llama3.2"]},
     "history_turns": 0, "answer_timeout": "1h",
     "persona": {"display_name": "Team", "tone": "dry", "language": "español", "instructions": "one\ntwo"},
     "models": [
       {"provider": "ollama", "model_id": "llama3.2", "locality": "local", "request_timeout": "10m",
        "max_retries": 0, "warmup": true, "options": {"_comment": "cold", "temperature": 0.25, "stop": ["x", null]},
        "keep_alive": -1, "think": "low", "tools": "text", "parallel": 2},
       {"provider": "groq", "model_id": "llama-3.3-70b", "locality": "cloud", "api_key_env": "GROQ_API_KEY"},
       {"provider": "openai-compatible", "model_id": "org/model", "locality": "local",
        "base_url": "http://Box.lan:8000/v1/", "api_key_env": "BOX_KEY"}
     ]},
    {"name": "casa", "sensitivity": "private",
     "models": [{"provider": "ollama", "model_id": "llama3.2", "locality": "local"}],
     "agent": {
       "tools": ["time", "echo", "calc", "read_file", "http_fetch", "webhook_call", "memory_note"],
       "max_iterations": 7, "system_prompt": "be brief",
       "governance": [
         {"tool": "time", "mode": "allow"},
         {"tool": "read_file", "mode": "allow", "channels": ["console", "telegram"], "chats": "direct"},
         {"tool": "webhook_call", "mode": "shadow"},
         {"tool": "memory_note", "mode": "deny"}
       ],
       "tool_attrs": {"echo": {"sensitive": true}},
       "read_file": {"root": "notes", "max_bytes": 1000},
       "http_fetch": {"allow_hosts": ["example.org"], "max_redirects": 0},
       "webhook_call": {"allow_hosts": ["192.168.1.20:5678", "[::1]"], "timeout_seconds": 20},
       "memory": {"scope": "brain", "max_notes": 5, "max_note_runes": 100, "budget_runes": 500},
       "skills_dir": "/srv/skills", "skills_body_budget": 0
     }}
  ],
  "routes": [
    {"channel": "telegram", "brain": "team"},
    {"channel": "discord", "brain": "team"},
    {"channel": "webhook", "brain": "casa"},
    {"channel": "console", "brain": "casa"}
  ],
  "storage": {"path": "data/korvun.db", "retention_days": 30},
  "session": {"triggers": ["/nuevo"], "daily_at": "04:30", "idle_min": 90, "recall_max": 50},
  "observability": {"enabled": true, "addr": "[::1]:2113", "allow_hosts": ["korvun.home"]},
  "admin": {"token_env": "KORVUN_ADMIN_TOKEN"}
}"#;

fn chat(name: &str, token: &str, settings: Chat) -> Channel {
    Channel {
        name: name.into(),
        token_env: Some(token.into()),
        settings: ChannelSettings::Chat(settings),
    }
}

fn channels() -> Vec<Channel> {
    vec![
        chat(
            "telegram",
            "TELEGRAM_BOT_TOKEN",
            Chat {
                base_url: "https://api.telegram.org".into(),
                allow_from: Some(vec!["12345678".into()]),
                respond: Respond::All,
            },
        ),
        chat(
            "discord",
            "DISCORD_BOT_TOKEN",
            Chat {
                base_url: "http://127.0.0.1:9000/api".into(),
                allow_from: Some(vec!["87654321".into()]),
                respond: Respond::Mention,
            },
        ),
        Channel {
            name: "webhook".into(),
            token_env: None,
            settings: ChannelSettings::Webhook(Box::new(Webhook {
                bind: "127.0.0.1:8091".parse().expect("an address"),
                path: "/in".into(),
                outbound_url: "http://127.0.0.1:5678/answers?t=1".into(),
                outbound_token_env: Some("OUT_TOKEN".into()),
                mapping: Mapping {
                    sender_id: "/user/id".into(),
                    text: "body".into(),
                    ..Mapping::default()
                },
                signature: Some(Signature {
                    kind: SignatureKind::HmacSha256,
                    secret_env: "SIGNING_SECRET".into(),
                    header: "X-Signature".into(),
                }),
            })),
        },
        Channel {
            name: "console".into(),
            token_env: None,
            settings: ChannelSettings::Console,
        },
    ]
}

fn team() -> Brain {
    let options = json!({"temperature": 0.25, "stop": ["x", null]});
    Brain {
        name: "team".into(),
        sensitivity: Sensitivity::Public,
        dispatch: Dispatch::Fanout,
        policy: Some(Policy {
            kind: PolicyKind::Consensus,
            order: vec!["groq".into(), "ollama/llama3.2".into()],
        }),
        models: vec![
            Model {
                request_timeout: Duration::from_secs(600),
                max_retries: 0,
                warmup: true,
                options: options.as_object().expect("an object").clone(),
                keep_alive: Some(json!(-1)),
                think: Some(json!("low")),
                tools: ToolLane::Text,
                parallel: 2,
                rank: 1,
                ..llama()
            },
            Model {
                provider: "groq".into(),
                model_id: "llama-3.3-70b".into(),
                locality: Locality::Cloud,
                base_url: "https://api.groq.com/openai/v1".into(),
                endpoint: "https://api.groq.com:443".into(),
                api_key_env: Some("GROQ_API_KEY".into()),
                request_timeout: Duration::from_secs(90),
                parallel: 8,
                ..llama()
            },
            Model {
                provider: "openai-compatible".into(),
                model_id: "org/model".into(),
                base_url: "http://box.lan:8000/v1".into(),
                endpoint: "http://box.lan:8000".into(),
                api_key_env: Some("BOX_KEY".into()),
                request_timeout: Duration::from_secs(90),
                rank: 2,
                ..llama()
            },
        ],
        persona: Persona {
            display_name: "Team".into(),
            tone: "dry".into(),
            language: "español".into(),
            instructions: "one\ntwo".into(),
        },
        history_turns: 0,
        answer_timeout: Duration::from_secs(3600),
        agent: None,
    }
}

fn grant(tool: &str, mode: Mode) -> Grant {
    Grant {
        tool: tool.into(),
        mode,
        channels: None,
        chats: Chats::All,
    }
}

fn casa() -> Brain {
    let tools = "time echo calc read_file http_fetch webhook_call memory_note";
    Brain {
        name: "casa".into(),
        sensitivity: Sensitivity::Private,
        policy: None,
        models: vec![Model {
            request_timeout: Duration::from_secs(90),
            ..llama()
        }],
        persona: Persona::default(),
        history_turns: 20,
        answer_timeout: Duration::from_secs(900),
        agent: Some(Agent {
            tools: tools.split(' ').map(str::to_owned).collect(),
            max_iterations: 7,
            system_prompt: "be brief".into(),
            governance: Some(vec![
                grant("time", Mode::Allow),
                Grant {
                    channels: Some(vec!["console".into(), "telegram".into()]),
                    chats: Chats::Direct,
                    ..grant("read_file", Mode::Allow)
                },
                grant("webhook_call", Mode::Shadow),
                grant("memory_note", Mode::Deny),
            ]),
            extra_sensitive: vec!["echo".into()],
            read_file: Some(ReadFileCage {
                root: "/etc/korvun/notes".into(),
                max_bytes: 1000,
            }),
            http_fetch: Some(HttpFetchCage {
                allow_hosts: vec!["example.org".into()],
                max_bytes: 65536,
                max_redirects: 0,
            }),
            webhook_call: Some(WebhookCallCage {
                allow_hosts: vec!["192.168.1.20:5678".into(), "[::1]".into()],
                max_bytes: 65536,
                timeout: Duration::from_secs(20),
            }),
            memory: Some(Memory {
                scope: MemoryScope::Brain,
                max_notes: 5,
                max_note_runes: 100,
                budget_runes: 500,
            }),
            skills_dir: Some("/srv/skills".into()),
            skills_body_budget: 0,
        }),
        ..team()
    }
}

#[test]
fn a_file_with_every_key_is_a_whole_plan() {
    let checked = checked(FULL);
    assert_eq!(checked.problems, []);
    let route = |channel: &str, brain: &str| Route {
        channel: channel.into(),
        brain: brain.into(),
    };
    let expected = Plan {
        channels: channels(),
        brains: vec![team(), casa()],
        routes: vec![
            route("telegram", "team"),
            route("discord", "team"),
            route("webhook", "casa"),
            route("console", "casa"),
        ],
        storage: Some(Storage {
            path: PathBuf::from("/etc/korvun/data/korvun.db"),
            retention_days: 30,
        }),
        session: Some(Session {
            triggers: vec!["/nuevo".into()],
            daily_at: Some(270),
            idle: Some(Duration::from_secs(90 * 60)),
            recall_max: 50,
        }),
        observability: Observability {
            enabled: true,
            addr: "[::1]:2113".parse().expect("an address"),
            allow_hosts: vec!["korvun.home".into()],
        },
        admin_token_env: Some("KORVUN_ADMIN_TOKEN".into()),
    };
    assert_eq!(checked.plan, Some(expected));
}

#[test]
fn what_this_build_lacks_is_named_with_its_place() {
    let checked = checked(FULL);
    let plan = checked.plan.expect("a plan");
    let missing: Vec<_> = korvun::config::missing::missing(&plan, &catalogue())
        .into_iter()
        .map(|part| (checked.places.of(&part.path), part.path))
        .map(|((line, column), path)| (path, line, column))
        .collect();
    let expected = [("channels[2].webhook.signature", 12, 20)];
    let expected = expected.map(|(path, line, column)| (path.to_owned(), line, column));
    assert_eq!(missing, expected);
    // Whatever part a build lacks has its place.
    let mut later = catalogue();
    later.lacks = &[Part::Agents, Part::Sessions, Part::Skills];
    for part in korvun::config::missing::missing(&plan, &later) {
        assert_ne!(checked.places.of(&part.path), (0, 0), "{}", part.path);
    }
}

#[test]
fn empty_values_are_absent_and_zeros_are_zeros() {
    let text = FULL
        .replace("\"respond\": \"all\"", "\"respond\": \"\"")
        .replace("\"dispatch\": \"fanout\"", "\"dispatch\": null")
        .replace("\"history_turns\": 0", "\"history_turns\": null")
        .replace("\"tools\": \"text\"", "\"tools\": \"\"")
        .replace(", \"parallel\": 2", ", \"parallel\": null")
        .replace("\"path\": \"data/korvun.db\"", "\"path\": \"\"")
        .replace("\"addr\": \"[::1]:2113\"", "\"addr\": \"\"")
        .replace("\"max_iterations\": 7", "\"max_iterations\": null")
        .replace("\"daily_at\": \"04:30\"", "\"daily_at\": \"\"");
    let checked = checked(&text);
    assert_eq!(checked.problems, []);
    let plan = checked.plan.expect("a plan");
    assert_eq!(
        plan.storage.expect("storage").path,
        PathBuf::from("/home/chano/.config/korvun/korvun.db")
    );
    assert_eq!(plan.observability.addr.to_string(), "127.0.0.1:2112");
    assert_eq!(plan.session.expect("a session").daily_at, None);
    let (team, casa) = (&plan.brains[0], &plan.brains[1]);
    assert_eq!((team.dispatch, team.history_turns), (Dispatch::Fanout, 20));
    assert_eq!(team.models[0].tools, ToolLane::Auto);
    assert_eq!(
        (team.models[0].parallel, team.models[0].max_retries),
        (1, 0)
    );
    assert_eq!(casa.agent.as_ref().expect("an agent").max_iterations, 5);
    assert_eq!(casa.agent.as_ref().expect("an agent").skills_body_budget, 0);
}

#[test]
fn short_forms_get_the_defaults() {
    let text = FULL
        .replace(
            r#"{"triggers": ["/nuevo"], "daily_at": "04:30", "idle_min": 90, "recall_max": 50}"#,
            "{}",
        )
        .replace(
            r#"{"scope": "brain", "max_notes": 5, "max_note_runes": 100, "budget_runes": 500}"#,
            "{}",
        )
        .replace(", \"max_redirects\": 0", "")
        .replace(", \"timeout_seconds\": 20", "")
        .replace(", \"skills_body_budget\": 0", "");
    let plan = checked(&text).plan.expect("a plan");
    assert_eq!(
        plan.session,
        Some(Session {
            triggers: vec!["/new".into(), "/reset".into()],
            daily_at: None,
            idle: None,
            recall_max: 0,
        })
    );
    let agent = plan.brains[1].agent.as_ref().expect("an agent");
    assert_eq!(
        agent.memory,
        Some(Memory {
            scope: MemoryScope::Conversation,
            max_notes: 10,
            max_note_runes: 200,
            budget_runes: 2000,
        })
    );
    let (fetch, call) = (agent.http_fetch.as_ref(), agent.webhook_call.as_ref());
    assert_eq!(fetch.expect("a cage").max_redirects, 3);
    assert_eq!(call.expect("a cage").timeout, Duration::from_secs(10));
    assert_eq!(agent.skills_body_budget, 8192);
}
