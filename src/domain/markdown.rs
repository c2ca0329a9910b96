//! Markdown as models write it (CommonMark with tables, strikethrough and task lists), read into
//! plain text and the marks that lie on it. Pure. Nothing that was written goes missing: what chats
//! have no form for, such as HTML, stands as it was written.

use std::ops::Range;

use crate::base::text::prefix;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Characters to which a column of a table is filled up; wider cells stand as they are.
const COLUMN_MOST: usize = 30;

/// Bytes of a link's words in which its own address is looked for.
const LINK_WORDS: usize = 512;

/// Plain text and the marks on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rich {
    /// What is read.
    pub text: String,
    /// Ranges of bytes of it, properly nested; of two equal ones the inner stands first.
    pub marks: Vec<Mark>,
}

/// What lies on a stretch of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The stretch.
    pub range: Range<usize>,
    /// Its look.
    pub look: Look,
}

/// How a stretch looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Strong emphasis, headings.
    Bold,
    /// Emphasis.
    Italic,
    /// Struck through.
    Strike,
    /// Code within a line. Nothing lies in it, it lies in no emphasis.
    Code,
    /// A block of code and its language, which may be empty. Nothing lies in it, it lies in nothing.
    Block(String),
    /// A quotation. None lies in another.
    Quote,
    /// A link to an http or https address.
    Link(String),
}

/// Reads Markdown. Whatever the text, this ends, in a time that grows with its length.
#[must_use]
pub fn read(source: &str) -> Rich {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut reader = Reader::default();
    let (mut depth, mut covered) = (0_usize, 0_usize);
    for (event, range) in Parser::new_ext(source, options).into_offset_iter() {
        if depth == 0 {
            // Definitions of references make no event: they stand as they were written.
            reader.literal(source.get(covered..range.start).unwrap_or_default());
            covered = covered.max(range.end);
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        reader.event(event);
    }
    reader.literal(source.get(covered..).unwrap_or_default());
    reader.rich
}

/// A mark whose end is not there yet; it begins with the first character under it.
struct Open {
    from: Option<usize>,
    look: Look,
}

#[derive(Default)]
struct Reader {
    rich: Rich,
    /// Each emphasis once at most, so that few lie open however deep a text nests them.
    open: Vec<Open>,
    /// How often each emphasis has begun within itself: bold, italic, struck through.
    again: [usize; 3],
    /// Line ends due before the next words.
    gap: usize,
    /// The next number of each list around, 0 for one with bullets.
    lists: Vec<u64>,
    /// Whether a list item has begun and nothing stands in it yet.
    fresh_item: bool,
    quotes: usize,
    links: Vec<(String, usize)>,
    table: Vec<Vec<String>>,
    cell: Option<String>,
}

impl Reader {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.push(&text),
            Event::Code(text) => self.code(&text),
            Event::Html(text) | Event::InlineHtml(text) => self.html(&text),
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.block(2);
                self.push("———");
                self.gap = 2;
            }
            Event::TaskListMarker(done) => self.push(if done { "☑ " } else { "☐ " }),
            // Not asked for by the options.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.block(2),
            Tag::Heading { .. } => {
                self.block(2);
                self.begin(Look::Bold);
            }
            Tag::BlockQuote(_) => {
                self.block(2);
                self.quotes += 1;
                if self.quotes == 1 {
                    self.begin(Look::Quote);
                }
            }
            Tag::CodeBlock(kind) => {
                self.block(if self.lists.is_empty() { 2 } else { 1 });
                let language = match kind {
                    CodeBlockKind::Fenced(info) => language_of(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.suspend(|_| true);
                self.begin(Look::Block(language));
            }
            Tag::List(first) => {
                self.block(if self.lists.is_empty() { 2 } else { 1 });
                self.lists.push(first.unwrap_or(0));
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.begin(Look::Italic),
            Tag::Strong => self.begin(Look::Bold),
            Tag::Strikethrough => self.begin(Look::Strike),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.length()));
                if let Some((url, _)) = self.links.last().filter(|(url, _)| is_web(url)) {
                    let look = Look::Link(url.clone());
                    if !self
                        .open
                        .iter()
                        .any(|open| matches!(open.look, Look::Link(_)))
                    {
                        self.begin(look);
                    }
                }
            }
            Tag::Table(_) => {
                self.block(2);
                self.table.clear();
            }
            Tag::TableHead | Tag::TableRow => self.table.push(Vec::new()),
            Tag::TableCell => self.cell = Some(String::new()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.gap = self.gap.max(2),
            TagEnd::Heading(_) => {
                self.finish(|look| *look == Look::Bold);
                self.gap = self.gap.max(2);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes = self.quotes.saturating_sub(1);
                if self.quotes == 0 {
                    self.finish(|look| *look == Look::Quote);
                }
                self.gap = self.gap.max(2);
            }
            TagEnd::CodeBlock => self.end_code_block(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.gap.max(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item => {
                self.fresh_item = false;
                self.gap = self.gap.max(1);
            }
            TagEnd::Emphasis => self.finish(|look| *look == Look::Italic),
            TagEnd::Strong => self.finish(|look| *look == Look::Bold),
            TagEnd::Strikethrough => self.finish(|look| *look == Look::Strike),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableCell => {
                let cell = self.cell.take().unwrap_or_default();
                if let Some(row) = self.table.last_mut() {
                    row.push(cell.trim().to_owned());
                }
            }
            TagEnd::Table => self.end_table(),
            _ => {}
        }
    }

    /// A block begins: so many line ends stand before it, none where a list item has just begun.
    fn block(&mut self, line_ends: usize) {
        if !std::mem::take(&mut self.fresh_item) {
            self.gap = self.gap.max(line_ends);
        }
    }

    fn item(&mut self) {
        // An empty item before this one still has its line.
        self.fresh_item = false;
        self.gap = self.gap.max(1);
        let depth = self.lists.len().saturating_sub(1);
        let mut lead = "  ".repeat(depth.min(20));
        match self.lists.last_mut() {
            Some(0) | None => lead.push_str("• "),
            Some(number) => {
                lead.push_str(&format!("{number}. "));
                *number = number.saturating_add(1);
            }
        }
        self.push(&lead);
        self.fresh_item = true;
    }

    fn end_code_block(&mut self) {
        let begun = self.open.last().and_then(|open| open.from);
        if begun.is_some() {
            let bare = self.rich.text.trim_end_matches('\n').len();
            self.rich.text.truncate(bare.max(begun.unwrap_or(0)));
        }
        self.finish(|look| matches!(look, Look::Block(_)));
        self.gap = self.gap.max(if self.lists.is_empty() { 2 } else { 1 });
    }

    fn end_link(&mut self) {
        let Some((url, from)) = self.links.pop() else {
            return;
        };
        if self.length() == from {
            self.push(&url);
        } else if !is_web(&url) && !url.is_empty() && !self.said_lately(from, bare(&url)) {
            self.push(&format!(" ({url})"));
        }
        if self.links.is_empty() {
            self.finish(|look| matches!(look, Look::Link(_)));
        }
    }

    fn end_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.min(COLUMN_MOST)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut lines = Vec::with_capacity(rows.len() + 1);
        for (n, row) in rows.iter().enumerate() {
            // Rows that are short are filled up with empty cells, which would make much of little.
            let said = row.iter().rposition(|cell| !cell.is_empty());
            let cells = row
                .iter()
                .zip(&widths)
                .take(said.map_or(0, |last| last + 1));
            let filled: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:width$}", width = *width))
                .collect();
            lines.push(filled.join(" | ").trim_end().to_owned());
            if n == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                lines.push(rules.join("-+-"));
            }
        }
        self.suspend(|_| true);
        self.begin(Look::Block(String::new()));
        self.push(lines.join("\n").trim_end());
        self.finish(|look| matches!(look, Look::Block(_)));
        self.gap = self.gap.max(2);
    }

    fn code(&mut self, text: &str) {
        if self.cell.is_some() || !self.links.is_empty() {
            return self.push(text);
        }
        self.suspend(Look::is_emphasis);
        self.begin(Look::Code);
        self.push(text);
        self.finish(|look| *look == Look::Code);
    }

    fn html(&mut self, text: &str) {
        let tag: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        match tag.to_ascii_lowercase().as_str() {
            "<br>" | "<br/>" => self.push("\n"),
            _ => self.push(text),
        }
    }

    /// What stands between two blocks and belongs to none.
    fn literal(&mut self, text: &str) {
        let text = text.trim();
        if !text.is_empty() {
            self.block(2);
            self.push(text);
            self.gap = 2;
        }
    }

    fn push(&mut self, text: &str) {
        if let Some(cell) = &mut self.cell {
            cell.push_str(&text.replace('\n', " "));
            return;
        }
        if text.is_empty() {
            return;
        }
        self.fresh_item = false;
        let gap = std::mem::take(&mut self.gap);
        if !self.rich.text.is_empty() {
            let there = self.rich.text.len() - self.rich.text.trim_end_matches('\n').len();
            for _ in there..gap {
                self.rich.text.push('\n');
            }
        }
        let from = self.rich.text.len();
        let innermost = self.open.last().map(|open| open.look.clone());
        let last = self.open.len().saturating_sub(1);
        for (n, open) in self.open.iter_mut().enumerate() {
            let apart = match innermost {
                Some(Look::Block(_)) => n != last,
                Some(Look::Code) => open.look.is_emphasis(),
                _ => false,
            };
            if !apart {
                open.from.get_or_insert(from);
            }
        }
        self.rich.text.push_str(text);
    }

    fn length(&self) -> usize {
        self.cell.as_ref().map_or(self.rich.text.len(), String::len)
    }

    /// Whether the first words since `from` name an address. Pictures lie within pictures: all that
    /// each says is not looked through.
    fn said_lately(&self, from: usize, address: &str) -> bool {
        let whole = self.cell.as_ref().unwrap_or(&self.rich.text);
        prefix(whole.get(from..).unwrap_or_default(), LINK_WORDS).contains(address)
    }

    fn begin(&mut self, look: Look) {
        // A table's cells carry no marks, and code carries none either.
        if self.cell.is_some() {
            return;
        }
        // Emphasis within the same emphasis, as in a heading, is one.
        if self.open.iter().any(|open| open.look == look) {
            if let Some(again) = self.again(&look) {
                *again += 1;
                return;
            }
        }
        self.open.push(Open { from: None, look });
    }

    fn again(&mut self, look: &Look) -> Option<&mut usize> {
        match look {
            Look::Bold => Some(&mut self.again[0]),
            Look::Italic => Some(&mut self.again[1]),
            Look::Strike => Some(&mut self.again[2]),
            _ => None,
        }
    }

    /// Ends the innermost mark of that look.
    fn finish(&mut self, which: impl Fn(&Look) -> bool) {
        if self.cell.is_some() {
            return;
        }
        let Some(at) = self.open.iter().rposition(|open| which(&open.look)) else {
            return;
        };
        let look = self.open[at].look.clone();
        if let Some(again) = self.again(&look).filter(|again| **again > 0) {
            *again -= 1;
            return;
        }
        let Open { from, look } = self.open.remove(at);
        self.mark(from, look);
    }

    fn mark(&mut self, from: Option<usize>, look: Look) {
        let to = self.rich.text.len();
        if let Some(from) = from.filter(|from| *from < to) {
            let range = from..to;
            self.rich.marks.push(Mark { range, look });
        }
    }

    /// Ends those open marks here; each goes on behind what comes next.
    fn suspend(&mut self, which: impl Fn(&Look) -> bool) {
        for n in (0..self.open.len()).rev() {
            if which(&self.open[n].look) {
                let from = self.open[n].from.take();
                let look = self.open[n].look.clone();
                self.mark(from, look);
            }
        }
    }
}

impl Look {
    fn is_emphasis(&self) -> bool {
        matches!(self, Look::Bold | Look::Italic | Look::Strike)
    }
}

/// The first word behind a fence, where it is a name of a language.
fn language_of(info: &str) -> String {
    let word = info.split([' ', ',', '{']).next().unwrap_or_default();
    let sound = word.len() <= 32
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-#._".contains(&byte));
    if sound {
        word.to_owned()
    } else {
        String::new()
    }
}

fn is_web(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// An address without the scheme that an autolink leaves out.
fn bare(url: &str) -> &str {
    url.strip_prefix("mailto:").unwrap_or(url)
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
