//! Deliveries: the schedule of each channel, the parts in flight, and what the platforms say to them.

use std::collections::BTreeMap;
use std::time::Duration;

use korvun::base::clock::{Clock, UnixMs};
use korvun::channel::discord::buckets::{Buckets, Route};
use korvun::channel::port::Held;
use korvun::channel::telegram::flood::Flood;
use korvun::domain::delivery::{after_try, due_of_stored, Came, Mark as Fate, Try};
use korvun::domain::ids::Conversation;
use korvun::domain::message::Outgoing;
use korvun::domain::schedule::{Pushed, Rest, Schedule};

use super::books::Mark;
use super::plan::Platform;
use super::process::{channel, Inside};
use super::world::{Event, World};
use super::{discord, telegram};

/// What a platform says to a part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is there.
    Yes,
    /// Too much: wait, in this chat or everywhere.
    Limited(Duration, Held),
    /// It never will be.
    Forbidden,
    /// A fault of the platform's, or nothing was heard of it.
    Nothing,
}

/// A part on its way to a platform.
#[derive(Clone, Debug)]
pub struct Parcel {
    pub life: u64,
    pub flight: u64,
    pub conversation: Conversation,
    pub row: i64,
    pub part: u32,
    pub rank: Rank,
}

/// Whether an answer has its place behind those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    InOrder,
    /// The busy sentence goes out at once; where the store hangs, it is found later.
    AtOnce,
}

/// One channel's deliveries in the memory of a process.
pub struct Line {
    schedule: Schedule<Conversation>,
    flying: BTreeMap<i64, Flight>,
    last_flight: u64,
    armed: Option<Duration>,
    began: (UnixMs, Duration),
    stopping: bool,
    /// Whether the outbox is being read.
    reading: bool,
    limits: Known,
}

/// What is known of the platform's limits.
enum Known {
    Telegram(Flood),
    Discord(Buckets),
}

struct Flight {
    outgoing: Outgoing,
    number: u64,
    part: u32,
    parts: u32,
}

impl Line {
    /// The schedule's own time.
    fn time(&self, now: Duration) -> UnixMs {
        self.began.0.plus(now.saturating_sub(self.began.1))
    }
}

impl World {
    fn line(&mut self, platform: Platform) -> &mut Line {
        self.living()
            .lines
            .get_mut(&platform)
            .expect("a line for each platform")
    }

    /// Takes up what the store has for a channel.
    pub fn attach(&mut self, platform: Platform) {
        let limits = &self.plan.limits;
        let line = Line {
            schedule: Schedule::new(limits.delivery_scheduled),
            flying: BTreeMap::new(),
            last_flight: 0,
            armed: None,
            began: (self.clock.unix(), self.now),
            stopping: false,
            reading: false,
            limits: match platform {
                Platform::Telegram => Known::Telegram(Flood::new(limits.chats_known)),
                Platform::Discord => {
                    Known::Discord(Buckets::new(limits.chats_known, limits.discord_a_second))
                }
            },
        };
        self.living().lines.insert(platform, line);
        if self.line(platform).schedule.read() {
            let (rows, more) = self.read_outbox(platform);
            self.loaded(platform, rows, more);
        }
    }

    /// Reads the outbox; another moment passes until the rows are scheduled.
    fn load(&mut self, platform: Platform) {
        if !self.line(platform).schedule.read() {
            return;
        }
        self.mood();
        if self.books.flush().is_err() {
            self.line(platform).schedule.unread();
            return;
        }
        let (rows, more) = self.read_outbox(platform);
        self.line(platform).reading = true;
        let wait = self.dice.ms(0, 30);
        self.later(wait, Inside::Loaded(platform, rows, more));
    }

    fn read_outbox(&mut self, platform: Platform) -> (Vec<(i64, Conversation, UnixMs)>, bool) {
        let most = self.plan.limits.delivery_scheduled;
        let read = self.books.queued(&channel(platform), most + 1);
        let more = read.len() > most;
        let rows = read
            .into_iter()
            .map(|queued| (queued.row, queued.conversation, queued.next_at));
        (rows.collect(), more)
    }

    pub fn loaded(
        &mut self,
        platform: Platform,
        rows: Vec<(i64, Conversation, UnixMs)>,
        more: bool,
    ) {
        let (unix, now) = (self.clock.unix(), self.now);
        let limits = self.plan.limits.clone();
        let line = self.line(platform);
        line.reading = false;
        let time = line.time(now);
        let rows = rows.into_iter().map(|(row, conversation, next_at)| {
            let due = due_of_stored(next_at, unix, &limits);
            (
                row,
                conversation,
                time.plus(due.since(unix)).minus(unix.since(due)),
            )
        });
        line.schedule
            .load(rows, if more { Rest::More } else { Rest::None });
        if self.line(platform).schedule.wants_reading() {
            self.load(platform);
        }
        self.dispatch(platform);
    }

    /// The janitor's look at the outbox: in a life whose store never failed, it has nothing to find
    /// but what had no room.
    pub fn refill_lines(&mut self, excused: bool) {
        let open = self.books.store.counts().outbox_open;
        let scheduled: usize = Platform::BOTH
            .map(|platform| self.line(platform).schedule.len())
            .iter()
            .sum();
        if open <= scheduled as u64 {
            return;
        }
        // A reading that goes on, or rows whose end brings one.
        let comes =
            |line: &Line| line.reading || line.schedule.behind() && !line.schedule.is_empty();
        let lines = &self.living().lines;
        let behind = lines.values().any(comes);
        if !excused && !behind && !self.books.marks_wait() {
            self.fail(format!(
                "{open} answers are to be delivered, {scheduled} are scheduled"
            ));
        }
        for platform in Platform::BOTH {
            self.load(platform);
        }
    }

    /// An answer has just been stored.
    pub fn send(&mut self, outgoing: Outgoing) {
        let platform = platform_of(&outgoing.conversation);
        let now = self.now;
        let line = self.line(platform);
        let due = line.time(now);
        if line
            .schedule
            .push(outgoing.row, &outgoing.conversation, due)
            == Pushed::Kept
        {
            self.dispatch(platform);
        }
    }

    /// Sends what is due, as far as there are threads for it.
    pub fn dispatch(&mut self, platform: Platform) {
        let (now, most) = (self.now, self.plan.limits.senders);
        let line = self.line(platform);
        if line.armed.is_some_and(|at| at <= now) {
            line.armed = None;
        }
        loop {
            let line = self.line(platform);
            if line.stopping || line.flying.len() >= most {
                return;
            }
            let time = line.time(now);
            let Some(row) = line.schedule.next(time) else {
                break;
            };
            self.fly(platform, row);
        }
        let line = self.line(platform);
        let time = line.time(now);
        let Some(due) = line.schedule.next_due() else {
            return;
        };
        let at = now + due.since(time);
        if line.armed.is_none_or(|armed| at < armed) {
            line.armed = Some(at);
            let wait = at - now;
            self.later(wait, Inside::Dispatch(platform));
        }
    }

    fn fly(&mut self, platform: Platform, row: i64) {
        let Some(mut outgoing) = self.books.outgoing(row) else {
            return self.land(platform, row, None, Came::Gone);
        };
        let parts = match outgoing.text.starts_with("answer ") {
            true => self.said(&outgoing.text).map_or(1, |said| said.parts),
            false => 1,
        };
        let line = self.line(platform);
        outgoing.parts_sent = outgoing.parts_sent.max(line.schedule.parts(row));
        line.last_flight += 1;
        let flight = Flight {
            part: outgoing.parts_sent,
            number: line.last_flight,
            outgoing,
            parts,
        };
        line.flying.insert(row, flight);
        self.next_part(platform, row);
    }

    /// Sends the next part of a row in flight, or ends its flight.
    fn next_part(&mut self, platform: Platform, row: i64) {
        let now = self.clock.now();
        let time = self.now;
        let line = self.line(platform);
        let Some(flight) = line.flying.get_mut(&row) else {
            return;
        };
        if flight.part >= flight.parts {
            return self.ended(platform, row, Came::Sent);
        }
        flight.part += 1;
        let (part, number) = (flight.part, flight.number);
        let conversation = flight.outgoing.conversation.clone();
        let rank = match flight.outgoing.text.as_str() {
            "busy" => Rank::AtOnce,
            _ => Rank::InOrder,
        };
        let held = match &mut line.limits {
            Known::Telegram(flood) => flood.take(chat_of(&conversation), now).err(),
            Known::Discord(buckets) => {
                let chat = chat_of(&conversation).unsigned_abs();
                buckets.take(Route::Messages, chat, now).err()
            }
        };
        if let Some((wait, held)) = held {
            if held == Held::Channel {
                let until = line.time(time).plus(wait);
                line.schedule.hold_all(until);
            }
            return self.ended(platform, row, Came::NotYet(wait));
        }
        let parcel = Parcel {
            life: self.lives,
            flight: number,
            conversation,
            row,
            part,
            rank,
        };
        if self.lost(self.weather.lost_requests) {
            let wait = self.dice.ms(1, 30_000);
            return self.later(wait, Inside::Part(platform, row, number, Sent::Nothing));
        }
        let way = self.way();
        let event = match platform {
            Platform::Telegram => Event::Telegram(telegram::Arrival::Send(parcel)),
            Platform::Discord => Event::Discord(discord::Arrival::Send(parcel)),
        };
        self.after(way, event);
    }

    /// A platform has decided about a part; its answer goes back, or is lost.
    pub fn confirm(&mut self, platform: Platform, parcel: &Parcel, sent: Sent) {
        let lost = self.lost(self.weather.lost_answers);
        let (wait, told) = match lost {
            true => (self.dice.ms(1000, 30_000), Sent::Nothing),
            false => (self.way(), sent),
        };
        if lost && sent == Sent::Yes {
            self.oracle.confirmation(parcel.row, parcel.part, false);
        }
        let inside = Inside::Part(platform, parcel.row, parcel.flight, told);
        self.after(wait, Event::Inside(parcel.life, inside));
    }

    /// What became of a part.
    pub fn part(&mut self, platform: Platform, row: i64, number: u64, sent: Sent) {
        let now = self.clock.now();
        let time = self.now;
        let line = self.line(platform);
        let Some(flight) = line
            .flying
            .get(&row)
            .filter(|flight| flight.number == number)
        else {
            return;
        };
        let (part, chat) = (flight.part, chat_of(&flight.outgoing.conversation));
        let came = match sent {
            Sent::Yes => {
                if let Known::Telegram(flood) = &mut line.limits {
                    flood.sent(chat, now);
                }
                line.schedule.confirmed(row, part);
                self.oracle.confirmation(row, part, true);
                self.mark(Mark::Part(row, part));
                return self.next_part(platform, row);
            }
            Sent::Limited(wait, who) => {
                self.limit_heard(platform, chat, who);
                let line = self.line(platform);
                let held = match &mut line.limits {
                    Known::Telegram(flood) => flood.limited(chat, now, wait),
                    Known::Discord(buckets) => {
                        buckets.limited(Route::Messages, chat.unsigned_abs(), who, wait, now);
                        who
                    }
                };
                if held == Held::Channel {
                    let until = line.time(time).plus(wait);
                    line.schedule.hold_all(until);
                }
                Came::Again(Some(wait))
            }
            Sent::Forbidden => Came::Never,
            Sent::Nothing => Came::Again(None),
        };
        self.ended(platform, row, came);
    }

    fn ended(&mut self, platform: Platform, row: i64, came: Came) {
        let flight = self.line(platform).flying.remove(&row);
        self.land(platform, row, flight.map(|flight| flight.outgoing), came);
    }

    fn land(&mut self, platform: Platform, row: i64, outgoing: Option<Outgoing>, came: Came) {
        let now = self.clock.unix();
        let this = Try {
            queued_at: outgoing.as_ref().map_or(now, |outgoing| outgoing.queued_at),
            failed: outgoing.as_ref().map_or(0, |outgoing| outgoing.attempts),
            now,
            random: self.dice.number(),
        };
        let (fate, again) = after_try(came, &this, &self.plan.limits);
        match fate {
            Fate::Nothing => {}
            Fate::Sent => self.mark(Mark::Sent(row)),
            Fate::RetryAt(at) => {
                // The next process knows nothing but what is stored.
                if matches!(came, Came::Again(Some(wait)) if at < now.plus(wait)) {
                    self.fail(format!(
                        "answer {row} is to be tried before the time that was named"
                    ));
                }
                self.mark(Mark::Retry(row, at));
            }
            Fate::Failed => {
                self.mood();
                // Where this fails, the next start tries it again.
                let _ = self.books.failed(row);
            }
        }
        let time = self.now;
        let line = self.line(platform);
        match again {
            None => line.schedule.done(row),
            Some(wait) => {
                let at = line.time(time).plus(wait);
                line.schedule.retry(row, at);
            }
        }
        if line.schedule.wants_reading() {
            self.load(platform);
        }
        self.later(Duration::ZERO, Inside::Dispatch(platform));
    }

    /// A stop is out of patience with deliveries.
    pub fn cut_lines(&mut self) {
        for platform in Platform::BOTH {
            let line = self.line(platform);
            line.stopping = true;
            let rows: Vec<i64> = line.flying.keys().copied().collect();
            for row in rows {
                self.ended(platform, row, Came::Cut);
            }
        }
    }
}

fn platform_of(conversation: &Conversation) -> Platform {
    match conversation.channel.as_str() {
        "telegram" => Platform::Telegram,
        _ => Platform::Discord,
    }
}

/// The number of a chat.
pub fn chat_of(conversation: &Conversation) -> i64 {
    conversation.id.parse().expect("a chat's number")
}
