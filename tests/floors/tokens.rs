//! Cuts Rust source into words and signs, leaving comments, strings and lifetimes behind, so that
//! the rules read code and nothing else.

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or keyword; a raw one without its `r#`.
    Word(String),
    /// `::`.
    Sep,
    /// Any other sign.
    Sign(char),
}

/// A token and the line on which it starts, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub line: usize,
}

impl Token {
    /// The word, where it is one.
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether it is that sign.
    pub fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }
}

/// The tokens of one file.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader {
        chars: &chars,
        at: 0,
        line: 1,
    };
    let mut out = Vec::new();
    while let Some(c) = reader.peek(0) {
        let line = reader.line;
        let kind = match c {
            _ if c.is_whitespace() => {
                reader.step();
                continue;
            }
            '/' if reader.peek(1) == Some('/') => {
                reader.line_comment();
                continue;
            }
            '/' if reader.peek(1) == Some('*') => {
                reader.block_comment();
                continue;
            }
            '"' => {
                reader.string();
                continue;
            }
            '\'' => {
                reader.character_or_lifetime();
                continue;
            }
            _ if c.is_ascii_digit() => {
                reader.name();
                continue;
            }
            _ if c.is_alphabetic() || c == '_' => match reader.word() {
                Some(word) => Kind::Word(word),
                None => continue,
            },
            ':' if reader.peek(1) == Some(':') => {
                reader.step();
                reader.step();
                Kind::Sep
            }
            sign => {
                reader.step();
                Kind::Sign(sign)
            }
        };
        out.push(Token { kind, line });
    }
    out
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn step(&mut self) -> Option<char> {
        let c = self.peek(0)?;
        self.at += 1;
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.step();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while let Some(c) = self.step() {
            match (c, self.peek(0)) {
                ('/', Some('*')) => {
                    self.step();
                    depth += 1;
                }
                ('*', Some('/')) => {
                    self.step();
                    depth -= 1;
                    if depth == 0 {
                        return;
                    }
                }
                _ => {}
            }
        }
    }

    fn string(&mut self) {
        self.step();
        while let Some(c) = self.step() {
            match c {
                '\\' => {
                    self.step();
                }
                '"' => return,
                _ => {}
            }
        }
    }

    fn raw_string(&mut self) {
        let mut hashes = 0;
        while self.peek(0) == Some('#') {
            self.step();
            hashes += 1;
        }
        self.step();
        while let Some(c) = self.step() {
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                for _ in 0..hashes {
                    self.step();
                }
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        self.step();
        match (self.peek(0), self.peek(1)) {
            (Some('\\'), _) => {
                self.step();
                self.step();
                while self.step().is_some_and(|c| c != '\'') {}
            }
            (Some(_), Some('\'')) => {
                self.step();
                self.step();
            }
            _ => {
                self.name();
            }
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.peek(0).filter(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
            self.step();
        }
        name
    }

    /// A name; `None` where it was the prefix of a literal, which is then skipped.
    fn word(&mut self) -> Option<String> {
        let name = self.name();
        let raw = matches!(name.as_str(), "r" | "br" | "cr");
        match self.peek(0) {
            Some('"') if raw => self.raw_string(),
            Some('"') if matches!(name.as_str(), "b" | "c") => self.string(),
            Some('\'') if name == "b" => self.character_or_lifetime(),
            Some('#') if raw && matches!(self.peek(1), Some('"' | '#')) => self.raw_string(),
            Some('#') if name == "r" => {
                self.step();
                return Some(self.name());
            }
            _ => return Some(name),
        }
        None
    }
}

#[test]
fn comments_strings_and_lifetimes_are_no_code() {
    let text = r##"
        // crate::a
        /* crate::b /* nested */ crate::c */
        let s = "crate::d \" crate::e"; let r = r#"crate::f " "# ; let b = b"crate::g";
        let c = '"'; let d = '\''; let e = '\u{41}'; fn f<'a>(x: &'a str) {} r#type
        crate::h
    "##;
    let words: Vec<String> = tokens(text)
        .iter()
        .filter_map(|token| token.word().map(str::to_owned))
        .collect();
    assert_eq!(
        words,
        [
            "let", "s", "let", "r", "let", "b", "let", "c", "let", "d", "let", "e", "fn", "f", "x",
            "str", "type", "crate", "h"
        ]
    );
    assert_eq!(tokens(text).last().map(|token| token.line), Some(6));
}
