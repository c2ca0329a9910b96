//! Reads the arguments of a call: what is missing or of another type is told so that the model can
//! mend it. Pure.

use super::port::{Arguments, Fault};

/// The text under `key`.
///
/// # Errors
/// `Failed` where it is missing or no string.
pub(super) fn text<'a>(arguments: &'a Arguments, key: &str) -> Result<&'a str, Fault> {
    match arguments.get(key) {
        Some(value) => value
            .as_str()
            .ok_or_else(|| failed(format!("`{key}` has to be a string"))),
        None => Err(missing(key)),
    }
}

/// A fault about an argument that is not there.
pub(super) fn missing(key: &str) -> Fault {
    failed(format!("`{key}` is missing"))
}

/// A failure with these words.
pub(super) fn failed(told: impl Into<String>) -> Fault {
    Fault::Failed { told: told.into() }
}

/// The JSON schema of an object of required arguments, each with its type and its meaning.
pub(super) fn schema(arguments: &[(&str, Option<&str>, &str)]) -> serde_json::Value {
    let mut properties = serde_json::Map::new();
    for (name, kind, meaning) in arguments {
        let mut property = serde_json::Map::new();
        if let Some(kind) = kind {
            property.insert("type".into(), (*kind).into());
        }
        if !meaning.is_empty() {
            property.insert("description".into(), (*meaning).into());
        }
        properties.insert((*name).to_owned(), property.into());
    }
    let mut schema = serde_json::Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), properties.into());
    let names: Vec<_> = arguments.iter().map(|(name, _, _)| *name).collect();
    if !names.is_empty() {
        schema.insert("required".into(), names.into());
    }
    schema.into()
}
