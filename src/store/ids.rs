//! Message ids: opaque outside, a row's name inside. Pure.

use crate::domain::ids::MessageId;

/// The id of an inbox row's message.
pub(super) fn inbox_id(epoch: &str, row: i64) -> MessageId {
    MessageId::new(&format!("{epoch}-i{row}"))
}

/// The id of an outbox row's message.
pub(super) fn outbox_id(epoch: &str, row: i64) -> MessageId {
    MessageId::new(&format!("{epoch}-o{row}"))
}

/// What an id speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Inbox(i64),
    Outbox(i64),
}

/// Reads an id back; none for all that this database never gave out.
pub(super) fn parse(epoch: &str, id: &MessageId) -> Option<Known> {
    let rest = id.as_str().strip_prefix(epoch)?.strip_prefix('-')?;
    let digits = rest.get(1..)?;
    // One spelling for each id: no sign, no leading zero.
    if !digits.starts_with(|c: char| matches!(c, '1'..='9')) {
        return None;
    }
    let row = digits.parse().ok()?;
    match rest.as_bytes().first() {
        Some(b'i') => Some(Known::Inbox(row)),
        Some(b'o') => Some(Known::Outbox(row)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_nothing_else_does() {
        let epoch = "00ff";
        for (id, known) in [
            ("00ff-i1", Some(Known::Inbox(1))),
            ("00ff-o9223372036854775807", Some(Known::Outbox(i64::MAX))),
            ("00ff-o9223372036854775808", None),
            ("00ff-i01", None),
            ("00ff-i+1", None),
            ("00ff-i0", None),
            ("00ff-i-1", None),
            ("00ff-i1 ", None),
            ("00ff-i", None),
            ("00ff-x1", None),
            ("00ff-ñ1", None),
            ("00ff-", None),
            ("00fe-i1", None),
            ("", None),
        ] {
            assert_eq!(parse(epoch, &MessageId::new(id)), known, "{id}");
        }
        assert_eq!(inbox_id(epoch, 7).as_str(), "00ff-i7");
        assert_eq!(outbox_id(epoch, 7).as_str(), "00ff-o7");
    }
}
