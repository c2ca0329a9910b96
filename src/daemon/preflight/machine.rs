//! What this machine must have: roots to trust, a database that fits, free ports. The main thread
//! runs it; nothing is made, written or kept open.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use rustix::fs::{access, Access};

use super::tried::Tried;
use crate::config::plan::{ChannelSettings, Plan};
use crate::domain::privacy;
use crate::net::http::Wire;
use crate::store::inspect;

/// What helps where a file or folder is closed to this user.
const WHOSE: &str =
    "let the user that serves have it; if that is another user, run the preflight as that one";

/// The roots that https needs; nothing where the plan has no https URL.
pub(super) fn trust(plan: &Plan, wire: &Wire) -> Option<Tried> {
    let secure = |url: &str| {
        let scheme = url.split("://").next().unwrap_or_default();
        scheme.eq_ignore_ascii_case("https")
    };
    let asked = plan.brains.iter().any(|brain| {
        let eligible = privacy::eligible(brain);
        eligible.iter().any(|&i| secure(&brain.models[i].base_url))
    });
    let posted = plan.channels.iter().any(|channel| match &channel.settings {
        ChannelSettings::Webhook(webhook) => secure(&webhook.outbound_url),
        ChannelSettings::Chat(chat) => secure(&chat.base_url),
        ChannelSettings::Console => false,
    });
    (asked || posted).then(|| match wire.tls().config() {
        Ok(_) => Tried::ok("tls roots", "can be read"),
        Err(error) => Tried::failed(
            "tls roots",
            error.to_string(),
            "install the package ca-certificates, or have SSL_CERT_FILE name a PEM file of authorities",
        ),
    })
}

/// The database, looked at without a change; nothing without storage.
pub(super) fn store(plan: &Plan) -> Option<Tried> {
    let path = &plan.storage.as_ref()?.path;
    let name = format!("storage {}", path.display());
    Some(match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => to_be_made(name, path),
        _ => match inspect(path) {
            Ok(schema) => there(name, path, schema),
            Err(error) => {
                // The store says what would help behind its last semicolon.
                let told = error.to_string();
                let (message, help) = told.rsplit_once("; ").unwrap_or((&told, WHOSE));
                Tried::failed(name, message, help)
            }
        },
    })
}

fn there(name: String, path: &Path, schema: i64) -> Tried {
    let folder = folder_of(path);
    for (what, place, rights) in [
        ("the database", path, Access::READ_OK | Access::WRITE_OK),
        ("its folder", folder, Access::WRITE_OK | Access::EXEC_OK),
    ] {
        if let Err(error) = access(place, rights) {
            return Tried::failed(name, format!("{what} cannot be written: {error}"), WHOSE);
        }
    }
    match schema {
        0 => Tried::ok(name, "empty: it will be set up"),
        schema => Tried::ok(name, format!("a database of Korvun's (schema {schema})")),
    }
}

fn to_be_made(name: String, path: &Path) -> Tried {
    let nearest = folder_of(path)
        .ancestors()
        .map(or_here)
        .find(|folder| folder.exists());
    let Some(folder) = nearest else {
        return Tried::failed(
            name,
            "there is no folder to make it in",
            "correct storage.path",
        );
    };
    match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if folder.is_dir() => Tried::ok(name, "not there yet: it will be made"),
        Ok(()) => Tried::failed(
            name,
            format!("{} is no folder", folder.display()),
            "correct storage.path",
        ),
        Err(error) => Tried::failed(
            name,
            format!(
                "not there yet, and {} cannot be written: {error}",
                folder.display()
            ),
            WHOSE,
        ),
    }
}

fn folder_of(path: &Path) -> &Path {
    or_here(path.parent().unwrap_or(path))
}

fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}

/// The ports that would be opened, each opened for a moment.
pub(super) fn ports(plan: &Plan) -> Vec<Tried> {
    let mut all = Vec::new();
    for channel in &plan.channels {
        if let ChannelSettings::Webhook(webhook) = &channel.settings {
            all.push(port(webhook.bind, "webhook.bind"));
        }
    }
    if plan.observability.enabled {
        all.push(port(plan.observability.addr, "observability.addr"));
    }
    all
}

fn port(addr: SocketAddr, key: &str) -> Tried {
    let name = format!("{key} {addr}");
    let Err(error) = TcpListener::bind(addr) else {
        return Tried::ok(name, "free");
    };
    let message = format!("cannot be opened: {error}");
    match error.kind() {
        ErrorKind::AddrInUse => Tried::warn(
            name,
            "in use",
            "a running Korvun may hold it; if none runs, stop what does, or choose another",
        ),
        ErrorKind::AddrNotAvailable => Tried::failed(
            name,
            message,
            "name an address that this machine has (`ip address` lists them)",
        ),
        ErrorKind::PermissionDenied => Tried::failed(
            name,
            message,
            "choose a port from 1024 up, or give korvun the capability CAP_NET_BIND_SERVICE",
        ),
        _ => Tried::failed(name, message, "choose another address or port"),
    }
}
