//! The front over real sockets: what a hostile, slow or careless client can do to it, and what an
//! owner can rely on.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use korvun::domain::limits::Limits;
use korvun::net::front::{Client, Ends, Front, Head, Owner, Relay, Request, Response, Verdict};

use crate::support::raw_http::{ask, Raw};

/// Bytes of a body that the owner of these tests takes.
const CAP: usize = 64 * 1024;

/// An owner that does by path what a test needs, and notes what it saw.
struct Desk {
    served: Mutex<Vec<String>>,
    /// `/held` waits for one of these.
    gate: Mutex<Receiver<()>>,
    /// `/left` reports the result of its answer here.
    written: Mutex<Sender<std::io::Result<()>>>,
}

impl Owner for Desk {
    fn judge(&self, head: &Head, ends: Ends) -> Verdict {
        assert!(ends.peer.ip().is_loopback() && ends.local.ip().is_loopback());
        match head.path() {
            "/judge-panics" => panic!("a fault in judging"),
            "/refused" => Verdict::Refuse(Response::error(401, "unauthorized", "no")),
            _ => Verdict::Accept { body_cap: CAP },
        }
    }

    fn serve(&self, request: Request, client: Client<'_>) {
        let target = request.head.target().to_owned();
        self.served
            .lock()
            .unwrap()
            .push(format!("{} {target}", request.head.method()));
        match request.head.path() {
            "/serve-panics" => panic!("a fault in serving"),
            "/silent" => return,
            "/held" => self.gate.lock().unwrap().recv().unwrap(),
            "/left" => {
                while !client.left() {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let result = client.respond(&Response::text(200, "too late"));
                self.written.lock().unwrap().send(result).unwrap();
                return;
            }
            "/deep" => {
                let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&request.body);
                let answer = if parsed.is_ok() { "read" } else { "not read" };
                client.respond(&Response::text(200, answer)).unwrap();
                return;
            }
            "/big" => {
                // Whether all of it was taken is what the test looks at.
                let _ = client.respond(&Response::new(200).body(vec![b'x'; 64 << 20]));
                return;
            }
            "/stream" => return stream(client),
            _ => {}
        }
        let mut body = target.into_bytes();
        body.push(b'\n');
        body.extend_from_slice(&request.body);
        // A client that is gone is not this owner's business.
        let _ = client.respond(&Response::new(200).body(body));
    }
}

/// Relays a source that sends a line at once and then nothing, like a quiet event stream.
fn stream(client: Client<'_>) {
    let Some(place) = client.stream_place() else {
        let _ = client.respond(&Response::error(503, "unavailable", "too many streams"));
        return;
    };
    let (near, mut far) = UnixStream::pair().unwrap();
    far.write_all(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\ndata: first\n\n")
        .unwrap();
    let _ = client.relay(&near, &Relay::Stream(place));
    // The relay closed its source, so this ends.
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
}

/// A front for one test, whose threads are named after it.
struct Rig {
    name: &'static str,
    address: SocketAddr,
    front: Option<Front>,
    desk: Arc<Desk>,
    open: Sender<()>,
    written: Receiver<std::io::Result<()>>,
}

/// Waits that make a test short.
fn quick() -> Limits {
    Limits {
        head_wait: Duration::from_millis(400),
        body_wait: Duration::from_millis(400),
        front_idle: Duration::from_millis(800),
        answer_write: Duration::from_millis(300),
        ..Limits::default()
    }
}

impl Rig {
    fn new(name: &'static str, limits: &Limits) -> Rig {
        let (open, gate) = channel();
        let (tell, written) = channel();
        let desk = Arc::new(Desk {
            served: Mutex::default(),
            gate: Mutex::new(gate),
            written: Mutex::new(tell),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let front = Front::start(name, listener, Arc::clone(&desk) as _, limits).unwrap();
        Rig {
            name,
            address: front.local_addr(),
            front: Some(front),
            desk,
            open,
            written,
        }
    }

    fn connect(&self) -> Raw {
        Raw::connect(self.address)
    }

    fn ask(&self, request: impl AsRef<[u8]>) -> crate::support::raw_http::Reply {
        ask(self.address, request)
    }

    fn still_serves(&self) {
        let reply = self.ask(get("/still"));
        assert_eq!((reply.status, reply.text()), (200, "/still\n"));
    }

    fn served(&self) -> Vec<String> {
        self.desk.served.lock().unwrap().clone()
    }

    /// Connection threads of this front.
    fn threads(&self) -> usize {
        let name = format!("http:{}", self.name);
        let name = &name[..name.len().min(15)];
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|comm| comm.trim_end() == name)
            .count()
    }

    fn wait_for_threads(&self, most: usize) {
        let until = Instant::now() + Duration::from_secs(5);
        while self.threads() > most {
            assert!(Instant::now() < until, "{} threads stay", self.threads());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// What an attack may cost in memory, other tests of this process included: far below what a
/// server that buffers it all would take.
const MEMORY_MOST: usize = 32 << 20;

fn resets_on_close(raw: &Raw) {
    let now = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(raw.socket(), now).unwrap();
}

#[test]
fn requests_are_answered_on_one_connection() {
    let rig = Rig::new("reuse", &quick());
    let mut raw = rig.connect();
    for number in 0..5 {
        let path = format!("/{number}");
        assert!(raw.send(post(&path, "body")));
        let reply = raw.reply().unwrap();
        assert_eq!(
            (reply.status, reply.text().to_owned()),
            (200, format!("{path}\nbody"))
        );
        assert!(reply.header("date").is_some() && reply.header("connection").is_none());
        assert_eq!(rig.threads(), 1);
    }
    assert!(raw.send("GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert_eq!(raw.reply().unwrap().header("connection"), Some("close"));
    assert!(raw.ended());
    let mut old = rig.connect();
    assert!(old.send("GET /old HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"));
    assert_eq!(
        old.reply().unwrap().header("connection"),
        Some("keep-alive")
    );
    assert!(old.send("GET /older HTTP/1.0\r\nHost: x\r\n\r\n"));
    assert_eq!(old.reply().unwrap().text(), "/older\n");
    assert!(old.ended());
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let rig = Rig::new("pieces", &Limits::default());
    let mut raw = rig.connect();
    for byte in format!("\r\n{}\r\n{}", post("/a", "0123456789"), get("/b")).bytes() {
        assert!(raw.send([byte]));
    }
    assert_eq!(raw.reply().unwrap().text(), "/a\n0123456789");
    assert_eq!(raw.reply().unwrap().text(), "/b\n");
    let large = "y".repeat(CAP);
    assert!(raw.send(post("/large", &large)));
    assert_eq!(raw.reply().unwrap().body.len(), "/large\n".len() + CAP);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let rig = Rig::new("pipeline", &quick());
    // More than the front reads at once, so that heads and bodies are cut anywhere.
    let body = "x".repeat(1000);
    let mut raw = rig.connect();
    let request = |number: usize| match number {
        0..1000 => get(&format!("/{number}")),
        _ if number % 2 == 0 => post(&format!("/{number}"), &body),
        _ => format!(
            "POST /{number} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
             3e8\r\n{body}\r\n0\r\n\r\n"
        ),
    };
    assert!(raw.send((0..1100).map(request).collect::<String>()));
    for number in 0..1100 {
        let body = if number < 1000 { "" } else { &body };
        assert_eq!(raw.reply().unwrap().text(), format!("/{number}\n{body}"));
    }
}

#[test]
fn health_is_answered_by_the_front_itself() {
    let rig = Rig::new("health", &quick());
    let mut raw = rig.connect();
    for (method, body) in [("GET", "ok"), ("HEAD", "")] {
        let request = format!("{method} /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert!(raw.send(request));
        let reply = raw.reply_to(method).unwrap();
        assert_eq!((reply.status, reply.text()), (200, body));
        assert_eq!(reply.header("content-length"), Some("2"));
    }
    assert!(raw.send(post("/healthz", "")));
    assert_eq!(raw.reply().unwrap().text(), "/healthz\n");
    assert_eq!(rig.served(), ["POST /healthz"]);
}

#[test]
fn what_is_not_strict_http_ends_the_connection_and_smuggles_nothing() {
    let rig = Rig::new("strict", &quick());
    let smuggled = format!("0\r\n\r\n{}", get("/smuggled"));
    let host = "Host: localhost\r\n";
    for lines in [
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: identity\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: 0\r\nContent-Length: 5\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: +0\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: -1\r\n"),
        format!("POST / HTTP/1.1\r\n{host}Content-Length: abc\r\n"),
        format!("POST / HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n"),
        format!("GET / HTTP/1.1\r\n{host}A: b\n"),
        format!("GET / HTTP/1.1\r\n{host}A: b\r\n folded\r\n"),
        format!("GET / HTTP/1.1\r\n{host}A : b\r\n"),
        format!("GET / HTTP/2.0\r\n{host}"),
        format!("GET / HTTP/1.1\r\n{host}{host}"),
        "GET / HTTP/1.1\r\n".to_owned(),
    ] {
        let mut raw = rig.connect();
        assert!(raw.send(format!("{lines}\r\n{smuggled}")), "{lines}");
        let reply = raw.reply().unwrap();
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (400, "bad_request"),
            "{lines}"
        );
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(raw.ended(), "{lines}");
    }
    assert!(rig.served().is_empty(), "{:?}", rig.served());
    rig.still_serves();
}

#[test]
fn chunked_bodies_are_decoded_under_the_same_cap() {
    let rig = Rig::new("chunked", &quick());
    let head = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let full = format!("{head}{CAP:x}\r\n{}\r\n0\r\nT: x\r\n\r\n", "z".repeat(CAP));
    let mut raw = rig.connect();
    for _ in 0..2 {
        assert!(raw.send(&full));
        assert_eq!(raw.reply().unwrap().body.len(), CAP + 3);
    }
    for (chunks, status, code) in [
        (format!("{:x}\r\n", CAP + 1), 413, "too_large"),
        ("ffffffffffffffff1\r\n".to_owned(), 413, "too_large"),
        ("zz\r\n".to_owned(), 400, "bad_request"),
        ("3\r\nabcdef".to_owned(), 400, "bad_request"),
        (format!("1;{}\r\n", "e".repeat(20_000)), 400, "bad_request"),
        (
            format!("0\r\n{}", "T: x\r\n".repeat(5_000)),
            400,
            "bad_request",
        ),
        ("5\r\nabc".to_owned(), 408, "timeout"),
    ] {
        let mut raw = rig.connect();
        assert!(raw.send(format!("{head}{chunks}")));
        let reply = raw.reply().unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (status, code));
        assert!(raw.ended());
    }
}

#[test]
fn an_enormous_announced_length_allocates_nothing() {
    let rig = Rig::new("lengths", &quick());
    let before = resident();
    for length in [
        "65537",
        "100000000000",
        "9223372036854775808",
        "18446744073709551615",
        "99999999999999999999999999",
    ] {
        let mut raw = rig.connect();
        assert!(raw.send(format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        )));
        let reply = raw.reply().unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
        assert!(raw.ended());
    }
    assert!(resident() < before + MEMORY_MOST);
    assert!(rig.served().is_empty());
    rig.still_serves();
}

#[test]
fn slow_heads_and_bodies_run_out_of_time_in_all() {
    let rig = Rig::new("slow", &quick());
    for (start, drip) in [
        ("", "G"),
        ("GET / HTTP/1.1\r\n", "A: b\r\n"),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n",
            "x",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1\r\nx\r\n",
        ),
    ] {
        let mut raw = rig.connect();
        let began = Instant::now();
        assert!(raw.send(start));
        let dripping = raw.socket().try_clone().unwrap();
        let dripper = std::thread::spawn(move || {
            while (&dripping).write_all(drip.as_bytes()).is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let reply = raw.reply().unwrap();
        assert_eq!((reply.status, reply.code().as_str()), (408, "timeout"));
        assert!(began.elapsed() >= Duration::from_millis(390));
        assert!(began.elapsed() < Duration::from_secs(2));
        // The dripper may find it closed already.
        let _ = raw.socket().shutdown(std::net::Shutdown::Both);
        dripper.join().unwrap();
    }
    rig.wait_for_threads(0);
    assert!(rig.served().is_empty());
}

#[test]
fn an_idle_connection_ends_without_a_word() {
    let rig = Rig::new("idle", &quick());
    let mut raw = rig.connect();
    assert!(raw.send(get("/a")));
    assert_eq!(raw.reply().unwrap().status, 200);
    let began = Instant::now();
    assert!(raw.ended());
    assert!(began.elapsed() >= Duration::from_millis(700));
}

#[test]
fn an_early_refusal_can_be_read_by_a_client_that_keeps_sending() {
    let rig = Rig::new("early", &quick());
    for (path, length, status) in [("/refused", 50_000, 401), ("/", 60_000_000, 413)] {
        let mut raw = rig.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        assert!(raw.send(head));
        // What the front takes of a body that it does not want has a bound.
        let _ = raw.send(vec![b'x'; 50_000]);
        let reply = raw.reply().expect("the answer is not lost in a reset");
        assert_eq!(reply.status, status);
        assert!(raw.ended_in_order(), "ended by a reset");
    }
    let mut raw = rig.connect();
    for _ in 0..2 {
        assert!(raw.send(get("/refused")));
        assert_eq!(
            raw.reply()
                .expect("a refusal without a body ends nothing")
                .status,
            401
        );
    }
}

#[test]
fn a_body_is_asked_for_only_when_it_is_wanted() {
    let rig = Rig::new("expect", &quick());
    let head = |path: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let mut raw = rig.connect();
    assert!(raw.send(head("/wanted", 5)));
    assert_eq!(raw.reply().unwrap().status, 100);
    assert!(raw.send("12345"));
    assert_eq!(raw.reply().unwrap().text(), "/wanted\n12345");
    assert!(raw.send(format!("{}12345", head("/sent-already", 5))));
    assert_eq!(raw.reply().unwrap().status, 200);
    for (path, length, status) in [("/refused", 5, 401), ("/large", CAP + 1, 413)] {
        let mut raw = rig.connect();
        assert!(raw.send(head(path, length)));
        assert_eq!(raw.reply().unwrap().status, status);
        assert!(raw.ended());
    }
}

#[test]
fn five_hundred_silent_clients_keep_nobody_out() {
    let rig = Rig::new("silent", &quick());
    let before = resident();
    let mut held = Vec::new();
    for number in 0..500 {
        let mut raw = rig.connect();
        if number % 2 == 0 {
            raw.send("GET / HTTP/1.1\r\nHost: ");
        }
        held.push(raw);
        if number % 50 == 0 {
            rig.still_serves();
        }
    }
    assert!(rig.threads() <= 64 + 16, "{} threads", rig.threads());
    rig.still_serves();
    assert!(resident() < before + MEMORY_MOST);
    rig.wait_for_threads(0);
    rig.still_serves();
}

#[test]
fn unread_bodies_hold_up_nobody() {
    let rig = Rig::new("partial", &quick());
    let held: Vec<Raw> = (0..8)
        .map(|_| {
            let mut raw = rig.connect();
            raw.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\npart");
            raw
        })
        .collect();
    rig.still_serves();
    for mut raw in held {
        assert_eq!(raw.reply().unwrap().status, 408);
    }
    assert_eq!(rig.served(), ["GET /still"]);
}

#[test]
fn clients_that_reset_their_connection_harm_nothing() {
    let rig = Rig::new("resets", &quick());
    for number in 0..600 {
        let mut raw = rig.connect();
        match number % 3 {
            0 => raw.send(get("/reset")),
            1 => raw.send("GET / HT"),
            _ => raw.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"),
        };
        resets_on_close(&raw);
    }
    rig.still_serves();
    rig.wait_for_threads(1);
}

#[test]
fn requests_that_nobody_reads_answers_to_are_not_queued() {
    let rig = Rig::new("flood", &quick());
    let before = resident();
    let raw = rig.connect();
    let flood = get("/flood").repeat(200_000);
    raw.socket()
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut sent = 0;
    // Ends when the front takes no more, or has given this client up.
    while let Ok(count) = (&mut raw.socket()).write(&flood.as_bytes()[sent..]) {
        sent += count;
        assert!(resident() < before + flood.len() + MEMORY_MOST);
        if sent == flood.len() {
            break;
        }
    }
    assert!(sent < flood.len(), "the front took everything");
    rig.still_serves();
    drop(raw);
    rig.wait_for_threads(1);
}

#[test]
fn endless_heads_are_cut_off() {
    let rig = Rig::new("heads", &quick());
    let before = resident();
    for piece in [vec![b'a'; 1 << 20], b"A: b\r\n".repeat(200_000)] {
        let mut raw = rig.connect();
        raw.send("GET / HTTP/1.1\r\nHost: x\r\nLong: ");
        let mut sent = 0;
        while sent < 64 && raw.send(&piece) {
            sent += 1;
        }
        assert!(sent < 64, "the front read it all");
        assert!(resident() < before + MEMORY_MOST);
    }
    let start = "GET / HTTP/1.1\r\nHost: x\r\n";
    for rest in [
        "A: b\r\n".repeat(64),
        format!("A: {}\r\n", "a".repeat(17_000)),
    ] {
        let reply = rig.ask(format!("{start}{rest}\r\n"));
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (431, "headers_too_large")
        );
    }
    rig.still_serves();
}

#[test]
fn a_panic_of_the_owner_is_a_500_and_no_more() {
    let rig = Rig::new("panics", &quick());
    for path in ["/judge-panics", "/serve-panics", "/silent"] {
        let mut raw = rig.connect();
        assert!(raw.send(get(path)));
        let reply = raw.reply().unwrap();
        assert_eq!(reply.status, 500, "{path}");
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(raw.ended());
    }
    rig.still_serves();
    rig.wait_for_threads(1);
}

#[test]
fn deep_json_fits_on_an_owners_stack() {
    let rig = Rig::new("deep", &quick());
    for (levels, answer) in [(63, "read"), (64, "not read"), (8_000, "not read")] {
        let body = format!("{}1{}", "[{\"a\":".repeat(levels), "}]".repeat(levels));
        let reply = rig.ask(post("/deep", &body));
        assert_eq!((reply.status, reply.text()), (200, answer), "{levels}");
    }
}

#[test]
fn when_all_are_in_work_the_next_is_told_so() {
    let limits = Limits {
        front_connections: 3,
        ..quick()
    };
    let rig = Rig::new("full", &limits);
    let mut held: Vec<Raw> = (0..3)
        .map(|number| {
            let mut raw = rig.connect();
            raw.send(get(&format!("/held?{number}")));
            raw
        })
        .collect();
    while rig.served().len() < 3 {
        std::thread::sleep(Duration::from_millis(5));
        // One of them waits at the gate, the others for the lock before it.
        if rig.threads() == 3 && !rig.served().is_empty() {
            break;
        }
    }
    let mut fourth = rig.connect();
    fourth.send(get("/fourth"));
    let reply = fourth.reply().unwrap();
    assert_eq!((reply.status, reply.code().as_str()), (503, "unavailable"));
    assert!(reply.header("retry-after").is_some());
    assert!(fourth.ended());
    for _ in 0..3 {
        rig.open.send(()).unwrap();
    }
    for raw in &mut held {
        assert_eq!(raw.reply().unwrap().status, 200);
    }
    // All three are idle now: the one that waits longest makes room.
    rig.still_serves();
    let alive = held
        .iter_mut()
        .map(|raw| raw.send(get("/alive")) && raw.reply().is_some())
        .filter(|alive| *alive)
        .count();
    assert_eq!(alive, 2);
}

#[test]
fn an_owner_learns_that_its_client_left() {
    let rig = Rig::new("left", &quick());
    let mut raw = rig.connect();
    raw.send(get("/left"));
    std::thread::sleep(Duration::from_millis(50));
    assert!(rig.written.try_recv().is_err(), "the client is still there");
    resets_on_close(&raw);
    drop(raw);
    let result = rig.written.recv_timeout(Duration::from_secs(2)).unwrap();
    assert!(result.is_err(), "nobody could have taken the answer");
    // One that only ends its side looks the same, and can still be answered.
    let mut raw = rig.connect();
    raw.send(get("/left"));
    raw.socket().shutdown(std::net::Shutdown::Write).unwrap();
    assert!(rig.written.recv().unwrap().is_ok());
    assert_eq!(raw.reply().unwrap().text(), "too late");
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let rig = Rig::new("unread", &quick());
    let mut raw = rig.connect();
    raw.send(get("/big"));
    rig.still_serves();
    rig.wait_for_threads(0);
    assert!(raw.reply().is_none(), "the answer was cut");
}

#[test]
fn streams_flow_at_once_are_counted_and_end_with_their_client() {
    let limits = Limits {
        front_streams: 2,
        ..quick()
    };
    let rig = Rig::new("streams", &limits);
    let mut streams: Vec<Raw> = (0..2)
        .map(|_| {
            let mut raw = rig.connect();
            raw.send(get("/stream"));
            let mut text = Vec::new();
            while !text.ends_with(b"data: first\n\n") {
                text.extend(raw.some());
            }
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nX: y\r\n\r\n";
            assert!(text.starts_with(head));
            raw
        })
        .collect();
    assert_eq!(rig.ask(get("/stream")).status, 503);
    let began = Instant::now();
    streams.pop();
    // The freed place shows that the front noticed.
    loop {
        let mut raw = rig.connect();
        raw.send(get("/stream"));
        if raw.some().starts_with(b"HTTP/1.1 200") {
            break;
        }
        assert!(began.elapsed() < Duration::from_millis(500), "not noticed");
    }
    drop(streams);
    rig.wait_for_threads(0);
}

#[test]
fn stopping_lets_work_finish_and_frees_the_port() {
    let mut rig = Rig::new("stop", &Limits::default());
    let mut idle = rig.connect();
    idle.send(get("/idle"));
    assert_eq!(idle.reply().unwrap().status, 200);
    let mut working = rig.connect();
    working.send(get("/held"));
    while rig.served().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let front = rig.front.take().unwrap();
    let stopping = std::thread::spawn(move || front.stop(Duration::from_secs(5)));
    assert!(idle.ended());
    assert!(TcpStream::connect(rig.address).is_err());
    rig.open.send(()).unwrap();
    let reply = working.reply().unwrap();
    assert_eq!(
        (reply.status, reply.header("connection")),
        (200, Some("close"))
    );
    stopping.join().unwrap();
    drop(TcpListener::bind(rig.address).expect("the port is free"));
    rig.wait_for_threads(0);
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let mut rig = Rig::new("cut", &Limits::default());
    let mut working = rig.connect();
    working.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n");
    while rig.threads() == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    rig.front.take().unwrap().stop(Duration::from_millis(100));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(working.ended());
}

/// In the variable: this process is the server that runs out of descriptors.
const CHILD: &str = "KORVUN_TEST_FEW_DESCRIPTORS";

#[test]
fn accepting_survives_a_lack_of_descriptors() {
    if std::env::var_os(CHILD).is_some() {
        return serve_with_few_descriptors();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "front::accepting_survives_a_lack_of_descriptors"])
        .args(["--nocapture", "--test-threads", "1"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address: SocketAddr = lines
        .find_map(|line| Some(line.unwrap().split_once("serves ")?.1.parse().unwrap()))
        .unwrap();
    let held: Vec<Raw> = (0..40).map(|_| Raw::connect(address)).collect();
    for _ in 0..3 {
        let reply = ask(address, get("/few"));
        assert_eq!((reply.status, reply.text()), (200, "/few\n"));
    }
    drop(held);
    assert_eq!(ask(address, get("/after")).text(), "/after\n");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

fn serve_with_few_descriptors() {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(24),
            ..limit
        },
    )
    .unwrap();
    let rig = Rig::new("few", &Limits::default());
    println!("serves {}", rig.address);
    // Until the parent lets go.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
