//! A strict Discord on loopback: one bot, its gateway and the part of the HTTP API that a bot needs,
//! plain or over TLS. It holds to the rules of the platform and notes every rule that its client
//! breaks; the test fails by them when the peer goes. Faults are keyed to the steps of the protocol
//! ("the second resume").

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{json, Value};

use super::discord_socket::converse;
use super::http::read_message;

/// The token of every bot.
pub const TOKEN: &str = "MTIzNDU2Nzg5.tests-Token_of-the.tests-0123456789";
/// The id of every bot.
pub const BOT: &str = "900000000000000001";
/// The server in which people talk.
pub const GUILD: &str = "800000000000000001";

/// How long a request may be on its way on a busy machine.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// A step of the gateway at which something may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The socket is open; Hello is due.
    Connect,
    /// An Identify has come.
    Identify,
    /// A Resume has come.
    Resume,
    /// A heartbeat has come.
    Heartbeat,
    /// An event has been said, as it happened.
    Dispatch,
}

/// What is done there in place of what is due.
#[derive(Clone, Debug)]
pub enum Do {
    /// Close with that code.
    Close(u16),
    /// Cut the connection without a word.
    Cut,
    /// Nothing any more, for as long as the client stays: the connection is half open.
    Hang,
    /// Op 9.
    Invalid(bool),
    /// This in place of what is due.
    Text(String),
}

/// What is done to one request in place of an honest answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An error of Discord's own: status, code, message.
    Refuse(u16, u64, &'static str),
    /// A 429 of that many seconds, for the channel or for everything.
    Limit(f64, bool),
    /// A page of something in between.
    Html(u16),
    /// The end of the connection, without an answer.
    Close,
    /// Nothing, for as long as the client stays: the connection is half open.
    Hang,
    /// The request is done, its answer is lost.
    LoseAnswer,
    /// This in place of the answer.
    Json(Value),
}

/// One message as people see it.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    /// When the first byte of its request was seen.
    pub first_byte: Instant,
    pub channel: String,
    pub text: String,
    pub reply_to: Option<String>,
}

/// A session.
#[derive(Debug, Default)]
pub struct Known {
    /// What was said in it, by its sequence number.
    pub events: BTreeMap<u64, String>,
    /// Whether a Resume finds it.
    pub open: bool,
    /// The last number that the client has said it has taken.
    pub taken: u64,
}

type SocketScript = dyn Fn(At, usize) -> Option<Do> + Send + Sync;
type Script = dyn Fn(&str, usize, &Value) -> Option<Fault> + Send + Sync;

/// What the peer knows. Its socket's side lives in `discord_socket`.
pub struct World {
    pub sessions: BTreeMap<String, Known>,
    /// The session to which events go.
    pub live: Option<String>,
    /// Which connection it is on; none while it waits for a resume.
    pub line: Option<usize>,
    /// What is to be done to the live connection.
    pub order: Option<Do>,
    pub identifies: Vec<Instant>,
    /// Sequence numbers with which sessions were resumed.
    pub resumes: Vec<u64>,
    /// Codes with which the client closed.
    pub closes: Vec<u16>,
    pub beats: usize,
    pub interval: Duration,
    pub starts_left: u64,
    pub reset_after: Duration,
    /// Whether nothing answers at the address for resuming.
    pub resume_dead: bool,
    pub counts: BTreeMap<At, usize>,
    pub broken: Vec<String>,
    calls: BTreeMap<String, usize>,
    sent: Vec<Sent>,
    /// Messages by nonce.
    nonces: BTreeMap<String, Value>,
    typed: Vec<(Instant, String)>,
    next_id: u64,
    /// Messages that each channel takes within a time; none: any number.
    bucket: Option<(usize, Duration)>,
    taken: BTreeMap<String, Vec<Instant>>,
    /// Nothing on that route before that moment; since when.
    held: BTreeMap<String, (Instant, Instant)>,
    refused: usize,
    flags: u64,
    expected: Vec<&'static str>,
    /// Connections that are open.
    open: usize,
    /// The next identify is the first of a process, which cannot know of those before it.
    pub newborn: bool,
    /// Whether a bot may make 50 requests a second and no more, as Discord has it.
    limit_all: bool,
    requests: VecDeque<Instant>,
    /// Just before the last message to the bot was said.
    pub handed: Option<Instant>,
    followers: BTreeMap<String, Sender<Sent>>,
    /// Whether messages are kept at all; the bench only follows them.
    follow_only: bool,
}

/// What the peer's threads share.
pub struct Shared {
    world: Mutex<World>,
    pub changed: Condvar,
    /// Wakes the gateway's side: the end that is written to, the end that it waits at.
    pub wake: (UnixStream, UnixStream),
    script: Mutex<Box<Script>>,
    pub socket_script: Mutex<Box<SocketScript>>,
    pub stop: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
    tls: Option<Arc<ServerConfig>>,
    host: String,
    gateway: SocketAddr,
    /// Where its gateway is said to be.
    told: Mutex<SocketAddr>,
}

/// The peer; ends with its value, and fails the test by every rule that was broken.
pub struct Discord {
    api: SocketAddr,
    shared: Arc<Shared>,
    accepting: Vec<thread::JoinHandle<()>>,
}

impl Discord {
    /// An honest one.
    pub fn start() -> Discord {
        Discord::on("127.0.0.1", None)
    }

    /// One that speaks TLS and is called `host`.
    pub fn on(host: &str, tls: Option<Arc<ServerConfig>>) -> Discord {
        let listen = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
            let addr = listener.local_addr().expect("its address");
            (listener, addr)
        };
        let ((api_listener, api), (gateway_listener, gateway)) = (listen(), listen());
        let wake = UnixStream::pair().expect("a pair of sockets");
        for end in [&wake.0, &wake.1] {
            end.set_nonblocking(true)
                .expect("a socket that does not wait");
        }
        let shared = Arc::new(Shared {
            world: Mutex::new(World {
                sessions: BTreeMap::new(),
                live: None,
                line: None,
                order: None,
                identifies: Vec::new(),
                resumes: Vec::new(),
                closes: Vec::new(),
                beats: 0,
                interval: Duration::from_secs(2),
                starts_left: 1000,
                reset_after: Duration::from_secs(3600),
                resume_dead: false,
                counts: BTreeMap::new(),
                broken: Vec::new(),
                calls: BTreeMap::new(),
                sent: Vec::new(),
                nonces: BTreeMap::new(),
                typed: Vec::new(),
                next_id: 700_000_000_000_000_000,
                bucket: None,
                taken: BTreeMap::new(),
                held: BTreeMap::new(),
                refused: 0,
                flags: 1 << 19,
                expected: Vec::new(),
                open: 0,
                newborn: true,
                limit_all: false,
                requests: VecDeque::new(),
                handed: None,
                followers: BTreeMap::new(),
                follow_only: false,
            }),
            changed: Condvar::new(),
            wake,
            script: Mutex::new(Box::new(|_, _, _| None)),
            socket_script: Mutex::new(Box::new(|_, _| None)),
            stop: AtomicBool::new(false),
            streams: Mutex::default(),
            tls,
            host: host.to_owned(),
            gateway,
            told: Mutex::new(gateway),
        });
        let accepting = vec![
            accept(api_listener, &shared, |shared, stream, _| {
                let _ = shared.answer_all(stream);
            }),
            accept(gateway_listener, &shared, |shared, stream, line| {
                converse(shared, stream, line);
            }),
        ];
        Discord {
            api,
            shared,
            accepting,
        }
    }

    /// Its root, for `base_url`.
    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!(
            "{scheme}://{}:{}/api/v10",
            self.shared.host,
            self.api.port()
        )
    }

    /// Where its HTTP API listens.
    pub fn addr(&self) -> SocketAddr {
        self.api
    }

    /// The address of its gateway.
    pub fn socket_url(&self) -> String {
        self.shared.socket_url("")
    }

    /// Where the HTTP API listens, and the gateway.
    pub fn addrs(&self) -> (SocketAddr, SocketAddr) {
        (self.api, self.shared.gateway)
    }

    /// From now on the gateway is said to be there.
    pub fn tell_gateway(&self, addr: SocketAddr) {
        *self.shared.told.lock().expect("told") = addr;
    }

    /// What it knows.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }

    /// Changes what is done to requests: their route (`messages`, `typing`, `gateway`), which one of
    /// that route it is (from 1), their body.
    pub fn script(
        &self,
        script: impl Fn(&str, usize, &Value) -> Option<Fault> + Send + Sync + 'static,
    ) {
        *self.shared.script.lock().expect("script") = Box::new(script);
    }

    /// Changes what is done to steps of the gateway, each counted from 1.
    pub fn socket_script(&self, script: impl Fn(At, usize) -> Option<Do> + Send + Sync + 'static) {
        *self.shared.socket_script.lock().expect("script") = Box::new(script);
    }

    /// Each channel takes `most` messages within `span` from now on.
    pub fn bucket(&self, most: usize, span: Duration) {
        self.world().bucket = Some((most, span));
    }

    /// A bot may make 50 requests a second and no more from now on.
    pub fn limit_all(&self) {
        self.world().limit_all = true;
    }

    /// From now on the messages to a channel go to this receiver too.
    pub fn follow(&self, channel: &str) -> Receiver<Sent> {
        let (sender, receiver) = mpsc::channel();
        self.world().followers.insert(channel.to_owned(), sender);
        receiver
    }

    /// From now on nothing is kept but for followers, and nobody who waits is woken.
    pub fn keep_nothing(&self) {
        self.world().follow_only = true;
    }

    /// The switch Message Content Intent is off.
    pub fn withhold_content(&self) {
        self.world().flags = 0;
    }

    /// Breaking a rule whose note has these words is what the test is about.
    pub fn expect_broken(&self, words: &'static str) {
        self.world().expected.push(words);
    }

    /// Does something to the connection that stands.
    pub fn order(&self, order: Do) {
        self.world().order = Some(order);
        self.shared.happened();
    }

    /// The client was killed, or stopped: what it was told goes with it, its last requests are read
    /// to their end, and nobody resumes its sessions.
    pub fn client_gone(&self, most: Duration) {
        self.wait_until("end of all connections", most, |world| {
            (world.open == 0).then_some(())
        });
        let mut world = self.world();
        world.held.clear();
        world.taken.clear();
        world.live = None;
        world.newborn = true;
        for session in world.sessions.values_mut() {
            session.open = false;
        }
    }

    /// Something happens; it is kept for the session, connected or not. Its sequence number.
    pub fn event(&self, name: &str, data: &Value) -> Option<u64> {
        let seq = self.world().happen(name, data);
        self.shared.happened();
        seq
    }

    /// A message of any content. Id, type and mentions are filled in where they are missing; its id.
    pub fn message(&self, mut message: Value) -> String {
        let id = {
            let mut world = self.world();
            world.next_id += 1;
            world.next_id.to_string()
        };
        for (key, value) in [
            ("id", json!(id)),
            ("type", json!(0)),
            ("mentions", json!([])),
            ("attachments", json!([])),
            ("embeds", json!([])),
        ] {
            if message[key].is_null() {
                message[key] = value;
            }
        }
        self.event("MESSAGE_CREATE", &message);
        id
    }

    /// A person says something to the bot in private.
    pub fn say(&self, channel: &str, text: &str) -> String {
        self.message(json!({"channel_id": channel, "author": person("41"), "content": text}))
    }

    /// A person says something in a server.
    pub fn say_in_guild(&self, channel: &str, text: &str, mentions: &[&str]) -> String {
        let mentions: Vec<Value> = mentions.iter().map(|id| person(id)).collect();
        self.message(
            json!({"channel_id": channel, "guild_id": GUILD, "author": person("41"),
            "member": {"nick": "Ana la de casa"}, "content": text, "mentions": mentions}),
        )
    }

    /// Every message so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.world().sent.clone()
    }

    /// The texts sent to a channel so far.
    pub fn texts(&self, channel: &str) -> Vec<String> {
        let world = self.world();
        let own = world.sent.iter().filter(|sent| sent.channel == channel);
        own.map(|sent| sent.text.clone()).collect()
    }

    /// When a sign of life was shown, and where.
    pub fn typed(&self) -> Vec<(Instant, String)> {
        self.world().typed.clone()
    }

    /// How many requests of that route have come.
    pub fn calls(&self, route: &str) -> usize {
        self.world().calls.get(route).copied().unwrap_or(0)
    }

    /// How many requests were refused by a rate limit.
    pub fn refused(&self) -> usize {
        self.world().refused
    }

    /// Waits until `count` messages are there.
    pub fn wait_for_sent(&self, count: usize, most: Duration) -> Vec<Sent> {
        self.wait_until("messages", most, |world| {
            (world.sent.len() >= count).then(|| world.sent.clone())
        })
    }

    /// Waits until the session stands on a connection.
    pub fn wait_for_live(&self, most: Duration) {
        self.wait_until("session", most, |world| world.line);
    }

    /// Waits until `count` sessions were begun.
    pub fn wait_for_identifies(&self, count: usize, most: Duration) {
        self.wait_until("identify", most, |world| {
            (world.identifies.len() >= count && world.line.is_some()).then_some(())
        });
    }

    /// Waits until sessions were resumed `count` times.
    pub fn wait_for_resumes(&self, count: usize, most: Duration) -> Vec<u64> {
        self.wait_until("resume", most, |world| {
            (world.resumes.len() >= count).then(|| world.resumes.clone())
        })
    }

    /// Waits for anything.
    pub fn wait_until<T>(
        &self,
        what: &str,
        most: Duration,
        look: impl Fn(&World) -> Option<T>,
    ) -> T {
        let until = Instant::now() + most;
        let mut world = self.world();
        loop {
            if let Some(found) = look(&world) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "no {what} after {most:?}; sent {:#?}, broken {:?}, steps {:?}, calls {:?}",
                world.sent,
                world.broken,
                world.counts,
                world.calls
            );
            world = self
                .shared
                .changed
                .wait_timeout(world, left)
                .expect("world")
                .0;
        }
    }
}

/// A person as Discord tells of one; the bot by its own id.
pub fn person(id: &str) -> Value {
    match id == BOT {
        true => json!({"id": BOT, "username": "korvun", "bot": true}),
        false => json!({"id": id, "username": format!("user{id}"), "global_name": "Ana"}),
    }
}

impl Drop for Discord {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        for addr in [self.api, self.shared.gateway] {
            let _ = TcpStream::connect(addr);
        }
        for thread in self.accepting.drain(..) {
            let _ = thread.join();
        }
        for stream in self.shared.streams.lock().expect("streams").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if thread::panicking() {
            return;
        }
        let world = self.world();
        let expected = |note: &&String| !world.expected.iter().any(|words| note.contains(words));
        let broken: Vec<String> = world.broken.iter().filter(expected).cloned().collect();
        drop(world);
        assert!(
            broken.is_empty(),
            "rules of the platform were broken: {broken:#?}"
        );
    }
}

/// A connection of either kind.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    /// The socket beneath.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => &tls.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(tcp) => tcp.write(buffer),
            Stream::Tls(tls) => tls.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(tcp) => tcp.flush(),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}

fn accept(
    listener: TcpListener,
    shared: &Arc<Shared>,
    work: impl Fn(&Arc<Shared>, Stream, usize) + Send + Copy + 'static,
) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        for (line, tcp) in listener.incoming().enumerate() {
            if shared.stop.load(Ordering::SeqCst) {
                return;
            }
            let Ok(tcp) = tcp else { continue };
            let _ = tcp.set_nodelay(true);
            if let Ok(copy) = tcp.try_clone() {
                shared.streams.lock().expect("streams").push(copy);
            }
            let stream = match &shared.tls {
                None => Stream::Plain(tcp),
                Some(config) => {
                    let server = ServerConnection::new(config.clone()).expect("a server");
                    Stream::Tls(Box::new(StreamOwned::new(server, tcp)))
                }
            };
            let theirs = shared.clone();
            theirs.world().open += 1;
            thread::spawn(move || {
                work(&theirs, stream, line);
                theirs.world().open -= 1;
                theirs.changed.notify_all();
            });
        }
    })
}

/// An answer, or none and the end of the connection.
enum Answer {
    Json(u16, String, Value),
    Html(u16),
    Hang,
    End,
}

fn good(body: Value) -> Answer {
    Answer::Json(200, String::new(), body)
}

fn refuse(status: u16, code: u64, message: &str) -> Answer {
    Answer::Json(
        status,
        String::new(),
        json!({"message": message, "code": code}),
    )
}

impl World {
    /// When a sign of life was shown, and where.
    pub fn typed(&self) -> &[(Instant, String)] {
        &self.typed
    }

    /// How many requests of that route have come.
    pub fn calls(&self, route: &str) -> usize {
        self.calls.get(route).copied().unwrap_or(0)
    }

    /// Notes that a rule was broken.
    pub fn note(&mut self, note: impl Into<String>) {
        self.broken.push(note.into());
    }

    /// Keeps an event for the live session.
    fn happen(&mut self, name: &str, data: &Value) -> Option<u64> {
        let session = self.sessions.get_mut(self.live.as_ref()?)?;
        let seq = session.events.keys().last().copied().unwrap_or(1) + 1;
        let text = json!({"t": name, "s": seq, "op": 0, "d": data}).to_string();
        session.events.insert(seq, text);
        Some(seq)
    }
}

impl Shared {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("world")
    }

    /// The address of the gateway, or of its part for resuming.
    fn socket_url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "wss" } else { "ws" };
        let told = *self.told.lock().expect("told");
        if told != self.gateway {
            return format!("{scheme}://{told}{path}");
        }
        format!("{scheme}://{}:{}{path}", self.host, told.port())
    }

    /// What READY names as the address for resuming.
    pub fn resume_url(&self) -> String {
        self.socket_url("/resume")
    }

    /// Wakes whoever waits for something to happen.
    fn happened(&self) {
        self.changed.notify_all();
        // Full is as good: there is something to wake by.
        let _ = (&self.wake.0).write(&[1]);
    }

    fn answer_all(&self, stream: Stream) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(16 * 1024, stream);
        while let Some((at, head, body)) = read_message(&mut reader)? {
            let (status, kind, fields, body) = match self.answer(&head, &body, at) {
                Answer::Json(204, fields, _) => (204, "text/plain", fields, String::new()),
                Answer::Json(status, fields, body) => {
                    (status, "application/json", fields, body.to_string())
                }
                Answer::Html(status) => (
                    status,
                    "text/html",
                    String::new(),
                    "<html>no</html>".to_owned(),
                ),
                Answer::Hang => {
                    // Ends when the client leaves, or the peer.
                    let _ = io::copy(&mut reader, &mut io::sink());
                    break;
                }
                Answer::End => break,
            };
            let length = match status {
                204 => String::new(),
                _ => format!("Content-Length: {}\r\n", body.len()),
            };
            // One write: in pieces it would reach the client in pieces.
            let answer = format!(
                "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\n{length}{fields}\r\n{body}"
            );
            let stream = reader.get_mut();
            stream.write_all(answer.as_bytes())?;
            stream.flush()?;
        }
        reader.get_ref().tcp().shutdown(Shutdown::Both)
    }

    fn answer(&self, head: &str, body: &[u8], at: Instant) -> Answer {
        let field = |name: &str| {
            head.lines().skip(1).find_map(|line| {
                let (own, value) = line.split_once(':')?;
                own.eq_ignore_ascii_case(name)
                    .then(|| value.trim().to_owned())
            })
        };
        let mut words = head.split(' ');
        let (verb, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let segments: Vec<&str> = path.trim_start_matches("/api/v10/").split('/').collect();
        let (route, channel) = match (verb, segments.as_slice()) {
            ("GET", ["gateway", "bot"]) => ("gateway", ""),
            ("GET", ["users", "@me"]) => ("me", ""),
            ("GET", ["applications", "@me"]) => ("application", ""),
            ("POST", ["channels", channel, "messages"]) => ("messages", *channel),
            ("POST", ["channels", channel, "typing"]) => ("typing", *channel),
            _ => {
                self.world().note(format!("{verb} {path}: no such route"));
                return refuse(404, 0, "404: Not Found");
            }
        };
        let nth = {
            let mut world = self.world();
            let agent = field("user-agent").unwrap_or_default();
            if !agent.starts_with("DiscordBot (") || !agent.contains(", ") {
                world.note(format!("{verb} {path}: user agent {agent}"));
            }
            let count = world.calls.entry(route.to_owned()).or_default();
            *count += 1;
            if !world.follow_only {
                self.changed.notify_all();
            }
            world.calls[route]
        };
        if field("authorization") != Some(format!("Bot {TOKEN}")) {
            return refuse(401, 0, "401: Unauthorized");
        }
        let fault = (self.script.lock().expect("script"))(route, nth, &body);
        let key = format!("{route}/{channel}");
        let answer = match fault {
            Some(Fault::Refuse(status, code, message)) => refuse(status, code, message),
            Some(Fault::Limit(seconds, global)) => self.limit(&key, seconds, global),
            Some(Fault::Html(status)) => Answer::Html(status),
            Some(Fault::Close) => Answer::End,
            Some(Fault::Hang) => Answer::Hang,
            Some(Fault::Json(value)) => good(value),
            Some(Fault::LoseAnswer) => {
                let _ = self.honest(route, channel, &key, &body, at);
                Answer::End
            }
            None => self.honest(route, channel, &key, &body, at),
        };
        if !self.world().follow_only {
            self.changed.notify_all();
        }
        answer
    }

    fn limit(&self, key: &str, seconds: f64, global: bool) -> Answer {
        let mut world = self.world();
        let now = Instant::now();
        let until = now + Duration::from_secs_f64(seconds);
        let key = if global { "global" } else { key };
        world.held.insert(key.to_owned(), (now, until));
        world.refused += 1;
        Answer::Json(
            429,
            format!("Retry-After: {}\r\n", seconds.ceil()),
            json!({"message": "You are being rate limited.", "retry_after": seconds, "global": global}),
        )
    }

    fn honest(
        &self,
        route: &str,
        channel: &str,
        key: &str,
        body: &Value,
        first_byte: Instant,
    ) -> Answer {
        match route {
            "gateway" => {
                let world = self.world();
                good(
                    json!({"url": self.socket_url(""), "shards": 1, "session_start_limit": {
                    "total": 1000, "remaining": world.starts_left,
                    "reset_after": u64::try_from(world.reset_after.as_millis()).expect("ms"), "max_concurrency": 1}}),
                )
            }
            "me" => good(person(BOT)),
            "application" => {
                good(json!({"id": BOT, "name": "korvun", "flags": self.world().flags}))
            }
            "typing" => match self.held(key) {
                Some(refused) => refused,
                None => {
                    self.world()
                        .typed
                        .push((Instant::now(), channel.to_owned()));
                    Answer::Json(204, String::new(), Value::Null)
                }
            },
            _ => match self.held(key) {
                Some(refused) => refused,
                None => self.message_in(channel, key, body, first_byte),
            },
        }
    }

    /// A request that comes before its time breaks a rule; one too many over all is refused.
    fn held(&self, key: &str) -> Option<Answer> {
        let now = Instant::now();
        let mut world = self.world();
        if world.limit_all {
            let old = |at: &Instant| now.duration_since(*at) >= Duration::from_secs(1);
            while world.requests.front().is_some_and(old) {
                world.requests.pop_front();
            }
            if let (true, Some(first)) = (world.requests.len() >= 50, world.requests.front()) {
                let left = Duration::from_secs(1) - now.duration_since(*first);
                drop(world);
                return Some(self.limit(key, left.as_secs_f64(), true));
            }
            world.requests.push_back(now);
        }
        let holds = ["global", key].map(|key| world.held.get(key).copied());
        let (since, until) = holds
            .into_iter()
            .flatten()
            .max_by_key(|(_, until)| *until)?;
        let left = until.saturating_duration_since(now);
        if left.is_zero() {
            return None;
        }
        // What was on its way when a limit for everything was told could not know of it.
        let own = world.held.get(key).is_some_and(|(_, own)| *own == until);
        if own || now.duration_since(since) > ON_ITS_WAY {
            world.note(format!("{key}: asked {left:?} before its time"));
        }
        drop(world);
        Some(self.limit(key, left.as_secs_f64(), false))
    }

    fn message_in(&self, channel: &str, key: &str, body: &Value, first_byte: Instant) -> Answer {
        let mut world = self.world();
        let text = body["content"].as_str().unwrap_or_default();
        let length = text.chars().count();
        let fences = text.lines().filter(|line| line.trim().starts_with("```"));
        for (broken, what) in [
            (length > 2000, "longer than 2000 characters"),
            (text.trim().is_empty(), "empty"),
            (
                fences.count() % 2 == 1,
                "a block of code is open at its end",
            ),
            (
                body["allowed_mentions"] != json!({"parse": []}),
                "allowed_mentions",
            ),
            (body["enforce_nonce"] != json!(true), "enforce_nonce"),
            (
                !body["nonce"]
                    .as_str()
                    .is_some_and(|nonce| (1..=25).contains(&nonce.len())),
                "nonce",
            ),
        ] {
            if broken {
                world.note(format!("message to {channel}: {what}: {body}"));
            }
        }
        if length > 2000 || text.trim().is_empty() {
            return refuse(400, 50035, "Invalid Form Body");
        }
        let now = Instant::now();
        let mut fields = String::new();
        if let Some((most, span)) = world.bucket {
            let taken = world.taken.entry(key.to_owned()).or_default();
            taken.retain(|at| now.duration_since(*at) < span);
            let reset = taken
                .first()
                .map_or(span, |first| span - now.duration_since(*first));
            if taken.len() >= most {
                world.note(format!("{key}: over its limit"));
                drop(world);
                return self.limit(key, reset.as_secs_f64(), false);
            }
            taken.push(now);
            let left = most - taken.len();
            if left == 0 {
                world.held.insert(key.to_owned(), (now, now + reset));
            }
            fields = format!(
                "X-RateLimit-Bucket: b1\r\nX-RateLimit-Limit: {most}\r\nX-RateLimit-Remaining: {left}\r\nX-RateLimit-Reset-After: {:.3}\r\n",
                // Rounded up: what is told must not be too little.
                reset.as_secs_f64() + 0.001
            );
        }
        let nonce = body["nonce"].as_str().unwrap_or_default().to_owned();
        if let Some(known) = world.nonces.get(&nonce) {
            return Answer::Json(200, fields, known.clone());
        }
        world.next_id += 1;
        let message = json!({"id": world.next_id.to_string(), "channel_id": channel, "type": 0,
            "author": person(BOT), "content": text, "mentions": [], "attachments": [], "embeds": []});
        world.nonces.insert(nonce, message.clone());
        let sent = Sent {
            at: now,
            first_byte,
            channel: channel.to_owned(),
            text: text.to_owned(),
            reply_to: body["message_reference"]["message_id"]
                .as_str()
                .map(str::to_owned),
        };
        if let Some(follower) = world.followers.get(channel) {
            // A follower that has left is no fault.
            let _ = follower.send(sent.clone());
        }
        if !world.follow_only {
            world.sent.push(sent);
        }
        // What the bot says comes back to it.
        world.happen("MESSAGE_CREATE", &message);
        drop(world);
        self.happened();
        Answer::Json(200, fields, message)
    }
}
