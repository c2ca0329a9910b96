//! The honest sentences: why there is no answer, and what the person can do. Pure. No technical
//! detail ever stands in them; that is for the log.

use super::completion::{Failure, FailureKind};
use super::message::Language;

/// Why there is no answer, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// Too many messages of this conversation wait already.
    Busy,
    /// The model is being loaded.
    ModelStarting,
    /// The model cannot be reached, or its server is in trouble.
    Unreachable,
    /// The model's provider asks to slow down.
    Overloaded,
    /// The answer did not come in time.
    TooLate,
    /// The models do not agree.
    NoAgreement,
    /// The message is of a kind that cannot be read.
    CannotRead {
        /// What it is: a channel's word (`photo`, `voice`) or a media type.
        kind: String,
    },
    /// The provider's content filter.
    Refused,
    /// The model said nothing that can be shown.
    NoWords,
    /// A quota that waiting does not heal.
    Quota,
    /// Something that only the operator can put right.
    NotSetUp,
    /// No brain answers here.
    NoRoute,
    /// It was said to a private brain, and a public one is to answer now.
    Moved,
    /// Given up after the last attempt.
    SetAside,
    /// Stands behind an answer that the model's length limit has cut.
    CutMark,
}

/// What cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreadable {
    /// Photos and other pictures.
    Picture,
    /// Voice messages and other sound.
    Sound,
    /// Videos.
    Video,
    /// Stickers.
    Sticker,
    /// Files.
    File,
    /// Anything else.
    Other,
}

impl Unreadable {
    /// By a channel's word (`photo`, `voice`) or a media type (`image/png`).
    fn of(kind: &str) -> Unreadable {
        let kind = kind.trim().to_ascii_lowercase();
        match kind.split('/').next().unwrap_or("") {
            "image" | "photo" | "picture" => Unreadable::Picture,
            "audio" | "voice" => Unreadable::Sound,
            "video" | "video_note" | "animation" => Unreadable::Video,
            "sticker" => Unreadable::Sticker,
            "application" | "text" | "document" | "file" => Unreadable::File,
            _ => Unreadable::Other,
        }
    }
}

impl Excuse {
    /// The reason's word in logs and events.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Excuse::Busy => "busy",
            Excuse::ModelStarting => "model_starting",
            Excuse::Unreachable => "unreachable",
            Excuse::Overloaded => "overloaded",
            Excuse::TooLate => "too_late",
            Excuse::NoAgreement => "no_agreement",
            Excuse::CannotRead { .. } => "cannot_read",
            Excuse::Refused => "refused",
            Excuse::NoWords => "no_words",
            Excuse::Quota => "quota",
            Excuse::NotSetUp => "not_set_up",
            Excuse::NoRoute => "no_route",
            Excuse::Moved => "moved",
            Excuse::SetAside => "set_aside",
            Excuse::CutMark => "cut",
        }
    }

    /// The sentence for the person.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        let (en, es) = match self {
            Excuse::Busy => (
                "Many messages are waiting here already. Please send this one again in a little while.",
                "Aquí ya hay muchos mensajes en espera. Vuelve a enviar este dentro de un rato, por favor.",
            ),
            Excuse::ModelStarting => (
                "My model is still starting up. Please try again in a minute or two.",
                "Mi modelo todavía está arrancando. Vuelve a intentarlo en un par de minutos, por favor.",
            ),
            Excuse::Unreachable => (
                "I can't reach my model right now. Please try again in a few minutes.",
                "Ahora mismo no puedo contactar con mi modelo. Vuelve a intentarlo en unos minutos, por favor.",
            ),
            Excuse::Overloaded => (
                "My model is getting too many questions right now. Please try again in a few minutes.",
                "Mi modelo recibe demasiadas preguntas en este momento. Vuelve a intentarlo en unos minutos, por favor.",
            ),
            Excuse::TooLate => (
                "I couldn't finish an answer in time. Please try again, perhaps with a shorter question.",
                "No he podido terminar la respuesta a tiempo. Vuelve a intentarlo, quizá con una pregunta más corta.",
            ),
            Excuse::NoAgreement => (
                "My models don't agree on an answer, and I'd rather not guess. You could ask in another way.",
                "Mis modelos no se ponen de acuerdo y prefiero no adivinar. Puedes preguntarlo de otra manera.",
            ),
            Excuse::CannotRead { kind } => unreadable(Unreadable::of(kind)),
            Excuse::Refused => (
                "The service behind my model does not let it answer this. You could put it another way.",
                "El servicio de mi modelo no le permite responder a esto. Puedes decirlo de otra manera.",
            ),
            Excuse::NoWords => (
                "My model came back without an answer. Please try again, or ask in another way.",
                "Mi modelo no ha dado ninguna respuesta. Vuelve a intentarlo o pregúntalo de otra manera.",
            ),
            Excuse::Quota => (
                "What my model may be used for is spent for now. Please try again later, or tell whoever runs me.",
                "El cupo de uso de mi modelo se ha agotado por ahora. Inténtalo más tarde o avisa a quien me administra.",
            ),
            Excuse::NotSetUp => (
                "I can't answer because of how I am set up. Please tell whoever runs me.",
                "No puedo responder por cómo estoy configurado. Avisa a quien me administra, por favor.",
            ),
            Excuse::NoRoute => (
                "I haven't been connected to a model here yet. Please tell whoever runs me.",
                "Aquí todavía no me han conectado a ningún modelo. Avisa a quien me administra, por favor.",
            ),
            Excuse::Moved => (
                "My setup changed while this waited, so I kept it from the model that answers now. Please send it again if it may have it.",
                "Mi configuración cambió mientras esperabas y no lo he pasado al modelo que responde ahora. Vuelve a enviarlo si puede verlo.",
            ),
            Excuse::SetAside => (
                "I tried to answer this several times and it went wrong, so I have put it aside. Whoever runs me can see it.",
                "He intentado responder a esto varias veces y ha salido mal, así que lo he apartado. Quien me administra puede verlo.",
            ),
            Excuse::CutMark => (
                "[… the answer was too long and ends here.]",
                "[… la respuesta era demasiado larga y termina aquí.]",
            ),
        };
        match language {
            Language::En => en.to_owned(),
            Language::Es => es.to_owned(),
        }
    }
}

fn unreadable(what: Unreadable) -> (&'static str, &'static str) {
    match what {
        Unreadable::Picture => (
            "I can't look at pictures. Please tell me in words.",
            "No puedo ver imágenes. Cuéntamelo con palabras, por favor.",
        ),
        Unreadable::Sound => (
            "I can't listen to voice messages. Please write it to me.",
            "No puedo escuchar mensajes de voz. Escríbemelo, por favor.",
        ),
        Unreadable::Video => (
            "I can't watch videos. Please tell me in words.",
            "No puedo ver vídeos. Cuéntamelo con palabras, por favor.",
        ),
        Unreadable::Sticker => (
            "I can't make out stickers. Please tell me in words.",
            "No entiendo los stickers. Dímelo con palabras, por favor.",
        ),
        Unreadable::File => (
            "I can't open files. Please paste the part that matters as text.",
            "No puedo abrir archivos. Pega como texto la parte que importa, por favor.",
        ),
        Unreadable::Other => (
            "I can't read this kind of message. Please send it as text.",
            "No puedo leer este tipo de mensaje. Envíalo como texto, por favor.",
        ),
    }
}

/// The most helpful sentence for a run in which these models failed: first what the person can do
/// something about, then what passes by itself, last what only the operator can mend.
#[must_use]
pub fn excuse_of<'a>(failures: impl IntoIterator<Item = &'a Failure>) -> Excuse {
    const HELPFUL_FIRST: [Excuse; 8] = [
        Excuse::Refused,
        Excuse::ModelStarting,
        Excuse::Overloaded,
        Excuse::TooLate,
        Excuse::NoWords,
        Excuse::Unreachable,
        Excuse::Quota,
        Excuse::NotSetUp,
    ];
    let excuses: Vec<Excuse> = failures.into_iter().filter_map(excuse_of_one).collect();
    HELPFUL_FIRST
        .into_iter()
        .find(|excuse| excuses.contains(excuse))
        .unwrap_or(Excuse::TooLate)
}

/// `None` for a call that was given up: it failed for no reason of its own.
fn excuse_of_one(failure: &Failure) -> Option<Excuse> {
    if failure.loading {
        return Some(Excuse::ModelStarting);
    }
    Some(match failure.kind {
        FailureKind::Connect => Excuse::Unreachable,
        FailureKind::Timeout => Excuse::TooLate,
        FailureKind::Rate => Excuse::Overloaded,
        FailureKind::Quota => Excuse::Quota,
        FailureKind::Empty | FailureKind::Body => Excuse::NoWords,
        FailureKind::Status if failure.status.is_some_and(|status| status >= 500) => {
            Excuse::Unreachable
        }
        // A redirect is a wrong address in the file; without one it is the content filter.
        FailureKind::Refused
            if failure
                .status
                .is_none_or(|status| !(300..400).contains(&status)) =>
        {
            Excuse::Refused
        }
        FailureKind::Auth
        | FailureKind::Status
        | FailureKind::Refused
        | FailureKind::Shield
        | FailureKind::ToolsUnsupported => Excuse::NotSetUp,
        FailureKind::Cancelled => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Excuse> {
        let cannot_read = |kind: &str| Excuse::CannotRead {
            kind: kind.to_owned(),
        };
        let mut all = vec![
            Excuse::Busy,
            Excuse::ModelStarting,
            Excuse::Unreachable,
            Excuse::Overloaded,
            Excuse::TooLate,
            Excuse::NoAgreement,
            Excuse::Refused,
            Excuse::NoWords,
            Excuse::Quota,
            Excuse::NotSetUp,
            Excuse::NoRoute,
            Excuse::Moved,
            Excuse::SetAside,
            Excuse::CutMark,
        ];
        let kinds = ["photo", "voice", "video", "sticker", "document", "location"];
        all.extend(kinds.map(cannot_read));
        all
    }

    #[test]
    fn sentences_are_short_plain_and_different() {
        let mut seen = Vec::new();
        for excuse in all() {
            for language in [Language::En, Language::Es] {
                let text = excuse.text(language);
                assert!(text.trim_end_matches(']').ends_with('.'), "{text}");
                assert!(text.chars().count() <= 130, "{text}");
                let words = text.to_lowercase();
                for word in words.split(|c: char| !c.is_alphanumeric()) {
                    let technical = [
                        "http", "error", "json", "token", "api", "timeout", "provider", "ollama",
                    ];
                    assert!(!technical.contains(&word), "{text}");
                }
                assert!(!text.chars().any(|c| c.is_ascii_digit()), "{text}");
                assert!(!seen.contains(&text), "twice: {text}");
                seen.push(text);
            }
        }
    }

    #[test]
    fn the_most_helpful_excuse_is_picked() {
        let with = |kind, status, loading| Failure {
            status,
            loading,
            ..Failure::new(kind, "x")
        };
        let plain = |kind| with(kind, None, false);
        use FailureKind::*;
        for (failures, excuse) in [
            (vec![plain(Connect)], Excuse::Unreachable),
            (vec![with(Connect, None, true)], Excuse::ModelStarting),
            (vec![with(Timeout, None, true)], Excuse::ModelStarting),
            (vec![plain(Timeout)], Excuse::TooLate),
            (vec![plain(Rate)], Excuse::Overloaded),
            (vec![plain(Quota)], Excuse::Quota),
            (vec![plain(Auth)], Excuse::NotSetUp),
            (vec![with(Status, Some(404), false)], Excuse::NotSetUp),
            (vec![with(Status, Some(503), false)], Excuse::Unreachable),
            (vec![plain(Body)], Excuse::NoWords),
            (vec![plain(Empty)], Excuse::NoWords),
            (vec![plain(Refused)], Excuse::Refused),
            (vec![with(Refused, Some(200), false)], Excuse::Refused),
            (vec![with(Refused, Some(302), false)], Excuse::NotSetUp),
            (vec![plain(Shield)], Excuse::NotSetUp),
            (vec![plain(ToolsUnsupported)], Excuse::NotSetUp),
            // Each before the next one down.
            (
                vec![with(Connect, None, true), plain(Refused)],
                Excuse::Refused,
            ),
            (
                vec![plain(Rate), with(Connect, None, true)],
                Excuse::ModelStarting,
            ),
            (vec![plain(Timeout), plain(Rate)], Excuse::Overloaded),
            (vec![plain(Empty), plain(Timeout)], Excuse::TooLate),
            (vec![plain(Connect), plain(Empty)], Excuse::NoWords),
            (vec![plain(Quota), plain(Connect)], Excuse::Unreachable),
            (vec![plain(Auth), plain(Connect)], Excuse::Unreachable),
            (vec![plain(Auth), plain(Quota)], Excuse::Quota),
            (
                vec![plain(Connect), plain(Refused), plain(Auth)],
                Excuse::Refused,
            ),
            (vec![plain(Cancelled), plain(Auth)], Excuse::NotSetUp),
            (vec![plain(Cancelled)], Excuse::TooLate),
            (vec![], Excuse::TooLate),
        ] {
            assert_eq!(excuse_of(&failures), excuse, "{failures:?}");
        }
    }

    #[test]
    fn kinds_of_messages_have_a_name() {
        for (kind, what) in [
            ("photo", Unreadable::Picture),
            ("image/PNG", Unreadable::Picture),
            ("voice", Unreadable::Sound),
            ("audio/ogg", Unreadable::Sound),
            ("video_note", Unreadable::Video),
            ("sticker", Unreadable::Sticker),
            ("application/pdf", Unreadable::File),
            ("location", Unreadable::Other),
            ("", Unreadable::Other),
        ] {
            assert_eq!(Unreadable::of(kind), what, "{kind}");
        }
    }
}
