//! A model server on loopback that says what a test tells it to, and can misbehave: it speaks HTTP/1.1,
//! plain or TLS, keeps connections open, and remembers every request that came in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{json, Value};

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which connection it came on, from 0.
    pub connection: usize,
    /// `POST /api/chat`.
    pub line: String,
    /// The header lines.
    pub headers: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Seen {
    /// Whether it asks for this, `POST /api/chat` for example.
    pub fn is(&self, line: &str) -> bool {
        self.line == line
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// What the server does with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A proper answer.
    Json(u16, Value),
    /// Steps of its own, bytes and pauses; the connection ends after them.
    Steps(Vec<Step>),
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes.
    Bytes(Vec<u8>),
    /// Sends the bytes again and again, with a pause between, until the client leaves.
    Forever(Vec<u8>, Duration),
    /// Waits until the client leaves.
    UntilGone,
}

impl Reply {
    /// A proper head and any body.
    pub fn body(status: u16, kind: &str, body: &str) -> Reply {
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Reply::Steps(vec![Step::Bytes(
            [head.as_bytes(), body.as_bytes()].concat(),
        )])
    }

    /// Raw bytes, then the end of the connection.
    pub fn raw(bytes: &str) -> Reply {
        Reply::Steps(vec![Step::Bytes(bytes.as_bytes().to_vec())])
    }

    /// A JSON body with further header lines.
    pub fn with_headers(status: u16, headers: &[&str], body: &Value) -> Reply {
        let body = body.to_string();
        Reply::raw(&format!(
            "HTTP/1.1 {status} X\r\n{}\r\ncontent-length: {}\r\n\r\n{body}",
            headers.join("\r\n"),
            body.len()
        ))
    }
}

/// An answer of Ollama's `/api/chat`.
pub fn ollama_says(text: &str) -> Reply {
    Reply::Json(
        200,
        json!({"model": "m", "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": text},
            "done": true, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 3}),
    )
}

/// An answer of Ollama's `/api/show` for a model of that many tokens.
pub fn ollama_shows(context_tokens: u32) -> Reply {
    Reply::Json(
        200,
        json!({"capabilities": ["completion", "tools"], "details": {"family": "llama"},
            "model_info": {"general.architecture": "llama", "llama.context_length": context_tokens}}),
    )
}

/// An answer of an OpenAI-style `/chat/completions`.
pub fn openai_says(text: &str) -> Reply {
    Reply::Json(
        200,
        json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0,
            "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 3}}),
    )
}

/// An answer of Ollama's `/api/chat` whose message is this.
pub fn ollama_message(message: Value) -> Reply {
    Reply::Json(
        200,
        json!({"model": "m", "message": message, "done": true, "done_reason": "stop"}),
    )
}

/// An answer of Ollama's `/api/chat` that calls a tool.
pub fn ollama_calls(name: &str, arguments: Value) -> Reply {
    ollama_message(json!({"role": "assistant", "content": "",
        "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}))
}

/// An answer of an OpenAI-style `/chat/completions` whose message is this.
pub fn openai_message(message: Value) -> Reply {
    Reply::Json(
        200,
        json!({"id": "x", "object": "chat.completion", "choices": [{"index": 0,
            "message": message, "finish_reason": "tool_calls"}]}),
    )
}

/// An answer of an OpenAI-style `/chat/completions` that calls a tool.
pub fn openai_calls(id: &str, name: &str, arguments: &str) -> Reply {
    openai_message(json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}))
}

/// Whether a request offers tools by the protocol.
pub fn offers_tools(seen: &Seen) -> bool {
    seen.json()["tools"].is_array()
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    tls: Option<Arc<rustls::ServerConfig>>,
    seen: Mutex<Vec<Seen>>,
    open: Mutex<Vec<TcpStream>>,
    connections: AtomicUsize,
    sent: AtomicUsize,
    stop: AtomicBool,
}

/// The server; ends when dropped.
pub struct ModelServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

impl ModelServer {
    /// Starts one on a free port of 127.0.0.1.
    pub fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> ModelServer {
        ModelServer::on("127.0.0.1:0".parse().expect("an address"), None, handler)
    }

    /// Starts one that speaks TLS.
    pub fn start_tls(
        tls: Arc<rustls::ServerConfig>,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> ModelServer {
        ModelServer::on(
            "127.0.0.1:0".parse().expect("an address"),
            Some(tls),
            handler,
        )
    }

    /// Starts one at an address.
    pub fn on(
        addr: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> ModelServer {
        let listener = TcpListener::bind(addr).expect("a free port");
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            tls,
            seen: Mutex::new(Vec::new()),
            open: Mutex::new(Vec::new()),
            connections: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &theirs));
        ModelServer { addr, shared }
    }

    /// Starts an Ollama whose model has these capabilities and whose chats are answered by these
    /// replies in order, the last one again and again.
    pub fn scripted(capabilities: &'static [&'static str], replies: Vec<Reply>) -> ModelServer {
        let next = AtomicUsize::new(0);
        ModelServer::start(move |seen| {
            if seen.is("POST /api/show") {
                let info = json!({"general.architecture": "llama", "llama.context_length": 8192});
                return Reply::Json(
                    200,
                    json!({"capabilities": capabilities, "model_info": info}),
                );
            }
            let at = next.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
            replies[at].clone()
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its root.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Its root by TLS, under a name that leads here.
    pub fn https(&self, name: &str) -> String {
        format!("https://{name}:{}", self.addr.port())
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Requests of that kind so far.
    pub fn count(&self, line: &str) -> usize {
        self.seen().iter().filter(|seen| seen.is(line)).count()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Bytes that clients have let it send without end.
    pub fn sent_forever(&self) -> usize {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Closes all connections that are open, as a server that restarts does.
    pub fn hang_up(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.hang_up();
        let _ = TcpStream::connect(self.addr);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let number = shared.connections.fetch_add(1, Ordering::SeqCst);
        shared
            .open
            .lock()
            .unwrap()
            .push(stream.try_clone().expect("a clone"));
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            let _ = match &shared.tls {
                None => serve(stream.try_clone().expect("a clone"), number, &shared),
                Some(config) => rustls::ServerConnection::new(Arc::clone(config))
                    .map_err(std::io::Error::other)
                    .and_then(|tls| {
                        let stream = stream.try_clone()?;
                        serve(rustls::StreamOwned::new(tls, stream), number, &shared)
                    }),
            };
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

fn serve(stream: impl Read + Write, number: usize, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some(seen) = request(&mut stream, number)? else {
            return Ok(());
        };
        shared.seen.lock().unwrap().push(seen.clone());
        let out = stream.get_mut();
        match (shared.handler)(&seen) {
            Reply::Json(status, value) => {
                let body = value.to_string();
                write!(
                    out,
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                )?;
                out.flush()?;
            }
            Reply::Steps(steps) => {
                for step in steps {
                    perform(step, &mut stream, shared)?;
                }
                return Ok(());
            }
        }
    }
}

fn perform(
    step: Step,
    stream: &mut BufReader<impl Read + Write>,
    shared: &Shared,
) -> std::io::Result<()> {
    let out = stream.get_mut();
    match step {
        Step::Bytes(bytes) => {
            out.write_all(&bytes)?;
            out.flush()
        }
        Step::Forever(bytes, pause) => loop {
            out.write_all(&bytes)?;
            out.flush()?;
            shared.sent.fetch_add(bytes.len(), Ordering::SeqCst);
            std::thread::sleep(pause);
        },
        Step::UntilGone => stream.read(&mut [0]).map(|_| ()),
    }
}

/// One request, or `None` where the client has left.
fn request(stream: &mut impl BufRead, connection: usize) -> std::io::Result<Option<Seen>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut seen = Seen {
        connection,
        line: lines[0].trim_end_matches(" HTTP/1.1").to_owned(),
        headers: lines.split_off(1),
        body: Vec::new(),
    };
    let length = seen
        .header("content-length")
        .map_or(0, |value| value.parse().expect("a length"));
    seen.body = vec![0; length];
    stream.read_exact(&mut seen.body)?;
    Ok(Some(seen))
}
