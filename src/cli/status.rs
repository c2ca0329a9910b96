//! `korvun status`: how a running gateway is, asked of its admin server. The main thread runs it;
//! it changes nothing there and needs no token.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};

use super::command::Form;
use super::style::{Role, Style};
use super::Exit;
use crate::base::clock::{Clock, Deadline, SystemClock};
use crate::base::text::printable;
use crate::domain::address::Shield;
use crate::domain::limits::Limits;
use crate::domain::url::Url;
use crate::net::cancel::Cancel;
use crate::net::http::{Request, Resend, Wire};

/// For all questions together: the server is on this machine or in this home, and answers from
/// memory.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one answer: hundreds of brains.
const ANSWER_BYTES: usize = 1024 * 1024;

/// What a running gateway says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    ready: bool,
    components: Value,
    brains: Value,
    channels: Value,
}

/// Where to ask, for an address to listen on: what listens everywhere is asked on loopback.
#[must_use]
pub fn reachable(listening: SocketAddr) -> String {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port()).to_string()
}

/// Asks the gateway at `addr` (host and port).
///
/// Blocks: for five seconds at most.
///
/// # Errors
/// A sentence that says why there is no answer.
pub fn ask(addr: &str) -> Result<Health, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let wire = Wire::new(None, &Limits::default(), clock.clone());
    let deadline = Deadline::after(clock.now(), PATIENCE);
    let root = Url::parse(&format!("http://{addr}"))
        .map_err(|error| format!("`{addr}` is no address: {error}"))?;
    let get = |path: &str, fine: &[u16]| {
        let url = root.join(path);
        let request = Request {
            url: &url,
            json: None,
            headers: &[],
            bearer: None,
            deadline,
            cancel: &Cancel::new(),
            body_most: ANSWER_BYTES,
            resend: Resend::Once,
        };
        let answer = wire
            .client(Shield::Open)
            .send(&request)
            .map_err(|error| error.to_string())?;
        if !fine.contains(&answer.status) {
            return Err(format!("GET {url}: status {}", answer.status));
        }
        serde_json::from_slice::<Value>(&answer.body)
            .map_err(|_| format!("GET {url}: the answer is no JSON, so this is no Korvun"))
    };
    // 503 is the answer of a gateway that is not ready.
    let readiness = get("/readyz", &[200, 503])?;
    let Some(ready) = readiness["ready"].as_bool() else {
        return Err(format!("GET {root}/readyz: the answer is not Korvun's"));
    };
    Ok(Health {
        ready,
        components: readiness["components"].clone(),
        brains: get("/api/brains", &[200])?,
        channels: get("/api/channels", &[200])?,
    })
}

/// What is shown for an answer, or for none, and how the process ends.
#[must_use]
pub fn show(
    addr: &str,
    answer: &Result<Health, String>,
    form: Form,
    style: Style,
) -> (String, Exit) {
    let exit = match answer {
        Ok(health) if health.ready => Exit::Done,
        _ => Exit::Failed,
    };
    let text = match (form, answer) {
        (Form::Json, Ok(health)) => format!("{}\n", health.json(addr)),
        (Form::Json, Err(error)) => {
            format!(
                "{}\n",
                json!({ "addr": addr, "ready": false, "error": error })
            )
        }
        (Form::Text, Ok(health)) => health.text(addr, style),
        (Form::Text, Err(error)) => format!(
            "Korvun at {}: {}\n  {}\n",
            printable(addr),
            style.paint(Role::Bad, "not reachable"),
            printable(error)
        ),
    };
    (text, exit)
}

impl Health {
    fn json(&self, addr: &str) -> Value {
        json!({
            "addr": addr,
            "ready": self.ready,
            "components": self.components,
            "brains": self.brains,
            "channels": self.channels,
        })
    }

    fn text(&self, addr: &str, style: Style) -> String {
        let verdict = match self.ready {
            true => style.paint(Role::Good, "ready"),
            false => style.paint(Role::Bad, "not ready"),
        };
        let mut out = format!("Korvun at {}: {verdict}\n", printable(addr));
        out.push_str(&format!("\n{}\n", style.paint(Role::Name, "components")));
        for (name, part) in self.components.as_object().into_iter().flatten() {
            let word = match part["ok"].as_bool() {
                Some(true) => style.paint(Role::Good, "ok"),
                Some(false) => style.paint(Role::Bad, "not ok"),
                None => style.paint(Role::Odd, "unknown"),
            };
            let rest: String = part
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(key, value)| *key != "ok" && !value.is_null())
                .map(|(key, value)| format!("  {}: {}", printable(key), plain(value)))
                .collect();
            let _ = writeln!(out, "  {}  {word}{rest}", printable(name));
        }
        out.push_str(&format!("\n{}\n", style.paint(Role::Name, "brains")));
        for brain in self.brains.as_array().into_iter().flatten() {
            brain_lines(&mut out, brain, style);
        }
        out.push_str(&format!("\n{}\n", style.paint(Role::Name, "channels")));
        for channel in self.channels.as_array().into_iter().flatten() {
            channel_lines(&mut out, channel, style);
        }
        out
    }
}

fn brain_lines(out: &mut String, brain: &Value, style: Style) {
    let policy = match &brain["policy"]["kind"] {
        Value::Null => "no policy".to_owned(),
        kind => plain(kind),
    };
    let _ = writeln!(
        out,
        "  {}  {}, {}, {policy}",
        plain(&brain["name"]),
        plain(&brain["sensitivity"]),
        plain(&brain["dispatch"]),
    );
    for model in brain["models"].as_array().into_iter().flatten() {
        let state = match model["state"].as_str() {
            Some("ok") => style.paint(Role::Good, "ok"),
            Some("failing") => style.paint(Role::Bad, "failing"),
            _ => style.paint(Role::Aside, "not asked yet"),
        };
        let _ = writeln!(
            out,
            "    {}/{}  {}  {state}",
            plain(&model["provider"]),
            plain(&model["model_id"]),
            plain(&model["locality"]),
        );
    }
    for model in brain["dropped"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "    {}/{}  {}: {}",
            plain(&model["provider"]),
            plain(&model["model_id"]),
            style.paint(Role::Odd, "dropped"),
            plain(&model["reason"]),
        );
    }
}

fn channel_lines(out: &mut String, channel: &Value, style: Style) {
    let state = plain(&channel["state"]);
    let role = match state.as_str() {
        "connected" => Role::Good,
        "starting" | "reconnecting" => Role::Odd,
        _ => Role::Bad,
    };
    let counts: String = channel["counts"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, count)| format!("  {} {}", printable(name), plain(count)))
        .collect();
    let _ = writeln!(
        out,
        "  {}  {} since {}{counts}",
        plain(&channel["name"]),
        style.paint(role, &state),
        plain(&channel["since"]),
    );
    if let Some(error) = channel["last_error"]
        .as_str()
        .filter(|error| !error.is_empty())
    {
        let _ = writeln!(out, "    last error: {}", printable(error));
    }
}

/// A value as a person reads it, control characters shown and not obeyed.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text),
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => printable(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        Health {
            ready: true,
            components: json!({
                "store": { "ok": true, "durable": true },
                "channel:webhook": { "ok": false, "state": "failed", "since": null },
            }),
            brains: json!([{
                "name": "casa\u{1b}[2J", "sensitivity": "private", "dispatch": "fanout",
                "policy": { "kind": "priority", "order": [] },
                "models": [{ "provider": "ollama", "model_id": "llama3.2", "locality": "local",
                             "tools": "unknown", "state": "failing" }],
                "dropped": [{ "provider": "groq", "model_id": "big", "reason": "a cloud model" }],
                "agent": null,
            }]),
            channels: json!([{
                "type": "webhook", "name": "webhook", "mode": null, "state": "connected",
                "since": "2026-11-30T08:05:09.120Z", "last_error": "port\nin use",
                "counts": { "received": 3, "sent": 2 },
            }]),
        }
    }

    #[test]
    fn a_person_reads_health_brains_and_channels() {
        let (text, exit) = show("127.0.0.1:2112", &Ok(health()), Form::Text, Style::PLAIN);
        assert_eq!(exit, Exit::Done);
        assert_eq!(
            text,
            "Korvun at 127.0.0.1:2112: ready\n\
             \ncomponents\n  store  ok  durable: yes\n  channel:webhook  not ok  state: failed\n\
             \nbrains\n  casa\\u{1b}[2J  private, fanout, priority\n    \
             ollama/llama3.2  local  failing\n    groq/big  dropped: a cloud model\n\
             \nchannels\n  webhook  connected since 2026-11-30T08:05:09.120Z  received 3  sent 2\n    \
             last error: port\\nin use\n"
        );
    }

    #[test]
    fn a_script_reads_one_value_whatever_happened() {
        let (text, _) = show("h:1", &Ok(health()), Form::Json, Style::PLAIN);
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["ready"], true);
        assert_eq!(value["channels"][0]["counts"]["received"], 3);
        let (text, exit) = show("h:1", &Err("refused".into()), Form::Json, Style::PLAIN);
        assert_eq!(
            text,
            "{\"addr\":\"h:1\",\"ready\":false,\"error\":\"refused\"}\n"
        );
        assert_eq!(exit, Exit::Failed);
    }

    #[test]
    fn not_ready_and_odd_answers_are_shown_and_fail() {
        let unready = Health {
            ready: false,
            components: Value::Null,
            brains: json!("nonsense"),
            channels: json!([7]),
        };
        let (text, exit) = show("h:1", &Ok(unready), Form::Text, Style::PLAIN);
        assert!(text.starts_with("Korvun at h:1: not ready\n"), "{text}");
        assert_eq!(exit, Exit::Failed);
    }

    #[test]
    fn what_listens_everywhere_is_asked_on_loopback() {
        for (listening, asked) in [
            ("127.0.0.1:2112", "127.0.0.1:2112"),
            ("0.0.0.0:2112", "127.0.0.1:2112"),
            ("[::]:2112", "[::1]:2112"),
            ("192.168.1.5:80", "192.168.1.5:80"),
        ] {
            assert_eq!(reachable(listening.parse().expect("an address")), asked);
        }
    }
}
