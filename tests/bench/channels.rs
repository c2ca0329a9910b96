//! The rows of Telegram and Discord: the release binary between a peer on loopback and the model.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::chats::{Peer, Reader};
use crate::daemon::{Daemon, Site};
use crate::figures::{percentile, Bound, Table};
use crate::scripted::{echo, Model};
use crate::sink::Sink;
use crate::unit::Unit;
use crate::{least, process, Size, BINARY};

/// Chats that are talked in at once.
const CHATS: u32 = 16;
/// Chats that together come up against the limit of the whole bot.
const CROWD: u32 = 64;

/// Rows of one channel: by itself, without the platform's limits, within them.
pub fn rows(table: &mut Table, size: &Size, peer: &Peer) {
    println!("\n{}", peer.name());
    alone(table, size, peer);
    unlimited(table, size, &peer.another());
    within_limits(table, size, &peer.another());
}

/// A site in which the brain is spoken to on a platform.
fn site(binary: &str, model: &Model, peers: &[&Peer]) -> Site {
    let mut site = crate::site(model, "http://127.0.0.1:9/");
    site.binary(binary);
    site.model()["parallel"] = json!(16);
    for peer in peers {
        peer.join(&mut site);
    }
    site
}

/// One chat.
struct Talk<'a> {
    peer: &'a Peer,
    chat: u32,
    reader: Reader,
    said: usize,
}

impl Talk<'_> {
    fn new(peer: &Peer, chat: u32) -> Talk<'_> {
        Talk {
            peer,
            chat,
            reader: peer.follow(chat),
            said: 0,
        }
    }

    fn say(&mut self) -> String {
        self.said += 1;
        let text = format!("{} message {} of a usual length, say", self.chat, self.said);
        self.peer.say(self.chat, &text);
        text
    }

    /// One message and its answer; when the answer was there.
    fn turn(&mut self) -> (String, Instant) {
        let text = self.say();
        let shown = self.reader.next();
        assert_eq!(shown.text, echo(&text), "answered by the brain");
        (text, shown.first_byte)
    }
}

fn talks(peer: &Peer, chats: u32) -> Vec<Talk<'_>> {
    (1..=chats).map(|chat| Talk::new(peer, chat)).collect()
}

/// Messages one at a time: what Korvun adds to the model's own time.
fn one_at_a_time(
    peer: &Peer,
    model: &Model,
    count: usize,
    mut unit: Option<&mut Unit>,
) -> Vec<Duration> {
    let mut talks = talks(peer, CHATS);
    let mut added = Vec::with_capacity(count);
    for index in 0..count {
        let began = Instant::now();
        model.forget();
        let (text, shown) = talks[index % CHATS as usize].turn();
        let spent = model.take_spent().into_iter();
        let own = spent
            .filter(|spent| spent.text == text)
            .map(|spent| spent.own)
            .next()
            .expect("the model was asked");
        added.push(
            shown
                .saturating_duration_since(peer.handed())
                .saturating_sub(own),
        );
        if let Some(unit) = unit.as_deref_mut() {
            unit.measure(1);
        }
        if let Peer::Discord(_) = peer {
            // Korvun makes fifty requests a second to Discord, and what comes sooner waits.
            thread::sleep(Duration::from_millis(22).saturating_sub(began.elapsed()));
        }
    }
    added
}

/// `each` messages in every talk, each after the answer to the one before; how long it took.
fn closed_loops(talks: Vec<Talk<'_>>, model: &Model, each: usize) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for mut talk in talks {
            scope.spawn(move || {
                for index in 0..each {
                    talk.turn();
                    if index % 64 == 0 {
                        model.forget();
                    }
                }
            });
        }
    });
    start.elapsed()
}

/// Latency, and what a message writes.
fn alone(table: &mut Table, size: &Size, peer: &Peer) {
    let (name, model) = (peer.name(), Model::echo());
    let site = site(BINARY, &model, &[peer]);
    let daemon = site.start();
    peer.wait_for_bot();
    let mut unit = Unit::new(site.path());
    unit.measure(50);
    unit.samples.clear();
    one_at_a_time(peer, &model, 48, None);
    let added = one_at_a_time(peer, &model, size.alone / 4, Some(&mut unit));
    let middle = percentile(&unit.sums(), 0.5);
    let row = percentile(&added, 0.5);
    table.row("unit p50", middle, "ms", Bound::Told);
    let bound = Bound::Most(4.0 * middle);
    table.row(
        &format!("{name}: added p50, one at a time"),
        row,
        "ms",
        bound,
    );
    table.row("  in units", row / middle, "units", Bound::Told);
    let before = process::written(daemon.pid());
    one_at_a_time(peer, &model, size.traced, None);
    let bytes = process::written(daemon.pid()).saturating_sub(before);
    let each = bytes as f64 / size.traced as f64;
    table.row(
        &format!("{name}: bytes written for a message, alone"),
        each,
        "B",
        Bound::Told,
    );
}

/// Throughput where the platform limits nothing. Discord's fifty requests a second are kept by
/// Korvun itself; this daemon is the same code in the bench's own binary, where they are not.
fn unlimited(table: &mut Table, size: &Size, peer: &Peer) {
    let (name, model) = (peer.name(), Model::echo());
    let rig = least::ceiling(&peer.another(), &model, CHATS, size.ceiling);
    table.row(
        &format!("{name}: the rig alone, 16 chats"),
        rig,
        "1/s",
        Bound::Told,
    );
    let own = std::env::current_exe().expect("the bench's own path");
    let binary = match peer {
        Peer::Telegram(_) => BINARY,
        Peer::Discord(_) => own.to_str().expect("a path of text"),
    };
    let site = site(binary, &model, &[peer]);
    let daemon = site.start();
    peer.wait_for_bot();
    closed_loops(talks(peer, CHATS), &model, 4);
    let each = size.loops / 2 / CHATS as usize;
    let count = (each * CHATS as usize) as f64;
    let before = process::written(daemon.pid());
    let cpu = process::processor(daemon.pid());
    let spent = closed_loops(talks(peer, CHATS), &model, each);
    let cpu = process::processor(daemon.pid()).saturating_sub(cpu);
    let bytes = process::written(daemon.pid()).saturating_sub(before);
    table.row(
        &format!("{name}: throughput, 16 chats, no flood limits"),
        count / spent.as_secs_f64(),
        "1/s",
        Bound::Least((rig / 4.0).min(1500.0)),
    );
    let each = cpu.as_secs_f64() * 1e6 / count;
    table.row("  processor time for a message", each, "us", Bound::Told);
    let each = bytes as f64 / count;
    table.row(
        &format!("{name}: bytes written for a message, in a burst"),
        each,
        "B",
        Bound::Told,
    );
}

/// How much of what the platform allows is used, and how often it has to say no.
fn within_limits(table: &mut Table, size: &Size, peer: &Peer) {
    let (name, model) = (peer.name(), Model::echo());
    peer.limit();
    let site = site(BINARY, &model, &[peer]);
    let _daemon: Daemon = site.start();
    peer.wait_for_bot();
    for (chats, each, whose) in [
        (CHATS, size.limited, "of each chat"),
        (CROWD, size.limited / 4, "of the bot"),
    ] {
        let talks: Vec<_> = (1..=chats)
            .map(|chat| Talk::new(peer, chats * 100 + chat))
            .collect();
        // What the runs before have used up is there again.
        thread::sleep(Duration::from_secs(6));
        let before = peer.refused();
        let spent = closed_loops(talks, &model, each).as_secs_f64();
        let count = chats as usize * each;
        let used = peer.shortest(chats as usize, each) / spent;
        table.row(
            &format!("{name}: used of the limit {whose}"),
            used * 100.0,
            "%",
            Bound::Least(90.0),
        );
        let refused = (peer.refused() - before) as f64 / count as f64;
        table.row("  refused by 429", refused * 100.0, "%", Bound::Most(10.0));
    }
}

/// Memory and rest of a daemon that serves both.
pub fn together(table: &mut Table, size: &Size) {
    println!("\nboth channels");
    let (telegram, discord) = (Peer::telegram(), Peer::discord());
    let (model, sink) = (Model::echo(), Sink::start());
    let mut site = site(BINARY, &model, &[&telegram, &discord]);
    site.config["channels"][0]["webhook"]["outbound_url"] = json!(sink.url());
    site.env
        .push(("SSL_CERT_FILE".into(), crate::roots().into()));
    let daemon = site.start();
    for peer in [&telegram, &discord] {
        peer.wait_for_bot();
        closed_loops(talks(peer, 1), &model, 1);
    }
    let id = daemon.poster().say("idle", "good morning", None);
    sink.reply_to(
        &id.expect("the webhook accepts").id,
        Duration::from_secs(30),
    );
    thread::sleep(Duration::from_secs(2));
    let memory = |table: &mut Table, name: &str, most| {
        let (resident, anonymous) = process::memory(daemon.pid());
        table.row(name, resident, "MiB", Bound::Most(most));
        table.row(
            "  of it not backed by a file",
            anonymous,
            "MiB",
            Bound::Told,
        );
        table.row("  threads", process::threads(daemon.pid()), "", Bound::Told);
    };
    memory(table, "idle RSS, Telegram and Discord up", 8.0);
    let (wakes, share) = process::idle(daemon.pid(), size.idle);
    table.row(
        "idle wake-ups, Telegram and Discord up",
        wakes,
        "1/s",
        Bound::Most(5.0),
    );
    table.row("idle CPU", share, "%", Bound::Most(0.1));
    // Discord takes fifty a second, so a tenth of the messages are its.
    let few = size.loops / 10 / CHATS as usize;
    let many = size.loops / CHATS as usize - few;
    thread::scope(|scope| {
        scope.spawn(|| closed_loops(talks(&telegram, CHATS), &model, many));
        scope.spawn(|| closed_loops(talks(&discord, CHATS), &model, few));
    });
    let name = format!(
        "RSS after {} messages on both",
        (many + few) * CHATS as usize
    );
    memory(table, &name, 12.0);
}
