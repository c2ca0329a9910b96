//! The text of a web page: tags, scripts and styles dropped, blocks on lines of their own. Pure,
//! one pass from the left to the right, whatever the page is like: each byte is looked at a bounded
//! number of times. It is for reading, not for showing: what comes out is text and no HTML.

/// Elements whose content nobody reads.
const DROPPED: [&str; 7] = [
    "script", "style", "noscript", "template", "svg", "iframe", "textarea",
];
/// Elements that stand on lines of their own.
const BLOCKS: [&str; 36] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "br",
    "caption",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
    "ul",
];
/// Elements between which a space is meant.
const CELLS: [&str; 3] = ["td", "th", "option"];
/// The longest name of a tag or entity that is known, in bytes.
const NAME_MOST: usize = 10;

/// The text of a page.
#[must_use]
pub fn text(page: &str) -> String {
    let mut out = Page::default();
    let mut rest = page;
    while let Some(at) = rest.find(['<', '&']) {
        out.write(&rest[..at]);
        rest = &rest[at..];
        rest = if rest.starts_with('&') {
            entity(rest, &mut out)
        } else {
            markup(rest, &mut out)
        };
    }
    out.write(rest);
    out.end()
}

/// Takes a `<` and what belongs to it; gives what follows.
fn markup<'a>(rest: &'a str, out: &mut Page) -> &'a str {
    if let Some(comment) = rest.strip_prefix("<!--") {
        return comment.find("-->").map_or("", |at| &comment[at + 3..]);
    }
    let after = &rest[1..];
    let closing = after.starts_with('/');
    let named = after.strip_prefix('/').unwrap_or(after);
    if !named.starts_with(|c: char| c.is_ascii_alphabetic()) {
        if named.starts_with(['!', '?']) || closing {
            return after.find('>').map_or("", |at| &after[at + 1..]);
        }
        // A lone `<` is text.
        out.write("<");
        return after;
    }
    let end = named
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(named.len());
    let name = if end <= NAME_MOST {
        named[..end].to_ascii_lowercase()
    } else {
        String::new()
    };
    let Some(behind) = tag_end(&named[end..]) else {
        return "";
    };
    let whole = &named[..named.len() - behind.len()];
    if DROPPED.contains(&name.as_str()) && !closing && !whole.ends_with("/>") {
        return behind_element(behind, &name);
    }
    out.element(&name, closing);
    behind
}

/// What follows the `>` of a tag; one in quotes does not count.
fn tag_end(attributes: &str) -> Option<&str> {
    let mut quote = None;
    let mut value = false;
    for (at, byte) in attributes.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(&attributes[at + 1..]),
            // A quote opens only where a value begins.
            (None, b'"' | b'\'') if value => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        value = byte == b'=' || (value && byte.is_ascii_whitespace());
    }
    None
}

/// What follows the end tag of an element without readable content; nothing where it has none.
fn behind_element<'a>(mut rest: &'a str, name: &str) -> &'a str {
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        let found = rest
            .get(..name.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(name));
        let ended = found && !rest[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
        if ended {
            return rest.find('>').map_or("", |end| &rest[end + 1..]);
        }
    }
    ""
}

/// Takes an `&` and the entity behind it, if it is one; gives what follows.
fn entity<'a>(rest: &'a str, out: &mut Page) -> &'a str {
    let body = &rest[1..];
    let length = body
        .bytes()
        .take(NAME_MOST)
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'#')
        .count();
    let (name, after) = body.split_at(length);
    let Some(c) = character(name) else {
        out.write("&");
        return body;
    };
    out.character(c);
    after.strip_prefix(';').unwrap_or(after)
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| !c.is_control() || c.is_whitespace());
    }
    ENTITIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, c)| *c)
}

/// The named characters of pages in western languages (HTML Standard, 13.5); others stay as they
/// are written.
const ENTITIES: [(&str, char); 66] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("iexcl", '¡'),
    ("iquest", '¿'),
    ("euro", '€'),
    ("pound", '£'),
    ("cent", '¢'),
    ("yen", '¥'),
    ("copy", '©'),
    ("reg", '®'),
    ("trade", '™'),
    ("deg", '°'),
    ("plusmn", '±'),
    ("times", '×'),
    ("divide", '÷'),
    ("frac12", '½'),
    ("frac14", '¼'),
    ("sup2", '²'),
    ("sup3", '³'),
    ("micro", 'µ'),
    ("middot", '·'),
    ("bull", '•'),
    ("hellip", '…'),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("ordf", 'ª'),
    ("ordm", 'º'),
    ("sect", '§'),
    ("larr", '←'),
    ("rarr", '→'),
    ("aacute", 'á'),
    ("eacute", 'é'),
    ("iacute", 'í'),
    ("oacute", 'ó'),
    ("uacute", 'ú'),
    ("Aacute", 'Á'),
    ("Eacute", 'É'),
    ("Iacute", 'Í'),
    ("Oacute", 'Ó'),
    ("Uacute", 'Ú'),
    ("ntilde", 'ñ'),
    ("Ntilde", 'Ñ'),
    ("uuml", 'ü'),
    ("Uuml", 'Ü'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("Auml", 'Ä'),
    ("Ouml", 'Ö'),
    ("szlig", 'ß'),
    ("agrave", 'à'),
    ("egrave", 'è'),
    ("ccedil", 'ç'),
    ("Ccedil", 'Ç'),
    ("ecirc", 'ê'),
    ("ocirc", 'ô'),
    ("acirc", 'â'),
];

/// What has been written so far.
#[derive(Default)]
struct Page {
    text: String,
    /// What separates the next word from what is there.
    gap: Gap,
    /// Elements that keep their lines, open within each other.
    pre: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Item,
    Paragraph,
}

impl Page {
    fn write(&mut self, text: &str) {
        if self.pre > 0 {
            for (number, line) in text.split('\n').enumerate() {
                if number > 0 {
                    self.fill();
                    self.text.push('\n');
                }
                if !line.is_empty() {
                    self.fill();
                    self.text.push_str(line.trim_end_matches('\r'));
                }
            }
            return;
        }
        if text.starts_with(|c: char| c.is_whitespace()) {
            self.gap = self.gap.max(Gap::Space);
        }
        for word in text.split_whitespace() {
            self.fill();
            self.text.push_str(word);
            self.gap = Gap::Space;
        }
        if !text.ends_with(|c: char| c.is_whitespace()) && self.gap == Gap::Space {
            self.gap = Gap::None;
        }
    }

    fn character(&mut self, c: char) {
        if c.is_whitespace() && self.pre == 0 {
            self.gap = self.gap.max(Gap::Space);
        } else {
            self.fill();
            self.text.push(c);
        }
    }

    /// Writes the gap that is due; none at the beginning of all.
    fn fill(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if self.text.is_empty() {
            if gap == Gap::Item {
                self.text.push_str("- ");
            }
            return;
        }
        self.text.push_str(match gap {
            Gap::None => "",
            Gap::Space => " ",
            Gap::Line => "\n",
            Gap::Item => "\n- ",
            Gap::Paragraph => "\n\n",
        });
    }

    fn element(&mut self, name: &str, closing: bool) {
        let gap = match name {
            "pre" => {
                self.pre = if closing {
                    self.pre.saturating_sub(1)
                } else {
                    self.pre.saturating_add(1)
                };
                Gap::Paragraph
            }
            "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" | "title" => Gap::Paragraph,
            "li" if !closing => Gap::Item,
            name if BLOCKS.contains(&name) => Gap::Line,
            name if CELLS.contains(&name) => Gap::Space,
            _ => return,
        };
        self.gap = self.gap.max(gap);
    }

    fn end(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::dice::Dice;

    #[test]
    fn a_page_reads_as_its_text() {
        for (page, shown) in [
            ("", ""),
            ("plain text", "plain text"),
            ("<p>Hola,\n  <b>mundo</b>!</p>", "Hola, mundo!"),
            (
                "<!DOCTYPE html><html><head><title>El tiempo</title><style>p{color:red}</style>\
                 <script>if (a < b) alert('</p>')</script></head><body><h1>Hoy</h1><p>Sol.</p></body></html>",
                "El tiempo\n\nHoy\n\nSol.",
            ),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<ul><li>uno<li>dos</ul>fin", "- uno\n- dos\nfin"),
            ("<tr><td>1</td><td>2</td></tr><tr><td>3</td></tr>", "1 2\n3"),
            ("<pre>a\n  b\n\nc</pre>d", "a\n  b\n\nc\n\nd"),
            ("&iexcl;Ma&ntilde;ana&#33; &#x1F600; &lt;b&gt; &amp;amp;", "¡Mañana! 😀 <b> &amp;"),
            ("AT&T &unknown; & &#0; &#xD800; &#99999999;", "AT&T &unknown; & &#0; &#xD800; &#99999999;"),
            ("&nbsp;&nbsp;a&nbsp; b", "a b"),
            ("1 < 2 <3 a<b>c</b>", "1 < 2 <3 ac"),
            ("<a title='x > y' href=\"?a>b\">link</a>", "link"),
            ("<a title=it's>link</a>", "link"),
            ("x<!-- <p> --->y<!>z<?php 1 ?>!", "xyz!"),
            ("<SCRIPT>x</Script >a<style>b", "a"),
            ("<script>x</scripty></script>a", "a"),
            ("<svg/>a", "a"),
            ("a</ p>b", "ab"),
            ("<noscript><p>n</p></noscript>a", "a"),
            ("a<x-very-long-name>b", "ab"),
        ] {
            assert_eq!(text(page), shown, "{page}");
        }
    }

    #[test]
    fn a_hostile_page_takes_time_by_its_length_only() {
        let began = std::time::Instant::now();
        for piece in [
            "<",
            "<a ",
            "<a \"",
            "<a b='",
            "&",
            "&#",
            "<!--",
            "<!",
            "</",
            "<script>",
            "</script",
            "<script></scrip",
            "<pre>",
            "<p>",
            "<a =\"'",
            "&aaaaaaaaa",
            "<![CDATA[",
            "\u{a0}<td>",
        ] {
            let page = piece.repeat(128 * 1024 / piece.len());
            assert!(text(&page).len() <= page.len() + 16, "{piece}");
        }
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    #[test]
    fn no_page_makes_it_panic_and_no_script_shows() {
        let pieces = [
            "<",
            ">",
            "/",
            "script",
            "<script>HIDDEN</script>",
            "style",
            "p",
            "'",
            "\"",
            "=",
            "&",
            "#",
            "x41",
            ";",
            " ",
            "ñ",
            "😀",
            "<!--",
            "-->",
            "li",
            "pre",
            "\n",
            "!",
        ];
        let mut dice = Dice::new(11);
        for _ in 0..20_000 {
            let page: String = (0..dice.roll(30))
                .map(|_| pieces[dice.roll(pieces.len())])
                .collect();
            let _ = text(&page);
        }
        assert!(!text("a<p><script>HIDDEN</script>b").contains("HIDDEN"));
    }
}
