//! The network goes away and comes back, in each of the ways in which networks do: both chat
//! platforms answer again by themselves, and what Korvun says of its state is true all the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use korvun::domain::limits::Limits;
use serde_json::{json, Value};

use super::{bots, given, verdict};
use crate::support::daemon::Daemon;
use crate::support::discord::Discord;
use crate::support::relay::{Relay, Way};
use crate::support::scripted::{echo, Gate, Model, Play};
use crate::support::site;
use crate::support::telegram::Telegram;

/// How long the network is away, unless KORVUN_SOAK_AWAY_S says otherwise.
const AWAY_S: u64 = 20;
/// What a busy machine may add, and what it may add to an answer.
const BUSY: Duration = Duration::from_secs(10);
const VERY_BUSY: Duration = Duration::from_secs(20);
/// A look at the state that comes so late shows that the machine stood still.
const STALL: Duration = Duration::from_secs(1);
/// How long a channel that looks for its connection counts as ready (contract 7).
const READY_FOR: Duration = Duration::from_secs(60);
/// Discord's interval between heartbeats.
const BEAT: Duration = Duration::from_secs(2);
const CHATS: [&str; 2] = ["telegram", "discord"];
/// A message whose answer is being made while the network goes.
const HELD: &str = "ask long";

/// What was said of the state at a moment.
#[derive(Clone, Debug)]
struct Told {
    at: Instant,
    ready: bool,
    states: BTreeMap<&'static str, String>,
}

#[test]
fn after_the_network_was_away_both_platforms_answer_again_by_themselves() {
    let away = Duration::from_secs(given("KORVUN_SOAK_AWAY_S").unwrap_or(AWAY_S));
    thread::scope(|scope| {
        let ways = [Way::Refused, Way::Swallowed, Way::Silent];
        let all = ways.map(|way| scope.spawn(move || outage(way, away)));
        let ended = all.map(thread::ScopedJoinHandle::join);
        for (way, ended) in ways.iter().zip(ended) {
            assert!(ended.is_ok(), "{way:?}, see above");
        }
    });
}

/// How soon after the network is back a platform must answer: the try that is going on comes to
/// its end, and the longest wait between two tries.
fn bound(way: Way) -> Duration {
    let limits = Limits::default();
    let going_on = match way {
        Way::Refused => Duration::ZERO,
        _ => limits.poll_wait + limits.poll_slack,
    };
    going_on + limits.reconnect_most + VERY_BUSY
}

/// How soon it must be known that the network is away.
fn noticed(way: Way, chat: &str) -> Duration {
    let limits = Limits::default();
    let silence = match (way, chat) {
        (Way::Refused, _) => Duration::ZERO,
        (_, "telegram") => limits.poll_wait + limits.poll_slack,
        // A heartbeat, and the next one without an acknowledgement of the first.
        _ => BEAT * 2,
    };
    silence + BUSY
}

fn outage(way: Way, away: Duration) {
    let gate = Gate::default();
    let theirs = gate.clone();
    let model = Model::start(move |ask| {
        if ask.text == HELD {
            theirs.wait();
        }
        Play::Say(echo(&ask.text))
    });
    let (telegram, discord) = (Telegram::start(), Discord::start());
    discord.world().interval = BEAT;
    let (api, gateway) = discord.addrs();
    let relays = [telegram.addr(), api, gateway].map(Relay::to);
    discord.tell_gateway(relays[2].addr());
    let mut site = site(&model.url(), "http://127.0.0.1:9/");
    site.model()["parallel"] = json!(8);
    bots(
        &mut site,
        &format!("http://{}", relays[0].addr()),
        &format!("http://{}/api/v10", relays[1].addr()),
    );
    let daemon = site.start();
    verdict::connected(&daemon);
    let say = |place: u8, text: &str| {
        telegram.say(10 + i64::from(place), text);
        discord.say(&format!("5{place}"), text);
    };
    let seen = |place: u8, text: &str, most: Duration| {
        let until = Instant::now() + most;
        let all = || {
            [
                telegram.texts(10 + i64::from(place)),
                discord.texts(&format!("5{place}")),
            ]
        };
        while !all().iter().all(|texts| texts.contains(&echo(text))) {
            assert!(
                Instant::now() < until,
                "{way:?}: {text:?} is not answered after {most:?}: {:?}",
                all()
            );
            thread::sleep(Duration::from_millis(5));
        }
    };
    say(1, "before");
    seen(1, "before", VERY_BUSY);
    // Confirmed, too: what is not would rightly be sent again.
    let until = Instant::now() + VERY_BUSY;
    let depths =
        ["inbox", "outbox"].map(|queue| format!("korvun_queue_depth{{queue=\"{queue}\"}} 0"));
    let metrics = || daemon.admin("GET", "/metrics", None).text();
    while !depths.iter().all(|line| metrics().contains(line)) {
        assert!(Instant::now() < until, "{}", metrics());
        thread::sleep(Duration::from_millis(5));
    }
    say(2, HELD);
    model.wait_for_asks(4, VERY_BUSY);

    let over = AtomicBool::new(false);
    let (told, gone, back) = thread::scope(|scope| {
        let telling = scope.spawn(|| watch(&daemon, &over));
        let done = Raise(&over);
        let gone = Instant::now();
        relays.iter().for_each(|relay| relay.set(way));
        say(3, "while it is away");
        gate.open();
        thread::sleep(away);
        let back = Instant::now();
        relays.iter().for_each(|relay| relay.set(Way::Open));
        say(4, "when it is back");
        seen(4, "when it is back", bound(way));
        println!(
            "{way:?}: away for {away:?}, answers again after {:?}",
            back.elapsed()
        );
        seen(3, "while it is away", VERY_BUSY);
        // The waits of a delivery double as long as the network is away.
        let limits = Limits::default();
        let delivery = (away * 2).min(limits.delivery_backoff_most);
        let left = (limits.chat_call + delivery + VERY_BUSY).saturating_sub(back.elapsed());
        seen(2, HELD, left.max(VERY_BUSY));
        println!(
            "{way:?}: the answer that could not be sent is there after {:?}",
            back.elapsed()
        );
        verdict::connected(&daemon);
        // Long enough to tell of every connection that is dead and not yet known to be.
        let dead = CHATS
            .map(|chat| gone + noticed(way, chat))
            .into_iter()
            .max();
        thread::sleep(
            dead.unwrap_or(gone)
                .saturating_duration_since(Instant::now()),
        );
        verdict::connected(&daemon);
        drop(done);
        (telling.join().expect("the watch"), gone, back)
    });
    truth(way, &told, gone, back);
    for (place, text) in [
        (1, "before"),
        (2, HELD),
        (3, "while it is away"),
        (4, "when it is back"),
    ] {
        let once = [echo(text)];
        assert_eq!(telegram.texts(10 + place), once);
        assert_eq!(discord.texts(&format!("5{place}")), once);
    }
    let metrics = daemon.admin("GET", "/metrics", None).text();
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    for chat in CHATS {
        let count = metrics.lines().find_map(|line| {
            line.strip_prefix(&format!(
                "korvun_channel_reconnects_total{{channel=\"{chat}\"}} "
            ))
        });
        let count: u64 = count.expect("a count").parse().expect("a number");
        // Each try is one; they are as far apart as the back-off wants them.
        assert!(
            (1..=6 + away.as_secs() / 10).contains(&count),
            "{way:?} {chat}: {count}"
        );
    }
}

/// Raises a flag also where the test fails.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Asks again and again how it is; what metrics and readiness say must agree.
fn watch(daemon: &Daemon, over: &AtomicBool) -> Vec<Told> {
    let mut told = Vec::new();
    loop {
        let last = over.load(Ordering::SeqCst);
        let at = Instant::now();
        let before = daemon.admin("GET", "/readyz", None);
        let metrics = daemon.admin("GET", "/metrics", None).text();
        let after = daemon.admin("GET", "/readyz", None);
        let states = |ready: &Value| {
            CHATS.map(|chat| {
                ready["components"][format!("channel:{chat}")]["state"]
                    .as_str()
                    .expect("a state")
                    .to_owned()
            })
        };
        let [first, second] = [&before, &after].map(|response| states(&response.json()));
        if first == second {
            for (chat, state) in CHATS.into_iter().zip(&first) {
                let head = format!("korvun_channel_state{{channel=\"{chat}\",state=\"");
                let on: Vec<&str> = metrics
                    .lines()
                    .filter_map(|line| line.strip_prefix(&head)?.strip_suffix("\"} 1"))
                    .collect();
                assert_eq!(on, [state.as_str()], "metrics and readiness disagree");
            }
            told.push(Told {
                at,
                ready: before.status == 200,
                states: CHATS.into_iter().zip(first).collect(),
            });
        }
        if last {
            return told;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// What was told was true.
fn truth(way: Way, told: &[Told], gone: Instant, back: Instant) {
    let gaps = told.windows(2).map(|pair| pair[1].at - pair[0].at);
    let stalled: Duration = gaps.filter(|gap| *gap > STALL).sum();
    for chat in CHATS {
        let mut lost: Option<Instant> = None;
        for one in told {
            let state = one.states[chat].as_str();
            assert!(
                ["connected", "reconnecting"].contains(&state),
                "{way:?} {chat}: {state}"
            );
            match state {
                "connected" => lost = None,
                _ => lost = lost.or(Some(one.at)),
            }
            let unknown = one.at < gone + noticed(way, chat) + stalled;
            let away = one.at > gone && one.at < back;
            assert!(
                !away || unknown || state == "reconnecting",
                "{way:?} {chat}: connected while the network is away, {:?} after",
                one.at - gone
            );
        }
        assert!(
            told.iter().any(|one| one.states[chat] == "reconnecting"),
            "{way:?} {chat}: nothing was told"
        );
        assert!(lost.is_none(), "{way:?} {chat}: still lost at the end");
    }
    for one in told {
        let since = |chat: &str| {
            let before = told.iter().filter(|other| other.at <= one.at).rev();
            let lost = before
                .take_while(|other| other.states[chat] == "reconnecting")
                .last();
            lost.map_or(Duration::ZERO, |first| one.at - first.at)
        };
        let longest = CHATS.map(since).into_iter().max().unwrap_or_default();
        let doubt = BUSY + stalled;
        let near = longest + doubt >= READY_FOR && longest <= READY_FOR + doubt;
        assert!(
            near || one.ready == (longest < READY_FOR),
            "{way:?}: ready {} with a channel lost for {longest:?}",
            one.ready
        );
    }
    println!("{way:?}: {} looks at the state", told.len());
}
