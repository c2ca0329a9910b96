//! A seeded simulation of the whole way of messages: the machines that decide, a real store, two
//! platforms that misbehave, people, and a process that is killed and started again, all on one
//! thread under a virtual clock. `KORVUN_SEED=N` replays one seed and prints each event;
//! `KORVUN_SOAK_SEEDS=N` sets how many seeds are lived through. See docs/CONTRIBUTING.md.

mod books;
mod clock;
mod dice;
mod discord;
mod oracle;
mod plan;
mod process;
mod sending;
mod telegram;
mod world;

use std::time::Instant;

use world::{Figures, World};

/// Seeds of each run of the tests.
const SEEDS: u64 = 2500;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is to be a number")),
    )
}

/// Lives through one seed. A panic is a rule that was broken, too.
fn live(seed: u64, told: bool) -> Result<Figures, String> {
    let lived = std::panic::catch_unwind(|| {
        let mut world = World::new(seed);
        world.told = told;
        world.run()
    });
    lived.unwrap_or_else(|_| Err("a panic".to_owned()))
}

#[test]
fn every_accepted_message_has_exactly_one_stored_answer_whatever_breaks() {
    if let Some(seed) = number_of("KORVUN_SEED") {
        let figures = live(seed, true).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        println!("seed {seed}: {figures:?}");
        return;
    }
    let seeds = number_of("KORVUN_SOAK_SEEDS").unwrap_or(SEEDS);
    let from = number_of("KORVUN_FROM_SEED").unwrap_or(1);
    let began = Instant::now();
    let mut all = Figures::default();
    for seed in from..from + seeds {
        let one = live(seed, false).unwrap_or_else(|what| {
            panic!(
                "seed {seed}: {what}\nto see it again: KORVUN_SEED={seed} cargo test --locked --test korvun -- --nocapture simulation::every"
            )
        });
        all.add(&one);
    }
    println!(
        "{seeds} seeds in {:.1} s: {all:?}",
        began.elapsed().as_secs_f64()
    );
    assert!(
        all.kills > 0 && all.doubles > 0 && all.set_aside > 0,
        "faults that never came: {all:?}"
    );
}

#[test]
fn a_seed_is_lived_through_in_the_same_way_each_time() {
    for seed in [3, 17, 92] {
        let figures = live(seed, false).map(|figures| format!("{figures:?}"));
        let again = live(seed, false).map(|figures| format!("{figures:?}"));
        assert_eq!(figures, again, "seed {seed}");
    }
}
