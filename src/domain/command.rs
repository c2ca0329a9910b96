//! Commands: which texts are one, what each does, and the sentences that answer them. Pure; the
//! engine carries them out. Only the exact first word counts, so that nobody meets a command by
//! talking about one.

use super::catalogue::Docs;
use super::message::Language;

/// Words that Korvun answers to itself, so that no session trigger may be one of them.
pub const WORDS: &[&str] = &["/recall", "/notes", "/tools", "/help", "/start", "/stop"];

/// One command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a new session. What stands from byte `rest` on is said in it; nothing where that is
    /// the end of the text.
    New {
        /// Where the remainder begins.
        rest: usize,
    },
    /// Shows the tail of the last session that had dialogue.
    Recall {
        /// How many messages are asked for.
        most: Option<u32>,
    },
    /// Shows what the brain has noted.
    Notes,
    /// Clears it.
    NotesClear,
    /// Shows the brain's tools.
    Tools,
    /// Tells of the commands that are there.
    Help,
    /// Greets, and tells of them.
    Start,
    /// Cancels the work on the message in work. Never waits behind it.
    Stop,
}

impl Command {
    /// Whether something is still to be said to the brain when the command is done.
    #[must_use]
    pub fn leaves_words(self, text: &str) -> bool {
        matches!(self, Command::New { rest } if rest < text.len())
    }
}

/// Which commands there are in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The words that begin a new session; `None` without sessions.
    pub triggers: Option<&'a [String]>,
    /// Messages that `/recall` shows at most; 0 where it is off.
    pub recall_max: u32,
    /// Whether the brain keeps notes.
    pub notes: bool,
    /// Whether this is the console, where `/tools` is a command.
    pub console: bool,
}

/// The command that a text is; `None` for a text that goes to the brain, which every other slash
/// word is.
#[must_use]
pub fn read(text: &str, offer: &Offer<'_>) -> Option<Command> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if let Some(triggers) = offer.triggers {
        if triggers.iter().any(|trigger| trigger == first) {
            return Some(Command::New {
                rest: behind(text, first),
            });
        }
    }
    match first {
        "/recall" if offer.triggers.is_some() => Some(Command::Recall {
            most: words.next().and_then(|word| word.parse().ok()),
        }),
        "/notes" if words.next() == Some("clear") => Some(Command::NotesClear),
        "/notes" => Some(Command::Notes),
        "/tools" if offer.console => Some(Command::Tools),
        "/help" => Some(Command::Help),
        "/start" => Some(Command::Start),
        "/stop" => Some(Command::Stop),
        _ => None,
    }
}

/// Where what follows the first word begins.
fn behind(text: &str, first: &str) -> usize {
    let begin = text.len() - text.trim_start().len() + first.len();
    let rest = text[begin..].trim_start();
    text.len() - rest.len()
}

/// A command as it is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word.
    pub word: String,
    /// What it does.
    pub docs: Docs,
}

/// The commands that people are told of. `/start` is none: chat platforms offer it by themselves.
#[must_use]
pub fn menu(offer: &Offer<'_>) -> Vec<Entry> {
    let entry = |word: &str, en, es| Entry {
        word: word.to_owned(),
        docs: Docs { en, es },
    };
    let mut menu = Vec::new();
    for trigger in offer.triggers.unwrap_or_default() {
        menu.push(entry(
            trigger,
            "start afresh: I forget what was said so far",
            "empezar de nuevo: olvido lo dicho hasta ahora",
        ));
    }
    if offer.triggers.is_some() && offer.recall_max > 0 {
        menu.push(entry(
            "/recall",
            "bring back the end of the last conversation",
            "recuperar el final de la última conversación",
        ));
    }
    menu.push(entry(
        "/stop",
        "stop the answer that I am working on",
        "parar la respuesta en la que trabajo",
    ));
    if offer.notes {
        menu.push(entry(
            "/notes",
            "what I have noted; /notes clear forgets it",
            "lo que he anotado; /notes clear lo olvida",
        ));
    }
    if offer.console {
        menu.push(entry(
            "/tools",
            "what my tools may do",
            "lo que pueden hacer mis herramientas",
        ));
    }
    menu.push(entry(
        "/help",
        "what I understand here",
        "lo que entiendo aquí",
    ));
    menu
}

/// The slash words by which the bot is spoken to in a group without its name. A trigger without a
/// slash is a word of everyday life and is none of them.
#[must_use]
pub fn slash_words(offer: &Offer<'_>) -> Vec<String> {
    let mut words: Vec<String> = offer.triggers.unwrap_or_default().to_vec();
    words.extend(WORDS.iter().map(|&word| word.to_owned()));
    words.retain(|word| word.starts_with('/') && read(word, offer).is_some());
    words
}

/// What Korvun says to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// A new session has begun.
    Begun,
    /// The message in work was cancelled.
    Stopped,
    /// Nothing was in work.
    NothingToStop,
    /// `/recall` is off.
    RecallOff,
    /// There is dialogue in this session already.
    RecallLate,
    /// No session before this one had dialogue.
    RecallNothing,
    /// The brain keeps no notes.
    NoNotes,
    /// The brain has no tools.
    NoTools,
    /// The commands that are there.
    Help(&'a Offer<'a>),
    /// The same behind a greeting.
    Start(&'a Offer<'a>),
}

impl Said<'_> {
    /// The sentence for the person.
    #[must_use]
    pub fn text(&self, language: Language) -> String {
        let (en, es) = match self {
            Said::Begun => (
                "We start afresh. I no longer look at what was said before.",
                "Empezamos de nuevo. Ya no miro lo que se dijo antes.",
            ),
            Said::Stopped => (
                "Stopped. That message gets no answer.",
                "Parado. Ese mensaje se queda sin respuesta.",
            ),
            Said::NothingToStop => (
                "There is nothing to stop: I am not working on any message here.",
                "No hay nada que parar: aquí no trabajo en ningún mensaje.",
            ),
            Said::RecallOff => (
                "Bringing back an earlier conversation is switched off here.",
                "Aquí está desactivado recuperar una conversación anterior.",
            ),
            Said::RecallLate => (
                "We are already talking here. Start afresh first, then I can bring back the last conversation.",
                "Aquí ya estamos hablando. Empieza de nuevo y entonces podré recuperar la última conversación.",
            ),
            Said::RecallNothing => (
                "There is no earlier conversation that I could bring back.",
                "No hay ninguna conversación anterior que pueda recuperar.",
            ),
            Said::NoNotes => (
                "I keep no notes here.",
                "Aquí no guardo notas.",
            ),
            Said::NoTools => (
                "I have no tools here.",
                "Aquí no tengo herramientas.",
            ),
            Said::Help(offer) => return help(offer, language),
            Said::Start(offer) => {
                let hello = match language {
                    Language::En => "Hello! Write to me and I will answer.",
                    Language::Es => "¡Hola! Escríbeme y te respondo.",
                };
                return format!("{hello}\n\n{}", help(offer, language));
            }
        };
        match language {
            Language::En => en.to_owned(),
            Language::Es => es.to_owned(),
        }
    }
}

fn help(offer: &Offer<'_>, language: Language) -> String {
    let mut text = match language {
        Language::En => "What I understand here:",
        Language::Es => "Lo que entiendo aquí:",
    }
    .to_owned();
    for entry in menu(offer) {
        let does = match language {
            Language::En => entry.docs.en,
            Language::Es => entry.docs.es,
        };
        text.push_str(&format!("\n{}: {does}", entry.word));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triggers() -> Vec<String> {
        vec!["/new".to_owned(), "nuevo".to_owned()]
    }

    #[test]
    fn what_a_text_is() {
        let triggers = triggers();
        let chat = Offer {
            triggers: Some(&triggers),
            recall_max: 5,
            ..Offer::default()
        };
        let plain = Offer::default();
        let console = Offer {
            console: true,
            ..Offer::default()
        };
        use Command::*;
        for (text, offer, command) in [
            ("/new", &chat, Some(New { rest: 4 })),
            ("/new  ", &chat, Some(New { rest: 6 })),
            (" \n/new \t hola qué tal", &chat, Some(New { rest: 9 })),
            ("nuevo día", &chat, Some(New { rest: 6 })),
            ("/new\u{a0}x", &chat, Some(New { rest: 6 })),
            ("/New", &chat, None),
            ("/newer", &chat, None),
            ("say /new", &chat, None),
            ("/new@bot", &chat, None),
            ("/new", &plain, None),
            ("/recall", &chat, Some(Recall { most: None })),
            ("/recall 7", &chat, Some(Recall { most: Some(7) })),
            ("/recall -7", &chat, Some(Recall { most: None })),
            ("/recall 99999999999", &chat, Some(Recall { most: None })),
            ("/recall", &plain, None),
            ("/notes", &plain, Some(Notes)),
            ("/notes clear", &chat, Some(NotesClear)),
            ("/notes clearly", &chat, Some(Notes)),
            ("/tools", &chat, None),
            ("/tools", &console, Some(Tools)),
            ("/help me", &plain, Some(Help)),
            ("/start deep-link", &plain, Some(Start)),
            ("/stop", &plain, Some(Stop)),
            ("/stopp", &plain, None),
            ("/", &chat, None),
            ("", &chat, None),
            (" \n", &chat, None),
            ("/weather", &chat, None),
        ] {
            assert_eq!(read(text, offer), command, "{text:?}");
        }
        assert!(New { rest: 5 }.leaves_words("/new x"));
        assert!(!New { rest: 4 }.leaves_words("/new"));
        assert!(!Stop.leaves_words("/stop now"));
    }

    #[test]
    fn people_are_told_of_what_is_there_and_of_nothing_else() {
        let triggers = triggers();
        let told = |offer: &Offer<'_>| -> Vec<String> {
            menu(offer).into_iter().map(|entry| entry.word).collect()
        };
        assert_eq!(told(&Offer::default()), ["/stop", "/help"]);
        let sessions = Offer {
            triggers: Some(&triggers),
            ..Offer::default()
        };
        assert_eq!(told(&sessions), ["/new", "nuevo", "/stop", "/help"]);
        let all = Offer {
            recall_max: 1,
            notes: true,
            console: true,
            ..sessions
        };
        assert_eq!(
            told(&all),
            ["/new", "nuevo", "/recall", "/stop", "/notes", "/tools", "/help"]
        );
        assert_eq!(
            slash_words(&sessions),
            ["/new", "/recall", "/notes", "/help", "/start", "/stop"]
        );
        assert_eq!(
            slash_words(&Offer::default()),
            ["/notes", "/help", "/start", "/stop"]
        );
        for entry in menu(&all) {
            assert!(read(&entry.word, &all).is_some(), "{}", entry.word);
            for language in [Language::En, Language::Es] {
                assert!(Said::Help(&all).text(language).contains(&entry.word));
            }
        }
    }

    #[test]
    fn each_sentence_stands_in_both_languages() {
        let offer = Offer::default();
        let mut seen = Vec::new();
        for said in [
            Said::Begun,
            Said::Stopped,
            Said::NothingToStop,
            Said::RecallOff,
            Said::RecallLate,
            Said::RecallNothing,
            Said::NoNotes,
            Said::NoTools,
            Said::Help(&offer),
            Said::Start(&offer),
        ] {
            for language in [Language::En, Language::Es] {
                let text = said.text(language);
                assert!(text.len() > 10 && !seen.contains(&text), "{text}");
                seen.push(text);
            }
        }
    }
}
