//! Nothing that is said to a private brain leaves: the real program, model servers that keep every
//! byte they are sent, and words that must not be among those bytes. And what a loser of a fan-out
//! may hold up: nobody.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::support::daemon::{Daemon, Site};
use crate::support::http::Reply as Answer;
use crate::support::model::{ollama_says, ollama_shows, ModelServer, Reply, Step};
use crate::support::scripted::{echo, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);
/// Stands in everything that must not leave.
const MARK: &str = "geheimnis";

/// The last words of a person in a question to the model.
fn last_words(seen: &crate::support::model::Seen) -> String {
    let body = seen.json();
    let said = body["messages"].as_array().and_then(|all| all.last());
    let words = said.and_then(|said| said["content"].as_str());
    words.unwrap_or_default().to_owned()
}

/// Everything that a server was sent, heads and bodies.
fn sent_to(server: &ModelServer) -> String {
    let all = server.seen();
    all.iter()
        .map(|seen| {
            let body = String::from_utf8_lossy(&seen.body).into_owned();
            format!("{}\n{}\n{body}\n", seen.line, seen.headers.join("\n"))
        })
        .collect()
}

/// A model that does to a question what its words say.
fn obedient(prefix: &'static str) -> ModelServer {
    ModelServer::start(move |seen| {
        if seen.is("POST /api/show") {
            return ollama_shows(8192);
        }
        let words = last_words(seen);
        if words.contains("fail") {
            return Reply::Json(500, json!({"error": "out of memory"}));
        }
        // A public one that is told what it must not be told says so at once.
        if words.contains("hang") && (prefix == "casa" || !words.contains(MARK)) {
            return Reply::Steps(vec![Step::UntilGone]);
        }
        ollama_says(&format!("{prefix} heard: {words}"))
    })
}

fn brain(name: &str, sensitivity: &str, url: &str) -> Value {
    json!({"name": name, "sensitivity": sensitivity, "policy": {"kind": "priority"}, "models": [
        {"provider": "ollama", "model_id": "tiny", "locality": "local", "base_url": url, "max_retries": 0}]})
}

/// A private brain and a public one, and a route that the test turns.
fn two_brains(private: &ModelServer, public: &ModelServer, sink: &Sink) -> Site {
    let mut site = site(&public.url(), &sink.url());
    site.config["brains"] = json!([
        brain("casa", "private", &private.url()),
        brain("mundo", "public", &public.url())
    ]);
    site
}

fn route(site: &mut Site, brain: &str) {
    site.config["routes"] = json!([{"channel": "webhook", "brain": brain}]);
}

fn say(daemon: &Daemon, text: &str) -> String {
    let body = json!({"sender_id": "ana", "sender_name": format!("Ana {MARK}"), "conversation_id": "room", "text": text});
    post(daemon, &body)
}

fn post(daemon: &Daemon, body: &Value) -> String {
    let response = daemon.poster().post("", None, body).expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["message_id"]
        .as_str()
        .expect("id")
        .to_owned()
}

/// Says something without a mark in the same conversation and waits for the answer.
fn talk(daemon: &Daemon, sink: &Sink, text: &str) -> String {
    let body = json!({"sender_id": "ana", "conversation_id": "room", "text": text});
    let id = post(daemon, &body);
    sink.reply_to(&id, SOON).text().to_owned()
}

#[test]
fn what_was_said_to_a_private_brain_never_reaches_a_public_one() {
    let (private, public, sink) = (obedient("casa"), obedient("mundo"), Sink::start());
    let mut site = two_brains(&private, &public, &sink);
    route(&mut site, "casa");
    let daemon = site.start();
    // Answered, excused for a fault, excused for its kind.
    let answered = say(&daemon, &format!("one {MARK}"));
    assert_eq!(
        sink.reply_to(&answered, SOON).text(),
        format!("casa heard: one {MARK}")
    );
    let failed = say(&daemon, &format!("fail {MARK}"));
    daemon.wait_for_message(&failed, "state", "excused", SOON);
    let picture = post(
        &daemon,
        &json!({"sender_id": "ana", "conversation_id": "room",
        "media_url": format!("http://127.0.0.1:9/{MARK}.png"), "media_type": "image/png"}),
    );
    daemon.wait_for_message(&picture, "state", "excused", SOON);
    // In work, twenty behind it, and one too many.
    let mut open = vec![say(&daemon, &format!("hang {MARK}"))];
    daemon.wait_for_message(&open[0], "state", "working", SOON);
    open.extend((0..20).map(|nth| say(&daemon, &format!("queued {nth} {MARK}"))));
    let refused = say(&daemon, &format!("refused {MARK}"));
    daemon.wait_for_message(&refused, "state", "excused", SOON);
    daemon.kill();
    let asked = private.seen().len();

    route(&mut site, "mundo");
    let daemon = site.start();
    // What was meant for the private brain ends with an honest sentence.
    for id in &open {
        let sentence = sink.reply_to(id, SOON).text().to_owned();
        assert!(sentence.contains("setup changed"), "{sentence}");
        daemon.wait_for_message(id, "state", "excused", SOON);
    }
    assert_eq!(
        talk(&daemon, &sink, "first in public"),
        "mundo heard: first in public"
    );
    assert_eq!(
        talk(&daemon, &sink, "second in public"),
        "mundo heard: second in public"
    );
    let sent = sent_to(&public);
    assert!(!sent.contains(MARK), "{sent}");
    // The public brain does have a history: its own.
    let last = public.seen().last().expect("asked").json();
    let messages = last["messages"].to_string();
    assert!(
        messages.contains("mundo heard: first in public"),
        "{messages}"
    );
    assert_eq!(
        private.seen().len(),
        asked,
        "the private model was asked again"
    );

    // In work and waiting in public, then moved: the private brain may have it all.
    let body = json!({"sender_id": "ana", "conversation_id": "room", "text": "hang in public"});
    let stuck = post(&daemon, &body);
    daemon.wait_for_message(&stuck, "state", "working", SOON);
    let behind = post(
        &daemon,
        &json!({"sender_id": "ana", "conversation_id": "room", "text": "behind in public"}),
    );
    daemon.kill();
    route(&mut site, "casa");
    // The message in work would hang at the private model too: it is set right by a server that does not.
    let calm = ModelServer::start(|seen| match seen.is("POST /api/show") {
        true => ollama_shows(8192),
        false => ollama_says(&format!("casa heard: {}", last_words(seen))),
    });
    site.config["brains"][0]["models"][0]["base_url"] = json!(calm.url());
    let daemon = site.start();
    assert_eq!(
        sink.reply_to(&stuck, SOON).text(),
        "casa heard: hang in public"
    );
    assert_eq!(
        sink.reply_to(&behind, SOON).text(),
        "casa heard: behind in public"
    );
    assert_eq!(talk(&daemon, &sink, "home again"), "casa heard: home again");
    let last = calm.seen().last().expect("asked").json()["messages"].to_string();
    for words in [
        format!("one {MARK}"),
        format!("casa heard: one {MARK}"),
        "first in public".to_owned(),
        "mundo heard: second in public".to_owned(),
        "casa heard: behind in public".to_owned(),
    ] {
        assert!(last.contains(&words), "{words} is not in {last}");
    }
    drop(daemon);

    // Back in public: what the private brain made of public words stays at home too.
    route(&mut site, "mundo");
    let daemon = site.start();
    assert_eq!(
        talk(&daemon, &sink, "third in public"),
        "mundo heard: third in public"
    );
    let sent = sent_to(&public);
    assert!(
        !sent.contains(MARK) && !sent.contains("casa heard"),
        "{sent}"
    );
    assert!(
        !sent.contains("home again") && !sent.contains("behind in public"),
        "{sent}"
    );
}

#[test]
fn a_private_brain_never_contacts_its_cloud_models() {
    let (local, cloud, sink) = (obedient("casa"), obedient("cloud"), Sink::start());
    let mut site = site(&local.url(), &sink.url());
    let mut casa = brain("main", "private", &local.url());
    let models = casa["models"].as_array_mut().expect("models");
    models.push(json!({"provider": "openai-compatible", "model_id": "big", "locality": "cloud", "base_url": format!("{}/v1", cloud.url())}));
    models.push(json!({"provider": "ollama", "model_id": "kimi-k2:cloud", "locality": "cloud", "base_url": cloud.url()}));
    models.push(json!({"provider": "groq", "model_id": "llama", "locality": "cloud", "base_url": format!("{}/v1", cloud.url()), "api_key_env": "T_UNSET"}));
    casa["policy"] = json!({"kind": "priority", "order": ["big", "kimi-k2:cloud", "groq"]});
    site.config["brains"] = json!([casa]);
    let daemon = site.start();
    assert_eq!(talk(&daemon, &sink, "hello"), "casa heard: hello");
    assert_eq!(
        talk(&daemon, &sink, "hello again"),
        "casa heard: hello again"
    );
    // A failure of the local one is no reason to look further.
    let failed = say(&daemon, &format!("fail {MARK}"));
    daemon.wait_for_message(&failed, "state", "excused", SOON);
    let brains = daemon.admin("GET", "/api/brains", None).json();
    assert_eq!(
        brains[0]["models"].as_array().map(Vec::len),
        Some(1),
        "{brains}"
    );
    assert_eq!(
        brains[0]["dropped"].as_array().map(Vec::len),
        Some(3),
        "{brains}"
    );
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert_eq!(cloud.connections(), 0, "{:?}", cloud.seen());
}

#[test]
fn a_local_model_that_runs_elsewhere_is_sent_nothing() {
    let forwarding = ModelServer::start(|seen| match seen.is("POST /api/show") {
        true => Reply::Json(
            200,
            json!({"capabilities": ["completion"], "remote_host": "https://ollama.com:443",
            "remote_model": "tiny"}),
        ),
        false => ollama_says("from far away"),
    });
    let sink = Sink::start();
    let mut site = site(&forwarding.url(), &sink.url());
    site.config["brains"] = json!([brain("main", "private", &forwarding.url())]);
    site.model()["warmup"] = json!(true);
    let daemon = site.start();
    for nth in 0..2 {
        let id = say(&daemon, &format!("{nth} {MARK}"));
        let sentence = sink.reply_to(&id, SOON).text().to_owned();
        assert!(sentence.contains("tell whoever runs me"), "{sentence}");
        daemon.wait_for_message(&id, "state", "excused", SOON);
    }
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert!(
        log.contains("https://ollama.com:443") && log.contains("kind=\"shield\""),
        "{log}"
    );
    let seen = forwarding.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|seen| seen.is("POST /api/show")),
        "{seen:?}"
    );
    let sent = sent_to(&forwarding);
    assert!(!sent.contains(MARK), "{sent}");
}

#[test]
fn a_model_that_betrays_itself_in_an_answer_is_asked_no_more() {
    let turning = ModelServer::start(|seen| match seen.is("POST /api/show") {
        true => ollama_shows(8192),
        false => {
            let Reply::Json(status, mut answer) = ollama_says("from far away") else {
                unreachable!("a JSON answer")
            };
            answer["remote_host"] = json!("https://ollama.com:443");
            Reply::Json(status, answer)
        }
    });
    let sink = Sink::start();
    let mut site = site(&turning.url(), &sink.url());
    site.config["brains"] = json!([brain("main", "private", &turning.url())]);
    let daemon = site.start();
    let first = talk(&daemon, &sink, "the one that was too many");
    assert!(first.contains("tell whoever runs me"), "{first}");
    let id = say(&daemon, &format!("and nothing more, {MARK}"));
    daemon.wait_for_message(&id, "state", "excused", SOON);
    assert_eq!(turning.count("POST /api/chat"), 1);
    assert!(!sent_to(&turning).contains(MARK));
}

/// A port whose queue of connections is full: who dials it hears nothing, and the attempt cannot be
/// interrupted.
struct Deaf {
    addr: SocketAddr,
    _listener: rustix::fd::OwnedFd,
    _queued: Vec<TcpStream>,
}

impl Deaf {
    fn start() -> Deaf {
        use rustix::net::{bind, getsockname, listen, socket, AddressFamily, SocketType};
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        bind(&listener, &any).expect("a free port");
        listen(&listener, 0).expect("a short queue");
        let addr =
            SocketAddr::try_from(getsockname(&listener).expect("its address")).expect("an address");
        let dial = || TcpStream::connect_timeout(&addr, Duration::from_millis(300));
        let queued: Vec<TcpStream> = std::iter::from_fn(|| dial().ok()).take(16).collect();
        assert!(queued.len() < 16, "the queue does not fill");
        Deaf {
            addr,
            _listener: listener,
            _queued: queued,
        }
    }
}

#[test]
fn a_loser_that_never_answers_holds_up_nobody() {
    let silent = Model::start(|_| Play::Do(Answer::Hang));
    let deaf = Deaf::start();
    // One whose connection can be closed, and one that cannot be interrupted at all.
    for (what, loser) in [
        ("silent", silent.url()),
        ("deaf", format!("http://{}", deaf.addr)),
    ] {
        let own = Duration::from_millis(300);
        let (winner, sink) = (Model::slow_echo(own), Sink::start());
        let mut site = site(&winner.url(), &sink.url());
        let first = site.model().clone();
        let mut second = first.clone();
        second["base_url"] = json!(loser);
        second["model_id"] = json!("slow");
        site.config["brains"][0]["models"] = json!([second, first]);
        site.config["brains"][0]["policy"] = json!({"kind": "priority", "order": ["tiny", "slow"]});
        let daemon = site.start();
        let mut poster = daemon.poster();
        let began = Instant::now();
        let said = ["one", "two", "other"].map(|text| {
            let room = if text == "other" { "elsewhere" } else { "room" };
            (text, poster.say(room, text, None).expect("accepted").id)
        });
        for (text, id) in &said {
            assert_eq!(sink.reply_to(id, SOON).text(), echo(text), "{what}");
        }
        let took = began.elapsed();
        println!("{what}: three answers of {own:?} each in {took:?}");
        // Two follow each other in one conversation, and one place at each endpoint serves all three
        // in turn. A single wait for the loser would take longer than all of this.
        assert!(took >= own * 3, "{what}: {took:?}");
        assert!(took < Duration::from_secs(6), "{what}: {took:?}");
        daemon.kill();
    }
    assert!(
        silent.asks().len() > 1,
        "the loser was asked beside the winner"
    );
}

#[test]
fn words_that_a_server_repeats_stay_out_of_a_private_brains_log() {
    let model = Model::start(|ask| {
        let body = json!({"error": format!("bad prompt: {}", ask.text)});
        Play::Do(Answer::json(400, &body))
    });
    let sink = Sink::start();
    let mut site = site(&model.url(), &sink.url());
    site.config["brains"][0]["sensitivity"] = json!("private");
    let daemon = site.start();
    let id = daemon
        .poster()
        .say("c", "my pin is QUETZAL4711", None)
        .expect("accepted")
        .id;
    sink.reply_to(&id, SOON);
    let log = daemon.log();
    assert!(
        log.contains("model attempt failed") && log.contains("status=\"400\""),
        "{log}"
    );
    assert!(!log.contains("QUETZAL"), "{log}");
}
