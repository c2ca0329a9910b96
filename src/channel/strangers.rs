//! Who has been named in the log as a stranger, so that each is named once in a while and no more.
//! Pure; times come in by value.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Strangers that were named.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    named: BTreeMap<String, Instant>,
    again: Duration,
    most: usize,
}

impl Strangers {
    /// Nobody yet; each is named once within `again`, `most` are remembered.
    pub(super) fn new(again: Duration, most: usize) -> Strangers {
        Strangers {
            named: BTreeMap::new(),
            again,
            most,
        }
    }

    /// Whether this one is to be named now. When all places are taken nobody is: a log line for
    /// each would cost more than it is worth.
    pub(super) fn names(&mut self, sender: &str, now: Instant) -> bool {
        let again = self.again;
        let recent = |at: &Instant| now.saturating_duration_since(*at) < again;
        if self.named.get(sender).is_some_and(recent) {
            return false;
        }
        if self.named.len() >= self.most {
            self.named.retain(|_, at| recent(at));
        }
        if self.named.len() >= self.most {
            return false;
        }
        self.named.insert(sender.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_named_once_in_a_while() {
        let (hour, now) = (Duration::from_secs(3600), Instant::now());
        let mut strangers = Strangers::new(hour, 2);
        for (minutes, sender, named) in [
            (0, "1", true),
            (0, "1", false),
            (1, "2", true),
            (2, "3", false),
            (59, "1", false),
            (60, "1", true),
            (61, "3", true),
            (61, "2", false),
        ] {
            let at = now + Duration::from_secs(minutes * 60);
            assert_eq!(strangers.names(sender, at), named, "{sender} at {minutes}");
        }
    }
}
