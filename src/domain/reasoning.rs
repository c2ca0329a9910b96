//! Takes out of a model's answer what was never meant for a person: its reasoning, and the syntax of
//! tool calls. Pure, on any thread; the time it takes grows with the length of the text and with
//! nothing else. It must never leave a block half shown, nor touch what stands in code.
//!
//! **Reasoning** is marked in three ways.
//! *Tags* (`<think>`, `<thinking>`, `<reasoning>`, `<thought>` in either case, and Mistral's
//! `[THINK]`): the block goes. A closing tag without an opening one takes all before it, because
//! templates that end in `<think>` give back a block without its beginning. An opening tag without a
//! closing one takes the rest, where it begins the text or a line; within a line it is somebody's
//! word and stays. *Harmony channels* (OpenAI's harmony format: `<|channel|>analysis<|message|>...
//! <|end|>`): only the `final` channel is an answer. *Gemma's channels* (`<|channel>thought ...
//! <channel|>`): as tags.
//!
//! **Tool calls**, in a brain without tools, are noise: blocks of `<tool_call>`, `<function_call>`,
//! `<tool_code>`, `<function=NAME>` and Gemma's `<|tool_call>`, everything behind `[TOOL_CALLS]` or
//! `<|python_tag|>`, and an answer that is nothing but one JSON object which names a tool and its
//! arguments. JSON beside other words or in a code fence stays: people do ask for JSON. An agent
//! brain reads its calls itself and takes only the reasoning out, by [`strip_reasoning`].
//!
//! In fenced and inline code all of these are text and stay.

use serde_json::Value;

/// The answer without reasoning and without tool calls; may be blank, which is no answer.
#[must_use]
pub fn strip(text: &str) -> String {
    let plain = Scanner::new(text, Calls::Drop).run();
    if is_call(&plain) {
        return String::new();
    }
    plain
}

/// The answer without reasoning, its tool calls left as they are; may be blank.
#[must_use]
pub fn strip_reasoning(text: &str) -> String {
    Scanner::new(text, Calls::Keep).run()
}

/// Whether tool calls stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Keep,
    Drop,
}

/// A run of more back ticks than this opens nothing, which bounds how often a text is searched.
const LONGEST_RUN: usize = 16;
/// Bytes of a tag or of a harmony header; what is longer is neither.
const LONGEST_TAG: usize = 200;

const THOUGHTS: [&str; 4] = ["think", "thinking", "reasoning", "thought"];
const CALLS: [&str; 5] = [
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "tool_code",
];
/// What ends a message of the harmony format, or begins the next one.
const HARMONY_ENDS: [&str; 5] = [
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|start|>",
    "<|channel|>",
];

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    out: String,
    calls: Calls,
    /// Whether the harmony format's final channel has begun.
    in_final: bool,
    /// By mark and length: no fence of that length or longer closes behind this point.
    no_fence: [[bool; LONGEST_RUN + 1]; 2],
    /// By what it is: no such block closes behind this point.
    no_close: [bool; 2],
    /// By length: where the search for such a run of back ticks in this line has led.
    runs: [Option<usize>; LONGEST_RUN + 1],
    line_end: usize,
}

/// A tag at the point looked at.
struct Tag {
    closes: bool,
    what: What,
    len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Thought,
    Call,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, calls: Calls) -> Scanner<'a> {
        Scanner {
            text: without_bare_harmony(text),
            at: 0,
            out: String::with_capacity(text.len()),
            calls,
            in_final: false,
            no_fence: [[false; LONGEST_RUN + 1]; 2],
            no_close: [false; 2],
            runs: [None; LONGEST_RUN + 1],
            line_end: 0,
        }
    }

    fn run(mut self) -> String {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            // To the next character that can begin anything.
            let plain = rest.find(['<', '[', '`', '~']).unwrap_or(rest.len());
            self.keep(plain);
            let Some(first) = self.rest().chars().next() else {
                break;
            };
            let consumed = match first {
                '`' | '~' => self.code(),
                _ => self.mark(),
            };
            if !consumed {
                self.keep(1);
            }
        }
        self.out.trim().to_owned()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn keep(&mut self, bytes: usize) {
        self.out.push_str(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn skip_all(&mut self) {
        self.at = self.text.len();
    }

    /// Whether only blanks stand between the line's beginning and this point.
    fn begins_line(&self) -> bool {
        let before = self.text[..self.at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Keeps fenced or inline code that begins here, whole. A fence or a run of back ticks that is
    /// never closed begins nothing, or it would shield a closing tag behind it.
    fn code(&mut self) -> bool {
        let rest = self.rest();
        let mark = rest.as_bytes()[0];
        let run = rest.bytes().take_while(|&b| b == mark).count();
        let code = if run >= 3 && self.begins_line() {
            self.fenced(mark, run)
        } else if mark == b'`' {
            self.inline(run)
        } else {
            None
        };
        self.keep(code.unwrap_or(run));
        true
    }

    /// The length of the fenced code that begins here with a run of `run` marks.
    fn fenced(&mut self, mark: u8, run: usize) -> Option<usize> {
        let class = run.min(LONGEST_RUN);
        let by_mark = usize::from(mark == b'~');
        if self.no_fence[by_mark][class] {
            return None;
        }
        let rest = self.rest();
        let mut from = rest.find('\n')? + 1;
        while from < rest.len() {
            let end = rest[from..].find('\n').map_or(rest.len(), |n| from + n);
            let line = rest[from..end].trim();
            if line.len() >= class && line.bytes().all(|b| b == mark) {
                return Some(end);
            }
            from = end + 1;
        }
        self.no_fence[by_mark][class..].fill(true);
        None
    }

    /// The length of the inline code that begins here with a run of `run` back ticks and ends in
    /// the same line.
    fn inline(&mut self, run: usize) -> Option<usize> {
        if run > LONGEST_RUN {
            return None;
        }
        if self.at >= self.line_end {
            self.line_end = self
                .rest()
                .find('\n')
                .map_or(self.text.len(), |n| self.at + n);
            self.runs = [None; LONGEST_RUN + 1];
        }
        let known = self.runs[run].filter(|&start| start >= self.at + run);
        let start = known.unwrap_or_else(|| self.find_run(run));
        self.runs[run] = Some(start);
        (start < self.line_end).then(|| start + run - self.at)
    }

    /// Where in this line a run of exactly `run` back ticks begins behind the one that stands here;
    /// the line's end where there is none.
    fn find_run(&self, run: usize) -> usize {
        let line = &self.text.as_bytes()[..self.line_end];
        let mut at = self.at + run;
        while at < line.len() {
            let ticks = line[at..].iter().take_while(|&&b| b == b'`').count();
            if ticks == run {
                return at;
            }
            at += ticks.max(1);
        }
        line.len()
    }

    /// Deals with a tag or token that begins here, and says whether one does.
    fn mark(&mut self) -> bool {
        if let Some(tag) = tag_at(self.rest()) {
            if tag.what == What::Thought || self.calls == Calls::Drop {
                return self.block(&tag);
            }
            return false;
        }
        if self.calls == Calls::Drop {
            for token in ["[TOOL_CALLS]", "<|python_tag|>"] {
                if self.rest().starts_with(token) {
                    self.skip_all();
                    return true;
                }
            }
        }
        self.harmony()
    }

    fn block(&mut self, tag: &Tag) -> bool {
        if tag.closes {
            if tag.what == What::Thought {
                self.out.clear();
            }
            self.skip(tag.len);
            return true;
        }
        if let Some(len) = self.block_len(tag) {
            self.skip(len);
        } else if self.takes_the_rest(tag) {
            self.skip_all();
        } else {
            self.keep(tag.len);
        }
        true
    }

    /// The length of the block that `tag` opens here, both tags included; `None` where it is never
    /// closed.
    fn block_len(&mut self, tag: &Tag) -> Option<usize> {
        if self.no_close[tag.what as usize] {
            return None;
        }
        let mut at = self.at + tag.len;
        while let Some(next) = self.text[at..].find(['<', '[']) {
            at += next;
            match tag_at(&self.text[at..]) {
                Some(end) if end.closes && end.what == tag.what => {
                    return Some(at + end.len - self.at)
                }
                _ => at += 1,
            }
        }
        self.no_close[tag.what as usize] = true;
        None
    }

    /// Whether an opening tag that is never closed hides all that follows. A call does so too where
    /// its arguments follow at once.
    fn takes_the_rest(&self, tag: &Tag) -> bool {
        let inside = self.rest()[tag.len..].trim_start();
        self.begins_line() || tag.what == What::Call && inside.starts_with(['{', '['])
    }

    /// Deals with a token of the harmony format that begins here.
    fn harmony(&mut self) -> bool {
        let rest = self.rest();
        if let Some(header) = rest.strip_prefix("<|channel|>") {
            if header.starts_with("final") {
                if !self.in_final {
                    self.out.clear();
                }
                self.in_final = true;
                self.skip(header_len(rest));
            } else {
                self.skip("<|channel|>".len());
                self.skip_to_harmony_end();
            }
            return true;
        }
        if let Some(header) = rest.strip_prefix("<|start|>") {
            let next = header.bytes().take(LONGEST_TAG).position(|b| b == b'<');
            self.skip("<|start|>".len() + next.unwrap_or(0));
            return true;
        }
        for token in [
            "<|message|>",
            "<|end|>",
            "<|return|>",
            "<|call|>",
            "<|constrain|>",
        ] {
            if rest.starts_with(token) {
                self.skip(token.len());
                return true;
            }
        }
        false
    }

    fn skip_to_harmony_end(&mut self) {
        while let Some(next) = self.rest().find("<|") {
            self.skip(next);
            if HARMONY_ENDS.iter().any(|end| self.rest().starts_with(end)) {
                return;
            }
            self.skip(2);
        }
        self.skip_all();
    }
}

/// The tag that begins the text, if one does.
fn tag_at(rest: &str) -> Option<Tag> {
    for (literal, closes, what) in [
        ("[THINK]", false, What::Thought),
        ("[/THINK]", true, What::Thought),
        ("<|tool_call>", false, What::Call),
        ("<tool_call|>", true, What::Call),
        ("<|channel>", false, What::Thought),
        ("<channel|>", true, What::Thought),
    ] {
        if rest.starts_with(literal) {
            let len = literal.len();
            return Some(Tag { closes, what, len });
        }
    }
    let inner = rest.strip_prefix('<')?;
    // Stops at the next tag, so that a row of openings is not read once for each.
    let end = inner
        .bytes()
        .take(LONGEST_TAG)
        .position(|b| b == b'>' || b == b'<')?;
    if inner.as_bytes()[end] == b'<' {
        return None;
    }
    let inner = &inner[..end];
    let (closes, inner) = match inner.strip_prefix('/') {
        Some(inner) => (true, inner),
        None => (false, inner),
    };
    let name = inner.split([' ', '\t', '\n', '=']).next().unwrap_or("");
    let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let what = if is(&THOUGHTS) {
        What::Thought
    } else if is(&CALLS) || name == "function" && (closes || inner.contains('=')) {
        What::Call
    } else {
        return None;
    };
    let len = end + 2;
    Some(Tag { closes, what, len })
}

/// The length of `<|channel|>final ... <|message|>`, or of its beginning where that is not there.
fn header_len(rest: &str) -> usize {
    let head = crate::base::text::prefix(rest, LONGEST_TAG);
    match head.find("<|message|>") {
        Some(at) => at + "<|message|>".len(),
        None => "<|channel|>final".len().min(head.len()),
    }
}

/// Servers that drop the harmony format's tokens leave its words: `analysis...assistantfinal...`.
fn without_bare_harmony(text: &str) -> &str {
    const FINAL: &str = "assistantfinal";
    match text.find(FINAL) {
        Some(at) if text.trim_start().starts_with("analysis") => &text[at + FINAL.len()..],
        _ => text,
    }
}

/// Whether the text is nothing but JSON that reads as one or several tool calls.
fn is_call(text: &str) -> bool {
    text.starts_with(['{', '['])
        && serde_json::from_str(text).is_ok_and(|value: Value| reads_as_call(&value))
}

fn reads_as_call(value: &Value) -> bool {
    const NAMES: [&str; 3] = ["tool", "name", "function"];
    const ARGUMENTS: [&str; 3] = ["arguments", "args", "parameters"];
    const BESIDE: [&str; 2] = ["id", "type"];
    let call = match value {
        Value::Array(calls) => return !calls.is_empty() && calls.iter().all(reads_as_call),
        Value::Object(call) => call,
        _ => return false,
    };
    if let (1, Some(calls)) = (call.len(), call.get("tool_calls")) {
        return reads_as_call(calls);
    }
    let only = |keys: &[&[&str]]| call.keys().all(|key| keys.concat().contains(&key.as_str()));
    if let Some(function @ Value::Object(_)) = call.get("function") {
        return only(&[&["function"], &BESIDE]) && reads_as_call(function);
    }
    let named = NAMES
        .iter()
        .any(|key| call.get(*key).is_some_and(Value::is_string));
    let argued = ARGUMENTS.iter().any(|key| {
        call.get(*key)
            .is_some_and(|v| v.is_object() || v.is_string())
    });
    named && argued && only(&[&NAMES, &ARGUMENTS, &BESIDE])
}

#[cfg(test)]
#[path = "reasoning_tests.rs"]
mod tests;
