//! Judges values that hold no others, by their shape. A refusal never repeats what may be a secret.

use std::borrow::Cow;

use super::words::{near_or_all, shown, Words};
use super::Context;
use crate::base::text::prefix;
use crate::config::json::Value;
use crate::config::values;
use crate::domain::catalogue::{Family, Shape};
use crate::domain::hosts;
use crate::domain::url::Url;

/// Judges a value that holds no others. The refusal never repeats what may be a secret.
pub(super) fn plain(cx: &Context<'_>, shape: Shape, value: &Value<'_>) -> Result<(), Words> {
    match (shape, value) {
        (Shape::Flag, Value::Bool(_)) => Ok(()),
        (Shape::Whole(least, most), Value::Number(literal)) => match values::whole(literal) {
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
            if values::is_env_name(text) && !is_key_like(text) {
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

/// Whether a text that could be a name is the key itself: long, and capitals, small letters and
/// digits mixed, as keys like `gsk_...` are. It would be repeated wherever the name is shown.
fn is_key_like(text: &str) -> bool {
    text.len() >= 32
        && text.bytes().any(|b| b.is_ascii_uppercase())
        && text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_digit())
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
        Shape::SingleWord(most) => {
            if text.chars().any(char::is_whitespace) {
                refuse("more than one word", "a single word, such as /new")
            } else if text.chars().count() > most {
                refuse("too long a word", "shorten it")
            } else {
                Ok(())
            }
        }
        _ => place(shape, text),
    }
}

/// Judges a string that names a place: a URL, an address, a host, a file, a moment, a sender.
fn place(shape: Shape, text: &str) -> Result<(), Words> {
    let refuse = |message: &str, help: &str| Err((message.to_owned(), help.to_owned()));
    match shape {
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
        Shape::HostPort => hosts::host_port(text).map(drop).map_err(|why| {
            (
                format!("can never match: {why}"),
                "such as 192.168.1.20:5678".into(),
            )
        }),
        Shape::HostName => match hosts::host_port(text) {
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
        _ => Ok(()),
    }
}

/// What is said of a kind that no catalogue has.
pub(super) fn unknown_kind(cx: &Context<'_>, family: Family, word: &str) -> Words {
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
