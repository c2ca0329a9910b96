//! The bench: what Korvun costs, told beside what the box itself costs in the same minutes.
//!
//! `cargo bench --bench gateway` starts the release binary against a scripted model and a sink, all on
//! loopback, and prints a table with bounds; it exits with 1 when one is missed. `-- --quick` takes a
//! minute less and fewer samples, `--only=PART` one part of it (binary, idle, speed, fan,
//! telegram, discord, both).
#![allow(dead_code)]

#[path = "../support/daemon.rs"]
mod daemon;
#[path = "../support/discord.rs"]
mod discord;
#[path = "../support/discord_socket.rs"]
mod discord_socket;
#[path = "../support/flood.rs"]
mod flood;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/load.rs"]
mod load;
#[path = "../support/scripted.rs"]
mod scripted;
#[path = "../support/sink.rs"]
mod sink;
#[path = "../support/telegram.rs"]
mod telegram;
#[path = "../support/telegram_text.rs"]
mod telegram_text;

mod channels;
mod chats;
mod figures;
mod least;
mod owners;
mod process;
mod runs;
mod served;
mod unit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, thread};

use serde_json::{json, Value};

use chats::Peer;
use daemon::Site;
use figures::{percentile, Bound, Table};
use http::{Reply, Server};
use runs::Way;
use scripted::{echo, Model, Play};
use sink::Sink;
use unit::Unit;

const BINARY: &str = env!("CARGO_BIN_EXE_korvun");
/// Below the build folder: on the disk that the box really writes to, which a temporary folder often is not.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

/// How many samples of each kind.
struct Size {
    alone: usize,
    loops: usize,
    starts: usize,
    fan: usize,
    traced: usize,
    limited: usize,
    ceiling: Duration,
    idle: Duration,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "serve") {
        return served::run(&words);
    }
    if !words.iter().any(|word| word == "--bench") {
        println!("the bench runs by `cargo bench --bench gateway`");
        return ExitCode::SUCCESS;
    }
    let size = if words.iter().any(|word| word == "--quick") {
        Size {
            alone: 320,
            loops: 3_200,
            starts: 5,
            fan: 30,
            traced: 64,
            limited: 24,
            ceiling: Duration::from_secs(1),
            idle: Duration::from_secs(5),
        }
    } else {
        Size {
            alone: 2_000,
            loops: 10_000,
            starts: 15,
            fan: 100,
            traced: 160,
            limited: 40,
            ceiling: Duration::from_secs(3),
            idle: Duration::from_secs(20),
        }
    };
    let mut table = Table::default();
    println!("binary {BINARY}");
    let only = words.iter().filter_map(|word| word.strip_prefix("--only="));
    let only: Vec<&str> = only.collect();
    type Part = fn(&mut Table, &Size);
    let parts: [(&str, Part); 7] = [
        ("binary", |table, _| binary(table)),
        ("idle", idle),
        ("speed", speed),
        ("fan", fan_out),
        ("telegram", |table, size| {
            channels::rows(table, size, &Peer::telegram());
        }),
        ("discord", |table, size| {
            channels::rows(table, size, &Peer::discord());
        }),
        ("both", channels::together),
    ];
    for (name, part) in parts {
        if only.is_empty() || only.contains(&name) {
            part(&mut table, &size);
        }
    }
    if table.print() {
        ExitCode::SUCCESS
    } else {
        println!("a bound is missed");
        ExitCode::FAILURE
    }
}

/// Bytes of the binary and who owns them.
fn binary(table: &mut Table) {
    println!("\nsize");
    let file = fs::read(BINARY).expect("read the binary");
    let Some(told) = owners::owners(&file) else {
        table.row("binary", file.len() as f64 / 1e6, "MB", Bound::Told);
        return;
    };
    let bound = if cfg!(target_arch = "x86_64") {
        Bound::Most(5.5)
    } else {
        Bound::Told
    };
    table.row("binary, stripped", told.stripped as f64 / 1e6, "MB", bound);
    let code: usize = told.code.iter().map(|(_, size)| size).sum();
    println!("  {:<28} {:>9} bytes of code", "all owners", code);
    for (name, size) in told.code.iter().filter(|(_, size)| *size >= 4096) {
        println!("  {name:<28} {size:>9}");
    }
    let small: usize = told
        .code
        .iter()
        .map(|(_, size)| size)
        .filter(|size| **size < 4096)
        .sum();
    println!("  {:<28} {small:>9}", "owners below 4 kB");
    for (name, size) in told.sections.iter().filter(|(_, size)| *size >= 4096) {
        println!("  section {name:<20} {size:>9}");
    }
}

/// A daemon as the systemd unit starts it: with its settings of the allocator.
fn site(model: &Model, sink_url: &str) -> Site {
    let mut site = Site::new(BINARY, Path::new(FOLDER), &model.url(), sink_url);
    let lines = include_str!("../../contrib/systemd/korvun.service").lines();
    let set = lines.filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    for (name, value) in set.filter(|(name, _)| *name != "XDG_CONFIG_HOME") {
        site.env.push((name.to_owned(), value.into()));
    }
    site
}

/// Memory, wake-ups and time on a processor of a daemon that has done each thing once and now waits.
fn idle(table: &mut Table, size: &Size) {
    println!("\nidle");
    let (model, sink) = (Model::echo(), Sink::start());
    // Speaks no TLS: the daemon loads its roots, greets, and finds the door shut.
    let mute = Server::start("127.0.0.1:0", |_| Reply::Close);
    let mut site = site(&model, &sink.url());
    site.env.push(("SSL_CERT_FILE".into(), roots().into()));
    site.env
        .push(("T_KEY".into(), "a-key-of-the-bench-0123456789".into()));
    let far = json!({"name": "far", "sensitivity": "public", "policy": {"kind": "priority"}, "models": [
        {"provider": "openai-compatible", "model_id": "far", "locality": "cloud", "api_key_env": "T_KEY", "max_retries": 0,
         "base_url": mute.url().replace("http:", "https:")}]});
    site.config["brains"]
        .as_array_mut()
        .expect("brains")
        .push(far);
    let daemon = site.start();
    let id = daemon.console("console::far", "anybody there?");
    daemon.wait_for_message(&id, "state", "excused", Duration::from_secs(60));
    let id = daemon
        .poster()
        .say("idle", "good morning", None)
        .expect("the webhook accepts")
        .id;
    sink.reply_to(&id, Duration::from_secs(30));
    thread::sleep(Duration::from_secs(2));
    let (resident, anonymous) = process::memory(daemon.pid());
    table.row(
        "idle RSS (webhook, admin, storage, TLS roots)",
        resident,
        "MiB",
        Bound::Most(8.0),
    );
    table.row(
        "  of it not backed by a file",
        anonymous,
        "MiB",
        Bound::Told,
    );
    table.row("  threads", process::threads(daemon.pid()), "", Bound::Told);
    let (wakes, share) = process::idle(daemon.pid(), size.idle);
    table.row("idle wake-ups", wakes, "1/s", Bound::Most(5.0));
    table.row("idle CPU", share, "%", Bound::Most(0.1));
}

/// The bundle of this box, or one of the usual size made here.
fn roots() -> PathBuf {
    let system = PathBuf::from("/etc/ssl/certs/ca-certificates.crt");
    if system.exists() {
        return system;
    }
    let made = Path::new(FOLDER).join("roots.pem");
    let mut text = String::new();
    for index in 0..140 {
        let key = rcgen::KeyPair::generate().expect("key of a root");
        let mut about = rcgen::CertificateParams::new(Vec::new()).expect("root");
        about.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        about.distinguished_name.push(
            rcgen::DnType::CommonName,
            format!("Root {index} of the bench"),
        );
        text += &about
            .self_signed(&key)
            .expect("certificate of a root")
            .pem();
    }
    fs::write(&made, text).expect("write the roots");
    made
}

/// Latency, throughput, memory afterwards, what a message writes, how long a start takes.
fn speed(table: &mut Table, size: &Size) {
    println!("\nspeed");
    let (model, sink) = (Model::echo(), Sink::start());
    sink.keep_nothing();
    let (ceiling, _) = runs::ceiling(&sink, &model, 16, size.ceiling);
    table.row("the rig alone, 16 loops", ceiling, "1/s", Bound::Told);
    let (_, rounds) = runs::ceiling(&sink, &model, 1, size.ceiling / 3);
    table.row(
        "the rig alone, one round p50",
        percentile(&rounds, 0.5),
        "ms",
        Bound::Told,
    );

    let mut site = site(&model, &sink.url());
    site.model()["parallel"] = json!(16);
    let mut daemon = site.start();
    let mut unit = Unit::new(site.path());
    unit.measure(50);
    unit.samples.clear();
    runs::one_at_a_time(&daemon, &sink, &model, 48, None);

    let added = runs::one_at_a_time(&daemon, &sink, &model, size.alone, Some(&mut unit));
    let before = process::written(daemon.pid());
    runs::one_at_a_time(&daemon, &sink, &model, size.traced, None);
    let alone_bytes = (process::written(daemon.pid()) - before) as f64 / size.traced as f64;
    latency(table, &added, &unit);

    let before = process::written(daemon.pid());
    let (cpu, threads) = (
        process::processor(daemon.pid()),
        process::by_thread(daemon.pid()),
    );
    let spent = runs::closed_loops(&daemon, &sink, &model, "loop", size.loops);
    let burst_bytes = (process::written(daemon.pid()) - before) as f64 / size.loops as f64;
    let bound = Bound::Least((ceiling / 4.0).min(1500.0));
    table.row(
        "throughput, 16 closed loops, every one answered",
        size.loops as f64 / spent.as_secs_f64(),
        "1/s",
        bound,
    );
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / size.loops as f64;
    let cpu = process::processor(daemon.pid()).saturating_sub(cpu);
    table.row(
        "processor time for a message, in a burst",
        each(cpu),
        "us",
        Bound::Told,
    );
    for (name, spent) in process::by_thread(daemon.pid()) {
        let spent = spent.saturating_sub(threads.get(&name).copied().unwrap_or_default());
        println!("    threads {name}: {:.0} us", each(spent));
    }
    let (resident, anonymous) = process::memory(daemon.pid());
    table.row(
        &format!("RSS after {} messages in 16 conversations", size.loops),
        resident,
        "MiB",
        Bound::Most(12.0),
    );
    table.row(
        "  of it not backed by a file",
        anonymous,
        "MiB",
        Bound::Told,
    );

    table.row(
        "bytes written for a message, alone",
        alone_bytes,
        "B",
        Bound::Told,
    );
    table.row(
        "bytes written for a message, in a burst",
        burst_bytes,
        "B",
        Bound::Told,
    );
    let alone = process::syncs(daemon.pid(), site.path(), || {
        runs::one_at_a_time(&daemon, &sink, &model, size.traced, None);
    });
    let burst = process::syncs(daemon.pid(), site.path(), || {
        runs::closed_loops(&daemon, &sink, &model, "traced", size.traced * 4);
    });
    match (alone, burst) {
        (Some(alone), Some(burst)) => {
            table.row(
                "syncs for a message, alone",
                alone as f64 / size.traced as f64,
                "",
                Bound::Told,
            );
            table.row(
                "syncs for a message, in a burst",
                burst as f64 / (size.traced * 4) as f64,
                "",
                Bound::Told,
            );
        }
        _ => println!("  syncs are not counted: strace is missing or may not trace"),
    }

    let mut starts = Vec::new();
    for _ in 0..size.starts {
        daemon.stop();
        daemon = site.spawn(&[]);
        starts.push(runs::first_accepted(&daemon, site.webhook));
        daemon.wait_until_ready();
    }
    table.row(
        "exec to first accepted message, median",
        percentile(&starts, 0.5),
        "ms",
        Bound::Most(50.0),
    );
    table.row(
        "  the slowest of them",
        percentile(&starts, 1.0),
        "ms",
        Bound::Told,
    );
}

fn latency(table: &mut Table, ways: &[Way], unit: &Unit) {
    let of = |part: fn(&Way) -> Duration| ways.iter().map(part).collect::<Vec<_>>();
    let added = &of(|way| way.added);
    let (trips, commits): (Vec<_>, Vec<_>) = unit.samples.iter().copied().unzip();
    let sums = unit.sums();
    table.row(
        "unit: loopback round trip p50",
        percentile(&trips, 0.5),
        "ms",
        Bound::Told,
    );
    table.row(
        "unit: commit with full sync p50",
        percentile(&commits, 0.5),
        "ms",
        Bound::Told,
    );
    let (middle, tail) = (percentile(&sums, 0.5), percentile(&sums, 0.99));
    table.row("unit p50", middle, "ms", Bound::Told);
    table.row("unit p99", tail, "ms", Bound::Told);
    table.row(
        "added p50, one at a time, durable",
        percentile(added, 0.5),
        "ms",
        Bound::Most(3.0 * middle),
    );
    table.row(
        "  in units",
        percentile(added, 0.5) / middle,
        "units",
        Bound::Told,
    );
    table.row(
        "added p99",
        percentile(added, 0.99),
        "ms",
        Bound::Most(3.0 * tail),
    );
    for (name, part) in [
        ("  of it: POST to the 200, p50", of(|way| way.acknowledged)),
        ("  of it: POST to the model, p50", of(|way| way.asked)),
        ("  of it: model to the sink, p50", of(|way| way.delivered)),
    ] {
        table.row(name, percentile(&part, 0.5), "ms", Bound::Told);
    }
}

/// A brain of four models of which the slowest decides.
fn fan_out(table: &mut Table, size: &Size) {
    println!("\nfan-out");
    let sink = Sink::start();
    let models: Vec<Model> = [20, 30, 40, 50]
        .map(|delay| {
            Model::start(move |ask| Play::SayAfter(Duration::from_millis(delay), echo(&ask.text)))
        })
        .into();
    let mut site = Site::new(BINARY, Path::new(FOLDER), "", &sink.url());
    let catalogue: Vec<Value> = models
        .iter()
        .enumerate()
        .map(|(index, model)| json!({"provider": "ollama", "model_id": format!("m{index}"), "locality": "local", "base_url": model.url()}))
        .collect();
    site.config["brains"][0]["models"] = json!(catalogue);
    // The slowest ranks first, so that its answer is waited for.
    site.config["brains"][0]["policy"]["order"] = json!(["m3", "m2", "m1", "m0"]);
    let daemon = site.start();
    runs::over_the_slowest(&daemon, &sink, &models[3], 5);
    let added = runs::over_the_slowest(&daemon, &sink, &models[3], size.fan);
    table.row(
        "fan-out to 4 models over the slowest, p50",
        percentile(&added, 0.5),
        "ms",
        Bound::Most(5.0),
    );
    table.row("  p99", percentile(&added, 0.99), "ms", Bound::Told);
}
