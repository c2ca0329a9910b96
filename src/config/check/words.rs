//! Words that many rules share: how a value is shown, which name was meant. Pure.

use crate::base::text::{nearest, prefix, printable};

/// Message and help of a problem.
pub(super) type Words = (String, String);

/// A value as it may be shown: short, without control characters.
pub(super) fn shown(text: &str) -> String {
    let cut = prefix(text, 64);
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", printable(cut))
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
