//! From an answer to the messages that Discord takes: cut where it hurts least, a block of code
//! closed at the cut and opened again behind it. Pure. Discord reads Markdown itself.

use std::ops::Range;

use crate::base::text::prefix;
use crate::domain::split::{self, Measure};

/// Characters of one message (contract 4: below 2000).
const PART_MOST: usize = 1999;
/// Characters kept of the words behind a fence when it is opened again; a longer one goes.
const INFO_MOST: usize = 40;
/// Backticks of a fence; more are no fence here.
const TICKS_MOST: usize = 8;
/// Bytes of the longest character.
const CHARACTER_BYTES: usize = 4;

/// A fence: how many backticks, and the language behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fence {
    ticks: usize,
    info: String,
    /// Whether nothing stands behind the backticks.
    bare: bool,
}

impl Fence {
    /// The fence that a line is, if it is one: backticks, and no further ones behind them.
    fn of(line: &str) -> Option<Fence> {
        let line = line.trim();
        if line.contains('\n') {
            return None;
        }
        let ticks = line.len() - line.trim_start_matches('`').len();
        let info = line[ticks..].trim();
        let sound = (3..=TICKS_MOST).contains(&ticks) && !info.contains('`');
        sound.then(|| Fence {
            ticks,
            bare: info.is_empty(),
            info: match info.chars().count() <= INFO_MOST {
                true => info.to_owned(),
                false => String::new(),
            },
        })
    }

    fn closes(&self, opened: &Fence) -> bool {
        self.bare && self.ticks >= opened.ticks
    }

    /// The line that opens it again.
    fn opening(&self) -> String {
        format!("{}{}\n", self.marks(), self.info)
    }

    fn marks(&self) -> String {
        "`".repeat(self.ticks)
    }
}

/// The messages of an answer, in order; none for a blank one.
pub(super) fn parts(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut open: Option<Fence> = None;
    loop {
        let reopened = open.as_ref().map(Fence::opening).unwrap_or_default();
        let Some(range) = piece(rest, reopened.chars().count()) else {
            // White space, longer than a message perhaps: nothing that anybody sees.
            rest = rest.trim_start();
            if rest.is_empty() {
                return out;
            }
            continue;
        };
        let end = without_late_opening(open.as_ref(), rest, &range);
        let piece = rest[range.start..end].trim_end();
        rest = &rest[end..];
        let only_opens = open.is_none()
            && Fence::of(piece).is_some_and(|fence| fence.opening().trim() == piece.trim());
        open = behind(open, piece);
        let part = match &open {
            Some(fence) => format!("{reopened}{piece}\n{}", fence.marks()),
            None => format!("{reopened}{piece}"),
        };
        let closed = open.as_ref().and_then(|fence| closed_by(rest, fence));
        // A fence alone is said by the next message, where there is one that begins within it.
        if !only_opens || closed.is_some() || rest.trim().is_empty() {
            out.push(part);
        }
        if let Some(behind) = closed {
            rest = behind;
            open = None;
        }
    }
}

/// What the next message takes of `rest`, of which `taken` characters are spoken for.
fn piece(rest: &str, taken: usize) -> Option<Range<usize>> {
    // Whatever stands at its end, there is room to close it.
    let most = PART_MOST - taken - (TICKS_MOST + 1);
    // Far enough for what is cut to be seen to go on; looking at all of a long text each time
    // would take a time that grows with its square.
    let window = prefix(rest, (PART_MOST + 1) * CHARACTER_BYTES);
    split::parts(window, most, Measure::Characters)
        .into_iter()
        .next()
}

/// The end of a piece: a fence that would open in its very last line is left to the next one.
fn without_late_opening(open: Option<&Fence>, rest: &str, range: &Range<usize>) -> usize {
    let piece = &rest[range.clone()];
    let Some(at) = piece.trim_end().rfind('\n') else {
        return range.end;
    };
    let opens = behind(open.cloned(), &piece[..at]).is_none() && Fence::of(&piece[at..]).is_some();
    match opens {
        true => range.start + at,
        false => range.end,
    }
}

/// The fence that is open behind a text, with `open` open before it.
fn behind(open: Option<Fence>, text: &str) -> Option<Fence> {
    text.lines()
        .fold(open, |open, line| match (Fence::of(line), open) {
            (Some(fence), None) => Some(fence),
            (Some(fence), Some(opened)) if fence.closes(&opened) => None,
            (_, open) => open,
        })
}

/// What follows the next line with words in it, where that line does nothing but close `fence`.
fn closed_by<'a>(rest: &'a str, fence: &Fence) -> Option<&'a str> {
    let rest = rest.trim_start();
    let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
    let closing = Fence::of(line).is_some_and(|closing| closing.closes(fence));
    closing.then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random;

    /// Numbers that follow from a seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }
    }

    #[test]
    fn short_answers_stay_as_they_are_and_blank_ones_are_none() {
        for (text, expected) in [
            ("", vec![]),
            (" \n\n ", vec![]),
            ("hola", vec!["hola"]),
            (
                "**a**\n\n```rust\nfn x() {}\n```\nb",
                vec!["**a**\n\n```rust\nfn x() {}\n```\nb"],
            ),
            // A block that nobody closed is closed.
            ("```\nx", vec!["```\nx\n```"]),
        ] {
            assert_eq!(parts(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_block_is_closed_at_the_cut_and_opened_again() {
        let code = "let x = 1;\n".repeat(400);
        let text = format!("Look:\n```rust\n{code}```\nDone.");
        let parts = parts(&text);
        assert!(parts.len() >= 3);
        assert!(parts[0].starts_with("Look:\n```rust\nlet x") && parts[0].ends_with(";\n```"));
        for part in &parts[1..parts.len() - 1] {
            assert!(
                part.starts_with("```rust\nlet x") && part.ends_with(";\n```"),
                "{part}"
            );
        }
        assert!(parts.last().unwrap().ends_with("Done."));
        let lines: usize = parts.iter().map(|part| part.matches("let x").count()).sum();
        assert_eq!(lines, 400);
    }

    #[test]
    fn no_message_ends_or_begins_with_an_empty_block() {
        let words = "word ".repeat(396);
        for (text, expected) in [
            (
                format!("{}\n```rust\nlet abcdefgh = 1;\n```", words.trim()),
                vec![
                    words.trim().to_owned(),
                    "```rust\nlet abcdefgh = 1;\n```".into(),
                ],
            ),
            (
                format!("```\n{}\n```\nend", "x".repeat(1986)),
                vec![format!("```\n{}\n```", "x".repeat(1986)), "end".into()],
            ),
        ] {
            assert_eq!(parts(&text), expected);
        }
        let long = format!("```\n{}\n```", "x".repeat(5000));
        assert!(
            parts(&long).iter().all(|part| part.len() > 20),
            "{:?}",
            parts(&long)
        );
    }

    #[test]
    fn whatever_the_text_nothing_is_missing_and_every_part_is_whole() {
        let pieces = [
            "a",
            "word ",
            " ",
            "\n",
            "\n\n",
            "\t",
            "e\u{301}",
            "😀",
            "👨\u{200d}👩\u{200d}👧",
            "🇪🇸",
            "שלום ",
            "\n```\n",
            "\n```rust\n",
            "```",
            "\n````\n",
            "`code` ",
            "- item\n  - nested\n",
            "| a | b |\n",
            "> quote\n",
        ];
        let mut dice = Dice(u64::from(random::number()));
        let long = [
            "x".repeat(3000),
            " ".repeat(9000),
            "漢".repeat(2500),
            "line of code;\n".repeat(700),
        ];
        for round in 0..100 {
            let seed = dice.0;
            let text: String = (0..dice.roll(2500))
                .map(|_| match dice.roll(200) {
                    0 => long[dice.roll(long.len())].as_str(),
                    _ => pieces[dice.roll(pieces.len())],
                })
                .collect();
            let parts = parts(&text);
            let bare = |text: &str| -> Vec<char> {
                text.chars()
                    .filter(|c| !c.is_whitespace() && *c != '`')
                    .collect()
            };
            for part in &parts {
                assert!(
                    part.chars().count() < 2000,
                    "round {round} of {seed}: {}",
                    part.chars().count()
                );
                assert_eq!(behind(None, part), None, "round {round} of {seed}: {part}");
                assert!(!part.trim().is_empty(), "round {round} of {seed}");
            }
            // All of it is there, in order; what is more are languages behind fences opened again.
            let (sent, meant) = (bare(&parts.concat()), bare(&text));
            let mut rest = sent.iter();
            let missing = meant.iter().find(|c| !rest.any(|sent| sent == *c));
            assert_eq!(missing, None, "round {round} of {seed}");
            assert!(
                sent.len() <= meant.len() + parts.len() * INFO_MOST,
                "round {round} of {seed}"
            );
        }
    }
}
