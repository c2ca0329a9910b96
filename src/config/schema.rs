//! The one description of the file's schema, beside the kinds of the catalogue: the check, the
//! documentation and the builder's forms are made from it. Data only.

use std::time::Duration;

use crate::domain::catalogue::{Family, Field, Shape};
use crate::domain::command;

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Characters of a name, of a brain or a model, and of entries that refer to them.
const NAME: usize = 64;
/// Characters of a model's name: Ollama and Hugging Face paths are long.
const MODEL_NAME: usize = 256;
/// Brains and routes: far above what one box serves, and it bounds the check itself.
const BRAINS: usize = 64;
/// Models of one brain, for the same reason.
const MODELS: usize = 32;
/// Lists of tools and grants.
const TOOLS: usize = 64;
/// Characters of the operator's addition to the prompt of an agent.
const SYSTEM_PROMPT: usize = 32_768;

/// The bounds of one attempt at a model.
const ATTEMPT: Shape = Shape::Span(s(1), s(30 * 60));

/// The whole file.
pub const ROOT: &[Field] = &[
    Field::new(
        "channels",
        Shape::List(&Shape::Extended(CHANNEL, Family::Channel), 1, 16),
        "Messaging channels.",
        "Canales de mensajería.",
    )
    .required(),
    Field::new(
        "brains",
        Shape::List(&Shape::Object(BRAIN), 1, BRAINS),
        "Brains: which models answer, and how.",
        "Cerebros: qué modelos contestan, y cómo.",
    )
    .required(),
    Field::new(
        "routes",
        Shape::List(&Shape::Object(ROUTE), 1, BRAINS),
        "Which channel goes to which brain.",
        "Qué canal va a qué cerebro.",
    )
    .required(),
    Field::new(
        "storage",
        Shape::Object(STORAGE),
        "Durable storage. Absent: stateless.",
        "Almacén durable. Ausente: sin estado.",
    ),
    Field::new(
        "session",
        Shape::Object(SESSION),
        "When a conversation starts afresh; needs `storage`. Absent: no sessions.",
        "Cuándo una conversación empieza de nuevo; necesita `storage`. Ausente: sin sesiones.",
    )
    .extra(),
    Field::new(
        "observability",
        Shape::Object(OBSERVABILITY),
        "The admin server. Absent: on, on loopback.",
        "El servidor de administración. Ausente: activo, en loopback.",
    ),
    Field::new(
        "admin",
        Shape::Object(ADMIN),
        "The write surface. Absent: read-only.",
        "La superficie de escritura. Ausente: solo lectura.",
    ),
    Field::new(
        "request_timeout",
        ATTEMPT,
        "The limit of one attempt at a model.",
        "El límite de un intento a un modelo.",
    )
    .preset_told(
        "300s for local models, 120s for others",
        "300s para modelos locales, 120s para el resto",
    )
    .extra(),
    Field::new(
        "schema_version",
        Shape::Whole(1, 1),
        "The version of this format.",
        "La versión de este formato.",
    )
    .preset("1")
    .extra(),
];

/// What every channel has; the rest belongs to its kind.
pub const CHANNEL: &[Field] = &[Field::new(
    "type",
    Shape::Kind(Family::Channel),
    "The kind, which is also the channel's name in routes and grants.",
    "El tipo, que es también el nombre del canal en rutas y permisos.",
)
.required()];

/// A brain.
pub const BRAIN: &[Field] = &[
    Field::new(
        "name",
        Shape::Line(NAME),
        "Unique name, referenced by routes.",
        "Nombre único, referenciado por `routes`.",
    )
    .required(),
    Field::new(
        "sensitivity",
        Shape::Word(&["public", "private"]),
        "`private` drops cloud models before anything is sent.",
        "`private` descarta los modelos cloud antes de enviar nada.",
    )
    .required(),
    Field::new(
        "dispatch",
        Shape::Word(&["fanout", "sequential"]),
        "All models at once, or in catalogue order until one succeeds.",
        "Todos los modelos a la vez, o en orden hasta que uno conteste.",
    )
    .preset("fanout"),
    Field::new(
        "policy",
        Shape::Object(POLICY),
        "How the answer is picked.",
        "Cómo se elige la respuesta.",
    )
    .required_when("unless there is `agent`", "salvo que haya `agent`"),
    Field::new(
        "models",
        Shape::List(&Shape::Extended(MODEL, Family::Provider), 1, MODELS),
        "The models of this brain.",
        "Los modelos de este cerebro.",
    )
    .required(),
    Field::new(
        "agent",
        Shape::Extended(AGENT, Family::Tool),
        "Makes it an agent with tools.",
        "Lo convierte en un agente con herramientas.",
    ),
    Field::new(
        "persona",
        Shape::Object(PERSONA),
        "How it presents itself.",
        "Cómo se presenta.",
    )
    .extra(),
    Field::new(
        "history_turns",
        Shape::Whole(0, 200),
        "Stored messages shown to the model before the present one.",
        "Mensajes guardados que ve el modelo antes del actual.",
    )
    .preset("20")
    .extra(),
    Field::new(
        "answer_timeout",
        Shape::Span(s(5), s(3600)),
        "The longest time until the whole answer, waiting for a place included.",
        "El tiempo máximo hasta la respuesta completa, con la espera de sitio incluida.",
    )
    .preset("15m")
    .extra(),
];

/// How the answer of a brain is picked.
pub const POLICY: &[Field] = &[
    Field::new(
        "kind",
        Shape::Word(&["priority", "consensus"]),
        "The highest-ranked answer, or the one on which more than half agree.",
        "La respuesta de mayor prioridad, o aquella en la que coincide más de la mitad.",
    )
    .required(),
    Field::new(
        "order",
        Shape::List(&Shape::Line(MODEL_NAME + NAME), 0, MODELS * 2),
        "Best first: a `model_id`, a provider, or `provider/model_id`. Unlisted models rank last.",
        "El mejor primero: un `model_id`, un proveedor o `proveedor/model_id`. Los no listados van al final.",
    ),
];

/// What every model has; the rest belongs to its provider.
pub const MODEL: &[Field] = &[
    Field::new(
        "provider",
        Shape::Kind(Family::Provider),
        "Who serves it.",
        "Quién lo sirve.",
    )
    .required(),
    Field::new(
        "model_id",
        Shape::Line(MODEL_NAME),
        "Its name there, such as `llama3.2`.",
        "Su nombre allí, por ejemplo `llama3.2`.",
    )
    .required(),
    Field::new(
        "locality",
        Shape::Word(&["local", "cloud"]),
        "Where it runs, as you declare it; privacy is decided by it.",
        "Dónde se ejecuta, según lo declaras; la privacidad se decide por ello.",
    )
    .required(),
    Field::new(
        "request_timeout",
        ATTEMPT,
        "The limit of one attempt.",
        "El límite de un intento.",
    )
    .preset_told(
        "the root's `request_timeout`",
        "el `request_timeout` de la raíz",
    )
    .extra(),
    Field::new(
        "max_retries",
        Shape::Whole(0, 10),
        "Tries after the first, for failures that can heal.",
        "Intentos tras el primero, para fallos que pueden sanar.",
    )
    .preset_told(
        "2; where `dispatch` is `sequential` 0",
        "2; con `dispatch` `sequential`, 0",
    )
    .extra(),
    Field::new(
        "warmup",
        Shape::Flag,
        "Whether it is loaded at start; local models only.",
        "Si se carga al arrancar; solo modelos locales.",
    )
    .preset("false")
    .extra(),
    Field::new(
        "options",
        Shape::Open,
        "Options sent the provider's own way.",
        "Opciones que se envían a la manera del proveedor.",
    )
    .extra(),
    Field::new(
        "tools",
        Shape::Word(&["auto", "native", "text"]),
        "How it is told of tools.",
        "Cómo se le anuncian las herramientas.",
    )
    .preset("auto")
    .extra(),
    Field::new(
        "parallel",
        Shape::Whole(1, 16),
        "Runs in work at its server at once; of models that share a server the highest wins.",
        "Trabajos a la vez en su servidor; entre modelos que lo comparten gana el mayor.",
    )
    .preset_told(
        "1 for local models, 8 for others",
        "1 para modelos locales, 8 para el resto",
    )
    .extra(),
];

/// How a brain presents itself.
pub const PERSONA: &[Field] = &[
    Field::new(
        "display_name",
        Shape::Line(80),
        "The name shown with its answers.",
        "El nombre que acompaña sus respuestas.",
    )
    .extra(),
    Field::new("tone", Shape::Prose(200), "How it speaks.", "Cómo habla.").extra(),
    Field::new(
        "language",
        Shape::Line(60),
        "The language it answers in.",
        "El idioma en que contesta.",
    )
    .extra(),
    Field::new(
        "instructions",
        Shape::Prose(4000),
        "What you tell it.",
        "Lo que le indicas.",
    )
    .extra(),
];

/// An agent; the cages of the tools stand beside these keys.
pub const AGENT: &[Field] = &[
    Field::new(
        "tools",
        Shape::List(&Shape::Kind(Family::Tool), 1, TOOLS),
        "The tools it has.",
        "Las herramientas que tiene.",
    )
    .required(),
    Field::new(
        "max_iterations",
        Shape::Whole(1, 50),
        "Replies that may call tools; one more without tools ends the run.",
        "Respuestas que pueden usar herramientas; una más, sin ellas, acaba el trabajo.",
    )
    .preset("5"),
    Field::new(
        "system_prompt",
        Shape::Prose(SYSTEM_PROMPT),
        "Your addition to its prompt.",
        "Tus instrucciones adicionales.",
    ),
    Field::new(
        "governance",
        Shape::List(&Shape::Object(GRANT), 0, TOOLS),
        "Grants. Absent: every listed tool on every channel; a tool without a grant is denied.",
        "Permisos. Ausente: toda herramienta listada en todos los canales; sin permiso se deniega.",
    )
    .guarded(),
    Field::new(
        "tool_attrs",
        Shape::PerTool(TOOL_ATTRS),
        "Marks further tools as sensitive.",
        "Marca más herramientas como sensibles.",
    )
    .extra(),
    Field::new(
        "skills_dir",
        Shape::File,
        "The folder of skills.",
        "La carpeta de skills.",
    ),
    Field::new(
        "skills_body_budget",
        Shape::Whole(0, 1_000_000),
        "Characters of skill bodies in the prompt.",
        "Caracteres de los cuerpos de skills en el prompt.",
    )
    .preset("8192"),
];

/// What one tool may do.
pub const GRANT: &[Field] = &[
    Field::new(
        "tool",
        Shape::Kind(Family::Tool),
        "The tool; it must be listed in `tools`.",
        "La herramienta; debe estar en `tools`.",
    )
    .required(),
    Field::new(
        "mode",
        Shape::Word(&["allow", "shadow", "deny"]),
        "Executed; announced and only rehearsed; neither.",
        "Se ejecuta; se anuncia y solo se ensaya; ni una cosa ni otra.",
    )
    .required(),
    Field::new(
        "channels",
        Shape::List(&Shape::Kind(Family::Channel), 1, 16),
        "Only on these channels. Absent: on all.",
        "Solo en estos canales. Ausente: en todos.",
    )
    .guarded(),
    Field::new(
        "chats",
        Shape::Word(&["all", "direct"]),
        "`direct`: only in private chats and on the console.",
        "`direct`: solo en chats privados y en la consola.",
    )
    .guarded()
    .preset("all")
    .extra(),
];

/// What the file may add to a tool.
pub const TOOL_ATTRS: &[Field] = &[Field::new(
    "sensitive",
    Shape::Flag,
    "`true`: what it reads never reaches a cloud model. It can only be added.",
    "`true`: lo que lee nunca llega a un modelo cloud. Solo se puede añadir.",
)
.extra()];

/// A route.
pub const ROUTE: &[Field] = &[
    Field::new(
        "channel",
        Shape::Kind(Family::Channel),
        "The type of a channel.",
        "El tipo de un canal.",
    )
    .required(),
    Field::new(
        "brain",
        Shape::Line(NAME),
        "The name of a brain.",
        "El nombre de un cerebro.",
    )
    .required(),
];

/// Durable storage.
pub const STORAGE: &[Field] = &[
    Field::new(
        "path",
        Shape::File,
        "The SQLite file.",
        "El fichero SQLite.",
    )
    .preset_told(
        "`korvun/korvun.db` in the user's configuration folder",
        "`korvun/korvun.db` en la carpeta de configuración del usuario",
    ),
    Field::new(
        "retention_days",
        Shape::Whole(0, 36_500),
        "Days that messages are kept; 0 keeps them.",
        "Días que se guardan los mensajes; 0 los conserva.",
    )
    .preset("0")
    .extra(),
];

/// Sessions.
pub const SESSION: &[Field] = &[
    Field::new(
        "triggers",
        Shape::List(&Shape::SingleWord(64), 0, 32),
        "Words that start a new session.",
        "Palabras que inician una sesión nueva.",
    )
    .preset("/new /reset")
    .extra(),
    Field::new(
        "daily_at",
        Shape::TimeOfDay,
        "Local time at which a new session starts each day.",
        "Hora local a la que empieza cada día una sesión nueva.",
    )
    .extra(),
    Field::new(
        "idle_min",
        Shape::Whole(1, 525_600),
        "Minutes of silence after which a new session starts.",
        "Minutos de silencio tras los que empieza una sesión nueva.",
    )
    .extra(),
    Field::new(
        "recall_max",
        Shape::Whole(0, 50),
        "Messages that `/recall` shows at most; 0 is off.",
        "Mensajes que `/recall` muestra como mucho; 0 lo apaga.",
    )
    .preset("0")
    .extra(),
];

/// The admin server.
pub const OBSERVABILITY: &[Field] = &[
    Field::new(
        "enabled",
        Shape::Flag,
        "Whether it runs.",
        "Si está activo.",
    )
    .preset("true"),
    Field::new(
        "addr",
        Shape::Listen,
        "Listening address. One that is not loopback is a warning.",
        "Dirección de escucha. Una que no sea loopback es un aviso.",
    )
    .preset("127.0.0.1:2112"),
    Field::new(
        "allow_hosts",
        Shape::List(&Shape::HostName, 0, 64),
        "Further names accepted in the Host header.",
        "Otros nombres aceptados en la cabecera Host.",
    )
    .extra(),
];

/// The write surface.
pub const ADMIN: &[Field] = &[Field::new(
    "token_env",
    Shape::Env,
    "Name of the environment variable that holds the admin token. Unset: read-only.",
    "Nombre de la variable de entorno con el token de administración. Sin definir: solo lectura.",
)
.required()];

/// Words that session triggers may not be, for Korvun answers to them itself.
pub const COMMANDS: &[&str] = command::WORDS;
