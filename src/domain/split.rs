//! Where a long text is cut into parts that a platform takes: between paragraphs, else lines, else
//! words, else characters. Pure.

use std::ops::Range;

/// How many characters are looked back for a place that tears no cluster apart: longer than any
/// emoji of several people.
const CLUSTER_MOST: usize = 24;

/// How a platform measures text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// UTF-16 code units (Telegram).
    Utf16,
    /// Characters, that is Unicode scalar values (Discord).
    Characters,
}

impl Measure {
    fn of(self, c: char) -> usize {
        match self {
            Measure::Utf16 => c.len_utf16(),
            Measure::Characters => 1,
        }
    }

    /// The length of a text.
    #[must_use]
    pub fn length(self, text: &str) -> usize {
        text.chars().map(|c| self.of(c)).sum()
    }
}

/// The parts of a text as ranges of bytes, each of at most `most` (one at least) in `measure`. White
/// space at the cuts belongs to no part, and no part is blank: a blank text has none. All else is in
/// exactly one part, in order.
#[must_use]
pub fn parts(text: &str, most: usize, measure: Measure) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut from = skip_blank_lines(text, 0);
    while from < text.len() {
        let end = cut(text, from, most.max(2), measure);
        let trimmed = from + text[from..end].trim_end().len();
        if trimmed > from {
            out.push(from..trimmed);
        }
        from = skip_blank_lines(text, end);
    }
    out
}

/// Past line ends and lines of nothing but white space; the indentation of what follows stays.
fn skip_blank_lines(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let blank = &rest[..rest.len() - rest.trim_start().len()];
    if blank.len() == rest.len() {
        return text.len();
    }
    match blank.rfind('\n') {
        Some(at) => from + at + 1,
        // A cut between words: the space goes. At the beginning of a text there is no line end either.
        None => from + blank.len(),
    }
}

/// The end of the part that begins at `from`.
fn cut(text: &str, from: usize, most: usize, measure: Measure) -> usize {
    let Some(hard) = beyond(text, from, most, measure) else {
        return text.len();
    };
    // What stands right behind the last character that fits may be the very end of a word.
    let space_behind = text[hard..].starts_with(char::is_whitespace);
    let window = &text[from..hard];
    let half = window.len() / 2;
    let paragraph = window.rfind("\n\n");
    let line = match text[hard..].starts_with('\n') {
        true => Some(window.len()),
        false => window.rfind('\n'),
    };
    let word = match space_behind {
        true => Some(window.len()),
        false => window.rfind(char::is_whitespace),
    };
    let all = [paragraph, line, word];
    let late = all.into_iter().flatten().find(|at| *at >= half.max(1));
    let any = late.or_else(|| all.into_iter().flatten().find(|at| *at > 0));
    match any {
        Some(at) => from + at,
        None => off_cluster(text, from, hard),
    }
}

/// The end of the longest piece from `from` that measures at most `most`; none where all does.
fn beyond(text: &str, from: usize, most: usize, measure: Measure) -> Option<usize> {
    let mut length = 0;
    for (at, c) in text[from..].char_indices() {
        length += measure.of(c);
        if length > most {
            return Some(from + at);
        }
    }
    None
}

/// The nearest place at or before `hard` that stands before no combining mark and at no joiner.
fn off_cluster(text: &str, from: usize, hard: usize) -> usize {
    let mut at = hard;
    for _ in 0..CLUSTER_MOST {
        let behind = text[at..].chars().next();
        let Some(before) = text[from..at].chars().next_back() else {
            return hard;
        };
        let torn = behind.is_some_and(clings) || joins(before) || both_regional(before, behind);
        if !torn {
            return at;
        }
        at -= before.len_utf8();
        if at == from {
            return hard;
        }
    }
    hard
}

fn joins(c: char) -> bool {
    c == '\u{200d}'
}

/// Whether a character belongs to the one before it: joiners, variation selectors, skin tones,
/// tags, combining marks of the common blocks (Unicode Standard Annex 29, `Extend`, its bulk).
fn clings(c: char) -> bool {
    joins(c)
        || matches!(c,
            '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}'
            | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{93a}'..='\u{94f}'
            | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{1f3fb}'..='\u{1f3ff}'
            | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Two halves of a flag, as far as one looks at two characters.
fn both_regional(before: char, behind: Option<char>) -> bool {
    let regional = |c: char| ('\u{1f1e6}'..='\u{1f1ff}').contains(&c);
    regional(before) && behind.is_some_and(regional)
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::*;

    fn cut_up(text: &str, most: usize) -> Vec<&str> {
        let ranges = parts(text, most, Measure::Utf16);
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn a_text_is_cut_at_paragraph_line_word_and_last_within_a_word() {
        for (text, most, expected) in [
            ("", 8, vec![]),
            (" \n\t ", 8, vec![]),
            ("short", 8, vec!["short"]),
            ("exactly8", 8, vec!["exactly8"]),
            ("aaaa b\n\ncc dd", 10, vec!["aaaa b", "cc dd"]),
            ("aaaa b\ncc dd", 10, vec!["aaaa b", "cc dd"]),
            ("aaaa bbbb cc", 10, vec!["aaaa bbbb", "cc"]),
            ("aaaa bbbb", 4, vec!["aaaa", "bbbb"]),
            ("aaaaaaaa", 4, vec!["aaaa", "aaaa"]),
            // A paragraph that ends early does not make a tiny part where a line will do.
            ("a\n\nbbbb\ncccc", 9, vec!["a\n\nbbbb", "cccc"]),
            // Indentation behind a line end stays: it may be code.
            ("aaaaaa\n  bb cc", 8, vec!["aaaaaa", "  bb cc"]),
            ("\n\n  aaaa", 8, vec!["  aaaa"]),
            // An emoji is two units and stays whole.
            ("aaa😀", 4, vec!["aaa", "😀"]),
            ("😀😀😀", 5, vec!["😀😀", "😀"]),
            // A family of joiners moves whole to the next part, a letter with its accent too.
            (
                "aaaaaa👨\u{200d}👩\u{200d}👧",
                10,
                vec!["aaaaaa", "👨\u{200d}👩\u{200d}👧"],
            ),
            ("aaae\u{301}", 4, vec!["aaa", "e\u{301}"]),
        ] {
            assert_eq!(cut_up(text, most), expected, "{text:?} by {most}");
        }
    }

    #[test]
    fn whatever_the_text_nothing_is_missing_and_every_part_fits() {
        let pieces = [
            "a",
            "word",
            " ",
            "  ",
            "\n",
            "\n\n",
            "\t",
            "é",
            "e\u{301}",
            "😀",
            "👨\u{200d}👩\u{200d}👧",
            "🇪🇸",
            "שלום",
            "\u{200d}",
            "\u{fe0f}",
            "漢字",
            "```",
            "\u{202e}",
            "x\u{300}\u{301}\u{302}",
        ];
        let mut dice = Dice::new(11);
        for round in 0..3000 {
            let text: String = (0..dice.roll(80))
                .map(|_| pieces[dice.roll(pieces.len())])
                .collect();
            let most = 2 + dice.roll(40);
            for measure in [Measure::Utf16, Measure::Characters] {
                let ranges = parts(&text, most, measure);
                let mut joined = String::new();
                for range in ranges {
                    let part = &text[range];
                    assert!(measure.length(part) <= most, "round {round}: {part:?}");
                    assert!(!part.trim().is_empty(), "round {round}");
                    joined.push_str(part);
                }
                let bare = |text: &str| -> String {
                    text.chars().filter(|c| !c.is_whitespace()).collect()
                };
                assert_eq!(
                    bare(&joined),
                    bare(&text),
                    "round {round}: {text:?} by {most}"
                );
            }
        }
    }
}
