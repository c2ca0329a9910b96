//! `korvun config check --preflight` with the real program against loopback peers: what it says of
//! each thing that can be amiss, and that it leaves no trace.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use korvun::base::secret::Redactor;
use korvun::config::secrets::Sources;
use korvun::daemon::load::catalogue;
use korvun::daemon::preflight::{run, Outcome, Preflight, Tried};
use korvun::domain::limits::Limits;
use serde_json::{json, Value};

use crate::config::checked;
use crate::support::asking::wire_with;
use crate::support::authority::{Authority, Time};
use crate::support::daemon::{Site, WEBHOOK_TOKEN};
use crate::support::model::{ollama_shows, ModelServer, Reply, Step};
use crate::support::scripted::{echo, Model};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(60);
/// Where nobody takes what is sent.
const NOWHERE: &str = "http://127.0.0.1:9/x";

/// One run of the program over the site's configuration.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(site: &Site, options: &[&str]) -> Ran {
        fs::write(site.path().join("korvun.json"), site.config.to_string()).unwrap();
        let ran = Command::new(env!("CARGO_BIN_EXE_korvun"))
            .args(["config", "check", "korvun.json", "--preflight"])
            .args(options)
            .current_dir(site.path())
            .env_clear()
            .envs(site.env.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        Ran {
            code: ran.status.code(),
            out: String::from_utf8(ran.stdout).unwrap(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    }

    fn json(site: &Site) -> Ran {
        Ran::of(site, &["--json"])
    }

    /// The check whose name begins so.
    fn check(&self, name: &str) -> Value {
        let value: Value = serde_json::from_str(&self.out).expect("one JSON value");
        let mut all = value["checks"].as_array().expect("checks").iter();
        let starts = |check: &&Value| check["name"].as_str().unwrap().starts_with(name);
        let found = all.find(starts).cloned();
        found.unwrap_or_else(|| panic!("no check {name}: {}", self.out))
    }

    /// Status, message and help of the check whose name begins so.
    fn told(&self, name: &str) -> (String, String, String) {
        let check = self.check(name);
        let text = |key: &str| check[key].as_str().unwrap().to_owned();
        (text("status"), text("message"), text("help"))
    }
}

/// Files of a folder with their bytes and the time of their last change.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let changed = entry.metadata().unwrap().modified().unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, (fs::read(entry.path()).unwrap(), changed))
        })
        .collect()
}

fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn all_is_well_and_nothing_is_left_behind() {
    let model = ModelServer::start(|_| ollama_shows(8192));
    let site = site(&model.url(), NOWHERE);
    let ran = Ran::json(&site);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&value["file"], &value["ok"], &value["problems"]),
        (&json!("korvun.json"), &json!(true), &json!([]))
    );
    let checks = value["checks"].as_array().unwrap();
    let names: Vec<String> = checks
        .iter()
        .map(|check| {
            let keys: Vec<&String> = check.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["name", "status", "message", "help"]);
            assert_eq!(
                (&check["status"], &check["help"]),
                (&json!("ok"), &json!(""))
            );
            check["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        names,
        [
            "secret T_WEBHOOK".to_owned(),
            "secret T_OUTBOUND".to_owned(),
            "secret T_ADMIN".to_owned(),
            "brain main: ollama/tiny".to_owned(),
            format!("storage {}", site.database().display()),
            format!("webhook.bind {}", site.webhook),
            format!("observability.addr {}", site.admin),
        ]
    );
    let (_, message, _) = ran.told("brain main");
    assert!(message.contains("8192 tokens, can call tools"), "{message}");
    // It asks a model about itself and nothing else.
    let seen = model.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].is("POST /api/show"), "{seen:?}");
    let left: Vec<String> = files(site.path()).into_keys().collect();
    assert_eq!(left, ["korvun.json"]);

    // For a person: one line each, in columns.
    let ran = Ran::of(&site, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), names.len() + 1, "{}", ran.out);
    let column = lines[0].find("has a value").unwrap();
    assert!(
        lines[3][column..].starts_with("reached at http://"),
        "{}",
        ran.out
    );
    assert_eq!(lines.last(), Some(&"korvun.json: good"));
}

#[test]
fn a_model_that_would_not_answer_is_told_with_its_cure() {
    let missing =
        ModelServer::start(|_| Reply::Json(404, json!({"error": "model 'tiny' not found"})));
    let moved = ModelServer::start(|_| {
        Reply::with_headers(302, &["location: http://127.0.0.1:9/"], &json!({}))
    });
    let page = ModelServer::start(|_| Reply::body(200, "text/html", "<html>a router</html>"));
    let busy = ModelServer::start(|_| Reply::Json(429, json!({"error": "slow down"})));
    let (absent, tls) = (nobody(), nobody().replace("http:", "https:"));
    for (url, status, message, help) in [
        (
            missing.url(),
            "failed",
            "the model tiny is not on http://",
            "ollama pull tiny",
        ),
        (absent, "failed", "refused", "ollama serve"),
        (tls, "failed", "refused", "ollama serve"),
        (
            moved.url(),
            "failed",
            "status 302",
            "base_url must name the final address",
        ),
        (
            page.url(),
            "failed",
            "no JSON object",
            "is base_url the root of a server of the kind ollama?",
        ),
        (busy.url(), "warn", "slow down", "try again later"),
    ] {
        let mut site = site(&url, NOWHERE);
        site.env
            .push(("SSL_CERT_FILE".into(), bundle(site.path()).into()));
        let ran = Ran::json(&site);
        let told = ran.told("brain main: ollama/tiny");
        assert_eq!(told.0, status, "{url}: {told:?}");
        assert!(told.1.contains(message), "{url}: {told:?}");
        assert!(
            told.2.contains(help) && !told.2.contains('\n'),
            "{url}: {told:?}"
        );
        let code = if status == "failed" { 1 } else { 0 };
        assert_eq!(ran.code, Some(code), "{url}: {}", ran.out);
        // What is amiss with a model says nothing of the rest.
        assert_eq!(ran.told("webhook.bind").0, "ok");

        let text = Ran::of(&site, &[]);
        let line = text
            .out
            .lines()
            .find(|line| line.contains("ollama/tiny"))
            .unwrap();
        assert!(line.starts_with(status) && line.contains(help), "{line}");
        let verdict = if status == "failed" {
            "would not run here, 1 failed check"
        } else {
            "good"
        };
        assert!(
            text.out.ends_with(&format!("korvun.json: {verdict}\n")),
            "{}",
            text.out
        );
    }
}

fn bundle(folder: &Path) -> std::path::PathBuf {
    Authority::new("somebody").bundle(folder)
}

#[test]
fn a_wrong_key_is_told_by_its_variable_and_never_shown() {
    let model = ModelServer::start(|seen| {
        let bearer = seen.header("authorization").unwrap_or("none").to_owned();
        // It echoes the key, and by whatever misfortune another secret of this house.
        let words = format!("Incorrect API key provided: {bearer}, {WEBHOOK_TOKEN}");
        Reply::Json(401, json!({"error": {"message": words}}))
    });
    let mut site = site(&model.url(), NOWHERE);
    *site.model() = json!({"provider": "openai-compatible", "model_id": "big", "locality": "cloud",
        "base_url": format!("{}/v1", model.url()), "api_key_env": "T_KEY"});
    let key = "sk-wrong-0123456789abcdef";
    site.env.push(("T_KEY".into(), key.into()));
    let ran = Ran::json(&site);
    let told = ran.told("brain main: openai-compatible/big");
    assert_eq!((ran.code, told.0.as_str()), (Some(1), "failed"), "{told:?}");
    assert!(
        told.1.contains("401") && told.1.contains("Incorrect API key"),
        "{told:?}"
    );
    assert_eq!(told.2, "put the right key into T_KEY");
    let text = Ran::of(&site, &[]);
    let said = [ran.out, ran.err, text.out, text.err].concat();
    for secret in [key, WEBHOOK_TOKEN] {
        assert!(!said.contains(secret), "{said}");
    }
    assert!(
        said.contains("provided: Bearer [secret], [secret]"),
        "{said}"
    );
    let sent = format!("Bearer {key}");
    let seen = model.seen();
    assert!(seen
        .iter()
        .all(|seen| seen.header("authorization") == Some(&sent)));
    assert!(
        seen.iter().all(|seen| seen.is("GET /v1/models")),
        "{seen:?}"
    );
}

#[test]
fn secrets_are_resolved_one_by_one() {
    let model = ModelServer::start(|_| ollama_shows(4096));
    let (paid, dropped) = (
        ModelServer::start(|_| ollama_shows(1)),
        ModelServer::start(|_| ollama_shows(1)),
    );
    let mut site = site(&model.url(), NOWHERE);
    let mut keyed = site.model().clone();
    keyed["base_url"] = json!(paid.url());
    keyed["api_key_env"] = json!("T_UNSET");
    site.config["brains"][0]["models"]
        .as_array_mut()
        .unwrap()
        .push(keyed.clone());
    // A private brain drops a cloud model: neither its key nor its server counts.
    keyed["base_url"] = json!(dropped.url());
    keyed["api_key_env"] = json!("T_UNUSED");
    keyed["locality"] = json!("cloud");
    let own = site.model().clone();
    site.config["brains"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "casa", "sensitivity": "private",
        "policy": {"kind": "priority"}, "models": [own, keyed]}));
    site.env
        .retain(|(name, _)| name != "T_ADMIN" && name != "T_OUTBOUND");
    site.env.push(("T_OUTBOUND".into(), "short".into()));
    let ran = Ran::json(&site);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert_eq!(ran.told("secret T_WEBHOOK").0, "ok");
    let weak = ran.told("secret T_OUTBOUND");
    assert_eq!(weak.0, "warn", "{weak:?}");
    let unset = ran.told("secret T_UNSET");
    assert_eq!(unset.0, "failed");
    assert!(
        unset.1.contains("T_UNSET") && unset.2.contains("T_UNSET=..."),
        "{unset:?}"
    );
    let admin = ran.told("secret T_ADMIN");
    assert_eq!(admin.0, "ok", "it may be unset: {admin:?}");
    assert!(!ran.out.contains("secret T_UNUSED"), "{}", ran.out);
    // Those that need no key are looked at all the same.
    assert_eq!(ran.told("brain main: ollama/tiny").0, "ok");
    assert!(
        ran.out
            .contains("not contacted: its key T_UNSET has no value"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .contains("not contacted: a private brain drops it (cloud)"),
        "{}",
        ran.out
    );
    assert_eq!((paid.connections(), dropped.connections()), (0, 0));

    // From an env file; one that is not there is said so.
    fs::write(site.path().join("env"), "T_UNSET=a-key-of-some-length\n").unwrap();
    let ran = Ran::of(&site, &["--json", "--env-file", "env"]);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert_eq!(paid.connections(), 1);
    let ran = Ran::of(&site, &["--json", "--env-file", "nowhere"]);
    assert_eq!(
        (ran.code, ran.told("env file").0.as_str()),
        (Some(1), "failed")
    );
}

#[test]
fn where_a_model_really_runs_counts_by_the_brain() {
    let elsewhere = ModelServer::start(|_| {
        Reply::Json(
            200,
            json!({"capabilities": ["completion"], "remote_host": "https://ollama.com:443"}),
        )
    });
    let mute = ModelServer::start(|_| Reply::body(404, "text/plain", "404 page not found"));
    for (url, sensitivity, locality, status, words) in [
        (elsewhere.url(), "private", "local", "failed", "never asks"),
        (elsewhere.url(), "public", "local", "warn", "\"cloud\""),
        (elsewhere.url(), "public", "cloud", "ok", "as declared"),
        (
            mute.url(),
            "private",
            "local",
            "warn",
            "believed as declared",
        ),
        (mute.url(), "public", "local", "ok", "does not say"),
        // Nothing is sent to an address that no private network has.
        (
            "http://0.0.0.0:9".to_owned(),
            "private",
            "local",
            "failed",
            "private_network_shield",
        ),
    ] {
        let mut site = site(&url, NOWHERE);
        site.config["brains"][0]["sensitivity"] = json!(sensitivity);
        site.model()["locality"] = json!(locality);
        let ran = Ran::json(&site);
        let told = ran.told("brain main");
        assert_eq!(told.0, status, "{sensitivity} {locality}: {told:?}");
        assert!(format!("{} {}", told.1, told.2).contains(words), "{told:?}");
        assert_eq!(told.2.is_empty(), status == "ok", "{told:?}");
        assert_eq!(ran.code, Some(i32::from(status == "failed")));
    }
    assert!(elsewhere
        .seen()
        .iter()
        .all(|seen| seen.is("POST /api/show")));
}

#[test]
fn a_port_in_use_is_a_warning_and_a_foreign_address_a_failure() {
    let model = ModelServer::start(|_| ollama_shows(4096));
    let mut site = site(&model.url(), NOWHERE);
    let taken = TcpListener::bind(site.webhook).unwrap();
    let ran = Ran::json(&site);
    let told = ran.told("webhook.bind");
    assert_eq!((ran.code, told.0.as_str()), (Some(0), "warn"), "{told:?}");
    assert!(told.2.contains("a running Korvun may hold it"), "{told:?}");
    assert_eq!(ran.told("observability.addr").0, "ok");
    drop(taken);
    // Free again: the preflight itself holds nothing.
    assert_eq!(Ran::json(&site).told("webhook.bind").0, "ok");
    // An address of the documentation's network (RFC 5737), which no machine has.
    site.config["channels"][0]["webhook"]["bind"] = json!("192.0.2.1:8090");
    let ran = Ran::json(&site);
    let told = ran.told("webhook.bind");
    assert_eq!((ran.code, told.0.as_str()), (Some(1), "failed"), "{told:?}");
    assert!(told.2.contains("ip address"), "{told:?}");
}

#[test]
fn a_database_that_would_not_open_is_told_and_left() {
    let model = ModelServer::start(|_| ollama_shows(4096));
    let mut site = site(&model.url(), NOWHERE);
    let folder = site.path().to_owned();
    let at = |name: &str| folder.join(name);
    let made = |name: &str, version: u32| {
        let sql = format!("PRAGMA application_id = 0x4b72766e; PRAGMA user_version = {version}; CREATE TABLE t(a)");
        rusqlite::Connection::open(at(name))
            .unwrap()
            .execute_batch(&sql)
            .unwrap();
    };
    made("newer.db", 99);
    fs::write(
        at("letter.db"),
        "a letter to a friend, and no database at all".repeat(50),
    )
    .unwrap();
    fs::write(at("empty.db"), "").unwrap();
    std::os::unix::fs::symlink(at("gone.db"), at("link.db")).unwrap();
    for (path, status, message, help) in [
        (
            "newer.db",
            "failed",
            "written by a newer Korvun (schema 99",
            "install the newer version",
        ),
        ("letter.db", "failed", "is not a database", "move it away"),
        ("korvun.json/korvun.db", "failed", "", "directory"),
        ("link.db", "failed", "No such file", "directory"),
        ("empty.db", "ok", "empty", ""),
        ("new/deep/korvun.db", "ok", "it will be made", ""),
    ] {
        site.config["storage"]["path"] = json!(path);
        let before = files(site.path());
        let ran = Ran::json(&site);
        let told = ran.told("storage ");
        assert_eq!(
            (told.0.as_str(), ran.code),
            (status, Some(i32::from(status == "failed"))),
            "{path}: {told:?}"
        );
        assert!(
            told.1.contains(message) && told.2.contains(help),
            "{path}: {told:?}"
        );
        assert_eq!(told.2.is_empty(), help.is_empty(), "{path}: {told:?}");
        let mut after = files(site.path());
        // The configuration was written by the test itself.
        after.remove("korvun.json");
        assert!(
            before
                .iter()
                .all(|(name, facts)| name == "korvun.json" || after.get(name) == Some(facts)),
            "{path}"
        );
        assert!(
            after.keys().all(|name| before.contains_key(name)),
            "{path}: {:?}",
            after.keys()
        );
        assert!(!at("new").exists());
    }
}

/// Beside a daemon, after one that has ended, and after one that was killed.
#[test]
fn a_daemons_database_is_not_disturbed() {
    let (model, sink) = (Model::echo(), Sink::start());
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    let mut poster = daemon.poster();
    let said = poster.say("room", "before", None).unwrap().id;
    daemon.wait_for_message(&said, "delivery", "sent", SOON);
    // The index of the log (`-shm`) is for the living only: who reads may mend it.
    let quiet =
        |all: BTreeMap<String, (Vec<u8>, SystemTime)>| -> BTreeMap<String, (Vec<u8>, SystemTime)> {
            let lasting =
                |(name, _): &(String, _)| name != "korvun.json" && !name.ends_with("-shm");
            all.into_iter().filter(lasting).collect()
        };
    let before = quiet(files(site.path()));
    assert!(before.contains_key("korvun.db-wal"), "{:?}", before.keys());
    let ran = Ran::json(&site);
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(ran.told("storage ").1.contains("Korvun's"), "{}", ran.out);
    assert_eq!(ran.told("webhook.bind").0, "warn");
    assert_eq!(ran.told("observability.addr").0, "warn");
    assert!(quiet(files(site.path())) == before, "the database changed");
    let said = poster.say("room", "after", None).unwrap().id;
    assert_eq!(sink.reply_to(&said, SOON).text(), echo("after"));

    // Killed: the log holds what was committed, and stays for the next start.
    drop(poster);
    daemon.kill();
    let before = quiet(files(site.path()));
    assert!(before.contains_key("korvun.db-wal"), "{:?}", before.keys());
    assert_eq!(Ran::json(&site).told("storage ").0, "ok");
    assert!(quiet(files(site.path())) == before, "the database changed");

    // Ended as asked: no log is there, and none is made.
    let daemon = site.start();
    assert_eq!(daemon.message(&said)["state"], "answered");
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    let mut before = files(site.path());
    assert!(!before.contains_key("korvun.db-wal"), "{:?}", before.keys());
    assert_eq!(Ran::json(&site).told("storage ").0, "ok");
    let mut after = files(site.path());
    for all in [&mut before, &mut after] {
        all.remove("korvun.json");
    }
    assert!(after == before, "{:?} {:?}", before.keys(), after.keys());
}

#[test]
fn missing_parts_are_named_and_the_rest_is_tried() {
    let model = ModelServer::start(|_| ollama_shows(4096));
    let mut site = site(&model.url(), NOWHERE);
    site.config["session"] = json!({"idle_min": 30});
    let lacks = catalogue()
        .lacks
        .contains(&korvun::domain::catalogue::Part::Sessions);
    let ran = Ran::json(&site);
    assert_eq!(ran.code, Some(i32::from(lacks)), "{}", ran.out);
    if lacks {
        let told = ran.told("part session");
        assert_eq!(told.0, "failed");
        assert!(told.1.contains("session") && !told.2.is_empty(), "{told:?}");
    }
    assert_eq!(ran.told("brain main").0, "ok");
}

#[test]
fn https_needs_roots_that_can_be_read() {
    let authority = Authority::new("home");
    let model = ModelServer::start_tls(authority.server("localhost", Time::Valid), |_| {
        ollama_shows(4096)
    });
    let mut site = site(&model.https("localhost"), NOWHERE);
    let known = authority.bundle(site.path());
    fs::create_dir(site.path().join("other")).unwrap();
    let strange = bundle(&site.path().join("other"));
    for (file, trust, status, message, help) in [
        (
            site.path().join("missing.pem"),
            "failed",
            "failed",
            "missing.pem",
            "",
        ),
        (known.clone(), "ok", "ok", "reached", ""),
        (
            strange,
            "ok",
            "failed",
            "unknown authority",
            "SSL_CERT_FILE",
        ),
    ] {
        site.env.retain(|(name, _)| name != "SSL_CERT_FILE");
        site.env.push(("SSL_CERT_FILE".into(), file.clone().into()));
        let ran = Ran::json(&site);
        let (roots, told) = (ran.told("tls roots"), ran.told("brain main"));
        assert_eq!(roots.0, trust, "{file:?}: {roots:?}");
        assert_eq!(roots.2.is_empty(), trust == "ok", "{roots:?}");
        assert_eq!(told.0, status, "{file:?}: {told:?}");
        assert!(
            told.1.contains(message) && told.2.contains(help),
            "{file:?}: {told:?}"
        );
        assert_eq!(told.2.is_empty(), status == "ok", "{told:?}");
    }
}

/// Servers that never answer hold up neither each other nor the person.
#[test]
fn all_servers_together_have_one_bound() {
    let hang = || ModelServer::start(|_| Reply::Steps(vec![Step::UntilGone]));
    let (slow, well) = (hang(), ModelServer::start(|_| ollama_shows(4096)));
    let others: Vec<ModelServer> = (0..3).map(|_| hang()).collect();
    let model = |url: String, id: &str| json!({"provider": "ollama", "model_id": id, "locality": "local", "base_url": url});
    let mut models = vec![
        model(slow.url(), "a"),
        model(slow.url(), "b"),
        model(well.url(), "c"),
        model(well.url(), "d"),
    ];
    models.extend(others.iter().map(|server| model(server.url(), "e")));
    let file = json!({
        "channels": [{"type": "webhook", "token_env": "HOOK", "webhook": {"bind": "127.0.0.1:0", "outbound_url": NOWHERE}}],
        "brains": [{"name": "main", "sensitivity": "public", "policy": {"kind": "priority"}, "models": models}],
        "routes": [{"channel": "webhook", "brain": "main"}],
        "observability": {"enabled": false}
    });
    let checked = checked(&file.to_string());
    let plan = checked
        .plan
        .as_ref()
        .unwrap_or_else(|| panic!("{:?}", checked.problems));
    let limits = Limits {
        preflight: Duration::from_millis(1500),
        preflight_threads: 16,
        ..Limits::default()
    };
    let began = Instant::now();
    let all = run(&Preflight {
        plan,
        places: &checked.places,
        catalogue: &catalogue(),
        sources: &Sources::default(),
        redactor: &Redactor::new(),
        wire: &wire_with(&limits),
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "{took:?}");
    let outcomes: Vec<Outcome> = of_models(&all).map(|tried| tried.outcome).collect();
    use Outcome::{Failed, Ok};
    assert_eq!(
        outcomes,
        [Failed, Failed, Ok, Ok, Failed, Failed, Failed],
        "{all:?}"
    );
    assert!(
        of_models(&all)
            .filter(|tried| tried.outcome == Failed)
            .all(|tried| tried.help.contains("no answer in time")),
        "{all:?}"
    );
    // Never two connections to one server.
    assert_eq!(
        slow.connections(),
        1,
        "the second model was not reached in time"
    );
    assert!(well.connections() <= 1);
}

fn of_models(all: &[Tried]) -> impl Iterator<Item = &Tried> {
    all.iter().filter(|tried| tried.name.starts_with("brain "))
}
