//! The real daemon against strict peers, by seeds: a seed is a schedule of messages over all
//! channels, of faults keyed to the steps of the protocols, and of ends of the process.
//! `KORVUN_SEED=N` plays one, `KORVUN_SOAK_SEEDS=N` so many. See docs/CONTRIBUTING.md.

mod away;
mod holds;
mod life;
mod run;
mod schedule;
mod verdict;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use serde_json::json;

use self::run::{play, Fired};
use crate::support::daemon::Site;
use crate::support::{discord, telegram};

/// Seeds that are played by `make test`.
const SEEDS: u64 = 24;
/// Daemons at a time: most of a schedule is waiting.
const AT_A_TIME: usize = 8;

/// Gives a site both bots, at these roots.
fn bots(site: &mut Site, telegram_url: &str, discord_url: &str) {
    for (name, mode, env, token, url) in [
        (
            "telegram",
            "polling",
            "T_TELEGRAM",
            telegram::TOKEN,
            telegram_url,
        ),
        (
            "discord",
            "gateway",
            "T_DISCORD",
            discord::TOKEN,
            discord_url,
        ),
    ] {
        let channel = json!({"type": name, "mode": mode, "token_env": env, "base_url": url});
        let route = json!({"channel": name, "brain": "main"});
        for (list, value) in [("channels", channel), ("routes", route)] {
            site.config[list]
                .as_array_mut()
                .expect("a list")
                .push(value);
        }
        site.env.push((env.to_owned(), token.into()));
    }
}

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The seeds of this run: the one that is named, or so many, from the first or from another.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = given("KORVUN_SEED") {
        return seed..seed + 1;
    }
    let first = given("KORVUN_FROM_SEED").unwrap_or(1);
    first..first + given("KORVUN_SOAK_SEEDS").unwrap_or(SEEDS)
}

#[test]
fn whatever_a_seed_brings_each_accepted_message_has_one_answer_that_is_shown() {
    let (seeds, began) = (seeds(), Instant::now());
    println!("seeds {seeds:?}");
    let (fired, failed) = (Fired::default(), Mutex::new(Vec::new()));
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::SeqCst) as u64;
                let Some(seed) = seeds.clone().nth(at as usize) else { return };
                let seed_began = Instant::now();
                if catch_unwind(AssertUnwindSafe(|| play(seed, &fired))).is_err() {
                    eprintln!("seed {seed} fails: KORVUN_SEED={seed} cargo test --locked --test korvun -- --nocapture soak::whatever\n{:#?}", schedule::Schedule::of(seed));
                    failed.lock().unwrap().push(seed);
                }
                println!("seed {seed}: {:?}", seed_began.elapsed());
            });
        }
    });
    let fired = fired.lock().unwrap();
    println!(
        "{} seeds in {:?}; what happened in them: {:#?}",
        seeds.end - seeds.start,
        began.elapsed(),
        *fired
    );
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "failing seeds {failed:?}; repeat one by KORVUN_SEED={} cargo test --locked --test korvun -- --nocapture soak::whatever", failed[0]);
    if seeds.end - seeds.start >= SEEDS {
        // What was planned did happen: faults of each protocol, and ends of the process.
        for word in [
            "getUpdates",
            "sendMessage",
            "Dispatch",
            "messages",
            "delivery",
            "model",
            "Kill",
            "Stop",
        ] {
            assert!(
                fired.keys().any(|what| what.contains(word)),
                "nothing of {word} happened"
            );
        }
        assert!(
            fired.len() >= 25,
            "only {} kinds of faults happened",
            fired.len()
        );
    }
}
