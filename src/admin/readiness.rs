//! Whether Korvun is ready, and how each part is. Pure.

use serde_json::{json, Map, Value};

use super::{BrainView, ChannelView, Health};
use crate::base::clock::UnixMs;
use crate::domain::privacy;
use crate::watch::board::{ChannelState, ModelState};
use std::time::Duration;

/// A channel may look for its connection so long before that counts as not ready (contract 7).
const RECONNECTING: Duration = Duration::from_secs(60);

/// Readiness and the body of `/readyz`. Not ready: the store cannot commit, or a channel does not
/// take messages. Models do not count: one that fails gets its honest sentence.
pub(super) fn judge(
    health: &Health,
    channels: &[ChannelView],
    brains: &[BrainView],
    now: UnixMs,
) -> (bool, Value) {
    let mut ready = health.store_ok;
    let mut parts = Map::new();
    let mut part = |name: String, value| parts.insert(name, value);
    let store = json!({ "ok": health.store_ok, "durable": health.durable });
    part("store".to_owned(), store);
    let disk = json!({ "ok": health.disk_ok, "free_bytes": health.free_bytes });
    part("disk".to_owned(), disk);
    for view in channels {
        let ok = takes_messages(view, now);
        ready &= ok;
        let value = json!({
            "ok": ok,
            "state": view.health.state.word(),
            "since": view.health.since.rfc3339(),
        });
        part(format!("channel:{}", view.name), value);
    }
    for view in brains {
        let value = json!({ "ok": may_answer(view) });
        part(format!("brain:{}", view.brain.name), value);
    }
    (ready, json!({ "ready": ready, "components": parts }))
}

fn takes_messages(view: &ChannelView, now: UnixMs) -> bool {
    match view.health.state {
        ChannelState::Connected => true,
        ChannelState::Reconnecting => now.since(view.health.since) <= RECONNECTING,
        ChannelState::Starting
        | ChannelState::Conflict
        | ChannelState::Failed
        | ChannelState::Stopped => false,
    }
}

/// Whether some model of it did not fail its last attempt; one that was never asked did not.
fn may_answer(view: &BrainView) -> bool {
    privacy::eligible(&view.brain).into_iter().any(|at| {
        let known = view.models.get(at);
        known.is_some_and(|model| model.state != ModelState::Failing)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{ModelView, ToolSupport};
    use super::*;
    use crate::domain::brain::samples;
    use crate::watch::board::{ChannelHealth, Counts};

    fn channel(state: ChannelState, since: i64) -> ChannelView {
        ChannelView {
            name: "webhook".into(),
            mode: None,
            health: ChannelHealth {
                state,
                since: UnixMs(since),
                last_error: None,
                counts: Counts::default(),
            },
            queued: 0,
        }
    }

    #[test]
    fn ready_is_a_store_that_commits_and_channels_that_take_messages() {
        let health = |store_ok| Health {
            store_ok,
            durable: true,
            disk_ok: false,
            free_bytes: Some(1),
        };
        for (store_ok, state, since, ready) in [
            (true, ChannelState::Connected, 0, true),
            (false, ChannelState::Connected, 0, false),
            (true, ChannelState::Starting, 99_000, false),
            (true, ChannelState::Failed, 99_000, false),
            (true, ChannelState::Conflict, 99_000, false),
            (true, ChannelState::Stopped, 99_000, false),
            (true, ChannelState::Reconnecting, 40_000, true),
            (true, ChannelState::Reconnecting, 39_999, false),
        ] {
            let channels = [channel(state, since)];
            let (judged, body) = judge(&health(store_ok), &channels, &[], UnixMs(100_000));
            assert_eq!(judged, ready, "{state:?} since {since}");
            assert_eq!(body["ready"], ready);
            let part = &body["components"]["channel:webhook"];
            assert_eq!(part["state"], state.word());
            assert_eq!(part["ok"], ready || !store_ok);
            assert_eq!(body["components"]["store"]["ok"], store_ok);
            assert_eq!(body["components"]["disk"]["free_bytes"], 1);
        }
    }

    #[test]
    fn a_brain_is_ok_while_one_model_may_answer() {
        let mut brain = samples::brain("home");
        brain.models = vec![samples::model("ollama", "a"), samples::model("ollama", "b")];
        let health = Health {
            store_ok: true,
            durable: true,
            disk_ok: true,
            free_bytes: None,
        };
        for (states, ok) in [
            ([ModelState::Unknown, ModelState::Failing], true),
            ([ModelState::Failing, ModelState::Ok], true),
            ([ModelState::Failing, ModelState::Failing], false),
        ] {
            let view = BrainView {
                brain: brain.clone(),
                models: states
                    .map(|state| ModelView {
                        tools: ToolSupport::Unknown,
                        state,
                    })
                    .to_vec(),
            };
            let (ready, body) = judge(&health, &[], &[view], UnixMs(0));
            assert!(ready, "brains do not make it unready");
            assert_eq!(body["components"]["brain:home"]["ok"], ok);
        }
    }
}
