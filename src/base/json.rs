//! JSON whose cost in memory is bounded before it is read: a value takes a hundred times its bytes.

use serde_json::Value;

/// Reads JSON of at most `most` values; `None` for more, and for what is no JSON.
#[must_use]
pub fn bounded(text: &[u8], most: usize) -> Option<Value> {
    (values(text) <= most).then(|| serde_json::from_slice(text).ok())?
}

/// About how many values a JSON text has: one for each comma and bracket outside its strings.
fn values(body: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_strings_and_too_many_are_not_read() {
        let text = br#"{"a":[1,2,{"b":"x,[{\",["}],"c":null}"#;
        assert_eq!(values(text), 6);
        assert!(bounded(text, 6).is_some());
        assert!(bounded(text, 5).is_none());
        assert!(bounded(b"{", 6).is_none());
    }
}
