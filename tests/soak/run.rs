//! One seed from its first message to the end of its last process.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::bots;
use super::life::{Finisher, Lives};
use super::schedule::{answer, Channel, Moment, Say, Schedule, Stumble};
use super::verdict::{self, Rows};
use crate::support::daemon::{Daemon, Site, WEBHOOK_TOKEN};
use crate::support::discord::Discord;
use crate::support::http::Reply;
use crate::support::load::Poster;
use crate::support::scripted::{ollama, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;
use crate::support::telegram::Telegram;

/// How long a seed may take to come to rest: the longest faults one after the other, twice over.
const REST_WITHIN: Duration = Duration::from_secs(240);
/// How long a speaker waits for answers before it says the next thing all the same.
const PATIENCE: Duration = Duration::from_secs(3);

/// Answers, or parts of them, that were due, and those that were shown again.
const ANSWERS: &str = "answers due and shown";
const AGAIN: &str = "answers shown again";

/// What happened, and how often.
pub type Fired = Arc<Mutex<BTreeMap<String, usize>>>;

/// Everything that takes part.
pub struct Stage {
    pub schedule: Schedule,
    pub telegram: Telegram,
    pub discord: Discord,
    pub sink: Sink,
    pub model: Model,
    pub lives: Arc<Lives>,
    /// Questions with which the model stumbled.
    pub stumbled: Arc<Mutex<BTreeSet<String>>>,
}

/// Counts a fault under the first word that names it.
fn note(fired: &Fired, what: &str, fault: &dyn std::fmt::Debug) {
    let shown = format!("{fault:?}");
    let word = shown.split([' ', '(', '{']).next().unwrap_or_default();
    *fired
        .lock()
        .expect("fired")
        .entry(format!("{what}: {word}"))
        .or_default() += 1;
}

/// Takes part in a script: ends the process where the schedule says so.
#[derive(Clone)]
struct Watcher {
    ends: Vec<(Moment, super::schedule::End)>,
    lives: Arc<Lives>,
    fired: Fired,
}

impl Watcher {
    /// Something was seen; `is` tells whether it is a moment that was planned.
    fn pass(&self, is: impl Fn(Moment) -> bool) {
        for (moment, end) in self.ends.iter().filter(|(moment, _)| is(*moment)) {
            if self.lives.strike(*end) {
                note(&self.fired, &format!("{end:?}"), &moment.name());
            }
        }
    }
}

impl Stage {
    /// The peers, with their parts learnt.
    fn set(schedule: Schedule, fired: &Fired) -> Stage {
        let lives = Arc::new(Lives::default());
        let watcher = Watcher {
            ends: schedule.ends.clone(),
            lives: lives.clone(),
            fired: fired.clone(),
        };
        let stumbled = Arc::new(Mutex::default());
        let discord = Discord::start();
        discord.world().interval = schedule.beat;
        let stage = Stage {
            telegram: Telegram::start(),
            sink: sink(&schedule, &watcher),
            model: model(&schedule, &watcher, &stumbled),
            discord,
            lives,
            stumbled,
            schedule,
        };
        stage.teach(&watcher);
        stage
    }

    fn teach(&self, watcher: &Watcher) {
        let (faults, own) = (self.schedule.telegram.clone(), watcher.clone());
        self.telegram.script(move |method, nth, _| {
            own.pass(|at| matches!(at, Moment::Telegram(known, n) if known == method && n == nth));
            let fault = faults
                .iter()
                .find(|(known, n, _)| *known == method && *n == nth);
            fault.map(|(_, _, fault)| {
                note(&own.fired, method, fault);
                fault.clone()
            })
        });
        let (faults, own) = (self.schedule.socket.clone(), watcher.clone());
        self.discord.socket_script(move |at, nth| {
            own.pass(|moment| moment == Moment::Socket(at, nth));
            let fault = faults
                .iter()
                .find(|(known, n, _)| *known == at && *n == nth);
            fault.map(|(_, _, fault)| {
                note(&own.fired, &format!("{at:?}"), fault);
                fault.clone()
            })
        });
        let (faults, own) = (self.schedule.rest.clone(), watcher.clone());
        self.discord.script(move |route, nth, _| {
            own.pass(|at| matches!(at, Moment::Rest(known, n) if known == route && n == nth));
            let fault = faults
                .iter()
                .find(|(known, n, _)| *known == route && *n == nth);
            fault.map(|(_, _, fault)| {
                note(&own.fired, route, fault);
                fault.clone()
            })
        });
    }

    fn site(&self) -> Site {
        let mut site = site(&self.model.url(), &self.sink.url());
        site.model()["parallel"] = json!(4);
        site.config["request_timeout"] = json!("4s");
        bots(&mut site, &self.telegram.url(), &self.discord.url());
        if self.schedule.finest {
            site.env.push(("KORVUN_LOG".to_owned(), "debug".into()));
        }
        site
    }

    /// How many answers people have seen on a channel.
    fn seen(&self, channel: Channel) -> usize {
        match channel {
            Channel::Telegram => self.telegram.sent().len(),
            Channel::Discord => self.discord.sent().len(),
            Channel::Webhook => self.sink.deliveries().len(),
        }
    }

    /// Says all that is to be said on a channel, one after the other.
    fn speak(&self, channel: Channel, site: &Site, watcher: &Watcher) {
        let says = self
            .schedule
            .says
            .iter()
            .filter(|say| say.channel == channel);
        let mut poster = Poster::new(site.webhook, WEBHOOK_TOKEN);
        for (n, say) in says.enumerate() {
            let patient = Instant::now();
            while self.seen(channel) + say.ahead < n && patient.elapsed() < PATIENCE {
                thread::sleep(Duration::from_millis(5));
            }
            match channel {
                Channel::Telegram => {
                    self.telegram
                        .say(say.conversation.parse().expect("a number"), &say.text);
                }
                Channel::Discord => {
                    // Without a session there is nobody whom Discord would tell.
                    self.discord
                        .wait_until("session", REST_WITHIN, |world| world.live.clone());
                    self.discord.say(&say.conversation, &say.text);
                }
                Channel::Webhook => {
                    post(&mut poster, say);
                    watcher.pass(|moment| moment == Moment::Committed(n + 1));
                }
            }
        }
    }

    /// Waits until nothing is open any more.
    fn rest(&self, database: &std::path::Path, said: &dyn Fn() -> String) {
        let until = Instant::now() + REST_WITHIN;
        loop {
            let open = match Rows::read(database) {
                Ok(rows) => self.open(&rows),
                Err(error) => Some(format!("the database: {error}")),
            };
            let Some(open) = open else { return };
            assert!(Instant::now() < until, "no rest: {open}{}", said());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What is not over yet.
    fn open(&self, rows: &Rows) -> Option<String> {
        if self.telegram.pending() > 0 {
            return Some("updates that were not acknowledged".to_owned());
        }
        let world = self.discord.world();
        let Some(live) = world.live.as_ref().filter(|_| world.line.is_some()) else {
            return Some("no session with Discord".to_owned());
        };
        let told = world
            .sessions
            .get(live)
            .into_iter()
            .flat_map(|known| known.events.values());
        let told: Vec<String> = told.cloned().collect();
        drop(world);
        let heard = |say: &&Say| rows.with_text(&say.text).next().is_some();
        let mut says = self.schedule.says.iter();
        let unheard =
            says.find(|say| !heard(say) && told.iter().any(|event| event.contains(&say.text)));
        match unheard {
            Some(say) => Some(format!("{say:?} was told and is not stored")),
            None => rows.open(),
        }
    }
}

/// Posts until it is acknowledged, with a key.
fn post(poster: &mut Poster, say: &Say) {
    let until = Instant::now() + REST_WITHIN;
    loop {
        match poster.say(&say.conversation, &say.text, Some(&say.text)) {
            Ok(_) => return,
            Err(error) => assert!(Instant::now() < until, "the webhook refuses: {error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn sink(schedule: &Schedule, watcher: &Watcher) -> Sink {
    let (faults, own) = (schedule.sink.clone(), watcher.clone());
    Sink::answering(move |_, before| {
        own.pass(|moment| moment == Moment::Delivery(before + 1));
        let fault = faults.iter().find(|(n, _)| *n == before + 1);
        fault.map_or(Reply::status(200), |(_, reply)| {
            note(&own.fired, "delivery", reply);
            reply.clone()
        })
    })
}

fn model(schedule: &Schedule, watcher: &Watcher, stumbled: &Arc<Mutex<BTreeSet<String>>>) -> Model {
    let (faults, own, stumbled) = (schedule.model.clone(), watcher.clone(), stumbled.clone());
    let count = AtomicUsize::new(0);
    Model::start(move |ask| {
        let words = answer(&ask.text);
        let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
        own.pass(|moment| moment == Moment::Ask(nth));
        let Some((_, stumble)) = faults.iter().find(|(n, _)| *n == nth) else {
            return Play::SayAfter(Duration::from_millis(5), words);
        };
        note(&own.fired, "model", stumble);
        stumbled.lock().expect("stumbled").insert(ask.text.clone());
        Play::Do(match stumble {
            Stumble::Status(status) => Reply::json(*status, &json!({"error": "it stumbles"})),
            Stumble::Close => Reply::Close,
            Stumble::Hang => Reply::Hang,
            Stumble::Empty => ollama("tiny", " \n "),
            Stumble::Odd => Reply::json(200, &json!(["odd"])),
            Stumble::Drip(pause) => {
                let body = json!({"model": "tiny", "done": true, "message": {"role": "assistant", "content": words}}).to_string();
                let head = format!("HTTP/1.1 200 x\r\nContent-Length: {}\r\n\r\n", body.len());
                Reply::Drip((head + &body).into_bytes(), *pause)
            }
        })
    })
}

/// Plays a seed and judges it. A rule that was broken fails it.
pub fn play(seed: u64, fired: &Fired) {
    let stage = Stage::set(Schedule::of(seed), fired);
    let site = stage.site();
    let watcher = Watcher {
        ends: stage.schedule.ends.clone(),
        lives: stage.lives.clone(),
        fired: fired.clone(),
    };
    let gone = || {
        stage.telegram.client_gone(REST_WITHIN);
        stage.discord.client_gone(REST_WITHIN);
    };
    let (daemon, said) = thread::scope(|scope| {
        let raising = scope.spawn(|| stage.lives.raise(&site, gone));
        let finisher = Finisher(&stage.lives);
        let played = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|scope| {
                for channel in Channel::ALL {
                    let (stage, site, watcher) = (&stage, &site, &watcher);
                    scope.spawn(move || stage.speak(channel, site, watcher));
                }
            });
            let mut lives = None;
            // A process that was ended at rest takes a moment to come to it again.
            while lives != Some(stage.lives.spare()) || lives.is_none() {
                lives = Some(stage.lives.spare());
                stage.rest(&site.database(), &String::new);
            }
        }));
        drop(finisher);
        let raised = raising.join();
        match (played, raised) {
            (Err(panic), raised) => {
                if let Ok((daemon, said)) = raised {
                    eprintln!("--- seed {seed}: what it said ---\n{said}{}", daemon.kill());
                }
                resume_unwind(panic)
            }
            (Ok(()), Err(panic)) => resume_unwind(panic),
            (Ok(()), Ok(raised)) => raised,
        }
    });
    judge(&stage, &site, daemon, said, fired);
}

fn judge(stage: &Stage, site: &Site, daemon: Daemon, said: String, fired: &Fired) {
    verdict::connected(&daemon);
    let channels = daemon.admin("GET", "/api/channels", None).json();
    let (status, log) = daemon.stop();
    let log = said + &log;
    let judged = catch_unwind(AssertUnwindSafe(|| {
        assert!(status.success(), "{status}");
        verdict::quiet(&log);
        let rows = Rows::read(&site.database()).expect("read the database");
        verdict::stored(stage, &rows, &log);
        let (due, again) = verdict::shown(stage, &rows);
        verdict::counted(stage, &rows, &channels, &log);
        let mut fired = fired.lock().expect("fired");
        *fired.entry(ANSWERS.to_owned()).or_default() += due;
        *fired.entry(AGAIN.to_owned()).or_default() += again;
    }));
    if let Err(panic) = judged {
        eprintln!("--- seed {}: what it said ---\n{log}", stage.schedule.seed);
        resume_unwind(panic);
    }
}
