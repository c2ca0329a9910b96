//! Holds every value to its shape in the schema: keys, types, bounds. Knows no rule that spans
//! two keys.

use std::collections::{HashMap, HashSet};

use super::keys::{extension, family_fields, fields, owners, Extension};
use super::plain::{plain, unknown_kind};
use super::words::shown;
use super::Context;
use crate::base::text::nearest;
use crate::config::json::{push_index, push_key, Member, Node, Value};
use crate::config::schema;
use crate::domain::catalogue::{Family, Field, Need, Shape};

/// The way from the root to a value; text is made of it only for a problem.
#[derive(Clone, Copy)]
struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    const ROOT: Trail<'static> = Trail {
        parent: None,
        step: Step::Root,
    };

    fn key(&'a self, key: &'a str) -> Trail<'a> {
        Trail {
            parent: Some(self),
            step: Step::Key(key),
        }
    }

    fn index(&'a self, index: usize) -> Trail<'a> {
        Trail {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    fn path(&self) -> String {
        let mut path = self.parent.map(Trail::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Key(key) => push_key(&mut path, key),
            Step::Index(index) => push_index(&mut path, index),
        }
        path
    }
}

/// Reports repeated keys, keys that differ only in case, and comments that are no strings, in
/// every object of the file.
pub(super) fn keys(cx: &Context<'_>, root: &Node<'_>) {
    keys_below(cx, root, &Trail::ROOT);
}

fn keys_below(cx: &Context<'_>, node: &Node<'_>, trail: &Trail<'_>) {
    match &node.value {
        Value::List(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                keys_below(cx, node, &trail.index(index));
            }
        }
        Value::Object(members) => {
            let mut seen: HashSet<&str> = HashSet::new();
            let mut folded: HashMap<String, &str> = HashMap::new();
            for member in members {
                let below = trail.key(&member.key);
                let at = member.node.at;
                if !seen.insert(&member.key) {
                    cx.found.error(
                        at,
                        || below.path(),
                        || {
                            (
                                format!("the key {} stands here twice", shown(&member.key)),
                                "keep one of the two".into(),
                            )
                        },
                    );
                } else if let Some(first) = folded.get(member.key.to_lowercase().as_str()) {
                    cx.found.error(
                        at,
                        || below.path(),
                        || {
                            (
                                format!(
                                    "the keys {} and {} differ only in case",
                                    shown(first),
                                    shown(&member.key)
                                ),
                                "keep one of the two".into(),
                            )
                        },
                    );
                } else {
                    folded.insert(member.key.to_lowercase(), &member.key);
                }
                if member.key == "_comment" && !matches!(member.node.value, Value::Text(_)) {
                    cx.found.error(
                        at,
                        || below.path(),
                        || {
                            (
                                format!("a comment is a string, not {}", member.node.value.kind()),
                                "write \"_comment\": \"...\"".into(),
                            )
                        },
                    );
                }
                keys_below(cx, &member.node, &below);
            }
        }
        _ => {}
    }
}

/// Holds the whole document to the schema.
pub(super) fn document(cx: &Context<'_>, root: &Node<'_>) {
    value(cx, root, Shape::Object(schema::ROOT), &Trail::ROOT);
}

fn object(
    cx: &Context<'_>,
    node: &Node<'_>,
    members: &[Member<'_>],
    shape: Shape,
    trail: &Trail<'_>,
) {
    let (list, family) = match shape {
        Shape::Object(list) => (list, None),
        Shape::Extended(list, family) => (list, Some(family)),
        _ => return,
    };
    let mut known = fields(list);
    let mut unjudged = Vec::new();
    match family.map(|family| extension(cx, family, node)) {
        Some(Extension::Keys(more)) => known.extend(more),
        Some(Extension::Unknown(more)) => unjudged = more,
        None => {}
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for member in members {
        if member.key == "_comment" || !seen.insert(&member.key) {
            continue;
        }
        if let Some(field) = known.iter().find(|field| field.key == member.key) {
            field_value(cx, member, field, trail);
        } else if !unjudged.iter().any(|field| field.key == member.key) {
            unknown_key(cx, member, members, &known, family, trail);
        }
    }
    for field in known {
        if field.need == Need::Required && !seen.contains(field.key) {
            cx.found.error(
                node.at,
                || trail.key(field.key).path(),
                || (format!("`{}` is missing", field.key), field.docs.en.into()),
            );
        }
    }
}

fn field_value(cx: &Context<'_>, member: &Member<'_>, field: &Field, trail: &Trail<'_>) {
    let below = trail.key(field.key);
    let node = &member.node;
    if !node.value.is_absent() {
        value(cx, node, field.shape, &below);
        return;
    }
    match field.need {
        Need::Optional | Need::When(_) => {}
        Need::Required => cx.found.error(
            node.at,
            || below.path(),
            || (format!("`{}` is empty", field.key), field.docs.en.into()),
        ),
        Need::Guarded => cx.found.error(
            node.at,
            || below.path(),
            || {
                (
                    format!(
                        "`{}` is empty, which would open what it means to close",
                        field.key
                    ),
                    "leave the key out, or say what it allows".into(),
                )
            },
        ),
    }
}

fn unknown_key(
    cx: &Context<'_>,
    member: &Member<'_>,
    siblings: &[Member<'_>],
    known: &[&'static Field],
    family: Option<Family>,
    trail: &Trail<'_>,
) {
    let key: &str = &member.key;
    let foreign = family.map_or_else(Vec::new, |family| owners(cx, family, key));
    if !foreign.is_empty() {
        // A key of another kind that says nothing is nothing; one that guards must not be empty.
        let guards = family.is_some_and(|family| {
            family_fields(cx, family)
                .iter()
                .any(|field| field.key == key && field.need == Need::Guarded)
        });
        if member.node.value.is_absent() && !guards {
            return;
        }
    }
    let same = |known_key: &str| known_key.to_lowercase() == key.to_lowercase();
    let variant = known.iter().find(|field| same(field.key));
    if variant.is_some_and(|field| siblings.iter().any(|member| member.key == field.key)) {
        return; // reported as two keys that differ only in case
    }
    cx.found.error(
        member.node.at,
        || trail.key(key).path(),
        || {
            if !foreign.is_empty() {
                return (
                    format!("`{key}` does not belong here"),
                    format!("it is a key of {}", foreign.join(" and ")),
                );
            }
            let with_env = format!("{key}_env");
            let meant = variant
                .map(|field| field.key)
                .or_else(|| {
                    known
                        .iter()
                        .map(|field| field.key)
                        .find(|known| *known == with_env)
                })
                .or_else(|| nearest(key, known.iter().map(|field| field.key)));
            let help = match meant {
                Some(meant) if meant == with_env => {
                    format!("secrets are given by name: put the variable's name into `{meant}`")
                }
                Some(meant) => format!("did you mean `{meant}`?"),
                None => {
                    let all: Vec<_> = known.iter().map(|field| field.key).collect();
                    format!("known keys here: {}", all.join(", "))
                }
            };
            (format!("unknown key {}", shown(key)), help)
        },
    );
}

/// Holds one value to its shape; what is refused is marked as not to be used.
fn value(cx: &Context<'_>, node: &Node<'_>, shape: Shape, trail: &Trail<'_>) {
    match (shape, &node.value) {
        (Shape::Object(_) | Shape::Extended(..), Value::Object(members)) => {
            object(cx, node, members, shape, trail);
        }
        (Shape::PerTool(list), Value::Object(members)) => {
            let mut seen: HashSet<&str> = HashSet::new();
            for member in members {
                if member.key == "_comment" || !seen.insert(&member.key) {
                    continue;
                }
                let below = trail.key(&member.key);
                if cx.catalogue.tool(&member.key).is_none() {
                    cx.found.error(
                        member.node.at,
                        || below.path(),
                        || unknown_kind(cx, Family::Tool, &member.key),
                    );
                } else if !member.node.value.is_absent() {
                    value(cx, &member.node, Shape::Object(list), &below);
                }
            }
        }
        (Shape::Open, Value::Object(_)) => open(cx, node, trail),
        (Shape::List(of, least, most), Value::List(nodes)) => {
            for (index, node) in nodes.iter().take(most).enumerate() {
                value(cx, node, *of, &trail.index(index));
            }
            if nodes.len() < least || nodes.len() > most {
                cx.found.spoil(node.at);
                cx.found.error(
                    node.at,
                    || trail.path(),
                    || {
                        if nodes.len() > most {
                            (
                                format!("{} entries, more than {most}", nodes.len()),
                                "shorten the list".into(),
                            )
                        } else {
                            (
                                "an empty list".into(),
                                "at least one entry is needed".into(),
                            )
                        }
                    },
                );
            }
        }
        _ => {
            if let Err((message, help)) = plain(cx, shape, &node.value) {
                cx.found.spoil(node.at);
                cx.found.error(node.at, || trail.path(), || (message, help));
            }
        }
    }
}

/// Numbers in free-form options must be ones that the other side can read.
fn open(cx: &Context<'_>, node: &Node<'_>, trail: &Trail<'_>) {
    match &node.value {
        Value::Number(text) if !text.parse().is_ok_and(f64::is_finite) => {
            cx.found.error(
                node.at,
                || trail.path(),
                || ("a number out of range".into(), "use a smaller one".into()),
            );
        }
        Value::List(nodes) => {
            for (index, node) in nodes.iter().enumerate() {
                open(cx, node, &trail.index(index));
            }
        }
        Value::Object(members) => {
            for member in members {
                open(cx, &member.node, &trail.key(&member.key));
            }
        }
        _ => {}
    }
}
