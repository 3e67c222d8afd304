//! What an agent tells, one update at a time.

use serde_json::Value;

use crate::call::{Call, CallChange, Status, block};
use crate::fields::{ABOUT, Fields, NAME, shown};
use crate::offered::{Setting, settings};
use crate::question::Question;

/// What an agent told, in the order in which it did.
#[derive(Debug)]
pub enum Update {
    /// A piece of what it says to the person.
    Said(String),
    /// A piece of what it thinks.
    Thought(String),
    /// A piece of what the person said, when that is told again.
    Person(String),
    /// A call of a tool.
    Call(Call),
    /// Something new about a call.
    CallChanged(CallChange),
    /// The whole plan, as it is now.
    Plan(Vec<Step>),
    /// The mode that the session is in now, by the agent's word.
    Mode(String),
    /// All commands that it understands now.
    Commands(Vec<Command>),
    /// All that can be set now.
    Settings(Vec<Setting>),
    /// What the agent calls the conversation.
    Title(String),
    /// How full its context is, and what it cost.
    Usage(Usage),
    /// It asks whether a call may be made.
    Asked(Question),
    /// An update that was told before: a conversation that is being loaded.
    Again(Box<Update>),
    /// The answer to a prompt came here: what stands before belongs to that turn.
    TurnOver,
    /// A record that is corrupt, too long or not understood, and why.
    Odd(String),
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is to be done.
    pub text: String,
    /// How urgent it is.
    pub priority: Priority,
    /// How far it is.
    pub status: Status,
}

/// How urgent a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the protocol say it")]
pub enum Priority {
    High,
    Medium,
    Low,
}

/// A command that a prompt can begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Without the stroke.
    pub name: String,
    /// What it does.
    pub about: String,
    /// What may follow it.
    pub hint: Option<String>,
}

/// How full an agent's context is.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// Tokens in it.
    pub used: u64,
    /// Tokens that fit.
    pub size: u64,
    /// What the session cost so far, if the agent tells.
    pub cost: Option<Cost>,
    /// What it tells beyond the protocol.
    pub meta: Option<Value>,
}

/// Money.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// How much.
    pub amount: f64,
    /// Of what.
    pub currency: String,
}

/// Why an update is none.
pub(crate) enum NoUpdate {
    /// Nobody here knows that kind.
    Unknown(String),
    /// It tells nothing that is of use here.
    NoNews,
    /// It lacks what its kind has.
    Corrupt(String),
}

/// Reads what stands in `session/update` beside the session.
pub(crate) fn read(update: Value) -> Result<Update, NoUpdate> {
    let corrupt = |why: &str| NoUpdate::Corrupt(why.to_owned());
    let mut fields = Fields::of(update).ok_or_else(|| corrupt("an update is no object"))?;
    let kind = fields.short("sessionUpdate", NAME).ok_or_else(|| corrupt("an update has no kind"))?;
    let fields = &mut fields;
    let update = match kind.as_str() {
        "agent_message_chunk" => fields.take("content").map(block).map(Update::Said),
        "agent_thought_chunk" => fields.take("content").map(block).map(Update::Thought),
        "user_message_chunk" => fields.take("content").map(block).map(Update::Person),
        "tool_call" => Call::read(fields).map(Update::Call),
        "tool_call_update" => CallChange::read(fields).map(Update::CallChanged),
        "plan" => fields.list("entries", step).map(Update::Plan),
        "current_mode_update" => fields.id("currentModeId").map(Update::Mode),
        "available_commands_update" => fields.list("availableCommands", command).map(Update::Commands),
        "config_option_update" => settings(fields).map(Update::Settings),
        "session_info_update" => match fields.short("title", NAME) {
            Some(title) => Some(Update::Title(title)),
            None => return Err(NoUpdate::NoNews),
        },
        "usage_update" => usage(fields).map(Update::Usage),
        other => return Err(NoUpdate::Unknown(shown(other.as_bytes()))),
    };
    update
        .ok_or_else(|| NoUpdate::Corrupt(format!("an update of the kind `{kind}` lacks what belongs to it")))
}

fn step(value: Value) -> Option<Step> {
    let mut fields = Fields::of(value)?;
    let priority = match fields.text("priority").as_deref() {
        Some("high") => Priority::High,
        Some("low") => Priority::Low,
        Some(_) | None => Priority::Medium,
    };
    let status = fields.text("status").and_then(|word| Status::of(&word)).unwrap_or(Status::Pending);
    Some(Step { text: fields.short("content", ABOUT)?, priority, status })
}

fn command(value: Value) -> Option<Command> {
    let mut fields = Fields::of(value)?;
    let about = fields.short("description", ABOUT).unwrap_or_default();
    let hint = fields.object("input").and_then(|mut input| input.short("hint", ABOUT));
    Some(Command { name: fields.id("name")?, about, hint })
}

fn usage(fields: &mut Fields) -> Option<Usage> {
    let cost = fields.object("cost").and_then(|mut cost| {
        let amount = cost.take("amount")?.as_f64()?;
        Some(Cost { amount, currency: cost.short("currency", NAME)? })
    });
    Some(Usage {
        used: fields.number("used")?,
        size: fields.number("size")?,
        cost,
        meta: fields.json("_meta"),
    })
}
