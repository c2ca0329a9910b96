//! Rules of one model, and the model of the plan. What depends on its brain's other models stands
//! in `brains`.

use std::time::Duration;

use super::uses::Uses;
use super::view::Object;
use super::words::shown;
use crate::config::json::{Node, Value};
use crate::config::values;
use crate::domain::address::is_private;
use crate::domain::brain::{Dispatch, Locality, Model, Sensitivity, ToolLane};
use crate::domain::hosts;
use crate::domain::ids::{Endpoint, ModelId, ProviderName};
use crate::domain::privacy;
use crate::domain::url::Url;

/// What a model takes over from what stands around it.
pub(super) struct Around {
    pub(super) sensitivity: Option<Sensitivity>,
    pub(super) dispatch: Option<Dispatch>,
    pub(super) request_timeout: Option<Duration>,
}

/// The limit of one attempt at a local model: a cold one may take minutes to load.
const ATTEMPT_LOCAL: Duration = Duration::from_secs(300);
/// The limit of one attempt at any other.
const ATTEMPT_CLOUD: Duration = Duration::from_secs(120);

/// Reads one model; `None` where something in it was refused.
pub(super) fn model(view: &Object<'_>, around: &Around, uses: &mut Uses) -> Option<Model> {
    let provider = view.text_given("provider");
    let api_key_env = uses.of(
        view,
        "api_key_env",
        format!("an API key of {}", provider.unwrap_or("a provider")),
    );
    let locality = view.text("locality").map(|word| match word {
        "local" => Locality::Local,
        _ => Locality::Cloud,
    });
    let kind = view.cx.catalogue.provider(provider?)?;
    if view.flag("warmup") == Some(true) && locality == Some(Locality::Cloud) {
        view.error(
            "warmup",
            "only a local model can be warmed up",
            "leave the key out",
        );
    }
    if let (Some(variable), None) = (kind.unread_env, view.given("base_url")) {
        unread_address(view, variable);
    }
    let url = values::url_root(view.text("base_url")?).ok()?;
    let local = locality? == Locality::Local;
    let whole = |key: &str, otherwise: u32| match view.given(key) {
        Some(_) => view.whole(key),
        None => Some(otherwise),
    };
    let attempt = match view.given("request_timeout") {
        Some(_) => view.span("request_timeout")?,
        None => around
            .request_timeout
            .unwrap_or(if local { ATTEMPT_LOCAL } else { ATTEMPT_CLOUD }),
    };
    let retries = if around.dispatch == Some(Dispatch::Sequential) {
        0
    } else {
        2
    };
    let model = Model {
        provider: ProviderName::new(kind.name),
        model_id: ModelId::new(view.text("model_id")?),
        locality: locality?,
        base_url: values::root_text(&url),
        endpoint: Endpoint::new(&values::endpoint(&url)),
        api_key_env,
        request_timeout: attempt,
        max_retries: whole("max_retries", retries)?,
        warmup: view.flag("warmup")?,
        options: match view.raw("options").map(json) {
            Some(serde_json::Value::Object(options)) => options,
            _ => serde_json::Map::new(),
        },
        keep_alive: view.raw("keep_alive").map(json),
        think: view.raw("think").map(json),
        tools: match view.text("tools")? {
            "native" => ToolLane::Native,
            "text" => ToolLane::Text,
            _ => ToolLane::Auto,
        },
        parallel: whole("parallel", if local { 1 } else { 8 })?,
        rank: 0,
    };
    whereabouts(view, around, &model, &url);
    Some(model)
}

/// Holds what is declared of a model's place against what name and address tell.
fn whereabouts(view: &Object<'_>, around: &Around, model: &Model, url: &Url) {
    if model.locality == Locality::Local && privacy::cloud(model).is_some() {
        declared_local(view, around, model);
    }
    if around.sensitivity == Some(Sensitivity::Private) && model.locality == Locality::Local {
        if let Some(ip) = url.literal().filter(|ip| !is_private(*ip)) {
            view.warning(
                "base_url",
                format!("{ip} is no private address: a private brain sends nothing there"),
                "give an address of this machine or of your own network",
            );
        }
    }
}

/// A model that is declared local and certainly is not.
fn declared_local(view: &Object<'_>, around: &Around, model: &Model) {
    let message = format!(
        "{} of {} runs in the cloud and is declared local",
        shown(model.model_id.as_str()),
        model.provider
    );
    match around.sensitivity {
        Some(Sensitivity::Private) => view.error(
            "locality",
            message,
            "declare it `cloud`: a private brain drops it and asks its local models",
        ),
        _ => view.warning("locality", message, "declare it `cloud`"),
    }
}

/// Says that a variable which people expect to move the address is not read.
fn unread_address(view: &Object<'_>, variable: &str) {
    let Some(set) = &view.cx.env.ollama_host else {
        return;
    };
    let Some(preset) = view.text("base_url") else {
        return;
    };
    let same = values::url_root(preset)
        .ok()
        .zip(ollama_address(set))
        .is_some_and(|(preset, set)| values::endpoint(&preset) == set);
    if !same {
        view.warning(
            "base_url",
            format!("{variable} is set to another address and is not read; {preset} is used"),
            "write the address into `base_url`",
        );
    }
}

/// The address that `OLLAMA_HOST` means to a client of the same machine, as Ollama reads it: scheme
/// and port may be missing, and "any address" is reached by loopback.
fn ollama_address(text: &str) -> Option<String> {
    let text = text.trim().trim_matches(['"', '\'']);
    let (with_scheme, port) = match text.split_once("://") {
        Some(("http", _)) => (text.to_owned(), 80),
        Some(_) => (text.to_owned(), 443),
        None => (format!("http://{text}"), 11434),
    };
    let rest = with_scheme.split_once("://")?.1;
    let authority = rest.split('/').next().unwrap_or_default();
    let (scheme, _) = with_scheme.split_once("://")?;
    let authority = match authority {
        "" => "127.0.0.1".to_owned(),
        _ if authority.starts_with(':') => format!("127.0.0.1{authority}"),
        _ => authority.to_owned(),
    };
    let (host, own_port) = hosts::host_port(&authority).ok()?;
    let host = match host.in_url().as_str() {
        "0.0.0.0" | "[::]" | "localhost" => "127.0.0.1".to_owned(),
        other => other.to_owned(),
    };
    Some(format!("{scheme}://{host}:{}", own_port.unwrap_or(port)))
}

/// A value as serde_json has it, comments left out. Numbers were checked to fit.
fn json(node: &Node<'_>) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(text) => serde_json::from_str(text).unwrap_or(serde_json::Value::Null),
        Value::Text(text) => text.as_ref().into(),
        Value::List(nodes) => nodes.iter().map(json).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|member| member.key != "_comment")
            .map(|member| (member.key.to_string(), json(&member.node)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::ollama_address;

    #[test]
    fn the_address_of_ollama_s_variable() {
        for (text, address) in [
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("127.0.0.1:11434", "http://127.0.0.1:11434"),
            (":8080", "http://127.0.0.1:8080"),
            ("http://box", "http://box:80"),
            ("https://box/", "https://box:443"),
            ("localhost", "http://127.0.0.1:11434"),
            ("\"box:1\"", "http://box:1"),
        ] {
            assert_eq!(ollama_address(text).as_deref(), Some(address), "{text}");
        }
    }
}
