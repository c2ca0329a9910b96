//! The unit that speed is told in: one keep-alive loopback round trip plus one commit with full sync,
//! on the same box, the same disk and in the same minutes as what is measured by it.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::http::{request, Client, Reply, Server};

/// A server that answers at once and a database with one small table.
#[derive(Debug)]
pub struct Unit {
    _server: Server,
    client: Client,
    ask: Vec<u8>,
    db: Connection,
    count: i64,
    /// Every sample so far: round trip, commit.
    pub samples: Vec<(Duration, Duration)>,
}

impl Unit {
    /// Its database lies in `folder`, on the disk of the daemon's.
    pub fn new(folder: &Path) -> Unit {
        let server = Server::start("127.0.0.1:0", |_| {
            Reply::Send(
                200,
                "application/json",
                String::new(),
                b"{\"message_id\":\"1\"}".to_vec(),
            )
        });
        let client = Client::new(server.addr(), Duration::from_secs(10));
        let body = br#"{"sender_id":"tester","conversation_id":"c1","text":"a message of a usual length, say"}"#;
        let ask = request(
            "POST",
            "/webhook",
            "127.0.0.1",
            &[("Content-Type", "application/json")],
            body,
        );
        let db = Connection::open(folder.join("unit.db")).expect("database of the unit");
        db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE unit(id INTEGER PRIMARY KEY, text TEXT)")
            .expect("prepare the unit");
        Unit {
            _server: server,
            client,
            ask,
            db,
            count: 0,
            samples: Vec::new(),
        }
    }

    /// Takes `count` samples.
    pub fn measure(&mut self, count: usize) {
        for _ in 0..count {
            let start = Instant::now();
            let answer = self.client.send(&self.ask).expect("round trip of the unit");
            assert_eq!(answer.status, 200);
            let after = Instant::now();
            self.count += 1;
            self.db
                .execute(
                    "INSERT INTO unit VALUES(?1, 'a message of a usual length, say')",
                    [self.count],
                )
                .expect("commit of the unit");
            self.samples.push((after - start, after.elapsed()));
        }
    }

    /// The sums.
    pub fn sums(&self) -> Vec<Duration> {
        self.samples
            .iter()
            .map(|(trip, commit)| *trip + *commit)
            .collect()
    }
}
