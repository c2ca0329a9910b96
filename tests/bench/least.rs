//! The least of clients of Telegram and Discord: it takes messages in, asks the model, sends the
//! answer, and does nothing else. How fast it is, is how fast the rig lets anybody be.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Value};
use tungstenite::Message;

use crate::chats::{Desks, Heard, Peer};
use crate::discord::{self, Discord};
use crate::http::{request, Client};
use crate::scripted::{echo, Model};
use crate::telegram::{self, Telegram};

/// Longer than any answer here may take.
const WAIT: Duration = Duration::from_secs(10);
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// Rounds a second in `loops` closed loops with nothing between peer and model but this client.
pub fn ceiling(peer: &Peer, model: &Model, loops: u32, window: Duration) -> f64 {
    let (start, stop) = (Instant::now(), AtomicBool::new(false));
    let mut desks = Desks::new();
    let mut rounds = 0;
    thread::scope(|scope| {
        for chat in 1..=loops {
            let (sender, heard) = mpsc::channel();
            desks.insert(chat, sender);
            scope.spawn(move || answer_all(peer, model, &heard));
        }
        let stop = &stop;
        scope.spawn(move || match peer {
            Peer::Telegram(peer) => poll(peer, &desks, stop),
            Peer::Discord(peer) => listen(peer, &desks, stop),
        });
        peer.wait_for_bot();
        let people: Vec<_> = (1..=loops)
            .map(|chat| {
                scope.spawn(move || {
                    let (reader, mut said) = (peer.follow(chat), 0);
                    while start.elapsed() < window {
                        said += 1;
                        let text = format!("{chat} message {said} of a usual length, say");
                        peer.say(chat, &text);
                        assert_eq!(reader.next().text, echo(&text), "answered by the model");
                        if said % 64 == 0 {
                            model.forget();
                        }
                    }
                    said
                })
            })
            .collect();
        for person in people {
            rounds += person.join().expect("a loop of the rig");
        }
        stop.store(true, Ordering::SeqCst);
    });
    model.forget();
    f64::from(rounds) / start.elapsed().as_secs_f64()
}

/// Answers one chat.
fn answer_all(peer: &Peer, model: &Model, heard: &Receiver<Heard>) {
    let mut to_model = Client::new(model.addr(), WAIT);
    let mut to_peer = match peer {
        Peer::Telegram(peer) => Client::new(peer.addr(), WAIT),
        Peer::Discord(peer) => Client::new(peer.addr(), WAIT),
    };
    for (n, heard) in heard.iter().enumerate() {
        let ask = json!({"model": "tiny", "stream": false, "messages": [{"role": "user", "content": heard.text}]});
        let answer = to_model.send(&post("/api/chat", &[JSON], &ask));
        let answer = answer.expect("the model answers the rig").json();
        let text = &answer["message"]["content"];
        let sent = match peer {
            Peer::Telegram(_) => {
                let path = format!("/bot{}/sendMessage", telegram::TOKEN);
                post(
                    &path,
                    &[JSON],
                    &json!({"chat_id": heard.chat, "text": text}),
                )
            }
            Peer::Discord(_) => {
                let token = format!("Bot {}", discord::TOKEN);
                let fields = [
                    JSON,
                    ("Authorization", &token),
                    ("User-Agent", "DiscordBot (https://example.org, 1)"),
                ];
                let nonce = format!("{}-{n}", heard.chat);
                let path = format!("/api/v10/channels/{}/messages", heard.chat);
                post(
                    &path,
                    &fields,
                    &json!({"content": text, "nonce": nonce, "enforce_nonce": true, "allowed_mentions": {"parse": []}}),
                )
            }
        };
        let sent = to_peer.send(&sent).expect("the peer answers the rig");
        assert_eq!(sent.status, 200, "{}", sent.text());
    }
}

fn post(path: &str, fields: &[(&str, &str)], body: &Value) -> Vec<u8> {
    request(
        "POST",
        path,
        "127.0.0.1",
        fields,
        body.to_string().as_bytes(),
    )
}

/// Takes in what Telegram has.
fn poll(peer: &Telegram, desks: &Desks, stop: &AtomicBool) {
    let mut client = Client::new(peer.addr(), WAIT);
    let path = format!("/bot{}/getUpdates", telegram::TOKEN);
    let mut offset = 0;
    while !stop.load(Ordering::SeqCst) {
        let params =
            json!({"offset": offset, "timeout": 1, "limit": 100, "allowed_updates": ["message"]});
        let answer = client.send(&post(&path, &[JSON], &params));
        let answer = answer.expect("the peer answers a poll").json();
        for update in answer["result"].as_array().expect("updates") {
            offset = update["update_id"].as_i64().expect("a number") + 1;
            let message = &update["message"];
            hand(desks, message["chat"]["id"].as_i64(), &message["text"]);
        }
    }
}

/// Takes in what Discord says.
fn listen(peer: &Discord, desks: &Desks, stop: &AtomicBool) {
    let url = format!("{}/?v=10&encoding=json", peer.socket_url());
    let addr = peer.socket_url().replace("ws://", "");
    let tcp = TcpStream::connect(addr).expect("connect to the gateway");
    tcp.set_nodelay(true).expect("no delay");
    tcp.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("a limit");
    let (mut socket, _) = tungstenite::client(&url, tcp).expect("the gateway's handshake");
    let identify = json!({"op": 2, "d": {"token": discord::TOKEN, "intents": 37377, "properties": {"os": "linux"}}});
    socket
        .send(Message::text(identify.to_string()))
        .expect("identify");
    while !stop.load(Ordering::SeqCst) {
        let Ok(Message::Text(text)) = socket.read() else {
            continue;
        };
        let event: Value = serde_json::from_str(&text).expect("JSON");
        let message = &event["d"];
        if event["t"] == "MESSAGE_CREATE" && message["author"]["bot"] != true {
            let chat = message["channel_id"]
                .as_str()
                .and_then(|id| id.parse().ok());
            hand(desks, chat, &message["content"]);
        }
    }
    let _ = socket.close(None);
}

fn hand(desks: &Desks, chat: Option<i64>, text: &Value) {
    let chat = chat.and_then(|id| u32::try_from(id).ok()).expect("a chat");
    let text = text.as_str().expect("words").to_owned();
    let _ = desks[&chat].send(Heard { chat, text });
}
