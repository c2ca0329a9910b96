//! What a model is shown: who it is, what was said before, the present message; and how that is
//! fitted to the model's context. Pure. What is stable stands first and stays the same to the byte
//! from one message to the next, since a model on a small box spends its time on what is new to its
//! cache. The instructions are never left out or cut.

use std::collections::HashMap;

use super::brain::Brain;
use super::completion::{Offer, Past, Prompt, Said, Speaker, ToolCall, Turn};
use super::ids::Conversation;
use super::message::{ChatKind, Role};
use crate::base::text;

/// Characters of a display name that a model sees.
const NAME_CHARS: usize = 64;

/// The instructions of a brain that is no agent: the persona in one short system message, the same
/// bytes each time; nothing at all where there is none, because every token costs time.
#[must_use]
pub fn head(brain: &Brain) -> Vec<Said> {
    let persona = &brain.persona;
    let lines = [
        ("You are ", persona.display_name.trim(), "."),
        ("Tone: ", persona.tone.trim(), "."),
        ("Answer in this language: ", persona.language.trim(), "."),
        ("", persona.instructions.trim(), ""),
    ];
    let text = lines
        .iter()
        .filter(|(_, words, _)| !words.is_empty())
        .map(|(before, words, after)| format!("{before}{words}{after}"))
        .collect::<Vec<_>>()
        .join("\n");
    if text.is_empty() {
        return Vec::new();
    }
    let by = Speaker::System;
    vec![Said { by, text }]
}

/// What a person said, as the model sees it: in a group the display name stands before the words.
#[must_use]
pub fn said_by_person(chat: ChatKind, name: &str, words: &str) -> Said {
    let name: String = name
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(NAME_CHARS)
        .collect();
    let text = match (chat, name.trim()) {
        (ChatKind::Group, name) if !name.is_empty() => format!("{name}: {words}"),
        _ => words.to_owned(),
    };
    let by = Speaker::User;
    Said { by, text }
}

/// A stored message as the model sees it. The operator speaks for the brain. Korvun's own sentences
/// are no part of the dialogue: `None`.
#[must_use]
pub fn past(seq: i64, role: Role, chat: ChatKind, name: &str, words: &str) -> Option<Past> {
    let said = match role {
        Role::User => said_by_person(chat, name, words),
        Role::Assistant | Role::Operator => Said {
            by: Speaker::Assistant,
            text: words.to_owned(),
        },
        Role::System => return None,
    };
    Some(Past { seq, said })
}

/// What was brought back of an earlier session, as the model sees it: people asked for it.
#[must_use]
pub fn recalled(seq: i64, block: &str) -> Past {
    let said = Said {
        by: Speaker::User,
        text: block.to_owned(),
    };
    Past { seq, said }
}

/// The whole prompt of a brain that is no agent.
#[must_use]
pub fn build(
    brain: &Brain,
    conversation: &Conversation,
    history: Vec<Past>,
    present: Said,
) -> Prompt {
    Prompt {
        conversation: conversation.clone(),
        head: head(brain),
        history,
        tail: vec![present],
        turns: Vec::new(),
        offer: Offer::Nothing,
    }
}

/// Bytes that count as one token: low for English, about right for code and other languages.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens that a chat template spends on each message.
const TOKENS_PER_MESSAGE: u64 = 5;
/// The answer's part of the context: a quarter, but no more than this.
const ANSWER_TOKENS_MOST: u64 = 2048;
/// The correction in thousandths: none, and the most that is believed (less than a byte a token).
const PLAIN: u64 = 1000;
const SCALE_MOST: u64 = 4000;
/// Histories whose beginning is remembered; beyond it the one used longest ago is forgotten, which
/// costs one prompt that is new to the model's cache.
const REMEMBERED: usize = 1024;
/// A history of at least this many messages gives up a quarter at once when the stored window moves on.
const WINDOW_IN_STEPS: usize = 8;
/// Bytes of the present message that stay even where the instructions fill the context.
const PRESENT_BYTES_LEAST: usize = 256;
/// What stands where the middle of a message was left out.
const GAP: &str = "\n[... a part of this message was left out: it is too long ...]\n";

/// Fits prompts to one model's context, and remembers where each conversation's history begins.
#[derive(Debug)]
pub struct Fitter {
    scale: u64,
    begins: HashMap<Conversation, Begin>,
    uses: u64,
}

/// Where a conversation's prompts begin. Numbers may stand out of order in a history, where an answer
/// was put behind its question, so messages are told by their number, not counted by it.
#[derive(Clone, Copy, Debug)]
struct Begin {
    at: Place,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// With the message of this number; all older ones stay out.
    With(i64),
    /// Behind it.
    Behind(i64),
}

/// A prompt that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// What is sent, in order. No two neighbours are by the same person or model: templates that
    /// insist on alternation would refuse them.
    pub said: Vec<Said>,
    /// What the run has come to, behind `said`; of no two neighbours in plain words either.
    pub turns: Vec<Turn>,
    /// Earlier messages that were left out.
    pub left_out: u32,
    /// Whether the middle of the present message was left out.
    pub shortened: bool,
    /// Tokens that it is estimated to take, to be handed back to [`Fitter::learn`].
    pub estimated_tokens: u32,
}

impl Default for Fitter {
    fn default() -> Fitter {
        Fitter::new()
    }
}

impl Fitter {
    /// One that has learned and remembers nothing.
    #[must_use]
    pub fn new() -> Fitter {
        Fitter {
            scale: PLAIN,
            begins: HashMap::new(),
            uses: 0,
        }
    }

    /// Fits `prompt` into `context_tokens`, a part of which stays free for the answer. When the
    /// history overflows, its older half is left out at once, again until it fits, and stays out, so
    /// that the beginning of the prompt is the same over the next messages. Where what is left is
    /// still too large, what tools gave loses its middle, the oldest first, and then the present
    /// message.
    pub fn fit(&mut self, prompt: &Prompt, context_tokens: u32) -> Fitted {
        let context = u64::from(context_tokens);
        let budget = context - (context / 4).min(ANSWER_TOKENS_MOST);
        let offered = self.scaled(offer_tokens(&prompt.offer));
        let mut turns = merged(&prompt.turns);
        let ends = offered
            + self.tokens(prompt.head.iter().chain(&prompt.tail))
            + self.turn_tokens(&turns);
        let history = &prompt.history[self.begin(prompt)..];
        let mut first = 0;
        while first < history.len()
            && ends + self.tokens(history[first..].iter().map(|p| &p.said)) > budget
        {
            first = to_question(history, first + (history.len() - first).div_ceil(2));
        }
        let kept = &history[first..];
        self.remember(prompt, kept);
        let mut tail = prompt.tail.clone();
        let mut excess = ends.saturating_sub(budget);
        if kept.is_empty() && excess > 0 {
            let before = self.turn_tokens(&turns);
            self.shorten_turns(&mut turns, excess);
            excess = excess.saturating_sub(before - self.turn_tokens(&turns));
        }
        let shortened = kept.is_empty() && excess > 0 && self.shorten(&mut tail, excess);
        let parts = prompt
            .head
            .iter()
            .chain(kept.iter().map(|past| &past.said))
            .chain(&tail);
        let said = joined(parts);
        let left_out = prompt.history.len() - kept.len();
        let tokens = offered + self.tokens(said.iter()) + self.turn_tokens(&turns);
        Fitted {
            left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            shortened,
            estimated_tokens: u32::try_from(tokens).unwrap_or(u32::MAX),
            said,
            turns,
        }
    }

    /// Takes to heart that a prompt estimated at `estimated_tokens` took `prompt_tokens`. Only ever
    /// raises the estimate: a count that is lower may leave out what the model's cache held.
    pub fn learn(&mut self, estimated_tokens: u32, prompt_tokens: u32) {
        if prompt_tokens > estimated_tokens && estimated_tokens > 0 {
            let raised =
                (self.scale * u64::from(prompt_tokens)).div_ceil(u64::from(estimated_tokens));
            self.scale = raised.min(SCALE_MOST);
        }
    }

    fn tokens<'a>(&self, said: impl Iterator<Item = &'a Said>) -> u64 {
        self.scaled(said.map(|said| plain_tokens(said.text.len())).sum())
    }

    fn turn_tokens(&self, turns: &[Turn]) -> u64 {
        self.scaled(
            turns
                .iter()
                .map(|turn| plain_tokens(turn_bytes(turn)))
                .sum(),
        )
    }

    fn scaled(&self, plain: u64) -> u64 {
        (plain * self.scale).div_ceil(PLAIN)
    }

    /// The index in the history at which this conversation's prompts begin.
    fn begin(&self, prompt: &Prompt) -> usize {
        let history = &prompt.history;
        let Some(begin) = self.begins.get(&prompt.conversation) else {
            return 0;
        };
        let index_of = |seq| history.iter().position(|past| past.seq == seq);
        let index = match begin.at {
            Place::With(seq) => index_of(seq),
            Place::Behind(seq) => index_of(seq).map(|index| index + 1),
        };
        match index {
            Some(index) => index,
            // The window of stored messages has moved past it. It would move with every message
            // now; instead it gives up several at once and then stands still for a while.
            None if history.len() >= WINDOW_IN_STEPS => to_question(history, history.len() / 4),
            None => 0,
        }
    }

    fn remember(&mut self, prompt: &Prompt, kept: &[Past]) {
        let with = kept.first().map(|past| Place::With(past.seq));
        let behind = || prompt.history.last().map(|past| Place::Behind(past.seq));
        let Some(at) = with.or_else(behind) else {
            self.begins.remove(&prompt.conversation);
            return;
        };
        self.uses += 1;
        let used = self.uses;
        self.begins
            .insert(prompt.conversation.clone(), Begin { at, used });
        if self.begins.len() > REMEMBERED {
            let oldest = self.begins.iter().min_by_key(|(_, begin)| begin.used);
            if let Some(conversation) = oldest.map(|(conversation, _)| conversation.clone()) {
                self.begins.remove(&conversation);
            }
        }
    }

    /// Takes the middle out of the last message, so that at least `excess` tokens go, and says
    /// whether it did.
    fn shorten(&self, tail: &mut [Said], excess: u64) -> bool {
        tail.last_mut()
            .is_some_and(|last| self.shorten_text(&mut last.text, excess))
    }

    /// Takes the middle out of what tools gave, the oldest first, until `excess` tokens have gone.
    fn shorten_turns(&self, turns: &mut [Turn], excess: u64) {
        let enough = self.turn_tokens(turns).saturating_sub(excess);
        for at in 0..turns.len() {
            let left = self.turn_tokens(turns).saturating_sub(enough);
            if left == 0 {
                return;
            }
            match &mut turns[at] {
                Turn::Observed { text, .. } => self.shorten_text(text, left),
                Turn::Said(said) if said.by == Speaker::User => {
                    self.shorten_text(&mut said.text, left)
                }
                Turn::Said(_) | Turn::Called { .. } => false,
            };
        }
    }

    fn shorten_text(&self, whole: &mut String, excess: u64) -> bool {
        let excess_bytes = (excess + 1) * BYTES_PER_TOKEN * PLAIN / self.scale;
        let excess_bytes = usize::try_from(excess_bytes).unwrap_or(usize::MAX);
        let room = whole.len().saturating_sub(excess_bytes);
        let room = room.saturating_sub(GAP.len()).max(PRESENT_BYTES_LEAST);
        if room + GAP.len() >= whole.len() {
            return false;
        }
        let beginning = text::prefix(whole, room * 2 / 3);
        let mut end = whole.len() - room / 3;
        while !whole.is_char_boundary(end) {
            end += 1;
        }
        *whole = format!("{beginning}{GAP}{}", &whole[end..]);
        true
    }
}

fn plain_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE
}

/// What a turn is made of; names and JSON around it count as text.
fn turn_bytes(turn: &Turn) -> usize {
    match turn {
        Turn::Said(said) => said.text.len(),
        Turn::Called { text, calls } => text.len() + calls.iter().map(call_bytes).sum::<usize>(),
        Turn::Observed { id, name, text } => id.len() + name.len() + text.len(),
    }
}

fn call_bytes(call: &ToolCall) -> usize {
    call.id.len() + call.name.len() + call.written_arguments().len()
}

/// What the tools take that a prompt offers beside its words.
fn offer_tokens(offer: &Offer) -> u64 {
    match offer {
        Offer::Native(tools) => tools
            .iter()
            .map(|tool| {
                let parameters = tool.parameters.to_string();
                plain_tokens(tool.name.len() + tool.description.len() + parameters.len())
            })
            .sum(),
        Offer::Nothing | Offer::Text => 0,
    }
}

/// Neighbours in plain words by the same speaker become one.
fn merged(turns: &[Turn]) -> Vec<Turn> {
    let mut out: Vec<Turn> = Vec::new();
    for turn in turns {
        match (out.last_mut(), turn) {
            (Some(Turn::Said(last)), Turn::Said(said)) if last.by == said.by => {
                last.text.push_str("\n\n");
                last.text.push_str(&said.text);
            }
            _ => out.push(turn.clone()),
        }
    }
    out
}

/// The first index from `from` on at which a person speaks; behind the last where none does.
/// Templates that insist on alternation want a question first.
fn to_question(history: &[Past], from: usize) -> usize {
    let later = history[from..].iter();
    from + later
        .take_while(|past| past.said.by != Speaker::User)
        .count()
}

/// Neighbours by the same person or model become one message.
fn joined<'a>(parts: impl Iterator<Item = &'a Said>) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for part in parts {
        match said.last_mut() {
            Some(last) if last.by == part.by && part.by != Speaker::System => {
                last.text.push_str("\n\n");
                last.text.push_str(&part.text);
            }
            _ => said.push(part.clone()),
        }
    }
    said
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
