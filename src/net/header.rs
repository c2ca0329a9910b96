//! What header fields of an answer say about waiting: pure, given the present time.

use std::time::Duration;

use crate::base::clock::UnixMs;

/// A `Retry-After` value (RFC 9110, 10.2.3): seconds, also with a fraction as some servers send
/// them, or an HTTP date. A date that has passed is no wait; `None` for anything else.
#[must_use]
pub fn retry_after(value: &str, now: UnixMs) -> Option<Duration> {
    let value = value.trim();
    if let Some(seconds) = seconds(value) {
        return Some(seconds);
    }
    Some(http_date(value)?.since(now))
}

/// A span as Groq's and OpenAI's `x-ratelimit-reset-*` write it: `7.66s`, `2m59.56s`, `120ms`.
#[must_use]
pub fn reset_span(value: &str) -> Option<Duration> {
    let mut rest = value.trim();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let part = seconds(number)?.as_secs_f64() * unit_seconds;
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = tail;
    }
    (!value.trim().is_empty()).then_some(total)
}

fn seconds(text: &str) -> Option<Duration> {
    let plain = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    Duration::try_from_secs_f64(plain.then(|| text.parse().ok())??).ok()
}

/// An HTTP date in the form that servers must send (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<UnixMs> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.split_once(", ")?;
    let parts: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts[..] else {
        return None;
    };
    let month = i64::try_from(MONTHS.iter().position(|known| *known == month)?).ok()? + 1;
    let clock: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = clock[..] else {
        return None;
    };
    let number = |text: &str, most: i64| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value: i64 = plain.then(|| text.parse().ok())??;
        (value <= most).then_some(value)
    };
    let days = days(number(year, 9999)?, month, number(day, 31)?);
    // 60 is a leap second.
    let in_day = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    Some(UnixMs((days * 86_400 + in_day) * 1000))
}

/// Days from 1970-01-01 to a date: years counted from March, so that the leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UnixMs(784_111_777_000);
        for (value, wait) in [
            ("0", Some(0.0)),
            (" 120 ", Some(120.0)),
            ("1.5", Some(1.5)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0.0)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30.0)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0.0)),
            ("Thu, 29 Feb 1996 00:00:00 GMT", Some(41_440_223.0)),
            ("", None),
            ("-1", None),
            ("soon", None),
            ("1e9", None),
            ("99999999999999999999999", None),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
        ] {
            assert_eq!(
                retry_after(value, now).map(|wait| wait.as_secs_f64()),
                wait,
                "{value}"
            );
        }
    }

    #[test]
    fn a_date_is_read_as_the_clock_writes_it() {
        for (text, ms) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400_000),
            ("Wed, 28 Feb 2024 23:59:59 GMT", 1_709_164_799_000),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400_000),
        ] {
            assert_eq!(http_date(text), Some(UnixMs(ms)), "{text}");
        }
    }

    #[test]
    fn reset_spans_are_sums() {
        for (value, ms) in [
            ("7.66s", Some(7660)),
            ("2m59.56s", Some(179_560)),
            ("1h0m1s", Some(3_601_000)),
            ("120ms", Some(120)),
            ("", None),
            ("5", None),
            ("5x", None),
            ("s", None),
            ("-1s", None),
        ] {
            assert_eq!(reset_span(value), ms.map(Duration::from_millis), "{value}");
        }
    }
}
