//! Rules of channels that span several keys, and the channels of the plan.

use std::net::SocketAddr;

use super::uses::Uses;
use super::view::Object;
use super::words::shown;
use crate::config::plan::{
    Channel, ChannelSettings, Chat, Mapping, Respond, Signature, SignatureKind, Webhook,
};
use crate::config::values;
use crate::domain::catalogue::ChannelForm;
use crate::domain::ids::ChannelName;
use crate::domain::url::Url;

/// The channels of the file that could be read.
pub(super) fn channels(root: &Object<'_>, uses: &mut Uses) -> Vec<Channel> {
    let mut channels: Vec<Channel> = Vec::new();
    for view in root.objects("channels") {
        let Some(name) = view.text_given("type") else {
            continue;
        };
        if channels.iter().any(|known| known.name.as_str() == name) {
            view.error(
                "type",
                format!("a second channel of type {}", shown(name)),
                "a channel's type is its name: one of each",
            );
            continue;
        }
        let Some(kind) = view.cx.catalogue.channel(name) else {
            continue;
        };
        let token_env = uses.of(&view, "token_env", format!("the {name} channel's token"));
        let settings = match kind.form {
            ChannelForm::Chat => chat(&view).map(ChannelSettings::Chat),
            ChannelForm::Webhook => {
                webhook(&view, uses).map(|block| ChannelSettings::Webhook(Box::new(block)))
            }
            ChannelForm::Console => Some(ChannelSettings::Console),
        };
        if let Some(settings) = settings {
            channels.push(Channel {
                name: ChannelName::new(name),
                token_env,
                settings,
            });
        }
    }
    channels
}

fn chat(view: &Object<'_>) -> Option<Chat> {
    if view.given("allow_from").is_none() {
        view.warning(
            "allow_from",
            "everybody may talk to this bot",
            "list the ids of those who may, such as \"allow_from\": [\"12345678\"]",
        );
    }
    let allow_from = view.given("allow_from").map(|_| {
        view.texts("allow_from")
            .into_iter()
            .map(|(_, _, id)| id.to_owned())
            .collect()
    });
    Some(Chat {
        base_url: values::root_text(&values::url_root(view.text("base_url")?).ok()?),
        allow_from,
        respond: match view.text("respond")? {
            "all" => Respond::All,
            _ => Respond::Mention,
        },
    })
}

fn webhook(view: &Object<'_>, uses: &mut Uses) -> Option<Webhook> {
    let block = view.object("webhook")?;
    token_or_signature(view, &block);
    let bind = block.text("bind").and_then(values::listen);
    if let Some(bind) = bind.filter(|bind| !bind.ip().is_loopback()) {
        block.warning(
            "bind",
            format!("{} is not a loopback address", bind.ip()),
            "others on the network can reach it: keep a firewall or a TLS proxy before it",
        );
    }
    if block.text("path") == Some("/healthz") {
        block.error(
            "path",
            "`/healthz` is answered by the listener itself",
            "choose another path, such as /webhook",
        );
    }
    let outbound_token_env = uses.of(
        &block,
        "outbound_token_env",
        "the webhook's outbound token".into(),
    );
    let outbound = block
        .text("outbound_url")
        .and_then(|text| Url::parse(text).ok());
    if let (Some(url), Some(bind)) = (&outbound, bind) {
        if is_own(url, bind) {
            block.error(
                "outbound_url",
                "answers would be posted to this channel's own address",
                "give the address of the program that takes the answers",
            );
        }
    }
    let signature = block.object("signature").map(|view| signature(&view, uses));
    Some(Webhook {
        bind: bind?,
        path: block.text("path")?.to_owned(),
        outbound_url: outbound?.to_wire(),
        outbound_token_env,
        mapping: mapping(&block),
        signature: match signature {
            None => None,
            Some(read) => Some(read?),
        },
    })
}

/// Whether a URL leads back to a listening address.
fn is_own(url: &Url, bind: SocketAddr) -> bool {
    if bind.port() != url.port() {
        return false;
    }
    let here = bind.ip();
    match url.literal().map(|ip| ip.to_canonical()) {
        // To dial "any address" is to dial this machine.
        Some(ip) => {
            ip == here || (here.is_unspecified() && ip.is_loopback()) || ip.is_unspecified()
        }
        None => {
            let name = url.host();
            let local = matches!(name.strip_suffix('.').unwrap_or(name), "localhost");
            local && (here.is_unspecified() || here.is_loopback())
        }
    }
}

fn token_or_signature(view: &Object<'_>, block: &Object<'_>) {
    match (view.given("token_env"), block.given("signature")) {
        (None, None) => view.error(
            "token_env",
            "`token_env` is missing",
            "name the variable that holds the Bearer secret of inbound requests, or give `webhook.signature`",
        ),
        (Some(_), Some(_)) => block.error(
            "signature",
            "`token_env` and `signature` at once",
            "keep the one that the caller can do",
        ),
        _ => {}
    }
}

fn signature(view: &Object<'_>, uses: &mut Uses) -> Option<Signature> {
    let secret_env = uses.of(view, "secret_env", "the webhook's signature secret".into());
    let (kind, own_header) = match view.text("kind")? {
        "github" => (SignatureKind::Github, Some("X-Hub-Signature-256")),
        "gitlab" => (SignatureKind::Gitlab, Some("X-Gitlab-Token")),
        "stripe" => (SignatureKind::Stripe, Some("Stripe-Signature")),
        _ => (SignatureKind::HmacSha256, None),
    };
    match (own_header, view.given("header")) {
        (Some(own), Some(_)) => view.error(
            "header",
            "`header` belongs to `hmac-sha256` only",
            format!("this kind reads {own}; leave the key out"),
        ),
        (None, None) => view.error(
            "header",
            "`header` is missing",
            "`hmac-sha256` needs the name of the header that carries the signature",
        ),
        _ => {}
    }
    Some(Signature {
        kind,
        secret_env: secret_env?,
        header: match own_header {
            Some(own) => own.to_owned(),
            None => view.text("header")?.to_owned(),
        },
    })
}

/// The fields of a message that can be mapped, and whether answers carry them.
const MAPPED: [(&str, Direction); 6] = [
    ("sender_id", Direction::BothWays),
    ("sender_name", Direction::BothWays),
    ("text", Direction::BothWays),
    ("media_url", Direction::InOnly),
    ("media_type", Direction::InOnly),
    ("conversation_id", Direction::BothWays),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    BothWays,
    InOnly,
}

fn mapping(block: &Object<'_>) -> Mapping {
    let Some(view) = block.object("mapping") else {
        return Mapping::default();
    };
    let name = |field: &'static str| view.text(field).unwrap_or(field);
    // Inbound, two fields must not be read from one place; outbound, not written to one name.
    let mut read: Vec<(String, &str)> = Vec::new();
    let mut written: Vec<(String, &str)> = Vec::new();
    for (field, direction) in MAPPED {
        let name = name(field);
        if view.given(field).is_some() && !pointer_is_sound(name) {
            view.error(
                field,
                format!("{} is not a JSON pointer", shown(name)),
                "after `~` stands 0 or 1, as in /user/id",
            );
            continue;
        }
        if matches!(name, "message_id" | "in_reply_to") {
            view.error(
                field,
                format!("{} is a name of Korvun's own", shown(name)),
                "map the field to another name",
            );
        }
        let place = in_place(name);
        let out = if name.starts_with('/') { field } else { name };
        let clash = read
            .iter()
            .find(|(other, _)| *other == place)
            .or_else(|| match direction {
                Direction::BothWays => written.iter().find(|(other, _)| other == out),
                Direction::InOnly => None,
            })
            .map(|(_, other)| *other);
        if let Some(other) = clash {
            let at = if view.given(field).is_some() {
                field
            } else {
                other
            };
            view.error(
                at,
                format!("`{other}` and `{field}` are mapped to one name"),
                "give each field a name of its own",
            );
        }
        read.push((place, field));
        if direction == Direction::BothWays {
            written.push((out.to_owned(), field));
        }
    }
    Mapping {
        sender_id: name("sender_id").to_owned(),
        sender_name: name("sender_name").to_owned(),
        text: name("text").to_owned(),
        media_url: name("media_url").to_owned(),
        media_type: name("media_type").to_owned(),
        conversation_id: name("conversation_id").to_owned(),
    }
}

/// The place in the caller's object that a name or pointer means, always as a pointer (RFC 6901).
fn in_place(name: &str) -> String {
    if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("/{}", name.replace('~', "~0").replace('/', "~1"))
    }
}

/// Whether a name that begins with `/` is a JSON pointer: `~` only in `~0` and `~1`.
fn pointer_is_sound(name: &str) -> bool {
    !name.starts_with('/')
        || name
            .split('~')
            .skip(1)
            .all(|after| after.starts_with(['0', '1']))
}
