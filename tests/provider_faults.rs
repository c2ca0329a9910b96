//! Servers that lie, stall, flood and break off: each gets a named failure in bounded time and with
//! bounded reading, and no key ever stands in what is logged.

use std::time::{Duration, Instant};

use korvun::base::secret::Secret;
use korvun::domain::brain::Sensitivity::Public;
use korvun::domain::completion::FailureKind::{
    self, Auth, Body, Connect, Refused, Status, Timeout,
};
use korvun::provider::build;
use serde_json::json;

use crate::support::asking::{ask_within, model, wire};
use crate::support::model::{ollama_shows, ModelServer, Reply, Step};

const KEY: &str = "gsk_\"one/two\"?three=four&five";
const PATIENCE: Duration = Duration::from_millis(700);

fn steps(steps: &[Step]) -> Reply {
    Reply::Steps(steps.to_vec())
}

fn bytes(text: &str) -> Step {
    Step::Bytes(text.as_bytes().to_vec())
}

fn forever(text: &str, pause_ms: u64) -> Step {
    Step::Forever(text.as_bytes().to_vec(), Duration::from_millis(pause_ms))
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// What a server does instead of answering, and what that is called.
fn faults() -> Vec<(&'static str, Reply, FailureKind)> {
    let block = "x".repeat(64 * 1024);
    let chunk = format!("{:x}\r\n{block}\r\n", block.len());
    let nested = format!("{{\"a\":{}", "[".repeat(200_000));
    let commas = format!("[{}0]", "0,".repeat(1_000_000));
    vec![
        (
            "a page",
            Reply::body(200, "text/html", "<html><body>Welcome</body></html>"),
            Body,
        ),
        (
            "a page as error",
            Reply::body(502, "text/html", "<html>Bad gateway</html>"),
            Status,
        ),
        (
            "no JSON",
            Reply::body(200, "application/json", "{\"choices\": "),
            Body,
        ),
        ("a list", Reply::body(200, "application/json", "[1]"), Body),
        (
            "no body",
            Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"),
            Body,
        ),
        (
            "not UTF-8",
            steps(&[
                bytes("HTTP/1.1 200 OK\r\n\r\n"),
                Step::Bytes(vec![0xff; 300]),
            ]),
            Body,
        ),
        (
            "deep nesting",
            Reply::body(200, "application/json", &nested),
            Body,
        ),
        (
            "a flood of values",
            Reply::body(200, "application/json", &commas),
            Body,
        ),
        (
            "an endless body",
            steps(&[bytes(&format!("{OK}\r\n")), forever(&block, 0)]),
            Body,
        ),
        (
            "endless chunks",
            steps(&[
                bytes(&format!("{OK}transfer-encoding: chunked\r\n\r\n")),
                forever(&chunk, 0),
            ]),
            Body,
        ),
        (
            "an endless error",
            steps(&[bytes("HTTP/1.1 500 X\r\n\r\n"), forever(&block, 0)]),
            Status,
        ),
        (
            "an endless redirect",
            steps(&[
                bytes("HTTP/1.1 302 X\r\nlocation: /\r\n\r\n"),
                forever(&block, 0),
            ]),
            Refused,
        ),
        (
            "a huge length",
            steps(&[
                bytes(&format!("{OK}content-length: 999999999999\r\n\r\nabc")),
                Step::UntilGone,
            ]),
            Timeout,
        ),
        (
            "broken chunks",
            Reply::raw(&format!("{OK}transfer-encoding: chunked\r\n\r\nzz\r\n")),
            Body,
        ),
        (
            "a drip of a head",
            steps(&[bytes(OK), forever("x", 30)]),
            Timeout,
        ),
        (
            "a drip of headers",
            steps(&[bytes(OK), forever("x: y\r\n", 30)]),
            Timeout,
        ),
        (
            "a drip of a body",
            steps(&[
                bytes(&format!("{OK}content-length: 5000\r\n\r\n")),
                forever(" ", 30),
            ]),
            Timeout,
        ),
        ("silence", steps(&[Step::UntilGone]), Timeout),
        (
            "silence after the head",
            steps(&[
                bytes(&format!("{OK}content-length: 5\r\n\r\n")),
                Step::UntilGone,
            ]),
            Timeout,
        ),
        (
            "a hundred hundreds",
            steps(&[forever("HTTP/1.1 100 Continue\r\n\r\n", 10)]),
            Timeout,
        ),
        ("closes at once", steps(&[]), Connect),
        (
            "closes in its head",
            Reply::raw("HTTP/1.1 200 OK\r\ncontent-le"),
            Connect,
        ),
        (
            "closes in its body",
            Reply::raw(&format!("{OK}content-length: 50\r\n\r\n{{\"a\"")),
            Connect,
        ),
        (
            "closes in a chunk",
            Reply::raw(&format!("{OK}transfer-encoding: chunked\r\n\r\n50\r\nabc")),
            Connect,
        ),
        (
            "one long header",
            steps(&[bytes(OK), bytes("x: "), forever(&block, 0)]),
            Body,
        ),
        (
            "many headers",
            steps(&[bytes(OK), bytes(&"x: y\r\n".repeat(300)), bytes("\r\n")]),
            Body,
        ),
        (
            "another protocol",
            Reply::raw("SSH-2.0-OpenSSH_9.2\r\n"),
            Body,
        ),
        (
            "an ancient protocol",
            Reply::raw("HTTP/9.9 200 OK\r\n\r\n"),
            Body,
        ),
        (
            "the key in its error",
            Reply::Json(
                401,
                json!({"error": {"message": format!("bad key {KEY}!")}}),
            ),
            Auth,
        ),
        (
            "the key in a page",
            Reply::body(
                200,
                "text/html",
                &format!("<p>{KEY} gsk_%22one%2Ftwo%22%3Fthree%3Dfour%26five"),
            ),
            Body,
        ),
        (
            "keys over and over",
            Reply::body(500, "text/plain", &KEY.repeat(3000)),
            Status,
        ),
    ]
}

#[test]
fn every_lie_gets_its_name_in_time() {
    std::thread::scope(|scope| {
        for provider in ["ollama", "openai-compatible"] {
            scope.spawn(move || every_lie_to(provider));
        }
    });
}

fn every_lie_to(provider: &str) {
    for (lie, reply, kind) in faults() {
        let theirs = reply.clone();
        let server = ModelServer::start(move |seen| {
            if seen.is("POST /api/show") {
                ollama_shows(8192)
            } else {
                theirs.clone()
            }
        });
        let key = Secret::new(KEY);
        let provider = build(&model(provider, &server.url()), Public, Some(&key), &wire());
        // What ends by size must not need the deadline to end.
        let patience = if kind == Timeout {
            PATIENCE
        } else {
            Duration::from_secs(30)
        };
        let began = Instant::now();
        let failure = ask_within(&*provider, patience).unwrap_err();
        let elapsed = began.elapsed();
        assert_eq!(failure.kind, kind, "{lie}: {failure}");
        assert!(!failure.to_string().contains("one/two"), "{lie}: {failure}");
        assert!(
            !failure.to_string().contains("one%2Ftwo"),
            "{lie}: {failure}"
        );
        assert!(failure.detail.len() < 1500, "{lie}: {failure}");
        let most = if kind == Timeout {
            PATIENCE + Duration::from_secs(3)
        } else {
            Duration::from_secs(20)
        };
        assert!(elapsed < most, "{lie} took {elapsed:?}");
        // The cap, and what the kernel holds for both ends.
        assert!(
            server.sent_forever() < 4 * 1024 * 1024 + 16 * 1024 * 1024,
            "{lie}"
        );
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let trap = ModelServer::start(|_| Reply::Json(200, json!({})));
    for status in [301, 302, 303, 307, 308] {
        for target in [trap.url(), format!("//{}", trap.addr())] {
            let location = format!("location: {target}/v1");
            let server = ModelServer::start(move |seen| {
                if seen.is("POST /api/show") {
                    ollama_shows(8192)
                } else {
                    Reply::with_headers(status, &[&location], &json!({}))
                }
            });
            for provider in ["ollama", "openai-compatible"] {
                let provider = build(&model(provider, &server.url()), Public, None, &wire());
                let failure = ask_within(&*provider, Duration::from_secs(10)).unwrap_err();
                assert_eq!((failure.kind, failure.status), (Refused, Some(status)));
            }
        }
    }
    assert_eq!(trap.connections(), 0);
}

#[test]
fn an_old_server_that_ends_its_body_by_closing_is_understood() {
    let body = json!({"choices": [{"message": {"content": "hello"}}]});
    let server = ModelServer::start(move |_| Reply::raw(&format!("HTTP/1.0 200 OK\r\n\r\n{body}")));
    let provider = build(
        &model("openai-compatible", &server.url()),
        Public,
        None,
        &wire(),
    );
    for _ in 0..2 {
        assert_eq!(
            ask_within(&*provider, Duration::from_secs(10))
                .unwrap()
                .text,
            "hello"
        );
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let provider = build(&model("openai-compatible", &url), Public, None, &wire());
    let failure = ask_within(&*provider, Duration::from_secs(10)).unwrap_err();
    assert_eq!(failure.kind, Connect);
    assert!(failure.detail.contains(&url), "{failure}");
    assert!(
        failure.detail.contains("is the server running"),
        "{failure}"
    );
}
