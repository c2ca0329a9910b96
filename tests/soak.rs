//! The real daemon against strict peers, by seeds: a seed is a schedule of messages over all
//! channels, of faults keyed to the steps of the protocols, and of ends of the process.

mod life;
mod run;
mod schedule;
mod verdict;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Instant, SystemTime};

use self::run::{play, Fired};

/// Seeds that are played by `make test`.
const SEEDS: u64 = 24;
/// Daemons at a time: most of a schedule is waiting.
const AT_A_TIME: usize = 8;

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The seeds of this run: one that was named, so many new ones, or always the same few.
fn seeds() -> std::ops::Range<u64> {
    match (given("KORVUN_SEED"), given("KORVUN_SOAK_SEEDS")) {
        (Some(first), many) => first..first + many.unwrap_or(1),
        (None, None) => 1..1 + SEEDS,
        (None, Some(many)) => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let first = now.map_or(1, |now| now.as_secs()) % 1_000_000_000;
            first..first + many
        }
    }
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
                    eprintln!("seed {seed} fails: KORVUN_SEED={seed} cargo test --test korvun -- soak::whatever\n{:#?}", schedule::Schedule::of(seed));
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
    assert!(failed.is_empty(), "failing seeds {failed:?}; repeat one by KORVUN_SEED={} cargo test --test korvun -- soak::whatever", failed[0]);
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
