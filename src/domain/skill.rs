//! Skills: what a `SKILL.md` says, and how it joins a prompt. Pure. A skill is documentation for a
//! model; nothing in it grants anything.

use std::fmt;

use super::frontmatter::{self, Value};

/// Characters of a name (AgentSkills specification).
pub const NAME_CHARS: usize = 64;
/// Characters of a description (AgentSkills specification).
pub const DESCRIPTION_CHARS: usize = 1024;
/// Characters of `compatibility` (AgentSkills specification).
const COMPATIBILITY_CHARS: usize = 500;
/// The keys of the AgentSkills specification.
const KEYS: [&str; 6] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
];

/// A skill that is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, which is also its folder's.
    pub name: String,
    /// What it teaches and when, on one line.
    pub description: String,
    /// What it teaches.
    pub body: String,
    /// The tools that it would like to be allowed. Recorded to be shown; grants nothing.
    pub allowed_tools: Vec<String>,
}

/// A skill, and what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The skill.
    pub skill: Skill,
    /// A sentence for each oddity. May repeat what stands in the file.
    pub warnings: Vec<String>,
}

/// Why a file is no good skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The line at fault, from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong. May repeat what stands in the file.
    pub what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Refused {}

/// Reads the bytes of a `SKILL.md` that stands in the folder named `folder`.
///
/// # Errors
/// [`Refused`] with the first thing that is wrong.
pub fn parse(folder: &str, bytes: &[u8]) -> Result<Read, Refused> {
    let text = std::str::from_utf8(bytes).map_err(|_| whole("it is not UTF-8"))?;
    if text.contains('\0') {
        return Err(whole("it is not text: it holds a zero byte"));
    }
    let text = text.trim_start_matches('\u{feff}');
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (yaml, body) = cut(&text)?;
    let front = frontmatter::read(yaml).map_err(|fault| Refused {
        // The YAML begins behind the line of dashes.
        line: Some(fault.line + 1),
        what: fault.what,
    })?;
    let mut warnings: Vec<String> = front
        .as_written
        .iter()
        .map(|key| {
            format!("the value of `{key}` is no YAML and is taken as written; put it in quotes")
        })
        .collect();
    let find = |key: &str| {
        let found = front.entries.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value)
    };
    let name = name(find("name"), folder)?;
    let description = description(find("description"))?;
    let allowed_tools = match find("allowed-tools") {
        None => Vec::new(),
        Some(value) => tools(value).unwrap_or_else(|| {
            warnings.push("`allowed-tools` is not a list of words and is not recorded".to_owned());
            Vec::new()
        }),
    };
    if let Some(Value::Text(text)) = find("compatibility") {
        if text.chars().count() > COMPATIBILITY_CHARS {
            warnings.push(format!(
                "`compatibility` is longer than {COMPATIBILITY_CHARS} characters"
            ));
        }
    }
    for (key, _) in &front.entries {
        if !KEYS.contains(&key.as_str()) {
            warnings.push(format!("the key `{key}` is unknown and ignored"));
        }
    }
    Ok(Read {
        skill: Skill {
            name,
            description,
            body: body.trim().to_owned(),
            allowed_tools,
        },
        warnings,
    })
}

fn whole(what: impl Into<String>) -> Refused {
    Refused {
        line: None,
        what: what.into(),
    }
}

/// The YAML between the lines of dashes, and what stands behind them.
fn cut(text: &str) -> Result<(&str, &str), Refused> {
    let dashes = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if !dashes(first) {
        return Err(Refused {
            line: Some(1),
            what: "it must begin with a line of three dashes".to_owned(),
        });
    }
    let rest = &text[first.len()..];
    let mut end = 0;
    for line in lines {
        if dashes(line) {
            return Ok((&rest[..end], &rest[end + line.len()..]));
        }
        end += line.len();
    }
    Err(whole(
        "a second line of three dashes is missing: it ends the part with name and description",
    ))
}

fn name(value: Option<&Value>, folder: &str) -> Result<String, Refused> {
    let Some(value) = value else {
        return Err(whole("`name` is missing"));
    };
    let Value::Text(text) = value else {
        return Err(whole("`name` must be a word"));
    };
    let name = text.trim();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let what = if name.is_empty() {
        "`name` is empty".to_owned()
    } else if name.chars().count() > NAME_CHARS {
        format!("`name` is longer than {NAME_CHARS} characters")
    } else if !name.chars().all(allowed) {
        format!("the name `{name}` may have only small letters a to z, digits and single hyphens")
    } else if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        format!("the name `{name}` may have single hyphens only between letters or digits")
    } else if name != folder {
        format!("the name `{name}` is not the name of its folder, `{folder}`")
    } else {
        return Ok(name.to_owned());
    };
    Err(whole(what))
}

fn description(value: Option<&Value>) -> Result<String, Refused> {
    let Some(value) = value else {
        return Err(whole(
            "`description` is missing: say what it teaches and when to use it",
        ));
    };
    let Value::Text(text) = value else {
        return Err(whole("`description` must be a text"));
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(whole(
            "`description` is empty: say what it teaches and when to use it",
        ));
    }
    if text.chars().count() > DESCRIPTION_CHARS {
        return Err(whole(format!(
            "`description` is longer than {DESCRIPTION_CHARS} characters"
        )));
    }
    Ok(one_line(text))
}

/// White space and control characters folded into single spaces.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The words of `allowed-tools`: a list, or a text with spaces or commas between them, those within
/// parentheses aside (`Bash(git add *)`). `None` for anything else.
fn tools(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(text) => {
            let mut depth = 0_u32;
            let words = text.split(move |c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                depth == 0 && (c == ',' || c.is_whitespace())
            });
            let words = words.map(one_line).filter(|word| !word.is_empty());
            Some(words.collect())
        }
        Value::List(items) => items
            .iter()
            .map(|item| match item {
                Value::Text(word) => Some(one_line(word)),
                _ => None,
            })
            .collect(),
        Value::Map(_) => None,
    }
}

/// What joins the head of a prompt: all names and descriptions, and the bodies that fit into
/// `budget` characters. Empty without skills; otherwise the same bytes for the same skills,
/// whatever their order.
#[must_use]
pub fn section(skills: &[Skill], budget: u32) -> String {
    if skills.is_empty() {
        return String::new();
    }
    let (skills, fits) = fitted(skills, budget);
    let mut out = "Skills tell when and how to use your tools:".to_owned();
    for skill in &skills {
        out.push_str(&format!("\n- {}: {}", skill.name, skill.description));
    }
    for (skill, fits) in skills.iter().zip(fits) {
        if fits && !skill.body.is_empty() {
            out.push_str(&format!(
                "\n\n<skill name=\"{}\">\n{}\n</skill>",
                skill.name, skill.body
            ));
        }
    }
    out
}

/// The names of skills whose bodies do not fit into `budget` characters, in name order.
#[must_use]
pub fn left_out(skills: &[Skill], budget: u32) -> Vec<&str> {
    let (skills, fits) = fitted(skills, budget);
    let all = skills.into_iter().zip(fits);
    all.filter(|(_, fits)| !fits)
        .map(|(skill, _)| skill.name.as_str())
        .collect()
}

/// The skills in name order, and for each whether its body still fits.
fn fitted(skills: &[Skill], budget: u32) -> (Vec<&Skill>, Vec<bool>) {
    let mut skills: Vec<&Skill> = skills.iter().collect();
    skills.sort_by(|a, b| a.name.cmp(&b.name));
    let mut left = usize::try_from(budget).unwrap_or(usize::MAX);
    let fits = skills.iter().map(|skill| {
        let rest = left.checked_sub(skill.body.chars().count());
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    let fits = fits.collect();
    (skills, fits)
}

#[cfg(test)]
#[path = "skill_tests.rs"]
mod tests;
