//! The oracle: what governed tool calls may come to, written from the user's guide and from nothing
//! of the program, so that the two can be held against each other. `rules` decides, `cases` invents,
//! `words` writes a case down as configuration, calls and files; none of them imports the program.
//!
//! What each rule comes from. "Guide" is the user's guide to governed tools and skills, by section;
//! "settled" is what the guide leaves open and the rest of the documents decide.
//!
//! | rule, in our words | from |
//! |---|---|
//! | A brain without a governance block may use each listed tool everywhere. | guide, The gatekeeper |
//! | With a block, a listed tool that no grant names is denied `not_granted`. | settled |
//! | `deny`: neither told of nor executed; channels beside it do not soften it. | guide, The gatekeeper; settled |
//! | `shadow`: told of, never executed. | guide, The gatekeeper |
//! | `allow`: told of and executed. | guide, The gatekeeper |
//! | Restrictions win over the mode: channel, sensitivity, cages, even with `allow`. | guide, The gatekeeper |
//! | Their order: the `deny` grant, channel and chats, sensitivity, then the mode. | settled |
//! | `chats: direct`: private chats of Telegram and Discord, and the console; a webhook is none. Its rule is `channel`. | settled |
//! | A sensitive tool never reaches a brain with a cloud model; `read_file` is sensitive, `tool_attrs` only adds. | guide, The toolset, The gatekeeper |
//! | That means the models that privacy leaves: a private brain drops cloud models first, asked or not counts alike. | settled |
//! | groq and Ollama names that end in `-cloud` or `:cloud` are in the cloud whatever they declare. | settled |
//! | A tool that the brain does not list is `unknown_tool`; there is no shell. | settled; guide, The toolset |
//! | `read_file` reads below its root only; links are judged by where they end. | guide, The toolset |
//! | A root that is missing: not told of, rule `cage`; and what is not told of is not executable. | settled; guide, The gatekeeper |
//! | `http_fetch` and `webhook_call` reach listed hosts only. | guide, The toolset |
//! | An entry without a port means its scheme's own; case and one last dot do not count; ASCII names, dotted decimals; no user, no zone; IPv6 compared as addresses, not unmapped. | settled |
//! | On a private brain the address must be private as well, by the address that a name has when it is dialled; the list never widens it. | guide, The network shield |
//! | Where clouds keep keys nobody connects, in no embedding; any refusal by address is `private_network_shield`. | settled |
//! | A name with good and bad addresses is dialled at the good ones; with none left the call is refused. | settled |
//! | The list is judged before any address. | settled |
//! | A rehearsal judges the arguments as written, resolves nothing, and is `shadowed` with what would have refused it. | settled |
//! | The ninth call of one reply and all behind it are `per_run_budget`, whatever they call. | settled |
//! | Each use, rehearsal and denial is one row of the audit. | guide, The audit |
//!
//! `korvun explain` is offline, so it lets two things pass that only the world refuses: a listed name,
//! whose addresses are judged when it is dialled, and a link, which is followed when it is opened. It
//! says nothing of `per_run_budget` either, which is about a whole reply. `explained` holds it to the
//! verdicts in all else.
//!
//! Redirects, sizes and time limits belong to the tools' own tests: a call here ends at its first
//! answer.

pub mod cases;
pub mod rules;
pub mod words;

mod explained;
mod faults;
mod reach;
mod rows;
mod spellings;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use rules::{Call, Case, Verdict};

/// How many cases a plain test run looks at. `KORVUN_CASES` asks for another number.
pub const CASES: u64 = 3000;

/// The numbers of the cases to look at: that of `KORVUN_SEED` alone, else from 1 to
/// `KORVUN_CASES`.
pub fn seeds() -> RangeInclusive<u64> {
    seeds_of(CASES)
}

/// [`seeds`] for a test of which a plain run looks at `plain` cases.
pub fn seeds_of(plain: u64) -> RangeInclusive<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{name}: {text} is no number")),
        )
    };
    match number("KORVUN_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("KORVUN_CASES").unwrap_or(plain),
    }
}

/// One row of the audit: the word that the model called, and what came of it.
pub type Row = (String, Verdict);

/// What a run shows to those who watch it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The tools that the model was told of.
    pub announced: BTreeSet<String>,
    /// The tools that were let loose, in order.
    pub executed: Vec<String>,
    /// The audit, in order.
    pub audit: Vec<Row>,
}

/// What a run of the case must show.
pub fn foreseen(case: &Case) -> Seen {
    let rows: Vec<Row> = calls(case)
        .map(|(_, call)| (call.tool.clone(), rules::verdict(case, call)))
        .collect();
    Seen {
        announced: rules::announced(case),
        executed: rows
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Executed)
            .map(|(tool, _)| tool.clone())
            .collect(),
        audit: rows,
    }
}

/// Every call with the number of its reply, from 1.
pub fn calls(case: &Case) -> impl Iterator<Item = (usize, &Call)> {
    let numbered = case.replies.iter().enumerate();
    numbered.flat_map(|(index, reply)| reply.iter().map(move |call| (index + 1, call)))
}

/// Where the program and the oracle part ways.
#[derive(Clone, Debug)]
pub struct Disagreement {
    seed: u64,
    what: String,
    case: String,
}

impl Disagreement {
    fn new(case: &Case, what: String) -> Disagreement {
        Disagreement {
            seed: case.seed,
            what,
            case: format!("{:#?}", (&case.brain, case.place, case.root_is_there)),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "case {seed}: {}\nreplay with KORVUN_SEED={seed}\n{}",
            self.what,
            self.case,
            seed = self.seed
        )
    }
}

/// Asks `real` for each call of the case.
///
/// # Errors
/// The first call of which it says something else.
pub fn agree(
    case: &Case,
    mut real: impl FnMut(&Case, &Call) -> Verdict,
) -> Result<(), Disagreement> {
    for (reply, call) in calls(case) {
        let (expected, found) = (rules::verdict(case, call), real(case, call));
        if expected != found {
            let position = call.position;
            let what = format!(
                "call {position} of reply {reply}, {call:?}, is {found:?} and should be {expected:?}"
            );
            return Err(Disagreement::new(case, what));
        }
    }
    Ok(())
}

/// Holds what a run showed against what it had to show.
///
/// # Errors
/// The first difference.
pub fn run_agrees(case: &Case, seen: &Seen) -> Result<(), Disagreement> {
    let foreseen = foreseen(case);
    let differs = |what: String| Err(Disagreement::new(case, what));
    if seen.announced != foreseen.announced {
        return differs(format!(
            "the model was told of {:?} and should be told of {:?}",
            seen.announced, foreseen.announced
        ));
    }
    for (index, row) in foreseen.audit.iter().enumerate() {
        if seen.audit.get(index) != Some(row) {
            return differs(format!(
                "row {} of the audit is {:?} and should be {row:?}",
                index + 1,
                seen.audit.get(index)
            ));
        }
    }
    if let Some(row) = seen.audit.get(foreseen.audit.len()) {
        return differs(format!("a row of the audit without a call: {row:?}"));
    }
    if seen.executed != foreseen.executed {
        return differs(format!(
            "executed were {:?} and should be {:?}",
            seen.executed, foreseen.executed
        ));
    }
    Ok(())
}

/// Asks `real` for all calls of the cases of these numbers; returns how many calls that were.
///
/// # Panics
/// At the first disagreement, with the number that replays it.
pub fn agree_all(
    seeds: RangeInclusive<u64>,
    mut real: impl FnMut(&Case, &Call) -> Verdict,
) -> usize {
    println!("cases {} to {}", seeds.start(), seeds.end());
    let mut asked = 0;
    for seed in seeds {
        let case = cases::case(seed);
        if let Err(found) = agree(&case, &mut real) {
            panic!("{found}");
        }
        asked += calls(&case).count();
    }
    asked
}
