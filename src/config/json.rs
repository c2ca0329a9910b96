//! Reads JSON (RFC 8259, strictly) and remembers where each value stands and which keys came
//! twice. Pure; never panics, whatever the bytes, and its memory and depth are bounded.

use std::borrow::Cow;

/// Bytes of a configuration file; the contract's 1 MiB.
pub const FILE_BYTES: usize = 1024 * 1024;
/// Containers within containers: the schema needs nine, options and their schemas some more.
const DEPTH: usize = 64;
/// Values in one file: a long real one has a few thousand, and each costs some forty bytes.
const VALUES: usize = 100_000;

/// A value and the byte at which it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// Offset of its first byte.
    pub at: usize,
    /// The value itself.
    pub value: Value<'a>,
}

/// A JSON value. Numbers stay the text they are, so that none is rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number's literal text.
    Number(&'a str),
    /// A string, escapes resolved.
    Text(Cow<'a, str>),
    /// An array.
    List(Vec<Node<'a>>),
    /// An object: every member in the file's order, repeated keys included.
    Object(Vec<Member<'a>>),
}

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its key, escapes resolved.
    pub key: Cow<'a, str>,
    /// Its value.
    pub node: Node<'a>,
}

impl Value<'_> {
    /// Whether it counts as absent on an optional key: `null` or an empty string.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Text(text) => text.is_empty(),
            _ => false,
        }
    }

    /// What kind of value it is, in words.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Why the bytes are not JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Offset of the byte at fault.
    pub at: usize,
    /// Path of the innermost container around it.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What would help.
    pub help: String,
}

/// Reads a whole document.
///
/// # Errors
/// The first fault in the file's order.
pub fn parse(bytes: &[u8]) -> Result<Node<'_>, SyntaxError> {
    if bytes.len() > FILE_BYTES {
        return Err(SyntaxError {
            at: 0,
            path: String::new(),
            message: "the file is larger than 1 MiB".into(),
            help: "a configuration is at most 1048576 bytes; is this the right file?".into(),
        });
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(SyntaxError {
            at: 0,
            path: String::new(),
            message: "the file starts with a byte order mark".into(),
            help: "save it as UTF-8 without BOM".into(),
        });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Parser::new(text).document(),
        Err(fault) => Err(not_utf8(bytes, fault.valid_up_to())),
    }
}

/// The text before the first byte that is not UTF-8; all of it where there is none.
#[must_use]
pub fn readable(bytes: &[u8]) -> &str {
    let end = match std::str::from_utf8(bytes) {
        Ok(text) => return text,
        Err(fault) => fault.valid_up_to(),
    };
    std::str::from_utf8(&bytes[..end]).unwrap_or_default()
}

/// The fault at the first byte that is not UTF-8, or an earlier one if there is one. Reading what
/// stands before it tells in which container it lies.
fn not_utf8(bytes: &[u8], at: usize) -> SyntaxError {
    let before = readable(bytes);
    match Parser::new(before).document() {
        Err(fault) if fault.at < at && !fault.message.contains("end of the file") => fault,
        other => SyntaxError {
            at,
            path: other.err().map(|fault| fault.path).unwrap_or_default(),
            message: "a byte that is not UTF-8".into(),
            help: "save the file as UTF-8 without BOM".into(),
        },
    }
}

/// Adds a key to a path. Keys that are no plain words are quoted; long ones are cut.
pub fn push_key(path: &mut String, key: &str) {
    use crate::base::text::{prefix, printable};
    let plain = !key.is_empty()
        && key.len() <= 64
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if plain {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    } else {
        let cut = prefix(key, 64);
        path.push_str(&format!("[\"{}\"]", printable(cut).replace('"', "\\\"")));
    }
}

/// Adds an index to a path.
pub fn push_index(path: &mut String, index: usize) {
    path.push_str(&format!("[{index}]"));
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
}

/// A fault whose path grows while it climbs out of the containers around it.
struct Fault {
    at: usize,
    steps: Vec<Step>,
    message: String,
    help: String,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Fault {
    fn within(mut self, step: Step) -> Fault {
        self.steps.push(step);
        self
    }
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parser<'a> {
        Parser {
            text,
            at: 0,
            depth: 0,
            values: 0,
        }
    }

    fn document(mut self) -> Result<Node<'a>, SyntaxError> {
        let read = self.value().and_then(|root| {
            self.space();
            if self.at == self.text.len() {
                Ok(root)
            } else {
                Err(self.fault(
                    "content after the end of the configuration",
                    "the file holds one object and nothing behind it",
                ))
            }
        });
        read.map_err(|fault| {
            let mut path = String::new();
            for step in fault.steps.iter().rev() {
                match step {
                    Step::Key(key) => push_key(&mut path, key),
                    Step::Index(index) => push_index(&mut path, *index),
                }
            }
            SyntaxError {
                at: fault.at,
                path,
                message: fault.message,
                help: fault.help,
            }
        })
    }

    fn fault(&self, message: &str, help: &str) -> Fault {
        self.fault_at(self.at, message, help)
    }

    fn fault_at(&self, at: usize, message: &str, help: &str) -> Fault {
        Fault {
            at,
            steps: Vec::new(),
            message: message.into(),
            help: help.into(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What was found where something else was expected.
    fn unexpected(&self, expected: &str) -> Fault {
        let rest = &self.text[self.at..];
        let Some(found) = rest.chars().next() else {
            return self.fault(
                &format!("the end of the file where {expected} was expected"),
                "a bracket, brace or quote is not closed",
            );
        };
        let help = match found {
            '/' | '#' => "JSON has no comments; use the key \"_comment\"",
            '\'' | '\u{201c}' | '\u{201d}' => "strings stand in double quotes",
            '}' | ']' => "is there a comma too many before it, or a bracket too few?",
            _ => "compare with korvun.example.json",
        };
        let shown = crate::base::text::printable(&found.to_string());
        self.fault(
            &format!("found `{shown}` where {expected} was expected"),
            help,
        )
    }

    fn value(&mut self) -> Result<Node<'a>, Fault> {
        self.space();
        self.values += 1;
        if self.values > VALUES {
            return Err(self.fault(
                "the file holds more than 100000 values",
                "a configuration is far smaller; is this the right file?",
            ));
        }
        let at = self.at;
        let value = match self.peek() {
            Some(b'{') => self.nested(Parser::object)?,
            Some(b'[') => self.nested(Parser::list)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { at, value })
    }

    fn nested(
        &mut self,
        read: fn(&mut Parser<'a>) -> Result<Value<'a>, Fault>,
    ) -> Result<Value<'a>, Fault> {
        if self.depth == DEPTH {
            return Err(self.fault(
                "lists and objects nested deeper than 64",
                "no key of the configuration is nested that deep",
            ));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Reads the value of a key or at an index; a fault inside a container below takes the step on
    /// its way up, a fault of a plain value does not: its innermost container is this one.
    fn child(&mut self, step: impl FnOnce() -> Step) -> Result<Node<'a>, Fault> {
        self.space();
        let container = matches!(self.peek(), Some(b'{' | b'['));
        match self.value() {
            Ok(node) => Ok(node),
            Err(fault) if container => Err(fault.within(step())),
            Err(fault) => Err(fault),
        }
    }

    fn object(&mut self) -> Result<Value<'a>, Fault> {
        let mut members = Vec::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("a colon after the key"));
            }
            self.at += 1;
            let node = self.child(|| Step::Key(key.clone().into_owned()))?;
            members.push(Member { key, node });
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.unexpected("a comma or `}`")),
            }
        }
    }

    fn list(&mut self) -> Result<Value<'a>, Fault> {
        let mut nodes = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::List(nodes));
        }
        loop {
            let index = nodes.len();
            nodes.push(self.child(|| Step::Index(index))?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::List(nodes));
                }
                _ => return Err(self.unexpected("a comma or `]`")),
            }
        }
    }

    fn word(&mut self) -> Result<Value<'a>, Fault> {
        for (word, value) in [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
        ] {
            let rest = &self.text[self.at..];
            let whole = rest.starts_with(word)
                && !rest[word.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if whole {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.unexpected("a value"))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected("a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let first = self.at;
        self.digits()?;
        if zero && self.at > first + 1 {
            return Err(self.fault_at(
                start,
                "a number with a leading zero",
                "write it without the zero, or in quotes if it is an id",
            ));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(Value::Number(&self.text[start..self.at]))
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Fault> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut copied = start;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let tail = &self.text[copied..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(text) => Cow::Owned(text + tail),
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_with(String::new);
                    text.push_str(&self.text[copied..self.at]);
                    let c = self.escape()?;
                    text.push(c);
                    copied = self.at;
                }
                Some(0..=0x1f) => {
                    return Err(self.fault(
                        "a control character in a string",
                        "is the quote missing that ends the string? A line break is written \\n",
                    ))
                }
                Some(_) => self.at += 1,
                None => {
                    return Err(Fault {
                        at: open,
                        steps: Vec::new(),
                        message: "a string that runs to the end of the file".into(),
                        help: "the quote that ends it is missing".into(),
                    })
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let start = self.at;
        self.at += 1;
        let plain = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode(start);
            }
            _ => {
                return Err(self.fault_at(
                    start,
                    "a backslash that begins no escape",
                    "a backslash itself is written \\\\",
                ))
            }
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self, start: usize) -> Result<char, Fault> {
        let high = self.hex4(start)?;
        if let Some(c) = char::from_u32(high) {
            return Ok(c);
        }
        let lone = "half of a surrogate pair in an escape";
        let help = "write the character itself; the file is UTF-8";
        if !(0xd800..0xdc00).contains(&high) || !self.text[self.at..].starts_with("\\u") {
            return Err(self.fault_at(start, lone, help));
        }
        self.at += 2;
        let low = self.hex4(start)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(self.fault_at(start, lone, help));
        }
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        char::from_u32(code).ok_or_else(|| self.fault_at(start, lone, help))
    }

    fn hex4(&mut self, start: usize) -> Result<u32, Fault> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let code = digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(code) = code else {
            return Err(self.fault_at(
                start,
                "a \\u escape without four hexadecimal digits",
                "write the character itself; the file is UTF-8",
            ));
        };
        self.at += 4;
        Ok(code)
    }
}
