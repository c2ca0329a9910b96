//! Reads a command line by the table of commands. Pure: reads no file, no environment, prints nothing.

use std::ffi::OsString;

use lexopt::Arg;

use super::command::{find, Command, COMMANDS, EVERYWHERE};
use super::given::{Flag, Given, Usage};
use super::style::Wish;
use crate::base::text::nearest;

/// A command line that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// What is asked for.
    pub command: Command,
    /// Whether colour was switched off.
    pub colour: Wish,
}

/// Reads a command line; the program's own name is not part of `args`.
///
/// # Errors
/// [`Usage`], with the nearest real name where one was mistyped.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Typed, Usage> {
    let mut given = read(args)?;
    let colour = match given.has("no-color") {
        true => Wish::Plain,
        false => Wish::Auto,
    };
    let wants_help = given.has("help");
    given.flags.retain(|(flag, _)| !EVERYWHERE.contains(flag));
    let words = given.shown();
    let entry = match words.as_slice() {
        [] if wants_help || given.flags.is_empty() => {
            let command = Command::Help(None);
            return Ok(Typed { command, colour });
        }
        // Options without a command belong to `serve`, as in `korvun --config FILE`.
        [] => &COMMANDS[0],
        words => {
            let (entry, used) = find(words)?;
            given.words.drain(..used);
            entry
        }
    };
    if wants_help {
        let command = Command::Help(Some(entry));
        return Ok(Typed { command, colour });
    }
    if let Some((flag, _)) = given
        .flags
        .iter()
        .find(|(flag, _)| !entry.flags.contains(flag))
    {
        return Err(Usage::new(
            format!("`{}` takes no --{}", entry.name, flag.name),
            format!("`korvun help {}` lists what it takes", entry.name),
        ));
    }
    if let (true, Some(word)) = (entry.operand.is_empty(), given.words.first()) {
        return Err(Usage::new(
            format!("`{}` is one word too many", word.to_string_lossy()),
            format!("`korvun help {}` shows how it is used", entry.name),
        ));
    }
    let command = (entry.build)(given)?;
    Ok(Typed { command, colour })
}

/// Sorts a command line into words and options.
fn read(args: impl IntoIterator<Item = OsString>) -> Result<Given, Usage> {
    // The documented form `-config FILE` has a single dash.
    let args = args.into_iter().map(|arg| match arg.to_str() {
        Some(text) if text == "-config" || text.starts_with("-config=") => {
            OsString::from(format!("-{text}"))
        }
        _ => arg,
    });
    let mut parser = lexopt::Parser::from_args(args);
    let mut given = Given::default();
    loop {
        let name = match parser.next().map_err(usage)? {
            None => return Ok(given),
            Some(Arg::Value(word)) => {
                given.words.push(word);
                continue;
            }
            Some(Arg::Short('h')) => "help".to_owned(),
            Some(Arg::Short('V')) => {
                given.words.push("version".into());
                continue;
            }
            Some(Arg::Long("version")) => {
                given.words.push("version".into());
                continue;
            }
            Some(Arg::Short(letter)) => return Err(unknown_flag(&format!("-{letter}"), "")),
            Some(Arg::Long(name)) => name.to_owned(),
        };
        let Some(flag) = flags().find(|flag| flag.name == name) else {
            return Err(unknown_flag(&format!("--{name}"), &name));
        };
        let value = match flag.value {
            "" => None,
            _ => Some(parser.value().map_err(usage)?),
        };
        given.flags.push((flag, value));
    }
}

/// Every option of every command.
fn flags() -> impl Iterator<Item = &'static Flag> {
    COMMANDS
        .iter()
        .flat_map(|entry| entry.flags)
        .chain(&EVERYWHERE)
}

fn unknown_flag(typed: &str, name: &str) -> Usage {
    let near = nearest(name, flags().map(|flag| flag.name));
    Usage::new(
        format!("unknown option `{typed}`"),
        match near.filter(|_| !name.is_empty()) {
            Some(near) => format!("did you mean --{near}?"),
            None => "`korvun help COMMAND` lists the options of a command".to_owned(),
        },
    )
}

fn usage(error: lexopt::Error) -> Usage {
    Usage::new(error.to_string(), "`korvun help` lists all commands")
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
