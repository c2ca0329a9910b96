//! What a preflight tried and how it went. Data only; any thread.

use crate::base::secret::Redactor;

/// One thing that a preflight tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What, like `brain casa: ollama/llama3.2` or `webhook.bind 127.0.0.1:8090`.
    pub name: String,
    /// How it went.
    pub outcome: Outcome,
    /// What was seen.
    pub message: String,
    /// What would help; empty where nothing is amiss.
    pub help: String,
}

/// How a try of a preflight went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Ok,
    /// Not as it should, but it may be well when it is served.
    Warn,
    /// It would fail when it is served.
    Failed,
}

impl Outcome {
    /// The word in JSON and on the terminal.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Warn => "warn",
            Outcome::Failed => "failed",
        }
    }
}

impl Tried {
    pub(super) fn ok(name: impl Into<String>, message: impl Into<String>) -> Tried {
        Tried {
            name: name.into(),
            outcome: Outcome::Ok,
            message: message.into(),
            help: String::new(),
        }
    }

    pub(super) fn warn(
        name: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Tried {
        Tried {
            outcome: Outcome::Warn,
            help: help.into(),
            ..Tried::ok(name, message)
        }
    }

    pub(super) fn failed(
        name: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Tried {
        Tried {
            outcome: Outcome::Failed,
            help: help.into(),
            ..Tried::ok(name, message)
        }
    }

    /// The same without any secret: a server may have echoed one.
    pub(super) fn clean(self, redactor: &Redactor) -> Tried {
        Tried {
            name: redactor.clean(&self.name).into_owned(),
            message: redactor.clean(&self.message).into_owned(),
            help: redactor.clean(&self.help).into_owned(),
            outcome: self.outcome,
        }
    }
}
