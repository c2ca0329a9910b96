//! Metrics in the text format 0.0.4 of Prometheus. Pure.

use std::fmt::Write;

use super::process::Process;
use crate::watch::metrics::{Family, Kind, Snapshot, Value};

/// Every family that has a series, then the figures of the process.
pub(super) fn render(snapshot: &Snapshot, process: &Process) -> String {
    let mut out = String::with_capacity(8 * 1024);
    for (family, series) in snapshot {
        if series.is_empty() {
            continue;
        }
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        header(&mut out, family.name, family.help, kind);
        for (labels, value) in series {
            one(&mut out, family, labels, value);
        }
    }
    for (name, help, kind, value) in [
        (
            "process_resident_memory_bytes",
            "Bytes in memory.",
            "gauge",
            process.resident_bytes,
        ),
        (
            "process_cpu_seconds_total",
            "Processor time in user and kernel mode.",
            "counter",
            process.cpu_seconds,
        ),
        (
            "process_open_fds",
            "Open descriptors.",
            "gauge",
            process.open_fds,
        ),
        (
            "process_start_time_seconds",
            "When the process was started, in seconds since 1970.",
            "gauge",
            process.start_seconds,
        ),
    ] {
        if let Some(value) = value {
            header(&mut out, name, help, kind);
            line(&mut out, name, "", &[], &[], None, value);
        }
    }
    out
}

fn header(out: &mut String, name: &str, help: &str, kind: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a String cannot fail, here and below.
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn one(out: &mut String, family: &Family, labels: &[String], value: &Value) {
    let names = family.labels;
    let mut add = |suffix, bound: Option<&str>, value| {
        line(out, family.name, suffix, names, labels, bound, value);
    };
    match value {
        Value::Count(count) => add("", None, *count as f64),
        Value::Level(level) => add("", None, *level),
        Value::Spans {
            buckets,
            count,
            sum,
        } => {
            if let Kind::Histogram(bounds) = family.kind {
                for (bound, below) in bounds.iter().zip(buckets) {
                    add("_bucket", Some(&number(*bound)), *below as f64);
                }
            }
            add("_bucket", Some("+Inf"), *count as f64);
            add("_sum", None, *sum);
            add("_count", None, *count as f64);
        }
    }
}

fn line(
    out: &mut String,
    name: &str,
    suffix: &str,
    names: &[&str],
    labels: &[String],
    bound: Option<&str>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let pairs = names.iter().copied().zip(labels.iter().map(String::as_str));
    for (index, (label, text)) in pairs.chain(bound.map(|bound| ("le", bound))).enumerate() {
        out.push(if index == 0 { '{' } else { ',' });
        let text = text
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let _ = write!(out, "{label}=\"{text}\"");
    }
    if !names.is_empty() || bound.is_some() {
        out.push('}');
    }
    let _ = writeln!(out, " {}", number(value));
}

/// A number as Go reads it.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::metrics::{self, Metrics};
    use std::time::Duration;

    #[test]
    fn each_kind_is_written_as_the_format_says() {
        let metrics = Metrics::default();
        metrics.add(&metrics::DEDUPED, &["a\\b\"c\nd"], 3);
        metrics.set(&metrics::CHANNEL_STATE, &["webhook", "connected"], 1.0);
        for ms in [3, 70_000] {
            metrics.observe(&metrics::GATEWAY_OVERHEAD, &[], Duration::from_millis(ms));
        }
        let process = Process {
            open_fds: Some(12.0),
            ..Process::default()
        };
        let text = render(&metrics.snapshot(), &process);
        let expected = "\
# HELP korvun_channel_state 1 for the state that a channel is in, else 0.
# TYPE korvun_channel_state gauge
korvun_channel_state{channel=\"webhook\",state=\"connected\"} 1
# HELP korvun_deduped_total Repeated messages recognised.
# TYPE korvun_deduped_total counter
korvun_deduped_total{channel=\"a\\\\b\\\"c\\nd\"} 3
# HELP korvun_gateway_overhead_seconds The part of a run in which no model was being asked.
# TYPE korvun_gateway_overhead_seconds histogram
korvun_gateway_overhead_seconds_bucket{le=\"0.001\"} 0
korvun_gateway_overhead_seconds_bucket{le=\"0.0025\"} 0
korvun_gateway_overhead_seconds_bucket{le=\"0.005\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.01\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.025\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.05\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.1\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.25\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"0.5\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"1\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"5\"} 1
korvun_gateway_overhead_seconds_bucket{le=\"+Inf\"} 2
korvun_gateway_overhead_seconds_sum 70.003
korvun_gateway_overhead_seconds_count 2
# HELP process_open_fds Open descriptors.
# TYPE process_open_fds gauge
process_open_fds 12
";
        assert_eq!(text, expected);
    }
}
