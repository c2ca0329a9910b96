//! How text looks on a terminal: when colour is used, and that nothing from outside is obeyed.

use std::ffi::OsStr;
use std::io::IsTerminal;

use crate::base::text::printable;

/// Whether colour was switched off on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Colour where it makes sense.
    #[default]
    Auto,
    /// `--no-color`.
    Plain,
}

/// What a piece of text stands for. Colour never carries it alone: the words say it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Something is wrong.
    Bad,
    /// Something deserves a look.
    Odd,
    /// Something is well.
    Good,
    /// A heading or a name.
    Name,
    /// What may be read last.
    Aside,
}

/// How text is written to one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    coloured: bool,
}

impl Style {
    /// Without any colour.
    pub const PLAIN: Style = Style { coloured: false };

    /// The style of standard output.
    #[must_use]
    pub fn of_stdout(wish: Wish) -> Style {
        Style::from_surroundings(wish, std::io::stdout().is_terminal())
    }

    /// The style of standard error.
    #[must_use]
    pub fn of_stderr(wish: Wish) -> Style {
        Style::from_surroundings(wish, std::io::stderr().is_terminal())
    }

    fn from_surroundings(wish: Wish, terminal: bool) -> Style {
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Style::decide(wish, terminal, no_color.as_deref(), term.as_deref())
    }

    /// Colour only on a terminal, never against the wish, `NO_COLOR` or `TERM=dumb`. A `NO_COLOR`
    /// that is empty says nothing (no-color.org).
    #[must_use]
    pub fn decide(
        wish: Wish,
        terminal: bool,
        no_color: Option<&OsStr>,
        term: Option<&OsStr>,
    ) -> Style {
        let forbidden = no_color.is_some_and(|value| !value.is_empty());
        let dumb = term.is_some_and(|value| value == "dumb");
        Style {
            coloured: wish == Wish::Auto && terminal && !forbidden && !dumb,
        }
    }

    /// Whether colour is used.
    #[must_use]
    pub fn coloured(self) -> bool {
        self.coloured
    }

    /// `text` in the colour of its role, control characters shown and not obeyed.
    #[must_use]
    pub fn paint(self, role: Role, text: &str) -> String {
        let text = printable(text);
        if !self.coloured {
            return text;
        }
        // SGR codes (ECMA-48 section 8.3.117).
        let code = match role {
            Role::Bad => "31",
            Role::Odd => "33",
            Role::Good => "32",
            Role::Name => "1",
            Role::Aside => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        for (wish, terminal, no_color, term, coloured) in [
            (Wish::Auto, true, None, Some("xterm"), true),
            (Wish::Auto, true, Some(""), None, true),
            (Wish::Auto, false, None, Some("xterm"), false),
            (Wish::Plain, true, None, Some("xterm"), false),
            (Wish::Auto, true, Some("1"), Some("xterm"), false),
            (Wish::Auto, true, None, Some("dumb"), false),
        ] {
            let style = Style::decide(
                wish,
                terminal,
                no_color.map(OsStr::new),
                term.map(OsStr::new),
            );
            assert_eq!(
                style.coloured(),
                coloured,
                "{wish:?} {terminal} {no_color:?} {term:?}"
            );
        }
    }

    #[test]
    fn what_came_from_outside_is_shown_and_not_obeyed() {
        let style = Style::decide(Wish::Auto, true, None, None);
        assert_eq!(
            style.paint(Role::Bad, "a\u{1b}[2J"),
            "\u{1b}[31ma\\u{1b}[2J\u{1b}[0m"
        );
        assert_eq!(Style::PLAIN.paint(Role::Bad, "a\rb"), "a\\rb");
    }
}
