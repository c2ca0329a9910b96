//! What the admin API reads and does, over engine, store and board.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::admin::{
    AnswerView, Backend, BrainView, ChannelView, ConsoleMessage, ConsoleRefusal, Health,
    MessageView, ModelView, ToolSupport, ToolsView,
};
use crate::base::clock::Clock;
use crate::channel::port::{Intake, Refusal};
use crate::config::plan::Storage;
use crate::domain::brain::{Model, ToolLane};
use crate::domain::ids::{BrainName, ChannelName, Conversation, MessageId};
use crate::domain::limits::Limits;
use crate::domain::message::{ChatKind, Inbound};
use crate::engine::Engine;
use crate::provider::Provider;
use crate::store::{Delivery, Store};
use crate::watch::{metrics, Watch};

use super::load;

/// How long a commit may take before the store counts as not able to commit: a slow card needs
/// tenths of a second.
const COMMIT_SLOW: Duration = Duration::from_secs(5);

/// Tool calls that the API shows.
const RECENT: u32 = 50;

/// The operator's desk.
pub struct Desk {
    engine: Engine,
    store: Arc<Store>,
    watch: Watch,
    clock: Arc<dyn Clock>,
    disk_free_least: u64,
}

impl Desk {
    /// A desk over a running engine.
    #[must_use]
    pub fn new(
        engine: Engine,
        store: Arc<Store>,
        watch: Watch,
        clock: Arc<dyn Clock>,
        limits: &Limits,
    ) -> Desk {
        Desk {
            engine,
            store,
            watch,
            clock,
            disk_free_least: limits.disk_free_least,
        }
    }

    /// Bytes free where the database is; `None` without storage or where the disk cannot be asked.
    fn free_bytes(&self) -> Option<u64> {
        let setup = self.engine.setup();
        let Storage { path, .. } = setup.plan.storage.as_ref()?;
        let folder = path
            .parent()
            .map_or_else(|| PathBuf::from("."), PathBuf::from);
        let disk = rustix::fs::statvfs(&folder).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

impl Backend for Desk {
    fn brains(&self) -> Vec<BrainView> {
        let setup = self.engine.setup();
        let in_file_order = setup
            .plan
            .brains
            .iter()
            .filter_map(|brain| setup.brains.get(&brain.name));
        in_file_order
            .map(|live| {
                let models = live.brain.models.iter().zip(&live.providers).enumerate();
                BrainView {
                    models: models
                        .map(|(at, (model, provider))| ModelView {
                            tools: tool_support(model, provider.as_deref()),
                            state: self.watch.board.model(&live.brain.name, at),
                        })
                        .collect(),
                    brain: live.brain.clone(),
                }
            })
            .collect()
    }

    fn channels(&self) -> Vec<ChannelView> {
        let setup = self.engine.setup();
        let kinds = load::catalogue();
        let known = setup.channels.keys();
        known
            .filter_map(|name| {
                Some(ChannelView {
                    mode: kinds.channel(name.as_str()).and_then(|kind| kind.mode),
                    health: self.watch.board.channel(name)?,
                    queued: self.engine.delivery().queued(name),
                    name: name.clone(),
                })
            })
            .collect()
    }

    fn health(&self) -> Health {
        let store = self.store.health();
        let free_bytes = self.free_bytes();
        // A commit that takes this long is no commit that one can count on.
        let slow = store
            .busy_since
            .is_some_and(|since| self.clock.now().saturating_duration_since(since) > COMMIT_SLOW);
        Health {
            store_ok: store.error.is_none() && !slow,
            durable: store.durable,
            disk_ok: free_bytes.is_none_or(|free| free >= self.disk_free_least),
            free_bytes,
        }
    }

    fn measure(&self) {
        let counts = self.store.counts();
        let depth = |queue: &str, rows: u64| {
            self.watch
                .metrics
                .set(&metrics::QUEUE_DEPTH, &[queue], rows as f64);
        };
        depth("inbox", counts.inbox_open);
        depth("outbox", counts.outbox_open);
        let bytes = self.store.bytes() as f64;
        self.watch.metrics.set(&metrics::STORE_BYTES, &[], bytes);
    }

    fn console_message(&self, message: &ConsoleMessage) -> Result<MessageId, ConsoleRefusal> {
        let conversation = Conversation::new(&ChannelName::new("console"), message.id);
        if self.engine.setup().brain_of(&conversation).is_none() {
            return Err(ConsoleRefusal::NoSuchBrain);
        }
        let accepted = self.engine.accept(Inbound {
            conversation,
            dedup: message.idempotency_key.map(str::to_owned),
            sender_id: "operator".to_owned(),
            sender_name: String::new(),
            text: message.text.to_owned(),
            attachment: None,
            language: message.language,
            chat: ChatKind::Direct,
            reply_to: None,
        });
        match accepted {
            Ok(accepted) => Ok(accepted.id().clone()),
            Err(Refusal::Full | Refusal::Crowded) => Err(ConsoleRefusal::Full),
            Err(Refusal::Store) => Err(ConsoleRefusal::Store),
        }
    }

    fn message(&self, id: &MessageId) -> Result<Option<MessageView>, String> {
        let found = self.store.message(id).map_err(|error| error.to_string())?;
        Ok(found.map(|message| MessageView {
            state: message.state.word(),
            delivery: message.delivery.map(Delivery::word),
            answer: message.answer.map(|answer| AnswerView {
                message_id: answer.message_id,
                role: answer.role.word(),
                text: answer.text,
            }),
        }))
    }

    fn tools(&self, brain: &BrainName) -> Result<Option<ToolsView>, String> {
        let setup = self.engine.setup();
        let Some(live) = setup.brains.get(brain) else {
            return Ok(None);
        };
        if let Some(agent) = &live.agent {
            agent.look();
        }
        let name = brain.as_str();
        let recent = self.store.recent_calls(name, RECENT);
        let rehearsed = self.store.rehearsals(name);
        Ok(Some(ToolsView {
            brain: live.brain.clone(),
            tools: live.judged(),
            rehearsed: rehearsed.map_err(|error| error.to_string())?,
            recent: recent.map_err(|error| error.to_string())?,
        }))
    }
}

/// How a model is told of tools: as the file says, else as its provider does.
fn tool_support(model: &Model, provider: Option<&dyn Provider>) -> ToolSupport {
    match (
        model.tools,
        provider
            .and_then(Provider::known)
            .and_then(|facts| facts.tools),
    ) {
        (ToolLane::Native, _) | (ToolLane::Auto, Some(true)) => ToolSupport::Native,
        (ToolLane::Text, _) | (ToolLane::Auto, Some(false)) => ToolSupport::Text,
        (ToolLane::Auto, None) => ToolSupport::Unknown,
    }
}
