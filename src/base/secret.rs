//! Secrets that do not print, and the redactor that takes them out of whatever is printed.

use std::fmt;
use std::sync::{Arc, RwLock};

/// A secret value. Prints as `[secret]`; compares in constant time only through [`Secret::matches`].
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    #[must_use]
    pub fn new(value: &str) -> Secret {
        Secret(value.into())
    }

    /// The value itself, for the one place that puts it on the wire.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `candidate` is this secret, in a time that depends on lengths only.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        use subtle::ConstantTimeEq;
        self.0.as_bytes().ct_eq(candidate).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// What stands where a secret stood.
pub const MASK: &str = "[secret]";

/// Knows every secret value in use and takes it out of text: as it is, percent-encoded (either
/// case), and JSON-escaped. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Vec<String>>>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new() -> Redactor {
        Redactor::default()
    }

    /// Adds a secret, in all the forms in which it may turn up. Values of under four bytes are
    /// left out: masking them would tear every other word apart and hide nothing.
    pub fn learn(&self, secret: &Secret) {
        let value = secret.reveal();
        if value.len() < 4 {
            return;
        }
        let mut forms = vec![
            value.to_owned(),
            percent(value, false, false),
            percent(value, true, false),
            percent(value, false, true),
            percent(value, true, true),
            json(value),
            json(value).replace('/', "\\/"),
            format!("{value:?}").trim_matches('"').to_owned(),
        ];
        let mut known = self
            .0
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        forms.retain(|form| !known.contains(form));
        known.append(&mut forms);
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
    }

    /// `text` with every known secret masked; borrowed as it was when there is none.
    #[must_use]
    pub fn clean<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        let known = self
            .0
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut out = std::borrow::Cow::Borrowed(text);
        for form in known.iter() {
            if out.contains(form.as_str()) {
                out = std::borrow::Cow::Owned(out.replace(form.as_str(), MASK));
            }
        }
        out
    }
}

fn percent(value: &str, lower: bool, keep_sub_delims: bool) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || b"-._~".contains(&byte)
            || (keep_sub_delims && b"!$&'()*+,;=:@/".contains(&byte));
        if plain {
            out.push(byte as char);
        } else if lower {
            out.push_str(&format!("%{byte:02x}"));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_in_every_form() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("123:ab/c\"d é"));
        for text in [
            "x 123:ab/c\"d é y",
            "x 123%3Aab%2Fc%22d%20%C3%A9 y",
            "x 123%3aab%2fc%22d%20%c3%a9 y",
            "x 123:ab/c%22d%20%C3%A9 y",
            "x 123:ab/c\\\"d é y",
            "x 123:ab\\/c\\\"d é y",
        ] {
            assert_eq!(redactor.clean(text), "x [secret] y");
        }
        assert_eq!(redactor.clean("nothing here"), "nothing here");
    }

    #[test]
    fn a_secret_within_another_is_masked_by_the_longer_one() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("abcdef"));
        redactor.learn(&Secret::new("abcdef-ghijkl"));
        assert_eq!(redactor.clean("abcdef-ghijkl abcdef"), "[secret] [secret]");
    }

    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new("hunter2hunter2");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert!(secret.matches(b"hunter2hunter2"));
        assert!(!secret.matches(b"hunter2hunter3"));
        assert!(!secret.matches(b""));
    }
}
