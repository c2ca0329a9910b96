//! What a tool is to the engine: told of, rehearsed, called. A tool asks nobody whether it may; the
//! gate has decided before it is called, and its own cage decides about the arguments.

use serde_json::{Map, Value};

use crate::base::clock::Deadline;
use crate::domain::audit::Rule;
use crate::domain::ids::Conversation;
use crate::net::cancel::Cancel;

/// The arguments of a call, as the model wrote them: any JSON object.
pub type Arguments = Map<String, Value>;

/// One tool of one brain, in its cage.
pub trait Tool: Send + Sync {
    /// Whether it can be announced now. A cage that is missing on disk makes it unready; it is
    /// looked for anew each time.
    ///
    /// Blocks: for a look at the file system at most.
    fn ready(&self) -> bool;

    /// Judges arguments as [`Tool::call`] would, without any effect: no file is opened, no name is
    /// looked up, nothing is dialled.
    ///
    /// # Errors
    /// What a call would have come to.
    fn rehearse(&self, arguments: &Arguments) -> Result<(), Fault>;

    /// Does it.
    ///
    /// Blocks: until the tool's own limit, `call.deadline` at most, or until `call.cancel` is raised.
    ///
    /// # Errors
    /// A refusal by the cage or the shield, or a failure, worded for the model.
    fn call(&self, call: &Call<'_>) -> Result<String, Fault>;
}

/// One call.
#[derive(Debug)]
pub struct Call<'a> {
    /// What the model asks for.
    pub arguments: &'a Arguments,
    /// In whose conversation.
    pub conversation: &'a Conversation,
    /// The same for this call however often it is tried, another for every other call: an
    /// idempotency key for those who receive it.
    pub key: &'a str,
    /// When it is given up.
    pub deadline: Deadline,
    /// Gives it up sooner, from another thread.
    pub cancel: &'a Cancel,
}

/// Why a call gave no result. The words are for the model: they name no rule and no path outside
/// the cage. Whoever hands them on says nothing of which kind it was: a file that is missing and
/// one that lies outside of the cage are told alike, and must not differ by their frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cage or the shield refused it; nothing was done.
    Refused {
        /// Which of them.
        rule: Rule,
        /// What the model is told.
        told: String,
    },
    /// It was tried, or its arguments are not such that it could be.
    Failed {
        /// What the model is told, so that it can mend the call.
        told: String,
    },
}
