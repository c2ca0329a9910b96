//! The example `casa` of the guide, run as the guide says and by its own commands, in both of its
//! languages. Its addresses are dialled in a network of the test's own, where every packet is seen.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use super::house::{audit_of, messages, ollama_calls, ollama_on, row, words, SOON};
use crate::documents::blocks;
use crate::support::model::{ollama_says, ModelServer, Reply, Seen};
use crate::support::netns::{self, Capture, Place};
use crate::support::telegram::{Telegram, TOKEN};

/// Where the guide has Ollama and n8n.
const OLLAMA: &str = "127.0.0.1:11434";
const N8N: &str = "192.168.1.20:5678";
/// Whom the guide lets talk.
const ANA: i64 = 123_456_789;

/// What differs between the languages.
struct Guide {
    path: &'static str,
    section: &'static str,
    locale: &'static str,
    token: &'static str,
    note: &'static str,
    ask: &'static str,
    lamp: &'static str,
}

const GUIDES: [Guide; 2] = [
    Guide {
        path: "docs/TOOLS-AND-SKILLS.md",
        section: "\n## The casa example",
        locale: "en_GB.UTF-8",
        token: "'the token'",
        note: "milk, coffee",
        ask: "what do I have to buy?",
        lamp: "turn the lamp on",
    },
    Guide {
        path: "docs/es/TOOLS-AND-SKILLS.md",
        section: "\n## El ejemplo casa",
        locale: "es_AR.UTF-8",
        token: "'el token'",
        note: "leche, café",
        ask: "¿qué tengo que comprar?",
        lamp: "enciende la lámpara",
    },
];

/// Plays a model: obliging, and told what to call by what it is shown.
fn obliging(body: &Value) -> Reply {
    let said = messages(body);
    let last = said.last().cloned().unwrap_or_default();
    let text = last["content"].as_str().unwrap_or("");
    if last["role"] == "tool" {
        return ollama_says(&format!("The tool says: {text}"));
    }
    let announced = |tool: &str| {
        let tools = body["tools"].as_array().into_iter().flatten();
        tools.into_iter().any(|one| one["function"]["name"] == tool)
    };
    let note = || ollama_calls(&[("read_file", json!({"path": "shopping.txt"}))]);
    let lamp = |url: &str| {
        let body = json!({"device": "lamp", "state": "on"});
        ollama_calls(&[("webhook_call", json!({"url": url, "body": body}))])
    };
    match text {
        _ if GUIDES.iter().any(|guide| text.contains(guide.ask)) => match announced("read_file") {
            true => note(),
            false => ollama_says("I cannot read notes here."),
        },
        // The address is the skill's.
        _ if GUIDES.iter().any(|guide| text.contains(guide.lamp)) => {
            let all = words(body);
            let url = all
                .split_whitespace()
                .find(|word| word.starts_with("http://192."));
            lamp(url.unwrap_or("http://the.skill.is.missing/"))
        }
        _ if text.contains("read it anyway") => note(),
        _ if text.contains("call the neighbour") => lamp("http://192.168.1.30:5678/webhook/korvun"),
        _ => ollama_says("Yes?"),
    }
}

/// A folder in which the guide is followed.
struct Clone {
    folder: tempfile::TempDir,
    locale: &'static str,
}

impl Clone {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command line of the guide, as typed by somebody who has installed the program.
    fn command(&self, line: &str) -> Command {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_korvun"));
        let mut path = binary.parent().expect("its folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", line])
            .current_dir(self.path())
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path())
            .env("LANG", self.locale)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs one, which has to go well; what it wrote.
    fn run(&self, line: &str, input: &str) -> String {
        let mut child = self.command(line).spawn().expect("a shell");
        let mut stdin = child.stdin.take().expect("its input");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().expect("it ends");
        let (out, err) = (
            String::from_utf8_lossy(&stdout).into_owned(),
            String::from_utf8_lossy(&stderr),
        );
        assert!(status.success(), "{line}: {status}\n{out}\n{err}");
        out
    }

    /// Starts the gateway and waits until it calls itself ready.
    fn serve(&self, line: &str) -> Serving {
        let log = fs::File::create(self.path().join("log")).expect("a file");
        let mut command = self.command(&format!("exec {line}"));
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the gateway");
        let serving = Serving {
            child,
            log: self.path().join("log"),
        };
        let began = Instant::now();
        loop {
            let asked = self.command("korvun status").stdin(Stdio::null()).output();
            let asked = asked.expect("a shell");
            if asked.status.success() {
                return serving;
            }
            assert!(began.elapsed() < SOON, "{asked:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A running gateway; killed when dropped.
struct Serving {
    child: Child,
    log: PathBuf,
}

impl Serving {
    /// Ctrl-C.
    fn stop(mut self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-INT", &pid]).status();
        assert!(status.expect("kill runs").success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// A report without what differs each time: moments and durations.
fn timeless(report: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line
            .trim_end()
            .split(", 0 ms")
            .next()
            .unwrap_or("")
            .to_owned();
        match line
            .strip_prefix("- 2")
            .and_then(|line| line.split_once("Z "))
        {
            Some((_, rest)) => rest.split(", ").next().unwrap_or("").to_owned(),
            None => line,
        }
    };
    report.lines().map(line).collect()
}

#[test]
fn it_runs_as_the_guide_says() {
    if netns::enter("agents::casa::it_runs_as_the_guide_says", &[]) != Place::Inside {
        return;
    }
    netns::addresses(&["192.168.1.20"]);
    let capture = Capture::start();
    let model = ollama_on(OLLAMA, obliging);
    let n8n = ModelServer::on(N8N.parse().expect("an address"), None, |_: &Seen| {
        Reply::Json(200, json!({"done": "living room lamp is on"}))
    });
    for (at, guide) in (0_u8..).zip(&GUIDES) {
        follow(guide, &capture, at, &model, &n8n);
    }
}

/// Addresses that packets have gone to, without this machine's own.
fn outside(capture: &Capture, marker: Ipv4Addr) -> HashSet<IpAddr> {
    let mut seen = capture.destinations(marker);
    seen.retain(|address| !address.is_loopback());
    seen
}

fn follow(guide: &Guide, capture: &Capture, at: u8, model: &ModelServer, n8n: &ModelServer) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(top.join(guide.path)).expect("the guide");
    let (_, section) = text.split_once(guide.section).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let of = |language: &str| -> Vec<String> {
        let found = blocks(section, language).into_iter();
        found.map(|(_, block)| block).collect()
    };
    let (shell, config, shown) = (of("sh"), of("json"), of(""));
    let [folders, secrets, questions, running] = &shell[..] else {
        panic!("{}: its commands are {shell:#?}", guide.path);
    };
    let home = Clone {
        folder: tempfile::tempdir().expect("a folder"),
        locale: guide.locale,
    };
    symlink(top.join("contrib"), home.path().join("contrib")).expect("a link");
    let telegram = Telegram::start();

    // 1 and 3.
    home.run(folders, "");
    let mut config: Value = serde_json::from_str(&config[0]).expect("JSON");
    config["channels"][0]["base_url"] = telegram.url().into();
    let write = |config: &Value| {
        fs::write(home.path().join("korvun.json"), config.to_string()).expect("a file");
    };
    write(&config);
    assert!(secrets.contains(guide.token), "{secrets}");
    home.run(&secrets.replace(guide.token, TOKEN), "");

    // 4.
    let questions: Vec<&str> = questions.lines().collect();
    let [check, on_telegram, note, lamp] = questions[..] else {
        panic!("{questions:?}");
    };
    let checked = home.run(check, "");
    assert!(
        checked.contains("home-automation") && !checked.contains("warning"),
        "{checked}"
    );
    for (question, expected) in [(on_telegram, "channel"), (note, "allow"), (lamp, "shadow")] {
        let told = home.run(question, "");
        assert!(told.contains(expected), "{question}\n{told}");
    }
    let told = home.run(on_telegram, "");
    let line = told.lines().find(|line| line.contains("read_file"));
    assert!(line.is_some_and(|line| line.contains("den")), "{told}");

    // 5.
    let [serve, chat] = running.lines().collect::<Vec<_>>()[..] else {
        panic!("{running}");
    };
    let gateway = home.serve(serve);
    let say = |text: &str| home.run(chat, &format!("{text}\n"));
    assert!(say(guide.ask).contains(guide.note));
    telegram.say(ANA, guide.ask);
    let sent = telegram.wait_for_sent(1, SOON);
    assert!(
        sent[0].text.contains("cannot read notes"),
        "{}",
        sent[0].text
    );
    assert!(say(guide.lamp).contains("simulation"));
    assert_eq!(timeless(&say("/tools")), timeless(&shown[0]));

    // A model that insists, and one that calls whom nobody listed.
    telegram.say(ANA, "read it anyway");
    let sent = telegram.wait_for_sent(2, SOON);
    assert!(!sent[1].text.contains(guide.note), "{}", sent[1].text);
    assert!(say("call the neighbour").contains("simulation"));
    let rehearsed = [
        row(1, "read_file", "ok", ""),
        row(1, "webhook_call", "shadowed", ""),
        row(1, "read_file", "denied", "channel"),
        row(1, "webhook_call", "shadowed", "cage"),
    ];
    let database = home.path().join("korvun.db");
    assert_eq!(audit_of(&database), rehearsed);
    let already = usize::from(at);
    assert_eq!(n8n.seen().len(), already);
    let dialled = outside(capture, Ipv4Addr::new(127, 0, 1, 2 * at));
    assert!(at > 0 || dialled.is_empty(), "{dialled:?}");

    // 6.
    gateway.stop();
    let grants = config["brains"][0]["agent"]["governance"]
        .as_array_mut()
        .expect("grants");
    let grant = grants
        .iter_mut()
        .find(|grant| grant["tool"] == "webhook_call")
        .expect("the grant");
    assert_eq!(grant["mode"], "shadow");
    grant["mode"] = "allow".into();
    write(&config);
    let gateway = home.serve(serve);
    let say = |text: &str| home.run(chat, &format!("{text}\n"));
    assert!(say(guide.lamp).contains("living room lamp is on"));
    let calls = n8n.seen();
    assert_eq!(calls.len(), already + 1);
    let call = &calls[already];
    assert_eq!(call.line, "POST /webhook/korvun");
    assert_eq!(call.json(), json!({"device": "lamp", "state": "on"}));
    assert!(call
        .header("x-idempotency-key")
        .is_some_and(|key| !key.is_empty()));
    assert_eq!(
        audit_of(&database).last(),
        Some(&row(1, "webhook_call", "ok", ""))
    );
    gateway.stop();
    let n8n_address = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 20));
    let dialled = outside(capture, Ipv4Addr::new(127, 0, 1, 2 * at + 1));
    assert_eq!(dialled, HashSet::from([n8n_address]));
    assert!(model.connections() > 0);
}
