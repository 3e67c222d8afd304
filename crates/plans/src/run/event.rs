//! What happens to a run, and what is to be done about it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::row::{Cause, Millis, Outcome, Products, Verdict};
use crate::document::Product;
use crate::fault::Faults;
use crate::name::{Actor, DispatchId, Hash, ItemId, RunId};
use crate::request::Request;

/// How a dispatch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Well.
    Done {
        /// What it left.
        products: Products,
        /// What it says, if it judges.
        verdict: Option<Verdict>,
    },
    /// Not well.
    Failed {
        /// Why.
        cause: Cause,
        /// More.
        detail: String,
    },
    /// It was stopped.
    Cancelled,
    /// It asks something.
    NeedsInput,
}

/// What is known of an input: what came of it when it was done before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// What was left.
    pub products: Products,
    /// What was said, if it judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A dispatch was started.
    Started {
        /// The item.
        item: ItemId,
        /// Its dispatch.
        dispatch: DispatchId,
    },
    /// A dispatch ended, and nothing of it is there any more.
    Ended {
        /// The item.
        item: ItemId,
        /// Its dispatch.
        dispatch: DispatchId,
        /// How.
        ended: Ended,
    },
    /// A dispatch that was asked about was never started.
    NeverStarted {
        /// The item.
        item: ItemId,
        /// Its dispatch.
        dispatch: DispatchId,
    },
    /// A policy does not let an item start or go on. One that was to be started is stopped first, as it may be at work: whoever did
    /// not start it answers with [`Event::NeverStarted`].
    Denied {
        /// The item.
        item: ItemId,
        /// Why, in words for whoever submitted it.
        why: String,
    },
    /// What is known of an input.
    Recalled {
        /// The item.
        item: ItemId,
        /// The hash of the input.
        key: Hash,
        /// What came of it when it was done before.
        found: Option<Known>,
    },
    /// The list that a group goes over.
    Elements {
        /// The group.
        item: ItemId,
        /// Its elements, or why it cannot be read.
        found: Result<Vec<serde_json::Value>, String>,
    },
    /// Somebody agrees.
    Approved {
        /// The item.
        item: ItemId,
        /// To what has this hash.
        hash: Hash,
        /// Who.
        by: Actor,
    },
    /// Somebody does not agree.
    Refused {
        /// The item.
        item: ItemId,
        /// To what has this hash.
        hash: Hash,
        /// Who.
        by: Actor,
    },
    /// A product of an item that is done is another one now.
    Changed {
        /// The item.
        item: ItemId,
        /// Which product.
        product: Product,
        /// What it is now.
        hash: Hash,
    },
    /// A question was answered.
    Answered {
        /// The item.
        item: ItemId,
        /// Who did.
        by: Actor,
    },
    /// A person wants an item to be tried again.
    Retry {
        /// The item.
        item: ItemId,
        /// Who does.
        by: Actor,
    },
    /// A person does not.
    GiveUp {
        /// The item.
        item: ItemId,
        /// Who does not.
        by: Actor,
    },
    /// An item is cancelled.
    CancelItem {
        /// The item.
        item: ItemId,
        /// By whom.
        by: Actor,
    },
    /// The run is cancelled.
    CancelRun {
        /// By whom.
        by: Actor,
    },
    /// Nothing more will be added.
    Close {
        /// By whom.
        by: Actor,
    },
    /// Time passed, or something that all runs share is free again.
    Tick,
}

/// A product that an item uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is called for the item.
    pub key: String,
    /// Whose product it is.
    pub item: ItemId,
    /// The dispatch that left it; none if it was known before.
    pub dispatch: Option<DispatchId>,
    /// Which product.
    pub product: Product,
    /// What it is.
    pub hash: Hash,
}

/// One start of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The item.
    pub item: ItemId,
    /// The dispatch. A second one of this id is the first one.
    pub dispatch: DispatchId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The dispatch that asked what was answered.
    pub continues: Option<DispatchId>,
    /// What is dispatched, every name pinned, with the time that it has.
    pub request: Request,
    /// The products that it uses.
    pub inputs: Vec<Input>,
    /// When it has to be over.
    pub deadline: Millis,
    /// That doing it twice is doing it once.
    pub idempotency_key: Option<String>,
    /// The hash of what a person agreed to.
    pub approved: Option<Hash>,
}

/// What a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Question {
    /// Whether what has this hash may be done.
    Approval(Hash),
    /// Whether something that has effects is tried again, though nobody knows what the first attempt did.
    Retry,
    /// What the item itself asks.
    Answer,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Start this, after what was decided is on the disk.
    Start(Box<Start>),
    /// Stop this, and tell of its end when it is gone.
    Stop {
        /// The item.
        item: ItemId,
        /// Its dispatch.
        dispatch: DispatchId,
    },
    /// Find out what became of this: [`Event::Started`], [`Event::Ended`] or [`Event::NeverStarted`].
    Check {
        /// The item.
        item: ItemId,
        /// Its dispatch.
        dispatch: DispatchId,
    },
    /// Find out whether this input is known: [`Event::Recalled`]. The key does not say for whom: whoever keeps products lets each
    /// see their own.
    Recall {
        /// The item.
        item: ItemId,
        /// The hash of its input.
        key: Hash,
    },
    /// Read the list that a group goes over: [`Event::Elements`].
    Fetch {
        /// The group.
        item: ItemId,
        /// Where the list is.
        list: Input,
    },
    /// Ask a person.
    Ask {
        /// The item.
        item: ItemId,
        /// What.
        question: Question,
    },
    /// The run is over.
    Over(Outcome),
}

/// What came of an event: what changed, and what is to be done when that is on the disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The records of items that changed.
    pub rows: BTreeSet<usize>,
    /// Whether the record of the run changed.
    pub head: bool,
    /// What is to be done, in order.
    pub decisions: Vec<Decision>,
    /// Other runs that may go on: give each a [`Event::Tick`].
    pub wake: BTreeSet<RunId>,
}

/// Why an event changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such item.
    #[error("there is no item `{0}` in this run")]
    UnknownItem(ItemId),
    /// It does not wait for that.
    #[error("`{0}` does not wait for that")]
    NotWaiting(ItemId),
    /// What is agreed to is not what is there.
    #[error("`{item}` is another one by now: it waits for approval of `{hash}`; look at it again")]
    AnotherHash {
        /// The item.
        item: ItemId,
        /// What it waits for.
        hash: Hash,
    },
    /// Only a person can do this.
    #[error("a person decides this")]
    NotAPerson,
    /// Four eyes are asked for.
    #[error("`{0}` needs the approval of somebody else than who wanted it")]
    OwnWork(ItemId),
    /// It ended.
    #[error("`{0}` has ended")]
    HasEnded(ItemId),
    /// The run ended or was cancelled, or nothing more can be added.
    #[error("the run is closed")]
    Closed,
    /// What was to be added has faults.
    #[error("{0}")]
    Faults(#[from] Faults),
}
