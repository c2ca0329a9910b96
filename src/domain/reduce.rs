//! Which of several models' answers is sent. Pure, fed by the run's thread as answers come in; says
//! as early as the outcome is certain, never earlier, and never by who was fastest.

use super::brain::PolicyKind;

/// Where the matter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What is still out can change it.
    Open,
    /// The answer of this model is sent, whatever the rest says.
    Won(usize),
    /// None is sent, whatever the rest says.
    None(NoWinner),
}

/// Why no answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWinner {
    /// Models failed and none answered; those still out, if any, cannot agree alone.
    NoneAnswered,
    /// Too few can agree.
    NoAgreement,
}

/// Collects what the models of one run said. Models are counted from 0 in catalogue order.
#[derive(Debug)]
pub struct Reducer {
    kind: PolicyKind,
    /// Models by rank, the highest first; equal ranks in catalogue order.
    by_rank: Vec<usize>,
    states: Vec<State>,
    /// The distinct answers in comparable form, and by how many each was given.
    groups: Vec<(String, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Failed,
    /// Answered, as this group does; priority has no groups.
    Answered(usize),
}

impl Reducer {
    /// For models with these ranks (0 is the highest), in catalogue order.
    #[must_use]
    pub fn new(kind: PolicyKind, ranks: &[u32]) -> Reducer {
        let mut by_rank: Vec<usize> = (0..ranks.len()).collect();
        by_rank.sort_by_key(|&i| ranks[i]);
        Reducer {
            kind,
            by_rank,
            states: vec![State::Out; ranks.len()],
            groups: Vec::new(),
        }
    }

    /// Model `i` answered. What a model says a second time is ignored.
    pub fn answered(&mut self, i: usize, text: &str) -> Verdict {
        if self.states.get(i) == Some(&State::Out) {
            let group = match self.kind {
                PolicyKind::Priority => 0,
                PolicyKind::Consensus => self.join(comparable(text)),
            };
            self.states[i] = State::Answered(group);
        }
        self.verdict()
    }

    /// Model `i` failed.
    pub fn failed(&mut self, i: usize) -> Verdict {
        if self.states.get(i) == Some(&State::Out) {
            self.states[i] = State::Failed;
        }
        self.verdict()
    }

    /// Where the matter stands now.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.kind {
            PolicyKind::Priority => self.priority(),
            PolicyKind::Consensus => self.consensus(),
        }
    }

    fn join(&mut self, answer: String) -> usize {
        if let Some(known) = self.groups.iter().position(|(text, _)| *text == answer) {
            self.groups[known].1 += 1;
            return known;
        }
        self.groups.push((answer, 1));
        self.groups.len() - 1
    }

    /// The first by rank that has not failed decides: it has won, or it may still win.
    fn priority(&self) -> Verdict {
        for &i in &self.by_rank {
            match self.states[i] {
                State::Failed => {}
                State::Out => return Verdict::Open,
                State::Answered(_) => return Verdict::Won(i),
            }
        }
        Verdict::None(NoWinner::NoneAnswered)
    }

    /// A group wins when it has at least two voices and more than half of those that answered. What
    /// is still out may fail or say anything: a group is certain of winning when even all of those
    /// against it leave it the majority, and can still win when all of those for it give it one.
    ///
    /// Certain is the winning *text*: it is that of the highest-ranked in the group, so a
    /// higher-ranked model that is still out may yet join and replace it, and is waited for.
    fn consensus(&self) -> Verdict {
        let out = self.count(|state| state == State::Out);
        let answered = self.count(|state| matches!(state, State::Answered(_)));
        let wins = |voices: usize, of: usize| voices >= 2 && 2 * voices > of;
        if let Some(group) =
            (0..self.groups.len()).find(|&g| wins(self.groups[g].1, answered + out))
        {
            return self.speaker_of(group);
        }
        let most = self
            .groups
            .iter()
            .map(|(_, voices)| *voices)
            .max()
            .unwrap_or(0);
        if wins(most + out, answered + out) {
            return Verdict::Open;
        }
        match (answered, out) {
            (0, 0) if !self.states.is_empty() => Verdict::None(NoWinner::NoneAnswered),
            // No agreement is possible any more, but whether nobody answers is still to be seen:
            // the person is told the one or the other.
            (0, out) if out > 0 && out < self.states.len() => Verdict::Open,
            _ => Verdict::None(NoWinner::NoAgreement),
        }
    }

    /// The highest-ranked of a group that has won, once none above it can still join.
    fn speaker_of(&self, group: usize) -> Verdict {
        for &i in &self.by_rank {
            match self.states[i] {
                State::Out => return Verdict::Open,
                State::Answered(own) if own == group => return Verdict::Won(i),
                _ => {}
            }
        }
        Verdict::Open
    }

    fn count(&self, which: impl Fn(State) -> bool) -> usize {
        self.states.iter().filter(|state| which(**state)).count()
    }
}

/// An answer as it is compared: Markdown emphasis dropped, lower-case, white space folded,
/// surrounding punctuation dropped.
fn comparable(text: &str) -> String {
    let plain: String = without_emphasis(text);
    let folded = plain
        .to_lowercase()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let inner = folded.trim_matches(|c: char| punctuation(c) || c.is_whitespace());
    // An answer that is nothing but punctuation stands for itself.
    if inner.is_empty() {
        folded
    } else {
        inner.to_owned()
    }
}

/// Drops the marks of Markdown emphasis: `*`, `_`, `~~` and back ticks where they touch a word on
/// one side only, so that `2*3` and `snake_case` stay what they are.
fn without_emphasis(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mark = |c: char| matches!(c, '*' | '_' | '`' | '~');
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        if !mark(chars[i]) {
            out.push(chars[i]);
            i += 1;
            continue;
        }
        let start = i;
        while i < chars.len() && mark(chars[i]) {
            i += 1;
        }
        let word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric());
        let before = start.checked_sub(1).and_then(|j| chars.get(j));
        if word(before) && word(chars.get(i)) {
            out.extend(&chars[start..i]);
        }
    }
    out
}

/// What may stand around an answer without changing it. Signs that carry meaning (`-5`, `+`, `%`,
/// `$`, `#`, `@`, `<`, `=`) stay.
fn punctuation(c: char) -> bool {
    matches!(
        c,
        '.' | ','
            | ';'
            | ':'
            | '!'
            | '?'
            | '"'
            | '\''
            | '('
            | ')'
            | '['
            | ']'
            | '{'
            | '}'
            | '¡'
            | '¿'
            | '«'
            | '»'
            | '…'
            | '“'
            | '”'
            | '„'
            | '‘'
            | '’'
            | '‚'
            | '。'
            | '、'
            | '！'
            | '？'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{None as Nobody, Open, Won};

    /// Feeds a script such as `0=yes 1! 2=no` (model 1 fails) and returns the verdict after each.
    fn play(kind: PolicyKind, ranks: &[u32], script: &str) -> Vec<Verdict> {
        let mut reducer = Reducer::new(kind, ranks);
        script
            .split_whitespace()
            .map(|step| match step.split_once('=') {
                Some((i, text)) => reducer.answered(i.parse().unwrap(), text),
                None => reducer.failed(step.trim_end_matches('!').parse().unwrap()),
            })
            .collect()
    }

    #[test]
    fn priority_waits_for_a_higher_rank_that_may_still_win_and_no_longer() {
        for (ranks, script, verdicts) in [
            (&[0_u32, 1, 2][..], "0=a", vec![Won(0)]),
            (&[0, 1, 2], "2=c 1=b 0=a", vec![Open, Open, Won(0)]),
            (&[0, 1, 2], "1=b 0!", vec![Open, Won(1)]),
            (&[0, 1, 2], "0! 1=b", vec![Open, Won(1)]),
            (&[2, 1, 0], "0=a 1=b 2!", vec![Open, Open, Won(1)]),
            (&[0, 0, 0], "1=b 0=a", vec![Open, Won(0)]),
            (&[1, 0, 0], "2=c 0=a 1!", vec![Open, Open, Won(2)]),
            (&[5, 5], "0! 1!", vec![Open, Nobody(NoWinner::NoneAnswered)]),
            (&[0, 1], "0! 0=a 1=b", vec![Open, Open, Won(1)]),
            (&[], "7!", vec![Nobody(NoWinner::NoneAnswered)]),
        ] {
            assert_eq!(
                play(PolicyKind::Priority, ranks, script),
                verdicts,
                "{script}"
            );
        }
    }

    #[test]
    fn consensus_is_a_strict_majority_of_at_least_two_of_those_that_answered() {
        let no = Nobody(NoWinner::NoAgreement);
        let all = Nobody(NoWinner::NoneAnswered);
        for (ranks, script, verdicts) in [
            // All agree: with two of three the rest cannot change it.
            (&[0_u32, 0, 0][..], "0=a 1=a", vec![Open, Won(0)]),
            (&[0, 0, 0], "0=a 1=b 2=a", vec![Open, Open, Won(0)]),
            // A tie, a lone answer, nobody.
            (&[0, 0], "0=a 1=b", vec![Open, no]),
            (&[0, 0], "0=a 1!", vec![Open, no]),
            (&[0, 0], "0! 1=a", vec![Open, no]),
            (&[0, 0], "0! 1!", vec![Open, all]),
            (&[0, 0, 0, 0], "0=a 1=a 2=b 3=b", vec![Open, Open, Open, no]),
            // Those that fail do not count.
            (
                &[0, 0, 0, 0],
                "0=a 1=a 2! 3!",
                vec![Open, Open, Won(0), Won(0)],
            ),
            (
                &[0, 0, 0, 0],
                "0=a 1=a 2=b 3!",
                vec![Open, Open, Open, Won(0)],
            ),
            // Two of four is not yet certain, three of five is.
            (&[0; 5], "0=a 1=a 2=a", vec![Open, Open, Won(0)]),
            // Nobody can win any more.
            (&[0; 4], "0=a 1=b 2=c", vec![Open, Open, no]),
            (&[0; 5], "0=a 1=b 2=c", vec![Open, Open, Open]),
            (&[0; 5], "0=a 1=b 2=c 3=a", vec![Open, Open, Open, Open]),
            (
                &[0; 5],
                "0=a 1=b 2=c 3=a 4=a",
                vec![Open, Open, Open, Open, Won(0)],
            ),
            (&[0; 5], "0=a 1=b 2=c 3!", vec![Open, Open, Open, no]),
            // The text is that of the highest-ranked in the group, who is waited for.
            (&[2, 1, 0], "0=a 1=a 2=a", vec![Open, Open, Won(2)]),
            (&[2, 1, 0], "0=a 1=a 2=b", vec![Open, Open, Won(1)]),
            (&[2, 1, 0], "0=a 1=a 2!", vec![Open, Open, Won(1)]),
            (&[1, 0, 0], "2=a 1=a", vec![Open, Won(1)]),
        ] {
            let got = play(PolicyKind::Consensus, ranks, script);
            assert_eq!(got, verdicts, "{ranks:?} {script}");
        }
    }

    #[test]
    fn a_lone_model_is_no_consensus_before_it_is_asked() {
        let verdict = |ranks| Reducer::new(PolicyKind::Consensus, ranks).verdict();
        assert_eq!(verdict(&[0]), Nobody(NoWinner::NoAgreement));
        assert_eq!(verdict(&[0, 0]), Open);
    }

    /// Every early verdict equals the one reached when the rest is played out, whatever it says.
    #[test]
    fn an_early_verdict_holds_whatever_the_rest_says() {
        for kind in [PolicyKind::Priority, PolicyKind::Consensus] {
            for ranks in [[0, 0, 0, 0], [3, 2, 1, 0], [0, 1, 0, 1]] {
                for code in 0..4_usize.pow(4) {
                    let says = |i: usize| code / 4_usize.pow(i as u32) % 4;
                    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
                        let mut reducer = Reducer::new(kind, &ranks);
                        let mut early = Open;
                        for i in order {
                            let now = match says(i) {
                                0 => reducer.failed(i),
                                n => reducer.answered(i, ["", "a", "b", "c"][n]),
                            };
                            let same = match (early, now) {
                                (Open, _) => true,
                                (a, b) => a == b,
                            };
                            assert!(
                                same,
                                "{kind:?} {ranks:?} {code} {order:?}: {early:?} {now:?}"
                            );
                            early = now;
                        }
                        assert_ne!(early, Open);
                    }
                }
            }
        }
    }

    #[test]
    fn answers_are_compared_by_their_words() {
        for (a, b, same) in [
            ("Paris", " paris.\n", true),
            ("**Paris**!", "_Paris_", true),
            ("It is **Paris**", "it  is\nParis", true),
            ("`42`", "«42»", true),
            ("¿Sí?", "sí", true),
            ("ÁRBOL", "árbol", true),
            ("***Yes***, I do", "yes, i do", true),
            ("~~no~~ yes", "no yes", true),
            ("Paris", "London", false),
            ("-5", "5", false),
            ("5%", "5", false),
            ("2*3", "23", false),
            ("snake_case", "snakecase", false),
            ("!", "?", false),
            ("a b", "ab", false),
        ] {
            assert_eq!(comparable(a) == comparable(b), same, "{a:?} {b:?}");
        }
    }
}
