//! What is wrong with a configuration, and where. Data only; nothing here reads or prints.

use std::fmt;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops the configuration from running.
    pub severity: Severity,
    /// The key at fault, like `brains[0].models[1].api_key_env`; empty for the whole file.
    pub path: String,
    /// The line of the value, from 1; 0 where there is no file.
    pub line: usize,
    /// The column of the value in characters, from 1; 0 where there is no file.
    pub column: usize,
    /// What is wrong. Holds no control character and no secret.
    pub message: String,
    /// What would help.
    pub help: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot run.
    Error,
    /// It runs, but perhaps not as meant.
    Warning,
}

impl Severity {
    /// The word in JSON and on the terminal.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl Problem {
    /// An error about the whole file, where there is nothing to point at.
    #[must_use]
    pub fn of_file(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem {
            severity: Severity::Error,
            path: String::new(),
            line: 0,
            column: 0,
            message: message.into(),
            help: help.into(),
        }
    }

    /// The finding as the object that `--json` and the API show.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "severity": self.severity.word(),
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "help": self.help,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.line, self.column)?;
        }
        write!(f, "{}: ", self.severity.word())?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, " ({})", self.help)?;
        }
        Ok(())
    }
}
