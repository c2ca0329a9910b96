//! Which keys an object of the file may have: those of the schema and those that its kind adds.

use super::Context;
use crate::config::json::{Node, Value};
use crate::domain::catalogue::{Family, Field, Shape};

/// The keys of a plain object.
pub(super) fn fields(list: &'static [Field]) -> Vec<&'static Field> {
    list.iter().collect()
}

/// The keys that an object of a shape may have; `None` where the shape is no object with keys.
pub(super) fn fields_of(
    cx: &Context<'_>,
    shape: Shape,
    node: &Node<'_>,
) -> Option<Vec<&'static Field>> {
    match shape {
        Shape::Object(list) => Some(fields(list)),
        Shape::Extended(list, family) => {
            let mut all = fields(list);
            match extension(cx, family, node) {
                Extension::Keys(more) | Extension::Unknown(more) => all.extend(more),
            }
            Some(all)
        }
        _ => None,
    }
}

/// The keys that its kind adds to an object.
pub(super) enum Extension {
    /// These.
    Keys(Vec<&'static Field>),
    /// The kind is not known, so that these may be meant; they are not judged.
    Unknown(Vec<&'static Field>),
}

pub(super) fn extension(cx: &Context<'_>, family: Family, node: &Node<'_>) -> Extension {
    let word = |key: &str| match &node.value {
        Value::Object(members) => {
            members
                .iter()
                .find(|member| member.key == key)
                .and_then(|member| match &member.node.value {
                    Value::Text(text) => Some(text.as_ref()),
                    _ => None,
                })
        }
        _ => None,
    };
    let known = match family {
        Family::Channel => word("type")
            .and_then(|name| cx.catalogue.channel(name))
            .map(|kind| fields(kind.fields)),
        Family::Provider => word("provider")
            .and_then(|name| cx.catalogue.provider(name))
            .map(|kind| fields(kind.fields)),
        Family::Tool => Some(family_fields(cx, Family::Tool)),
    };
    match known {
        Some(keys) => Extension::Keys(keys),
        None => Extension::Unknown(family_fields(cx, family)),
    }
}

/// Every key that any kind of a family adds.
pub(super) fn family_fields(cx: &Context<'_>, family: Family) -> Vec<&'static Field> {
    match family {
        Family::Channel => cx
            .catalogue
            .channels
            .iter()
            .flat_map(|kind| kind.fields)
            .collect(),
        Family::Provider => cx
            .catalogue
            .providers
            .iter()
            .flat_map(|kind| kind.fields)
            .collect(),
        Family::Tool => cx
            .catalogue
            .tools
            .iter()
            .filter_map(|kind| kind.cage.as_ref())
            .collect(),
    }
}

/// The kinds of a family that have a key.
pub(super) fn owners(cx: &Context<'_>, family: Family, key: &str) -> Vec<&'static str> {
    let has = |fields: &[Field]| fields.iter().any(|field| field.key == key);
    match family {
        Family::Channel => cx
            .catalogue
            .channels
            .iter()
            .filter(|kind| has(kind.fields))
            .map(|kind| kind.name)
            .collect(),
        Family::Provider => cx
            .catalogue
            .providers
            .iter()
            .filter(|kind| has(kind.fields))
            .map(|kind| kind.name)
            .collect(),
        Family::Tool => Vec::new(),
    }
}
