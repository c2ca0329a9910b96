//! One WebSocket connection to a server, over a socket that is dialled by the shield's rules and over
//! our own TLS. Runs on the caller's thread; every wait has an end, every message a cap. It never
//! decides what a message means, and never dials again by itself.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::error::CapacityError;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{Error, HandshakeError, Message, WebSocket};

use super::call::{self, Pool};
use super::cancel::Cancel;
use super::error::HttpError;
use super::http::Wire;
use super::line::Socket as Plain;
use crate::base::clock::Deadline;
use crate::base::text::{prefix, printable};
use crate::domain::address::Shield;
use crate::domain::url::{Url, UrlError};

/// Bytes read at once; allocated for as long as the connection stands.
const READ_BYTES: usize = 8 * 1024;
/// Bytes that may wait to be written: what we say is small.
const WRITE_BYTES_MOST: usize = 1024 * 1024;
/// How long the other side may take nothing before the connection counts as broken.
const WRITE_WITHIN: Duration = Duration::from_secs(10);
/// How long a goodbye may take: nobody waits for its answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Bytes kept of the reason that the other side closes with (RFC 6455, section 5.5: 123 at most).
const REASON_BYTES: usize = 123;

/// A ws or wss address. Shows as a URL does.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Url);

impl Address {
    /// Takes a text apart; a query in it goes.
    ///
    /// # Errors
    /// As [`Url::parse`], where ws stands for http and wss for https.
    pub fn parse(text: &str) -> Result<Address, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let scheme = match scheme {
            scheme if scheme.eq_ignore_ascii_case("wss") => "https",
            scheme if scheme.eq_ignore_ascii_case("ws") => "http",
            _ => return Err(UrlError::Scheme),
        };
        let rest = rest.split('?').next().unwrap_or_default();
        Url::parse(&format!("{scheme}://{rest}")).map(Address)
    }

    /// Whether it is wss.
    #[must_use]
    pub fn secure(&self) -> bool {
        self.0.secure()
    }

    /// The whole text with that query.
    fn with_query(&self, query: &str) -> String {
        let url = self.0.to_wire();
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        format!("{}://{}?{query}", self.scheme(), rest)
    }

    fn scheme(&self) -> &'static str {
        if self.secure() {
            "wss"
        } else {
            "ws"
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.to_string();
        let rest = shown.split_once("://").map_or("", |(_, rest)| rest);
        write!(f, "{}://{rest}", self.scheme())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a connection is opened.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Where to. A plain one is dialled at private addresses only.
    pub address: &'a Address,
    /// The query of the request.
    pub query: &'a str,
    /// How the client names itself.
    pub user_agent: &'a str,
    /// When it is given up.
    pub deadline: Deadline,
    /// Gives the connection up, also later, from another thread.
    pub cancel: &'a Cancel,
    /// Bytes of the largest message that is taken.
    pub message_most: usize,
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// A message of text.
    Text(String),
    /// Something without a meaning here: a ping, a binary message.
    Other,
    /// Nothing until the time was up.
    Nothing,
    /// The connection is over.
    Closed(Closed),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The code that the other side gave; none where it said nothing.
    pub code: Option<u16>,
    /// In words for the operator.
    pub reason: String,
}

/// An open connection. Dropping it closes the socket without a goodbye.
pub struct Socket {
    inner: WebSocket<Stream>,
    cancel: Cancel,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.inner.get_ref().tcp().socket.stream.peer_addr().ok();
        f.debug_struct("Socket").field("peer", &peer).finish()
    }
}

/// Ends the wait of a [`Socket::read`] from another thread, for good, and leaves the connection whole,
/// so that a goodbye can still be said.
#[derive(Clone, Debug)]
pub struct Waker {
    stream: Weak<TcpStream>,
    woken: Arc<AtomicBool>,
}

impl Waker {
    /// Ends the wait, this one and each later one.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::SeqCst);
        if let Some(stream) = self.stream.upgrade() {
            // A socket that is gone already waits for nothing.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

/// A socket whose end of input is no end where a [`Waker`] has made it.
struct Tcp {
    socket: Plain,
    woken: Arc<AtomicBool>,
}

impl Read for Tcp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.socket.read(buffer) {
            Ok(0) if self.woken.load(Ordering::SeqCst) => Err(io::ErrorKind::TimedOut.into()),
            result => result,
        }
    }
}

impl Write for Tcp {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// The bytes below the frames.
enum Stream {
    Plain(Tcp),
    Tls(Box<StreamOwned<ClientConnection, Tcp>>),
}

impl Stream {
    fn socket(&mut self) -> &mut Plain {
        match self {
            Stream::Plain(tcp) => &mut tcp.socket,
            Stream::Tls(tls) => &mut tls.sock.socket,
        }
    }

    fn tcp(&self) -> &Tcp {
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

/// Dials, wraps in TLS where the address is wss, and upgrades.
///
/// Blocks: until `opening.deadline`, or until `opening.cancel` is raised; a TCP connect in progress
/// goes on for `limits.connect` at most.
///
/// # Errors
/// An [`HttpError`] by what can be done about it.
pub fn open(wire: &Wire, opening: &Opening<'_>) -> Result<Socket, HttpError> {
    let address = opening.address;
    dial(wire, opening).map_err(|error| error.during(&format!("connection to {address}")))
}

fn dial(wire: &Wire, opening: &Opening<'_>) -> Result<Socket, HttpError> {
    let url = &opening.address.0;
    let shield = match url.secure() {
        true => Shield::Open,
        false => Shield::Private,
    };
    let left = opening.deadline.left(wire.clock().now());
    let now = Instant::now();
    let connected_by = now + left.min(wire.limits().connect);
    let stream = {
        let _running = call::begin(opening.cancel, connected_by, Pool::Avoid);
        wire.shielded(shield)
            .connect(url.host(), url.port(), connected_by)?
    };
    opening.cancel.register(&stream);
    let until = now + left;
    let mut socket = Tcp {
        socket: Plain { stream, until },
        woken: Arc::default(),
    };
    let stream = if url.secure() {
        let tls = wire.tls().open(url.host(), &mut socket)?;
        Stream::Tls(Box::new(StreamOwned::new(tls, socket)))
    } else {
        Stream::Plain(socket)
    };
    upgrade(stream, opening)
}

fn upgrade(stream: Stream, opening: &Opening<'_>) -> Result<Socket, HttpError> {
    let unfit = |_| HttpError::Request("the address cannot be put into a request".into());
    let text = opening.address.with_query(opening.query);
    let mut request = text.into_client_request().map_err(unfit)?;
    let agent = HeaderValue::from_str(opening.user_agent)
        .map_err(|_| HttpError::Request("the user agent is no header".into()))?;
    request.headers_mut().insert("user-agent", agent);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BYTES_MOST)
        .max_message_size(Some(opening.message_most))
        .max_frame_size(Some(opening.message_most));
    match tungstenite::client::client_with_config(request, stream, Some(config)) {
        Ok((inner, _)) => Ok(Socket {
            inner,
            cancel: opening.cancel.clone(),
        }),
        Err(HandshakeError::Failure(error)) if opening.cancel.raised() => {
            log::debug!(error = error.to_string().as_str(); "an upgrade was given up");
            Err(HttpError::Cancelled)
        }
        Err(HandshakeError::Failure(error)) => Err(not_upgraded(error)),
        // The socket says "timed out" in place of "would block".
        Err(HandshakeError::Interrupted(_)) => Err(HttpError::Timeout("no upgrade".into())),
    }
}

fn not_upgraded(error: Error) -> HttpError {
    match error {
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
            HttpError::Timeout("no upgrade to a WebSocket in time".into())
        }
        Error::Io(error) => super::tls::broken(&error),
        Error::Http(answer) => HttpError::Protocol(format!(
            "status {} where a WebSocket was asked for",
            answer.status().as_u16()
        )),
        error => HttpError::Protocol(format!("no WebSocket: {}", told(&error))),
    }
}

impl Socket {
    /// What ends a wait of [`Socket::read`].
    #[must_use]
    pub fn waker(&self) -> Waker {
        let tcp = self.inner.get_ref().tcp();
        Waker {
            stream: Arc::downgrade(&tcp.socket.stream),
            woken: tcp.woken.clone(),
        }
    }

    /// The next thing that comes in before `until`. A message that is under way when the time is
    /// up is whole later.
    ///
    /// Blocks: until then, or until the connection's cancel is raised.
    pub fn read(&mut self, until: Instant) -> Came {
        // At least one look, however late it is.
        let until = until.max(Instant::now() + Duration::from_millis(1));
        self.inner.get_mut().socket().until = until;
        match self.inner.read() {
            Ok(Message::Text(text)) => Came::Text(text.as_str().to_owned()),
            Ok(Message::Close(frame)) => Came::Closed(match frame {
                Some(CloseFrame { code, reason }) => Closed {
                    code: Some(code.into()),
                    reason: printable(prefix(reason.as_str(), REASON_BYTES)),
                },
                None => closed("closed without a code"),
            }),
            Ok(_) => Came::Other,
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::TimedOut => Came::Nothing,
            Err(error) => Came::Closed(closed(&told(&error))),
        }
    }

    /// Says something.
    ///
    /// Blocks: for some seconds at most, where the other side takes nothing.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn say(&mut self, text: String) -> Result<(), Closed> {
        self.inner.get_mut().socket().until = Instant::now() + WRITE_WITHIN;
        self.inner
            .send(Message::text(text))
            .map_err(|error| closed(&told(&error)))
    }

    /// Ends the connection, with that code where the other side still takes it.
    ///
    /// Blocks: for a second at most.
    pub fn close(mut self, code: u16) {
        self.inner.get_mut().socket().until = Instant::now() + CLOSE_WITHIN;
        let frame = CloseFrame {
            code: code.into(),
            reason: "".into(),
        };
        if let Err(error) = self.inner.close(Some(frame)) {
            log::debug!(error = told(&error).as_str(); "a WebSocket was closed without a goodbye");
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let tcp = &self.inner.get_ref().tcp().socket.stream;
        self.cancel.release(tcp);
        // A socket that is gone already is what was wanted.
        let _ = tcp.shutdown(Shutdown::Both);
    }
}

fn closed(reason: &str) -> Closed {
    Closed {
        code: None,
        reason: reason.to_owned(),
    }
}

/// What went wrong, without anything that the other side has said.
fn told(error: &Error) -> String {
    match error {
        Error::Io(error) => match error.kind() {
            io::ErrorKind::TimedOut => "the other side takes nothing any more".to_owned(),
            io::ErrorKind::UnexpectedEof => "the connection ended without a goodbye".to_owned(),
            _ => error.to_string(),
        },
        Error::ConnectionClosed | Error::AlreadyClosed => "the connection is closed".to_owned(),
        Error::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
            format!("a message is over {max_size} bytes")
        }
        Error::Capacity(_) => "too large".to_owned(),
        Error::Utf8(_) => "a message is no sound text".to_owned(),
        Error::Protocol(error) => error.to_string(),
        _ => "not what a WebSocket may say".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ws_or_wss_and_lose_their_query() {
        for (text, whole) in [
            (
                "wss://gateway.test",
                Some("wss://gateway.test/?v=10&encoding=json"),
            ),
            (
                "wss://gateway.test/",
                Some("wss://gateway.test/?v=10&encoding=json"),
            ),
            (
                "WS://127.0.0.1:81/x?y=z",
                Some("ws://127.0.0.1:81/x?v=10&encoding=json"),
            ),
            ("https://gateway.test", None),
            ("gateway.test", None),
            ("wss://", None),
            ("wss://user@gateway.test", None),
            ("wss://gate way.test", None),
            ("", None),
        ] {
            let address = Address::parse(text).ok();
            let with_query = address.map(|address| address.with_query("v=10&encoding=json"));
            assert_eq!(with_query.as_deref(), whole, "{text}");
        }
        let shown = Address::parse("wss://gateway.test:444/a?secret")
            .unwrap()
            .to_string();
        assert_eq!(shown, "wss://gateway.test:444/a");
    }
}
