//! `korvun config check`: every problem of a file, for a person or a script. The main thread runs
//! it; without `--preflight` it reads nothing but the file and the skills that it names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::{json, Value};

use super::command::Form;
use super::style::{Role, Style};
use super::Exit;
use crate::base::text::printable;
use crate::config::check::{check, read, Checked, Surroundings};
use crate::config::problem::{Problem, Severity};
use crate::daemon::preflight::{Outcome, Tried};
use crate::domain::catalogue::Catalogue;
use crate::domain::ids::BrainName;
use crate::domain::skill::Skill;

/// Columns that the names of checks share; a longer one pushes its own line only.
const NAME_WIDTH: usize = 48;

/// What is known of a file.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The file as it was named.
    pub file: &'a Path,
    /// Its problems, in its own order.
    pub problems: &'a [Problem],
    /// What a preflight tried; empty without one.
    pub tried: &'a [Tried],
}

/// Reads a file and checks it offline.
///
/// Blocks: for as long as the disk takes.
///
/// # Errors
/// The one problem of a file that cannot be read.
pub fn look(
    file: &Path,
    env_file: Option<&Path>,
    catalogue: &Catalogue,
) -> Result<Checked, Problem> {
    let bytes = read(file)?;
    let surroundings = Surroundings::of_process(file, env_file);
    Ok(check(&bytes, file, catalogue, &surroundings))
}

/// The good skills of each brain, with the tools that they name; those grant nothing.
#[must_use]
pub fn skills(found: &BTreeMap<BrainName, Vec<Skill>>) -> Vec<Tried> {
    let all = found
        .iter()
        .flat_map(|(brain, skills)| skills.iter().map(move |skill| (brain, skill)));
    all.map(|(brain, skill)| Tried {
        name: format!("brain {brain}: skill {}", skill.name),
        outcome: Outcome::Ok,
        message: match skill.allowed_tools.as_slice() {
            [] => "good".to_owned(),
            tools => format!(
                "good; allowed-tools: {} (recorded, grants nothing)",
                tools.join(", ")
            ),
        },
        help: String::new(),
    })
    .collect()
}

impl Report<'_> {
    /// How the process ends that shows it.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if self.count(Severity::Error) > 0 {
            Exit::Usage
        } else if self.failed() > 0 {
            Exit::Failed
        } else {
            Exit::Done
        }
    }

    /// The report in the form asked for, with its last line's end.
    #[must_use]
    pub fn write(&self, form: Form, style: Style) -> String {
        match form {
            Form::Json => format!("{}\n", self.json()),
            Form::Text => self.text(style),
        }
    }

    fn count(&self, severity: Severity) -> usize {
        let same = |problem: &&Problem| problem.severity == severity;
        self.problems.iter().filter(same).count()
    }

    fn failed(&self) -> usize {
        let failed = |tried: &&Tried| tried.outcome == Outcome::Failed;
        self.tried.iter().filter(failed).count()
    }

    fn json(&self) -> Value {
        let problems: Vec<Value> = self.problems.iter().map(Problem::json).collect();
        let checks: Vec<Value> = self.tried.iter().map(check_json).collect();
        json!({
            "file": self.file.to_string_lossy(),
            "ok": self.exit() == Exit::Done,
            "problems": problems,
            "checks": checks,
        })
    }

    fn text(&self, style: Style) -> String {
        let mut out = String::new();
        let file = printable(&self.file.to_string_lossy());
        for problem in self.problems {
            let place = match problem.line {
                0 => file.clone(),
                line => format!("{file}:{line}:{}", problem.column),
            };
            let role = match problem.severity {
                Severity::Error => Role::Bad,
                Severity::Warning => Role::Odd,
            };
            let what = match problem.path.as_str() {
                "" => problem.message.clone(),
                path => format!("{path}: {}", problem.message),
            };
            line(
                &mut out,
                style,
                &place,
                role,
                problem.severity.word(),
                &what,
                &problem.help,
            );
        }
        out.push_str(&table(self.tried, style));
        let verdict = match self.exit() {
            Exit::Done => style.paint(Role::Good, "good"),
            Exit::Failed => style.paint(Role::Bad, "would not run here"),
            _ => style.paint(Role::Bad, "cannot run"),
        };
        let counts = [
            (self.count(Severity::Error), "error"),
            (self.count(Severity::Warning), "warning"),
            (self.failed(), "failed check"),
        ];
        let counts: String = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!(", {count} {what}{}", if *count == 1 { "" } else { "s" }))
            .collect();
        let _ = writeln!(out, "{file}: {verdict}{counts}");
        out
    }
}

fn check_json(tried: &Tried) -> Value {
    json!({
        "name": tried.name,
        "status": tried.outcome.word(),
        "message": tried.message,
        "help": tried.help,
    })
}

/// One line for each check, in columns.
fn table(all: &[Tried], style: Style) -> String {
    let names: Vec<String> = all.iter().map(|tried| printable(&tried.name)).collect();
    let widths = names.iter().map(|name| name.chars().count());
    let width = widths.max().unwrap_or(0).min(NAME_WIDTH);
    let mut out = String::new();
    for (tried, name) in all.iter().zip(&names) {
        let role = match tried.outcome {
            Outcome::Ok => Role::Good,
            Outcome::Warn => Role::Odd,
            Outcome::Failed => Role::Bad,
        };
        let word = style.paint(role, &format!("{:<6}", tried.outcome.word()));
        let _ = write!(out, "{word}  {name:<width$}  {}", printable(&tried.message));
        if !tried.help.is_empty() {
            let asks = tried.message.ends_with('?');
            let between = if asks { "" } else { ";" };
            let help = style.paint(Role::Aside, &tried.help);
            let _ = write!(out, "{between} {help}");
        }
        out.push('\n');
    }
    out
}

/// One finding, its cure indented below it.
fn line(
    out: &mut String,
    style: Style,
    place: &str,
    role: Role,
    word: &str,
    what: &str,
    help: &str,
) {
    let _ = writeln!(
        out,
        "{place}: {}: {}",
        style.paint(role, word),
        printable(what)
    );
    if !help.is_empty() {
        let _ = writeln!(out, "    {}", style.paint(Role::Aside, help));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(severity: Severity, line: usize) -> Problem {
        Problem {
            severity,
            path: "brains[0].nmae".into(),
            line,
            column: 7,
            message: "unknown key".into(),
            help: "did you mean `name`?".into(),
        }
    }

    fn tried(outcome: Outcome) -> Tried {
        Tried {
            name: "port 127.0.0.1:8090".into(),
            outcome,
            message: "in use".into(),
            help: "stop what holds it".into(),
        }
    }

    #[test]
    fn the_exit_code_follows_the_gravest_finding() {
        use Outcome::{Failed, Ok, Warn};
        use Severity::{Error, Warning};
        for (problems, checks, exit) in [
            (vec![], vec![], Exit::Done),
            (vec![Warning], vec![Ok, Warn], Exit::Done),
            (vec![Warning], vec![Ok, Failed], Exit::Failed),
            (vec![Warning, Error], vec![Failed], Exit::Usage),
            (vec![Error], vec![], Exit::Usage),
        ] {
            let problems: Vec<Problem> = problems.into_iter().map(|s| problem(s, 3)).collect();
            let checks: Vec<Tried> = checks.into_iter().map(tried).collect();
            let report = Report {
                file: Path::new("k.json"),
                problems: &problems,
                tried: &checks,
            };
            assert_eq!(report.exit(), exit);
            assert_eq!(report.json()["ok"], exit == Exit::Done);
        }
    }

    #[test]
    fn a_person_reads_place_word_and_cure() {
        let problems = [problem(Severity::Error, 3), problem(Severity::Warning, 0)];
        let report = Report {
            file: Path::new("k\u{1b}.json"),
            problems: &problems,
            tried: &[tried(Outcome::Warn)],
        };
        assert_eq!(
            report.write(Form::Text, Style::PLAIN),
            "k\\u{1b}.json:3:7: error: brains[0].nmae: unknown key\n    did you mean `name`?\n\
             k\\u{1b}.json: warning: brains[0].nmae: unknown key\n    did you mean `name`?\n\
             warn    port 127.0.0.1:8090  in use; stop what holds it\n\
             k\\u{1b}.json: cannot run, 1 error, 1 warning\n"
        );
    }

    #[test]
    fn a_script_reads_the_keys_of_the_contract() {
        let problems = [problem(Severity::Error, 3)];
        let report = Report {
            file: Path::new("k.json"),
            problems: &problems,
            tried: &[tried(Outcome::Failed)],
        };
        assert_eq!(
            report.write(Form::Json, Style::PLAIN),
            "{\"file\":\"k.json\",\"ok\":false,\"problems\":[{\"severity\":\"error\",\
             \"path\":\"brains[0].nmae\",\"line\":3,\"column\":7,\"message\":\"unknown key\",\
             \"help\":\"did you mean `name`?\"}],\"checks\":[{\"name\":\"port 127.0.0.1:8090\",\
             \"status\":\"failed\",\"message\":\"in use\",\"help\":\"stop what holds it\"}]}\n"
        );
    }
}
