//! No secret shows anywhere, whatever fails and however much is logged.

use std::time::Duration;

use serde_json::{json, Value};

use crate::support::http::{request, Client, Reply};
use crate::support::load::Poster;
use crate::support::scripted::{Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Percent-encoded as a query is (RFC 3986 section 2.3: only unreserved bytes stay).
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// The forms in which a secret could show.
fn forms(secret: &str) -> Vec<String> {
    let upper = percent(secret);
    let lower = upper.split('%').enumerate().map(|(nth, part)| match nth {
        0 => part.to_owned(),
        _ => format!("%{}{}", part[..2].to_ascii_lowercase(), &part[2..]),
    });
    let escaped = Value::from(secret).to_string();
    let slashes = escaped.replace('/', "\\/");
    let mut all = vec![
        secret.to_owned(),
        escaped.trim_matches('"').to_owned(),
        slashes.trim_matches('"').to_owned(),
        lower.collect(),
        upper.clone(),
        format!("{secret:?}").trim_matches('"').to_owned(),
    ];
    all.sort();
    all.dedup();
    all
}

#[test]
fn no_secret_shows_when_everything_fails_at_trace() {
    // Each is awkward in a URL, in JSON and in a log line.
    let secrets = [
        ("T_WEBHOOK", r#"in/bound+to=ken%&"q"\back~0001"#),
        ("T_OUTBOUND", r#"out/bound+to=ken%&"q"\back~0002"#),
        ("T_ADMIN", r#"ad/min+to=ken%&"q"\back~0003"#),
        ("T_KEY", r#"mod/el+k=ey%&"q"\back~0004"#),
        ("T_GROQ", r#"gr/oq+k=ey%&"q"\back~0005"#),
    ];
    // Peers that throw back in each way what they were told.
    let spiteful = |told: String, nth: usize| {
        let percent = percent(&told);
        let field = told.replace(['\r', '\n'], "");
        match nth % 5 {
            0 => Reply::json(
                401,
                &json!({"error": {"message": format!("bad key {told} {percent}"), "code": 7}}),
            ),
            1 => Reply::Send(
                307,
                "text/plain",
                format!("Location: http://127.0.0.1:1/{percent}?key={field}\r\n"),
                Vec::new(),
            ),
            2 => Reply::Send(
                500,
                "text/html",
                format!("X-Told: {field}\r\n"),
                format!("<html>{told}</html>").into_bytes(),
            ),
            3 => Reply::Raw(format!("{told}\r\n\r\n").into_bytes()),
            _ => Reply::json(429, &json!({"error": told, "code": "insufficient_quota"})),
        }
    };
    let model = Model::start(move |ask| {
        Play::Do(spiteful(
            ask.authorization.clone().unwrap_or_default(),
            ask.nth,
        ))
    });
    let sink = Sink::answering(move |request, nth| {
        spiteful(
            request.header("authorization").unwrap_or("").to_owned(),
            nth,
        )
    });
    let mut site = site(&model.url(), &sink.url());
    site.env = secrets
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    site.env.push(("KORVUN_LOG".into(), "trace".into()));
    site.config["brains"][0]["models"] = json!([
        {"provider": "openai-compatible", "model_id": "one", "locality": "local", "base_url": model.openai_url(), "api_key_env": "T_KEY", "max_retries": 1},
        {"provider": "groq", "model_id": "two", "locality": "cloud", "base_url": model.openai_url(), "api_key_env": "T_GROQ", "max_retries": 1},
        {"provider": "ollama", "model_id": "three", "locality": "local", "base_url": model.url(), "max_retries": 0}
    ]);
    let mut daemon = site.spawn(&[]);
    daemon.wait_until_ready();
    let token = secrets[0].1;
    let mut poster = Poster::new(site.webhook, token);
    let mut ids = Vec::new();
    for nth in 0..10 {
        ids.push(
            poster
                .say(&format!("talk-{nth}"), "hello", None)
                .expect("accepted")
                .id,
        );
    }
    // Secrets where they do not belong: another's bearer, in a query, in a path, in a host.
    let mut answers = Vec::new();
    for (_, secret) in &secrets {
        let escaped = percent(secret);
        let bearer = format!("Bearer {secret}x");
        for (addr, path) in [
            (site.webhook, "/webhook"),
            (site.admin, "/api/conversations"),
        ] {
            let method = if path == "/webhook" { "POST" } else { "GET" };
            let target = format!("{path}?token={escaped}");
            let bytes = request(
                method,
                &target,
                &addr.to_string(),
                &[("Authorization", &bearer), JSON, ("Connection", "close")],
                b"",
            );
            answers.push(Client::new(addr, SOON).send(&bytes).expect("an answer"));
        }
    }
    for id in &ids {
        sink.wait("a try at each answer", SOON, |all| {
            all.iter().any(|one| one.in_reply_to() == id)
        });
    }
    let admin = format!("Bearer {}", secrets[2].1);
    for path in [
        "/api/brains",
        "/api/channels",
        "/readyz",
        "/metrics",
        "/api/conversations?limit=200",
    ] {
        let bytes = request(
            "GET",
            path,
            &site.admin.to_string(),
            &[("Authorization", &admin), ("Connection", "close")],
            b"",
        );
        answers.push(
            Client::new(site.admin, SOON)
                .send(&bytes)
                .expect("an answer"),
        );
    }
    let arguments = std::fs::read(format!("/proc/{}/cmdline", daemon.pid())).expect("arguments");
    let (_, log) = daemon.stop();
    assert!(
        log.lines().count() > 50,
        "a log at trace has more to say:\n{log}"
    );

    let mut said: Vec<(String, Vec<u8>)> = vec![
        ("the log".into(), log.into_bytes()),
        ("the arguments".into(), arguments),
    ];
    for answer in answers {
        said.push((
            "an answer".into(),
            [answer.head.into_bytes(), answer.body].concat(),
        ));
    }
    for entry in std::fs::read_dir(site.path())
        .expect("folder")
        .flatten()
        .filter(|entry| entry.path().is_file())
    {
        said.push((
            format!("{:?}", entry.file_name()),
            std::fs::read(entry.path()).expect("file"),
        ));
    }
    for delivery in sink.deliveries() {
        said.push(("a delivery".into(), delivery.body.to_string().into_bytes()));
    }
    for (name, secret) in secrets {
        for form in forms(secret) {
            for (place, bytes) in &said {
                let shows = bytes
                    .windows(form.len())
                    .any(|window| window == form.as_bytes());
                assert!(!shows, "{name} shows in {place} as {form}");
            }
        }
    }
}
