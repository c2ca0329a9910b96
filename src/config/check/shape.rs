//! Holds every value to its shape in the schema: keys, types, bounds. Knows no rule that spans
//! two keys.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::view::is_absent;
use super::Context;
use crate::base::text::{nearest, prefix, printable};
use crate::config::json::{push_index, push_key, Member, Node, Value};
use crate::config::{schema, values};
use crate::domain::catalogue::{Family, Field, Need, Shape};
use crate::domain::url::Url;

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

/// A value as it may be shown: short, without control characters.
pub(super) fn shown(text: &str) -> String {
    let cut = prefix(text, 64);
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", printable(cut))
}

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
enum Extension {
    /// These.
    Keys(Vec<&'static Field>),
    /// The kind is not known, so that these may be meant; they are not judged.
    Unknown(Vec<&'static Field>),
}

fn extension(cx: &Context<'_>, family: Family, node: &Node<'_>) -> Extension {
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
fn family_fields(cx: &Context<'_>, family: Family) -> Vec<&'static Field> {
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
fn owners(cx: &Context<'_>, family: Family, key: &str) -> Vec<&'static str> {
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
    if !is_absent(&node.value) {
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
        if is_absent(&member.node.value) && !guards {
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
                } else if !is_absent(&member.node.value) {
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

/// Numbers in free-form options must fit what the wire can carry.
fn open(cx: &Context<'_>, node: &Node<'_>, trail: &Trail<'_>) {
    match &node.value {
        Value::Number(text) if serde_json::from_str::<serde_json::Number>(text).is_err() => {
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

/// The whole number that a literal stands for, when it is one and fits.
pub(super) fn whole(literal: &str) -> Option<i64> {
    literal.parse().ok()
}

type Words = (String, String);

/// Judges a value that holds no others. The refusal never repeats what may be a secret.
fn plain(cx: &Context<'_>, shape: Shape, value: &Value<'_>) -> Result<(), Words> {
    match (shape, value) {
        (Shape::Flag, Value::Bool(_)) => Ok(()),
        (Shape::Whole(least, most), Value::Number(literal)) => match whole(literal) {
            Some(n) if (least..=most).contains(&n) => Ok(()),
            Some(_) => Err((
                format!("{} is out of bounds", shown(literal)),
                bounds(least, most),
            )),
            None => Err((
                format!("{} is not a whole number in bounds", shown(literal)),
                bounds(least, most),
            )),
        },
        (Shape::Either(shapes), _) => {
            if shapes.iter().any(|shape| plain(cx, *shape, value).is_ok()) {
                Ok(())
            } else {
                Err((
                    format!("{} is not possible here", described(value)),
                    format!("expected {}", expected(shape)),
                ))
            }
        }
        (Shape::Env, Value::Text(text)) => {
            if values::is_env_name(text) {
                Ok(())
            } else {
                Err(secret_like())
            }
        }
        (Shape::Env, _) => Err(secret_like()),
        (_, Value::Text(text)) if is_textual(shape) => textual(cx, shape, text),
        (_, Value::Number(literal)) if is_textual(shape) => Err(number_for_text(shape, literal)),
        _ => Err((
            format!("{} where {} belongs", value.kind(), expected(shape)),
            format!("write {}", expected(shape)),
        )),
    }
}

fn secret_like() -> Words {
    (
        "looks like a secret, put the variable's name here".into(),
        "a name has letters, digits and `_` only and does not begin with a digit; the value itself goes into the environment".into(),
    )
}

fn number_for_text(shape: Shape, literal: &str) -> Words {
    if let Shape::Span(..) = shape {
        return (
            "a number where a duration belongs".into(),
            "write it in quotes and with a unit, such as \"30s\"".into(),
        );
    }
    (
        format!("a number where {} belongs", expected(shape)),
        format!("write it in quotes: \"{}\"", prefix(literal, 64)),
    )
}

fn bounds(least: i64, most: i64) -> String {
    if least == most {
        format!("only {least} is possible")
    } else {
        format!("a whole number from {least} to {most}")
    }
}

fn described(value: &Value<'_>) -> Cow<'static, str> {
    match value {
        Value::Text(text) => shown(text).into(),
        Value::Number(text) => shown(text).into(),
        other => other.kind().into(),
    }
}

/// Whether a shape is written as a string.
fn is_textual(shape: Shape) -> bool {
    !matches!(
        shape,
        Shape::Flag
            | Shape::Whole(..)
            | Shape::List(..)
            | Shape::Object(_)
            | Shape::Extended(..)
            | Shape::PerTool(_)
            | Shape::Open
            | Shape::Either(_)
    )
}

/// What belongs in a place, in words.
fn expected(shape: Shape) -> String {
    match shape {
        Shape::Flag => "true or false".into(),
        Shape::Whole(least, most) => bounds(least, most),
        Shape::List(..) => "a list".into(),
        Shape::Object(_) | Shape::Extended(..) | Shape::PerTool(_) | Shape::Open => {
            "an object".into()
        }
        Shape::Span(..) => "a duration such as \"30s\"".into(),
        Shape::SignedSpan => "a duration such as \"10m\"".into(),
        Shape::Word(words) => format!("one of \"{}\"", words.join("\", \"")),
        Shape::Either(shapes) => shapes
            .iter()
            .map(|shape| expected(*shape))
            .collect::<Vec<_>>()
            .join(", or "),
        _ => "a string".into(),
    }
}

fn unknown_kind(cx: &Context<'_>, family: Family, word: &str) -> Words {
    let names = cx.catalogue.names(family);
    let noun = match family {
        Family::Channel => "channel type",
        Family::Provider => "provider",
        Family::Tool => "tool",
    };
    (
        format!("unknown {noun} {}", shown(word)),
        near_or_all(word, &names),
    )
}

/// "Did you mean", or all that there is.
pub(super) fn near_or_all(word: &str, names: &[&str]) -> String {
    // Of a word of one or two letters every other such word is near.
    let long = word.chars().count() > 2;
    match nearest(word, names.iter().copied()).filter(|_| long) {
        Some(near) => format!("did you mean {}?", shown(near)),
        None if names.is_empty() => "there is none".into(),
        None => {
            let all: Vec<_> = names.iter().map(|name| shown(name)).collect();
            format!("one of {}", all.join(", "))
        }
    }
}

/// Judges a string by its shape.
fn textual(cx: &Context<'_>, shape: Shape, text: &str) -> Result<(), Words> {
    let refuse = |message: &str, help: &str| Err((message.to_owned(), help.to_owned()));
    if text.is_empty() {
        return refuse("an empty string", "say something, or leave it out");
    }
    let control = |c: char| c.is_control() && !matches!(shape, Shape::Prose(_));
    if text.chars().any(|c| control(c) || c == '\0') {
        return refuse("a control character", "remove it");
    }
    match shape {
        Shape::Line(most) | Shape::Prose(most) => {
            let count = text.chars().count();
            if count > most {
                let message = format!("{count} characters, more than {most}");
                return refuse(&message, "shorten it");
            }
            if text.trim().is_empty() {
                return refuse("nothing but white space", "say something, or leave it out");
            }
            Ok(())
        }
        Shape::Word(words) if !words.contains(&text) => Err((
            format!("{} is not possible here", shown(text)),
            near_or_all(text, words),
        )),
        Shape::Kind(family) if !cx.catalogue.names(family).contains(&text) => {
            Err(unknown_kind(cx, family, text))
        }
        Shape::Span(least, most) => match values::span(text) {
            None => Err((
                format!("{} is not a duration", shown(text)),
                "numbers with units, such as 300ms, 1.5s, 2m, 1h30m".into(),
            )),
            Some(span) if !(least..=most).contains(&span) => Err((
                format!("{} is out of bounds", shown(text)),
                format!(
                    "from {} to {}",
                    values::span_text(least),
                    values::span_text(most)
                ),
            )),
            Some(_) => Ok(()),
        },
        Shape::SignedSpan if !values::is_signed_span(text) => Err((
            format!("{} is not a duration", shown(text)),
            "numbers with units, such as 10m or 24h".into(),
        )),
        Shape::UrlRoot => values::url_root(text)
            .map(drop)
            .map_err(|why| (why, "such as http://127.0.0.1:11434".into())),
        Shape::Url => Url::parse(text)
            .map(drop)
            .map_err(|why| (why.to_string(), "such as http://127.0.0.1:5678/hook".into())),
        Shape::UrlPath if !values::is_url_path(text) => Err((
            format!("{} is not the path of a request", shown(text)),
            "it begins with `/` and has no query, such as /webhook".into(),
        )),
        Shape::Listen if values::listen(text).is_none() => Err((
            format!("{} is not an address to listen on", shown(text)),
            "IP address and port, such as 127.0.0.1:8090".into(),
        )),
        Shape::File if text.starts_with('~') => refuse(
            "`~` is not expanded",
            "write the path in full, or relative to the file's folder",
        ),
        Shape::TimeOfDay if values::time_of_day(text).is_none() => Err((
            format!("{} is not a time of day", shown(text)),
            "hours and minutes, such as 04:00".into(),
        )),
        Shape::HostPort => values::host_port(text).map(drop).map_err(|why| {
            (
                format!("can never match: {why}"),
                "such as 192.168.1.20:5678".into(),
            )
        }),
        Shape::HostName => match values::host_port(text) {
            Ok((_, None)) => Ok(()),
            Ok((_, Some(_))) => refuse(
                "can never match: the port is not compared",
                "only the name, such as korvun.home",
            ),
            Err(why) => Err((
                format!("can never match: {why}"),
                "such as korvun.home".into(),
            )),
        },
        Shape::Header if !values::is_header_name(text) => Err((
            format!("{} is not the name of a header", shown(text)),
            "such as X-Signature".into(),
        )),
        Shape::SenderId if text.chars().any(char::is_whitespace) || text.starts_with('@') => Err((
            format!("{} is not a sender's id", shown(text)),
            "ids are numbers in quotes; the log shows the id of a sender who was not let in".into(),
        )),
        Shape::SingleWord(most) => {
            if text.chars().any(char::is_whitespace) {
                refuse("more than one word", "a single word, such as /new")
            } else if text.chars().count() > most {
                refuse("too long a word", "shorten it")
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}
