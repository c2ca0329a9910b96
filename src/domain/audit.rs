//! The words in which tool calls are recorded: outcomes and rules, closed. Metadata only.

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolOutcome {
    /// It was executed and gave a result.
    Ok,
    /// It was executed, or tried, and failed.
    Error,
    /// It was refused.
    Denied,
    /// It was only rehearsed.
    Shadowed,
    /// It had started when the process ended: nobody knows.
    Unknown,
}

impl ToolOutcome {
    /// The word in logs, metrics, events and store.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ToolOutcome::Ok => "ok",
            ToolOutcome::Error => "error",
            ToolOutcome::Denied => "denied",
            ToolOutcome::Shadowed => "shadowed",
            ToolOutcome::Unknown => "unknown",
        }
    }
}

/// What refused a tool call, or would have refused a rehearsed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A `deny` grant.
    Deny,
    /// A governance block without a grant for the tool.
    NotGranted,
    /// The grant does not cover this channel or this kind of chat.
    Channel,
    /// A sensitive tool in a brain with a cloud model that may be asked.
    SensitiveLocality,
    /// The address that would be dialled.
    PrivateNetworkShield,
    /// The tool's cage.
    Cage,
    /// A tool that the brain does not list.
    UnknownTool,
    /// More calls than one reply may hold.
    PerRunBudget,
    /// The model cannot be told of tools.
    ToolsUnsupported,
    /// The gate itself failed.
    GateFault,
}

impl Rule {
    /// The word in logs, metrics, events and store.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Rule::Deny => "deny",
            Rule::NotGranted => "not_granted",
            Rule::Channel => "channel",
            Rule::SensitiveLocality => "sensitive_locality",
            Rule::PrivateNetworkShield => "private_network_shield",
            Rule::Cage => "cage",
            Rule::UnknownTool => "unknown_tool",
            Rule::PerRunBudget => "per_run_budget",
            Rule::ToolsUnsupported => "tools_unsupported",
            Rule::GateFault => "gate_fault",
        }
    }
}
