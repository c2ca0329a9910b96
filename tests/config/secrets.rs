//! Secrets by name: three sources, what counts as a value, and what is said of a missing one.

use std::fs;
use std::path::Path;

use korvun::base::secret::Redactor;
use korvun::config::problem::Severity;
use korvun::config::secrets::{resolve, Resolved, Sources};

use super::checked;
use super::plans::LEAST;

const NAME: &str = "KORVUN_WEBHOOK_TOKEN";
const LONG: &str = "0123456789abcdef-long-enough";

/// Sources with one variable in the environment.
fn environment(pairs: &[(&str, &str)]) -> Sources {
    Sources {
        environment: pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect(),
        ..Sources::default()
    }
}

fn resolved(text: &str, sources: &Sources, redactor: &Redactor) -> Resolved {
    let checked = checked(text);
    let plan = checked
        .plan
        .unwrap_or_else(|| panic!("{:#?}", checked.problems));
    resolve(&plan, &checked.places, sources, redactor)
}

fn value(resolved: &Resolved) -> Option<String> {
    let secrets = resolved.secrets.as_ref()?;
    secrets
        .of(&NAME.into())
        .map(|secret| secret.reveal().to_owned())
}

#[test]
fn the_environment_comes_before_credentials_and_they_before_the_env_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let env_file = folder.path().join("korvun.env");
    let credentials = folder.path().join("credentials");
    fs::create_dir(&credentials).expect("a folder");
    fs::write(&env_file, format!("{NAME}='from the env file, long'\n")).expect("a file");
    let mut sources = environment(&[]);
    sources.env_file = Some(env_file);
    sources.credentials_directory = Some(credentials.clone());
    let redactor = Redactor::new();
    let got = |sources: &Sources| value(&resolved(LEAST, sources, &redactor));
    assert_eq!(got(&sources).as_deref(), Some("from the env file, long"));
    // White is unset, so that the next source is asked.
    fs::write(credentials.join(NAME), " \n").expect("a file");
    assert_eq!(got(&sources).as_deref(), Some("from the env file, long"));
    fs::write(credentials.join(NAME), "from the credentials, long\n").expect("a file");
    assert_eq!(got(&sources).as_deref(), Some("from the credentials, long"));
    sources.environment.insert(NAME.into(), "".into());
    assert_eq!(got(&sources).as_deref(), Some("from the credentials, long"));
    sources.environment.insert(NAME.into(), LONG.into());
    assert_eq!(got(&sources).as_deref(), Some(LONG));
    assert_eq!(redactor.clean(&format!("x {LONG} y")), "x [secret] y");
    assert_eq!(
        redactor.clean("from the credentials, long"),
        "[secret]",
        "each value that was found is known"
    );
}

#[test]
fn a_missing_secret_names_the_variable_the_place_and_the_cure() {
    let resolved = resolved(LEAST, &environment(&[(NAME, " \t")]), &Redactor::new());
    assert!(resolved.secrets.is_none());
    let [problem] = &resolved.problems[..] else {
        panic!("{:?}", resolved.problems);
    };
    assert_eq!(problem.severity, Severity::Error);
    assert_eq!(problem.path, "channels[0].token_env");
    assert_eq!((problem.line, problem.column), (3, 38));
    assert!(problem.message.contains(NAME));
    assert!(problem.help.contains("export KORVUN_WEBHOOK_TOKEN=..."));
}

#[test]
fn a_short_token_of_a_platform_is_to_be_copied_whole() {
    let model = |key: &str| {
        format!(
            r#"{{"provider": "groq", "model_id": "m", "locality": "cloud", "api_key_env": "{key}"}}"#
        )
    };
    let text = format!(
        r#"{{"channels": [
            {{"type": "telegram", "mode": "polling", "token_env": "T", "allow_from": ["1"]}},
            {{"type": "discord", "mode": "gateway", "token_env": "D", "allow_from": ["1"]}},
            {{"type": "webhook", "token_env": "W", "webhook": {{"outbound_url": "http://127.0.0.1/x"}}}}],
          "brains": [{{"name": "b", "sensitivity": "public", "policy": {{"kind": "priority"}},
            "models": [{}]}}],
          "routes": [{{"channel": "telegram", "brain": "b"}}, {{"channel": "discord", "brain": "b"}},
            {{"channel": "webhook", "brain": "b"}}]}}"#,
        model("G")
    );
    let pairs = ["T", "D", "W", "G"].map(|name| (name, "hunter2"));
    let told = resolved(&text, &environment(&pairs), &Redactor::new()).problems;
    assert_eq!(told.len(), 4, "{told:#?}");
    for (problem, issuer) in [0, 1, 3]
        .map(|n| &told[n])
        .iter()
        .zip(["Telegram", "Discord", "Groq"])
    {
        let words = format!("too short for a token of {issuer}");
        assert!(problem.message.contains(&words), "{problem:?}");
        assert_eq!(problem.help, "copy it whole");
    }
    assert!(told[2].help.contains("openssl rand"), "{:?}", told[2]);
}

#[test]
fn short_ones_are_warned_of_and_control_characters_refused() {
    let short = resolved(LEAST, &environment(&[(NAME, "hunter2")]), &Redactor::new());
    assert_eq!(value(&short).as_deref(), Some("hunter2"));
    assert_eq!(short.problems[0].severity, Severity::Warning);
    let line_break = format!("{LONG}\n");
    let bad = resolved(
        LEAST,
        &environment(&[(NAME, &line_break)]),
        &Redactor::new(),
    );
    assert!(bad.secrets.is_none());
    assert!(bad.problems[0].message.contains("control character"));
    assert!(!format!("{:?}{:?}", short.problems, bad.problems).contains("hunter2"));
    assert!(!format!("{:?}", bad.problems).contains(LONG));
    // Of a credential one trailing newline is dropped, and no more.
    let folder = tempfile::tempdir().expect("a folder");
    let mut sources = environment(&[]);
    sources.credentials_directory = Some(folder.path().into());
    fs::write(folder.path().join(NAME), format!("{LONG}\n\n")).expect("a file");
    assert!(resolved(LEAST, &sources, &Redactor::new())
        .secrets
        .is_none());
}

#[test]
fn what_privacy_drops_and_the_admin_token_may_be_unset() {
    let text = LEAST
        .replace(
            "\"locality\": \"local\"}]",
            "\"locality\": \"local\"}, {\"provider\": \"groq\", \"model_id\": \"x\", \"locality\": \"cloud\", \"api_key_env\": \"GROQ_API_KEY\"}]",
        )
        .replace("\"routes\"", "\"admin\": {\"token_env\": \"ADMIN\"}, \"routes\"");
    let sources = environment(&[(NAME, LONG)]);
    let private = resolved(&text, &sources, &Redactor::new());
    assert_eq!(private.problems, []);
    let secrets = private.secrets.expect("secrets");
    assert!(secrets.of(&"GROQ_API_KEY".into()).is_none());
    assert!(secrets.of(&"ADMIN".into()).is_none());
    // Not even an unfit value of a key that nobody uses is in the way.
    let mut unfit = sources.clone();
    unfit
        .environment
        .insert("GROQ_API_KEY".into(), "\u{1}".into());
    assert_eq!(resolved(&text, &unfit, &Redactor::new()).problems, []);
    let public = text.replace("private", "public");
    let public = resolved(&public, &sources, &Redactor::new());
    assert!(public.secrets.is_none());
    assert_eq!(public.problems[0].path, "brains[0].models[1].api_key_env");
}

#[test]
fn an_env_file_that_cannot_be_read_is_an_error() {
    let mut sources = environment(&[(NAME, LONG)]);
    sources.env_file = Some(Path::new("/nonexistent/korvun.env").into());
    let resolved = resolved(LEAST, &sources, &Redactor::new());
    assert!(resolved.secrets.is_none());
    assert!(resolved.problems[0]
        .message
        .contains("/nonexistent/korvun.env"));
}

#[test]
fn sources_and_secrets_do_not_print_values() {
    let sources = environment(&[(NAME, LONG)]);
    let resolved = resolved(LEAST, &sources, &Redactor::new());
    assert!(!format!("{sources:?}{resolved:?}").contains(LONG));
}
