//! Counters, gauges and histograms, by the names that the contract fixes. One short lock guards
//! them all: small ARM machines have no 64-bit atomics. Label values come from the configuration
//! and from closed lists, never from a message, so the number of series is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::sync::lock;

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observed spans; the upper bounds of its buckets in seconds.
    Histogram(&'static [f64]),
}

/// One named family of series.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// The name that Prometheus sees.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

macro_rules! families {
    ($($id:ident $name:literal $kind:expr, [$($label:literal),*], $help:literal;)*) => {
        $(#[doc = $help] pub static $id: Family =
            Family { name: $name, help: $help, kind: $kind, labels: &[$($label),*] };)*
        /// Every family, in the order of the exposition.
        pub static ALL: &[&Family] = &[$(&$id),*];
    };
}

/// From a loopback model to a cold load on a Pi.
const CALLS: Kind = Kind::Histogram(&[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
]);
/// What Korvun itself adds: milliseconds, unless the disk hangs.
const OVERHEAD: Kind = Kind::Histogram(&[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
]);

families! {
    BUILD_INFO "korvun_build_info" Kind::Gauge, ["version"], "The running version, always 1.";
    MESSAGES_PROCESSED "korvun_messages_processed_total" Kind::Counter, ["channel"], "Messages accepted.";
    CHANNEL_STATE "korvun_channel_state" Kind::Gauge, ["channel", "state"], "1 for the state that a channel is in, else 0.";
    MESSAGES_DROPPED "korvun_channel_messages_dropped_total" Kind::Counter, ["channel", "reason"], "Messages that could not be taken.";
    MESSAGES_IGNORED "korvun_channel_messages_ignored_total" Kind::Counter, ["channel", "reason"], "Messages passed over by rule.";
    CHANNEL_RECONNECTS "korvun_channel_reconnects_total" Kind::Counter, ["channel"], "Times that a channel lost its connection and came back for another.";
    DEDUPED "korvun_deduped_total" Kind::Counter, ["channel"], "Repeated messages recognised.";
    QUEUE_DEPTH "korvun_queue_depth" Kind::Gauge, ["queue"], "Unfinished rows of inbox and outbox.";
    RUNS_IN_PROGRESS "korvun_runs_in_progress" Kind::Gauge, [], "Messages being worked on.";
    RUN_DURATION "korvun_run_duration_seconds" CALLS, ["brain", "outcome"], "From the start of a run to its end.";
    GATEWAY_OVERHEAD "korvun_gateway_overhead_seconds" OVERHEAD, [], "The part of a run in which no model was being asked.";
    PROVIDER_DURATION "korvun_provider_request_duration_seconds" CALLS, ["provider", "model", "outcome"], "One attempt at a model.";
    PROVIDER_FAILURES "korvun_provider_failures_total" Kind::Counter, ["provider", "model", "kind"], "Failed attempts at a model.";
    PROVIDER_RETRIES "korvun_provider_retries_total" Kind::Counter, ["provider", "model"], "Attempts made again after a failure that can heal.";
    TOOL_CALLS "korvun_tool_calls_total" Kind::Counter, ["brain", "tool", "channel", "outcome", "rule"], "Tool calls: executed, rehearsed, refused.";
    TOOL_DURATION "korvun_tool_call_duration_seconds" CALLS, ["tool", "outcome"], "One tool call.";
    ROUTER_ERRORS "korvun_router_errors_total" Kind::Counter, ["kind"], "Faults of Korvun's own, and deliveries given up.";
    TURNS_PERSISTED "korvun_conversation_turns_persisted_total" Kind::Counter, [], "Messages written to the store.";
    ADMIN_AUTH_FAILURES "korvun_admin_auth_failures_total" Kind::Counter, [], "Wrong admin tokens.";
    STORE_BYTES "korvun_store_bytes" Kind::Gauge, [], "Bytes of the database and its write-ahead log.";
}

#[derive(Clone, Debug)]
enum Cell {
    Count(u64),
    Level(f64),
    Spans {
        buckets: Vec<u64>,
        count: u64,
        sum: f64,
    },
}

/// One series in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A counter's.
    Count(u64),
    /// A gauge's.
    Level(f64),
    /// A histogram's: observations at or below each bound, all of them, and their sum in seconds.
    Spans {
        /// Cumulative counts, one per bound.
        buckets: Vec<u64>,
        /// All observations.
        count: u64,
        /// Their sum in seconds.
        sum: f64,
    },
}

/// The state of one family at one moment: label values and value of each series.
pub type Snapshot = Vec<(&'static Family, Vec<(Vec<String>, Value)>)>;

type Table = BTreeMap<&'static str, BTreeMap<Vec<String>, Cell>>;

/// All series. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Table>>);

impl Metrics {
    /// All families, those without labels at zero.
    #[must_use]
    pub fn new() -> Metrics {
        let metrics = Metrics::default();
        for family in ALL.iter().filter(|family| family.labels.is_empty()) {
            metrics.change(family, &[], |_| ());
        }
        metrics
    }

    /// Adds to a counter.
    pub fn add(&self, family: &'static Family, labels: &[&str], more: u64) {
        self.change(family, labels, |cell| {
            if let Cell::Count(count) = cell {
                *count = count.saturating_add(more);
            }
        });
    }

    /// Sets a gauge.
    pub fn set(&self, family: &'static Family, labels: &[&str], level: f64) {
        self.change(family, labels, |cell| *cell = Cell::Level(level));
    }

    /// Raises or lowers a gauge.
    pub fn shift(&self, family: &'static Family, labels: &[&str], by: f64) {
        self.change(family, labels, |cell| {
            if let Cell::Level(level) = cell {
                *level += by;
            }
        });
    }

    /// Adds a span to a histogram.
    pub fn observe(&self, family: &'static Family, labels: &[&str], span: Duration) {
        let Kind::Histogram(bounds) = family.kind else {
            return;
        };
        let seconds = span.as_secs_f64();
        self.change(family, labels, |cell| {
            if let Cell::Spans {
                buckets,
                count,
                sum,
            } = cell
            {
                if let Some(at) = bounds.iter().position(|bound| seconds <= *bound) {
                    buckets[at] += 1;
                }
                *count += 1;
                *sum += seconds;
            }
        });
    }

    fn change(&self, family: &'static Family, labels: &[&str], change: impl FnOnce(&mut Cell)) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let mut table = lock(&self.0);
        let series = table.entry(family.name).or_default();
        let key: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        change(series.entry(key).or_insert_with(|| match family.kind {
            Kind::Counter => Cell::Count(0),
            Kind::Gauge => Cell::Level(0.0),
            Kind::Histogram(bounds) => Cell::Spans {
                buckets: vec![0; bounds.len()],
                count: 0,
                sum: 0.0,
            },
        }));
    }

    /// Every family and series as it stands.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let table = lock(&self.0).clone();
        ALL.iter()
            .map(|family| {
                let series = table.get(family.name).into_iter().flatten();
                (
                    *family,
                    series
                        .map(|(labels, cell)| (labels.clone(), cell.value()))
                        .collect(),
                )
            })
            .collect()
    }
}

impl Cell {
    fn value(&self) -> Value {
        match self {
            Cell::Count(count) => Value::Count(*count),
            Cell::Level(level) => Value::Level(*level),
            Cell::Spans {
                buckets,
                count,
                sum,
            } => {
                let mut below = 0;
                let cumulative = buckets.iter().map(|bucket| {
                    below += bucket;
                    below
                });
                Value::Spans {
                    buckets: cumulative.collect(),
                    count: *count,
                    sum: *sum,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(metrics: &Metrics, family: &'static Family) -> Vec<(Vec<String>, Value)> {
        let found = metrics
            .snapshot()
            .into_iter()
            .find(|(each, _)| each.name == family.name);
        found.expect("a known family").1
    }

    #[test]
    fn counters_add_and_gauges_shift() {
        let metrics = Metrics::new();
        metrics.add(&DEDUPED, &["webhook"], 2);
        metrics.add(&DEDUPED, &["webhook"], 1);
        assert_eq!(
            series(&metrics, &DEDUPED),
            [(vec!["webhook".to_owned()], Value::Count(3))]
        );
        metrics.shift(&RUNS_IN_PROGRESS, &[], 2.0);
        metrics.shift(&RUNS_IN_PROGRESS, &[], -1.0);
        assert_eq!(
            series(&metrics, &RUNS_IN_PROGRESS),
            [(vec![], Value::Level(1.0))]
        );
    }

    #[test]
    fn buckets_are_cumulative_and_a_span_above_the_last_bound_still_counts() {
        let metrics = Metrics::new();
        for ms in [1, 2, 7000] {
            metrics.observe(&GATEWAY_OVERHEAD, &[], Duration::from_millis(ms));
        }
        let Value::Spans {
            buckets,
            count,
            sum,
        } = series(&metrics, &GATEWAY_OVERHEAD)[0].1.clone()
        else {
            panic!("not a histogram")
        };
        assert_eq!((buckets[0], buckets[1], buckets[10], count), (1, 2, 2, 3));
        assert!((sum - 7.003).abs() < 1e-9);
    }

    #[test]
    fn every_name_is_well_formed() {
        for family in ALL {
            assert!(family.name.starts_with("korvun_"), "{}", family.name);
            let total = family.name.ends_with("_total");
            assert_eq!(total, family.kind == Kind::Counter, "{}", family.name);
        }
    }
}
