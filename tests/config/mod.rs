//! The configuration, by its rules: what each fragment says, and what each mistake is told.

use std::path::{Path, PathBuf};

use korvun::config::check::{check, Checked, Entry, Surroundings};
use korvun::config::problem::{Problem, Severity};
use korvun::domain::catalogue::Catalogue;

mod documents;
mod folders;
mod full;
mod plans;
mod rules;
mod secrets;
mod syntax;

/// Every kind that there is, as the program hands it down.
pub(crate) fn catalogue() -> Catalogue {
    korvun::daemon::load::catalogue()
}

/// A machine with a home and nothing else set.
pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        directory: PathBuf::from("/etc/korvun"),
        home: Some(PathBuf::from("/home/chano")),
        xdg_config_home: None,
        ollama_host: None,
        credentials_directory: None,
        env_file: None,
        entry: Entry::File,
    }
}

pub(crate) fn checked(text: &str) -> Checked {
    checked_in(text, &surroundings())
}

pub(crate) fn checked_in(text: &str, env: &Surroundings) -> Checked {
    check(
        text.as_bytes(),
        Path::new("/etc/korvun/korvun.json"),
        &catalogue(),
        env,
    )
}

pub(crate) fn errors(checked: &Checked) -> Vec<&Problem> {
    checked
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .collect()
}

/// A whole file around a piece: a channel, a brain, a route, or keys of the root, put into
/// [`plans::LEAST`].
pub(crate) fn whole(piece: &str) -> String {
    use serde_json::{json, Value};
    let piece: Value = serde_json::from_str(piece).expect("JSON");
    let has = |key: &str| piece.get(key).is_some();
    if has("channels") && has("brains") {
        return piece.to_string();
    }
    let mut file: Value = serde_json::from_str(plans::LEAST).expect("JSON");
    if has("type") {
        let route = json!({"channel": piece["type"], "brain": "assistant"});
        if piece["type"] == "webhook" {
            file["channels"] = json!([piece]);
        } else {
            file["channels"].as_array_mut().expect("a list").push(piece);
            file["routes"].as_array_mut().expect("a list").push(route);
        }
    } else if has("models") {
        file["brains"].as_array_mut().expect("a list").push(piece);
    } else if has("channel") {
        let mut brain = file["brains"][0].clone();
        brain["name"] = piece["brain"].clone();
        if piece["brain"] != "assistant" {
            file["brains"].as_array_mut().expect("a list").push(brain);
        }
        if piece["channel"] != "webhook" {
            let mode = match piece["channel"].as_str() {
                Some("discord") => "gateway",
                _ => "polling",
            };
            let channel = json!({"type": piece["channel"], "mode": mode, "token_env": "BOT_TOKEN", "allow_from": ["1"]});
            file["channels"]
                .as_array_mut()
                .expect("a list")
                .push(channel);
            file["routes"].as_array_mut().expect("a list").push(piece);
        }
    } else {
        for (key, value) in piece.as_object().expect("an object") {
            file[key] = value.clone();
        }
    }
    file.to_string()
}
