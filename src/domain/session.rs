//! Sessions: when one is over, and how the end of an earlier one is brought back. Pure; the zone
//! and every moment come in by value.

use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::Timestamp;

use super::message::{ChatKind, Language, Role};
use super::prompt;
use crate::base::clock::UnixMs;

/// Minutes of a day.
const MINUTES_OF_DAY: u32 = 24 * 60;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// When a session ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Minutes after midnight, local time, at which a new one begins.
    pub daily_at: Option<u32>,
    /// Silence after which a new one begins.
    pub idle: Option<Duration>,
}

/// When something was said in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First.
    pub first: UnixMs,
    /// Last, answers included.
    pub last: UnixMs,
}

/// Whether a message of the moment `now` finds the session over; `said` is none while the session is
/// empty, and then there is nothing to leave behind. A beginning that lies a day ahead was told by
/// a clock that was wrong.
#[must_use]
pub fn over(expiry: &Expiry, zone: &TimeZone, said: Option<Span>, now: UnixMs) -> bool {
    let Some(said) = said else {
        return false;
    };
    let silent = expiry.idle.is_some_and(|idle| now.since(said.last) >= idle);
    let another_day = expiry.daily_at.is_some_and(|minutes| {
        said.first.since(now) > DAY
            || day_began(zone, minutes, now).is_some_and(|day| said.first < day)
    });
    silent || another_day
}

/// The last moment, up to `now`, at which the clock of the zone showed this time of day. Where it
/// was skipped because clocks went forward, the first moment behind the gap counts that the zone
/// puts in its place; where it came twice, the first.
fn day_began(zone: &TimeZone, minutes: u32, now: UnixMs) -> Option<UnixMs> {
    let minutes = minutes % MINUTES_OF_DAY;
    let time = Time::new(
        i8::try_from(minutes / 60).ok()?,
        i8::try_from(minutes % 60).ok()?,
        0,
        0,
    )
    .ok()?;
    let moment = Timestamp::from_millisecond(now.0).ok()?;
    let mut date = zone.to_datetime(moment).date();
    // Today's, else yesterday's; a zone that crossed the date line may lack a day.
    for _ in 0..3 {
        let at = zone
            .to_ambiguous_timestamp(date.to_datetime(time))
            .compatible()
            .ok()?;
        if at <= moment {
            return Some(UnixMs(at.as_millisecond()));
        }
        date = date.yesterday().ok()?;
    }
    None
}

/// One message of an earlier session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Who speaks.
    pub role: Role,
    /// The name that people see.
    pub name: String,
    /// What was said.
    pub text: String,
}

/// The end of an earlier session as one marked block, which people and the model see alike.
#[must_use]
pub fn recalled(lines: &[Line], chat: ChatKind, language: Language) -> String {
    let (begin, end, user) = match language {
        Language::En => ("[From the last conversation:]", "[End of it.]", "You"),
        Language::Es => ("[De la última conversación:]", "[Fin.]", "Tú"),
    };
    let mut block = begin.to_owned();
    for line in lines {
        let shown = match (line.role, chat) {
            // In a group several people speak.
            (Role::User, ChatKind::Group) if !line.name.trim().is_empty() => {
                prompt::said_by_person(chat, &line.name, &line.text).text
            }
            (Role::User, _) => format!("{user}: {}", line.text),
            _ if line.name.trim().is_empty() => format!("Korvun: {}", line.text),
            _ => format!("{}: {}", line.name.trim(), line.text),
        };
        block.push_str("\n\n");
        block.push_str(shown.trim_end());
    }
    block.push_str("\n\n");
    block.push_str(end);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central Europe by its rule, so that no database is needed: +1, in summer +2, changes on the
    /// last Sundays of March (02:00 to 03:00) and October (03:00 to 02:00).
    fn zone() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn at(text: &str) -> UnixMs {
        UnixMs(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn a_day_begins_by_the_local_clock() {
        for (minutes, now, began) in [
            // Winter and summer.
            (240, "2026-01-15T12:00:00Z", "2026-01-15T03:00:00Z"),
            (240, "2026-07-15T12:00:00Z", "2026-07-15T02:00:00Z"),
            // Before the hour it is yesterday's, at the hour today's.
            (240, "2026-01-15T02:59:59.999Z", "2026-01-14T03:00:00Z"),
            (240, "2026-01-15T03:00:00Z", "2026-01-15T03:00:00Z"),
            (0, "2025-12-31T23:00:00Z", "2025-12-31T23:00:00Z"),
            // 02:30 of 29 March 2026 does not exist: 03:30 summer time stands for it.
            (150, "2026-03-29T01:29:59Z", "2026-03-28T01:30:00Z"),
            (150, "2026-03-29T01:30:00Z", "2026-03-29T01:30:00Z"),
            (150, "2026-03-30T12:00:00Z", "2026-03-30T00:30:00Z"),
            // 02:30 of 25 October 2026 comes twice: the day began at the first.
            (150, "2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z"),
            (150, "2026-10-25T01:30:00Z", "2026-10-25T00:30:00Z"),
            (150, "2026-10-25T12:00:00Z", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(
                day_began(&zone(), minutes, at(now)),
                Some(at(began)),
                "{minutes} at {now}"
            );
        }
        assert_eq!(day_began(&zone(), 0, UnixMs(i64::MAX)), None);
    }

    #[test]
    fn a_session_is_over_after_silence_or_when_the_day_has_begun() {
        let both = Expiry {
            daily_at: Some(240),
            idle: Some(Duration::from_secs(3600)),
        };
        let daily = Expiry { idle: None, ..both };
        let idle = Expiry {
            daily_at: None,
            ..both
        };
        let day = "2026-01-15T";
        let t = |time: &str| format!("{day}{time}Z");
        for (expiry, began, last, now, is_over) in [
            (idle, "10:00:00", "10:00:00", "10:59:59", false),
            (idle, "10:00:00", "10:00:00", "11:00:00", true),
            // The clock went back.
            (idle, "10:00:00", "10:00:00", "09:00:00", false),
            (daily, "02:59:59", "02:59:59", "02:59:59.5", false),
            (daily, "02:59:59", "02:59:59", "03:00:00", true),
            (daily, "03:00:00", "03:00:00", "23:00:00", false),
            // Answered only after the day began: the next message still finds it over.
            (daily, "02:50:00", "03:05:00", "03:06:00", true),
            (both, "03:00:00", "10:00:00", "10:30:00", false),
            (both, "03:00:00", "10:00:00", "11:30:00", true),
            (Expiry::default(), "01:00:00", "01:00:00", "23:00:00", false),
        ] {
            let said = Span {
                first: at(&t(began)),
                last: at(&t(last)),
            };
            assert_eq!(
                over(&expiry, &zone(), Some(said), at(&t(now))),
                is_over,
                "{expiry:?} {began} {last} {now}"
            );
        }
        let now = at("2026-01-15T12:00:00Z");
        assert!(!over(&both, &zone(), None, now), "empty");
        let ahead = |hours: u64| {
            let at = now.plus(Duration::from_secs(hours * 3600));
            Some(Span {
                first: at,
                last: at,
            })
        };
        assert!(!over(&both, &zone(), ahead(1), now));
        assert!(over(&daily, &zone(), ahead(25), now), "a wrong clock");
    }

    #[test]
    fn what_is_brought_back_is_one_marked_block() {
        let line = |role, name: &str, text: &str| Line {
            role,
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let lines = [
            line(Role::User, "Ana", "what is tea?"),
            line(Role::Assistant, "Iris", "A drink.\n"),
            line(Role::Operator, "", "A hot one."),
        ];
        assert_eq!(
            recalled(&lines, ChatKind::Direct, Language::En),
            "[From the last conversation:]\n\nYou: what is tea?\n\nIris: A drink.\n\nKorvun: A hot one.\n\n[End of it.]"
        );
        let block = recalled(&lines[..1], ChatKind::Group, Language::Es);
        assert_eq!(
            block,
            "[De la última conversación:]\n\nAna: what is tea?\n\n[Fin.]"
        );
    }
}
