//! A strict Telegram on loopback: one bot, its updates and what is sent to it, over plain sockets. It
//! holds to the rules of the Bot API and notes every rule that its client breaks; the test fails by
//! them when the peer goes. Faults are keyed to the steps of the protocol ("the third getUpdates").

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::flood::Flood;
use super::http::read_message;
use super::telegram_text::{units, visible};

/// The token of every bot.
pub const TOKEN: &str = "987654321:AAtests-Token_of-the-tests-0123456789";
/// The id of every bot.
pub const BOT: i64 = 987_654_321;
/// Its name.
pub const BOT_NAME: &str = "korvun_test_bot";

/// What is done to one call in place of an honest answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An error of Telegram's own.
    Refuse(u16, &'static str, Value),
    /// A page of something in between.
    Html(u16),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// The end of the connection, without an answer.
    Close,
    /// The call is done, its answer is lost.
    LoseAnswer,
    /// Nothing, for as long as the client stays: the connection is half open.
    Hang,
    /// An answer to `getUpdates` with these bytes as its updates.
    Updates(String),
    /// An honest answer after this time.
    Late(Duration),
}

impl Fault {
    /// A flood limit.
    pub fn flood(seconds: u64) -> Fault {
        Fault::Refuse(
            429,
            "Too Many Requests: retry later",
            json!({ "retry_after": seconds }),
        )
    }

    /// Another poller.
    pub fn conflict() -> Fault {
        Fault::Refuse(
            409,
            "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            Value::Null,
        )
    }
}

/// One call as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    pub params: Value,
    /// Which connection it came on.
    pub connection: usize,
}

/// One message as people see it.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Instant,
    /// When the first byte of its request was seen.
    pub first_byte: Instant,
    pub chat: i64,
    pub topic: Option<i64>,
    pub text: String,
    pub reply_to: Option<i64>,
    /// Whether it had markup.
    pub html: Option<String>,
    /// Whether its confirmation was kept from the client.
    pub lost: bool,
    id: i64,
}

type Script = dyn Fn(&str, usize, &Value) -> Option<Fault> + Send + Sync;

#[derive(Default)]
struct World {
    updates: BTreeMap<i64, Value>,
    next_update: i64,
    next_message: i64,
    /// The connection whose poll is open.
    polling: Option<usize>,
    webhook: bool,
    seen: Vec<Seen>,
    counts: BTreeMap<String, usize>,
    sent: Vec<Sent>,
    broken: Vec<String>,
    /// No call of that method (and chat) before that moment.
    held: BTreeMap<(String, Option<i64>), Instant>,
    expected: Vec<&'static str>,
    /// Connections that are open.
    open: usize,
    /// The limits of chats and of the whole bot; none: any number of messages.
    flood: Option<Flood>,
    refused: usize,
    /// Just before the last answer to a poll that brought something was written.
    handed: Option<Instant>,
    followers: BTreeMap<i64, Sender<Sent>>,
    /// Whether calls and messages are kept at all; the bench only follows them.
    follow_only: bool,
}

/// Whose call it is.
struct Caller<'a> {
    connection: usize,
    stream: &'a TcpStream,
    first_byte: Instant,
}

struct Shared {
    world: Mutex<World>,
    changed: Condvar,
    script: Mutex<Box<Script>>,
    stop: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// The peer; ends with its value, and fails the test by every rule that was broken.
pub struct Telegram {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Telegram {
    /// An honest one.
    pub fn start() -> Telegram {
        Telegram::scripted(|_, _, _| None)
    }

    /// One that does what `script` says to a call: its method, which one of that method it is (from
    /// 1), its parameters.
    pub fn scripted(
        script: impl Fn(&str, usize, &Value) -> Option<Fault> + Send + Sync + 'static,
    ) -> Telegram {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            world: Mutex::new(World {
                next_update: 700_000_001,
                next_message: 5000,
                ..World::default()
            }),
            changed: Condvar::new(),
            script: Mutex::new(Box::new(script)),
            stop: AtomicBool::new(false),
            streams: Mutex::default(),
        });
        let theirs = shared.clone();
        let accepting = thread::Builder::new()
            .name("telegram".into())
            .spawn(move || accept(&listener, &theirs))
            .expect("start the peer");
        Telegram {
            addr,
            shared,
            accepting: Some(accepting),
        }
    }

    /// Its root, for `base_url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }

    /// Changes the script.
    pub fn script(
        &self,
        script: impl Fn(&str, usize, &Value) -> Option<Fault> + Send + Sync + 'static,
    ) {
        *self.shared.script.lock().expect("script") = Box::new(script);
    }

    /// From now on flood limits are kept as Telegram does.
    pub fn limit_floods(&self) {
        self.world().flood = Some(Flood::of_telegram(Instant::now()));
    }

    /// How many messages were refused by them.
    pub fn refused(&self) -> usize {
        self.world().refused
    }

    /// From now on the messages to a chat go to this receiver too.
    pub fn follow(&self, chat: i64) -> Receiver<Sent> {
        let (sender, receiver) = mpsc::channel();
        self.world().followers.insert(chat, sender);
        receiver
    }

    /// From now on nothing is kept but for followers, and nobody who waits is woken.
    pub fn keep_nothing(&self) {
        self.world().follow_only = true;
    }

    /// Just before the last poll that brought something was answered.
    pub fn handed(&self) -> Option<Instant> {
        self.world().handed
    }

    /// Breaking a rule whose note has these words is what the test is about.
    pub fn expect_broken(&self, words: &'static str) {
        self.world().expected.push(words);
    }

    /// A webhook is set from now on: polls are refused until it is deleted.
    pub fn set_webhook(&self) {
        self.world().webhook = true;
    }

    /// The numbers of updates go on from here.
    pub fn number_from(&self, update: i64) {
        self.world().next_update = update;
    }

    /// An update of any content; its number.
    pub fn update(&self, mut update: Value) -> i64 {
        let mut world = self.world();
        let id = world.next_update;
        world.next_update += 1;
        update["update_id"] = json!(id);
        world.updates.insert(id, update);
        drop(world);
        self.shared.changed.notify_all();
        id
    }

    /// A message of any content; its number as an update. Id and date are filled in.
    pub fn message(&self, mut message: Value) -> i64 {
        let id = {
            let mut world = self.world();
            world.next_message += 1;
            world.next_message
        };
        if message["message_id"].is_null() {
            message["message_id"] = json!(id);
        }
        message["date"] = json!(1_790_000_000);
        self.update(json!({ "message": message }))
    }

    /// A person says something to the bot in private; the chat's id is the person's.
    pub fn say(&self, person: i64, text: &str) -> i64 {
        self.message(json!({
            "from": person_of(person),
            "chat": {"id": person, "type": "private", "first_name": "Ana"},
            "text": text,
        }))
    }

    /// Every call so far of that method.
    pub fn seen(&self, method: &str) -> Vec<Seen> {
        let world = self.world();
        world
            .seen
            .iter()
            .filter(|seen| seen.method == method)
            .cloned()
            .collect()
    }

    /// Every message so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.world().sent.clone()
    }

    /// The texts sent to a chat so far.
    pub fn texts(&self, chat: i64) -> Vec<String> {
        let world = self.world();
        let own = world.sent.iter().filter(|sent| sent.chat == chat);
        own.map(|sent| sent.text.clone()).collect()
    }

    /// Updates that nobody has acknowledged.
    pub fn pending(&self) -> usize {
        self.world().updates.len()
    }

    /// Waits until `count` messages are there.
    pub fn wait_for_sent(&self, count: usize, most: Duration) -> Vec<Sent> {
        self.wait_until("messages", most, |world| {
            (world.sent.len() >= count).then(|| world.sent.clone())
        })
    }

    /// Waits until `count` calls of that method have come.
    pub fn wait_for_calls(&self, method: &str, count: usize, most: Duration) {
        self.wait_until(method, most, |world| {
            (world.counts.get(method).copied().unwrap_or(0) >= count).then_some(())
        });
    }

    /// The client was killed, or stopped: what it was told goes with it, and its last requests are
    /// read to their end.
    pub fn client_gone(&self, most: Duration) {
        self.wait_until("end of all connections", most, |world| {
            (world.open == 0).then_some(())
        });
        self.world().held.clear();
    }

    /// Waits until every update is acknowledged.
    pub fn wait_for_acknowledged(&self, most: Duration) {
        self.wait_until("acknowledgements", most, |world| {
            world.updates.is_empty().then_some(())
        });
    }

    fn wait_until<T>(&self, what: &str, most: Duration, look: impl Fn(&World) -> Option<T>) -> T {
        let until = Instant::now() + most;
        let mut world = self.world();
        loop {
            if let Some(found) = look(&world) {
                return found;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "no {what} after {most:?}; sent {:#?}, broken {:?}, calls {:?}",
                world.sent,
                world.broken,
                world.counts
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

/// A person as Telegram tells of one.
pub fn person_of(id: i64) -> Value {
    json!({"id": id, "is_bot": false, "first_name": "Ana", "last_name": "García", "language_code": "es"})
}

impl Drop for Telegram {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.changed.notify_all();
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        for stream in self.shared.streams.lock().expect("streams").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if thread::panicking() {
            return;
        }
        let world = self.world();
        let expected = |note: &String| world.expected.iter().any(|words| note.contains(words));
        let broken: Vec<String> = world
            .broken
            .iter()
            .filter(|note| !expected(note))
            .cloned()
            .collect();
        drop(world);
        assert!(
            broken.is_empty(),
            "rules of the platform were broken: {broken:#?}"
        );
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let _ = stream.set_nodelay(true);
        if let Ok(copy) = stream.try_clone() {
            shared.streams.lock().expect("streams").push(copy);
        }
        let theirs = shared.clone();
        theirs.world().open += 1;
        thread::Builder::new()
            .name("telegram-conn".into())
            .stack_size(512 * 1024)
            .spawn(move || {
                // A client that leaves in the middle is no fault of the test.
                let _ = theirs.converse(stream, connection);
                let mut world = theirs.world();
                if world.polling == Some(connection) {
                    world.polling = None;
                }
                world.open -= 1;
                drop(world);
                theirs.changed.notify_all();
            })
            .expect("start a connection thread");
    }
}

/// An answer, or none and the end of the connection.
enum Answer {
    Json(u16, Value),
    Bytes(Vec<u8>),
    End,
}

fn refuse(status: u16, description: &str, parameters: &Value) -> Answer {
    let mut body = json!({"ok": false, "error_code": status, "description": description});
    if !parameters.is_null() {
        body["parameters"] = parameters.clone();
    }
    Answer::Json(status, body)
}

fn done(result: &Value) -> Answer {
    Answer::Json(200, json!({"ok": true, "result": result}))
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("world")
    }

    fn converse(&self, stream: TcpStream, connection: usize) -> std::io::Result<()> {
        let mut writer = stream.try_clone()?;
        let watched = stream.try_clone()?;
        let mut reader = BufReader::with_capacity(16 * 1024, stream);
        while let Some((at, head, body)) = read_message(&mut reader)? {
            let caller = Caller {
                connection,
                stream: &watched,
                first_byte: at,
            };
            let answer = self.answer(&head, &body, &caller);
            match answer {
                Answer::Json(status, body) => {
                    let brings = body["result"].as_array().is_some_and(|all| !all.is_empty());
                    let body = body.to_string();
                    // One write: in pieces it would reach the client in pieces.
                    let answer = format!(
                        "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    if brings {
                        self.world().handed = Some(Instant::now());
                    }
                    writer.write_all(answer.as_bytes())?;
                }
                Answer::Bytes(bytes) => {
                    writer.write_all(&bytes)?;
                    break;
                }
                Answer::End => break,
            }
        }
        writer.shutdown(Shutdown::Both)
    }

    fn answer(&self, head: &str, body: &[u8], caller: &Caller<'_>) -> Answer {
        let mut words = head.split(' ');
        let (verb, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let Some((token, method)) = path
            .strip_prefix("/bot")
            .and_then(|rest| rest.split_once('/'))
        else {
            return refuse(404, "Not Found", &Value::Null);
        };
        if token != TOKEN {
            return match token.split_once(':') {
                Some((id, _)) if id.bytes().all(|byte| byte.is_ascii_digit()) => {
                    refuse(401, "Unauthorized", &Value::Null)
                }
                _ => refuse(404, "Not Found", &Value::Null),
            };
        }
        let params: Value = serde_json::from_slice(body).unwrap_or_default();
        let nth = {
            let mut world = self.world();
            if verb != "POST"
                || !params.is_object()
                || !head
                    .to_lowercase()
                    .contains("content-type: application/json")
            {
                world
                    .broken
                    .push(format!("{verb} {method}: not a POST of a JSON object"));
            }
            if !world.follow_only {
                world.seen.push(Seen {
                    at: caller.first_byte,
                    method: method.to_owned(),
                    params: params.clone(),
                    connection: caller.connection,
                });
                self.changed.notify_all();
            }
            let count = world.counts.entry(method.to_owned()).or_default();
            *count += 1;
            let nth = *count;
            world.too_soon(method, &params);
            nth
        };
        let fault = (self.script.lock().expect("script"))(method, nth, &params);
        self.perform(method, &params, fault, caller)
    }

    fn perform(
        &self,
        method: &str,
        params: &Value,
        fault: Option<Fault>,
        caller: &Caller<'_>,
    ) -> Answer {
        match fault {
            None => self.honest(method, params, caller),
            Some(Fault::Late(span)) => {
                thread::sleep(span);
                self.honest(method, params, caller)
            }
            Some(Fault::Refuse(status, description, parameters)) => {
                if let Some(seconds) = parameters["retry_after"].as_u64() {
                    let until = Instant::now() + Duration::from_secs(seconds);
                    let key = (method.to_owned(), params["chat_id"].as_i64());
                    self.world().held.insert(key, until);
                }
                refuse(status, description, &parameters)
            }
            Some(Fault::Html(status)) => {
                let page = "<html><body><h1>Bad Gateway</h1></body></html>";
                Answer::Bytes(
                    format!("HTTP/1.1 {status} x\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}", page.len())
                        .into_bytes(),
                )
            }
            Some(Fault::Raw(bytes)) => Answer::Bytes(bytes),
            Some(Fault::Updates(updates)) => {
                let body = format!("{{\"ok\":true,\"result\":[{updates}]}}");
                Answer::Bytes(
                    format!("HTTP/1.1 200 x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                        .into_bytes(),
                )
            }
            Some(Fault::Close) => Answer::End,
            Some(Fault::LoseAnswer) => {
                if let Answer::Json(_, body) = self.honest(method, params, caller) {
                    let id = body["result"]["message_id"].as_i64();
                    let mut world = self.world();
                    let lost = world.sent.iter_mut().find(|sent| Some(sent.id) == id);
                    lost.into_iter().for_each(|sent| sent.lost = true);
                }
                Answer::End
            }
            Some(Fault::Hang) => {
                while !self.stop.load(Ordering::SeqCst) && !gone(caller.stream) {
                    thread::sleep(Duration::from_millis(5));
                }
                Answer::End
            }
        }
    }

    fn honest(&self, method: &str, params: &Value, caller: &Caller<'_>) -> Answer {
        match method {
            "getMe" => done(
                &json!({"id": BOT, "is_bot": true, "first_name": "Korvun", "username": BOT_NAME,
                "can_join_groups": true, "can_read_all_group_messages": false, "supports_inline_queries": false}),
            ),
            "deleteWebhook" => {
                let mut world = self.world();
                if params["drop_pending_updates"].as_bool() == Some(true) {
                    world
                        .broken
                        .push("deleteWebhook throws messages away".to_owned());
                }
                world.webhook = false;
                done(&json!(true))
            }
            "getWebhookInfo" => {
                let world = self.world();
                let url = if world.webhook {
                    "https://example.org/hook"
                } else {
                    ""
                };
                done(
                    &json!({"url": url, "has_custom_certificate": false, "pending_update_count": world.updates.len()}),
                )
            }
            "setMyCommands" => self.commands(params),
            "getUpdates" => self.poll(params, caller),
            "sendChatAction" => {
                let mut world = self.world();
                world.known(
                    "sendChatAction",
                    params,
                    &["chat_id", "action", "message_thread_id"],
                );
                match (params["chat_id"].as_i64(), params["action"].as_str()) {
                    (Some(_), Some("typing")) => done(&json!(true)),
                    _ => refuse(
                        400,
                        "Bad Request: wrong parameter action in request",
                        &Value::Null,
                    ),
                }
            }
            "sendMessage" => self.send(params, caller),
            _ => refuse(404, "Not Found: method not found", &Value::Null),
        }
    }

    fn commands(&self, params: &Value) -> Answer {
        let mut world = self.world();
        world.known(
            "setMyCommands",
            params,
            &["commands", "scope", "language_code"],
        );
        let commands = params["commands"].as_array().cloned().unwrap_or_default();
        let sound = commands.iter().all(|one| {
            let name = one["command"].as_str().unwrap_or("");
            let told = one["description"].as_str().unwrap_or("").chars().count();
            (1..=32).contains(&name.len())
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                && (1..=256).contains(&told)
        });
        if !sound || commands.len() > 100 {
            world
                .broken
                .push(format!("commands that are refused: {params}"));
            return refuse(400, "Bad Request: BOT_COMMAND_INVALID", &Value::Null);
        }
        done(&json!(true))
    }

    /// The long poll. Only one may be open; asking with an offset confirms all below it.
    fn poll(&self, params: &Value, caller: &Caller<'_>) -> Answer {
        let connection = caller.connection;
        let timeout = params["timeout"].as_u64().unwrap_or(0);
        let limit = params["limit"].as_u64().unwrap_or(100);
        let offset = params["offset"].as_i64();
        let mut world = self.world();
        world.known(
            "getUpdates",
            params,
            &["offset", "limit", "timeout", "allowed_updates"],
        );
        if timeout > 50 || !(1..=100).contains(&limit) || !params["allowed_updates"].is_array() {
            world
                .broken
                .push(format!("getUpdates out of bounds: {params}"));
        }
        if world.webhook {
            return refuse(409, "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first", &Value::Null);
        }
        if world.polling.is_some_and(|open| open != connection) {
            world
                .broken
                .push("a second poll while one is open".to_owned());
            let Fault::Refuse(status, text, none) = Fault::conflict() else {
                unreachable!()
            };
            return refuse(status, text, &none);
        }
        if let Some(offset) = offset {
            world.updates = world.updates.split_off(&offset);
            self.changed.notify_all();
        }
        world.polling = Some(connection);
        let until = Instant::now() + Duration::from_secs(timeout);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let over = left.is_zero() || self.stop.load(Ordering::SeqCst);
            if !world.updates.is_empty() || over {
                world.polling = None;
                let most = usize::try_from(limit).unwrap_or(100);
                let updates: Vec<&Value> = world.updates.values().take(most).collect();
                return done(&json!(updates));
            }
            let span = left.min(Duration::from_millis(20));
            world = self.changed.wait_timeout(world, span).expect("world").0;
            if gone(caller.stream) {
                world.polling = None;
                return Answer::End;
            }
        }
    }

    fn send(&self, params: &Value, caller: &Caller<'_>) -> Answer {
        let mut world = self.world();
        world.known(
            "sendMessage",
            params,
            &[
                "chat_id",
                "text",
                "parse_mode",
                "message_thread_id",
                "reply_parameters",
                "link_preview_options",
            ],
        );
        let text = params["text"].as_str().unwrap_or("");
        let html = params["parse_mode"].as_str();
        let read = match html {
            Some("HTML") => visible(text),
            None => Ok(text.to_owned()),
            Some(other) => Err(format!("unsupported parse_mode {other}")),
        };
        let seen = match read {
            Ok(seen) => seen,
            Err(why) => {
                world
                    .broken
                    .push(format!("can't parse entities: {why} in {text}"));
                return refuse(400, "Bad Request: can't parse entities", &Value::Null);
            }
        };
        let Some(chat) = params["chat_id"].as_i64() else {
            return refuse(400, "Bad Request: chat not found", &Value::Null);
        };
        if seen.trim().is_empty() {
            world.broken.push("a message without text".to_owned());
            return refuse(400, "Bad Request: message text is empty", &Value::Null);
        }
        if units(&seen) > 4096 {
            world
                .broken
                .push(format!("a message of {} units", units(&seen)));
            return refuse(400, "Bad Request: message is too long", &Value::Null);
        }
        let now = Instant::now();
        if let Some(seconds) = world.flood.as_mut().and_then(|flood| flood.take(chat, now)) {
            world.refused += 1;
            let key = ("sendMessage".to_owned(), Some(chat));
            world.held.insert(key, now + Duration::from_secs(seconds));
            return refuse(
                429,
                &format!("Too Many Requests: retry after {seconds}"),
                &json!({ "retry_after": seconds }),
            );
        }
        world.next_message += 1;
        let id = world.next_message;
        let sent = Sent {
            at: now,
            first_byte: caller.first_byte,
            chat,
            topic: params["message_thread_id"].as_i64(),
            text: seen.clone(),
            reply_to: params["reply_parameters"]["message_id"].as_i64(),
            html: html.map(|_| text.to_owned()),
            lost: false,
            id,
        };
        if let Some(follower) = world.followers.get(&chat) {
            // A follower that has left is no fault.
            let _ = follower.send(sent.clone());
        }
        if !world.follow_only {
            world.sent.push(sent);
            self.changed.notify_all();
        }
        drop(world);
        done(&json!({"message_id": id, "date": 1_790_000_000, "chat": {"id": chat}, "text": seen}))
    }
}

impl World {
    /// A call before the time that a flood limit named.
    fn too_soon(&mut self, method: &str, params: &Value) {
        let key = (method.to_owned(), params["chat_id"].as_i64());
        // A clock in the client is never exact to the last of a second's milliseconds.
        let early = self
            .held
            .get(&key)
            .is_some_and(|until| Instant::now() + Duration::from_millis(20) < *until);
        if early {
            self.broken
                .push(format!("{method} before its retry_after was over"));
        }
    }

    fn known(&mut self, method: &str, params: &Value, names: &[&str]) {
        let unknown = params
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str());
        for name in unknown.filter(|name| !names.contains(name)) {
            self.broken.push(format!("{method} with {name}"));
        }
    }
}

/// Whether the client has left.
fn gone(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let mut byte = [0];
    let left = match stream.peek(&mut byte) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    };
    let _ = stream.set_nonblocking(false);
    left
}
