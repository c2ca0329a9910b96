//! Reads a file of `KEY=VALUE` lines the way systemd reads an `EnvironmentFile=`, so that one file
//! serves both. Pure.

use std::collections::HashMap;

use super::values::is_env_name;

/// Where the reader is; the names follow what systemd.exec(5), "EnvironmentFile=", describes.
#[derive(Clone, Copy)]
enum State {
    /// Before a key; also where a line was ignored.
    LineStart,
    Comment,
    Key,
    /// After `=`, or after a closed quote.
    BeforeValue,
    Value,
    ValueEscape,
    Single,
    Double,
    DoubleEscape,
}

/// The assignments of the text; of a repeated key the last. Lines without `=`, comments (`#`, `;`)
/// and keys that are no names of variables are ignored.
#[must_use]
pub fn parse(text: &str) -> HashMap<String, String> {
    let mut reader = Reader {
        state: State::LineStart,
        key: String::new(),
        value: String::new(),
        kept: 0,
        all: HashMap::new(),
    };
    for c in text.chars() {
        reader.take(c);
    }
    match reader.state {
        State::LineStart | State::Comment | State::Key => {}
        // An open quote at the end of the file ends there.
        _ => reader.assign(),
    }
    reader.all
}

struct Reader {
    state: State,
    key: String,
    value: String,
    /// How much of the value is safe from the removal of white space at its end.
    kept: usize,
    all: HashMap<String, String>,
}

fn is_newline(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_newline(c)
}

impl Reader {
    fn take(&mut self, c: char) {
        self.state = match self.state {
            State::LineStart => match c {
                '#' | ';' => State::Comment,
                c if is_blank(c) => State::LineStart,
                '=' => State::BeforeValue,
                c => {
                    self.key.push(c);
                    State::Key
                }
            },
            State::Comment if is_newline(c) => State::LineStart,
            State::Comment => State::Comment,
            State::Key => match c {
                '=' => State::BeforeValue,
                c if is_newline(c) => {
                    self.key.clear();
                    State::LineStart
                }
                c => {
                    self.key.push(c);
                    State::Key
                }
            },
            State::BeforeValue => match c {
                c if is_newline(c) => self.end_of_line(),
                '\'' => State::Single,
                '"' => State::Double,
                '\\' => State::ValueEscape,
                c if is_blank(c) => State::BeforeValue,
                c => self.push(c, State::Value),
            },
            State::Value => match c {
                c if is_newline(c) => self.end_of_line(),
                '\\' => State::ValueEscape,
                c if is_blank(c) => {
                    self.value.push(c);
                    State::Value
                }
                c => self.push(c, State::Value),
            },
            State::ValueEscape if is_newline(c) => State::Value,
            State::ValueEscape => self.push(c, State::Value),
            State::Single if c == '\'' => State::BeforeValue,
            State::Single => self.push(c, State::Single),
            State::Double => match c {
                '"' => State::BeforeValue,
                '\\' => State::DoubleEscape,
                c => self.push(c, State::Double),
            },
            State::DoubleEscape => {
                if !is_newline(c) {
                    if !matches!(c, '"' | '\\' | '`' | '$') {
                        self.value.push('\\');
                    }
                    self.push(c, State::Double);
                }
                State::Double
            }
        };
    }

    fn push(&mut self, c: char, next: State) -> State {
        self.value.push(c);
        self.kept = self.value.len();
        next
    }

    fn end_of_line(&mut self) -> State {
        self.assign();
        State::LineStart
    }

    fn assign(&mut self) {
        self.value.truncate(self.kept);
        let key = std::mem::take(&mut self.key);
        let value = std::mem::take(&mut self.value);
        self.kept = 0;
        if is_env_name(key.trim_end()) {
            self.all.insert(key.trim_end().to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        for (text, value) in [
            ("A=plain", Some("plain")),
            ("A=", Some("")),
            ("  A = spaced out \t\r\n", Some("spaced out")),
            ("A=one\\\ntwo", Some("onetwo")),
            ("A=a\\ b\\\\c\\ ", Some("a b\\c ")),
            ("A='single \\n $x \"q\"'", Some("single \\n $x \"q\"")),
            ("A='two\nlines'", Some("two\nlines")),
            (
                "A=\"d \\\"q\\\" \\$ \\` \\\\ \\n\"",
                Some("d \"q\" $ ` \\ \\n"),
            ),
            ("A=\"one\\\ntwo\"", Some("onetwo")),
            ("A='a'\"b\" c", Some("abc")),
            ("A=it's", Some("it's")),
            ("A=x # no comment", Some("x # no comment")),
            ("A=\"open", Some("open")),
            ("A=first\nA=second\n", Some("second")),
            ("# A=x", None),
            ("; A=x", None),
            ("# comment \\\nA=x", Some("x")),
            ("export A=x", None),
            ("A", None),
            ("A\n=x", None),
            ("1A=x", None),
            ("\n\n\nA=x\n\n", Some("x")),
            ("A=ñ😀", Some("ñ😀")),
        ] {
            assert_eq!(parse(text).get("A").map(String::as_str), value, "{text:?}");
        }
    }
}
