//! Every rule of the file as a table: a piece put into a correct file, and what is said of it.

use korvun::config::problem::Severity;

use super::plans::LEAST;
use super::{checked, errors};

/// A part of [`LEAST`] replaced by something else.
fn changed(part: &str, by: &str) -> String {
    assert!(LEAST.contains(part), "{part} is not in the file");
    LEAST.replacen(part, by, 1)
}

#[test]
fn every_problem_is_told_at_once_and_in_order() {
    let text = r#"{
  "chanels": [],
  "channels": [{"type": "telegrm"}],
  "brains": [{"name": "a", "sensitivity": "secret"}],
  "routes": [{"channel": "webhook", "brain": "b"}]
}"#;
    let checked = checked(text);
    assert_eq!(checked.plan, None);
    let seen: Vec<_> = checked
        .problems
        .iter()
        .map(|problem| (problem.path.as_str(), problem.line, problem.column))
        .collect();
    assert_eq!(
        seen,
        [
            ("chanels", 2, 14),
            ("channels[0].type", 3, 25),
            ("brains[0].models", 4, 14),
            ("brains[0].policy", 4, 14),
            ("brains[0].sensitivity", 4, 43),
            ("routes[0].channel", 5, 26),
            ("routes[0].brain", 5, 46),
        ],
        "{:#?}",
        checked.problems
    );
    assert_eq!(checked.problems[0].help, "did you mean `channels`?");
    assert_eq!(checked.problems[1].help, "did you mean `telegram`?");
    assert_eq!(errors(&checked).len(), 6);
    assert_eq!(checked.problems[5].severity, Severity::Warning);
}

#[test]
fn a_secret_in_place_of_a_name_is_refused_and_not_repeated() {
    let checked = checked(&changed(
        "\"KORVUN_WEBHOOK_TOKEN\"",
        "\"12345:AAsecretsecret\"",
    ));
    let problem = &checked.problems[0];
    assert_eq!(problem.path, "channels[0].token_env");
    assert_eq!(
        problem.message,
        "looks like a secret, put the variable's name here"
    );
    assert!(!format!("{:?}", checked.problems).contains("secretsecret"));
}
