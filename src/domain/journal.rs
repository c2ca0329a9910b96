//! What a run writes down of itself, so that a restart goes on behind its last step: entries, and
//! their bytes. Pure. It must never guess: what it cannot read is damaged, not empty.

use serde_json::{json, Map, Value};

use super::completion::{Lane, ToolCall};

/// The form in which entries are written. Another form is not read.
const VERSION: u64 = 1;

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A reply of the model that is not the answer: it calls tools, or tries to.
    Reply {
        /// In which lane its calls were written.
        lane: Lane,
        /// Its words.
        text: String,
        /// Its calls; none where they could not be read.
        calls: Vec<ToolCall>,
    },
    /// A call is about to have effects. One without effects needs no such entry: it is called again.
    Started {
        /// Its number in the run.
        n: u32,
    },
    /// What the model is told of a call.
    Observed {
        /// Its number in the run.
        n: u32,
        /// The words.
        text: String,
    },
}

/// A journal that cannot be gone on from: of another version, or not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Entry {
    /// The bytes for the store.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let value = match self {
            Entry::Reply { lane, text, calls } => {
                let calls: Vec<Value> = calls.iter().map(written).collect();
                json!({"v": VERSION, "reply": text, "native": *lane == Lane::Native, "calls": calls})
            }
            Entry::Started { n } => json!({"v": VERSION, "started": n}),
            Entry::Observed { n, text } => json!({"v": VERSION, "observed": n, "text": text}),
        };
        value.to_string().into_bytes()
    }

    /// Reads what [`Entry::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Entry, Damaged> {
        read(bytes).ok_or(Damaged)
    }
}

fn written(call: &ToolCall) -> Value {
    let arguments = match &call.arguments {
        Ok(object) => Value::Object(object.clone()),
        Err(words) => Value::String(words.clone()),
    };
    json!([call.id, call.name, arguments])
}

fn read(bytes: &[u8]) -> Option<Entry> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let entry: &Map<String, Value> = value.as_object()?;
    if entry.get("v")?.as_u64()? != VERSION {
        return None;
    }
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    if let Some(n) = entry.get("started") {
        return Some(Entry::Started { n: number(n)? });
    }
    if let Some(n) = entry.get("observed") {
        let text = entry.get("text")?.as_str()?.to_owned();
        return Some(Entry::Observed {
            n: number(n)?,
            text,
        });
    }
    let lane = match entry.get("native")?.as_bool()? {
        true => Lane::Native,
        false => Lane::Text,
    };
    let calls = entry.get("calls")?.as_array()?.iter().map(call_read);
    Some(Entry::Reply {
        lane,
        text: entry.get("reply")?.as_str()?.to_owned(),
        calls: calls.collect::<Option<_>>()?,
    })
}

fn call_read(value: &Value) -> Option<ToolCall> {
    let [id, name, arguments] = value.as_array()?.as_slice() else {
        return None;
    };
    let arguments = match arguments {
        Value::Object(object) => Ok(object.clone()),
        Value::String(words) => Err(words.clone()),
        _ => return None,
    };
    Some(ToolCall {
        id: id.as_str()?.to_owned(),
        name: name.as_str()?.to_owned(),
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: Result<Value, &str>) -> ToolCall {
        ToolCall {
            id: "call00001".to_owned(),
            name: "no such \"tool\"\n".to_owned(),
            arguments: arguments
                .map(|value| value.as_object().expect("an object").clone())
                .map_err(str::to_owned),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let number: Value = serde_json::from_str("1e400").expect("a number as written");
        for entry in [
            Entry::Reply {
                lane: Lane::Native,
                text: "ñ \u{0} \u{2028}".to_owned(),
                calls: vec![
                    call(Ok(json!({"b": 1, "a": [null, {"deep": number}]}))),
                    call(Err("{\"half")),
                    call(Ok(json!({}))),
                ],
            },
            Entry::Reply {
                lane: Lane::Text,
                text: String::new(),
                calls: Vec::new(),
            },
            Entry::Started { n: u32::MAX },
            Entry::Observed {
                n: 1,
                text: "{\"v\":2}".to_owned(),
            },
        ] {
            assert_eq!(Entry::from_bytes(&entry.to_bytes()), Ok(entry));
        }
    }

    #[test]
    fn what_is_not_ours_is_damaged() {
        for bytes in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"started":1}"#,
            r#"{"v":2,"started":1}"#,
            r#"{"v":1}"#,
            r#"{"v":1,"started":-1}"#,
            r#"{"v":1,"started":4294967296}"#,
            r#"{"v":1,"observed":1}"#,
            r#"{"v":1,"observed":1,"text":null}"#,
            r#"{"v":1,"reply":"","native":1,"calls":[]}"#,
            r#"{"v":1,"reply":"","native":true,"calls":[["i","n"]]}"#,
            r#"{"v":1,"reply":"","native":true,"calls":[["i","n",5]]}"#,
        ] {
            assert_eq!(Entry::from_bytes(bytes.as_bytes()), Err(Damaged), "{bytes}");
        }
        assert_eq!(Entry::from_bytes(&[0xff]), Err(Damaged));
    }
}
