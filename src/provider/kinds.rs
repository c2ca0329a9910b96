//! The kinds of provider: what each is, as data, and how it is made. Opens nothing.

use std::sync::Arc;

use super::ollama::Ollama;
use super::openai::OpenAi;
use super::Provider;
use crate::base::secret::Secret;
use crate::domain::brain::{Model, Sensitivity};
use crate::domain::catalogue::{Docs, Field, ProviderDescriptor, Shape, Stage};
use crate::net::http::Wire;

/// Makes the provider of one model of a brain of that sensitivity, with its key if it has one.
pub type Constructor = fn(&Model, Sensitivity, Option<&Secret>, &Wire) -> Arc<dyn Provider>;

/// One kind of provider that the catalogue offers.
#[derive(Debug)]
pub struct Kind {
    /// What it is, as data.
    pub descriptor: &'static ProviderDescriptor,
    /// What makes one.
    pub make: Constructor,
}

/// Every kind of provider. A new one is one entry here.
pub const KINDS: &[Kind] = &[
    Kind {
        descriptor: &OLLAMA,
        make: |model, sensitivity, key, wire| Arc::new(Ollama::new(model, sensitivity, key, wire)),
    },
    Kind {
        descriptor: &GROQ,
        make: openai_style,
    },
    Kind {
        descriptor: &OPENAI_COMPATIBLE,
        make: openai_style,
    },
];

/// The protocol that most servers speak.
pub(super) fn openai_style(
    model: &Model,
    sensitivity: Sensitivity,
    key: Option<&Secret>,
    wire: &Wire,
) -> Arc<dyn Provider> {
    Arc::new(OpenAi::new(model, sensitivity, key, wire))
}

const KEY_EN: &str = "Name of the environment variable that holds the API key, sent as Bearer.";
const KEY_ES: &str = "Nombre de la variable de entorno con la clave de API, enviada como Bearer.";

/// Ollama, by its native API.
pub const OLLAMA: ProviderDescriptor = ProviderDescriptor {
    name: "ollama",
    docs: Docs {
        en: "Ollama, by its native API.",
        es: "Ollama, por su API nativa.",
    },
    fields: &[
        Field::new(
            "base_url",
            Shape::UrlRoot,
            "Where Ollama listens.",
            "Dónde escucha Ollama.",
        )
        .preset("http://127.0.0.1:11434"),
        Field::new("api_key_env", Shape::Env, KEY_EN, KEY_ES),
        Field::new(
            "keep_alive",
            Shape::Either(&[Shape::SignedSpan, Shape::Whole(-1, 31_536_000)]),
            "How long Ollama keeps the model loaded: a duration, seconds, or -1 for ever.",
            "Cuánto mantiene Ollama cargado el modelo: una duración, segundos, o -1 para siempre.",
        )
        .extra(),
        Field::new(
            "think",
            Shape::Either(&[Shape::Flag, Shape::Word(&["low", "medium", "high", "max"])]),
            "Whether, or how much, a thinking model thinks before it answers.",
            "Si un modelo que razona piensa antes de contestar, o cuánto.",
        )
        .extra(),
    ],
    unread_env: Some("OLLAMA_HOST"),
    stage: Stage::Built,
};

/// Groq, a preset of the OpenAI protocol.
pub const GROQ: ProviderDescriptor = ProviderDescriptor {
    name: "groq",
    docs: Docs {
        en: "Groq's cloud.",
        es: "La nube de Groq.",
    },
    fields: &[
        Field::new(
            "base_url",
            Shape::UrlRoot,
            "The API's root.",
            "La raíz de la API.",
        )
        .preset("https://api.groq.com/openai/v1"),
        Field::new("api_key_env", Shape::Env, KEY_EN, KEY_ES).required(),
    ],
    unread_env: None,
    stage: Stage::Built,
};

/// Any server that speaks the OpenAI chat protocol.
pub const OPENAI_COMPATIBLE: ProviderDescriptor = ProviderDescriptor {
    name: "openai-compatible",
    docs: Docs {
        en: "Any server that speaks OpenAI's chat protocol.",
        es: "Cualquier servidor que hable el protocolo de chat de OpenAI.",
    },
    fields: &[
        Field::new(
            "base_url",
            Shape::UrlRoot,
            "The API's root; exactly `/chat/completions` is appended.",
            "La raíz de la API; se le añade exactamente `/chat/completions`.",
        )
        .required(),
        Field::new("api_key_env", Shape::Env, KEY_EN, KEY_ES),
    ],
    unread_env: None,
    stage: Stage::Built,
};
