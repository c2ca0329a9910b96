//! The notes of a brain: what one may hold, who sees which, and how many the prompt shows. Pure.

use std::fmt;

use super::brain::{Memory, MemoryScope};
use super::ids::ChannelName;
use super::message::Language;

/// Why a note is not stored, told so that the model can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteError {
    /// Nothing but white space.
    Empty,
    /// More characters than this.
    TooLong(u32),
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoteError::Empty => f.write_str("the note is empty"),
            NoteError::TooLong(most) => {
                write!(
                    f,
                    "a note has at most {most} characters; nothing was stored"
                )
            }
        }
    }
}

impl std::error::Error for NoteError {}

/// A note as it is stored: one line, without control characters.
///
/// # Errors
/// It is empty or too long.
pub fn note(text: &str, memory: &Memory) -> Result<String, NoteError> {
    let most = usize::try_from(memory.max_note_runes).unwrap_or(usize::MAX);
    let mut line = String::new();
    let mut runes = 0;
    let separates = |c: char| c.is_whitespace() || c.is_control();
    for word in text.split(separates).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
            runes += 1;
        }
        line.push_str(word);
        runes += word.chars().count();
        if runes > most {
            return Err(NoteError::TooLong(memory.max_note_runes));
        }
    }
    if line.is_empty() {
        return Err(NoteError::Empty);
    }
    Ok(line)
}

/// The newest of `notes` (oldest first) that a prompt shows: all of them, unless the bounds have
/// become smaller since they were stored.
#[must_use]
pub fn shown<'a>(notes: &'a [String], memory: &Memory) -> &'a [String] {
    let mut left = u64::from(memory.budget_runes);
    let fitting = notes
        .iter()
        .rev()
        .take(usize::try_from(memory.max_notes).unwrap_or(usize::MAX))
        .take_while(|note| {
            let runes = u64::try_from(note.chars().count()).unwrap_or(u64::MAX);
            let fits = runes <= left;
            left = left.saturating_sub(runes);
            fits
        })
        .count();
    &notes[notes.len() - fitting..]
}

/// What `/notes` says: the notes, one line each, and how many more there are elsewhere.
#[must_use]
pub fn listing(notes: &[String], others: u64, language: Language) -> String {
    let (none, here, more) = match language {
        Language::En => (
            "I have noted nothing here.",
            "What I have noted:",
            "From other conversations:",
        ),
        Language::Es => (
            "Aquí no he anotado nada.",
            "Lo que he anotado:",
            "De otras conversaciones:",
        ),
    };
    let mut out = match notes {
        [] => none.to_owned(),
        _ => here.to_owned(),
    };
    for note in notes {
        out.push_str("\n- ");
        out.push_str(note);
    }
    if others > 0 {
        out.push_str(&format!("\n{more} {others}"));
    }
    out
}

/// What `/notes clear` says.
#[must_use]
pub fn cleared(gone: u64, language: Language) -> String {
    match (gone, language) {
        (0, Language::En) => "There were no notes to forget.".to_owned(),
        (0, Language::Es) => "No había notas que olvidar.".to_owned(),
        (_, Language::En) => format!("Notes forgotten: {gone}"),
        (_, Language::Es) => format!("Notas olvidadas: {gone}"),
    }
}

/// How far `/notes` and `/notes clear` reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All notes of the brain.
    Brain,
    /// Those of the conversation; of the others only the number is told.
    Conversation,
}

/// What the commands reach from a channel: all of a brain's notes from the console only, where the
/// brain keeps them together.
#[must_use]
pub fn reach(scope: MemoryScope, channel: &ChannelName) -> Reach {
    match scope {
        MemoryScope::Brain if channel.as_str() == "console" => Reach::Brain,
        _ => Reach::Conversation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(max_notes: u32, max_note_runes: u32, budget_runes: u32) -> Memory {
        Memory {
            scope: MemoryScope::Conversation,
            max_notes,
            max_note_runes,
            budget_runes,
        }
    }

    #[test]
    fn a_note_is_one_line_within_its_bound() {
        for (text, kept) in [
            ("  la clave\r\n del\tgaraje ", Ok("la clave del garaje")),
            ("a\u{1b}[2Jb\0c\u{2028}d", Ok("a [2Jb c d")),
            ("", Err(NoteError::Empty)),
            (" \n\u{0}", Err(NoteError::Empty)),
            ("ñandúes 20", Ok("ñandúes 20")),
            ("0123456789012345678", Ok("0123456789012345678")),
            ("012345678901234567890", Err(NoteError::TooLong(20))),
            ("0123456789      0123456789", Err(NoteError::TooLong(20))),
        ] {
            assert_eq!(
                note(text, &memory(1, 20, 20)),
                kept.map(str::to_owned),
                "{text:?}"
            );
        }
    }

    #[test]
    fn all_notes_are_shown_unless_the_bounds_shrank() {
        let notes = ["aaaa", "bbb", "cc"].map(str::to_owned);
        for (max_notes, budget, from) in
            [(10, 100, 0), (3, 9, 0), (3, 8, 1), (2, 100, 1), (1, 1, 3)]
        {
            assert_eq!(
                shown(&notes, &memory(max_notes, 20, budget)),
                &notes[from..]
            );
        }
        assert!(shown(&[], &memory(1, 1, 1)).is_empty());
    }

    #[test]
    fn only_the_console_reaches_all_notes_of_a_brain() {
        for (scope, channel, far) in [
            (MemoryScope::Brain, "console", Reach::Brain),
            (MemoryScope::Brain, "telegram", Reach::Conversation),
            (MemoryScope::Conversation, "console", Reach::Conversation),
            (MemoryScope::Conversation, "webhook", Reach::Conversation),
        ] {
            assert_eq!(reach(scope, &ChannelName::new(channel)), far);
        }
    }
}
