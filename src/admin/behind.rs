//! tiny_http behind the front: its Unix socket, its threads, and its return should it fail. The
//! threads look only at requests that carry the front's pass.

use std::io;
use std::os::unix::net::UnixListener;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tiny_http::{Header, Server};

use super::api::{Api, Asked};
use super::reply::secured;
use super::rewrite::{ACCEPT_LANGUAGE, IDEMPOTENCY_KEY, PASS};
use super::socket::Folder;
use crate::base::random;
use crate::base::secret::Secret;
use crate::base::sync::{lock, spawn, Stop};
use crate::domain::message::Language;
use crate::net::front::{Response, STACK_BYTES};

/// How long a failed socket is left alone before it is opened anew: no loop spins on it.
const REOPEN_PAUSE: Duration = Duration::from_millis(100);

/// The server behind the front.
pub(super) struct Behind {
    pass: Secret,
    stop: Stop,
    threads: usize,
    now: Mutex<Socket>,
    /// Last: it goes when its sockets have gone.
    folder: Folder,
}

/// The socket in use.
struct Socket {
    server: Arc<Server>,
    path: PathBuf,
    /// The server's own listener once more: to end it.
    listener: UnixListener,
}

impl Behind {
    /// Listens in `folder`; nothing is answered before [`Behind::start`].
    ///
    /// # Errors
    /// The socket cannot be had.
    pub(super) fn open(folder: Folder, threads: usize) -> io::Result<Behind> {
        let now = Mutex::new(listen(&folder)?);
        Ok(Behind {
            pass: Secret::new(&random::hex::<16>()),
            stop: Stop::new(),
            threads,
            now,
            folder,
        })
    }

    /// Where it listens.
    pub(super) fn path(&self) -> PathBuf {
        lock(&self.now).path.clone()
    }

    /// What a request must carry to be looked at.
    pub(super) fn pass(&self) -> &str {
        self.pass.reveal()
    }

    /// Starts the threads that answer.
    ///
    /// # Errors
    /// The operating system refuses a thread; those that were started end.
    pub(super) fn start(self: &Arc<Behind>, api: &Arc<Api>) -> io::Result<Vec<JoinHandle<()>>> {
        let mut threads = Vec::new();
        for number in 1..=self.threads {
            let (behind, api) = (Arc::clone(self), Arc::clone(api));
            let work = move || behind.work(&api);
            match spawn(&format!("admin:{number}"), STACK_BYTES, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    self.end(threads);
                    return Err(error);
                }
            }
        }
        Ok(threads)
    }

    /// Ends the threads.
    ///
    /// Blocks: until answers in work are out.
    pub(super) fn end(&self, threads: Vec<JoinHandle<()>>) {
        self.stop.raise();
        {
            let now = lock(&self.now);
            // It may have failed by itself; its thread has ended then.
            let _ = rustix::net::shutdown(&now.listener, rustix::net::Shutdown::Both);
            for _ in 0..self.threads {
                now.server.unblock();
            }
        }
        for thread in threads {
            if thread.join().is_err() {
                log::error!("admin_thread_panicked");
            }
        }
    }

    /// Blocks: until the end is asked for.
    fn work(&self, api: &Api) {
        let mut server = Arc::clone(&lock(&self.now).server);
        loop {
            let received = server.recv();
            if self.stop.raised() {
                return;
            }
            match received {
                Ok(request) => self.answer(api, request),
                Err(error) => match self.successor(&server, &error) {
                    Some(successor) => server = successor,
                    None => return,
                },
            }
        }
    }

    /// The server in place of one that failed: tiny_http stops accepting for good after one error
    /// (no descriptors left, most likely). Opened by the first thread that notices; the others
    /// are woken and follow. None: the end is asked for.
    ///
    /// Blocks: until it is open.
    fn successor(&self, failed: &Arc<Server>, error: &io::Error) -> Option<Arc<Server>> {
        loop {
            {
                let mut now = lock(&self.now);
                if !Arc::ptr_eq(&now.server, failed) {
                    return Some(Arc::clone(&now.server));
                }
                log::warn!(error:% = error; "admin_socket_failed");
                match listen(&self.folder) {
                    Ok(fresh) => {
                        *now = fresh;
                        for _ in 1..self.threads {
                            failed.unblock();
                        }
                    }
                    Err(error) => log::error!(error:% = error; "admin_socket_not_opened"),
                }
            }
            if self.stop.wait(REOPEN_PAUSE) {
                return None;
            }
        }
    }

    fn answer(&self, api: &Api, mut request: tiny_http::Request) {
        let response = catch_unwind(AssertUnwindSafe(|| self.response(api, &mut request)));
        let response = secured(response.unwrap_or_else(|_| {
            log::error!("admin_answer_panicked");
            Response::error(500, "unavailable", "the request could not be answered")
        }));
        if let Err(error) = request.respond(spoken(&response)) {
            log::debug!(error:% = error; "admin_answer_not_written");
        }
    }

    fn response(&self, api: &Api, request: &mut tiny_http::Request) -> Response {
        let value_of = |name: &'static str| {
            let mut headers = request.headers().iter();
            let found = headers.find(|header| header.field.equiv(name));
            found.map(|header| header.value.as_str().to_owned())
        };
        if !value_of(PASS).is_some_and(|pass| self.pass.matches(pass.as_bytes())) {
            return Response::error(403, "forbidden", "this socket is the front's own");
        }
        let mut asked = Asked {
            method: request.method().to_string(),
            path: request.url().split('?').next().unwrap_or("").to_owned(),
            idempotency_key: value_of(IDEMPOTENCY_KEY),
            language: Language::accepted(&value_of(ACCEPT_LANGUAGE).unwrap_or_default()),
            body: Vec::new(),
        };
        // The front has bounded the body and sent it whole.
        if let Err(error) = request.as_reader().read_to_end(&mut asked.body) {
            log::warn!(error:% = error; "admin_body_not_read");
            return Response::error(500, "unavailable", "the request could not be read");
        }
        api.answer(&asked)
    }
}

fn listen(folder: &Folder) -> io::Result<Socket> {
    let (listener, path) = folder.listen()?;
    let ours = listener.try_clone()?;
    let server = Server::from_listener(listener, None).map_err(io::Error::other)?;
    Ok(Socket {
        server: Arc::new(server),
        path,
        listener: ours,
    })
}

/// An answer in tiny_http's words, always with a Content-Length.
fn spoken(response: &Response) -> tiny_http::Response<&[u8]> {
    let headers = response
        .headers()
        .filter_map(|(name, value)| Header::from_bytes(name, value).ok());
    let content = response.content();
    tiny_http::Response::new(
        response.status().into(),
        headers.collect(),
        content,
        Some(content.len()),
        None,
    )
    .with_chunked_threshold(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::route::Surface;
    use super::super::{
        Backend, BrainView, ChannelView, ConsoleMessage, ConsoleRefusal, Health, MessageView,
        ToolsView,
    };
    use super::*;
    use crate::base::clock::SystemClock;
    use crate::domain::ids::{BrainName, MessageId};
    use crate::watch::metrics::Metrics;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    struct Empty;

    impl Backend for Empty {
        fn brains(&self) -> Vec<BrainView> {
            Vec::new()
        }

        fn channels(&self) -> Vec<ChannelView> {
            panic!("a fault in the backend")
        }

        fn measure(&self) {}

        fn health(&self) -> Health {
            Health {
                store_ok: true,
                durable: true,
                disk_ok: true,
                free_bytes: None,
            }
        }

        fn console_message(&self, _: &ConsoleMessage) -> Result<MessageId, ConsoleRefusal> {
            Err(ConsoleRefusal::Store)
        }

        fn message(&self, _: &MessageId) -> Result<Option<MessageView>, String> {
            Ok(None)
        }

        fn tools(&self, _: &BrainName) -> Result<Option<ToolsView>, String> {
            Ok(None)
        }
    }

    fn status(behind: &Behind, path: &str, pass: &str) -> Option<String> {
        let mut socket = UnixStream::connect(behind.path()).ok()?;
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\n{PASS}: {pass}\r\nConnection: close\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).ok()?;
        Some(answer.get(9..12)?.to_owned())
    }

    #[test]
    fn it_answers_with_the_pass_only_and_comes_back_when_its_socket_fails() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::open(None, temp.path()).unwrap();
        let behind = Arc::new(Behind::open(folder, 3).unwrap());
        let api = Arc::new(Api {
            backend: Arc::new(Empty),
            metrics: Metrics::new(),
            clock: Arc::new(SystemClock),
            surface: Surface::ReadOnly,
            text_bytes: 1024,
        });
        let threads = behind.start(&api).unwrap();
        let pass = behind.pass().to_owned();
        let asked = |path: &str, pass: &str| status(&behind, path, pass);
        assert_eq!(asked("/api/brains", &pass).as_deref(), Some("200"));
        assert_eq!(asked("/api/brains", "guess").as_deref(), Some("403"));
        assert_eq!(asked("/api/channels", &pass).as_deref(), Some("500"));
        for _ in 0..2 {
            let before = behind.path();
            let failing = lock(&behind.now).listener.try_clone().unwrap();
            rustix::net::shutdown(&failing, rustix::net::Shutdown::Both).unwrap();
            let waited = (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                behind.path() != before && asked("/api/brains", &pass).as_deref() == Some("200")
            });
            assert!(waited, "no new socket");
        }
        behind.end(threads);
        drop(behind);
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
