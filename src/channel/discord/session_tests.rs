//! The session under a clock of the test's own: tables of what follows what, and long random lives
//! in which the rules of the platform are checked at each step.

use super::*;

const MS: fn(u64) -> Duration = Duration::from_millis;
/// The middle of all random numbers.
const HALF: u32 = u32::MAX / 2;

fn address(path: &str) -> Address {
    Address::parse(&format!("wss://gateway.test/{path}")).unwrap()
}

fn payload(value: &Value) -> Came {
    Came::Payload(Payload::read(&value.to_string()).expect("a payload"))
}

fn hello(ms: u64) -> Came {
    payload(&json!({"op": 10, "d": {"heartbeat_interval": ms}}))
}

fn ready() -> Came {
    payload(
        &json!({"op": 0, "s": 1, "t": "READY", "d": {"session_id": "one",
        "resume_gateway_url": "wss://gateway.test/resume", "user": {"id": "9", "username": "korvun"}}}),
    )
}

fn event(seq: u64) -> Came {
    payload(&json!({"op": 0, "s": seq, "t": "MESSAGE_CREATE", "d": {"n": seq}}))
}

fn starts(remaining: u64) -> Starts {
    Starts {
        total: 1000,
        remaining,
        reset_after: Duration::from_secs(3600),
    }
}

/// A session and its clock.
struct Life {
    session: Session,
    now: Instant,
}

impl Life {
    fn new() -> Life {
        let now = Instant::now();
        Life {
            session: Session::new(&Limits::default(), now),
            now,
        }
    }

    fn step(&mut self) -> Step {
        self.session.step(self.now)
    }

    fn came(&mut self, came: Came) {
        self.session.came(came, self.now, HALF);
    }

    fn pass(&mut self, span: Duration) {
        self.now += span;
    }

    /// How long it rests now.
    fn rests(&mut self) -> Duration {
        match self.step() {
            Step::Rest(until) => until - self.now,
            step => panic!("{step:?}"),
        }
    }

    /// Goes on behind its rest.
    fn rested(&mut self) -> Step {
        let rest = self.rests();
        self.pass(rest);
        self.step()
    }

    fn reconnecting(&mut self) -> String {
        match self.step() {
            Step::Tell(ChannelState::Reconnecting, Some(why)) => why,
            step => panic!("{step:?}"),
        }
    }

    /// A session that has just begun, with a heartbeat each 40 s.
    fn live() -> Life {
        let mut life = Life::new();
        assert_eq!(life.step(), Step::Ask);
        life.came(Came::Address(address(""), starts(1000)));
        assert_eq!(life.step(), Step::Open(address("")));
        life.came(Came::Opened);
        assert_eq!(life.step(), Step::Read(life.now + HELLO_WITHIN));
        life.came(hello(40_000));
        assert_eq!(life.step(), Step::Say(Say::Identify));
        life.came(ready());
        assert_eq!(life.step(), Step::Tell(ChannelState::Connected, None));
        life
    }

    /// The same after a long time in which all was well.
    fn steady() -> Life {
        let mut life = Life::live();
        life.pass(MS(20_000));
        assert_eq!(life.step(), Step::Say(Say::Heartbeat(Some(1))));
        life.came(payload(&json!({"op": 11})));
        life
    }

    fn take(&mut self, seq: u64) {
        self.came(event(seq));
        let Step::Take(event) = self.step() else {
            panic!("nothing to take")
        };
        assert_eq!(event.seq, Some(seq));
        self.came(Came::Taken(event.seq));
    }

    /// Opens a connection for resuming, which is due, up to the greeting.
    fn resumes(&mut self, at: &Address, seq: u64) {
        let step = match self.step() {
            Step::Rest(_) => self.rested(),
            step => step,
        };
        assert_eq!(step, Step::Open(at.clone()));
        self.came(Came::Opened);
        self.came(hello(40_000));
        let session = "one".to_owned();
        assert_eq!(self.step(), Step::Say(Say::Resume { session, seq }));
    }
}

#[test]
fn the_first_heartbeat_is_spread_and_each_carries_what_was_taken() {
    let mut life = Life::live();
    let Step::Read(until) = life.step() else {
        panic!("reads")
    };
    let half = until - life.now;
    assert!((MS(19_990)..MS(20_010)).contains(&half), "{half:?}");
    life.take(7);
    life.pass(half);
    assert_eq!(life.step(), Step::Say(Say::Heartbeat(Some(7))));
    life.came(payload(&json!({"op": 11})));
    assert_eq!(life.step(), Step::Read(life.now + MS(40_000)));
    // Asked for one, it says one, and the next is due as before.
    life.came(payload(&json!({"op": 1, "d": null})));
    assert_eq!(life.step(), Step::Say(Say::Heartbeat(Some(7))));
    assert_eq!(life.step(), Step::Read(life.now + MS(40_000)));
}

#[test]
fn a_missed_acknowledgement_closes_and_resumes() {
    let mut life = Life::steady();
    life.take(5);
    life.pass(MS(40_000));
    assert_eq!(life.step(), Step::Say(Say::Heartbeat(Some(5))));
    life.pass(MS(40_000));
    // What has come in is read before the connection is given up.
    assert!(matches!(life.step(), Step::Read(until) if until <= life.now));
    life.came(Came::Nothing);
    assert_eq!(life.step(), Step::Close(4000));
    assert!(life.reconnecting().contains("not acknowledged"));
    assert!(life.rests() <= MS(1000));
    life.resumes(&address("resume"), 5);
    life.came(payload(
        &json!({"op": 0, "s": null, "t": "RESUMED", "d": {}}),
    ));
    assert_eq!(life.step(), Step::Tell(ChannelState::Connected, None));
}

#[test]
fn an_acknowledgement_that_is_late_but_there_saves_the_connection() {
    let mut life = Life::steady();
    life.pass(MS(40_000));
    assert!(matches!(life.step(), Step::Say(_)));
    life.pass(MS(41_000));
    assert!(matches!(life.step(), Step::Read(_)));
    life.came(event(2));
    assert!(matches!(life.step(), Step::Take(_)));
    life.came(Came::Taken(Some(2)));
    life.came(payload(&json!({"op": 11})));
    assert!(matches!(life.step(), Step::Say(Say::Heartbeat(Some(2)))));
    // But talk without any acknowledgement does not keep it for ever.
    life.pass(MS(52_000));
    life.came(event(3));
    assert_eq!(life.step(), Step::Close(4000));
}

#[test]
fn what_does_not_come_in_time_ends_the_connection() {
    for stage in ["Hello", "READY", "RESUMED"] {
        let mut life = match stage {
            "RESUMED" => {
                let mut life = Life::steady();
                life.came(Came::Lost(None, "cut".into()));
                life.reconnecting();
                life.resumes(&address("resume"), 1);
                life
            }
            _ => {
                let mut life = Life::new();
                assert_eq!(life.step(), Step::Ask);
                life.came(Came::Address(address(""), starts(5)));
                assert!(matches!(life.step(), Step::Open(_)));
                life.came(Came::Opened);
                if stage == "READY" {
                    life.came(hello(300_000));
                    assert!(matches!(life.step(), Step::Say(_)));
                }
                life
            }
        };
        let began = life.now;
        while let Step::Read(until) = life.step() {
            if until <= life.now {
                break;
            }
            life.now = until;
            if life.now - began >= HELLO_WITHIN && stage == "Hello" {
                break;
            }
            // A heartbeat meanwhile is no matter.
            if let Step::Say(_) = life.step() {
                life.came(payload(&json!({"op": 11})));
            }
        }
        assert!(life.now - began <= GREETING_WITHIN, "{stage}");
        // Chatter does not help.
        life.came(payload(&json!({"op": 99})));
        assert_eq!(life.step(), Step::Close(4000), "{stage}");
        assert!(life.reconnecting().contains(stage), "{stage}");
    }
}

#[test]
fn op_7_resumes_at_once() {
    let mut life = Life::steady();
    life.take(3);
    life.came(payload(&json!({"op": 7, "d": null})));
    assert_eq!(life.step(), Step::Close(4000));
    life.reconnecting();
    life.resumes(&address("resume"), 3);
    // Again and again it is not at once.
    life.came(payload(&json!({"op": 7, "d": null})));
    assert_eq!(life.step(), Step::Close(4000));
    life.reconnecting();
    assert!(life.rests() >= MS(500));
}

#[test]
fn op_9_waits_and_resumes_or_begins_anew_within_the_budget() {
    for (resumable, way) in [(true, Step::Open(address("resume"))), (false, Step::Ask)] {
        let mut life = Life::steady();
        life.came(payload(&json!({"op": 9, "d": resumable})));
        assert_eq!(life.step(), Step::Close(4000));
        life.reconnecting();
        let wait = life.rests();
        assert!((MS(1000)..=MS(5000)).contains(&wait), "{wait:?}");
        assert_eq!(life.rested(), way);
    }
    // Without a budget there is no new session before it is full again.
    let mut life = Life::steady();
    life.came(payload(&json!({"op": 9, "d": false})));
    life.step();
    life.reconnecting();
    assert_eq!(life.rested(), Step::Ask);
    life.came(Came::Address(address(""), starts(0)));
    assert!(life.reconnecting().contains("no further session"));
    assert_eq!(life.rests(), Duration::from_secs(3600));
    assert_eq!(life.rested(), Step::Ask);
}

#[test]
fn the_last_of_the_budget_is_spread_over_the_day() {
    let mut life = Life::live();
    for (remaining, least) in [(900, 5), (100, 36), (1, 3600)] {
        life.came(payload(&json!({"op": 9, "d": false})));
        life.step();
        life.reconnecting();
        let began = life.session.identified.unwrap();
        assert_eq!(life.rested(), Step::Ask);
        life.came(Came::Address(address(""), starts(remaining)));
        let step = match life.step() {
            Step::Rest(_) => life.rested(),
            step => step,
        };
        assert_eq!(step, Step::Open(address("")));
        let apart = life.now - began;
        assert!(
            apart >= Duration::from_secs(least),
            "{remaining}: {apart:?}"
        );
        life.came(Came::Opened);
        life.came(hello(300_000));
        assert_eq!(life.step(), Step::Say(Say::Identify));
    }
}

#[test]
fn each_close_code_has_its_consequence() {
    let resume = Step::Open(address("resume"));
    for (code, way) in [
        (None, Some(resume.clone())),
        (Some(1000), Some(resume.clone())),
        (Some(1006), Some(resume.clone())),
        (Some(4000), Some(resume.clone())),
        (Some(4001), Some(resume.clone())),
        (Some(4008), Some(resume.clone())),
        (Some(4242), Some(resume)),
        (Some(4007), Some(Step::Ask)),
        (Some(4009), Some(Step::Ask)),
        (Some(4004), None),
        (Some(4010), None),
        (Some(4011), None),
        (Some(4012), None),
        (Some(4013), None),
        (Some(4014), None),
    ] {
        let mut life = Life::steady();
        life.came(Came::Lost(code, "said so".into()));
        let Some(way) = way else {
            let Step::Tell(ChannelState::Failed, Some(why)) = life.step() else {
                panic!("{code:?} is fatal")
            };
            let cure = match code {
                Some(4004) => "Reset Token",
                Some(4014) => "Message Content Intent",
                Some(4010 | 4011) => "servers",
                _ => "update Korvun",
            };
            assert!(why.contains(cure), "{code:?}: {why}");
            assert_eq!(life.step(), Step::Over);
            // Nothing wakes it again.
            life.came(Came::Lost(None, String::new()));
            assert_eq!(life.step(), Step::Over);
            continue;
        };
        life.reconnecting();
        let wait = life.rests();
        assert!((MS(500)..=MS(1000)).contains(&wait), "{code:?}: {wait:?}");
        assert_eq!(life.rested(), way, "{code:?}");
    }
}

#[test]
fn the_address_for_resuming_is_given_up_and_then_the_session() {
    let mut life = Life::steady();
    life.came(Came::Lost(None, "cut".into()));
    life.reconnecting();
    for _ in 0..RESUME_TRIES {
        assert_eq!(life.rested(), Step::Open(address("resume")));
        life.came(Came::Failed("refused".into(), None));
        life.reconnecting();
    }
    // While nothing can be reached at all, the session is kept, however long.
    for _ in 0..100 {
        assert_eq!(life.rested(), Step::Ask);
        life.came(Came::Failed("no network".into(), None));
        life.reconnecting();
        assert!(life.rests() <= Duration::from_secs(30));
    }
    for _ in RESUME_TRIES..SESSION_TRIES {
        assert_eq!(life.rested(), Step::Ask);
        // A resume costs nothing of the budget.
        life.came(Came::Address(address(""), starts(0)));
        life.resumes(&address(""), 1);
        life.came(Came::Lost(Some(4000), String::new()));
        life.reconnecting();
    }
    assert_eq!(life.rested(), Step::Ask);
    life.came(Came::Address(address(""), starts(3)));
    assert!(matches!(life.step(), Step::Open(_)));
    life.came(Came::Opened);
    life.came(hello(40_000));
    assert_eq!(life.step(), Step::Say(Say::Identify));
}

#[test]
fn without_room_it_closes_and_comes_back_for_what_was_not_taken() {
    let mut life = Life::steady();
    life.take(4);
    life.came(event(5));
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        assert!(matches!(life.step(), Step::Take(_)));
        life.came(Came::Full("too many unfinished messages"));
        assert_eq!(life.step(), Step::Close(4000));
        assert_eq!(life.reconnecting(), "too many unfinished messages");
        let rest = life.rests();
        assert!(rest <= Duration::from_secs(wait) && rest >= Duration::from_secs(wait) / 2);
        life.resumes(&address("resume"), 4);
        life.came(event(5));
    }
    assert!(matches!(life.step(), Step::Take(_)));
    life.came(Came::Taken(Some(5)));
    life.came(payload(&json!({"op": 0, "s": 6, "t": "RESUMED", "d": {}})));
    assert_eq!(life.step(), Step::Tell(ChannelState::Connected, None));
}

#[test]
fn a_refused_token_and_a_named_wait_are_honoured() {
    let mut life = Life::new();
    assert_eq!(life.step(), Step::Ask);
    life.came(Came::Failed("429".into(), Some(Duration::from_secs(77))));
    life.reconnecting();
    assert_eq!(life.rests(), Duration::from_secs(77));
    assert_eq!(life.rested(), Step::Ask);
    life.came(Came::TokenRefused);
    assert!(
        matches!(life.step(), Step::Tell(ChannelState::Failed, Some(why)) if why.contains("Reset Token"))
    );
    assert_eq!(life.step(), Step::Over);
}

#[test]
fn what_is_no_ready_is_no_session() {
    let long = "x".repeat(300);
    for data in [
        json!(null),
        json!({"session_id": 7, "user": {"id": "9"}}),
        json!({"session_id": "", "user": {"id": "9"}}),
        json!({"session_id": long, "user": {"id": "9"}}),
        json!({"session_id": "one", "user": {"id": "../9"}}),
    ] {
        let mut life = Life::new();
        life.step();
        life.came(Came::Address(address(""), starts(9)));
        life.step();
        life.came(Came::Opened);
        life.came(hello(40_000));
        life.step();
        life.came(payload(&json!({"op": 0, "s": 1, "t": "READY", "d": data})));
        assert_eq!(life.step(), Step::Close(4000), "{data}");
        assert!(life.session.me().is_none());
    }
}

#[test]
fn payloads_are_read_whatever_they_are() {
    for (text, op) in [
        (r#"{"op":10,"d":{}}"#, Some(10)),
        (r#"{"op":0,"t":7,"s":"x"}"#, Some(0)),
        (r#"{"op":-1}"#, None),
        (r#"{"op":"10"}"#, None),
        ("[]", None),
        ("null", None),
        ("", None),
        ("\u{0}", None),
        (r#"{"op":10"#, None),
    ] {
        assert_eq!(Payload::read(text).map(|payload| payload.op), op, "{text}");
    }
    let deep = format!("{{\"op\":0,\"d\":{}", "[".repeat(100_000));
    assert_eq!(Payload::read(&deep), None);
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % sides
    }
}

/// What the other side of a random life knows.
#[derive(Default)]
struct Watcher {
    open: bool,
    said: Vec<Instant>,
    identified: Option<Instant>,
    budget: u64,
    taken: Option<u64>,
    over: bool,
    greeted: bool,
}

impl Watcher {
    /// Checks a step against the rules.
    fn sees(&mut self, step: &Step, now: Instant, seed: u64) {
        match step {
            Step::Say(say) => {
                assert!(self.open, "seed {seed}: said {say:?} without a socket");
                self.said.push(now);
                let recent = self.said.iter().filter(|at| now - **at < MS(60_000));
                assert!(recent.count() <= 120, "seed {seed}: too much said");
                match say {
                    Say::Identify => {
                        assert!(self.budget > 0, "seed {seed}: no budget");
                        self.budget -= 1;
                        let apart = self.identified.map_or(MS(9999), |at| now - at);
                        assert!(apart >= MS(5000), "seed {seed}: identified too soon");
                        self.identified = Some(now);
                        assert!(!std::mem::replace(&mut self.greeted, true));
                        self.taken = None;
                    }
                    Say::Resume { seq, .. } => {
                        assert_eq!(Some(*seq), self.taken, "seed {seed}");
                        assert!(!std::mem::replace(&mut self.greeted, true));
                    }
                    Say::Heartbeat(seq) => assert_eq!(*seq, self.taken, "seed {seed}"),
                }
            }
            Step::Close(code) => {
                assert!(!(1000..=1001).contains(code), "seed {seed}");
                self.open = false;
            }
            Step::Rest(until) => {
                let most = Duration::from_secs(24 * 3600);
                assert!(*until - now <= most, "seed {seed}");
            }
            Step::Read(until) => {
                assert!(self.open, "seed {seed}: reads without a socket");
                assert!(*until <= now + BEAT_MOST, "seed {seed}");
            }
            _ => {}
        }
        assert!(
            !self.over || matches!(step, Step::Over),
            "seed {seed}: {step:?}"
        );
        self.over |= matches!(step, Step::Over);
    }
}

/// Something that a platform, or nobody sane, may say.
fn anything(dice: &mut Dice, seq: &mut u64) -> Came {
    match dice.roll(16) {
        0 => hello(dice.roll(100_000)),
        1 => ready(),
        2 => payload(&json!({"op": 0, "s": null, "t": "RESUMED", "d": {}})),
        3 => payload(&json!({"op": 1, "d": null})),
        4 if dice.roll(4) == 0 => payload(&json!({"op": 7})),
        5 if dice.roll(4) == 0 => payload(&json!({"op": 9, "d": dice.roll(2) == 0})),
        6 if dice.roll(4) == 0 => {
            let codes = [1000, 1006, 4000, 4003, 4007, 4008, 4009, 4999];
            let code = codes[usize::try_from(dice.roll(8)).unwrap()];
            Came::Lost((code != 1006).then_some(code), "x".into())
        }
        7 => payload(&json!({"op": dice.roll(20), "d": [], "s": -1, "t": 3})),
        8..=10 => payload(&json!({"op": 11})),
        _ => {
            *seq += 1;
            event(*seq)
        }
    }
}

#[test]
fn no_life_breaks_a_rule_of_the_platform() {
    for seed in 1..=3000 {
        let mut dice = Dice(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut life = Life::new();
        let mut watcher = Watcher::default();
        let mut seq = 1;
        for _ in 0..400 {
            let step = life.step();
            watcher.sees(&step, life.now, seed);
            let random = u32::try_from(dice.roll(1 << 31)).unwrap() << 1;
            let came = match step {
                Step::Ask if dice.roll(4) == 0 => Came::Failed("no".into(), None),
                Step::Ask => {
                    watcher.budget = dice.roll(8);
                    Came::Address(address(""), starts(watcher.budget))
                }
                Step::Open(_) if dice.roll(4) == 0 => Came::Failed("no".into(), None),
                Step::Open(_) => {
                    watcher.open = true;
                    watcher.greeted = false;
                    watcher.said.clear();
                    Came::Opened
                }
                Step::Read(until) => match dice.roll(6) {
                    0 => {
                        life.now = until.max(life.now) + MS(1);
                        Came::Nothing
                    }
                    n => {
                        life.pass(MS(dice.roll(if n == 1 { 9000 } else { 200 })));
                        anything(&mut dice, &mut seq)
                    }
                },
                Step::Take(_) if dice.roll(30) == 0 => Came::Full("full"),
                Step::Take(event) => Came::Taken(event.seq),
                Step::Rest(until) => {
                    life.now = until;
                    continue;
                }
                Step::Over => break,
                Step::Say(_) if dice.roll(50) == 0 => Came::Lost(None, "broken".into()),
                Step::Say(_) | Step::Close(_) | Step::Tell(..) => continue,
            };
            let news = life.session.known.as_ref().map(|known| known.id.clone());
            if let Came::Lost(..) = came {
                watcher.open = false;
            }
            life.session.came(came, life.now, random);
            let known = life.session.known.as_ref();
            // What the watcher knows of the session follows what was taken in it.
            watcher.taken = match (known, news) {
                (Some(known), Some(_)) => watcher.taken.max(Some(known.seq)),
                (Some(known), None) => Some(known.seq),
                (None, _) => None,
            };
        }
    }
}

#[test]
fn a_long_outage_ends_within_the_longest_wait() {
    let mut life = Life::steady();
    life.came(Came::Lost(None, "the network is away".into()));
    let back = life.now + Duration::from_secs(600);
    loop {
        match life.step() {
            Step::Rest(until) => life.now = until,
            Step::Ask | Step::Open(_) if life.now >= back => break,
            Step::Ask | Step::Open(_) => life.came(Came::Failed("unreachable".into(), None)),
            Step::Tell(state, _) => assert_eq!(state, ChannelState::Reconnecting),
            step => panic!("{step:?}"),
        }
    }
    assert!(life.now - back <= Duration::from_secs(30));
    // The session has outlived it.
    assert!(life.session.known.is_some());
}
