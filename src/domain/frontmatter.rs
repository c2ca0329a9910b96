//! The YAML at the head of a skill, as people write it. Pure; works on the parser's events with a
//! bounded depth and never loads a document, so that no few lines can become gigabytes. What could
//! (anchors, aliases) or could mean two things (tags, keys that stand twice) is refused.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScanError, Span, StrInput};

/// Nesting of lists and maps; a skill's own keys need two.
const DEPTH_MOST: usize = 8;

/// A value of YAML. Plain words are texts whatever they look like: `yes`, `1.0` and `null` are
/// what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A scalar of any style.
    Text(String),
    /// A sequence.
    List(Vec<Value>),
    /// A mapping, in the file's order.
    Map(Vec<(String, Value)>),
}

/// A frontmatter that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// Its keys and values, in the file's order.
    pub entries: Vec<(String, Value)>,
    /// Keys whose value is no YAML and was taken as it is written.
    pub as_written: Vec<String>,
}

/// Why a frontmatter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the YAML, from 1.
    pub line: usize,
    /// What is wrong there. May repeat what stands there.
    pub what: String,
}

/// Reads the YAML between the two lines of dashes. Lines end with `\n`.
///
/// # Errors
/// A [`Fault`] for what is no YAML, no mapping, nested too deeply, or refused.
pub fn read(yaml: &str) -> Result<Front, Fault> {
    let first = match entries(yaml) {
        Ok(entries) => {
            let as_written = Vec::new();
            return Ok(Front {
                entries,
                as_written,
            });
        }
        Err(Broken::Refused(fault)) => return Err(fault),
        Err(Broken::Syntax(fault)) => fault,
    };
    let (mended, as_written) = mend(yaml);
    if as_written.is_empty() {
        return Err(first);
    }
    match entries(&mended) {
        Ok(entries) => Ok(Front {
            entries,
            as_written,
        }),
        Err(Broken::Refused(fault) | Broken::Syntax(fault)) => Err(fault),
    }
}

/// The same YAML with each top-level value in quotes that is no YAML, and the keys of those.
fn mend(yaml: &str) -> (String, Vec<String>) {
    let mut lines: Vec<String> = Vec::new();
    let mut keys = Vec::new();
    // From the end, to know of each line whether the next one that is not empty goes on with it.
    let mut goes_on = false;
    for line in yaml.lines().rev() {
        match as_written(line).filter(|_| !goes_on) {
            Some((key, value)) => {
                lines.push(format!("{key}: '{}'\n", value.replace('\'', "''")));
                keys.push(key.to_owned());
            }
            None => lines.push(format!("{line}\n")),
        }
        if !line.trim().is_empty() {
            goes_on = line.starts_with([' ', '\t']);
        }
    }
    lines.reverse();
    keys.reverse();
    (lines.concat(), keys)
}

/// Key and value of a line whose value people mean as it is written, though YAML has another
/// meaning or none for it: a colon and space within, a leading `*` or backtick.
fn as_written(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if key.is_empty() || !key.chars().all(named) || !value.starts_with([' ', '\t']) {
        return None;
    }
    let value = value.trim();
    let meant = value.starts_with(['*', '`'])
        || (!value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '!', '#', '%', '@'])
            && (value.contains(": ") || value.ends_with(':')));
    let is_yaml = || entries(line).is_ok();
    (meant && !is_yaml()).then_some((key, value))
}

/// Why there are no entries.
enum Broken {
    /// It is no YAML.
    Syntax(Fault),
    /// It is YAML that is not taken.
    Refused(Fault),
}

impl From<ScanError> for Broken {
    fn from(error: ScanError) -> Broken {
        Broken::Syntax(Fault {
            line: error.marker().line(),
            what: error.info().to_owned(),
        })
    }
}

fn refused<T>(at: Span, what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken::Refused(Fault {
        line: at.start.line(),
        what: what.into(),
    }))
}

fn entries(yaml: &str) -> Result<Vec<(String, Value)>, Broken> {
    let mut reader = Reader {
        parser: Parser::new_from_str(yaml),
    };
    loop {
        match reader.event()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (event @ Event::MappingStart(..), at) => {
                let Value::Map(entries) = reader.value(event, at, 0)? else {
                    return refused(at, "it is no list of keys and values");
                };
                return match (reader.event()?, reader.event()?) {
                    ((Event::DocumentEnd, _), (Event::StreamEnd, _)) => Ok(entries),
                    (_, (_, at)) => refused(at, "a second document begins here"),
                };
            }
            (_, at) => return refused(at, "it is no list of keys and values"),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn event(&mut self) -> Result<(Event<'a>, Span), Broken> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The value that begins with `event`.
    fn value(&mut self, event: Event<'a>, at: Span, depth: usize) -> Result<Value, Broken> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => (*anchor, tag),
            Event::Alias(_) => return refused(at, "an alias (`*name`) is not taken"),
            _ => return refused(at, "a value is missing"),
        };
        if anchor != 0 {
            return refused(
                at,
                "an anchor (`&name`) is not taken; put the value in quotes if it is text",
            );
        }
        if let Some(tag) = tag {
            return refused(
                at,
                format!("the tag `{tag}` is not taken; put the value in quotes if it is text"),
            );
        }
        if depth > DEPTH_MOST {
            return refused(at, format!("nested more than {DEPTH_MOST} deep"));
        }
        match event {
            Event::Scalar(text, ..) => Ok(Value::Text(text.into_owned())),
            Event::SequenceStart(..) => self.list(depth + 1),
            _ => self.map(depth + 1),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, Broken> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => return Ok(Value::List(items)),
                (event, at) => items.push(self.value(event, at, depth)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Broken> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let (event, at) = self.event()?;
            if event == Event::MappingEnd {
                return Ok(Value::Map(entries));
            }
            let Value::Text(key) = self.value(event, at, depth)? else {
                return refused(at, "a key must be a word");
            };
            if !seen.insert(key.clone()) {
                return refused(at, format!("the key `{key}` stands twice"));
            }
            let (event, at) = self.event()?;
            entries.push((key, self.value(event, at, depth)?));
        }
    }
}

#[cfg(test)]
#[path = "frontmatter_tests.rs"]
mod tests;
