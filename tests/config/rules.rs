//! Every rule of the file as a table: a piece of a correct file replaced, and what is said of it:
//! path, severity, a word of the message, and the text at the place that is pointed at.

use korvun::config::problem::{Problem, Severity};

use super::full::FULL;
use super::plans::LEAST;
use super::{checked, checked_in, errors, surroundings};

/// One thing that must be said: `E` or `W` and the path, a word of message or help, the text there.
type Said = (&'static str, &'static str, &'static str);
/// What is replaced by what, and all that must be said then.
type Row = (&'static str, &'static str, &'static [Said]);

fn changed(file: &str, part: &str, by: &str) -> String {
    assert!(file.contains(part), "{part} is not in the file");
    file.replacen(part, by, 1)
}

/// The text from a line and column on.
fn text_at<'a>(text: &'a str, problem: &Problem) -> &'a str {
    let line = text
        .split('\n')
        .nth(problem.line.wrapping_sub(1))
        .unwrap_or_default();
    let start = line
        .char_indices()
        .nth(problem.column.wrapping_sub(1))
        .map_or(line.len(), |(at, _)| at);
    &line[start..]
}

#[track_caller]
fn hold(text: &str, problems: &[Problem], said: &[Said]) {
    let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), said.len(), "{text}\n{shown:#?}");
    for (problem, (path, word, at)) in problems.iter().zip(said) {
        let letter = match problem.severity {
            Severity::Error => "E",
            Severity::Warning => "W",
        };
        assert_eq!(format!("{letter} {}", problem.path), *path, "{shown:#?}");
        let words = format!("{} {}", problem.message, problem.help);
        assert!(words.contains(word), "{word:?} is not in {words:?}");
        let there = text_at(text, problem);
        assert!(there.starts_with(at), "{shown:#?} points at {there:?}");
    }
}

fn table(file: &str, rows: &[Row]) {
    for (part, by, said) in rows {
        let text = changed(file, part, by);
        let checked = checked(&text);
        hold(&text, &checked.problems, said);
        let broken = said.iter().any(|(path, _, _)| path.starts_with('E'));
        assert_eq!(checked.plan.is_none(), broken, "{part} -> {by}");
    }
}

#[test]
fn every_problem_is_told_at_once_and_in_order() {
    let text = r#"{
  "chanels": [],
  "channels": [{"type": "telegrm"}],
  "brains": [{"name": "a", "sensitivity": "secret"}],
  "routes": [{"channel": "webhook", "brain": "b"}]
}"#;
    hold(
        text,
        &checked(text).problems,
        &[
            ("E chanels", "did you mean `channels`?", "[]"),
            (
                "E channels[0].type",
                "did you mean `telegram`?",
                "\"telegrm\"",
            ),
            ("E brains[0].models", "`models` is missing", "{\"name\""),
            ("E brains[0].policy", "`policy` is missing", "{\"name\""),
            (
                "E brains[0].sensitivity",
                "`public`, `private`",
                "\"secret\"",
            ),
            ("W routes[0].channel", "no channel `webhook`", "\"webhook\""),
            ("E routes[0].brain", "unknown brain", "\"b\""),
        ],
    );
}

#[test]
fn keys_and_types() {
    table(
        FULL,
        &[
            (
                "\"schema_version\": 1",
                "\"schema_version\": 2",
                &[("E schema_version", "only 1", "2")],
            ),
            (
                "\"schema_version\": 1",
                "\"schema_version\": \"1\"",
                &[("E schema_version", "a string", "\"1\"")],
            ),
            (
                "\"_comment\": \"everything\"",
                "\"_comment\": 5",
                &[("E _comment", "a comment is a string", "5")],
            ),
            (
                "\"_comment\": \"cold\"",
                "\"_comment\": null",
                &[(
                    "E brains[0].models[0].options._comment",
                    "a comment is a string",
                    "null",
                )],
            ),
            ("\"admin\": {", "\"admin\": {\"_comment\": \"x\", ", &[]),
            (
                "\"storage\": {",
                "\"Storage\": {}, \"storage\": {",
                &[("E storage", "differ only in case", "{\"path\"")],
            ),
            (
                "\"storage\": {",
                "\"STORAGE\": {",
                &[
                    ("E brains[1].agent.tools", "without `storage`", "[\"time\""),
                    ("E STORAGE", "did you mean `storage`?", "{\"path\""),
                    ("E session", "without `storage`", "{\"triggers\""),
                ],
            ),
            (
                "\"mode\": \"polling\"",
                "\"mode\": \"polling\", \"mode\": \"polling\"",
                &[("E channels[0].mode", "twice", "\"polling\", \"token_env\"")],
            ),
            (
                "\"temperature\": 0.25",
                "\"temperature\": 0.25, \"temperature\": 1",
                &[("E brains[0].models[0].options.temperature", "twice", "1, ")],
            ),
            (
                "\"temperature\": 0.25",
                "\"temperature\": 1e999",
                &[(
                    "E brains[0].models[0].options.temperature",
                    "out of range",
                    "1e999",
                )],
            ),
            (
                "\"options\": {",
                "\"options\": [], \"x\": {",
                &[
                    ("E brains[0].models[0].options", "an object", "[]"),
                    (
                        "E brains[0].models[0].x",
                        "unknown key `x`",
                        "{\"_comment\"",
                    ),
                ],
            ),
            (
                "\"type\": \"console\"",
                "\"type\": \"console\", \"we\\nird\\\"\": 1",
                &[("E channels[3][\"we\\nird\\\"\"]", "unknown key", "1")],
            ),
            (
                "\"type\": \"console\"",
                "\"type\": \"console\", \"token_env\": \"X_TOKEN\"",
                &[(
                    "E channels[3].token_env",
                    "a key of telegram and discord and webhook",
                    "\"X_TOKEN\"",
                )],
            ),
            (
                "\"type\": \"webhook\", ",
                "\"type\": \"webhook\", \"allow_from\": [\"1\"], ",
                &[(
                    "E channels[2].allow_from",
                    "telegram and discord",
                    "[\"1\"]",
                )],
            ),
            (
                "\"type\": \"webhook\", ",
                "\"type\": \"webhook\", \"mode\": \"\", ",
                &[],
            ),
            (
                "\"type\": \"webhook\", ",
                "\"type\": \"webhook\", \"mode\": \"push\", ",
                &[("E channels[2].mode", "does not belong here", "\"push\"")],
            ),
            (
                "\"type\": \"webhook\", ",
                "\"type\": \"webhook\", \"allow_from\": null, ",
                &[("E channels[2].allow_from", "telegram and discord", "null")],
            ),
            (
                "\"provider\": \"groq\", ",
                "\"provider\": \"groq\", \"think\": true, ",
                &[("E brains[0].models[1].think", "a key of ollama", "true")],
            ),
            (
                "\"provider\": \"groq\", ",
                "\"provider\": \"groq\", \"api_key\": \"gsk_abcdef\", ",
                &[(
                    "E brains[0].models[1].api_key",
                    "put the variable's name into `api_key_env`",
                    "\"gsk_",
                )],
            ),
            (
                "\"name\": \"team\"",
                "\"name\": 5",
                &[("E brains[0].name", "write it in quotes: \"5\"", "5")],
            ),
            (
                "[\"12345678\"]",
                "[12345678901234567890]",
                &[(
                    "E channels[0].allow_from[0]",
                    "write it in quotes: \"12345678901234567890\"",
                    "12345678901234567890",
                )],
            ),
            (
                "[\"12345678\"]",
                "\"12345678\"",
                &[("E channels[0].allow_from", "a list", "\"12345678\"")],
            ),
            (
                "[\"12345678\"]",
                "[null]",
                &[(
                    "E channels[0].allow_from[0]",
                    "null where a string belongs",
                    "null",
                )],
            ),
            (
                "\"warmup\": true",
                "\"warmup\": \"yes\"",
                &[("E brains[0].models[0].warmup", "true or false", "\"yes\"")],
            ),
            (
                "\"answer_timeout\": \"1h\"",
                "\"answer_timeout\": 60",
                &[("E brains[0].answer_timeout", "such as \"30s\"", "60")],
            ),
            (
                "\"routes\": [",
                "\"routes\": {}, \"_comment2\": [",
                &[
                    ("E routes", "an object where a list belongs", "{}"),
                    ("E _comment2", "unknown key", "["),
                ],
            ),
        ],
    );
}

#[test]
fn empty_values() {
    table(
        FULL,
        &[
            (
                "\"allow_from\": [\"12345678\"]",
                "\"allow_from\": null",
                &[
                    (
                        "W channels[0].allow_from",
                        "everybody",
                        "{\"type\": \"telegram\"",
                    ),
                    ("E channels[0].allow_from", "would open", "null"),
                ],
            ),
            (
                "\"allow_from\": [\"12345678\"]",
                "\"allow_from\": []",
                &[("E channels[0].allow_from", "empty list", "[]")],
            ),
            (
                "\"channels\": [\"console\", \"telegram\"]",
                "\"channels\": \"\"",
                &[(
                    "E brains[1].agent.governance[1].channels",
                    "would open",
                    "\"\"",
                )],
            ),
            (
                "\"channels\": [\"console\", \"telegram\"]",
                "\"channels\": []",
                &[(
                    "E brains[1].agent.governance[1].channels",
                    "empty list",
                    "[]",
                )],
            ),
            (
                "\"chats\": \"direct\"",
                "\"chats\": null",
                &[(
                    "E brains[1].agent.governance[1].chats",
                    "would open",
                    "null",
                )],
            ),
            (
                "\"name\": \"team\"",
                "\"name\": \"\"",
                &[
                    ("E brains[0].name", "`name` is empty", "\"\""),
                    ("E routes[0].brain", "unknown brain `team`", "\"team\""),
                    ("E routes[1].brain", "unknown brain `team`", "\"team\""),
                ],
            ),
            (
                "\"sensitivity\": \"public\"",
                "\"sensitivity\": null",
                &[("E brains[0].sensitivity", "is empty", "null")],
            ),
            (
                "\"admin\": {\"token_env\": \"KORVUN_ADMIN_TOKEN\"}",
                "\"admin\": {}",
                &[("E admin.token_env", "is missing", "{}")],
            ),
            (
                "\"api_key_env\": \"GROQ_API_KEY\"",
                "\"api_key_env\": \"\"",
                &[("E brains[0].models[1].api_key_env", "is empty", "\"\"")],
            ),
            (
                "\"root\": \"notes\"",
                "\"root\": \"\"",
                &[("E brains[1].agent.read_file.root", "is empty", "\"\"")],
            ),
        ],
    );
    let closed = changed(
        FULL,
        "\"governance\": [",
        "\"governance\": null, \"_comment\": \"x\", \"gone\": [",
    );
    let found = checked(&closed);
    let paths: Vec<_> = errors(&found)
        .into_iter()
        .map(|problem| {
            (
                problem.path.as_str(),
                problem.message.contains("would open"),
            )
        })
        .collect();
    assert!(
        paths.contains(&("brains[1].agent.governance", true)),
        "{paths:?}"
    );
    for key in ["channels", "brains", "routes"] {
        let text = LEAST.replacen(
            &format!("\"{key}\": ["),
            &format!("\"{key}\": [], \"_comment\": \"\", \"x\": ["),
            1,
        );
        assert!(
            errors(&checked(&text))
                .iter()
                .any(|problem| problem.path == key && problem.message == "an empty list"),
            "{key}"
        );
    }
}

#[test]
fn channels() {
    table(
        FULL,
        &[
            ("\"type\": \"discord\", \"mode\": \"gateway\"", "\"type\": \"discord\", \"mode\": \"polling\"", &[("E channels[1].mode", "gateway", "\"polling\"")]),
            ("\"mode\": \"polling\", ", "", &[("E channels[0].mode", "is missing", "{\"type\": \"telegram\"")]),
            ("\"token_env\": \"TELEGRAM_BOT_TOKEN\", ", "", &[("E channels[0].token_env", "is missing", "{\"type\": \"telegram\"")]),
            ("\"token_env\": \"TELEGRAM_BOT_TOKEN\"", "\"token_env\": \"123:ABC\"", &[("E channels[0].token_env", "looks like a secret, put the variable's name here", "\"123")]),
            ("\"token_env\": \"TELEGRAM_BOT_TOKEN\"", "\"token_env\": 1234567", &[("E channels[0].token_env", "looks like a secret", "1234567")]),
            (", \"allow_from\": [\"12345678\"]", "", &[("W channels[0].allow_from", "everybody", "{\"type\": \"telegram\"")]),
            ("[\"12345678\"]", "[\"@alice\"]", &[("E channels[0].allow_from[0]", "not a sender's id", "\"@alice\"")]),
            ("\"respond\": \"all\"", "\"respond\": \"mentions\"", &[("E channels[0].respond", "did you mean `mention`?", "\"mentions\"")]),
            ("{\"type\": \"console\"}", "{\"type\": \"telegram\", \"mode\": \"polling\", \"token_env\": \"T\", \"allow_from\": [\"1\"]}", &[("E channels[3].type", "a second channel", "\"telegram\"")]),
            ("\"base_url\": \"http://127.0.0.1:9000/api/\"", "\"base_url\": \"http://u:p@127.0.0.1/\"", &[("E channels[1].base_url", "password", "\"http://u")]),
            ("\"base_url\": \"http://127.0.0.1:9000/api/\"", "\"base_url\": \"http://127.0.0.1/?a\"", &[("E channels[1].base_url", "query", "\"http")]),
            ("\"base_url\": \"http://127.0.0.1:9000/api/\"", "\"base_url\": \"http://127.0.0.1/#a\"", &[("E channels[1].base_url", "#", "\"http")]),
            ("\"base_url\": \"http://127.0.0.1:9000/api/\"", "\"base_url\": \"ws://127.0.0.1/\"", &[("E channels[1].base_url", "http://", "\"ws")]),
            ("\"admin\": {\"token_env\": \"KORVUN_ADMIN_TOKEN\"}", "\"admin\": null", &[("W channels[3].type", "it is not there", "\"console\"")]),
            ("\"enabled\": true", "\"enabled\": false", &[("W channels[3].type", "it is not there", "\"console\"")]),
        ],
    );
}

#[test]
fn the_webhook() {
    table(
        FULL,
        &[
            (
                "\"127.0.0.1:8091\"",
                "\"0.0.0.0:8091\"",
                &[(
                    "W channels[2].webhook.bind",
                    "not a loopback address",
                    "\"0.0.0.0",
                )],
            ),
            (
                "\"127.0.0.1:8091\"",
                "\"example.org:8091\"",
                &[(
                    "E channels[2].webhook.bind",
                    "IP address and port",
                    "\"example",
                )],
            ),
            (
                "\"127.0.0.1:8091\"",
                "\"[::1]:2113\"",
                &[("E observability.addr", "same address", "\"[::1]:2113\"")],
            ),
            (
                "\"path\": \"/in\"",
                "\"path\": \"in\"",
                &[("E channels[2].webhook.path", "begins with `/`", "\"in\"")],
            ),
            (
                "\"path\": \"/in\"",
                "\"path\": \"/in?x=1\"",
                &[("E channels[2].webhook.path", "no query", "\"/in")],
            ),
            (
                "\"path\": \"/in\"",
                "\"path\": \"/healthz\"",
                &[("E channels[2].webhook.path", "/healthz", "\"/healthz\"")],
            ),
            (
                "\"outbound_url\": \"http://127.0.0.1:5678/answers?t=1\", ",
                "",
                &[(
                    "E channels[2].webhook.outbound_url",
                    "is missing",
                    "{\"bind\"",
                )],
            ),
            (
                "http://127.0.0.1:5678/answers?t=1",
                "http://127.0.0.1:8091/elsewhere",
                &[(
                    "E channels[2].webhook.outbound_url",
                    "own address",
                    "\"http",
                )],
            ),
            (
                "http://127.0.0.1:5678/answers?t=1",
                "http://LOCALHOST:8091/in",
                &[(
                    "E channels[2].webhook.outbound_url",
                    "own address",
                    "\"http",
                )],
            ),
            (
                "http://127.0.0.1:5678/answers?t=1",
                "http://127.1:8091/in",
                &[(
                    "E channels[2].webhook.outbound_url",
                    "own address",
                    "\"http",
                )],
            ),
            (
                "http://127.0.0.1:5678/answers?t=1",
                "http://me:pw@h/",
                &[("E channels[2].webhook.outbound_url", "password", "\"http")],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"message_id\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "Korvun's own",
                    "\"message_id\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"in_reply_to\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "Korvun's own",
                    "\"in_reply_to\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"sender_name\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "one name",
                    "\"sender_name\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"/sender_name\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "one name",
                    "\"/sender_name\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"sender_id\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "one name",
                    "\"sender_id\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"/user/id\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "one name",
                    "\"/user/id\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"text\": \"/a~2b\"",
                &[(
                    "E channels[2].webhook.mapping.text",
                    "JSON pointer",
                    "\"/a~2b\"",
                )],
            ),
            (
                "\"text\": \"body\"",
                "\"txet\": \"body\"",
                &[(
                    "E channels[2].webhook.mapping.txet",
                    "did you mean `text`?",
                    "\"body\"",
                )],
            ),
            (
                "\"type\": \"webhook\", ",
                "\"type\": \"webhook\", \"token_env\": \"IN_TOKEN\", ",
                &[("E channels[2].webhook.signature", "at once", "{\"kind\"")],
            ),
            (
                ", \"header\": \"X-Signature\"",
                "",
                &[(
                    "E channels[2].webhook.signature.header",
                    "is missing",
                    "{\"kind\"",
                )],
            ),
            (
                "\"header\": \"X-Signature\"",
                "\"header\": \"X Signature\"",
                &[(
                    "E channels[2].webhook.signature.header",
                    "name of a header",
                    "\"X S",
                )],
            ),
            (
                "\"kind\": \"hmac-sha256\"",
                "\"kind\": \"github\"",
                &[(
                    "E channels[2].webhook.signature.header",
                    "X-Hub-Signature-256",
                    "\"X-Sig",
                )],
            ),
            (
                "\"secret_env\": \"SIGNING_SECRET\", ",
                "",
                &[(
                    "E channels[2].webhook.signature.secret_env",
                    "is missing",
                    "{\"kind\"",
                )],
            ),
        ],
    );
    table(
        LEAST,
        &[
            (
                "\"token_env\": \"KORVUN_WEBHOOK_TOKEN\",",
                "",
                &[("E channels[0].token_env", "is missing", "{\"type\"")],
            ),
            (
                ",\n     \"webhook\": {\"outbound_url\": \"http://127.0.0.1:5678/answers\"}",
                "",
                &[("E channels[0].webhook", "is missing", "{\"type\"")],
            ),
            (
                "{\"outbound_url\"",
                "{\"bind\": \"127.0.0.1:2112\", \"outbound_url\"",
                &[("E observability", "127.0.0.1:2112", "{")],
            ),
        ],
    );
}

#[test]
fn brains_and_models() {
    table(
        FULL,
        &[
            ("\"name\": \"casa\"", "\"name\": \"team\"", &[
                ("E brains[1].name", "a second brain", "\"team\""),
                ("E routes[2].brain", "unknown brain", "\"casa\""),
                ("E routes[3].brain", "unknown brain", "\"casa\""),
            ]),
            ("\"name\": \"casa\"", "\"name\": \"a\\u0007b\"", &[("E brains[1].name", "control character", "\"a")]),
            ("\"dispatch\": \"fanout\"", "\"dispatch\": \"sequential\"", &[
                ("W brains[0].policy.kind", "cannot be reached", "\"consensus\""),
                ("W brains[0].policy.order", "sequential dispatch", "[\"groq\""),
            ]),
            ("\"dispatch\": \"fanout\"", "\"dispatch\": \"serial\"", &[("E brains[0].dispatch", "`fanout`, `sequential`", "\"serial\"")]),
            ("\"sensitivity\": \"public\"", "\"sensitivity\": \"private\"", &[]),
            ("[\"groq\", \"ollama/llama3.2\"]", "[\"openai-compatible/none\"]", &[("E brains[0].policy.order[0]", "names no model", "\"openai")]),
            ("[\"groq\", \"ollama/llama3.2\"]", "[\"lama3.2\"]", &[("E brains[0].policy.order[0]", "did you mean `llama3.2`?", "\"lama3.2\"")]),
            ("\"kind\": \"consensus\"", "\"kind\": \"majority\"", &[("E brains[0].policy.kind", "`priority`, `consensus`", "\"majority\"")]),
            ("\"history_turns\": 0", "\"history_turns\": 201", &[("E brains[0].history_turns", "from 0 to 200", "201")]),
            ("\"history_turns\": 0", "\"history_turns\": 1.5", &[("E brains[0].history_turns", "whole number", "1.5")]),
            ("\"history_turns\": 0", "\"history_turns\": -1", &[("E brains[0].history_turns", "out of bounds", "-1")]),
            ("\"answer_timeout\": \"1h\"", "\"answer_timeout\": \"61m\"", &[("E brains[0].answer_timeout", "from 5s to 1h", "\"61m\"")]),
            ("\"answer_timeout\": \"1h\"", "\"answer_timeout\": \"4s\"", &[("E brains[0].answer_timeout", "from 5s to 1h", "\"4s\"")]),
            ("\"answer_timeout\": \"1h\"", "\"answer_timeout\": \"soon\"", &[("E brains[0].answer_timeout", "not a duration", "\"soon\"")]),
            ("\"request_timeout\": \"90s\"", "\"request_timeout\": \"31m\"", &[("E request_timeout", "from 1s to 30m", "\"31m\"")]),
            ("\"request_timeout\": \"10m\"", "\"request_timeout\": \"999ms\"", &[("E brains[0].models[0].request_timeout", "from 1s to 30m", "\"999ms\"")]),
            ("\"max_retries\": 0", "\"max_retries\": 11", &[("E brains[0].models[0].max_retries", "from 0 to 10", "11")]),
            ("\"parallel\": 2", "\"parallel\": 0", &[("E brains[0].models[0].parallel", "from 1 to 16", "0")]),
            ("\"parallel\": 2", "\"parallel\": 17", &[("E brains[0].models[0].parallel", "from 1 to 16", "17")]),
            ("\"keep_alive\": -1", "\"keep_alive\": \"10m\"", &[]),
            ("\"keep_alive\": -1", "\"keep_alive\": \"ever\"", &[("E brains[0].models[0].keep_alive", "duration", "\"ever\"")]),
            ("\"think\": \"low\"", "\"think\": false", &[]),
            ("\"think\": \"low\"", "\"think\": 3", &[("E brains[0].models[0].think", "true or false", "3")]),
            ("\"tools\": \"text\"", "\"tools\": \"none\"", &[("E brains[0].models[0].tools", "`auto`", "\"none\"")]),
            ("\"locality\": \"cloud\", ", "\"locality\": \"cloud\", \"warmup\": true, ", &[("E brains[0].models[1].warmup", "only a local model", "true")]),
            ("\"locality\": \"cloud\", ", "", &[("E brains[0].models[1].locality", "is missing", "{\"provider\": \"groq\"")]),
            ("\"locality\": \"cloud\", \"api_key_env\": \"GROQ_API_KEY\"", "\"locality\": \"cloud\"", &[("E brains[0].models[1].api_key_env", "is missing", "{\"provider\": \"groq\"")]),
            ("\"locality\": \"cloud\"", "\"locality\": \"local\"", &[("W brains[0].models[1].locality", "declared local", "\"local\"")]),
            ("\"base_url\": \"http://Box.lan:8000/v1/\", ", "", &[("E brains[0].models[2].base_url", "is missing", "{\"provider\": \"openai-compatible\"")]),
            ("\"provider\": \"openai-compatible\", \"model_id\": \"org/model\", \"locality\": \"local\",\n        \"base_url\": \"http://Box.lan:8000/v1/\", \"api_key_env\": \"BOX_KEY\"",
             "\"provider\": \"ollama\", \"model_id\": \"llama3.2\", \"locality\": \"local\", \"base_url\": \"http://127.0.0.1:11434/\"",
             &[("E brains[0].models[2].model_id", "twice", "\"llama3.2\"")]),
            ("\"display_name\": \"Team\"", "\"display_name\": \"a\\nb\"", &[("E brains[0].persona.display_name", "control character", "\"a")]),
            ("\"provider\": \"groq\"", "\"provider\": \"grok\"", &[("E brains[0].models[1].provider", "did you mean `groq`?", "\"grok\"")]),
        ],
    );
    for (key, most) in [
        ("display_name", 80),
        ("tone", 200),
        ("language", 60),
        ("instructions", 4000),
    ] {
        for (count, errors_expected) in [(most, 0), (most + 1, 1)] {
            let text = LEAST.replacen(
                "\"name\": \"assistant\",",
                &format!(
                    "\"name\": \"assistant\", \"persona\": {{\"{key}\": \"{}\"}},",
                    "ñ".repeat(count)
                ),
                1,
            );
            assert_eq!(
                errors(&checked(&text)).len(),
                errors_expected,
                "{key} of {count}"
            );
        }
    }
    for (count, errors_expected) in [(64, 0), (65, 1)] {
        let name = "ñ".repeat(count);
        let found = checked(&LEAST.replace("assistant", &name));
        let of_name = errors(&found)
            .iter()
            .filter(|problem| problem.path == "brains[0].name")
            .count();
        assert_eq!(of_name, errors_expected);
    }
}

#[test]
fn privacy() {
    let groq = "{\"provider\": \"groq\", \"model_id\": \"m\", \"locality\": \"LOCALITY\", \"api_key_env\": \"K\"}";
    let ollama =
        "{\"provider\": \"ollama\", \"model_id\": \"m:cloud\", \"locality\": \"LOCALITY\"}";
    let of_models = |models: &str| {
        let model =
            "{\"provider\": \"ollama\", \"model_id\": \"llama3.2\", \"locality\": \"local\"}";
        changed(LEAST, model, models)
    };
    for model in [
        groq,
        ollama,
        &ollama.replace(":cloud", "-cloud"),
        &ollama.replace("m:cloud", "M:Cloud"),
    ] {
        // Declared local it is an error, and nobody is left either.
        let text = of_models(&model.replace("LOCALITY", "local"));
        hold(
            &text,
            &checked(&text).problems,
            &[
                ("E brains[0].models", "none is left", "[{"),
                (
                    "E brains[0].models[0].locality",
                    "declared local",
                    "\"local\"",
                ),
            ],
        );
        // Declared cloud it is dropped; beside a local one that is all.
        let text = of_models(&model.replace("LOCALITY", "cloud"));
        hold(
            &text,
            &checked(&text).problems,
            &[("E brains[0].models", "none is left", "[{")],
        );
        let both = format!(
            "{{\"provider\": \"ollama\", \"model_id\": \"x\", \"locality\": \"local\"}}, {}",
            model.replace("LOCALITY", "cloud")
        );
        assert_eq!(checked(&of_models(&both)).problems, []);
        let consensus = of_models(&both).replace("\"priority\"", "\"consensus\"");
        hold(
            &consensus,
            &checked(&consensus).problems,
            &[("W brains[0].policy.kind", "fewer than two", "\"consensus\"")],
        );
    }
}

#[test]
fn a_private_brain_with_a_public_address_is_warned_of() {
    for (address, warns) in [
        ("127.0.0.1", false),
        ("192.168.1.5", false),
        ("[fd00::5]", false),
        ("box.lan", false),
        ("203.0.113.7", true),
        ("[2001:db8::1]", true),
    ] {
        let text = changed(
            LEAST,
            "\"locality\": \"local\"",
            &format!("\"locality\": \"local\", \"base_url\": \"http://{address}:11434\""),
        );
        match warns {
            false => assert_eq!(checked(&text).problems, [], "{address}"),
            true => hold(
                &text,
                &checked(&text).problems,
                &[(
                    "W brains[0].models[0].base_url",
                    "sends nothing there",
                    "\"http",
                )],
            ),
        }
        let public = changed(&text, "private", "public");
        assert_eq!(checked(&public).problems, [], "{address}");
    }
}

#[test]
fn order_entries_for_absent_providers() {
    table(
        LEAST,
        &[
            (
                "{\"kind\": \"priority\"}",
                "{\"kind\": \"priority\", \"order\": [\"groq\"]}",
                &[(
                    "W brains[0].policy.order[0]",
                    "no model of `groq`",
                    "\"groq\"",
                )],
            ),
            (
                "{\"kind\": \"priority\"}",
                "{\"kind\": \"priority\", \"order\": [\"groq/x\", \"ollama\"]}",
                &[(
                    "W brains[0].policy.order[0]",
                    "no model of `groq`",
                    "\"groq/x\"",
                )],
            ),
            (
                "{\"kind\": \"priority\"}",
                "{\"kind\": \"priority\", \"order\": [\"gorq\"]}",
                &[("E brains[0].policy.order[0]", "names no model", "\"gorq\"")],
            ),
            (
                "{\"kind\": \"priority\"}",
                "{\"kind\": \"priority\", \"order\": [5]}",
                &[("E brains[0].policy.order[0]", "\"5\"", "5")],
            ),
            (
                "{\"kind\": \"priority\"}",
                "{}",
                &[("E brains[0].policy.kind", "is missing", "{}")],
            ),
        ],
    );
}

#[test]
fn agents() {
    table(
        FULL,
        &[
            ("\"read_file\": {\"root\": \"notes\", \"max_bytes\": 1000},", "", &[("E brains[1].agent.read_file", "without its cage", "{")]),
            ("\"http_fetch\": {\"allow_hosts\": [\"example.org\"], \"max_redirects\": 0},", "", &[("E brains[1].agent.http_fetch", "without its cage", "{")]),
            ("\"webhook_call\": {\"allow_hosts\": [\"192.168.1.20:5678\", \"[::1]\"], \"timeout_seconds\": 20},", "", &[("E brains[1].agent.webhook_call", "without its cage", "{")]),
            ("\"memory\": {\"scope\": \"brain\", \"max_notes\": 5, \"max_note_runes\": 100, \"budget_runes\": 500},", "", &[("E brains[1].agent.memory", "without its cage", "{")]),
            ("\"http_fetch\", \"webhook_call\"", "\"webhook_call\"", &[("W brains[1].agent.http_fetch", "without the tool", "{\"allow_hosts\"")]),
            ("[\"time\", \"echo\"", "[\"time\", \"shell\", \"echo\"", &[("E brains[1].agent.tools[1]", "unknown tool `shell`", "\"shell\"")]),
            ("\"max_iterations\": 7", "\"max_iterations\": 51", &[("E brains[1].agent.max_iterations", "from 1 to 50", "51")]),
            ("\"max_iterations\": 7", "\"max_iterations\": 0", &[("E brains[1].agent.max_iterations", "from 1 to 50", "0")]),
            (", \"mode\": \"deny\"", ", \"mode\": \"maybe\"", &[("E brains[1].agent.governance[3].mode", "`allow`", "\"maybe\"")]),
            (", \"mode\": \"deny\"", ", \"mode\": \"deny\", \"channels\": [\"console\"]", &[("W brains[1].agent.governance[3].channels", "denies everywhere", "[\"console\"]")]),
            ("{\"tool\": \"webhook_call\", \"mode\": \"shadow\"}", "{\"tool\": \"time\", \"mode\": \"shadow\"}", &[("E brains[1].agent.governance[2].tool", "a second grant", "\"time\"")]),
            ("{\"tool\": \"memory_note\", \"mode\": \"deny\"}", "{\"tool\": \"calc\", \"mode\": \"deny\"}", &[("E brains[1].agent.governance", "without a grant", "[")]),
            ("[\"console\", \"telegram\"]", "[\"consol\"]", &[("E brains[1].agent.governance[1].channels[0]", "did you mean `console`?", "\"consol\"")]),
            ("{\"tool\": \"time\", \"mode\"", "{\"tool\": \"tme\", \"mode\"", &[("E brains[1].agent.governance[0].tool", "did you mean `time`?", "\"tme\"")]),
            ("\"time\", \"echo\", \"calc\"", "\"echo\", \"calc\"", &[("E brains[1].agent.governance[0].tool", "does not list", "\"time\"")]),
            ("{\"sensitive\": true}", "{\"sensitive\": false}", &[("E brains[1].agent.tool_attrs.echo.sensitive", "only be added", "false")]),
            ("{\"echo\": {\"sensitive\": true}}", "{\"ecko\": {\"sensitive\": true}}", &[("E brains[1].agent.tool_attrs.ecko", "did you mean `echo`?", "{")]),
            ("{\"echo\": {\"sensitive\": true}}", "{\"echo\": {\"network\": true}}", &[("E brains[1].agent.tool_attrs.echo.network", "unknown key", "true")]),
            ("\"budget_runes\": 500", "\"budget_runes\": 499", &[("E brains[1].agent.memory.budget_runes", "at least 500", "499")]),
            ("\"max_notes\": 5, \"max_note_runes\": 100, \"budget_runes\": 500", "\"max_notes\": 11", &[("E brains[1].agent.memory.budget_runes", "at least 2200", "{\"scope\"")]),
            ("\"max_notes\": 5", "\"max_notes\": 101", &[("E brains[1].agent.memory.max_notes", "from 1 to 100", "101")]),
            ("\"max_note_runes\": 100", "\"max_note_runes\": 2001", &[("E brains[1].agent.memory.max_note_runes", "from 1 to 2000", "2001")]),
            ("\"storage\": {\"path\": \"data/korvun.db\", \"retention_days\": 30},", "", &[
                ("E brains[1].agent.tools", "without `storage`", "[\"time\""),
                ("E session", "without `storage`", "{\"triggers\""),
            ]),
            ("[\"example.org\"]", "[]", &[("E brains[1].agent.http_fetch.allow_hosts", "empty list", "[]")]),
            ("[\"example.org\"]", "[\"http://example.org\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "can never match: a URL", "\"http")]),
            ("[\"example.org\"]", "[\"example.org/x\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "a path", "\"example")]),
            ("[\"example.org\"]", "[\"*.example.org\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "a wildcard", "\"*")]),
            ("[\"example.org\"]", "[\"10.0.0.0/8\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "range", "\"10")]),
            ("[\"example.org\"]", "[\"u@example.org\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "user name", "\"u@")]),
            ("[\"example.org\"]", "[\"[fe80::1%25lo]\"]", &[("E brains[1].agent.http_fetch.allow_hosts[0]", "zone", "\"[fe80")]),
            ("\"max_redirects\": 0", "\"max_redirects\": 11", &[("E brains[1].agent.http_fetch.max_redirects", "from 0 to 10", "11")]),
            ("\"timeout_seconds\": 20", "\"timeout_seconds\": \"20s\"", &[("E brains[1].agent.webhook_call.timeout_seconds", "a string", "\"20s\"")]),
            ("\"skills_dir\": \"/srv/skills\"", "\"skills_dir\": \"~/skills\"", &[("E brains[1].agent.skills_dir", "not expanded", "\"~")]),
            // Further models of an agent are never asked; the policy is optional only here.
            ("\"locality\": \"local\"}],\n     \"agent\"", "\"locality\": \"local\"}, {\"provider\": \"ollama\", \"model_id\": \"b\", \"locality\": \"local\"}],\n     \"agent\"",
             &[("W brains[1].models", "never asked", "[{")]),
        ],
    );
}

#[test]
fn sensitive_tools_and_notes_of_a_whole_brain_stay_with_local_models() {
    let public = changed(
        FULL,
        "\"name\": \"casa\", \"sensitivity\": \"private\"",
        "\"name\": \"casa\", \"sensitivity\": \"public\"",
    );
    assert_eq!(checked(&public).problems, [], "with local models only");
    let model = "[{\"provider\": \"ollama\", \"model_id\": \"llama3.2\", \"locality\": \"local\"}]";
    let cloud = changed(&public, model, &model.replace("local\"}", "cloud\"}"));
    hold(
        &cloud,
        &checked(&cloud).problems,
        &[("E brains[1].agent.memory.scope", "cloud model", "\"brain\"")],
    );
    let piece = |tools: &str, extra: &str| {
        format!(
            r#"{{"name": "x", "sensitivity": "public", "models": [{{"provider": "groq", "model_id": "m", "locality": "cloud", "api_key_env": "K"}}],
            "agent": {{"tools": {tools}, "read_file": {{"root": "/srv/notes"}}{extra}}}}}"#
        )
    };
    for (tools, extra, said) in [
        ("[\"read_file\"]", "", Some("brains[1].agent.tools")),
        // A governance block denies it at the gate.
        ("[\"read_file\"]", ", \"governance\": []", None),
        (
            "[\"time\", \"read_file\"]",
            ", \"governance\": [{\"tool\": \"read_file\", \"mode\": \"allow\"}]",
            None,
        ),
        (
            "[\"time\", \"read_file\"]",
            ", \"tool_attrs\": {\"time\": {\"sensitive\": true}}",
            Some("brains[1].agent.tools"),
        ),
    ] {
        let found = checked(&super::whole(&piece(tools, extra)));
        let paths: Vec<_> = errors(&found)
            .into_iter()
            .map(|problem| problem.path.as_str())
            .collect();
        assert_eq!(
            paths,
            said.into_iter().collect::<Vec<_>>(),
            "{tools} {extra}"
        );
    }
}

#[test]
fn where_read_file_may_not_read() {
    let mut env = surroundings();
    env.env_file = Some("/srv/secrets/korvun.env".into());
    env.credentials_directory = Some("/run/creds/korvun".into());
    for (root, word) in [
        ("notes", None),
        ("/srv/notes", None),
        ("../korvun-notes", None),
        ("/procedures", None),
        ("/proc", Some("/proc")),
        ("/proc/self", Some("/proc")),
        ("/sys/class", Some("/sys")),
        ("/dev/shm", Some("/dev")),
        ("/srv/../dev", Some("/dev")),
        ("/", Some("/proc")),
        ("/run", Some("/run/credentials")),
        ("/run/credentials/x", Some("/run/credentials")),
        ("/run/creds", Some("/run/creds/korvun")),
        ("/run/creds/korvun/sub", Some("/run/creds/korvun")),
        (".", Some("configuration file")),
        ("..", Some("configuration file")),
        ("notes/..", Some("configuration file")),
        ("/srv", Some("env file")),
        ("data", Some("database")),
    ] {
        let text = changed(
            FULL,
            "\"root\": \"notes\"",
            &format!("\"root\": \"{root}\""),
        );
        let found = checked_in(&text, &env);
        let messages: Vec<_> = found
            .problems
            .iter()
            .map(|problem| (problem.path.as_str(), problem.message.as_str()))
            .collect();
        match word {
            None => assert_eq!(messages, [], "{root}"),
            Some(word) => {
                assert_eq!(messages.len(), 1, "{root}: {messages:?}");
                assert_eq!(messages[0].0, "brains[1].agent.read_file.root");
                assert!(messages[0].1.contains(word), "{root}: {messages:?}");
            }
        }
    }
}

#[test]
fn a_grant_may_name_a_channel_that_this_file_lacks() {
    let piece = r#"{"name": "x", "sensitivity": "private", "models": [{"provider": "ollama", "model_id": "m", "locality": "local"}],
        "agent": {"tools": ["time"], "governance": [{"tool": "time", "mode": "allow", "channels": ["discord", "console"]}]}}"#;
    let text = super::whole(piece);
    hold(
        &text,
        &checked(&text).problems,
        &[(
            "W brains[1].agent.governance[0].channels[0]",
            "no channel `discord`",
            "\"discord\"",
        )],
    );
}

#[test]
fn routes() {
    table(
        FULL,
        &[
            (
                "{\"channel\": \"discord\", \"brain\": \"team\"}",
                "{\"channel\": \"telegram\", \"brain\": \"casa\"}",
                &[
                    ("W channels[1].type", "has no route", "\"discord\""),
                    ("E routes[1].channel", "a second route", "\"telegram\""),
                ],
            ),
            (
                "{\"channel\": \"discord\", \"brain\": \"team\"},",
                "",
                &[("W channels[1].type", "has no route", "\"discord\"")],
            ),
            (
                ",\n    {\"channel\": \"console\", \"brain\": \"casa\"}",
                "",
                &[],
            ),
            (
                "{\"channel\": \"discord\", \"brain\": \"team\"}",
                "{\"channel\": \"discord\", \"brain\": \"teem\"}",
                &[("E routes[1].brain", "did you mean `team`?", "\"teem\"")],
            ),
            (
                "{\"channel\": \"discord\", \"brain\": \"team\"}",
                "{\"channel\": \"slack\", \"brain\": \"team\"}",
                &[("E routes[1].channel", "unknown channel type", "\"slack\"")],
            ),
            (
                "{\"channel\": \"discord\", \"brain\": \"team\"}",
                "{\"channel\": \"discord\"}",
                &[("E routes[1].brain", "is missing", "{\"channel\"")],
            ),
        ],
    );
    table(
        LEAST,
        &[
            (
                "\"brain\": \"assistant\"}",
                "\"brain\": \"assistant\"}, {\"channel\": \"discord\", \"brain\": \"assistant\"}",
                &[("W routes[1].channel", "no channel `discord`", "\"discord\"")],
            ),
            (
                "\"brain\": \"assistant\"}",
                "\"brain\": \"assistant\"}, {\"channel\": \"console\", \"brain\": \"assistant\"}",
                &[],
            ),
        ],
    );
}

#[test]
fn a_route_to_a_channel_that_is_not_there_is_not_in_the_plan() {
    let text = changed(
        LEAST,
        "\"brain\": \"assistant\"}]",
        "\"brain\": \"assistant\"}, {\"channel\": \"discord\", \"brain\": \"assistant\"}]",
    );
    assert_eq!(checked(&text).plan, Some(super::plans::least()));
}

#[test]
fn storage_sessions_and_the_admin_server() {
    table(
        FULL,
        &[
            (
                "\"retention_days\": 30",
                "\"retention_days\": -1",
                &[("E storage.retention_days", "from 0", "-1")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/new now\"]",
                &[(
                    "E session.triggers[0]",
                    "more than one word",
                    "\"/new now\"",
                )],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/new\", \"/recall\"]",
                &[("E session.triggers[1]", "command of its own", "\"/recall\"")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/notes\"]",
                &[("E session.triggers[0]", "command of its own", "\"/notes\"")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/tools\"]",
                &[("E session.triggers[0]", "command of its own", "\"/tools\"")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/help\"]",
                &[("E session.triggers[0]", "command of its own", "\"/help\"")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/start\"]",
                &[("E session.triggers[0]", "command of its own", "\"/start\"")],
            ),
            (
                "[\"/nuevo\"]",
                "[\"/stop\"]",
                &[("E session.triggers[0]", "command of its own", "\"/stop\"")],
            ),
            (
                "\"04:30\"",
                "\"4:30\"",
                &[("E session.daily_at", "time of day", "\"4:30\"")],
            ),
            (
                "\"04:30\"",
                "\"24:00\"",
                &[("E session.daily_at", "time of day", "\"24:00\"")],
            ),
            (
                "\"recall_max\": 50",
                "\"recall_max\": 51",
                &[("E session.recall_max", "from 0 to 50", "51")],
            ),
            (
                "\"addr\": \"[::1]:2113\"",
                "\"addr\": \"0.0.0.0:2113\"",
                &[(
                    "W observability.addr",
                    "not a loopback address",
                    "\"0.0.0.0",
                )],
            ),
            (
                "[\"korvun.home\"]",
                "[\"korvun.home:2113\"]",
                &[(
                    "E observability.allow_hosts[0]",
                    "the port is not compared",
                    "\"korvun",
                )],
            ),
            (
                "[\"korvun.home\"]",
                "[\"*.home\"]",
                &[("E observability.allow_hosts[0]", "wildcard", "\"*")],
            ),
            (
                "\"token_env\": \"KORVUN_ADMIN_TOKEN\"",
                "\"token_env\": \"BOX_KEY\"",
                &[(
                    "E brains[0].models[2].api_key_env",
                    "admin token",
                    "\"BOX_KEY\"",
                )],
            ),
            (
                "\"OUT_TOKEN\"",
                "\"SIGNING_SECRET\"",
                &[(
                    "W channels[2].webhook.signature.secret_env",
                    "serves as",
                    "\"SIGNING_SECRET\"",
                )],
            ),
            (
                "\"BOX_KEY\"",
                "\"GROQ_API_KEY\"",
                &[(
                    "W brains[0].models[2].api_key_env",
                    "serves as",
                    "\"GROQ_API_KEY\"",
                )],
            ),
        ],
    );
    // What is odd in a file that an operator writes is refused from the network.
    let mut env = surroundings();
    env.entry = korvun::config::check::Entry::Post;
    let text = changed(FULL, "\"OUT_TOKEN\"", "\"SIGNING_SECRET\"");
    assert_eq!(errors(&checked_in(&text, &env)).len(), 1);
    // One key for two models of one provider is one kind of use.
    let text = changed(LEAST, "\"locality\": \"local\"}", "\"locality\": \"local\", \"api_key_env\": \"K\"}, {\"provider\": \"ollama\", \"model_id\": \"b\", \"locality\": \"local\", \"api_key_env\": \"K\"}");
    assert_eq!(checked(&text).problems, []);
}

#[test]
fn the_default_database_needs_a_home() {
    let text = changed(LEAST, "\"routes\"", "\"storage\": {}, \"routes\"");
    for (xdg, home, path) in [
        (
            Some("/conf"),
            Some("/home/a"),
            Some("/conf/korvun/korvun.db"),
        ),
        (
            Some("conf"),
            Some("/home/a"),
            Some("/home/a/.config/korvun/korvun.db"),
        ),
        (
            None,
            Some("/home/a"),
            Some("/home/a/.config/korvun/korvun.db"),
        ),
        (Some("/conf"), None, Some("/conf/korvun/korvun.db")),
        (None, None, None),
    ] {
        let mut env = surroundings();
        env.xdg_config_home = xdg.map(Into::into);
        env.home = home.map(Into::into);
        let found = checked_in(&text, &env);
        match path {
            Some(path) => {
                let storage = found.plan.expect("a plan").storage.expect("storage");
                assert_eq!(storage.path.to_str(), Some(path));
            }
            None => hold(
                &text,
                &found.problems,
                &[("E storage.path", "XDG_CONFIG_HOME", "{}")],
            ),
        }
    }
}

#[test]
fn the_variable_of_ollama_is_not_read_and_that_is_said() {
    for (variable, base_url, warns) in [
        (None, "", false),
        (Some("127.0.0.1:11434"), "", false),
        (Some("0.0.0.0"), "", false),
        (Some("http://localhost:11434/"), "", false),
        (Some("192.168.1.9"), "", true),
        (Some("not an address at all"), "", true),
        (
            Some("192.168.1.9"),
            ", \"base_url\": \"http://192.168.1.9:11434\"",
            false,
        ),
    ] {
        let mut env = surroundings();
        env.ollama_host = variable.map(str::to_owned);
        let text = changed(
            LEAST,
            "\"locality\": \"local\"",
            &format!("\"locality\": \"local\"{base_url}"),
        );
        let found = checked_in(&text, &env);
        match warns {
            false => assert_eq!(found.problems, [], "{variable:?}"),
            true => hold(
                &text,
                &found.problems,
                &[(
                    "W brains[0].models[0].base_url",
                    "OLLAMA_HOST",
                    "{\"provider\"",
                )],
            ),
        }
    }
}

#[test]
fn a_secret_in_place_of_a_name_is_refused_and_not_repeated() {
    for part in [
        "\"TELEGRAM_BOT_TOKEN\"",
        "\"OUT_TOKEN\"",
        "\"SIGNING_SECRET\"",
        "\"GROQ_API_KEY\"",
        "\"KORVUN_ADMIN_TOKEN\"",
    ] {
        for secret in [
            "\"12345:AAsecretsecret\"",
            "\"gsk-secretsecret\"",
            "\"gsk_Ab1secretsecretAb1secretsecret\"",
            "\"1secretsecret\"",
            "\"${secretsecret}\"",
            "[\"secretsecret\"]",
        ] {
            let found = checked(&changed(FULL, part, secret));
            assert_eq!(
                errors(&found).len(),
                1,
                "{part} {secret} {:?}",
                found.problems
            );
            assert_eq!(
                found.problems[0].message,
                "looks like a secret, put the variable's name here"
            );
            assert!(
                !format!("{:?}", found.problems).contains("secretsecret"),
                "{part} {secret}"
            );
        }
    }
    // Nor is what stands in a URL.
    let found = checked(&changed(
        FULL,
        "http://127.0.0.1:5678/answers?t=1",
        "http://me:secretsecret@h/",
    ));
    assert!(!format!("{:?}", found.problems).contains("secretsecret"));
}
