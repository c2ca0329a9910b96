//! `/metrics` of the real daemon, after a message that was answered and one that was not.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::rig;
use crate::support::scripted::{echo, Model, Play};
use crate::support::sink::Sink;
use crate::support::site;

const SOON: Duration = Duration::from_secs(30);

/// What the parts of this build count, by the names that others rely on.
const NAMES: [&str; 21] = [
    "korvun_build_info",
    "korvun_messages_processed_total",
    "korvun_channel_state",
    "korvun_channel_messages_dropped_total",
    "korvun_channel_reconnects_total",
    "korvun_deduped_total",
    "korvun_queue_depth",
    "korvun_runs_in_progress",
    "korvun_run_duration_seconds",
    "korvun_gateway_overhead_seconds",
    "korvun_provider_request_duration_seconds",
    "korvun_provider_failures_total",
    "korvun_router_errors_total",
    "korvun_conversation_turns_persisted_total",
    "korvun_admin_auth_failures_total",
    "korvun_store_bytes",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_start_time_seconds",
    "korvun_queue_depth{queue=\"inbox\"} 0",
];

#[test]
fn metrics_have_the_promised_names_and_promtool_has_nothing_to_say() {
    let model = Model::start(|ask| match ask.text.as_str() {
        "fail" => Play::Say(String::new()),
        text => Play::Say(echo(text)),
    });
    let sink = Sink::start();
    let site = site(&model.url(), &sink.url());
    let daemon = site.start();
    for text in ["well", "fail"] {
        let id = daemon.poster().say(text, text, None).expect("accepted").id;
        sink.reply_to(&id, SOON);
        daemon.wait_for_message(&id, "delivery", "sent", SOON);
    }
    let text = daemon.admin("GET", "/metrics", None).text();
    for name in NAMES {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    for line in [
        "korvun_messages_processed_total{channel=\"webhook\"} 2",
        "kind=\"empty\"} 1",
        "korvun_conversation_turns_persisted_total 4",
        "korvun_channel_state{channel=\"webhook\",state=\"connected\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(promtool) => promtool,
        Err(error) => return rig::missing("promtool", &error.to_string()),
    };
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("promtool reads");
    drop(stdin);
    let said = promtool.wait_with_output().expect("promtool ends");
    let told =
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && told.trim().is_empty(), "{told}");
}
