//! A client that sends exactly the bytes it is told to, and reads answers as they are.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection.
pub struct Raw {
    socket: TcpStream,
    read: Vec<u8>,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of UTF-8")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// The code of an error's body.
    pub fn code(&self) -> String {
        self.json()["error"].as_str().expect("a code").to_owned()
    }
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let socket = TcpStream::connect(address).expect("a connection");
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket
            .set_write_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        socket.set_nodelay(true).unwrap();
        Raw {
            socket,
            read: Vec::new(),
        }
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends all of it; false when the other side does not take it.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.socket.write_all(bytes.as_ref()).is_ok()
    }

    /// The next answer; none when the connection ends before one is complete.
    pub fn reply(&mut self) -> Option<Reply> {
        self.reply_to("GET")
    }

    /// The next answer to a request of that method.
    pub fn reply_to(&mut self, method: &str) -> Option<Reply> {
        let end = loop {
            if let Some(at) = self
                .read
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break at;
            }
            self.more()?;
        };
        let head = String::from_utf8(self.read[..end].to_vec()).expect("a head of UTF-8");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let status: u16 = status.expect("a status").parse().expect("a status");
        let headers: Vec<(String, String)> = lines
            .map(|line| {
                let (name, value) = line.split_once(": ").expect("a header");
                (name.to_owned(), value.to_owned())
            })
            .collect();
        self.read.drain(..end + 4);
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        let bodyless = method == "HEAD" || status < 200 || status == 204 || status == 304;
        let length: usize = match reply.header("content-length") {
            _ if bodyless => 0,
            Some(length) => length.parse().expect("a length"),
            None => {
                while self.more().is_some() {}
                self.read.len()
            }
        };
        while self.read.len() < length {
            self.more()?;
        }
        reply.body = self.read.drain(..length).collect();
        Some(reply)
    }

    /// Bytes as they come: at least one, unless the connection has ended.
    pub fn some(&mut self) -> Vec<u8> {
        if self.read.is_empty() {
            self.more();
        }
        std::mem::take(&mut self.read)
    }

    /// Whether the other side ends the connection without another byte.
    pub fn ended(&mut self) -> bool {
        self.read.is_empty() && self.more().is_none()
    }

    /// Whether the other side ends the connection without another byte, and not by a reset.
    pub fn ended_in_order(&mut self) -> bool {
        self.read.is_empty() && matches!(self.socket.read(&mut [0]), Ok(0))
    }

    fn more(&mut self) -> Option<()> {
        let mut piece = [0; 4096];
        match self.socket.read(&mut piece) {
            Ok(0) => None,
            Ok(count) => {
                self.read.extend_from_slice(&piece[..count]);
                Some(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    panic!("the other side neither answers nor ends the connection")
                }
                _ => None,
            },
        }
    }
}

/// One request on a connection of its own.
pub fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> Reply {
    let mut raw = Raw::connect(address);
    assert!(raw.send(request));
    raw.reply().expect("an answer")
}
