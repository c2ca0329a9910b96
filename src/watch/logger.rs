//! Log lines: one each, key and quoted value, for people or as JSON, every one through the
//! redactor. Runs on whichever thread logs; must never show a secret and never fail the caller.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use log::kv::{self, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::base::clock::{Clock, UnixMs};
use crate::base::secret::Redactor;
use crate::base::text::{prefix, printable};

/// Bytes of one value that are written: an error's detail fits, a body that slipped in does not.
const VALUE_BYTES: usize = 2048;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `key="value"`, the level in colour.
    Coloured,
    /// `key="value"`.
    Plain,
    /// One JSON object a line.
    Json,
}

/// What a line is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// When.
    pub at: UnixMs,
    /// How grave.
    pub level: Level,
    /// Which part speaks, like `net::shield`; a crate's name where it is not Korvun.
    pub part: &'a str,
    /// The name of the thread.
    pub thread: &'a str,
    /// The fixed phrase.
    pub phrase: &'a str,
    /// What belongs to it, in the order given.
    pub fields: &'a [(String, Value)],
}

/// One value of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number or truth value, as JSON writes it.
    Plain(serde_json::Value),
    /// Anything else.
    Text(String),
}

/// The line, without its end.
#[must_use]
pub fn line(parts: &Parts<'_>, form: Form, redactor: &Redactor) -> String {
    match form {
        Form::Json => json(parts, redactor),
        Form::Plain | Form::Coloured => text(parts, form, redactor),
    }
}

fn text(parts: &Parts<'_>, form: Form, redactor: &Redactor) -> String {
    let level = match form {
        Form::Coloured => format!(
            "\u{1b}[{}m{}\u{1b}[0m",
            colour(parts.level),
            word(parts.level)
        ),
        _ => word(parts.level).to_owned(),
    };
    let mut rest = String::new();
    for (key, value) in [
        ("msg", parts.phrase),
        ("part", parts.part),
        ("thread", parts.thread),
    ] {
        push(&mut rest, key, &clean(value, redactor));
    }
    for (key, value) in parts.fields {
        let value = match value {
            Value::Plain(value) => value.to_string(),
            Value::Text(value) => clean(value, redactor),
        };
        push(&mut rest, &name(key), &value);
    }
    // Once more over the whole: a secret may be spread over a key and its value.
    let rest = redactor.clean(&rest);
    format!("time=\"{}\" level=\"{level}\"{rest}", parts.at.rfc3339())
}

fn push(out: &mut String, key: &str, value: &str) {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    out.push(' ');
    out.push_str(key);
    out.push_str("=\"");
    out.push_str(&printable(&escaped));
    out.push('"');
}

fn json(parts: &Parts<'_>, redactor: &Redactor) -> String {
    let mut object = serde_json::Map::new();
    object.insert("time".into(), parts.at.rfc3339().into());
    object.insert("level".into(), word(parts.level).into());
    for (key, value) in [
        ("msg", parts.phrase),
        ("part", parts.part),
        ("thread", parts.thread),
    ] {
        object.insert(key.into(), clean(value, redactor).into());
    }
    for (key, value) in parts.fields {
        let value = match value {
            // A number that is a secret would tear the JSON when it is masked.
            Value::Plain(value) => match redactor.clean(&value.to_string()) {
                Cow::Borrowed(_) => value.clone(),
                Cow::Owned(masked) => masked.into(),
            },
            Value::Text(value) => clean(value, redactor).into(),
        };
        object.insert(name(key).into_owned(), value);
    }
    let written = serde_json::Value::Object(object).to_string();
    // JSON escapes C0 only; the rest would still move a terminal's cursor. None of it stands
    // outside a string.
    let mut out = String::with_capacity(written.len());
    for c in redactor.clean(&written).chars() {
        if printable(c.encode_utf8(&mut [0; 4])).len() == c.len_utf8() {
            out.push(c);
        } else {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        }
    }
    out
}

/// A value without secrets, cut to what a line may hold. Cut last: half a secret is one too.
fn clean(value: &str, redactor: &Redactor) -> String {
    let clean = redactor.clean(value);
    if clean.len() <= VALUE_BYTES {
        return clean.into_owned();
    }
    format!("{}…", prefix(&clean, VALUE_BYTES))
}

/// A key that is neither one of a line's own nor breaks it.
fn name(key: &str) -> Cow<'_, str> {
    let own = ["time", "level", "msg", "part", "thread"].contains(&key);
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if !own && !key.is_empty() && key.chars().all(fine) {
        return Cow::Borrowed(key);
    }
    let mut name: String = key.chars().map(|c| if fine(c) { c } else { '_' }).collect();
    name.push('_');
    Cow::Owned(name)
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

/// SGR codes (ECMA-48 section 8.3.117).
fn colour(level: Level) -> &'static str {
    match level {
        Level::Error => "31",
        Level::Warn => "33",
        Level::Info => "32",
        Level::Debug | Level::Trace => "2",
    }
}

/// The fields of a record.
struct Fields(Vec<(String, Value)>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: kv::Key<'kvs>, value: kv::Value<'kvs>) -> Result<(), kv::Error> {
        let plain = None
            .or_else(|| value.to_u64().map(serde_json::Value::from))
            .or_else(|| value.to_i64().map(serde_json::Value::from))
            .or_else(|| value.to_bool().map(serde_json::Value::from))
            .or_else(|| value.to_f64().map(serde_json::Value::from));
        let value = match plain {
            Some(plain) => Value::Plain(plain),
            None => Value::Text(value.to_string()),
        };
        self.0.push((key.as_str().to_owned(), value));
        Ok(())
    }
}

/// Which level a filter lets a target speak at. Filters as `KORVUN_LOG` writes them: levels and
/// `target=level`, separated by commas.
///
/// # Errors
/// The entry that is no filter.
fn check_filters(filters: &str) -> Result<(), String> {
    for entry in filters
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let level = entry.split_once('=').map_or(entry, |(_, level)| level);
        if level.trim().parse::<LevelFilter>().is_err() {
            return Err(entry.to_owned());
        }
    }
    Ok(())
}

/// It reports each end of its own accept loop as an error, also when it is stopped; who runs it
/// notices a real one.
const QUIET: &str = "tiny_http";

/// The logger: filters by `KORVUN_LOG`, but lets no other crate speak below a warning, because
/// what they say there holds URLs and headers.
struct Logger(env_logger::Logger);

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let heard = ours(metadata.target())
            || metadata.level() <= Level::Warn && !metadata.target().starts_with(QUIET);
        heard && self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

fn ours(target: &str) -> bool {
    target == "korvun" || target.starts_with("korvun::")
}

/// A logger that writes to `target`.
fn build(
    filters: &str,
    form: Form,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    target: env_logger::Target,
) -> Logger {
    let mut builder = env_logger::Builder::new();
    builder.target(target).parse_filters(filters);
    builder.format(move |out, record| {
        let mut fields = Fields(Vec::new());
        // Collecting cannot fail, see `visit_pair`.
        let _ = record.key_values().visit(&mut fields);
        let thread = std::thread::current();
        let phrase = match record.args().as_str() {
            Some(phrase) => Cow::Borrowed(phrase),
            None => Cow::Owned(record.args().to_string()),
        };
        let parts = Parts {
            at: clock.unix(),
            level: record.level(),
            part: record.target().trim_start_matches("korvun::"),
            thread: thread.name().unwrap_or("unnamed"),
            phrase: &phrase,
            fields: &fields.0,
        };
        writeln!(out, "{}", line(&parts, form, &redactor))
    });
    Logger(builder.build())
}

/// How lines are written by what `KORVUN_LOG_FORMAT` says; `coloured` tells whether the terminal
/// and its user would have colour.
#[must_use]
pub fn form(format: Option<&str>, coloured: bool) -> Form {
    match (format, coloured) {
        (Some(format), _) if format.eq_ignore_ascii_case("json") => Form::Json,
        (_, true) => Form::Coloured,
        (_, false) => Form::Plain,
    }
}

/// Starts logging to standard error and has panics logged as well. Filters that make no sense are
/// told in the first line, and `info` is used.
///
/// # Errors
/// When logging was started before.
pub fn start(
    filters: Option<&str>,
    form: Form,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
) -> io::Result<()> {
    let filters = filters
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .unwrap_or("info");
    let (filters, nonsense) = match check_filters(filters) {
        Ok(()) => (filters, None),
        Err(entry) => ("info", Some(entry)),
    };
    let logger = build(filters, form, redactor, clock, env_logger::Target::Stderr);
    let most = logger.0.filter();
    log::set_boxed_logger(Box::new(logger)).map_err(io::Error::other)?;
    log::set_max_level(most);
    std::panic::set_hook(Box::new(panicked));
    if let Some(entry) = nonsense {
        log::warn!(filter = entry.as_str(), used = "info"; "KORVUN_LOG holds no filter");
    }
    Ok(())
}

/// Logs a panic as one line. Its thread is contained by whoever started it.
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let payload = info.payload();
    let said = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => text,
        (None, Some(text)) => unquoted(text),
        (None, None) => "",
    };
    log::error!(place = place.as_str(), said = said; "panic");
}

/// What a panic says before it begins to quote: what follows may be the text of a message, as when
/// a string is cut within a character.
fn unquoted(text: &str) -> &str {
    text.split(['`', '"', '\'', ':', '\u{201c}'])
        .next()
        .unwrap_or_default()
        .trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::SystemClock;
    use crate::base::secret::Secret;
    use crate::base::sync::lock;
    use std::sync::Mutex;

    fn parts<'a>(phrase: &'a str, fields: &'a [(String, Value)]) -> Parts<'a> {
        Parts {
            at: UnixMs(1_709_164_800_000),
            level: Level::Info,
            part: "engine::run",
            thread: "run:1",
            phrase,
            fields,
        }
    }

    fn field(key: &str, value: &str) -> (String, Value) {
        (key.to_owned(), Value::Text(value.to_owned()))
    }

    #[test]
    fn a_line_is_one_line_of_keys_and_quoted_values() {
        let head = "time=\"2024-02-29T00:00:00.000Z\" level=\"info\" msg=\"run_finished\" \
                    part=\"engine::run\" thread=\"run:1\"";
        let number = ("latency_ms".to_owned(), Value::Plain(12.into()));
        for (fields, rest) in [
            (vec![], ""),
            (
                vec![field("brain", "casa"), number],
                " brain=\"casa\" latency_ms=\"12\"",
            ),
            (vec![field("a", "x\" b=\"y")], " a=\"x\\\" b=\\\"y\""),
            (
                vec![field("a", "x\ny\r\u{1b}[2J\\n")],
                " a=\"x\\ny\\r\\u{1b}[2J\\\\n\"",
            ),
            (
                vec![field("a", "\u{9b}\u{202e}\u{2028}")],
                " a=\"\\u{9b}\\u{202e}\\u{2028}\"",
            ),
            (
                vec![field("level", "x"), field("a b=\n", "y")],
                " level_=\"x\" a_b___=\"y\"",
            ),
            (vec![field("a", "")], " a=\"\""),
        ] {
            let line = line(
                &parts("run_finished", &fields),
                Form::Plain,
                &Redactor::new(),
            );
            assert_eq!(line, format!("{head}{rest}"));
        }
    }

    #[test]
    fn only_the_level_is_coloured() {
        let fields = [field("a", "\u{1b}[31m")];
        let line = line(&parts("x", &fields), Form::Coloured, &Redactor::new());
        assert!(line.contains("level=\"\u{1b}[32minfo\u{1b}[0m\""), "{line}");
        assert_eq!(line.matches('\u{1b}').count(), 2);
    }

    #[test]
    fn a_json_line_is_one_object() {
        let fields = [
            field("a", "x\n\"\u{9b}\u{7f}\u{202e}"),
            ("n".to_owned(), Value::Plain(7.into())),
            field("time", "x"),
        ];
        let line = line(
            &parts("run_finished", &fields),
            Form::Json,
            &Redactor::new(),
        );
        assert!(
            line.chars().all(|c| !c.is_control() && c != '\u{202e}'),
            "{line}"
        );
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["a"], "x\n\"\u{9b}\u{7f}\u{202e}");
        assert_eq!(value["n"], 7);
        assert_eq!(value["time"], "2024-02-29T00:00:00.000Z");
        assert_eq!(value["time_"], "x");
        assert_eq!(value["msg"], "run_finished");
    }

    #[test]
    fn no_secret_is_in_any_form_of_line() {
        let redactor = Redactor::new();
        redactor.learn(&Secret::new("tok/en\"1234567890"));
        let long = format!("{}tok/en\"1234567890", "x".repeat(VALUE_BYTES - 3));
        for value in [
            "a tok/en\"1234567890 b",
            "http://h/tok%2Fen%221234567890/x",
            "{\"k\":\"tok/en\\\"1234567890\"}",
            long.as_str(),
        ] {
            let fields = [field("detail", value)];
            for form in [Form::Plain, Form::Coloured, Form::Json] {
                for parts in [parts("x", &fields), parts(value, &[])] {
                    let line = line(&parts, form, &redactor);
                    assert!(!line.contains("tok"), "{line}");
                    assert!(line.contains("[sec") || value.len() > VALUE_BYTES, "{line}");
                }
            }
        }
    }

    #[test]
    fn a_value_is_cut() {
        let fields = [field("a", &"é".repeat(VALUE_BYTES))];
        let line = line(&parts("x", &fields), Form::Plain, &Redactor::new());
        assert!(line.len() < VALUE_BYTES + 200 && line.ends_with("é…\""));
    }

    #[test]
    fn filters_are_told_from_nonsense() {
        for (filters, wrong) in [
            ("info", None),
            ("DEBUG", None),
            ("off", None),
            ("warn,korvun::net=trace", None),
            ("loud", Some("loud")),
            ("info,korvun=loud", Some("korvun=loud")),
            ("korvun::net", Some("korvun::net")),
        ] {
            assert_eq!(check_filters(filters).err().as_deref(), wrong, "{filters}");
        }
    }

    #[test]
    fn the_form_follows_the_variable_and_the_terminal() {
        assert_eq!(form(Some("json"), true), Form::Json);
        assert_eq!(form(Some("text"), true), Form::Coloured);
        assert_eq!(form(None, false), Form::Plain);
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn other_crates_speak_only_to_warn_whatever_the_filter() {
        let sink = Sink::default();
        let target = env_logger::Target::Pipe(Box::new(sink.clone()));
        let logger = build(
            "trace,ureq=trace",
            Form::Plain,
            Redactor::new(),
            Arc::new(SystemClock),
            target,
        );
        for (target, level) in [
            ("ureq::run", Level::Trace),
            ("rustls::client", Level::Debug),
            ("korvunish", Level::Info),
            ("tiny_http", Level::Error),
            ("rustls::conn", Level::Warn),
            ("korvun::net::http", Level::Trace),
        ] {
            let fields = [("count", 3)];
            logger.log(
                &Record::builder()
                    .target(target)
                    .level(level)
                    .args(format_args!("said"))
                    .key_values(&fields)
                    .build(),
            );
        }
        let written = String::from_utf8(lock(&sink.0).clone()).expect("text");
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!(lines.len(), 2, "{written}");
        assert!(lines[0].contains("part=\"rustls::conn\""));
        assert!(lines[1].contains("part=\"net::http\"") && lines[1].ends_with("count=\"3\""));
    }

    /// What this test writes to standard error when it runs as a process of its own: logging can be
    /// started only once in a process.
    fn in_a_process_of_its_own(test: &str) -> Vec<String> {
        let out = std::process::Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("KORVUN_TEST_CHILD", "1")
            .output()
            .expect("the test binary runs");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_panic_is_one_line_through_the_redactor() {
        if std::env::var_os("KORVUN_TEST_CHILD").is_some() {
            let redactor = Redactor::new();
            redactor.learn(&Secret::new("static-secret-0123456789"));
            start(Some("loud"), Form::Plain, redactor, Arc::new(SystemClock)).expect("a logger");
            log::debug!("not at this level");
            let first = crate::base::sync::spawn("victim", 64 * 1024, || {
                panic!("static-secret-0123456789\nsecond line")
            });
            assert!(first.expect("a thread").join().is_err());
            let said = "what a person wrote".to_owned();
            let second = crate::base::sync::spawn("victim", 64 * 1024, move || {
                assert!(said.is_empty(), "odd text: {said}");
            });
            assert!(second.expect("a thread").join().is_err());
            return;
        }
        let lines = in_a_process_of_its_own(
            "watch::logger::tests::a_panic_is_one_line_through_the_redactor",
        );
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("KORVUN_LOG holds no filter") && lines[0].contains("\"loud\""));
        for line in &lines[1..] {
            assert!(line.contains("level=\"error\" msg=\"panic\""), "{line}");
            assert!(
                line.contains("thread=\"victim\" place=\"src/watch/logger.rs:"),
                "{line}"
            );
        }
        assert!(
            lines[1].ends_with("said=\"[secret]\\nsecond line\""),
            "{}",
            lines[1]
        );
        assert!(lines[2].ends_with("said=\"odd text\""), "{}", lines[2]);
    }

    #[test]
    fn a_panic_does_not_quote() {
        for (said, shown) in [
            ("index out of bounds: the len is 3", "index out of bounds"),
            (
                "byte index 1 is not a char boundary; it is inside 'é' (bytes 0..2) of `éa`",
                "byte index 1 is not a char boundary; it is inside",
            ),
            ("called `Result::unwrap()` on an `Err` value: x", "called"),
        ] {
            assert_eq!(unquoted(said), shown);
        }
    }
}
