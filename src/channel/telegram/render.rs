//! Answers in the form that Telegram takes: Markdown as parts of HTML, each with the same text plain.
//! Pure. Telegram Bot API, "HTML style", knows a few tags only and refuses a message for any other.

use crate::domain::markdown::{self, Look, Mark, Rich};
use crate::domain::split::{self, Measure};

/// UTF-16 units of one message, entities taken out (contract 4: below 4096).
const PART_MOST: usize = 4095;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// With markup.
    pub html: String,
    /// The same text without.
    pub plain: String,
}

/// The messages of an answer, in order; none for a blank one.
pub(super) fn parts(markdown: &str) -> Vec<Part> {
    let mut rich = markdown::read(markdown);
    if rich.text.trim().is_empty() {
        // What reads as nothing but markup is shown as it was written.
        rich = Rich {
            text: markdown.to_owned(),
            marks: Vec::new(),
        };
    }
    let mut marks: Vec<(usize, &Mark)> = rich.marks.iter().enumerate().collect();
    // Outer before inner: earlier, then longer; of equal ones the inner was written first.
    marks.sort_by_key(|(n, mark)| {
        let range = &mark.range;
        (range.start, usize::MAX - range.end, usize::MAX - n)
    });
    let marks: Vec<&Mark> = marks.into_iter().map(|(_, mark)| mark).collect();
    let ranges = split::parts(&rich.text, PART_MOST, Measure::Utf16);
    let mut first = 0;
    let mut out = Vec::with_capacity(ranges.len());
    for range in ranges {
        // Marks that end before this part are done with, as far as they stand in a row.
        while marks
            .get(first)
            .is_some_and(|mark| mark.range.end <= range.start)
        {
            first += 1;
        }
        let own = marks[first..]
            .iter()
            .take_while(|mark| mark.range.start < range.end)
            .filter(|mark| mark.range.end > range.start);
        out.push(Part {
            html: html(&rich.text, range.start, range.end, own.copied()),
            plain: rich.text[range].to_owned(),
        });
    }
    out
}

/// A stretch of the text with its marks as tags; a mark that goes beyond it is closed at its end, and
/// opened again where the next part begins.
fn html<'a>(text: &str, from: usize, to: usize, marks: impl Iterator<Item = &'a Mark>) -> String {
    let mut out = String::with_capacity((to - from) * 5 / 4);
    let mut open: Vec<&Mark> = Vec::new();
    let mut at = from;
    for mark in marks {
        let start = mark.range.start.max(from);
        close(text, &mut out, &mut open, &mut at, start);
        escape(&text[at..start], &mut out);
        at = start;
        out.push_str(&opening(&mark.look));
        open.push(mark);
    }
    close(text, &mut out, &mut open, &mut at, to);
    escape(&text[at..to], &mut out);
    while let Some(mark) = open.pop() {
        out.push_str(closing(&mark.look));
    }
    out
}

/// Closes what ends at or before `until`.
fn close(text: &str, out: &mut String, open: &mut Vec<&Mark>, at: &mut usize, until: usize) {
    while let Some(mark) = open.last().filter(|mark| mark.range.end <= until) {
        escape(&text[*at..mark.range.end], out);
        *at = mark.range.end;
        out.push_str(closing(&mark.look));
        open.pop();
    }
}

fn opening(look: &Look) -> String {
    match look {
        Look::Bold => "<b>".to_owned(),
        Look::Italic => "<i>".to_owned(),
        Look::Strike => "<s>".to_owned(),
        Look::Code => "<code>".to_owned(),
        Look::Block(language) if language.is_empty() => "<pre><code>".to_owned(),
        Look::Block(language) => format!("<pre><code class=\"language-{language}\">"),
        Look::Quote => "<blockquote>".to_owned(),
        Look::Link(url) => {
            let mut tag = String::from("<a href=\"");
            escape(url, &mut tag);
            tag.push_str("\">");
            tag
        }
    }
}

fn closing(look: &Look) -> &'static str {
    match look {
        Look::Bold => "</b>",
        Look::Italic => "</i>",
        Look::Strike => "</s>",
        Look::Code => "</code>",
        Look::Block(_) => "</code></pre>",
        Look::Quote => "</blockquote>",
        Look::Link(_) => "</a>",
    }
}

/// The entities that Telegram knows by name.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
