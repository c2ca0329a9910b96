//! The real binary under test: a folder with a configuration, addresses of its own, and daemons that
//! are started in it, watched, killed. No daemon outlives its value.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};

use super::http::{self, Client, Response};
use super::load::Poster;

/// The inbound secret of every site.
pub const WEBHOOK_TOKEN: &str = "inbound-token-of-the-tests-0123456789";
/// The outbound secret of every site.
pub const OUTBOUND_TOKEN: &str = "outbound-token-of-the-tests-0123456789";
/// The admin secret of every site.
pub const ADMIN_TOKEN: &str = "admin-token-of-the-tests-0123456789";

/// How long a start may take on a busy box.
const START_WAIT: Duration = Duration::from_secs(30);

/// A folder, a configuration and the addresses for it.
#[derive(Debug)]
pub struct Site {
    folder: tempfile::TempDir,
    /// Where the webhook listens.
    pub webhook: SocketAddr,
    /// Where the admin server listens.
    pub admin: SocketAddr,
    /// The configuration; written at each start.
    pub config: Value,
    /// Further environment.
    pub env: Vec<(String, OsString)>,
    binary: PathBuf,
}

impl Site {
    /// One public brain `main` with an Ollama model at `model_url`, the webhook with answers to
    /// `sink_url`, a database, the admin surface. The folder lies in `under`.
    pub fn new(binary: &str, under: &Path, model_url: &str, sink_url: &str) -> Site {
        fs::create_dir_all(under).expect("folder for sites");
        let folder = tempfile::Builder::new()
            .prefix("site-")
            .tempdir_in(under)
            .expect("folder of a site");
        let host = own_host();
        let (webhook, admin) = (format!("{host}:8090"), format!("{host}:2112"));
        let config = json!({
            "channels": [{"type": "webhook", "token_env": "T_WEBHOOK", "webhook": {
                "bind": webhook, "outbound_url": sink_url, "outbound_token_env": "T_OUTBOUND"}}],
            "brains": [{"name": "main", "sensitivity": "public", "policy": {"kind": "priority"},
                "models": [{"provider": "ollama", "model_id": "tiny", "locality": "local", "base_url": model_url}]}],
            "routes": [{"channel": "webhook", "brain": "main"}],
            "storage": {"path": "korvun.db"},
            "observability": {"addr": admin},
            "admin": {"token_env": "T_ADMIN"}
        });
        let env = [
            ("T_WEBHOOK", WEBHOOK_TOKEN),
            ("T_OUTBOUND", OUTBOUND_TOKEN),
            ("T_ADMIN", ADMIN_TOKEN),
        ]
        .map(|(name, value)| (name.to_owned(), value.into()));
        Site {
            folder,
            webhook: webhook.parse().expect("webhook address"),
            admin: admin.parse().expect("admin address"),
            config,
            env: env.into(),
            binary: binary.into(),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.path().join("korvun.db")
    }

    /// Starts another binary from now on.
    pub fn binary(&mut self, binary: &str) {
        self.binary = binary.into();
    }

    /// The first brain's first model, to change it.
    pub fn model(&mut self) -> &mut Value {
        &mut self.config["brains"][0]["models"][0]
    }

    /// Starts a daemon without waiting for it, with `before` (a tracer and its arguments) before the
    /// command.
    pub fn spawn(&self, before: &[&str]) -> Daemon {
        let file = self.path().join("korvun.json");
        let text = serde_json::to_string_pretty(&self.config).expect("configuration as text");
        fs::write(&file, text).expect("write the configuration");
        let mut words: Vec<OsString> = before.iter().map(OsString::from).collect();
        words.push(self.binary.clone().into());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg("serve")
            .arg("--config")
            .arg(&file)
            .current_dir(self.path())
            // Nothing of this machine's environment reaches the daemon, and nothing it writes misses the folder.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().expect("start the daemon");
        let log = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            collect(child.stdout.take().expect("stdout"), &log),
            collect(child.stderr.take().expect("stderr"), &log),
        ];
        Daemon {
            child,
            started,
            log,
            readers,
            webhook: self.webhook,
            admin: self.admin,
        }
    }

    /// Starts a daemon and waits until both ports answer.
    pub fn start(&self) -> Daemon {
        let mut daemon = self.spawn(&[]);
        daemon.wait_until_ready();
        daemon
    }
}

/// An address in 127/8 that no other site of this machine uses, so that fixed ports never collide,
/// not with each other and not with the port of a client in passing.
pub fn own_host() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(1);
    let mine = (std::process::id() as usize & 0x3fff) << 9
        | (COUNT.fetch_add(1, Ordering::SeqCst) & 0x1ff);
    format!(
        "127.{}.{}.{}",
        0x80 | mine >> 16,
        mine >> 8 & 0xff,
        mine & 0xff
    )
}

fn collect(
    from: impl std::io::Read + Send + 'static,
    log: &Arc<Mutex<String>>,
) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::Builder::new()
        .name("daemon-log".into())
        .spawn(move || {
            let mut reader = BufReader::new(from);
            let mut line = Vec::new();
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                log.lock()
                    .expect("log")
                    .push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        })
        .expect("start a log thread")
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Just before exec.
    pub started: Instant,
    log: Arc<Mutex<String>>,
    readers: Vec<thread::JoinHandle<()>>,
    webhook: SocketAddr,
    admin: SocketAddr,
}

impl Daemon {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far, on both outputs.
    pub fn log(&self) -> String {
        self.log.lock().expect("log").clone()
    }

    /// Polls `/healthz` of both ports.
    ///
    /// Blocks: until both say 200; the test fails when the daemon ends or takes too long.
    pub fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + START_WAIT;
        for addr in [self.webhook, self.admin] {
            let ask = http::request(
                "GET",
                "/healthz",
                &addr.to_string(),
                &[("Connection", "close")],
                b"",
            );
            loop {
                let answer = Client::new(addr, Duration::from_secs(5)).send(&ask);
                if answer.as_ref().is_ok_and(|response| response.status == 200) {
                    break;
                }
                if let Some(status) = self.child.try_wait().expect("look at the daemon") {
                    self.join_readers();
                    panic!(
                        "the daemon ended ({status}) before it was ready:\n{}",
                        self.log()
                    );
                }
                assert!(
                    Instant::now() < deadline,
                    "no 200 from {addr}/healthz ({answer:?}):\n{}",
                    self.log()
                );
                thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// A sender to its webhook.
    pub fn poster(&self) -> Poster {
        Poster::new(self.webhook, WEBHOOK_TOKEN)
    }

    /// One request to the admin server with the right token.
    pub fn admin(&self, method: &str, target: &str, body: Option<&Value>) -> Response {
        let bearer = format!("Bearer {ADMIN_TOKEN}");
        let fields = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Connection", "close"),
        ];
        let body = body.map(Value::to_string).unwrap_or_default();
        let bytes = http::request(
            method,
            target,
            &self.admin.to_string(),
            &fields,
            body.as_bytes(),
        );
        Client::new(self.admin, Duration::from_secs(30))
            .send(&bytes)
            .unwrap_or_else(|error| panic!("{method} {target}: {error}\n{}", self.log()))
    }

    /// What `/api/messages/ID` says.
    pub fn message(&self, id: &str) -> Value {
        self.admin("GET", &format!("/api/messages/{id}"), None)
            .json()
    }

    /// Polls `/api/messages/ID` until `field` is `value`.
    pub fn wait_for_message(&self, id: &str, field: &str, value: &str, most: Duration) -> Value {
        let deadline = Instant::now() + most;
        loop {
            let now = self.message(id);
            if now[field] == value {
                return now;
            }
            assert!(
                Instant::now() < deadline,
                "{id}: {field} is not {value} after {most:?}: {now}\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Says something to a brain on the console; its message id.
    pub fn console(&self, key: &str, text: &str) -> String {
        let target = format!(
            "/api/conversations/{}/message",
            key.replace(':', "%3A").replace('/', "%2F")
        );
        let response = self.admin("POST", &target, Some(&json!({"text": text})));
        assert_eq!(response.status, 202, "{target}: {}", response.text());
        response.json()["message_id"]
            .as_str()
            .expect("message id")
            .to_owned()
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(mut self) -> String {
        self.end();
        self.log()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("pid")).expect("pid");
        kill_process(pid, signal).expect("signal the daemon");
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, most: Duration) -> ExitStatus {
        let deadline = Instant::now() + most;
        loop {
            if let Some(status) = self.child.try_wait().expect("look at the daemon") {
                self.join_readers();
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the daemon did not end in {most:?}:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and waits for the end; what it said and how it ended.
    pub fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = self.wait(Duration::from_secs(30));
        (status, self.log())
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.join_readers();
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
        if thread::panicking() {
            eprintln!("--- what the daemon said ---\n{}", self.log());
        }
    }
}
