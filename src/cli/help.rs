//! Help, written from the table of commands.

use std::fmt::Write;

use super::command::{Entry, COMMANDS, EVERYWHERE};
use super::given::Flag;
use super::style::{Role, Style};

/// Characters of one line of running text: fits a terminal of 80.
const WIDTH: usize = 76;

/// The list of commands.
#[must_use]
pub fn list(style: Style) -> String {
    let mut out = format!(
        "Korvun {}: a self-hosted AI messaging gateway\n\nusage: {}\n\n",
        env!("CARGO_PKG_VERSION"),
        style.paint(Role::Name, "korvun COMMAND [OPTIONS]")
    );
    rows(
        &mut out,
        style,
        COMMANDS.iter().map(|entry| (words(entry), entry.summary)),
    );
    out.push_str(
        "\n`korvun help COMMAND` tells more. `korvun demo` is the quickest way to see it work.\n",
    );
    out
}

/// How one command is used.
#[must_use]
pub fn of(entry: &Entry, style: Style) -> String {
    let mut usage = format!("korvun {}", words(entry));
    for flag in entry.flags {
        let _ = write!(usage, " [{}]", option(flag));
    }
    let mut out = format!(
        "{}\n\nusage: {}\n\n",
        entry.summary,
        style.paint(Role::Name, &usage)
    );
    rows(
        &mut out,
        style,
        entry
            .flags
            .iter()
            .chain(&EVERYWHERE)
            .map(|flag| (option(flag), flag.summary)),
    );
    if !entry.about.is_empty() {
        out.push('\n');
        wrap(&mut out, entry.about);
    }
    out
}

fn words(entry: &Entry) -> String {
    format!("{} {}", entry.name, entry.operand)
        .trim_end()
        .to_owned()
}

fn option(flag: &Flag) -> String {
    format!("--{} {}", flag.name, flag.value)
        .trim_end()
        .to_owned()
}

fn rows(
    out: &mut String,
    style: Style,
    rows: impl Iterator<Item = (String, &'static str)> + Clone,
) {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, summary) in rows {
        let gap = " ".repeat(width - name.len());
        let _ = writeln!(out, "  {}{gap}  {summary}", style.paint(Role::Name, &name));
    }
}

fn wrap(out: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH {
            out.push('\n');
            column = 0;
        }
        if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_everything_in_lines_that_fit() {
        let list = list(Style::PLAIN);
        for entry in &COMMANDS {
            assert!(list.contains(entry.name) && list.contains(entry.summary));
            let help = of(entry, Style::PLAIN);
            for flag in entry.flags.iter().chain(&EVERYWHERE) {
                assert!(help.contains(&option(flag)) && help.contains(flag.summary));
            }
            for line in help.lines().filter(|line| !line.starts_with("usage")) {
                assert!(line.chars().count() <= 92, "{line}");
            }
        }
    }
}
