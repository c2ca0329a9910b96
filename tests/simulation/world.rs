//! The world of one seed: people, two platforms, a store, and a process that lives several lives.
//! One thread, one queue of events, one clock; after each event the oracle looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::books::{Books, Mood, On};
use super::clock::VirtualClock;
use super::dice::Dice;
use super::oracle::Oracle;
use super::plan::{Plan, Platform, Said, Weather, Words};
use super::process::{Inside, Life};
use super::{discord, telegram};

/// After the faults have ended, all that was accepted must be answered within so long: the longest
/// waits are those of a platform that asked for an hour, and of tries that had failed often.
const WITHIN: Duration = Duration::from_secs(3 * 3600);
/// No simulation takes more steps; one that does goes round in circles.
const STEPS_MOST: u64 = 30_000;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A person says something.
    Say(usize),
    /// The weather changes.
    Weather(Weather),
    /// The faults are over.
    Calm,
    /// A process is started.
    Start,
    /// A person puts right what stopped a channel of this life, and restarts.
    Operator(u64),
    /// Something reaches Telegram.
    Telegram(telegram::Arrival),
    /// Something reaches Discord.
    Discord(discord::Arrival),
    /// Something reaches, or is due in, the process of this life.
    Inside(u64, Inside),
}

pub struct World {
    pub plan: Plan,
    pub dice: Dice,
    pub clock: Arc<VirtualClock>,
    pub now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    pushed: u64,
    pub books: Books,
    pub oracle: Oracle,
    pub telegram: telegram::Peer,
    pub discord: discord::Peer,
    pub life: Option<Life>,
    pub lives: u64,
    pub weather: Weather,
    pub calm: bool,
    pub steps: u64,
    pub kills: u32,
    /// Whether every event is printed.
    pub told: bool,
    /// Keys of messages that the platforms must have brought to the store in the end.
    pub owed: Vec<(Platform, String)>,
    /// The first rule that was broken.
    pub broken: Option<String>,
}

/// What a simulation came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub steps: u64,
    pub lives: u64,
    pub kills: u64,
    pub finished: u64,
    pub set_aside: u64,
    pub doubles: u64,
    pub virtual_s: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut dice = Dice::new(seed);
        let plan = Plan::of(&mut dice);
        let clock = Arc::new(VirtualClock::new());
        // A file costs more than it teaches beyond its opening and closing.
        let on = match seed % 20 {
            0 => On::File,
            _ => On::Memory,
        };
        let mut world = World {
            books: Books::open(on, &plan.limits, clock.clone()),
            oracle: Oracle::new(plan.far_jumps),
            telegram: telegram::Peer::default(),
            discord: discord::Peer::new(plan.identifies),
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            pushed: 0,
            life: None,
            lives: 0,
            weather: Weather::default(),
            calm: false,
            steps: 0,
            kills: 0,
            told: false,
            owed: Vec::new(),
            broken: None,
            plan,
            dice,
            clock,
        };
        world.at(Duration::ZERO, Event::Start);
        for (nth, said) in world.plan.said.clone().iter().enumerate() {
            world.at(said.at, Event::Say(nth));
        }
        for (at, weather) in world.plan.weather.clone() {
            world.at(at, Event::Weather(weather));
        }
        world.at(world.plan.calm_from, Event::Calm);
        world
    }

    /// Lives all of it.
    pub fn run(mut self) -> Result<Figures, String> {
        loop {
            let Some(((at, _), event)) = self.queue.pop_first() else {
                return Err(self.verdict("everything has stopped before all was answered"));
            };
            self.now = self.now.max(at);
            self.clock.reach(self.now);
            self.steps += 1;
            if self.told {
                println!("{:>12.3} {event:?}", self.now.as_secs_f64());
            }
            self.happen(event);
            self.strike();
            self.look();
            if let Some(broken) = &self.broken {
                return Err(self.verdict(broken));
            }
            if self.calm && self.quiet() {
                return self.close();
            }
            if self.now > self.plan.calm_from + WITHIN || self.steps > STEPS_MOST {
                let open = self.oracle.open();
                let missing = self.missing();
                let what = format!("not all is answered: messages {open:?} are open, {missing:?} not accepted, {:?}", self.books.store.counts());
                return Err(self.verdict(&what));
            }
        }
    }

    fn verdict(&self, what: &str) -> String {
        format!(
            "after {} steps and {:.3} s, in life {}: {what}",
            self.steps,
            self.now.as_secs_f64(),
            self.lives
        )
    }

    /// Breaks off: a rule does not hold.
    pub fn fail(&mut self, what: impl Into<String>) {
        self.broken.get_or_insert(what.into());
    }

    /// Breaks off where a judgement is an error.
    pub fn judge(&mut self, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.fail(what);
        }
    }

    pub fn at(&mut self, at: Duration, event: Event) {
        self.pushed += 1;
        self.queue.insert((at, self.pushed), event);
    }

    pub fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait, event);
    }

    /// Something is due in the present process after a while.
    pub fn later(&mut self, wait: Duration, inside: Inside) {
        self.after(wait, Event::Inside(self.lives, inside));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Say(nth) => self.say(nth),
            Event::Weather(weather) if !self.calm => self.weather = weather,
            Event::Weather(_) => {}
            Event::Calm => {
                self.weather = Weather::default();
                self.calm = true;
                self.discord.plenty();
            }
            Event::Start => self.start(),
            Event::Operator(life) if self.life.is_some() && life == self.lives => self.kill(),
            Event::Operator(_) => {}
            Event::Telegram(arrival) => self.at_telegram(arrival),
            Event::Discord(arrival) => self.at_discord(arrival),
            Event::Inside(life, inside) if self.life.is_some() && life == self.lives => {
                self.inside(inside);
            }
            Event::Inside(..) => {}
        }
    }

    /// Ends the process, or sets the clock, where the dice say so.
    fn strike(&mut self) {
        if self.calm {
            return;
        }
        let plan = &mut self.plan;
        if plan.jumps > 0 && self.dice.permille(plan.jump_chance) {
            plan.jumps -= 1;
            let most: i64 = match plan.far_jumps {
                true => 40 * 86_400_000,
                // Three of these are less than a day.
                false => 7 * 3_600_000,
            };
            let by = self.dice.skewed_ms(500, most as u64).as_millis() as i64;
            let by = if self.dice.permille(500) { by } else { -by };
            if self.told {
                println!("             the calendar is set by {by} ms");
            }
            self.clock.set(by);
        }
        if self.life.is_none() {
            return;
        }
        let plan = &mut self.plan;
        if plan.kills > 0 && self.dice.permille(plan.kill_chance) {
            plan.kills -= 1;
            self.kill();
        } else if plan.stops > 0 && self.dice.permille(plan.stop_chance) {
            plan.stops -= 1;
            self.stop();
        }
    }

    /// `kill -9`: all that is in memory is gone.
    pub fn kill(&mut self) {
        if self.told {
            println!("             killed");
        }
        self.kills += 1;
        self.look();
        self.oracle.cut_off();
        self.gone();
    }

    /// The process is gone; another one is started in a while.
    pub fn gone(&mut self) {
        self.life = None;
        self.books.killed();
        let wait = self.dice.skewed_ms(20, 120_000);
        self.after(wait, Event::Start);
    }

    fn look(&mut self) {
        if std::mem::take(&mut self.books.changed) {
            let verdict = self.oracle.look(&self.books.store);
            self.judge(verdict);
        }
    }

    /// How the next write goes.
    pub fn mood(&mut self) {
        self.books.mood = if self.dice.permille(self.weather.store_refuses) {
            Mood::Refuses
        } else if self.dice.permille(self.weather.store_hangs) {
            Mood::Hangs
        } else {
            Mood::Fine
        };
        if self.books.mood != Mood::Fine {
            if let Some(life) = &mut self.life {
                life.excused = true;
            }
        }
    }

    /// The time of one way through the network.
    pub fn way(&mut self) -> Duration {
        match self.dice.permille(self.weather.slow) {
            true => self.dice.ms(1000, 20_000),
            false => self.dice.ms(1, 40),
        }
    }

    pub fn lost(&mut self, chance: u32) -> bool {
        self.weather.outage || self.dice.permille(chance)
    }

    fn say(&mut self, nth: usize) {
        let said = self.plan.said[nth].clone();
        match said.platform {
            Platform::Telegram => self.say_on_telegram(nth, &said),
            Platform::Discord => self.say_on_discord(nth, &said),
        }
    }

    /// The message that a text stands for.
    pub fn said(&self, text: &str) -> Option<&Said> {
        let number = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        self.plan.said.get(number.parse::<usize>().ok()?)
    }

    fn missing(&self) -> Vec<&(Platform, String)> {
        let accepted =
            |(platform, key): &&(Platform, String)| !self.oracle.accepted(*platform, key);
        self.owed.iter().filter(accepted).collect()
    }

    /// Whether all that was said is accepted, answered and delivered.
    fn quiet(&self) -> bool {
        let counts = self.books.store.counts();
        counts.inbox_open == 0
            && counts.outbox_open == 0
            && !self.books.marks_wait()
            && self.missing().is_empty()
            && self.discord_is_quiet()
    }

    fn close(mut self) -> Result<Figures, String> {
        self.books.changed = true;
        self.look();
        let parts = |text: &str| match text.starts_with("answer ") {
            true => self.said(text).map_or(1, |said| said.parts),
            false => 1,
        };
        if let Err(what) = self.oracle.close(&self.books.store, parts) {
            return Err(self.verdict(&what));
        }
        if let Some(broken) = &self.broken {
            return Err(self.verdict(broken));
        }
        Ok(Figures {
            steps: self.steps,
            lives: self.lives,
            kills: u64::from(self.kills),
            finished: self.oracle.finished,
            set_aside: self.oracle.set_aside,
            doubles: self.oracle.doubles,
            virtual_s: self.now.as_secs(),
        })
    }
}

/// Whether a message is for the bot and from somebody who may talk.
pub fn counts(words: Words) -> bool {
    matches!(words, Words::Question(_) | Words::Photo)
}

impl Figures {
    /// Both together.
    pub fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.lives += other.lives;
        self.kills += other.kills;
        self.finished += other.finished;
        self.set_aside += other.set_aside;
        self.doubles += other.doubles;
        self.virtual_s += other.virtual_s;
    }
}
