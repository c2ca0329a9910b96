//! What a seed stands for: who says what and when, what breaks and when, how small the limits are.

use std::time::Duration;

use korvun::domain::limits::Limits;

use super::dice::Dice;

/// The two platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    Telegram,
    Discord,
}

impl Platform {
    pub const BOTH: [Platform; 2] = [Platform::Telegram, Platform::Discord];

    pub fn name(self) -> &'static str {
        match self {
            Platform::Telegram => "telegram",
            Platform::Discord => "discord",
        }
    }
}

/// What a message is. Commands (`/stop`, `/new`) join here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Something for the brain.
    Question(Model),
    /// Something that cannot be read, without words.
    Photo,
    /// From somebody who may not talk.
    Stranger,
    /// Said in a group, not to the bot.
    Unaddressed,
    /// An edit of an earlier message.
    Edit,
    /// More than one answer of the platform may have.
    Huge,
}

/// How the models behave that are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// They answer after so long.
    Answers(Duration),
    /// They fail after so long.
    Fails(Duration),
    /// They never answer.
    Hangs,
    /// Korvun's own code fails over it, so many times.
    Panics(u32),
    /// It ends the process, so many times.
    Kills(u32),
}

/// One message of a person.
#[derive(Clone, Debug)]
pub struct Said {
    pub at: Duration,
    pub platform: Platform,
    /// Which chat of the platform.
    pub chat: u64,
    pub words: Words,
    /// Parts of its answer.
    pub parts: u32,
}

/// How the world is for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Of a thousand requests, how many never arrive.
    pub lost_requests: u32,
    /// Of a thousand answers, how many never arrive.
    pub lost_answers: u32,
    /// Of a thousand steps on the way, how many take long.
    pub slow: u32,
    /// Of a thousand requests, to how many the platform says no in one way or another.
    pub refused: u32,
    /// Of a thousand frames, how many end their connection or leave it half open.
    pub broken: u32,
    /// Whether nothing gets through at all.
    pub outage: bool,
    /// Of a thousand writes, how many the store refuses.
    pub store_refuses: u32,
    /// Of a thousand writes, how many are done though the store does not say so in time.
    pub store_hangs: u32,
}

/// All that a seed decides beforehand; the rest comes from the same dice as things happen.
#[derive(Clone, Debug)]
pub struct Plan {
    pub limits: Limits,
    pub said: Vec<Said>,
    pub weather: Vec<(Duration, Weather)>,
    /// When faults end and nothing more is said.
    pub calm_from: Duration,
    /// Of a thousand steps, how many are the last of a process, and how often at most.
    pub kill_chance: u32,
    pub kills: u32,
    pub stop_chance: u32,
    pub stops: u32,
    pub jump_chance: u32,
    pub jumps: u32,
    /// Whether the calendar may be set by more than a day, which the windows of days feel.
    pub far_jumps: bool,
    /// Places at each endpoint.
    pub endpoints: Vec<u32>,
    pub answer_within: Duration,
    /// Identifies that Discord allows at the beginning.
    pub identifies: u64,
}

impl Plan {
    pub fn of(dice: &mut Dice) -> Plan {
        let calm_from = dice.skewed_ms(20_000, 1_200_000);
        let platforms = dice.pick(&[
            &Platform::BOTH[..],
            &Platform::BOTH,
            &Platform::BOTH[..1],
            &Platform::BOTH[1..],
        ]);
        let said = messages(dice, platforms, calm_from);
        let far_jumps = dice.permille(100);
        let rough = dice.pick(&[0, 0, 1, 1, 2, 3]);
        Plan {
            limits: limits(dice),
            said,
            weather: weather(dice, calm_from, rough),
            calm_from,
            kill_chance: dice.pick(&[2, 5, 20, 100]),
            kills: dice.pick(&[0, 0, 1, 2, 4]),
            stop_chance: dice.pick(&[2, 10]),
            stops: dice.pick(&[0, 0, 0, 1, 3]),
            jump_chance: 10,
            jumps: dice.pick(&[0, 0, 1, 3]),
            far_jumps,
            endpoints: (0..dice.between(1, 3))
                .map(|_| dice.pick(&[1, 1, 2]))
                .collect(),
            answer_within: Duration::from_secs(dice.between(30, 900)),
            identifies: dice.pick(&[1000, 1000, 6, 2]),
        }
    }
}

fn messages(dice: &mut Dice, platforms: &[Platform], until: Duration) -> Vec<Said> {
    let chats = dice.between(1, 5);
    let mut said = Vec::new();
    let many = dice.skewed_ms(3, 40).as_millis();
    while (said.len() as u128) < many {
        let platform = dice.pick(platforms);
        let chat = dice.between(0, chats - 1);
        let at = dice.ms(0, until.as_millis() as u64);
        // Most speak once, some in bursts.
        let burst = dice.pick(&[1, 1, 1, 1, 2, 4, 8]);
        let slow_chat = dice.permille(150);
        for nth in 0..burst {
            let words = words(dice, platform, slow_chat);
            said.push(Said {
                at: at + Duration::from_millis(nth * dice.pick(&[0, 1, 30, 900])),
                platform,
                chat,
                words,
                parts: dice.pick(&[1, 1, 1, 2, 4]),
            });
        }
    }
    said.sort_by_key(|one| one.at);
    said
}

fn words(dice: &mut Dice, platform: Platform, slow_chat: bool) -> Words {
    match dice.between(0, 99) {
        0..=2 => Words::Photo,
        3..=5 => Words::Stranger,
        6..=8 => Words::Unaddressed,
        9..=11 => Words::Edit,
        12 if platform == Platform::Telegram => Words::Huge,
        _ => Words::Question(model(dice, slow_chat)),
    }
}

fn model(dice: &mut Dice, slow_chat: bool) -> Model {
    let most = if slow_chat { 120_000 } else { 4000 };
    match dice.between(0, 99) {
        0..=2 => Model::Hangs,
        3..=7 => Model::Fails(dice.skewed_ms(1, most)),
        8..=9 => Model::Panics(dice.pick(&[1, 2, 9])),
        10..=11 => Model::Kills(dice.pick(&[1, 2, 9])),
        _ => Model::Answers(dice.skewed_ms(1, most)),
    }
}

fn limits(dice: &mut Dice) -> Limits {
    let defaults = Limits::default();
    Limits {
        waiting_per_conversation: dice.pick(&[20, 3, 1]),
        inbox_rows: dice.pick(&[1000, 1000, 6]),
        outbox_rows: dice.pick(&[10_000, 10_000, 8]),
        delivery_scheduled: dice.pick(&[4096, 4096, 3]),
        senders: dice.pick(&[6, 2, 1]),
        run_threads: dice.pick(&[128, 3, 1]),
        // In the simulation's own time, not in the machine's.
        store_lazy: Duration::from_secs(86_400),
        // All that was ever said is looked at in the end.
        memory_messages: 1_000_000,
        memory_keys: 1_000_000,
        ..defaults
    }
}

fn weather(dice: &mut Dice, until: Duration, rough: u32) -> Vec<(Duration, Weather)> {
    let mut all = Vec::new();
    if rough == 0 {
        return all;
    }
    for _ in 0..dice.between(1, 6) {
        let mut some = |most: u32| match dice.permille(500) {
            true => dice.between(0, u64::from(most * rough)) as u32,
            false => 0,
        };
        let mut weather = Weather {
            lost_requests: some(100),
            lost_answers: some(100),
            slow: some(60),
            refused: some(100),
            broken: some(40),
            store_refuses: some(60),
            store_hangs: some(20),
            outage: false,
        };
        weather.outage = dice.permille(150);
        all.push((dice.ms(0, until.as_millis() as u64), weather));
    }
    all
}
