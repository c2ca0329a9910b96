//! The process: performs the steps of the machines, as the engine's threads do, and loses all of it
//! when it is killed. Nothing is decided here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use korvun::base::clock::Clock;
use korvun::channel::port::Refusal;
use korvun::domain::cursor::Cursor;
use korvun::domain::excuse::Excuse;
use korvun::domain::ids::{ChannelName, Conversation, Endpoint};
use korvun::domain::lanes::{After, Grant, Lanes, Needs, Step};
use korvun::domain::message::{Inbound, Outcome, Role};
use korvun::domain::work::{self, Attempt, Facts, First, Message, Over, Process, STORE_BACKOFF};
use korvun::store::{Accepted, Audience, Claim, Finish, Finished, Reply, Work};

use super::books::Mark;
use super::plan::{Model, Platform, Words};
use super::sending::{Line, Sent};
use super::world::World;
use super::{discord, telegram};

/// Between two rounds of the janitor.
const ROUND: Duration = Duration::from_secs(60);

/// Something that is due in a process, or reaches it.
#[derive(Clone, Debug)]
pub enum Inside {
    /// Marks have waited long enough for company.
    Flush,
    Janitor,
    /// Somebody has waited too long for a place.
    LanesDue,
    /// A run thread takes up this job.
    Begin(u64),
    /// Its models have come to something.
    Answered(u64),
    /// Its ending is to be stored.
    Store(u64),
    /// It is over.
    Over(u64, Over),
    /// The stop is out of patience with runs, then with deliveries.
    StopRuns,
    StopDeliveries,
    /// A delivery is due.
    Dispatch(Platform),
    /// What became of a part.
    Part(Platform, i64, u64, Sent),
    /// The outbox has been read.
    Loaded(
        Platform,
        Vec<(i64, Conversation, korvun::base::clock::UnixMs)>,
        bool,
    ),
    Telegram(telegram::Inside),
    Discord(discord::Inside),
}

/// All that is in the memory of one process.
pub struct Life {
    pub lanes: Lanes,
    lanes_armed: Option<Duration>,
    /// Rights to runs that are out.
    granted: Vec<Grant>,
    jobs: BTreeMap<u64, Job>,
    waiting: VecDeque<u64>,
    last_job: u64,
    /// Run threads at work.
    busy: usize,
    pub closing: bool,
    /// Raised when runs are cut.
    pub stopping: bool,
    forgiven: BTreeSet<i64>,
    pub lines: BTreeMap<Platform, Line>,
    pub telegram: telegram::Listener,
    pub discord: discord::Listener,
    /// Whether the store has failed since the janitor's last round: then it may find something.
    pub excused: bool,
}

struct Job {
    grant: Grant,
    work: Option<Work>,
    overdue: bool,
    stage: Stage,
    ending: Option<Finish>,
    tries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Queued,
    Asking,
    Storing,
    Resting(Over),
}

impl World {
    /// A new process opens the store, takes up what is left, and starts its channels.
    pub fn start(&mut self) {
        if self.life.is_some() {
            return;
        }
        self.lives += 1;
        self.books.recover();
        let now = self.clock.now();
        let mut lanes = Lanes::new(&self.plan.limits);
        let places = self.plan.endpoints.clone();
        let capacities = places
            .iter()
            .enumerate()
            .map(|(nth, &places)| (endpoint(nth), places));
        let steps = lanes.set_capacities(capacities, now);
        self.life = Some(Life {
            lanes,
            lanes_armed: None,
            granted: Vec::new(),
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            last_job: 0,
            busy: 0,
            closing: false,
            stopping: false,
            forgiven: BTreeSet::new(),
            lines: BTreeMap::new(),
            telegram: telegram::Listener::new(&self.plan.limits),
            discord: discord::Listener::new(&self.plan.limits, now),
            excused: true,
        });
        self.perform(steps);
        for platform in Platform::BOTH {
            self.attach(platform);
        }
        self.refill();
        self.later(ROUND, Inside::Janitor);
        self.later(Duration::ZERO, Inside::Telegram(telegram::Inside::Step));
        self.later(Duration::ZERO, Inside::Discord(discord::Inside::Wake(0)));
    }

    pub fn inside(&mut self, inside: Inside) {
        match inside {
            Inside::Flush => self.flush(),
            Inside::Janitor => {
                self.refill();
                self.later(ROUND, Inside::Janitor);
            }
            Inside::LanesDue => {
                let now = self.clock.now();
                let life = self.living();
                life.lanes_armed = None;
                let steps = life.lanes.due(now);
                self.perform(steps);
            }
            Inside::Begin(job) => self.begin(job),
            Inside::Answered(job) => self.answered(job),
            Inside::Store(job) => self.store(job),
            Inside::Over(job, over) => {
                let process = self.goes_on();
                self.over(job, over, process);
            }
            Inside::StopRuns => self.stop_runs(),
            Inside::StopDeliveries => self.stop_deliveries(),
            Inside::Dispatch(platform) => self.dispatch(platform),
            Inside::Part(platform, row, flight, sent) => self.part(platform, row, flight, sent),
            Inside::Loaded(platform, rows, more) => self.loaded(platform, rows, more),
            Inside::Telegram(inside) => self.in_telegram(inside),
            Inside::Discord(inside) => self.in_discord(inside),
        }
    }

    /// The process, which lives wherever this is asked.
    pub fn living(&mut self) -> &mut Life {
        self.life.as_mut().expect("a process that lives")
    }

    fn goes_on(&mut self) -> Process {
        match self.living().stopping {
            true => Process::Stops,
            false => Process::GoesOn,
        }
    }

    pub fn mark(&mut self, mark: Mark) {
        if self.books.mark(mark) {
            self.later(Duration::from_millis(200), Inside::Flush);
        }
    }

    fn flush(&mut self) {
        self.mood();
        if self.books.marks_wait() && self.books.flush().is_err() {
            self.later(Duration::from_secs(2), Inside::Flush);
        }
    }

    /// What a conversation's runs need: a seed's conversations belong to several brains.
    fn needs(&self, conversation: &Conversation) -> Needs {
        let number: usize = conversation.id.bytes().map(usize::from).sum();
        let all = self.plan.endpoints.len();
        let mut endpoints = vec![endpoint(number % all)];
        if number % 3 == 0 && all > 1 {
            endpoints.push(endpoint((number + 1) % all));
        }
        Needs {
            endpoints: endpoints.into(),
            answer_within: self.plan.answer_within,
        }
    }

    /// Takes a message in, as the engine does.
    pub fn take(&mut self, inbound: &Inbound, cursor: Option<&Cursor>) -> Result<(), Refusal> {
        if self.living().closing {
            return Err(Refusal::Full);
        }
        let now = self.clock.now();
        let conversation = inbound.conversation.clone();
        let needs = self.needs(&conversation);
        let grant = self.living().lanes.begin(&conversation, &needs, now);
        if let Some(grant) = &grant {
            self.holds(grant.clone());
        }
        let claim = match grant {
            Some(_) => Claim::IfIdle,
            None => Claim::No,
        };
        self.mood();
        let mut accepted = self.books.accept(inbound, cursor, claim);
        let (work, after) = match &mut accepted {
            Ok(Accepted::New { work, .. }) => (work.take(), After::Waiting),
            _ => (None, After::Idle),
        };
        match (grant, work) {
            (Some(grant), Some(work)) => self.push(grant, Some(work), false),
            (grant, _) => {
                if let Some(grant) = &grant {
                    self.holds_no_more(grant);
                }
                let lanes = &mut self.living().lanes;
                let steps = lanes.not_begun(grant.as_ref(), &conversation, after, &needs, now);
                self.perform(steps);
            }
        }
        match accepted {
            Ok(Accepted::Busy { outgoing, .. }) => {
                self.send(outgoing);
                Ok(())
            }
            Ok(Accepted::New { .. } | Accepted::Duplicate { .. } | Accepted::Answered { .. }) => {
                Ok(())
            }
            Ok(Accepted::Full) => Err(Refusal::Full),
            Ok(Accepted::Crowded) => Err(Refusal::Crowded),
            Err(_) => Err(Refusal::Store),
        }
    }

    /// Keeps account of who holds which places.
    fn holds(&mut self, grant: Grant) {
        let life = self.living();
        let doubled = life
            .granted
            .iter()
            .any(|other| other.conversation == grant.conversation);
        life.granted.push(grant.clone());
        let mut used: BTreeMap<Endpoint, u32> = BTreeMap::new();
        for endpoint in life.granted.iter().flat_map(|grant| grant.endpoints.iter()) {
            *used.entry(endpoint.clone()).or_default() += 1;
        }
        if doubled {
            self.fail(format!("two runs at once in {}", grant.conversation));
        }
        for (nth, &places) in self.plan.endpoints.clone().iter().enumerate() {
            let used = used.get(&endpoint(nth)).copied().unwrap_or(0);
            if used > places {
                self.fail(format!("{used} runs at an endpoint of {places} places"));
            }
        }
    }

    fn holds_no_more(&mut self, grant: &Grant) {
        let granted = &mut self.living().granted;
        granted.retain(|other| other.conversation != grant.conversation);
    }

    fn perform(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Run(grant) => {
                    self.holds(grant.clone());
                    self.push(grant, None, false);
                }
                Step::Excuse(grant) => {
                    self.holds(grant.clone());
                    self.push(grant, None, true);
                }
                Step::Left(conversation) => self.fail(format!("{conversation} is left waiting")),
            }
        }
        let clock = self.clock.clone();
        let life = self.living();
        let next = life.lanes.next_deadline().map(|at| clock.moment(at));
        if let Some(next) = next {
            if life.lanes_armed.is_none_or(|armed| next < armed) {
                life.lanes_armed = Some(next);
                let wait = next.saturating_sub(self.now);
                self.later(wait, Inside::LanesDue);
            }
        }
    }

    fn push(&mut self, grant: Grant, work: Option<Work>, overdue: bool) {
        let life = self.living();
        life.last_job += 1;
        let job = Job {
            grant,
            work,
            overdue,
            stage: Stage::Queued,
            ending: None,
            tries: 0,
        };
        let number = life.last_job;
        life.jobs.insert(number, job);
        life.waiting.push_back(number);
        self.pump();
    }

    /// Gives jobs to run threads that have none.
    fn pump(&mut self) {
        loop {
            let most = self.plan.limits.run_threads;
            let life = self.living();
            if life.busy >= most {
                return;
            }
            let Some(job) = life.waiting.pop_front() else {
                return;
            };
            life.busy += 1;
            let wait = self.dice.ms(0, 3);
            self.later(wait, Inside::Begin(job));
        }
    }

    fn begin(&mut self, number: u64) {
        let Some(job) = self.living().jobs.get(&number) else {
            return;
        };
        let (conversation, overdue) = (job.grant.conversation.clone(), job.overdue);
        let work = match job.work.clone() {
            Some(work) => work,
            None => {
                self.mood();
                match self.books.claim(&conversation) {
                    Ok(Some(work)) => work,
                    Ok(None) => return self.over(number, Over::Nothing, Process::GoesOn),
                    Err(_) => return self.rest(number, STORE_BACKOFF.first, Over::Unclaimed),
                }
            }
        };
        let facts = Facts {
            attempt: work.attempt,
            text: &work.text,
            attachment: work.attachment.as_deref(),
            overdue,
            moved: false,
        };
        let first = work::first(&facts, &self.plan.limits);
        let row = work.row;
        let model = self.said(&work.text).map(|said| said.words);
        if let Some(job) = self.living().jobs.get_mut(&number) {
            job.work = Some(work);
            job.stage = Stage::Asking;
        }
        match first {
            First::Excuse(excuse) => self.excuse(number, &excuse),
            First::Ask => {
                let most = self.plan.limits.attempts;
                let verdict = self.oracle.asks(row, most);
                self.judge(verdict);
                let wait = match model {
                    Some(Words::Question(Model::Answers(wait) | Model::Fails(wait))) => wait,
                    Some(Words::Question(Model::Hangs)) => Duration::MAX,
                    _ => self.dice.ms(1, 500),
                };
                let now = self.clock.now();
                let job = &self.living().jobs[&number];
                let wait = wait.min(job.grant.deadline.left(now));
                self.later(wait, Inside::Answered(number));
            }
        }
    }

    fn answered(&mut self, number: u64) {
        let Some(job) = self.living().jobs.get(&number) else {
            return;
        };
        let (Some(work), Stage::Asking) = (job.work.clone(), job.stage) else {
            return;
        };
        let words = self.said(&work.text).map(|said| said.words);
        let asked = self.oracle.asked.get(&work.row).copied().unwrap_or(0);
        match words {
            Some(Words::Question(Model::Panics(times))) if asked <= times => {
                *self.oracle.bad_ends.entry(work.row).or_default() += 1;
                let wait = STORE_BACKOFF.wait(work.attempt, u32::MAX);
                self.rest(number, wait, Over::Failed);
            }
            Some(Words::Question(Model::Kills(times))) if asked <= times && !self.calm => {
                self.kill();
            }
            Some(Words::Question(Model::Fails(_) | Model::Hangs)) => {
                self.excuse(number, &Excuse::TooLate);
            }
            _ => {
                let text = format!(
                    "answer {}",
                    work.text.trim_start_matches(|c: char| !c.is_ascii_digit())
                );
                self.end(number, Outcome::Answered, Role::Assistant, text);
            }
        }
    }

    fn excuse(&mut self, number: u64, excuse: &Excuse) {
        let outcome = match excuse {
            Excuse::SetAside => Outcome::SetAside,
            _ => Outcome::Excused,
        };
        self.end(number, outcome, Role::System, format!("sorry: {excuse:?}"));
    }

    fn end(&mut self, number: u64, outcome: Outcome, role: Role, text: String) {
        if let Some(job) = self.living().jobs.get_mut(&number) {
            job.stage = Stage::Storing;
            job.ending = Some(Finish {
                outcome,
                reply: Some(Reply {
                    role,
                    sender_name: "Korvun".to_owned(),
                    brain: None,
                    text,
                }),
                audience: Audience::Public,
            });
        }
        self.store(number);
    }

    fn store(&mut self, number: u64) {
        let Some(job) = self.living().jobs.get(&number) else {
            return;
        };
        let (Some(work), Some(ending)) = (&job.work, job.ending.clone()) else {
            return;
        };
        let row = work.row;
        self.mood();
        let (outgoing, over) = match self.books.finish(row, ending) {
            Ok(Finished::Closed {
                outgoing, waiting, ..
            }) => (outgoing, Over::Stored { waiting }),
            Ok(Finished::NotWorking { outgoing, .. }) => (outgoing, Over::Before),
            Ok(Finished::Gone) => (None, Over::Before),
            Err(_) => {
                let job = self.living().jobs.get_mut(&number).expect("known above");
                job.tries += 1;
                let wait = STORE_BACKOFF.wait(job.tries, u32::MAX);
                return match self.goes_on() {
                    Process::GoesOn => self.later(wait, Inside::Store(number)),
                    Process::Stops => self.over(number, Over::Held, Process::Stops),
                };
            }
        };
        if let Some(outgoing) = outgoing {
            self.send(outgoing);
        }
        // Between the commit and the lane's end another message may come.
        let wait = self.dice.ms(0, 1);
        self.rest(number, wait, over);
    }

    /// The run waits before it is over, unless a stop cuts it short.
    fn rest(&mut self, number: u64, wait: Duration, over: Over) {
        if let Some(job) = self.living().jobs.get_mut(&number) {
            job.stage = Stage::Resting(over);
        }
        self.later(wait, Inside::Over(number, over));
    }

    fn over(&mut self, number: u64, over: Over, process: Process) {
        let Some(job) = self.living().jobs.remove(&number) else {
            return;
        };
        let (message, after) = work::last(over, process);
        match (message, &job.work) {
            (Message::PutBack, Some(work)) => self.mark(Mark::PutBack(work.row)),
            (Message::GiveBack, Some(work)) => {
                *self.oracle.forgiven.entry(work.row).or_default() += 1;
                self.mood();
                // Where this fails, the next start takes it up.
                let _ = self.books.give_back(work.row);
            }
            _ => {}
        }
        let now = self.clock.now();
        let needs = self.needs(&job.grant.conversation);
        self.holds_no_more(&job.grant);
        let life = self.living();
        life.busy -= 1;
        let steps = life.lanes.finish(&job.grant, after, &needs, now);
        self.perform(steps);
        self.pump();
    }

    /// What the janitor does, and a start: nothing that has something to do may be forgotten. In a
    /// life whose store never failed, the janitor has nothing to find.
    fn refill(&mut self) {
        let now = self.clock.now();
        let excused = std::mem::take(&mut self.living().excused);
        for conversation in self.books.open_conversations() {
            let needs = self.needs(&conversation);
            let life = self.living();
            if !excused && !life.closing && !life.lanes.knows(&conversation) {
                self.fail(format!(
                    "{conversation} has something to do and was forgotten"
                ));
                return;
            }
            let steps = self.living().lanes.queue(&conversation, &needs, now);
            self.perform(steps);
        }
        self.refill_lines(excused);
    }

    /// SIGTERM.
    pub fn stop(&mut self) {
        if self.living().closing {
            return;
        }
        if self.told {
            println!("             asked to stop");
        }
        let life = self.living();
        life.closing = true;
        life.lanes.close();
        let (jobs, waiting) = (&mut life.jobs, &mut life.waiting);
        waiting.retain(|number| jobs.get(number).is_some_and(|job| job.work.is_some()));
        self.mood();
        if let Ok(rows) = self.books.forgive() {
            for row in &rows {
                *self.oracle.forgiven.entry(*row).or_default() += 1;
            }
            self.living().forgiven.extend(rows);
        }
        let patience = self.plan.limits.stop_runs;
        self.later(patience, Inside::StopRuns);
    }

    fn stop_runs(&mut self) {
        let life = self.living();
        life.stopping = true;
        let jobs: Vec<(u64, Stage, Option<i64>)> = life
            .jobs
            .iter()
            .map(|(number, job)| (*number, job.stage, job.work.as_ref().map(|work| work.row)))
            .collect();
        for (number, stage, row) in jobs {
            let forgiven = row.is_some_and(|row| self.living().forgiven.contains(&row));
            let over = match stage {
                Stage::Queued if row.is_none() => continue,
                Stage::Queued | Stage::Asking if forgiven => Over::Cut(Attempt::Forgiven),
                Stage::Queued | Stage::Asking => Over::Cut(Attempt::Counted),
                Stage::Storing => Over::Held,
                Stage::Resting(over) => over,
            };
            self.over(number, over, Process::Stops);
        }
        let patience = self.plan.limits.stop_deliveries;
        self.later(patience, Inside::StopDeliveries);
    }

    fn stop_deliveries(&mut self) {
        self.cut_lines();
        // Closing the store writes what waits, unless it cannot write.
        self.mood();
        let _ = self.books.flush();
        self.gone();
    }
}

fn endpoint(nth: usize) -> Endpoint {
    Endpoint::new(&format!("http://endpoint-{nth}"))
}

pub fn channel(platform: Platform) -> ChannelName {
    ChannelName::new(platform.name())
}
