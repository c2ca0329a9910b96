//! What a run writes down of itself, so that a restart goes on behind its last step: entries, and
//! their bytes. Pure. It must never guess: what it cannot read is damaged, not empty.

use serde_json::{json, Map, Value};

use super::completion::{Lane, ToolCall};

/// The form in which entries are written. Another form is not read.
const VERSION: u64 = 1;

/// Who began, and behind what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The brain.
    pub brain: String,
    /// Numbers that earlier calls may have taken: no number is given twice.
    pub calls: u32,
    /// Tools whose effects had started in a run that cannot be gone on with.
    pub unknown: Vec<String>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A run begins here; what stands before counts no more.
    Begun(Begun),
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
            Entry::Begun(begun) => json!({"v": VERSION, "brain": begun.brain,
                "calls": begun.calls, "unknown": begun.unknown}),
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

/// What a run of that brain goes on from; `None` where there is nothing, or nothing of that brain
/// that can be read.
#[must_use]
pub fn of_brain(journal: &[Vec<u8>], brain: &str) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    for bytes in journal {
        match Entry::from_bytes(bytes) {
            Ok(begun @ Entry::Begun(_)) => entries = vec![Ok(begun)],
            other => entries.push(other),
        }
    }
    let entries: Vec<Entry> = entries.into_iter().collect::<Result<_, _>>().ok()?;
    match entries.first() {
        Some(Entry::Begun(begun)) if begun.brain == brain => Some(entries),
        _ => None,
    }
}

/// The beginning of a run of that brain behind a journal that it cannot go on from. `calls_read`
/// is the most calls that one entry may hold.
#[must_use]
pub fn anew(journal: &[Vec<u8>], brain: &str, calls_read: usize) -> Begun {
    let most = u32::try_from(calls_read).unwrap_or(u32::MAX);
    let mut begun = Begun::default();
    let mut names: Vec<(u32, String)> = Vec::new();
    let named = |n: u32, names: &[(u32, String)]| {
        let name = names.iter().find(|(number, _)| *number == n);
        name.map_or_else(|| "a tool".to_owned(), |(_, name)| name.clone())
    };
    for bytes in journal {
        match Entry::from_bytes(bytes) {
            Ok(Entry::Begun(earlier)) => {
                begun.calls = begun.calls.max(earlier.calls);
                begun.unknown = earlier.unknown;
                names.clear();
            }
            Ok(Entry::Reply { calls, .. }) => {
                for call in calls {
                    begun.calls = begun.calls.saturating_add(1);
                    names.push((begun.calls, call.name));
                }
            }
            Ok(Entry::Started { n }) => {
                begun.calls = begun.calls.max(n);
                begun.unknown.push(named(n, &names));
            }
            Ok(Entry::Observed { n, .. }) => begun.calls = begun.calls.max(n),
            // It may have been any of these.
            Err(Damaged) => {
                begun.calls = begun.calls.saturating_add(most);
                begun.unknown.push("a tool".to_owned());
            }
        }
    }
    begun.brain = brain.to_owned();
    begun
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
    if let Some(brain) = entry.get("brain") {
        let names = entry.get("unknown")?.as_array()?.iter();
        return Some(Entry::Begun(Begun {
            brain: brain.as_str()?.to_owned(),
            calls: number(entry.get("calls")?)?,
            unknown: names
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        }));
    }
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
            Entry::Begun(Begun {
                brain: "casa \"\"".to_owned(),
                calls: 17,
                unknown: vec!["webhook_call".to_owned()],
            }),
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

    fn begun(brain: &str, calls: u32, unknown: &[&str]) -> Begun {
        Begun {
            brain: brain.to_owned(),
            calls,
            unknown: unknown.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn a_journal_is_gone_on_from_by_its_own_brain_only() {
        let bytes = |entries: &[Entry]| entries.iter().map(Entry::to_bytes).collect::<Vec<_>>();
        let reply = |names: &[&str]| Entry::Reply {
            lane: Lane::Native,
            text: String::new(),
            calls: names
                .iter()
                .map(|name| ToolCall {
                    name: (*name).to_owned(),
                    ..call(Ok(json!({})))
                })
                .collect(),
        };
        let first = Entry::Begun(begun("casa", 0, &[]));
        let journal = bytes(&[
            first.clone(),
            reply(&["time", "webhook_call"]),
            Entry::Observed {
                n: 1,
                text: String::new(),
            },
            Entry::Started { n: 2 },
        ]);
        assert_eq!(of_brain(&[], "casa"), None);
        assert_eq!(anew(&[], "casa", 16), begun("casa", 0, &[]));
        assert_eq!(of_brain(&journal, "casa").map(|all| all.len()), Some(4));
        assert_eq!(of_brain(&journal, "calle"), None);
        let other = begun("calle", 2, &["webhook_call"]);
        assert_eq!(anew(&journal, "calle", 16), other);
        // The new beginning is what counts from then on.
        let mut gone_on = journal.clone();
        gone_on.push(Entry::Begun(other.clone()).to_bytes());
        assert_eq!(of_brain(&gone_on, "calle"), Some(vec![Entry::Begun(other)]));
        gone_on.extend(bytes(&[reply(&["memory_note"]), Entry::Started { n: 3 }]));
        assert_eq!(
            anew(&gone_on, "casa", 16),
            begun("casa", 3, &["webhook_call", "memory_note"])
        );
        // What cannot be read may have held any calls.
        let mut torn = journal;
        torn[1] = b"{".to_vec();
        assert_eq!(of_brain(&torn, "casa"), None);
        assert_eq!(
            anew(&torn, "casa", 16),
            begun("casa", 16, &["a tool", "a tool"])
        );
        assert_eq!(of_brain(&bytes(&[reply(&["time"])]), "casa"), None);
    }
}
