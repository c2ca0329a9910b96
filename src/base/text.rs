//! Text that is cut, quoted and compared.

/// The longest prefix of `text` that has at most `bytes` bytes and ends between characters.
#[must_use]
pub fn prefix(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `text` with every control character (C0, DEL, C1, line and paragraph separators, bidirectional
/// overrides) written as an escape, so that a terminal or a log line shows it and does not obey it.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                out.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// The candidate nearest to a mistyped `word`: within a third of its length by insertions,
/// deletions, replacements and swaps of neighbours, letters compared without case.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| {
            (
                distance(&word.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance. Words above 64 characters count as far from everything.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_between_characters() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(prefix("aé", 3), "aé");
        assert_eq!(prefix("😀", 3), "");
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(
            printable("a\u{1b}[2Jb\r\n\u{9b}\u{202e}"),
            "a\\u{1b}[2Jb\\r\\n\\u{9b}\\u{202e}"
        );
        assert_eq!(printable("ñ 😀"), "ñ 😀");
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["channels", "brains", "routes"];
        for (word, near) in [
            ("chanels", Some("channels")),
            ("Brains", Some("brains")),
            ("rotues", Some("routes")),
            ("storage", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), near, "{word}");
        }
    }
}
