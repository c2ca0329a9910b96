//! The daemon with an agent brain, a model that plays its part by what it is shown, and the audit as
//! the database has it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::{json, Value};

use crate::support::daemon::Site;
use crate::support::model::{ModelServer, Reply, Seen};
use crate::support::site;

/// How long anything may take on a busy box.
pub const SOON: Duration = Duration::from_secs(60);

/// A site whose brain is an agent; its model is told of tools in that lane.
pub fn agent_site(model_url: &str, sink_url: &str, lane: &str, agent: Value) -> Site {
    let mut site = site(model_url, sink_url);
    site.config["brains"][0]["agent"] = agent;
    site.model()["tools"] = lane.into();
    site
}

/// One call as a model writes it.
pub type Called<'a> = (&'a str, Value);

/// An answer of Ollama that calls tools by its protocol.
pub fn ollama_calls(calls: &[Called<'_>]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(name, arguments)| json!({"function": {"name": name, "arguments": arguments}}))
        .collect();
    Reply::Json(
        200,
        json!({"model": "tiny", "message": {"role": "assistant", "content": "", "tool_calls": calls},
            "done": true, "done_reason": "stop", "prompt_eval_count": 20}),
    )
}

/// The same as OpenAI-style servers have it.
pub fn openai_calls(calls: &[Called<'_>]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| {
            json!({"id": format!("call_{at}"), "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}})
        })
        .collect();
    Reply::Json(
        200,
        json!({"choices": [{"index": 0, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": null, "tool_calls": calls}}]}),
    )
}

/// How many replies the model has given in this run, by what it is shown: the same after a restart.
pub fn replies(body: &Value) -> usize {
    messages(body)
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count()
}

/// The messages of a question.
pub fn messages(body: &Value) -> Vec<Value> {
    body["messages"].as_array().cloned().unwrap_or_default()
}

/// Everything that a question says, in one text.
pub fn words(body: &Value) -> String {
    messages(body)
        .iter()
        .map(|message| message["content"].as_str().unwrap_or("").to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// An Ollama that answers each chat by its script, and can call tools.
pub fn ollama(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> ModelServer {
    ollama_on("127.0.0.1:0", script)
}

/// The same at an address.
pub fn ollama_on(
    addr: &str,
    script: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> ModelServer {
    let addr = addr.parse().expect("an address");
    ModelServer::on(addr, None, move |seen: &Seen| match seen.line.as_str() {
        "POST /api/show" => Reply::Json(
            200,
            json!({"capabilities": ["completion", "tools"], "model_info": {
                "general.architecture": "tiny", "tiny.context_length": 8192}}),
        ),
        "POST /api/chat" => script(&seen.json()),
        _ => Reply::Json(404, json!({"error": "not here"})),
    })
}

/// The bodies of the chats that a model was asked.
pub fn chats(model: &ModelServer) -> Vec<Value> {
    let chats = model
        .seen()
        .into_iter()
        .filter(|seen| seen.is("POST /api/chat") || seen.is("POST /v1/chat/completions"));
    chats.map(|seen| seen.json()).collect()
}

/// One row of the audit: number, tool, outcome, rule.
pub type Row = (i64, String, String, String);

/// The audit in the database of a site, by message and call.
pub fn audit(site: &Site) -> Vec<Row> {
    audit_of(&site.database())
}

/// The same of a database file.
pub fn audit_of(database: &Path) -> Vec<Row> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(database, flags).expect("the database");
    let mut statement = connection
        .prepare("SELECT call, tool, outcome, rule FROM audit ORDER BY inbox, call")
        .expect("the audit");
    let rows = statement.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

/// A row to compare with.
pub fn row(call: i64, tool: &str, outcome: &str, rule: &str) -> Row {
    (call, tool.to_owned(), outcome.to_owned(), rule.to_owned())
}

/// Entries of journals that are left in the database of a site.
pub fn journal_left(site: &Site) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(site.database(), flags).expect("the database");
    connection
        .query_row("SELECT count(*) FROM journal", [], |row| row.get(0))
        .expect("a number")
}
