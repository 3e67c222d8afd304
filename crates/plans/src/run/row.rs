//! What is kept of a run: one record for it, and one for each item. There are no others, whatever happens and how often.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::document::Product;
use crate::name::{Actor, DispatchId, Hash, ItemId, QueueName, RunId};
use crate::plan::{Definition, Pins};

/// Milliseconds since 1970-01-01T00:00:00Z. Whoever calls says what time it is.
pub type Millis = i64;

/// Where an item stands. The last five end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It waits for other items, or for a person.
    #[default]
    Pending,
    /// It waits for a place, a lock, or the time of its next attempt.
    Ready,
    /// It was started; also while it waits for an answer.
    Running,
    /// It did what it should.
    Done,
    /// It did not.
    Failed,
    /// It was not tried, since something before it was not done, or it is not needed any more.
    Skipped,
    /// Somebody cancelled it.
    Cancelled,
    /// It was not allowed.
    Denied,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Ready,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Skipped,
        Self::Cancelled,
        Self::Denied,
    ];

    /// Whether it stays so.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Pending | Self::Ready | Self::Running => false,
            Self::Done | Self::Failed | Self::Skipped | Self::Cancelled | Self::Denied => true,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }
}

/// Why an item ended as it did, or was tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// What it ran failed.
    WorkerFailed,
    /// The model's provider failed.
    ProviderFailed,
    /// It took longer than it may.
    Timeout,
    /// Something that it needs could not be fetched.
    FetchFailed,
    /// Something that it needs is not what it should be.
    IntegrityFailed,
    /// It could not be started.
    StartFailed,
    /// Nobody knows what became of it; it is gone.
    Lost,
    /// A product that it needs is not there.
    Dangling,
    /// The list that it goes over cannot be used.
    BadList,
    /// Who judges did not approve.
    Rejected,
    /// A part of it did not end well.
    Part,
    /// Nobody answered in time.
    Unanswered,
    /// It asked too often.
    TooManyQuestions,
    /// A person gave it up.
    GivenUp,
    /// A person refused it.
    Refused,
    /// A policy, or a revocation.
    Policy,
    /// Somebody cancelled it, or the run.
    Cancelled,
    /// Something that it waits for did not end as it must.
    Dependency,
    /// What it is a part of was decided without it.
    NotNeeded,
}

impl Cause {
    /// Whether the same attempt may well go otherwise.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::ProviderFailed | Self::FetchFailed | Self::StartFailed | Self::Lost)
    }
}

/// Why, and in whose words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// In one word.
    pub cause: Cause,
    /// More.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Who did it, where somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Actor>,
}

/// What a judge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No; also what says nothing.
    Reject,
}

/// What an item left, by hash. Only sealed products are here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Products {
    /// What it changed in the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Hash>,
    /// Files that it put out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Hash>,
}

impl Products {
    /// The hash of one of them.
    #[must_use]
    pub fn get(&self, product: &Product) -> Option<Hash> {
        match product {
            Product::Patch => self.patch,
            Product::Output(path) => self.outputs.get(path).copied(),
        }
    }
}

/// What an item that is not at work waits for, besides other items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waits {
    /// A person who agrees to what has this hash.
    Approval {
        /// Of what.
        hash: Hash,
        /// Until when.
        until: Option<Millis>,
    },
    /// A person who says whether it is tried again.
    Retry {
        /// Until when.
        until: Millis,
    },
    /// An answer.
    Answer {
        /// Until when.
        until: Millis,
    },
    /// What is known of its input.
    Recall {
        /// The hash of the input.
        key: Hash,
    },
    /// The list that it goes over.
    Elements,
}

/// Why an item is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopping {
    /// Somebody cancelled it.
    Cancelled,
    /// Its time is over.
    Overdue,
    /// It is not allowed any more.
    Denied,
}

/// That a person agreed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// To what has this hash.
    pub hash: Hash,
    /// Who.
    pub by: Actor,
    /// When.
    pub at: Millis,
}

/// How far an item is. This changes; the rest of its record does not, but for what a finished list adds to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Progress {
    /// Where it stands.
    pub state: State,
    /// How often it was begun.
    pub attempt: u32,
    /// How often it went on after an answer, in this attempt.
    pub turn: u32,
    /// The dispatch that is at work, or was the last.
    pub dispatch: Option<DispatchId>,
    /// Whether that is known to have been started.
    pub is_confirmed: bool,
    /// Whether it is to end.
    pub stopping: Option<Stopping>,
    /// What it waits for.
    pub waits: Option<Waits>,
    /// The input for which nothing was known.
    pub unknown: Option<Hash>,
    /// Whether it has its locks.
    pub holds: bool,
    /// When it may be tried again.
    pub not_before: Option<Millis>,
    /// When it has to be over.
    pub deadline: Option<Millis>,
    /// What it left.
    pub products: Products,
    /// Whether what it left was known before, and nothing was started.
    pub is_recalled: bool,
    /// What it says, if it judges.
    pub verdict: Option<Verdict>,
    /// Who agreed, to what.
    pub approved: Option<Approved>,
    /// Why it stands where it does.
    pub why: Option<Why>,
    /// When it was first started.
    pub began: Option<Millis>,
    /// When it ended.
    pub ended: Option<Millis>,
    /// How many parts were made for the elements of a list.
    pub elements: Option<u32>,
}

/// The record of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its place in the run, from 0.
    pub index: u32,
    /// Who added it.
    pub added_by: Actor,
    /// What it is.
    pub definition: Definition,
    /// How far it is.
    pub progress: Progress,
}

/// Which items that write may start without an approval, by an explicit rule of people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// None: a person is asked for each.
    #[default]
    Ask,
    /// These, with their parts.
    These(BTreeSet<ItemId>),
    /// All.
    All,
}

impl Writes {
    pub(crate) fn cover(&self, item: &Definition) -> bool {
        match self {
            Self::Ask => false,
            Self::These(all) => {
                all.contains(&item.id) || item.group.as_ref().is_some_and(|group| all.contains(group))
            }
            Self::All => true,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Every item is done.
    Done,
    /// One failed.
    Failed,
    /// None failed, and one was not allowed.
    Denied,
    /// It was cancelled, or none failed and one was.
    Cancelled,
}

/// The record of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Its name.
    pub id: RunId,
    /// What its plan is called.
    pub name: Option<String>,
    /// Who submitted it.
    pub submitted_by: Actor,
    /// When.
    pub at: Millis,
    /// Whether it can be extended.
    pub open: bool,
    /// How many of its items may be at work at the same time.
    pub concurrency: u32,
    /// The same for those of one queue.
    pub queues: BTreeMap<QueueName, u32>,
    /// What its names were resolved to.
    pub pins: Pins,
    /// Which items may write without being asked for.
    pub writes: Writes,
    /// Whether every approval has to be given by somebody else than who wanted it.
    pub four_eyes: bool,
    /// Who cancelled it.
    pub cancelled: Option<Actor>,
    /// How it ended, and when.
    pub ended: Option<(Outcome, Millis)>,
}
