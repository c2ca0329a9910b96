//! Rules of routes, storage, sessions and the admin server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::facts::{absent_channel, Facts, CONSOLE};
use super::view::Object;
use super::words::{near_or_all, shown};
use crate::config::plan::{Channel, ChannelSettings, Observability, Route, Session, Storage};
use crate::config::{schema, values};
use crate::domain::ids::{BrainName, ChannelName};

pub(super) fn routes(root: &Object<'_>, facts: &Facts<'_>) -> Vec<Route> {
    let views = root.objects("brains");
    let brains: Vec<&str> = views.iter().filter_map(|view| view.text("name")).collect();
    let all_named = views.iter().all(|view| !view.spoiled("name")) && !root.spoiled("brains");
    let mut seen: Vec<&str> = Vec::new();
    let mut routes = Vec::new();
    for view in root.objects("routes") {
        let (channel, brain) = (view.text("channel"), view.text("brain"));
        if let Some(channel) = channel {
            if seen.contains(&channel) {
                view.error(
                    "channel",
                    format!("a second route for the channel {}", shown(channel)),
                    "one route per channel: keep one of the two",
                );
            } else if !facts.has_channel(channel) {
                view.cx.found.warning(
                    view.at("channel"),
                    || view.path_of("channel"),
                    || absent_channel(channel),
                );
            }
            seen.push(channel);
        }
        if let Some(brain) = brain.filter(|brain| !brains.contains(brain)) {
            if all_named {
                view.error(
                    "brain",
                    format!("unknown brain {}", shown(brain)),
                    near_or_all(brain, &brains),
                );
            }
            continue;
        }
        if let (Some(channel), Some(brain)) = (channel, brain) {
            if facts.has_channel(channel) {
                routes.push(Route {
                    channel: ChannelName::new(channel),
                    brain: BrainName::new(brain),
                });
            }
        }
    }
    unrouted(root, &seen);
    routes
}

/// Channels without a route; the console goes to the first brain then.
fn unrouted(root: &Object<'_>, routed: &[&str]) {
    let unclear = root.spoiled("routes")
        || root.given("routes").is_none()
        || root
            .objects("routes")
            .iter()
            .any(|view| view.text("channel").is_none());
    if unclear {
        return;
    }
    for view in root.objects("channels") {
        let Some(name) = view.text_given("type") else {
            continue;
        };
        if name != CONSOLE && !routed.contains(&name) {
            view.warning(
                "type",
                format!("the channel {} has no route", shown(name)),
                format!("its messages are told so; add {{\"channel\": \"{name}\", \"brain\": ...}} to `routes`"),
            );
        }
    }
}

pub(super) fn console(root: &Object<'_>, channels: &[Channel]) {
    let listed = channels
        .iter()
        .any(|channel| channel.settings == ChannelSettings::Console);
    let off = root
        .object("observability")
        .is_some_and(|view| view.flag("enabled") == Some(false));
    if !listed || (root.given("admin").is_some() && !off) {
        return;
    }
    for view in root.objects("channels") {
        if view.text_given("type") == Some(CONSOLE) {
            view.warning(
                "type",
                "the console comes with the write surface, which is off: it is not there",
                "add \"admin\": {\"token_env\": \"KORVUN_ADMIN_TOKEN\"}, or leave the channel out",
            );
        }
    }
}

pub(super) fn storage(root: &Object<'_>) -> Option<Storage> {
    let view = root.object("storage")?;
    let path = match view.given("path") {
        Some(_) => view.file("path"),
        None => default_database(&view),
    };
    Some(Storage {
        path: path?,
        retention_days: view.whole("retention_days")?,
    })
}

/// `korvun/korvun.db` in the user's configuration folder (XDG Base Directory Specification: a
/// relative `XDG_CONFIG_HOME` is ignored).
fn default_database(view: &Object<'_>) -> Option<PathBuf> {
    let env = view.cx.env;
    let folder = env
        .xdg_config_home
        .clone()
        .filter(|path| path.is_absolute())
        .or_else(|| env.home.as_ref().map(|home| home.join(".config")))
        .filter(|path| path.is_absolute());
    if folder.is_none() {
        view.error(
            "path",
            "there is no user's configuration folder: neither XDG_CONFIG_HOME nor HOME is set",
            "name the file, such as \"path\": \"/var/lib/korvun/korvun.db\"",
        );
    }
    folder.map(|folder| folder.join("korvun").join("korvun.db"))
}

pub(super) fn session(root: &Object<'_>) -> Option<Session> {
    let view = root.object("session")?;
    if root.given("storage").is_none() {
        root.error(
            "session",
            "`session` without `storage`",
            "add \"storage\": {}: sessions are kept there",
        );
    }
    let triggers = match view.given("triggers") {
        None => view
            .text("triggers")?
            .split(' ')
            .map(str::to_owned)
            .collect(),
        Some(_) => view
            .texts("triggers")
            .into_iter()
            .inspect(|(index, node, word)| {
                if schema::COMMANDS.contains(word) {
                    view.cx.found.error(
                        node.at,
                        || view.entry_path("triggers", *index),
                        || {
                            (
                                format!("{} is a command of its own", shown(word)),
                                "choose another word, such as /new".into(),
                            )
                        },
                    );
                }
            })
            .map(|(_, _, word)| word.to_owned())
            .collect(),
    };
    Some(Session {
        triggers,
        daily_at: view.text("daily_at").and_then(values::time_of_day),
        idle: view
            .whole("idle_min")
            .map(|minutes| Duration::from_secs(u64::from(minutes) * 60)),
        recall_max: view.whole("recall_max")?,
    })
}

pub(super) fn observability(root: &Object<'_>, channels: &[Channel]) -> Option<Observability> {
    let Some(view) = root.object("observability") else {
        let field = |key| {
            schema::OBSERVABILITY
                .iter()
                .find(|field| field.key == key)
                .map(|field| field.default)
        };
        let preset = |key| match field(key) {
            Some(crate::domain::catalogue::Preset::Value(value)) => Some(value),
            _ => None,
        };
        let read = Observability {
            enabled: preset("enabled")?.parse().ok()?,
            addr: values::listen(preset("addr")?)?,
            allow_hosts: Vec::new(),
        };
        shared_port(root, None, &read, channels);
        return Some(read);
    };
    let read = Observability {
        enabled: view.flag("enabled")?,
        addr: view.text("addr").and_then(values::listen)?,
        allow_hosts: view
            .texts("allow_hosts")
            .into_iter()
            .map(|(_, _, host)| host.to_owned())
            .collect(),
    };
    if read.enabled && !read.addr.ip().is_loopback() {
        view.warning(
            "addr",
            format!("{} is not a loopback address", read.addr.ip()),
            "others on the network can reach it: authentication, TLS and firewall are yours then",
        );
    }
    shared_port(root, Some(&view), &read, channels);
    Some(read)
}

/// The admin server and the webhook cannot listen on one port.
fn shared_port(
    root: &Object<'_>,
    view: Option<&Object<'_>>,
    admin: &Observability,
    channels: &[Channel],
) {
    let clash = admin.enabled
        && channels.iter().any(|channel| match &channel.settings {
            ChannelSettings::Webhook(webhook) => overlap(webhook.bind, admin.addr),
            _ => false,
        });
    if !clash {
        return;
    }
    let help = "give each a port of its own";
    let message = "the webhook channel listens on the same address";
    match view {
        Some(view) => view.error("addr", message, help),
        None => root.error(
            "observability",
            format!("{message} as the admin server ({})", admin.addr),
            help,
        ),
    }
}

fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let any = |addr: SocketAddr| addr.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (a.ip() == b.ip() || any(a) || any(b))
}
