//! The kinds of channel as data: one descriptor each. Data only.

use crate::domain::catalogue::{ChannelDescriptor, ChannelForm, Docs, Field, Shape, Stage};

/// One kind of channel that the catalogue offers.
#[derive(Debug)]
pub struct Kind {
    /// What it is, as data.
    pub descriptor: &'static ChannelDescriptor,
}

/// Every kind of channel. A new one is one line here.
pub const KINDS: &[Kind] = &[
    Kind {
        descriptor: &TELEGRAM,
    },
    Kind {
        descriptor: &DISCORD,
    },
    Kind {
        descriptor: &WEBHOOK,
    },
    Kind {
        descriptor: &CONSOLE,
    },
];

/// Entries of `allow_from`: a household or a small firm, not a list of the public.
const SENDERS: usize = 1000;

const BASE_URL_EN: &str = "Another root of the platform's API.";
const BASE_URL_ES: &str = "Otra raíz de la API de la plataforma.";

const ALLOW_FROM: Field = Field::new(
    "allow_from",
    Shape::List(&Shape::SenderId, 1, SENDERS),
    "Ids of those who may talk, as strings. Absent: everybody, with a warning.",
    "Ids de quienes pueden hablar, como cadenas. Ausente: todo el mundo, con un aviso.",
)
.guarded()
.extra();

const RESPOND: Field = Field::new(
    "respond",
    Shape::Word(&["all", "mention"]),
    "What is answered in groups and guild channels: everything, or a mention, a reply to the bot and commands. Direct chats are always answered.",
    "Qué se contesta en grupos y canales de servidor: todo, o una mención, una respuesta al bot y los comandos. Los chats directos siempre se contestan.",
)
.preset("mention")
.extra();

const BOT_TOKEN: Field = Field::new(
    "token_env",
    Shape::Env,
    "Name of the environment variable that holds the bot's token.",
    "Nombre de la variable de entorno con el token del bot.",
)
.required();

/// Telegram, by long polling.
pub const TELEGRAM: ChannelDescriptor = ChannelDescriptor {
    name: "telegram",
    docs: Docs {
        en: "A Telegram bot, by long polling.",
        es: "Un bot de Telegram, por sondeo largo.",
    },
    fields: &[
        Field::new(
            "mode",
            Shape::Word(&["polling"]),
            "How Telegram is reached.",
            "Cómo se llega a Telegram.",
        )
        .required(),
        BOT_TOKEN,
        Field::new("base_url", Shape::UrlRoot, BASE_URL_EN, BASE_URL_ES)
            .preset("https://api.telegram.org")
            .extra(),
        ALLOW_FROM,
        RESPOND,
    ],
    form: ChannelForm::Chat,
    mode: Some("polling"),
    stage: Stage::Built,
};

/// Discord, by its gateway.
pub const DISCORD: ChannelDescriptor = ChannelDescriptor {
    name: "discord",
    docs: Docs {
        en: "A Discord bot, by the gateway.",
        es: "Un bot de Discord, por el gateway.",
    },
    fields: &[
        Field::new(
            "mode",
            Shape::Word(&["gateway"]),
            "How Discord is reached.",
            "Cómo se llega a Discord.",
        )
        .required(),
        BOT_TOKEN,
        Field::new("base_url", Shape::UrlRoot, BASE_URL_EN, BASE_URL_ES)
            .preset("https://discord.com/api/v10")
            .extra(),
        ALLOW_FROM,
        RESPOND,
    ],
    form: ChannelForm::Chat,
    mode: Some("gateway"),
    stage: Stage::Later,
};

/// The generic webhook.
pub const WEBHOOK: ChannelDescriptor = ChannelDescriptor {
    name: "webhook",
    docs: Docs {
        en: "Any program that can send and receive an HTTP POST.",
        es: "Cualquier programa que pueda enviar y recibir un POST de HTTP.",
    },
    fields: &[
        Field::new(
            "token_env",
            Shape::Env,
            "Name of the environment variable that holds the Bearer secret of inbound requests.",
            "Nombre de la variable de entorno con el secreto Bearer de entrada.",
        )
        .required_when("without `signature`", "sin `signature`"),
        Field::new(
            "webhook",
            Shape::Object(WEBHOOK_BLOCK),
            "Where it listens and where answers go.",
            "Dónde escucha y adónde van las respuestas.",
        )
        .required(),
    ],
    form: ChannelForm::Webhook,
    mode: None,
    stage: Stage::Built,
};

/// The operator's own chat.
pub const CONSOLE: ChannelDescriptor = ChannelDescriptor {
    name: "console",
    docs: Docs {
        en: "The operator's own chat, there whenever the write surface is.",
        es: "El chat del operador, presente siempre que lo esté la superficie de escritura.",
    },
    fields: &[],
    form: ChannelForm::Console,
    mode: None,
    stage: Stage::Built,
};

const WEBHOOK_BLOCK: &[Field] = &[
    Field::new(
        "bind",
        Shape::Listen,
        "Listening address. One that is not loopback is a warning.",
        "Dirección de escucha. Una que no sea loopback es un aviso.",
    )
    .preset("127.0.0.1:8090"),
    Field::new(
        "path",
        Shape::UrlPath,
        "Path of the inbound POST; not `/healthz`.",
        "Ruta del POST de entrada; no `/healthz`.",
    )
    .preset("/webhook"),
    Field::new(
        "outbound_url",
        Shape::Url,
        "Where answers are posted; not this channel's own address.",
        "Adónde se envían (POST) las respuestas; no la dirección del propio canal.",
    )
    .required(),
    Field::new(
        "outbound_token_env",
        Shape::Env,
        "Name of the environment variable that holds the Bearer secret of answers.",
        "Nombre de la variable de entorno con el secreto Bearer de salida.",
    ),
    Field::new(
        "mapping",
        Shape::Object(MAPPING),
        "Your JSON field names.",
        "Tus nombres de campo JSON.",
    ),
    Field::new(
        "signature",
        Shape::Object(SIGNATURE),
        "A signature over the request in place of `token_env`.",
        "Una firma sobre la petición en lugar de `token_env`.",
    )
    .extra(),
];

/// Characters of a caller's field name: far above any that people use.
const NAME: usize = 200;

const MAPPING: &[Field] = &[
    Field::new(
        "sender_id",
        Shape::Line(NAME),
        "Who speaks. Each entry is a field name, or a JSON pointer when it starts with `/`.",
        "Quién habla. Cada entrada es un nombre de campo, o un puntero JSON si empieza por `/`.",
    )
    .preset("sender_id"),
    Field::new(
        "sender_name",
        Shape::Line(NAME),
        "Their name.",
        "Su nombre.",
    )
    .preset("sender_name"),
    Field::new("text", Shape::Line(NAME), "What they say.", "Lo que dice.").preset("text"),
    Field::new(
        "media_url",
        Shape::Line(NAME),
        "Media beside the text; never fetched.",
        "Medios junto al texto; nunca se descargan.",
    )
    .preset("media_url"),
    Field::new(
        "media_type",
        Shape::Line(NAME),
        "The kind of media.",
        "El tipo de medio.",
    )
    .preset("media_type"),
    Field::new(
        "conversation_id",
        Shape::Line(NAME),
        "The conversation; without it the sender's id.",
        "La conversación; sin ella, el id de quien habla.",
    )
    .preset("conversation_id"),
];

const SIGNATURE: &[Field] = &[
    Field::new(
        "kind",
        Shape::Word(&["github", "gitlab", "stripe", "hmac-sha256"]),
        "The scheme.",
        "El esquema.",
    )
    .required()
    .extra(),
    Field::new(
        "secret_env",
        Shape::Env,
        "Name of the environment variable that holds the shared secret.",
        "Nombre de la variable de entorno con el secreto compartido.",
    )
    .required()
    .extra(),
    Field::new(
        "header",
        Shape::Header,
        "The header that carries the signature; only for `hmac-sha256`.",
        "La cabecera que lleva la firma; solo para `hmac-sha256`.",
    )
    .required_when("for `hmac-sha256`", "para `hmac-sha256`")
    .extra(),
];
