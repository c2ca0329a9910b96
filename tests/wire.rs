//! The one HTTP recipe: connections are kept and shared, one request can be given up without harm to
//! the next, and a connection that died while it was idle costs nobody an answer.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use korvun::base::clock::SystemClock;
use korvun::base::sync::Stop;
use korvun::domain::address::Shield;
use korvun::domain::limits::Limits;
use korvun::domain::url::Url;
use korvun::net::cancel::Cancel;
use korvun::net::error::HttpError;
use korvun::net::http::{Client, Request, Resend, Response, Wire};
use korvun::net::names::Names;
use serde_json::json;

use crate::support::asking::{wire, within};
use crate::support::model::{ModelServer, Reply, Step};

fn post(
    client: &Client,
    server: &ModelServer,
    cancel: &Cancel,
    resend: Resend,
) -> Result<Response, HttpError> {
    client.send(&Request {
        url: &Url::parse(&server.url()).unwrap().join("/x"),
        json: Some(b"{}"),
        headers: &[],
        bearer: None,
        deadline: within(Duration::from_secs(20)),
        cancel,
        body_most: 1000,
        resend,
    })
}

fn fine() -> Reply {
    Reply::Json(200, json!({"fine": true}))
}

/// Waits until the server has seen that many requests.
fn until_seen(server: &ModelServer, count: usize) {
    let began = Instant::now();
    while server.seen().len() < count {
        assert!(began.elapsed() < Duration::from_secs(20), "no request came");
        std::thread::yield_now();
    }
}

#[test]
fn giving_up_a_request_ends_it_at_once_and_harms_no_other() {
    let complete = "HTTP/1.1 200 OK\r\n\r\n{\"fine\": true}";
    let stuck = [
        ("before an answer", vec![Step::UntilGone]),
        (
            "in the head",
            vec![
                Step::Bytes(b"HTTP/1.1 200 OK\r\n".to_vec()),
                Step::UntilGone,
            ],
        ),
        (
            "in the body",
            vec![
                Step::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc".to_vec()),
                Step::UntilGone,
            ],
        ),
        (
            "when the body looks complete",
            vec![Step::Bytes(complete.as_bytes().to_vec()), Step::UntilGone],
        ),
    ];
    for (place, steps) in stuck {
        let server = ModelServer::start(move |seen| {
            // Each stuck request comes over a connection that served another one before.
            match seen.header("content-length") {
                Some("3") => Reply::Steps(steps.clone()),
                _ => fine(),
            }
        });
        let client = wire().client(Shield::Private);
        let mut quickest = Duration::MAX;
        for round in 0..5 {
            post(&client, &server, &Cancel::new(), Resend::Once).unwrap();
            let cancel = Cancel::new();
            let (theirs, url) = (cancel.clone(), Url::parse(&server.url()).unwrap());
            let asking = client.clone();
            let asked = std::thread::spawn(move || {
                asking.send(&Request {
                    url: &url,
                    json: Some(b"{ }"),
                    headers: &[],
                    bearer: None,
                    deadline: within(Duration::from_secs(20)),
                    cancel: &theirs,
                    body_most: 1000,
                    resend: Resend::Once,
                })
            });
            until_seen(&server, 2 * round + 2);
            // Long enough for the beginning of the answer to be read.
            std::thread::sleep(Duration::from_millis(20));
            let raised = Instant::now();
            cancel.raise();
            let result = asked.join().unwrap();
            quickest = quickest.min(raised.elapsed());
            assert_eq!(result.unwrap_err(), HttpError::Cancelled, "{place}");
        }
        assert!(
            quickest < Duration::from_millis(100),
            "{place}: {quickest:?}"
        );
        assert_eq!(
            server.connections(),
            5,
            "{place}: a cut connection is not used again"
        );
    }
}

#[test]
fn a_request_that_is_given_up_before_it_begins_sends_nothing() {
    let server = ModelServer::start(|_| fine());
    let cancel = Cancel::new();
    cancel.raise();
    let result = post(&wire().client(Shield::Open), &server, &cancel, Resend::Once);
    assert_eq!(result.unwrap_err(), HttpError::Cancelled);
    assert_eq!(server.connections(), 0);
}

#[test]
fn giving_up_too_late_leaves_the_connection_alone() {
    let server = ModelServer::start(|_| fine());
    let client = wire().client(Shield::Private);
    for _ in 0..5 {
        let cancel = Cancel::new();
        post(&client, &server, &cancel, Resend::Once).unwrap();
        cancel.raise();
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn one_cancel_for_several_requests_gives_up_all_of_them() {
    let server = ModelServer::start(|seen| match seen.connection {
        0 | 1 => Reply::Steps(vec![Step::UntilGone]),
        _ => fine(),
    });
    let (client, cancel) = (wire().client(Shield::Private), Cancel::new());
    std::thread::scope(|scope| {
        let stuck: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| post(&client, &server, &cancel, Resend::Once)))
            .collect();
        until_seen(&server, 2);
        // A third one under the same cancel comes and goes, and must not untie the others.
        post(&client, &server, &cancel, Resend::Once).unwrap();
        let raised = Instant::now();
        cancel.raise();
        for stuck in stuck {
            assert_eq!(stuck.join().unwrap().unwrap_err(), HttpError::Cancelled);
        }
        assert!(
            raised.elapsed() < Duration::from_secs(5),
            "their sockets were closed"
        );
    });
}

#[test]
fn a_connection_that_died_while_idle_costs_no_answer() {
    for (resend, answered, connections) in [(Resend::Once, true, 2), (Resend::Never, false, 1)] {
        // It closes as the second request of its first connection comes in: no look at the socket
        // beforehand can tell.
        let asked = AtomicUsize::new(0);
        let server = ModelServer::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
            1 => Reply::Steps(Vec::new()),
            _ => fine(),
        });
        let client = wire().client(Shield::Private);
        post(&client, &server, &Cancel::new(), resend).unwrap();
        let result = post(&client, &server, &Cancel::new(), resend);
        assert_eq!(result.is_ok(), answered);
        assert_eq!(server.connections(), connections);
        if let Err(error) = result {
            assert!(matches!(error, HttpError::Connect(_)), "{error}");
        }
    }
}

#[test]
fn a_connection_that_was_just_dialled_is_not_tried_twice() {
    let server = ModelServer::start(|_| Reply::Steps(Vec::new()));
    let error = post(
        &wire().client(Shield::Private),
        &server,
        &Cancel::new(),
        Resend::Once,
    )
    .unwrap_err();
    assert!(matches!(error, HttpError::Connect(_)), "{error}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_server_that_restarted_is_found_again() {
    let server = ModelServer::start(|_| fine());
    let client = wire().client(Shield::Private);
    for _ in 0..3 {
        post(&client, &server, &Cancel::new(), Resend::Never).unwrap();
        server.hang_up();
    }
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_full_house_finds_its_connections_again() {
    let house = Arc::new(Barrier::new(16));
    let server = ModelServer::start(move |_| {
        house.wait();
        fine()
    });
    let client = wire().client(Shield::Private);
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| post(&client, &server, &Cancel::new(), Resend::Never).unwrap());
            }
        });
    }
    assert_eq!(server.connections(), 16);
}

#[test]
fn a_policy_shares_no_connection_with_another() {
    let server = ModelServer::start(|_| fine());
    let wire = wire();
    for shield in [Shield::Open, Shield::Private, Shield::Open, Shield::Private] {
        post(&wire.client(shield), &server, &Cancel::new(), Resend::Never).unwrap();
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_body_is_cut_at_its_cap_and_said_to_be() {
    let long = json!({"text": "x".repeat(5000)});
    let server = ModelServer::start(move |_| Reply::Json(200, long.clone()));
    let client = wire().client(Shield::Private);
    let answer = post(&client, &server, &Cancel::new(), Resend::Never).unwrap();
    assert_eq!(
        (answer.status, answer.body.len(), answer.truncated),
        (200, 1000, true)
    );
    assert_eq!(answer.header("Content-Type"), Some("application/json"));
    assert_eq!(answer.header("x-none"), None);
}

#[test]
fn no_error_shows_a_query() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!(
        "http://{}/hook?token=hunter2",
        listener.local_addr().unwrap()
    ))
    .unwrap();
    drop(listener);
    let error = wire()
        .client(Shield::Open)
        .send(&Request {
            url: &url,
            json: None,
            headers: &[],
            bearer: None,
            deadline: within(Duration::from_secs(5)),
            cancel: &Cancel::new(),
            body_most: 10,
            resend: Resend::Once,
        })
        .unwrap_err();
    assert!(
        error.to_string().starts_with("GET http://127.0.0.1:"),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

fn ask_for(wire: &Wire, url: &str, span: Duration) -> (Result<u16, HttpError>, Duration) {
    let began = Instant::now();
    let answer = wire.client(Shield::Private).send(&Request {
        url: &Url::parse(url).unwrap(),
        json: None,
        headers: &[],
        bearer: None,
        deadline: within(span),
        cancel: &Cancel::new(),
        body_most: 1000,
        resend: Resend::Once,
    });
    (answer.map(|answer| answer.status), began.elapsed())
}

/// A resolver that knows one name and hangs at every other.
#[derive(Debug)]
struct Hanging(Stop);

impl Names for Hanging {
    fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name != "here.test" {
            let _ = self.0.wait(Duration::from_secs(60));
        }
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

#[test]
fn a_resolver_that_hangs_holds_a_call_no_longer_than_a_connection_may_take() {
    let limits = Limits {
        connect: Duration::from_millis(300),
        ..Limits::default()
    };
    let stop = Stop::new();
    let names = Arc::new(Hanging(stop.clone()));
    let wire = Wire::with_names(None, &limits, Arc::new(SystemClock), names);
    let server = ModelServer::start(|_| fine());
    let port = server.addr().port();
    let (slow, known) = (
        format!("http://slow.test:{port}"),
        format!("http://here.test:{port}"),
    );
    let (result, elapsed) = ask_for(&wire, &slow, Duration::from_secs(20));
    assert!(
        matches!(result, Err(HttpError::Connect(_))),
        "may be tried again: {result:?}"
    );
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    let (result, elapsed) = ask_for(&wire, &slow, Duration::from_millis(100));
    assert!(
        matches!(result, Err(HttpError::Timeout(_))),
        "its own time passed: {result:?}"
    );
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    assert_eq!(ask_for(&wire, &known, Duration::from_secs(20)).0, Ok(200));
    stop.raise();
}

#[test]
fn a_host_that_does_not_answer_the_connection_request_is_given_up_in_time() {
    use rustix::net::{bind, getsockname, listen, socket, AddressFamily, SocketType};
    // Nobody accepts here, and the queue holds one: further requests stay without an answer.
    let full = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&full, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&full, 0).unwrap();
    let addr = SocketAddr::try_from(getsockname(&full).unwrap()).unwrap();
    let in_queue = TcpStream::connect(addr).unwrap();
    let limits = Limits {
        connect: Duration::from_millis(300),
        ..Limits::default()
    };
    let wire = Wire::new(None, &limits, Arc::new(SystemClock));
    let url = format!("http://{addr}");
    let (result, elapsed) = ask_for(&wire, &url, Duration::from_secs(20));
    assert!(matches!(result, Err(HttpError::Connect(_))), "{result:?}");
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    drop(in_queue);
}
