//! From method and path to one closed list of what can be asked. Pure.

use crate::domain::ids::{BrainName, ChannelName, Conversation, MessageId};

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `GET /readyz`.
    Ready,
    /// `GET /metrics`.
    Metrics,
    /// `GET /api/brains`.
    Brains,
    /// `GET /api/channels`.
    Channels,
    /// `POST /api/conversations/KEY/message`.
    Say(Conversation),
    /// `GET /api/messages/ID`.
    Message(MessageId),
    /// `GET /api/tools/BRAIN`.
    Tools(BrainName),
}

/// Whether the part of the API that needs the admin token is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surface {
    /// The token is known.
    Whole,
    /// There is no token: what needs it is not mounted.
    ReadOnly,
}

/// Why there is nothing to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// No such path; says why.
    NotFound(&'static str),
    /// The path is there, with other methods (the value of `Allow`).
    Method(&'static str),
}

const NOTHING: Miss = Miss::NotFound("there is nothing at this path");
const UNMOUNTED: Miss =
    Miss::NotFound("this part of the API is there when admin.token_env names a set variable");
const PAGES: Miss = Miss::NotFound("this build has no pages; see /readyz, /metrics and /api/");

impl Route {
    /// Whether only the operator may ask it.
    pub(super) fn needs_token(&self) -> bool {
        matches!(self, Route::Say(_) | Route::Message(_) | Route::Tools(_))
    }

    /// Reads method and path. HEAD is understood wherever GET is (RFC 9110 section 9.1).
    pub(super) fn of(method: &str, path: &str, surface: Surface) -> Result<Route, Miss> {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let mounted = |route| match surface {
            Surface::Whole => Ok(route),
            Surface::ReadOnly => Err(UNMOUNTED),
        };
        let (route, methods) = match segments[..] {
            ["readyz"] => (Route::Ready, "GET, HEAD"),
            ["metrics"] => (Route::Metrics, "GET, HEAD"),
            ["api", "brains"] => (Route::Brains, "GET, HEAD"),
            ["api", "channels"] => (Route::Channels, "GET, HEAD"),
            ["api", "conversations", key, "message"] => (
                mounted(Route::Say(conversation(key).ok_or(NOTHING)?))?,
                "POST",
            ),
            ["api", "messages", id] => {
                let id = decode(id).filter(|id| !id.is_empty()).ok_or(NOTHING)?;
                (mounted(Route::Message(MessageId::new(&id)))?, "GET, HEAD")
            }
            ["api", "tools", name] => {
                let name = decode(name)
                    .filter(|name| !name.is_empty())
                    .ok_or(NOTHING)?;
                (mounted(Route::Tools(BrainName::new(&name)))?, "GET, HEAD")
            }
            [""] | ["ui" | "builder" | "chat", ..] => return Err(PAGES),
            _ => return Err(NOTHING),
        };
        if methods.split(", ").any(|known| known == method) {
            Ok(route)
        } else {
            Err(Miss::Method(methods))
        }
    }
}

/// A conversation's key, `CHANNEL::ID` percent-encoded in one segment.
fn conversation(segment: &str) -> Option<Conversation> {
    let key = decode(segment)?;
    let (channel, id) = key.split_once("::")?;
    let whole = !channel.is_empty() && !id.is_empty();
    whole.then(|| Conversation::new(&ChannelName::new(channel), id))
}

/// Percent-decodes one segment; none where an escape is malformed or the result is not UTF-8.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = segment.bytes();
    let mut out = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_somewhere_or_says_why_not() {
        let say = |channel: &str, id: &str| {
            Ok(Route::Say(Conversation::new(
                &ChannelName::new(channel),
                id,
            )))
        };
        for (method, path, expected) in [
            ("GET", "/readyz", Ok(Route::Ready)),
            ("HEAD", "/metrics", Ok(Route::Metrics)),
            ("GET", "/api/brains", Ok(Route::Brains)),
            ("GET", "/api/channels", Ok(Route::Channels)),
            ("POST", "/metrics", Err(Miss::Method("GET, HEAD"))),
            ("get", "/metrics", Err(Miss::Method("GET, HEAD"))),
            ("GET", "/metrics/", Err(NOTHING)),
            ("GET", "//metrics", Err(NOTHING)),
            ("GET", "/%6detrics", Err(NOTHING)),
            ("GET", "/", Err(PAGES)),
            ("GET", "/ui", Err(PAGES)),
            ("GET", "/ui/app.js", Err(PAGES)),
            (
                "POST",
                "/api/conversations/console::home/message",
                say("console", "home"),
            ),
            (
                "POST",
                "/api/conversations/console%3A%3Ami%20casa%2Fa%C3%B1o/message",
                say("console", "mi casa/a\u{f1}o"),
            ),
            (
                "POST",
                "/api/conversations/telegram::-5/message",
                say("telegram", "-5"),
            ),
            (
                "GET",
                "/api/conversations/console::home/message",
                Err(Miss::Method("POST")),
            ),
            ("POST", "/api/conversations/home/message", Err(NOTHING)),
            ("POST", "/api/conversations/console::/message", Err(NOTHING)),
            ("POST", "/api/conversations/::home/message", Err(NOTHING)),
            (
                "POST",
                "/api/conversations/console::%zz/message",
                Err(NOTHING),
            ),
            (
                "POST",
                "/api/conversations/console::%e/message",
                Err(NOTHING),
            ),
            (
                "POST",
                "/api/conversations/console::%ff/message",
                Err(NOTHING),
            ),
            (
                "POST",
                "/api/conversations/console::a/b/message",
                Err(NOTHING),
            ),
            (
                "GET",
                "/api/messages/m%2D1",
                Ok(Route::Message(MessageId::new("m-1"))),
            ),
            (
                "GET",
                "/api/tools/mi%20casa",
                Ok(Route::Tools(BrainName::new("mi casa"))),
            ),
            ("POST", "/api/tools/casa", Err(Miss::Method("GET, HEAD"))),
            ("GET", "/api/tools/", Err(NOTHING)),
            ("GET", "/api/messages/", Err(NOTHING)),
            ("DELETE", "/api/messages/1", Err(Miss::Method("GET, HEAD"))),
        ] {
            assert_eq!(
                Route::of(method, path, Surface::Whole),
                expected,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn without_a_token_what_needs_it_is_not_there() {
        for path in [
            "/api/conversations/console::a/message",
            "/api/messages/1",
            "/api/tools/casa",
        ] {
            for method in ["GET", "POST"] {
                assert_eq!(Route::of(method, path, Surface::ReadOnly), Err(UNMOUNTED));
            }
        }
        assert_eq!(
            Route::of("GET", "/api/brains", Surface::ReadOnly),
            Ok(Route::Brains)
        );
    }
}
