//! The words and options of a command line, as typed, and how one value of them is taken.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::base::text::printable;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name without dashes.
    pub name: &'static str,
    /// What its value is called; empty where it takes none.
    pub value: &'static str,
    /// One line for help.
    pub summary: &'static str,
}

/// A command line that makes no sense, and what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is wrong; no control characters.
    pub problem: String,
    /// What would help; no control characters.
    pub help: String,
}

impl Usage {
    /// With control characters made visible.
    #[must_use]
    pub fn new(problem: impl AsRef<str>, help: impl AsRef<str>) -> Usage {
        Usage {
            problem: printable(problem.as_ref()),
            help: printable(help.as_ref()),
        }
    }
}

/// The words and options of a command line.
#[derive(Debug, Default)]
pub struct Given {
    /// What is no option, in order.
    pub words: Vec<OsString>,
    /// The options with their values.
    pub flags: Vec<(&'static Flag, Option<OsString>)>,
}

impl Given {
    /// The words as they can be shown.
    pub fn shown(&self) -> Vec<String> {
        self.words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// Whether the option `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.flags.iter().any(|(flag, _)| flag.name == name)
    }

    /// The value of the option `name`, which is given once and not empty.
    fn value(&mut self, name: &str) -> Result<Option<OsString>, Usage> {
        let mut values = self.flags.iter().filter(|(flag, _)| flag.name == name);
        let first = values.next();
        if values.next().is_some() {
            return Err(Usage::new(
                format!("--{name} is given twice"),
                "give it once",
            ));
        }
        match first.and_then(|(_, value)| value.clone()) {
            Some(value) if value.is_empty() => Err(Usage::new(
                format!("--{name} is empty"),
                "leave it out, or give it a value",
            )),
            value => Ok(value),
        }
    }

    /// The value of the option `name` as a path.
    pub fn path(&mut self, name: &str) -> Result<Option<PathBuf>, Usage> {
        Ok(self.value(name)?.map(PathBuf::from))
    }

    /// The value of the option `name` as a text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Usage> {
        self.value(name)?
            .map(|value| {
                value.into_string().map_err(|value| {
                    let shown = value.to_string_lossy().into_owned();
                    Usage::new(format!("--{name} `{shown}` is not UTF-8"), "type it anew")
                })
            })
            .transpose()
    }

    /// The one word behind the command, which names a `what`.
    pub fn operand(&mut self, what: &str) -> Result<Option<OsString>, Usage> {
        if let Some(more) = self.words.get(1) {
            let shown = more.to_string_lossy().into_owned();
            return Err(Usage::new(
                format!("`{shown}` is one word too many"),
                format!("name one {what}"),
            ));
        }
        match self.words.pop() {
            Some(word) if word.is_empty() => Err(Usage::new(
                format!("the {what}'s name is empty"),
                format!("leave it out, or name a {what}"),
            )),
            word => Ok(word),
        }
    }

    /// The same as a text.
    pub fn word(&mut self, what: &str) -> Result<Option<String>, Usage> {
        let word = self.operand(what)?;
        word.map(|word| {
            word.into_string().map_err(|word| {
                let shown = word.to_string_lossy().into_owned();
                Usage::new(format!("`{shown}` is not UTF-8"), "type it anew")
            })
        })
        .transpose()
    }
}
