//! A question whether a call may be made, and the one answer to it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::CallChange;
use crate::fields::{Fields, NAME};
use crate::link::Link;

/// Answers that one question offers at most.
const CHOICES: usize = 16;

/// What an answer means, in the agent's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the protocol say it")]
pub enum ChoiceKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl ChoiceKind {
    fn of(word: &str) -> Option<Self> {
        match word {
            "allow_once" => Some(Self::AllowOnce),
            "allow_always" => Some(Self::AllowAlways),
            "reject_once" => Some(Self::RejectOnce),
            "reject_always" => Some(Self::RejectAlways),
            _ => None,
        }
    }

    /// The protocol's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
        }
    }
}

/// One answer that can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What [`Question::answer`] takes.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it means.
    pub kind: ChoiceKind,
}

/// A question of the agent that is open. Dropped, it is answered `cancelled`.
pub struct Question {
    /// The call as it will be made.
    pub call: CallChange,
    /// What can be answered.
    pub choices: Vec<Choice>,
    slip: Slip,
}

impl Question {
    pub(crate) fn new(asked: Asked, slip: Slip) -> Self {
        Self { call: asked.call, choices: asked.choices, slip }
    }

    /// Answers with one of the choices. One that was not offered counts as `cancelled`.
    pub fn answer(self, choice: &str) {
        if self.choices.iter().any(|one| one.id == choice) {
            self.slip.settle(&json!({ "outcome": { "outcome": "selected", "optionId": choice } }));
        }
    }

    /// Answers that the turn is stopped.
    pub fn cancel(self) {
        drop(self);
    }

    /// Nobody has answered it yet, the turn was not stopped, and the agent is there.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.slip.link.is_open(self.slip.number)
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Question")
            .field("call", &self.call)
            .field("choices", &self.choices)
            .finish_non_exhaustive()
    }
}

/// What an agent asked.
pub(crate) struct Asked {
    call: CallChange,
    choices: Vec<Choice>,
}

impl Asked {
    /// A question that cannot be shown as it is meant is none.
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, &'static str> {
        let call = fields.object("toolCall").and_then(|mut call| CallChange::read(&mut call));
        let call = call.ok_or("it says of no call what it is about")?;
        let Some(Value::Array(offered)) = fields.take("options") else {
            return Err("it offers no answers");
        };
        if offered.is_empty() || offered.len() > CHOICES {
            return Err("it offers no answers, or too many");
        }
        let mut choices: Vec<Choice> = Vec::new();
        for one in offered {
            let choice = Fields::of(one).and_then(|mut fields| choice(&mut fields));
            let choice = choice.ok_or("one of its answers is not understood")?;
            if choices.iter().any(|other| other.id == choice.id) {
                return Err("two of its answers have the same id");
            }
            choices.push(choice);
        }
        Ok(Self { call, choices })
    }
}

fn choice(fields: &mut Fields) -> Option<Choice> {
    let kind = ChoiceKind::of(&fields.text("kind")?)?;
    Some(Choice { id: fields.id("optionId")?, name: fields.short("name", NAME)?, kind })
}

/// The right to answer one question.
pub(crate) struct Slip {
    link: Arc<Link>,
    number: u64,
}

impl Slip {
    pub(crate) fn new(link: Arc<Link>, number: u64) -> Self {
        Self { link, number }
    }

    fn settle(&self, result: &Value) {
        self.link.answer(self.number, result);
    }
}

/// The answer to a question that nobody decides any more.
pub(crate) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

impl Drop for Slip {
    fn drop(&mut self) {
        // Nothing, if it was answered.
        self.settle(&cancelled());
    }
}
