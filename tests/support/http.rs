//! The least of HTTP/1.1 that the peers and the clients of the tests and of the bench need, on std alone.
//! One thread for each connection. It must never be the bottleneck of what it measures: one read
//! buffer, one write for each message, no allocation that a message does not need.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// No message of a test is larger; a peer that sends more has a mistake.
const BODY_MOST: usize = 8 * 1024 * 1024;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// When its first byte was seen.
    pub first_byte: Instant,
    /// Request line and fields, as sent.
    pub head: String,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Request {
    /// `POST`, `GET`...
    pub fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or("")
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("")
    }

    /// The value of a field, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A response as it came.
#[derive(Clone, Debug)]
pub struct Response {
    /// Just before the first byte of the request was written.
    pub sent: Instant,
    /// The status code.
    pub status: u16,
    /// Status line and fields, as sent.
    pub head: String,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a field, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Head and body of one message; `None` when the peer closed before its first byte.
pub(super) fn read_message(
    reader: &mut BufReader<TcpStream>,
) -> io::Result<Option<(Instant, String, Vec<u8>)>> {
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let first_byte = Instant::now();
    let mut head = String::with_capacity(512);
    loop {
        let before = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if head[before..].trim_end().is_empty() {
            break;
        }
    }
    let mut body = Vec::new();
    if field(&head, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        read_chunks(reader, &mut body)?;
    } else if let Some(length) = field(&head, "content-length") {
        let length: usize = length.parse().map_err(io::Error::other)?;
        if length > BODY_MOST {
            return Err(io::Error::other("body too large for the rig"));
        }
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else if head.starts_with("HTTP/") && field(&head, "connection") == Some("close") {
        reader.take(BODY_MOST as u64).read_to_end(&mut body)?;
    }
    Ok(Some((first_byte, head, body)))
}

fn read_chunks(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        if body.len() + size > BODY_MOST {
            return Err(io::Error::other("body too large for the rig"));
        }
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..])?;
        line.clear();
        reader.read_line(&mut line)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// What a handler has its server do.
#[derive(Clone, Debug)]
pub enum Reply {
    /// An honest response: status, content type, further field lines (each ending in CR LF), body.
    Send(u16, &'static str, String, Vec<u8>),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, then the same block again and again until the peer has had enough.
    Endless(Vec<u8>),
    /// These bytes one at a time with a pause before each, until the peer has had enough.
    Drip(Vec<u8>, Duration),
    /// Nothing, until the peer leaves or the server goes.
    Hang,
    /// Nothing, and the end of the connection.
    Close,
}

impl Reply {
    /// A JSON response.
    pub fn json(status: u16, body: &Value) -> Reply {
        Reply::Send(
            status,
            "application/json",
            String::new(),
            body.to_string().into_bytes(),
        )
    }

    /// A response without body.
    pub fn status(status: u16) -> Reply {
        Reply::Send(status, "text/plain", String::new(), Vec::new())
    }
}

/// A server on a loopback port of its own. Ends with its value; what hangs is cut then.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts to serve on `bind` (port 0: any).
    pub fn start(bind: &str, handler: impl Fn(Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(bind).expect("bind a loopback port for a test peer");
        let addr = listener.local_addr().expect("address of a test peer");
        let stop = Arc::new(AtomicBool::new(false));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (stopped, kept) = (stop.clone(), streams.clone());
        let handler = Arc::new(handler);
        let accepting = thread::Builder::new()
            .name("peer".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if stopped.load(Ordering::SeqCst) {
                        break;
                    }
                    let Ok(stream) = stream else { continue };
                    let _ = stream.set_nodelay(true);
                    if let Ok(copy) = stream.try_clone() {
                        kept.lock().expect("peers").push(copy);
                    }
                    let (handler, stopped) = (handler.clone(), stopped.clone());
                    thread::Builder::new()
                        .name("peer-conn".into())
                        .stack_size(256 * 1024)
                        .spawn(move || {
                            // A peer that leaves in the middle is no fault of the test.
                            let _ = converse(stream, &*handler, &stopped);
                        })
                        .expect("start a connection thread");
                }
            })
            .expect("start a peer thread");
        Server {
            addr,
            stop,
            streams,
            accepting: Some(accepting),
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://ADDRESS`, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        for stream in self.streams.lock().expect("peers").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn converse(
    stream: TcpStream,
    handler: &(dyn Fn(Request) -> Reply + Send + Sync),
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(16 * 1024, stream);
    while let Some((first_byte, head, body)) = read_message(&mut reader)? {
        let reply = handler(Request {
            first_byte,
            head,
            body,
        });
        match reply {
            Reply::Send(status, kind, fields, body) => {
                let mut out = Vec::with_capacity(160 + fields.len() + body.len());
                write!(
                    out,
                    "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{fields}\r\n",
                    body.len()
                )?;
                out.extend_from_slice(&body);
                writer.write_all(&out)?;
            }
            Reply::Raw(bytes) => {
                writer.write_all(&bytes)?;
                break;
            }
            Reply::Endless(block) => {
                writer.set_write_timeout(Some(Duration::from_secs(10)))?;
                while !stop.load(Ordering::SeqCst) {
                    writer.write_all(&block)?;
                }
                break;
            }
            Reply::Drip(bytes, pause) => {
                for byte in bytes {
                    thread::sleep(pause);
                    writer.write_all(&[byte])?;
                }
                break;
            }
            Reply::Hang => {
                // Ends when the peer leaves: the test must not need it to.
                while !reader.fill_buf()?.is_empty() {
                    let length = reader.buffer().len();
                    reader.consume(length);
                }
                break;
            }
            Reply::Close => break,
        }
    }
    // The copy kept for the server's end would hold the connection open.
    writer.shutdown(Shutdown::Both)
}

/// A keep-alive client of one address.
#[derive(Debug)]
pub struct Client {
    addr: SocketAddr,
    wait: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Connects when first used; no answer is waited for longer than `wait`.
    pub fn new(addr: SocketAddr, wait: Duration) -> Client {
        Client {
            addr,
            wait,
            stream: None,
        }
    }

    /// Sends `bytes`, one whole request or a piece of one, without reading.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Instant> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.addr, Duration::from_secs(5))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.wait))?;
            stream.set_write_timeout(Some(Duration::from_secs(10)))?;
            self.stream = Some(BufReader::with_capacity(16 * 1024, stream));
        }
        let stream = self.stream.as_mut().expect("connected above");
        let sent = Instant::now();
        stream.get_mut().write_all(bytes)?;
        Ok(sent)
    }

    /// Reads one response; `None` when the server closed without one.
    pub fn read(&mut self, sent: Instant) -> io::Result<Option<Response>> {
        let Some(stream) = self.stream.as_mut() else {
            return Ok(None);
        };
        let Some((_, head, body)) = read_message(stream)? else {
            self.stream = None;
            return Ok(None);
        };
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0);
        if field(&head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            self.stream = None;
        }
        Ok(Some(Response {
            sent,
            status,
            head,
            body,
        }))
    }

    /// One request, one response. After an error the next call connects anew.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<Response> {
        let answer = self.write(bytes).and_then(|sent| self.read(sent));
        match answer {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => {
                self.stream = None;
                Err(error)
            }
        }
    }

    /// Leaves.
    pub fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.get_ref().shutdown(Shutdown::Both);
        }
    }

    /// Whether a connection is open, as far as this side knows.
    pub fn connected(&self) -> bool {
        self.stream.is_some()
    }
}

/// The bytes of a request with a body and a right `Content-Length`.
pub fn request(
    method: &str,
    target: &str,
    host: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + body.len());
    let _ = write!(out, "{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in fields {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}
