//! A brain as data: which models, how they are asked, how an answer is picked.

use std::time::Duration;

use super::ids::{BrainName, Endpoint, EnvName, ModelId, ProviderName};

/// One configured brain.
#[derive(Clone, Debug, PartialEq)]
pub struct Brain {
    /// Unique name, referenced by routes.
    pub name: BrainName,
    /// Whether cloud models are dropped before anything is sent.
    pub sensitivity: Sensitivity,
    /// Whether its models are asked at once or one after the other.
    pub dispatch: Dispatch,
    /// How the answer is picked; only an agent brain may lack it.
    pub policy: Option<Policy>,
    /// All its models in catalogue order, those that privacy drops included.
    pub models: Vec<Model>,
    /// How it presents itself.
    pub persona: Persona,
    /// Stored messages shown to the model before the present one.
    pub history_turns: u32,
    /// The longest time from a message being first in its conversation to its answer.
    pub answer_timeout: Duration,
    /// Tools; present in an agent brain.
    pub agent: Option<Agent>,
}

/// Whether what is said to a brain may leave the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sensitivity {
    /// Cloud models may be asked.
    Public,
    /// Only local models, on private addresses.
    Private,
}

/// How the models of a brain are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// All at once.
    Fanout,
    /// In catalogue order, the first success ends it.
    Sequential,
}

/// How the answer is picked among those that models gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rule.
    pub kind: PolicyKind,
    /// The order as written in the file.
    pub order: Vec<String>,
}

/// The rules that pick an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// The answer of the highest-ranked model that answered.
    Priority,
    /// The answer on which a strict majority agrees.
    Consensus,
}

impl PolicyKind {
    /// The word in configuration, logs and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PolicyKind::Priority => "priority",
            PolicyKind::Consensus => "consensus",
        }
    }
}

/// Where a model runs, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locality {
    /// On this machine or in this home.
    Local,
    /// On somebody else's machine.
    Cloud,
}

/// One model of a brain.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Which provider serves it.
    pub provider: ProviderName,
    /// Its name there.
    pub model_id: ModelId,
    /// Where it is declared to run.
    pub locality: Locality,
    /// The provider's root, without a trailing slash.
    pub base_url: String,
    /// Scheme, host and port of `base_url`: models with the same one share places.
    pub endpoint: Endpoint,
    /// The variable that holds its key.
    pub api_key_env: Option<EnvName>,
    /// The limit of one attempt.
    pub request_timeout: Duration,
    /// Tries after the first, for failures that can heal.
    pub max_retries: u32,
    /// Whether it is loaded at start.
    pub warmup: bool,
    /// Options sent the provider's own way.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// How long Ollama keeps it loaded: a duration, or seconds as a number.
    pub keep_alive: Option<serde_json::Value>,
    /// Ollama's `think`: true, false or a level.
    pub think: Option<serde_json::Value>,
    /// How it is told of tools.
    pub tools: ToolLane,
    /// Runs in work at its endpoint at once (the highest of those that share it wins).
    pub parallel: u32,
    /// Its rank by the policy's order: 0 is asked to win first; equal ranks go by catalogue order.
    pub rank: u32,
}

/// How a model is told of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolLane {
    /// Native where the provider says that the model can, else text.
    Auto,
    /// Native tool calls.
    Native,
    /// A text protocol.
    Text,
}

/// How a brain presents itself. Empty fields are left out of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persona {
    /// The name shown with answers, where it differs from the brain's.
    pub display_name: String,
    /// How it speaks.
    pub tone: String,
    /// The language it answers in.
    pub language: String,
    /// What the operator tells it.
    pub instructions: String,
}

/// The tools of an agent brain, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Listed tools, in the file's order.
    pub tools: Vec<String>,
    /// Replies that may call tools; one more without tools ends the run.
    pub max_iterations: u32,
    /// The operator's addition to the prompt.
    pub system_prompt: String,
    /// Grants; `None` means ungoverned: every listed tool on every channel.
    pub governance: Option<Vec<Grant>>,
    /// Tools that the file marks sensitive beyond those that are by nature.
    pub extra_sensitive: Vec<String>,
    /// Where `read_file` may read.
    pub read_file: Option<ReadFileCage>,
    /// Where `http_fetch` may reach.
    pub http_fetch: Option<HttpFetchCage>,
    /// Where `webhook_call` may reach.
    pub webhook_call: Option<WebhookCallCage>,
    /// The bounds of notes.
    pub memory: Option<Memory>,
    /// The directory of skills.
    pub skills_dir: Option<std::path::PathBuf>,
    /// Characters of skill bodies in the prompt.
    pub skills_body_budget: u32,
}

/// What one tool may do in one brain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The tool it speaks of.
    pub tool: String,
    /// What it grants.
    pub mode: Mode,
    /// On which channels; `None` means all.
    pub channels: Option<Vec<String>>,
    /// In which kinds of chat.
    pub chats: Chats,
}

/// What a grant grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Announced and executed.
    Allow,
    /// Announced and only rehearsed.
    Shadow,
    /// Neither announced nor executed.
    Deny,
}

impl Mode {
    /// The word in configuration and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::Allow => "allow",
            Mode::Shadow => "shadow",
            Mode::Deny => "deny",
        }
    }
}

/// The kinds of chat that a grant covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chats {
    /// Every chat.
    All,
    /// One to one only.
    Direct,
}

impl Chats {
    /// The word in configuration and API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Chats::All => "all",
            Chats::Direct => "direct",
        }
    }
}

/// The cage of `read_file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFileCage {
    /// The only folder it reads below.
    pub root: std::path::PathBuf,
    /// What it reads of a file at most, in bytes.
    pub max_bytes: u32,
}

/// The cage of `http_fetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpFetchCage {
    /// The only hosts it reaches, as written.
    pub allow_hosts: Vec<String>,
    /// What it reads of an answer at most, in bytes.
    pub max_bytes: u32,
    /// Redirects it follows.
    pub max_redirects: u32,
}

/// The cage of `webhook_call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookCallCage {
    /// The only hosts it reaches, as written.
    pub allow_hosts: Vec<String>,
    /// What it reads of an answer at most, in bytes.
    pub max_bytes: u32,
    /// The limit of one call.
    pub timeout: Duration,
}

/// The bounds of `memory_note`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Whose notes they are.
    pub scope: MemoryScope,
    /// Notes kept.
    pub max_notes: u32,
    /// Characters of one note.
    pub max_note_runes: u32,
    /// Characters of all notes in the prompt.
    pub budget_runes: u32,
}

/// Whose notes are kept together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryScope {
    /// One conversation's.
    Conversation,
    /// The whole brain's.
    Brain,
}

/// Brains and models for the tables of other modules' tests.
#[cfg(test)]
pub mod samples {
    use super::*;

    /// A public fan-out brain without models, with the priority policy.
    pub fn brain(name: &str) -> Brain {
        Brain {
            name: name.into(),
            sensitivity: Sensitivity::Public,
            dispatch: Dispatch::Fanout,
            policy: Some(Policy {
                kind: PolicyKind::Priority,
                order: Vec::new(),
            }),
            models: Vec::new(),
            persona: Persona::default(),
            history_turns: 20,
            answer_timeout: Duration::from_secs(900),
            agent: None,
        }
    }

    /// A local model of rank 0.
    pub fn model(provider: &str, model_id: &str) -> Model {
        Model {
            provider: provider.into(),
            model_id: model_id.into(),
            locality: Locality::Local,
            base_url: "http://127.0.0.1:11434".to_owned(),
            endpoint: "http://127.0.0.1:11434".into(),
            api_key_env: None,
            request_timeout: Duration::from_secs(300),
            max_retries: 0,
            warmup: false,
            options: serde_json::Map::new(),
            keep_alive: None,
            think: None,
            tools: ToolLane::Auto,
            parallel: 1,
            rank: 0,
        }
    }
}
