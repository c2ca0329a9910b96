//! The kinds of tool as data: one descriptor each, with the cage that a tool needs. Data only.

use crate::domain::catalogue::{Docs, Field, Shape, Stage, ToolDescriptor};

/// One kind of tool that the catalogue offers.
#[derive(Debug)]
pub struct Kind {
    /// What it is, as data.
    pub descriptor: &'static ToolDescriptor,
}

/// Every kind of tool. A new one is one line here. None runs a shell, and none will.
pub const KINDS: &[Kind] = &[
    Kind { descriptor: &TIME },
    Kind { descriptor: &ECHO },
    Kind { descriptor: &CALC },
    Kind {
        descriptor: &READ_FILE,
    },
    Kind {
        descriptor: &HTTP_FETCH,
    },
    Kind {
        descriptor: &WEBHOOK_CALL,
    },
    Kind {
        descriptor: &MEMORY_NOTE,
    },
];

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
        stage: Stage::Later,
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
