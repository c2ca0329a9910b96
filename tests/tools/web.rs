//! `http_fetch` and `webhook_call` against real servers on loopback, honest and hostile ones.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use korvun::base::clock::SystemClock;
use korvun::domain::audit::Rule;
use korvun::domain::brain::Sensitivity::{Private, Public};
use korvun::domain::limits::Limits;
use korvun::net::cancel::Cancel;
use korvun::net::http::Wire;
use korvun::tool::port::{Call, Fault, Tool};
use serde_json::{json, Value};

use super::{call, call_within, conversation, object, rule, told, Bench};
use crate::support::asking::{within, Book};
use crate::support::authority::{Authority, Time};
use crate::support::model::{ModelServer, Reply, Seen, Step};

fn host(server: &ModelServer) -> String {
    server.addr().to_string()
}

fn fetch(tool: &dyn Tool, url: &str) -> Result<String, Fault> {
    call(tool, json!({"url": url}))
}

fn to(status: u16, location: &str) -> Reply {
    Reply::with_headers(status, &[&format!("location: {location}")], &json!({}))
}

/// A server for all that is fetched here.
fn site() -> ModelServer {
    ModelServer::start(|seen: &Seen| match seen.line.as_str() {
        "GET /page" => Reply::body(
            200,
            "text/html; charset=utf-8",
            "<title>El tiempo</title><script>alert(1)</script><p>Sol &amp; viento</p>",
        ),
        "GET /json" => Reply::Json(200, json!({"t": 21})),
        "GET /latin" => Reply::Steps(vec![Step::Bytes(
            b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\na\xf1o"
                .to_vec(),
        )]),
        "GET /png" => Reply::Steps(vec![Step::Bytes(
            b"HTTP/1.1 200 X\r\ncontent-type: image/png\r\ncontent-length: 5\r\n\r\n\x89PNG\0"
                .to_vec(),
        )]),
        "GET /long" => Reply::body(200, "text/plain", &"0123456789".repeat(500)),
        "GET /endless" => Reply::Steps(vec![
            Step::Bytes(b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\n\r\n".to_vec()),
            Step::Forever(b"y".repeat(1000), Duration::from_millis(1)),
        ]),
        "GET /drip" => Reply::Steps(vec![
            Step::Bytes(b"HTTP/1.1 200 X\r\ncontent-type: text/plain\r\n\r\n".to_vec()),
            Step::Forever(b"y".to_vec(), Duration::from_millis(20)),
        ]),
        "GET /drip_head" => Reply::Steps(vec![
            Step::Bytes(b"HTTP/1.1 200 X\r\nx: ".to_vec()),
            Step::Forever(b"y".to_vec(), Duration::from_millis(20)),
        ]),
        "GET /silent" => Reply::Steps(vec![Step::UntilGone]),
        "GET /broken" => Reply::raw("HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nhalf"),
        "GET /noise" => Reply::raw("\0\x01\x02 not http\r\n\r\n"),
        "GET /missing" => Reply::body(404, "text/html", "<h1>No such page</h1>"),
        "GET /one" => to(302, "two?x=1"),
        "GET /two?x=1" => to(307, "/a/../three#part"),
        "GET /three" => to(303, "/page"),
        "GET /loop" => to(301, "/loop"),
        "GET /nowhere" => Reply::with_headers(302, &["x: y"], &json!({})),
        "GET /other" => to(302, "http://other.example/"),
        "GET /other_port" => to(302, "http://127.0.0.1:9/"),
        "GET /user" => to(302, "http://u@127.0.0.1/"),
        "GET /metadata" => to(302, "http://169.254.169.254/latest/meta-data/"),
        "GET /script" => to(302, "javascript:alert(1)"),
        "GET /bytes" => Reply::Steps(vec![Step::Bytes(
            b"HTTP/1.1 302 X\r\nlocation: /\xff\xfe\r\ncontent-length: 0\r\n\r\n".to_vec(),
        )]),
        other => Reply::body(200, "text/plain", other),
    })
}

#[test]
fn pages_come_as_text() {
    let server = site();
    let tool = Bench::reaching(Private, &[&host(&server)]).tool("http_fetch");
    assert!(tool.ready());
    for (path, text) in [
        ("page", "El tiempo\n\nSol & viento".to_owned()),
        ("json", "{\"t\":21}".to_owned()),
        ("latin", "año".to_owned()),
        (
            "png",
            "no text (image/png, 5 bytes); its content is not shown".to_owned(),
        ),
        (
            "long",
            format!("{}\n[cut after 1000 bytes]", "0123456789".repeat(100)),
        ),
        (
            "endless",
            format!("{}\n[cut after 1000 bytes]", "y".repeat(1000)),
        ),
        ("café?q=ñ", "GET /caf%C3%A9?q=%C3%B1".to_owned()),
        ("one", "El tiempo\n\nSol & viento".to_owned()),
        ("three", "El tiempo\n\nSol & viento".to_owned()),
    ] {
        let url = format!("{}/{path}", server.url());
        assert_eq!(fetch(&*tool, &url), Ok(text), "{path}");
    }
    let first = &server.seen()[0];
    assert!(first.header("accept").unwrap().starts_with("text/html"));
    assert_eq!(first.header("authorization"), None);
    assert_eq!(first.header("cookie"), None);
}

#[test]
fn what_goes_wrong_is_told_and_what_is_not_listed_is_refused() {
    let server = site();
    let tool = Bench::reaching(Public, &[&host(&server), "169.254.169.254"]).tool("http_fetch");
    let (cage, shield) = (Some(Rule::Cage), Some(Rule::PrivateNetworkShield));
    for (path, refused, words) in [
        ("missing", None, "status 404: No such page"),
        (
            "broken",
            None,
            "no connection to the server, or it broke off",
        ),
        ("noise", None, "not HTTP"),
        ("nowhere", None, "without saying where to"),
        ("bytes", None, "without saying where to"),
        ("loop", cage, "more often than the 3 times"),
        ("other", cage, "not on the list"),
        ("other_port", cage, "not on the list"),
        ("user", cage, "user name"),
        ("script", cage, "http://"),
        ("metadata", shield, "may not be reached"),
    ] {
        let fault = fetch(&*tool, &format!("{}/{path}", server.url())).expect_err(path);
        assert_eq!(rule(&fault), refused, "{path}: {fault:?}");
        assert!(told(&fault).contains(words), "{path}: {fault:?}");
    }
    assert_eq!(server.count("GET /loop"), 4, "the first and three hops");
    let fault = fetch(&*tool, "http://169.254.169.254/").expect_err("metadata");
    assert_eq!(rule(&fault), shield);
    for arguments in [json!({}), json!({"url": 7}), json!({"url": ["x"]})] {
        assert_eq!(rule(&call(&*tool, arguments).expect_err("no URL")), None);
    }
}

#[test]
fn a_body_that_drips_ends_with_the_time_of_the_whole_fetch() {
    let server = site();
    let limits = Limits {
        fetch: Duration::from_millis(600),
        ..Limits::default()
    };
    let mut bench = Bench::reaching(Private, &[&host(&server)]);
    bench.wire = Wire::new(None, &limits, Arc::new(SystemClock));
    let tool = bench.tool("http_fetch");
    for path in ["drip", "drip_head", "silent"] {
        let began = Instant::now();
        let fault = fetch(&*tool, &format!("{}/{path}", server.url())).expect_err(path);
        assert_eq!(
            (rule(&fault), told(&fault)),
            (None, "no whole answer in time"),
            "{path}"
        );
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(500) && took < Duration::from_secs(5),
            "{took:?}"
        );
    }
    // The run's own limit is nearer than the tool's.
    let tool = Bench::reaching(Private, &[&host(&server)]).tool("http_fetch");
    let began = Instant::now();
    let arguments = json!({"url": format!("{}/silent", server.url())});
    let place = conversation("webhook", "a");
    let deadline = within(Duration::from_millis(300));
    assert!(call_within(&*tool, arguments, "k", &place, deadline).is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_call_that_is_given_up_ends_at_once() {
    let server = site();
    let url = format!("{}/silent", server.url());
    for name in ["http_fetch", "webhook_call"] {
        let tool = Bench::reaching(Private, &[&host(&server)]).tool(name);
        let cancel = Cancel::new();
        let raise = cancel.clone();
        let raiser = thread::spawn(move || {
            let _ = raise.wait(Duration::from_millis(200));
            raise.raise();
        });
        let began = Instant::now();
        let arguments = object(json!({"url": url, "body": {}}));
        let called = tool.call(&Call {
            arguments: &arguments,
            conversation: &conversation("webhook", "a"),
            key: "k",
            deadline: within(Duration::from_secs(60)),
            cancel: &cancel,
        });
        assert!(called.is_err() || name == "webhook_call", "{called:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
        raiser.join().unwrap();
    }
}

#[test]
fn https_does_not_lead_to_http_and_names_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let here = vec!["127.0.0.1".parse().unwrap()];
    let book = Book([("site.test", here.clone()), ("wrong.test", here)].into());
    let plain = site();
    let down = format!("http://site.test:{}/page", plain.addr().port());
    let server =
        ModelServer::start_tls(
            authority.server("site.test", Time::Valid),
            move |seen| match seen.line.as_str() {
                "GET /down" => to(301, &down),
                _ => Reply::body(200, "text/plain", "secure"),
            },
        );
    let port = server.addr().port();
    let up = format!("https://site.test:{port}/x");
    let rising = ModelServer::start(move |_| to(302, &up));
    let hosts = [
        format!("site.test:{port}"),
        format!("wrong.test:{port}"),
        format!("site.test:{}", plain.addr().port()),
        host(&rising),
    ];
    let mut bench = Bench::reaching(Private, &hosts.each_ref().map(String::as_str));
    bench.wire = Wire::with_names(
        Some(authority.bundle(folder.path())),
        &Limits::default(),
        Arc::new(SystemClock),
        Arc::new(book),
    );
    let tool = bench.tool("http_fetch");
    assert_eq!(
        fetch(&*tool, &format!("https://site.test:{port}/")),
        Ok("secure".into())
    );
    assert_eq!(
        fetch(&*tool, &format!("{}/", rising.url())),
        Ok("secure".into())
    );
    let fault = fetch(&*tool, &format!("https://site.test:{port}/down")).expect_err("downwards");
    assert_eq!(rule(&fault), Some(Rule::Cage));
    assert!(told(&fault).contains("https to http"));
    assert!(plain.seen().is_empty());
    let fault = fetch(&*tool, &format!("https://wrong.test:{port}/")).expect_err("a wrong name");
    assert!(told(&fault).contains("another name"), "{fault:?}");
}

/// A receiver of webhook calls.
fn receiver() -> ModelServer {
    ModelServer::start(|seen: &Seen| match seen.line.as_str() {
        "POST /hook" => Reply::Json(200, json!({"switched": "on"})),
        "POST /quiet" => Reply::raw("HTTP/1.1 204 X\r\n\r\n"),
        "POST /moved" => to(307, "/hook"),
        "POST /refuses" => Reply::Json(422, json!({"error": "no such device"})),
        "POST /long" => Reply::body(200, "text/plain", &"z".repeat(5000)),
        "POST /drip" => Reply::Steps(vec![
            Step::Bytes(b"HTTP/1.1 200 X\r\n\r\n".to_vec()),
            Step::Forever(b"y".to_vec(), Duration::from_millis(20)),
        ]),
        _ => Reply::Steps(vec![Step::UntilGone]),
    })
}

#[test]
fn a_webhook_is_called_once_with_its_key() {
    let server = receiver();
    let tool = Bench::reaching(Private, &[&host(&server)]).tool("webhook_call");
    let post = |path: &str, body: Value| {
        let arguments = json!({"url": format!("{}{path}", server.url()), "body": body});
        call(&*tool, arguments)
    };
    for body in [
        json!({"device": "lamp", "state": "on", "n": 1}),
        json!([1, "ñ"]),
        json!("text"),
        json!(null),
        serde_json::from_str("123456789012345678901234567890.5").unwrap(),
    ] {
        assert_eq!(
            post("/hook", body.clone()),
            Ok("{\"switched\":\"on\"}".into())
        );
        let seen = server.seen();
        let last = seen.last().unwrap();
        assert_eq!(last.body, body.to_string().into_bytes());
        assert_eq!(last.header("x-idempotency-key"), Some("key-1"));
        assert_eq!(last.header("content-type"), Some("application/json"));
        assert_eq!(last.header("authorization"), None);
    }
    assert_eq!(post("/quiet", json!({})), Ok("done (status 204)".into()));
    let long = post("/long", json!({})).unwrap();
    assert_eq!(
        long,
        format!("{}\n[cut after 1000 bytes]", "z".repeat(1000))
    );
    for (path, words) in [
        ("/moved", "redirects, which is not followed"),
        ("/refuses", "status 422: {\"error\":\"no such device\"}"),
    ] {
        let fault = post(path, json!({})).expect_err(path);
        assert_eq!(rule(&fault), None);
        assert!(told(&fault).contains(words), "{fault:?}");
    }
    assert_eq!(server.count("POST /hook"), 5, "a redirect is not followed");
    let fault =
        call(&*tool, json!({"url": format!("{}/hook", server.url())})).expect_err("no body");
    assert_eq!(told(&fault), "`body` is missing");
    let fault =
        call(&*tool, json!({"url": "http://127.0.0.1:9/", "body": {}})).expect_err("a port");
    assert_eq!(rule(&fault), Some(Rule::Cage));
    assert_eq!(server.count("POST /hook"), 5);
}

#[test]
fn a_webhook_that_does_not_answer_costs_its_timeout() {
    let server = receiver();
    let mut bench = Bench::reaching(Private, &[&host(&server)]);
    bench.agent.webhook_call.as_mut().unwrap().timeout = Duration::from_secs(1);
    let tool = bench.tool("webhook_call");
    for path in ["/silent", "/drip"] {
        let began = Instant::now();
        let arguments = json!({"url": format!("{}{path}", server.url()), "body": {}});
        let fault = call(&*tool, arguments).expect_err(path);
        assert!(told(&fault).contains("may have acted"), "{fault:?}");
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(server.count(&format!("POST {path}")), 1);
    }
}

/// A receiver that closes idle connections (as Node does after some seconds) costs no call.
#[test]
fn a_receiver_that_has_hung_up_meanwhile_is_reached_all_the_same() {
    let server = receiver();
    let tool = Bench::reaching(Private, &[&host(&server)]).tool("webhook_call");
    for number in 1..=3 {
        let arguments = json!({"url": format!("{}/hook", server.url()), "body": number});
        assert!(call(&*tool, arguments).is_ok());
        server.hang_up();
    }
    assert_eq!(server.count("POST /hook"), 3);
}

/// A rehearsal sends nothing and looks nothing up.
#[test]
fn a_rehearsal_dials_nothing_and_asks_for_no_name() {
    #[derive(Debug)]
    struct Nobody;
    impl korvun::net::names::Names for Nobody {
        fn addresses(&self, name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
            panic!("{name} was looked up");
        }
    }
    let server = receiver();
    let mut bench = Bench::reaching(Private, &[&host(&server), "n8n.lan", "203.0.113.7"]);
    bench.wire = Wire::with_names(
        None,
        &Limits::default(),
        Arc::new(SystemClock),
        Arc::new(Nobody),
    );
    let (cage, shield) = (Some(Rule::Cage), Some(Rule::PrivateNetworkShield));
    for name in ["http_fetch", "webhook_call"] {
        let tool = bench.tool(name);
        for (url, refused) in [
            (format!("{}/hook", server.url()), None),
            ("http://n8n.lan/hook".to_owned(), None),
            ("http://203.0.113.7/".to_owned(), Some(shield)),
            ("http://other.lan/".to_owned(), Some(cage)),
            ("http://127.1/".to_owned(), Some(cage)),
        ] {
            let fault = tool
                .rehearse(&object(json!({"url": url, "body": {}})))
                .err();
            assert_eq!(fault.as_ref().map(rule), refused, "{url}");
        }
        // A host that is not listed is looked up by no call either.
        let fault = call(&*tool, json!({"url": "http://other.lan/", "body": {}})).expect_err("no");
        assert_eq!(rule(&fault), cage);
    }
    assert_eq!(server.connections(), 0);
}
