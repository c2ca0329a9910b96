//! Tool calls as models write them, made into ours: those that a provider's own protocol carries,
//! and those in plain words. Pure, on any thread; its time and memory are bounded whatever it is
//! given. It must never take JSON that a person asked for as a call without a reason.
//!
//! In words a call is a JSON object that names a tool (`tool`, `name` or `function`) and its
//! arguments (`arguments`, `args` or `parameters`), with prose, fences, emphasis and line breaks
//! around it, several if need be. It counts as one where it stands in a call's own wrapper
//! (`<tool_call>`, `[TOOL_CALLS]`...), where it names a tool of the brain, where the whole reply is
//! nothing but such objects, or where it is to the letter what the prompt asks for (`tool` and
//! `arguments`, no other key) and stands in no code. So an object with a name that no tool has is an
//! example, and stays, where other words stand beside it and it is fenced or of another form. What
//! repeats a tool's description (`parameters` that are a schema) is no call. For a tool of the brain
//! a fence makes no difference: small models fence their calls, and the gate decides anyway.

use std::collections::HashSet;

use serde_json::{json, Map, Value};

use super::completion::ToolCall;
use crate::base::text::prefix;

/// Bytes of one call, and of its arguments: far above any call, far below what hurts a Pi.
const CALL_MOST: usize = 64 * 1024;
/// Bytes of a reply in which calls are looked for.
const TEXT_MOST: usize = 256 * 1024;
/// Bytes that are read in vain in one reply, which bounds the time that a liar's reply takes; and
/// what a try counts at least.
const VAIN_MOST: usize = 512 * 1024;
const VAIN_LEAST: usize = 64;
/// Bytes at the beginning of an unreadable object in which a tool's name makes it a call.
const GLANCE: usize = 400;
/// Bytes of a tag or an id that are read.
const TAG_MOST: usize = 64;
/// Bytes of a name: what the strictest protocol takes (OpenAI API reference, `function.name`).
const NAME_MOST: usize = 64;

const NAMES: [&str; 3] = ["tool", "name", "function"];
const ARGUMENTS: [&str; 3] = ["arguments", "args", "parameters"];
const BESIDE: [&str; 2] = ["id", "type"];
const WRAPPERS: [&str; 5] = [
    "tool_call",
    "tool_calls",
    "function_call",
    "function_calls",
    "tool_code",
];
/// Tokens behind which nothing but calls follows: Mistral's and Llama's.
const TOKENS: [&str; 2] = ["[TOOL_CALLS]", "<|python_tag|>"];

/// What a reply in words holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Its calls in order; their ids are settled by [`settle`].
    pub calls: Vec<ToolCall>,
    /// Whether something in it is meant as a call and cannot be read.
    pub broken: bool,
    /// The text up to the end of its last call: what follows is the model's guess at the result.
    pub up_to_calls: String,
    /// The text without calls and what decorates them; nothing from a broken one on.
    pub rest: String,
}

/// Looks for at most `most` calls in a reply of a brain that lists the tools `listed`.
#[must_use]
pub fn read(text: &str, listed: &[String], most: usize) -> Reading {
    let mut reader = Reader {
        text: prefix(text, TEXT_MOST),
        listed,
        vain: VAIN_MOST,
        finds: Vec::new(),
        broken: None,
    };
    reader.scan();
    reader.reading(text, most)
}

/// Something in a reply that reads as JSON or as a call's wrapper.
struct Find {
    begin: usize,
    end: usize,
    calls: Vec<ToolCall>,
    /// What would be calls if the reply were nothing but them.
    if_alone: Vec<ToolCall>,
}

struct Reader<'a> {
    text: &'a str,
    listed: &'a [String],
    /// Bytes that may still be read in vain.
    vain: usize,
    finds: Vec<Find>,
    /// Where the first thing begins that is meant as a call and cannot be read.
    broken: Option<usize>,
}

/// How sure it is that an object is meant as a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sure {
    /// It stands in a wrapper.
    Wrapped,
    /// It names a tool of the brain, or is nothing.
    ByName,
    /// It has the shape of a call and no other keys.
    ByShape,
}

impl Reader<'_> {
    fn scan(&mut self) {
        let mut at = 0;
        while let Some(step) = self.text[at..].find(['{', '[', '<']) {
            if self.vain == 0 {
                return;
            }
            at = self.look(at + step);
        }
    }

    /// Deals with what begins at `at`, and says where to go on.
    fn look(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        if let Some(token) = TOKENS.iter().find(|token| rest.starts_with(**token)) {
            return self.wrapped(at, at + token.len(), self.text.len(), self.text.len());
        }
        if rest.starts_with('<') {
            // Between back ticks it is only spoken of.
            let before = &self.text[..at];
            let marked = before.ends_with('`') && !before.ends_with("```");
            let quoted = |len: usize| marked && rest[len..].starts_with('`');
            return match opening(rest) {
                Some(Opening::Wrapper(len) | Opening::Function(_, len)) if quoted(len) => at + len,
                Some(Opening::Wrapper(len)) => {
                    let (inner_end, end) = closing(self.text, at + len);
                    self.wrapped(at, at + len, inner_end, end)
                }
                Some(Opening::Function(name, len)) => self.function(at, name, at + len),
                None => at + 1,
            };
        }
        let Some((value, len)) = self.value(rest) else {
            if self.meant_as_call(rest) {
                self.broken.get_or_insert(at);
            }
            return at + 1;
        };
        let by = |sure| calls_in(&value, self.listed, sure).unwrap_or_default();
        let (mut calls, if_alone) = (by(Sure::ByName), by(Sure::ByShape));
        if calls.is_empty() && to_the_letter(&value) && !in_code(&self.text[..at]) {
            calls.clone_from(&if_alone);
        }
        if value.is_object() || !calls.is_empty() || !if_alone.is_empty() {
            let (begin, end) = (at, at + len);
            self.finds.push(Find {
                begin,
                end,
                calls,
                if_alone,
            });
        }
        at + len
    }

    /// A wrapper from `begin` to `end` with its insides between `inner` and `inner_end`.
    fn wrapped(&mut self, begin: usize, inner: usize, inner_end: usize, end: usize) -> usize {
        let mut calls = Vec::new();
        let mut at = inner;
        while let Some(step) = self.text[at..inner_end].find(['{', '[']) {
            if self.vain == 0 {
                break;
            }
            at += step;
            let Some((value, len)) = self.value(&self.text[at..inner_end]) else {
                at += 1;
                continue;
            };
            calls.extend(calls_in(&value, self.listed, Sure::Wrapped).unwrap_or_default());
            at += len;
        }
        if calls.is_empty() {
            self.broken.get_or_insert(begin);
        }
        self.finds.push(Find {
            begin,
            end,
            calls,
            if_alone: Vec::new(),
        });
        end
    }

    /// `<function=NAME>{...}</function>`, as some models of Meta write it.
    fn function(&mut self, begin: usize, name: &str, inner: usize) -> usize {
        let (inner_end, end) = closing(self.text, inner);
        let inside = self.text[inner..inner_end].trim();
        let arguments = match inside {
            "" => Ok(Map::new()),
            _ => match self.value(inside) {
                Some((Value::Object(object), _)) => Ok(object),
                _ => Err(prefix(inside, CALL_MOST).to_owned()),
            },
        };
        let calls = vec![raw(name, arguments)];
        self.finds.push(Find {
            begin,
            end,
            calls,
            if_alone: Vec::new(),
        });
        end
    }

    /// The JSON value that begins the text, mended if it looks like a call, and its length.
    fn value(&mut self, rest: &str) -> Option<(Value, usize)> {
        if self.vain == 0 {
            return None;
        }
        let rest = prefix(rest, CALL_MOST);
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let error = match values.next()? {
            Ok(value) => return Some((value, values.byte_offset())),
            Err(error) => error,
        };
        self.vain = self
            .vain
            .saturating_sub(bytes_before(rest, &error) + VAIN_LEAST);
        if !self.meant_as_call(rest) {
            return None;
        }
        self.vain = self.vain.saturating_sub(rest.len());
        let (mended, len) = mended(rest)?;
        Some((serde_json::from_str(&mended).ok()?, len))
    }

    /// Whether an object that cannot be read is meant as a call: it names a tool of the brain and
    /// one of the keys of a call.
    fn meant_as_call(&self, rest: &str) -> bool {
        let glance = prefix(rest, GLANCE);
        let quoted = |word: &str| {
            ["\"", "'"]
                .iter()
                .any(|mark| glance.contains(&format!("{mark}{word}{mark}")))
        };
        rest.starts_with('{')
            && NAMES.iter().any(|key| quoted(key))
            && self.listed.iter().any(|name| quoted(name))
    }

    fn reading(mut self, text: &str, most: usize) -> Reading {
        let named = self.finds.iter().any(|find| !find.calls.is_empty());
        if !named && self.broken.is_none() && self.nothing_but_finds(text) {
            for find in &mut self.finds {
                find.calls = std::mem::take(&mut find.if_alone);
            }
        }
        let mut rest = String::with_capacity(text.len());
        let (mut calls, mut up_to) = (Vec::new(), 0);
        let mut from = 0;
        for find in &mut self.finds {
            let wrapper = !text[find.begin..].starts_with(['{', '[']);
            if find.calls.is_empty() && !wrapper {
                continue;
            }
            let (begin, end) = decorated(text, from, find.begin, find.end);
            if self.broken.is_none_or(|at| begin <= at) {
                rest.push_str(&text[from..begin]);
            }
            from = end;
            if !find.calls.is_empty() {
                up_to = end;
            }
            calls.append(&mut find.calls);
        }
        let end = self.broken.unwrap_or(text.len());
        rest.push_str(text.get(from..end).unwrap_or_default());
        calls.truncate(most);
        Reading {
            calls,
            broken: self.broken.is_some(),
            up_to_calls: text[..up_to].trim().to_owned(),
            rest: rest.trim().to_owned(),
        }
    }

    /// Whether the reply is nothing but what was found and what decorates it.
    fn nothing_but_finds(&self, text: &str) -> bool {
        let mut from = 0;
        for find in &self.finds {
            let (begin, end) = decorated(text, from, find.begin, find.end);
            if find.if_alone.is_empty() || !is_decoration(&text[from..begin]) {
                return false;
            }
            from = end;
        }
        is_decoration(&text[from..])
    }
}

fn is_decoration(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || "`*_.,;:>".contains(c))
}

/// A find with the fence or the emphasis around it, not before `from`.
fn decorated(text: &str, from: usize, begin: usize, end: usize) -> (usize, usize) {
    let marks = |c: char| c == '`' || c == '*' || c == '_';
    let before = text[from..begin].trim_end();
    // The word behind an opening fence.
    let bare = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let opens = bare.ends_with("```");
    let left = if opens { bare } else { before };
    let left = left.trim_end_matches(marks);
    let after = text[end..].trim_start();
    let closes = after.starts_with("```");
    let right = after.trim_start_matches(marks);
    // A fence may hold several; other marks come in pairs.
    let pair = left.len() < before.len() && right.len() < after.len();
    (
        if opens || pair {
            from + left.len()
        } else {
            begin
        },
        if closes || pair {
            text.len() - right.len()
        } else {
            end
        },
    )
}

enum Opening<'a> {
    Wrapper(usize),
    Function(&'a str, usize),
}

/// The tag of a wrapper that begins the text, if one does.
fn opening(rest: &str) -> Option<Opening<'_>> {
    if rest.starts_with("<|tool_call>") {
        return Some(Opening::Wrapper("<|tool_call>".len()));
    }
    let inner = prefix(rest, TAG_MOST).strip_prefix('<')?;
    let inner = &inner[..inner.find(['<', '>'])?];
    if !rest[1 + inner.len()..].starts_with('>') {
        return None;
    }
    let len = inner.len() + 2;
    if let Some(name) = inner.strip_prefix("function=") {
        return Some(Opening::Function(name.trim(), len));
    }
    let name = inner.split_whitespace().next()?;
    WRAPPERS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
        .then_some(Opening::Wrapper(len))
}

/// Where the insides of a wrapper that has opened before `inner` end, and where it ends itself: at
/// its closing tag, else before the next opening one, else with the text.
fn closing(text: &str, inner: usize) -> (usize, usize) {
    let mut at = inner;
    while let Some(step) = text[at..].find('<') {
        at += step;
        let rest = &text[at..];
        if let Some(len) = closing_tag(rest) {
            // The end of the call inside may stand before that of the wrapper.
            return (at, at + len);
        }
        if opening(rest).is_some() {
            return (at, at);
        }
        at += 1;
    }
    (text.len(), text.len())
}

fn closing_tag(rest: &str) -> Option<usize> {
    if rest.starts_with("<tool_call|>") {
        return Some("<tool_call|>".len());
    }
    let name = prefix(rest, TAG_MOST).strip_prefix("</")?;
    let name = &name[..name.find('>')?];
    let known = |tag: &&str| tag.eq_ignore_ascii_case(name.trim());
    (name == "function" || WRAPPERS.iter().any(known)).then_some(name.len() + 3)
}

/// How far the reader of JSON came.
fn bytes_before(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n');
    let whole: usize = lines
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    whole + error.column()
}

/// The JSON object or array that begins the text, with what small models get wrong put right: line
/// breaks within strings, commas before a closing bracket, closing brackets missing at the end.
/// With its length in the text; `None` where that does not make it whole.
fn mended(rest: &str) -> Option<(String, usize)> {
    let mut out = String::with_capacity(rest.len());
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '\n' if in_string => {
                out.push_str("\\n");
                continue;
            }
            '\t' if in_string => {
                out.push_str("\\t");
                continue;
            }
            '\r' if in_string => continue,
            '{' if !in_string => open.push('}'),
            '[' if !in_string => open.push(']'),
            '}' | ']' if !in_string => {
                if open.pop() != Some(c) {
                    return None;
                }
                while out.ends_with(|c: char| c.is_whitespace() || c == ',') {
                    out.pop();
                }
            }
            _ => {}
        }
        out.push(c);
        if open.is_empty() {
            return Some((out, at + c.len_utf8()));
        }
    }
    if in_string {
        return None;
    }
    // The end of a fence may stand where brackets are missing.
    let kept = out.trim_end_matches(|c: char| c.is_whitespace() || c == '`' || c == ',');
    out.truncate(kept.len());
    out.extend(open.iter().rev());
    Some((out, rest.len()))
}

/// The calls that a value is; `None` where it is none.
fn calls_in(value: &Value, listed: &[String], sure: Sure) -> Option<Vec<ToolCall>> {
    let object = match value {
        Value::Array(items) if !items.is_empty() => {
            let calls: Option<Vec<Vec<ToolCall>>> = items
                .iter()
                .map(|item| calls_in(item, listed, sure))
                .collect();
            return calls.map(|calls| calls.concat());
        }
        Value::Object(object) => object,
        _ => return None,
    };
    if object.len() == 1 {
        let inside = WRAPPERS.iter().find_map(|key| object.get(*key));
        if let Some(inside) = inside {
            return calls_in(inside, listed, sure);
        }
    }
    if let Some(function @ Value::Object(_)) = object.get("function") {
        return calls_in(function, listed, sure);
    }
    one_call(object, listed, sure).map(|call| vec![call])
}

fn one_call(object: &Map<String, Value>, listed: &[String], sure: Sure) -> Option<ToolCall> {
    let (key, name) = NAMES
        .iter()
        .find_map(|key| Some((*key, object.get(*key)?.as_str()?)))?;
    let known = known(name, listed).is_some();
    let own = |word: &String| {
        word == key || ARGUMENTS.contains(&word.as_str()) || BESIDE.contains(&word.as_str())
    };
    let bare = object.keys().all(own);
    let arguments = ARGUMENTS.iter().find_map(|key| object.get(*key));
    if arguments.is_some_and(is_schema) {
        return None;
    }
    let meant = match sure {
        Sure::Wrapped => true,
        Sure::ByName => known && (arguments.is_some() || key == "tool" || bare),
        Sure::ByShape => bare && arguments.is_some(),
    };
    if !meant {
        return None;
    }
    let arguments = match arguments {
        Some(arguments) => normal(Some(arguments)),
        // Small models leave the inner object out.
        None => Ok(object
            .iter()
            .filter(|(word, _)| !own(word))
            .map(|(word, value)| (word.clone(), value.clone()))
            .collect()),
    };
    Some(raw(name, arguments))
}

/// Whether a value is what the prompt's own words ask for, and nothing else.
fn to_the_letter(value: &Value) -> bool {
    let keys = value.as_object().map(|object| object.keys());
    keys.is_some_and(|keys| keys.eq(["tool", "arguments"])) && value["arguments"].is_object()
}

/// Whether what follows this text begins a piece of code.
fn in_code(before: &str) -> bool {
    let bare = before
        .trim_end()
        .trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    bare.ends_with("```") || before.ends_with('`')
}

/// Whether arguments are a tool's description told back.
fn is_schema(value: &Value) -> bool {
    value["type"] == "object" && value["properties"].is_object()
}

fn raw(name: &str, arguments: Result<Map<String, Value>, String>) -> ToolCall {
    ToolCall {
        id: String::new(),
        name: name.to_owned(),
        arguments,
    }
}

/// The calls of a provider's own protocol: `tool_calls` of a message, or `function_call` as older
/// servers have it. At most `most`; the rest of a flood is as if it had not been sent.
#[must_use]
pub fn native(message: &Value, most: usize) -> Vec<ToolCall> {
    let one = message.get("function_call").filter(|call| call.is_object());
    let all = message["tool_calls"].as_array();
    let items = all.into_iter().flatten().chain(one).take(most);
    items
        .map(|item| {
            let function = item.get("function").filter(|inner| inner.is_object());
            let call = function.unwrap_or(item);
            ToolCall {
                id: item["id"].as_str().unwrap_or_default().to_owned(),
                name: call["name"].as_str().unwrap_or_default().to_owned(),
                arguments: normal(ARGUMENTS.iter().find_map(|key| call.get(*key))),
            }
        })
        .collect()
}

/// Arguments as an object: absent, null, blank and an empty list mean none; a text is read.
fn normal(arguments: Option<&Value>) -> Result<Map<String, Value>, String> {
    let object = match arguments {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Array(list)) if list.is_empty() => Map::new(),
        Some(Value::Object(object)) => object.clone(),
        Some(Value::String(text)) => return from_text(text),
        Some(other) => return Err(prefix(&other.to_string(), CALL_MOST).to_owned()),
    };
    bounded(object)
}

fn from_text(text: &str) -> Result<Map<String, Value>, String> {
    let refused = || Err(prefix(text, CALL_MOST).to_owned());
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    if text.len() > CALL_MOST {
        return refused();
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        // Some servers write the text of a text.
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(Value::Object(object)) => Ok(object),
            _ => refused(),
        },
        _ => refused(),
    }
}

fn bounded(object: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let text = Value::Object(object.clone()).to_string();
    if text.len() > CALL_MOST {
        return Err(prefix(&text, CALL_MOST).to_owned());
    }
    Ok(object)
}

/// Gives calls ids that no other call of the run has, and names that every protocol takes: a tool's
/// own where it is meant, else what is left of it. `seen` are the ids so far, `before` the number of
/// calls.
pub fn settle(calls: &mut [ToolCall], listed: &[String], seen: &mut HashSet<String>, before: u32) {
    for (n, call) in (before..).skip(1).zip(calls) {
        let fit = !call.id.is_empty()
            && call.id.len() <= TAG_MOST
            && call.id.bytes().all(|b| b.is_ascii_graphic());
        if !fit || seen.contains(&call.id) {
            // Nine letters and digits: what Mistral's templates insist on.
            call.id = (n..)
                .map(|n| format!("call{n:05}"))
                .find(|id| !seen.contains(id))
                .unwrap_or_default();
        }
        seen.insert(call.id.clone());
        call.name = match known(&call.name, listed) {
            Some(name) => name.clone(),
            None => unlisted(plain_name(&call.name), listed),
        };
    }
}

/// The tool that a name means: case and the prefix of some servers set aside.
fn known<'a>(name: &str, listed: &'a [String]) -> Option<&'a String> {
    let name = name.trim();
    let name = name.strip_prefix("functions.").unwrap_or(name);
    listed.iter().find(|tool| tool.eq_ignore_ascii_case(name))
}

/// A name that is no tool's must not become one by being made plain: `webhook.call` is no
/// `webhook_call`.
fn unlisted(plain: String, listed: &[String]) -> String {
    match known(&plain, listed) {
        Some(_) => format!("{}_", prefix(&plain, NAME_MOST - 1)),
        None => plain,
    }
}

fn plain_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => c,
            _ => '_',
        })
        .take(NAME_MOST)
        .collect();
    match plain.as_str() {
        "" => "unnamed".to_owned(),
        _ => plain,
    }
}

/// A reply with calls as the text protocol writes it.
#[must_use]
pub fn written(text: &str, calls: &[ToolCall]) -> String {
    let mut lines: Vec<String> = Vec::new();
    if !text.trim().is_empty() {
        lines.push(text.trim().to_owned());
    }
    for call in calls {
        let arguments = call.sent_arguments();
        lines.push(json!({"tool": call.name, "arguments": arguments}).to_string());
    }
    lines.join("\n")
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
