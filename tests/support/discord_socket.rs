//! The gateway of the loopback Discord: one connection, from Hello to its end. It checks each thing
//! that the client says against the rules of the platform.

use std::collections::VecDeque;
use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::{json, Value};
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::CloseFrame;
use tungstenite::{Error, Message, WebSocket};

use super::discord::{person, At, Do, Known, Shared, Stream, BOT, TOKEN};

/// How often a connection looks at what there is to say; it is woken for what has just happened.
const TICK: Duration = Duration::from_millis(5);
/// How long it listens to a client that has begun to speak.
const LISTEN: Duration = Duration::from_millis(1);
/// How late a heartbeat may be on a busy machine.
const LATE: Duration = Duration::from_secs(5);

/// A look that comes so late shows that the machine stood still.
const STALL: Duration = Duration::from_secs(1);

/// The connection and what has been said on it.
struct Line<'a> {
    shared: &'a Shared,
    socket: WebSocket<Stream>,
    number: usize,
    /// Whether it was opened at the address for resuming.
    resuming: bool,
    /// The session that it carries, and the last number that was said in it.
    session: Option<(String, u64)>,
    said: VecDeque<Instant>,
    beat: Instant,
    interval: Duration,
    /// Nothing is said or heard any more.
    hung: bool,
}

/// Serves one connection.
pub fn converse(shared: &Arc<Shared>, stream: Stream, number: usize) {
    let mut query = String::new();
    let mut path = String::new();
    let dead = shared.world().resume_dead;
    #[expect(clippy::result_large_err, reason = "what tungstenite asks for")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        query = request.uri().query().unwrap_or_default().to_owned();
        path = request.uri().path().to_owned();
        if dead && path.starts_with("/resume") {
            let mut refused = ErrorResponse::new(None);
            *refused.status_mut() = tungstenite::http::StatusCode::SERVICE_UNAVAILABLE;
            return Err(refused);
        }
        Ok(response)
    };
    let Ok(socket) = tungstenite::accept_hdr(stream, look) else {
        return;
    };
    let _ = socket.get_ref().tcp().set_read_timeout(Some(LISTEN));
    let interval = {
        let mut world = shared.world();
        if query != "v=10&encoding=json" {
            world.note(format!("gateway asked with {query}"));
        }
        world.interval
    };
    let mut line = Line {
        shared,
        socket,
        number,
        resuming: path.starts_with("/resume"),
        session: None,
        said: VecDeque::new(),
        beat: Instant::now(),
        interval,
        hung: false,
    };
    line.serve();
    let mut world = shared.world();
    if world.line == Some(number) {
        world.line = None;
    }
    drop(world);
    shared.changed.notify_all();
}

impl Line<'_> {
    fn serve(&mut self) {
        let ms = u64::try_from(self.interval.as_millis()).expect("ms");
        let hello = json!({"op": 10, "d": {"heartbeat_interval": ms}}).to_string();
        if !self.step(At::Connect, |line| line.say(&hello)) {
            return;
        }
        let mut looked = Instant::now();
        while !self.shared.stop.load(Ordering::SeqCst) {
            let late = looked.elapsed().saturating_sub(STALL);
            // While the whole machine stands still nobody's heart beats.
            self.beat += late;
            looked = Instant::now();
            if self.wait() && !self.listen() {
                return;
            }
            if !self.hung && !self.obey() {
                return;
            }
        }
    }

    /// Waits for the client or for something to happen, for a tick at most; whether the client has
    /// to be listened to.
    fn wait(&self) -> bool {
        let (client, wake) = (self.socket.get_ref(), &self.shared.wake.1);
        let mut ready = [
            PollFd::new(client.tcp(), PollFlags::IN),
            PollFd::new(wake, PollFlags::IN),
        ];
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.subsec_nanos().into(),
        };
        let _ = poll(&mut ready, Some(&tick));
        let [client_ready, woken] = ready.map(|one| !one.revents().is_empty());
        if woken {
            let _ = (&*wake).read(&mut [0; 4096]);
        }
        // Behind TLS more may have been read than was asked for.
        client_ready || matches!(client, Stream::Tls(_))
    }

    /// Hears the client out; whether the connection goes on.
    fn listen(&mut self) -> bool {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) if !self.hung => {
                    if !self.heard(&text) {
                        return false;
                    }
                }
                Ok(Message::Close(frame)) => {
                    self.closed(frame);
                    return false;
                }
                Ok(_) => {}
                Err(Error::Io(error)) => {
                    return matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    )
                }
                Err(_) => return false,
            }
        }
    }

    /// What stands to be done: an order, new events, a heart that has stopped.
    fn obey(&mut self) -> bool {
        let live = self.shared.world().line == Some(self.number);
        if live {
            let order = self.shared.world().order.take();
            if let Some(order) = order {
                return self.perform(order);
            }
            while let Some(text) = self.next_news() {
                self.say(&text);
                if !self.step(At::Dispatch, |_| ()) {
                    return false;
                }
                if self.hung {
                    return true;
                }
            }
        }
        if self.session.is_some() && self.beat.elapsed() > self.interval + LATE {
            let mut world = self.shared.world();
            world.note("no heartbeat in time");
            self.beat = Instant::now();
        }
        true
    }

    /// Does what is due, unless the script says otherwise; whether the connection goes on.
    fn step(&mut self, at: At, due: impl FnOnce(&mut Self)) -> bool {
        let nth = {
            let mut world = self.shared.world();
            let count = world.counts.entry(at).or_default();
            *count += 1;
            *count
        };
        self.shared.changed.notify_all();
        let script = self.shared.socket_script.lock().expect("script");
        let instead = script(at, nth);
        drop(script);
        match instead {
            Some(instead) => self.perform(instead),
            None => {
                due(self);
                true
            }
        }
    }

    fn perform(&mut self, order: Do) -> bool {
        match order {
            Do::Close(code) => {
                self.close(code);
                return false;
            }
            Do::Cut => {
                let _ = self.socket.get_ref().tcp().shutdown(Shutdown::Both);
                return false;
            }
            Do::Hang => {
                self.hung = true;
                let mut world = self.shared.world();
                if world.line == Some(self.number) {
                    world.line = None;
                }
            }
            Do::Invalid(resumable) => {
                if let (false, Some((id, _))) = (resumable, &self.session) {
                    let id = id.clone();
                    self.forget(&id);
                }
                self.say(&json!({"op": 9, "d": resumable}).to_string());
            }
            Do::Text(text) => self.say(&text),
        }
        true
    }

    fn say(&mut self, text: &str) {
        // A client that is gone is seen by the next read.
        let _ = self.socket.send(Message::text(text));
    }

    fn close(&mut self, code: u16) {
        let frame = CloseFrame {
            code: code.into(),
            reason: "by the test".into(),
        };
        let _ = self.socket.close(Some(frame));
        let _ = self.socket.flush();
        // The client's own goodbye is read, so that no reset eats ours.
        let _ = self
            .socket
            .get_ref()
            .tcp()
            .set_read_timeout(Some(Duration::from_secs(1)));
        while self.socket.read().is_ok() {}
    }

    fn closed(&mut self, frame: Option<CloseFrame>) {
        let code = frame.map_or(1005, |frame| frame.code.into());
        let mut world = self.shared.world();
        world.closes.push(code);
        drop(world);
        if let (1000 | 1001, Some((id, _))) = (code, self.session.clone()) {
            self.forget(&id);
        }
        let _ = self.socket.flush();
        self.shared.changed.notify_all();
    }

    fn forget(&self, id: &str) {
        if let Some(session) = self.shared.world().sessions.get_mut(id) {
            session.open = false;
        }
    }

    fn note(&self, note: &str) {
        self.shared.world().note(note);
    }

    fn heard(&mut self, text: &str) -> bool {
        let now = Instant::now();
        self.said.push_back(now);
        self.said
            .retain(|at| now.duration_since(*at) < Duration::from_secs(60));
        if self.said.len() > 120 {
            self.note("more than 120 things said within a minute");
            self.close(4008);
            return false;
        }
        let Ok(payload) = serde_json::from_str::<Value>(text) else {
            self.note("no JSON");
            self.close(4002);
            return false;
        };
        match payload["op"].as_u64() {
            Some(1) => self.beaten(&payload["d"]),
            Some(2) => self.identify(&payload["d"]),
            Some(6) => self.resume(&payload["d"]),
            op => {
                self.note(&format!("opcode {op:?}"));
                self.close(4001);
                false
            }
        }
    }

    fn beaten(&mut self, seq: &Value) -> bool {
        self.beat = Instant::now();
        let last = self.session.as_ref().map(|(_, last)| *last);
        match (seq.as_u64(), last) {
            (Some(seq), Some(last)) if seq > last => {
                self.note(&format!("heartbeat with {seq}, only {last} was said"));
            }
            (None, Some(last)) if last > 1 => self.note("heartbeat without a number"),
            _ => {}
        }
        self.shared.world().beats += 1;
        self.taken(seq.as_u64());
        self.step(At::Heartbeat, |line| {
            line.say(&json!({"op": 11}).to_string())
        })
    }

    /// The client has told how far it has taken what was said.
    fn taken(&self, seq: Option<u64>) {
        let mut world = self.shared.world();
        let known = self.session.as_ref().map(|(id, _)| id);
        let known = known.and_then(|id| world.sessions.get_mut(id));
        if let (Some(known), Some(seq)) = (known, seq) {
            known.taken = known.taken.max(seq);
        }
    }

    /// Whether the greeting is one that this connection may have.
    fn greeted(&mut self, data: &Value) -> bool {
        if self.session.is_some() {
            self.note("greeted twice");
            self.close(4005);
            return false;
        }
        if data["token"] != TOKEN {
            self.close(4004);
            return false;
        }
        true
    }

    fn identify(&mut self, data: &Value) -> bool {
        if !self.greeted(data) {
            return false;
        }
        let now = Instant::now();
        let too_soon = {
            let mut world = self.shared.world();
            if data["intents"] != json!(37377) {
                world.note(format!("intents {}", data["intents"]));
            }
            if !data["properties"]["os"].is_string() {
                world.note("identify without properties");
            }
            if self.resuming {
                world.note("identify at the address for resuming");
            }
            if world.starts_left == 0 {
                world.note("identify without a budget");
            }
            let last = world.identifies.last().copied();
            let too_soon =
                last.is_some_and(|last| now.duration_since(last) < Duration::from_millis(4900));
            if too_soon && !world.newborn {
                world.note("two identifies within five seconds");
            }
            world.newborn = false;
            world.identifies.push(now);
            world.starts_left = world.starts_left.saturating_sub(1);
            too_soon
        };
        if too_soon {
            self.say(&json!({"op": 9, "d": false}).to_string());
            return true;
        }
        self.step(At::Identify, Self::ready)
    }

    fn ready(&mut self) {
        let mut world = self.shared.world();
        let id = format!("session-{}", world.sessions.len() + 1);
        let ready = json!({"t": "READY", "s": 1, "op": 0, "d": {"v": 10, "user": person(BOT), "guilds": [],
            "session_id": id, "resume_gateway_url": self.shared.resume_url(), "application": {"id": BOT, "flags": 1 << 19}}});
        world.sessions.insert(
            id.clone(),
            Known {
                open: true,
                ..Known::default()
            },
        );
        drop(world);
        self.say(&ready.to_string());
        self.session = Some((id.clone(), 1));
        self.live(id);
    }

    fn live(&mut self, id: String) {
        let mut world = self.shared.world();
        world.live = Some(id);
        world.line = Some(self.number);
        drop(world);
        self.shared.changed.notify_all();
    }

    fn resume(&mut self, data: &Value) -> bool {
        if !self.greeted(data) {
            return false;
        }
        let id = data["session_id"].as_str().unwrap_or_default().to_owned();
        let seq = data["seq"].as_u64().unwrap_or(u64::MAX);
        let last = {
            let world = self.shared.world();
            let session = world.sessions.get(&id).filter(|session| session.open);
            session.map(|session| session.events.keys().last().copied().unwrap_or(1))
        };
        let due = move |line: &mut Self| match last {
            None => line.say(&json!({"op": 9, "d": false}).to_string()),
            Some(last) if seq > last => {
                line.note(&format!("resumed with {seq}, only {last} was said"));
                line.close(4007);
            }
            Some(_) => {
                line.shared.world().resumes.push(seq);
                line.session = Some((id.clone(), seq));
                line.taken(Some(seq));
                while let Some(text) = line.next_news() {
                    line.say(&text);
                }
                let done = json!({"t": "RESUMED", "s": Value::Null, "op": 0, "d": {}});
                line.say(&done.to_string());
                line.live(id);
            }
        };
        self.step(At::Resume, due)
    }

    /// What happened next, to be said now.
    fn next_news(&mut self) -> Option<String> {
        let (id, last) = self.session.as_mut()?;
        let mut world = self.shared.world();
        let mut news = world.sessions.get(id)?.events.range(*last + 1..);
        let (seq, text) = news.next()?;
        *last = *seq;
        let text = text.clone();
        if text.contains("MESSAGE_CREATE") && !text.contains("\"bot\":true") {
            world.handed = Some(Instant::now());
        }
        Some(text)
    }
}
