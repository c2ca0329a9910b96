//! The engine with agent brains inside this process: real configuration, real assembly, real store;
//! models that a test plays.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use korvun::base::clock::{Clock, Deadline, SystemClock};
use korvun::channel::port::Intake;
use korvun::config::check::{check, Surroundings};
use korvun::config::secrets::Secrets;
use korvun::daemon::assemble::{self, Writing};
use korvun::daemon::load::catalogue;
use korvun::domain::completion::{Completion, Failure, Lane, ModelFacts, Prompt};
use korvun::domain::ids::{ChannelName, Conversation, MessageId};
use korvun::domain::limits::Limits;
use korvun::domain::message::{ChatKind, Inbound, Language};
use korvun::engine::setup::{LiveBrain, Setup};
use korvun::engine::Engine;
use korvun::net::cancel::Cancel;
use korvun::net::http::Wire;
use korvun::net::names::Names;
use korvun::provider::Provider;
use korvun::store::{AuditedCall, Place, State, Store};
use korvun::tool::Forbidden;
use korvun::watch::Watch;
use serde_json::Value;

/// A model that a test plays: it is given every prompt.
pub struct Played {
    lane: Lane,
    play: Box<dyn Fn(&Prompt) -> Completion + Send + Sync>,
}

impl Played {
    pub fn new(
        lane: Lane,
        play: impl Fn(&Prompt) -> Completion + Send + Sync + 'static,
    ) -> Arc<Played> {
        let play = Box::new(play);
        Arc::new(Played { lane, play })
    }
}

impl fmt::Debug for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Played")
    }
}

impl Provider for Played {
    fn chat(&self, prompt: &Prompt, _: Deadline, _: &Cancel) -> Result<Completion, Failure> {
        Ok((self.play)(prompt))
    }

    fn lane(&self, _: Deadline, _: &Cancel) -> Result<Lane, Failure> {
        Ok(self.lane)
    }

    fn known(&self) -> Option<ModelFacts> {
        None
    }

    fn look(&self, _: Deadline, _: &Cancel) -> Result<ModelFacts, Failure> {
        Ok(ModelFacts::default())
    }

    fn warm_up(&self, _: Deadline, _: &Cancel) -> Result<(), Failure> {
        Ok(())
    }
}

/// Plain words of a model.
pub fn words(text: &str) -> Completion {
    Completion {
        text: text.to_owned(),
        ..Completion::default()
    }
}

/// The engine and what it is made of.
pub struct Lab {
    pub engine: Engine,
    pub store: Arc<Store>,
    pub watch: Watch,
    clock: Arc<dyn Clock>,
    wire: Wire,
    limits: Limits,
}

/// Names that a test looks up in a list that it may change.
#[derive(Debug, Default)]
pub struct Changing(pub Mutex<BTreeMap<String, Vec<std::net::IpAddr>>>);

impl Names for Changing {
    fn addresses(&self, name: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        let known = self.0.lock().expect("names").get(name).cloned();
        known.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::NotFound, "not in the list"))
    }
}

impl Lab {
    /// A lab whose first configuration is `config`.
    pub fn new(config: &Value, names: Arc<dyn Names>, model: Arc<dyn Provider>) -> Lab {
        let limits = Limits::default();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let watch = Watch::new(clock.clone(), &limits);
        let store = Store::open(&Place::Memory, &limits, clock.clone()).expect("a store");
        let store = Arc::new(store);
        let wire = Wire::with_names(None, &limits, clock.clone(), names);
        let setup = setup(
            config,
            &wire,
            &watch,
            &clock,
            &limits,
            &store,
            &model,
            |_| {},
        );
        let engine = Engine::new(setup, store.clone(), watch.clone(), clock.clone(), &limits);
        Lab {
            engine,
            store,
            watch,
            clock,
            wire,
            limits,
        }
    }

    /// Puts a configuration in force; its brains ask `model`, and `change` may change them.
    pub fn load(&self, config: &Value, model: &Arc<dyn Provider>, change: impl Fn(&mut LiveBrain)) {
        let setup = setup(
            config,
            &self.wire,
            &self.watch,
            &self.clock,
            &self.limits,
            &self.store,
            model,
            change,
        );
        self.engine.swap(setup);
    }

    /// Says something; the message's id.
    pub fn say(&self, channel: &str, chat: ChatKind, id: &str, text: &str) -> MessageId {
        let accepted = self.engine.accept(Inbound {
            conversation: Conversation::new(&ChannelName::new(channel), id),
            dedup: None,
            sender_id: "1".to_owned(),
            sender_name: "Ana".to_owned(),
            text: text.to_owned(),
            attachment: None,
            language: Language::En,
            chat,
            reply_to: None,
        });
        accepted.expect("accepted").id().clone()
    }

    /// Waits for the end of a message; its state and answer.
    pub fn answer(&self, id: &MessageId) -> (State, String) {
        let began = Instant::now();
        loop {
            let found = self
                .store
                .message(id)
                .expect("the store")
                .expect("the message");
            if let Some(answer) = found.answer {
                return (found.state, answer.text);
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "no answer: {found:?}"
            );
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// The audit of a brain, the oldest first.
    pub fn audit(&self, brain: &str) -> Vec<AuditedCall> {
        let mut rows = self.store.recent_calls(brain, 200).expect("the audit");
        rows.reverse();
        rows
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.engine.hurry();
        self.engine.stop();
        self.store.close();
    }
}

#[allow(clippy::too_many_arguments)]
fn setup(
    config: &Value,
    wire: &Wire,
    watch: &Watch,
    clock: &Arc<dyn Clock>,
    limits: &Limits,
    store: &Arc<Store>,
    model: &Arc<dyn Provider>,
    change: impl Fn(&mut LiveBrain),
) -> Setup {
    let surroundings = Surroundings {
        directory: "/".into(),
        ..Surroundings::default()
    };
    let text = config.to_string();
    let found = check(
        text.as_bytes(),
        Path::new("/korvun.json"),
        &catalogue(),
        &surroundings,
    );
    let mut plan = found
        .plan
        .unwrap_or_else(|| panic!("{:?}\n{text}", found.problems));
    // Nobody is dialled: what comes in is said by the test.
    plan.channels.clear();
    let tools = assemble::Tools {
        secrets: &Secrets::default(),
        wire,
        watch,
        clock,
        limits,
        store: Some(store),
        forbidden: &Forbidden::new(Vec::new(), None),
        skills: &BTreeMap::new(),
    };
    let mut setup = assemble::setup(plan, &tools, Writing::Mounted).expect("a setup");
    for live in setup.brains.values_mut() {
        let live = Arc::get_mut(live).expect("nobody else has it");
        for provider in live.providers.iter_mut().flatten() {
            *provider = model.clone();
        }
        change(live);
    }
    setup
}
