//! The kinds of tool: what each is, as data, with the cage that it needs, and how it is made.
//! Opens nothing.

use std::sync::Arc;

use super::calc::{self, Calc};
use super::echo::{self, Echo};
use super::http_fetch::{self, HttpFetch};
use super::memory_note::{self, MemoryNote};
use super::port::Tool;
use super::read_file::{self, ReadFile};
use super::root::Forbidden;
use super::time::{self, Time};
use super::webhook_call::{self, WebhookCall};
use crate::domain::brain::{Agent, Sensitivity};
use crate::domain::catalogue::{Docs, Field, Shape, Stage, ToolDescriptor};
use crate::domain::completion::ToolSpec;
use crate::domain::ids::BrainName;
use crate::net::http::Wire;
use crate::store::Store;

/// What the tools of one brain are made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The brain.
    pub brain: &'a BrainName,
    /// Whether it is private.
    pub sensitivity: Sensitivity,
    /// Its cages.
    pub agent: &'a Agent,
    /// What network tools send by; its bounds are theirs.
    pub wire: &'a Wire,
    /// What may not be read.
    pub forbidden: &'a Forbidden,
    /// Where notes are kept; none without storage.
    pub store: Option<&'a Arc<Store>>,
}

/// Makes the tool of one brain; `None` where its cage or the store that it needs is missing.
pub type Constructor = fn(&Parts<'_>) -> Option<Arc<dyn Tool>>;

/// One kind of tool that the catalogue offers.
#[derive(Debug)]
pub struct Kind {
    /// What it is, as data.
    pub descriptor: &'static ToolDescriptor,
    /// What a model is told of it.
    pub spec: fn() -> ToolSpec,
    /// What makes one.
    pub make: Constructor,
}

/// Every kind of tool. A new one is one line here. None runs a shell, and none will.
pub const KINDS: &[Kind] = &[
    kind(&TIME, time::spec, |parts| {
        Some(Arc::new(Time::new(Arc::clone(parts.wire.clock()))))
    }),
    kind(&ECHO, echo::spec, |_| Some(Arc::new(Echo))),
    kind(&CALC, calc::spec, |_| Some(Arc::new(Calc))),
    kind(&READ_FILE, read_file::spec, |parts| {
        let cage = parts.agent.read_file.as_ref()?;
        Some(Arc::new(ReadFile::new(cage, parts.forbidden)))
    }),
    kind(&HTTP_FETCH, http_fetch::spec, |parts| {
        let cage = parts.agent.http_fetch.as_ref()?;
        Some(Arc::new(HttpFetch::new(
            cage,
            parts.sensitivity,
            parts.wire,
        )))
    }),
    kind(&WEBHOOK_CALL, webhook_call::spec, |parts| {
        let cage = parts.agent.webhook_call.as_ref()?;
        Some(Arc::new(WebhookCall::new(
            cage,
            parts.sensitivity,
            parts.wire,
        )))
    }),
    kind(&MEMORY_NOTE, memory_note::spec, |parts| {
        let (memory, store) = (parts.agent.memory?, Arc::clone(parts.store?));
        let brain = parts.brain.clone();
        Some(Arc::new(MemoryNote::new(
            memory,
            brain,
            parts.sensitivity,
            store,
        )))
    }),
];

const fn kind(
    descriptor: &'static ToolDescriptor,
    spec: fn() -> ToolSpec,
    make: Constructor,
) -> Kind {
    Kind {
        descriptor,
        spec,
        make,
    }
}

/// The kind of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.descriptor.name == name)
}

/// A tool without reach: no cage, no network, nothing kept.
const fn pure(name: &'static str, en: &'static str, es: &'static str) -> ToolDescriptor {
    ToolDescriptor {
        name,
        docs: Docs { en, es },
        cage: None,
        sensitive: false,
        network: false,
        effects: false,
        stores: false,
        stage: Stage::Built,
    }
}

/// The present time.
pub const TIME: ToolDescriptor = pure("time", "The present time in UTC.", "La hora actual en UTC.");

/// Its own arguments.
pub const ECHO: ToolDescriptor = pure("echo", "Returns its text.", "Devuelve su texto.");

/// Arithmetic.
pub const CALC: ToolDescriptor = pure("calc", "Bounded arithmetic.", "Aritmética acotada.");

/// Files below one folder.
pub const READ_FILE: ToolDescriptor = ToolDescriptor {
    cage: Some(Field::new(
        "read_file",
        Shape::Object(&[
            Field::new(
                "root",
                Shape::File,
                "The only folder below which files are read.",
                "La única carpeta bajo la que se leen ficheros.",
            )
            .required(),
            MAX_BYTES,
        ]),
        "The cage of `read_file`.",
        "La jaula de `read_file`.",
    )),
    sensitive: true,
    ..pure(
        "read_file",
        "Reads a text file below `root`. Sensitive: local models only.",
        "Lee un fichero de texto bajo `root`. Sensible: solo modelos locales.",
    )
};

/// GET from listed hosts.
pub const HTTP_FETCH: ToolDescriptor = ToolDescriptor {
    cage: Some(Field::new(
        "http_fetch",
        Shape::Object(&[
            ALLOW_HOSTS,
            MAX_BYTES,
            Field::new(
                "max_redirects",
                Shape::Whole(0, 10),
                "Redirects followed, to listed hosts only.",
                "Redirecciones que se siguen, solo a hosts listados.",
            )
            .preset("3"),
        ]),
        "The cage of `http_fetch`.",
        "La jaula de `http_fetch`.",
    )),
    network: true,
    ..pure(
        "http_fetch",
        "HTTP GET from listed hosts.",
        "HTTP GET a hosts listados.",
    )
};

/// POST to listed hosts.
pub const WEBHOOK_CALL: ToolDescriptor = ToolDescriptor {
    cage: Some(Field::new(
        "webhook_call",
        Shape::Object(&[
            ALLOW_HOSTS,
            MAX_BYTES,
            Field::new(
                "timeout_seconds",
                Shape::Whole(1, 300),
                "The limit of one call, in seconds.",
                "El límite de una llamada, en segundos.",
            )
            .preset("10"),
        ]),
        "The cage of `webhook_call`.",
        "La jaula de `webhook_call`.",
    )),
    network: true,
    effects: true,
    ..pure(
        "webhook_call",
        "HTTP POST of JSON to listed hosts.",
        "HTTP POST de JSON a hosts listados.",
    )
};

/// Notes that the brain remembers.
pub const MEMORY_NOTE: ToolDescriptor = ToolDescriptor {
    cage: Some(Field::new(
        "memory",
        Shape::Object(&[
            Field::new(
                "scope",
                Shape::Word(&["conversation", "brain"]),
                "Whose notes are kept together.",
                "De quién son las notas que se guardan juntas.",
            )
            .preset("conversation"),
            Field::new(
                "max_notes",
                Shape::Whole(1, 100),
                "Notes kept.",
                "Notas que se guardan.",
            )
            .preset("10"),
            Field::new(
                "max_note_runes",
                Shape::Whole(1, 2000),
                "Characters of one note.",
                "Caracteres de una nota.",
            )
            .preset("200"),
            Field::new(
                "budget_runes",
                Shape::Whole(1, 200_000),
                "Characters of all notes; at least `max_notes` × `max_note_runes`.",
                "Caracteres de todas las notas; al menos `max_notes` × `max_note_runes`.",
            )
            .preset("2000"),
        ]),
        "The bounds of `memory_note`.",
        "Los límites de `memory_note`.",
    )),
    effects: true,
    stores: true,
    ..pure(
        "memory_note",
        "Stores one short note within the brain's scope.",
        "Guarda una nota breve en el ámbito del cerebro.",
    )
};

const MAX_BYTES: Field = Field::new(
    "max_bytes",
    Shape::Whole(1, 1_048_576),
    "Bytes read at most; the rest is cut.",
    "Bytes que se leen como mucho; el resto se corta.",
)
.preset("65536");

const ALLOW_HOSTS: Field = Field::new(
    "allow_hosts",
    Shape::List(&Shape::HostPort, 1, 200),
    "The only hosts reached: exact names or addresses, with an optional port.",
    "Los únicos hosts alcanzables: nombres o direcciones exactos, con puerto opcional.",
)
.required();
