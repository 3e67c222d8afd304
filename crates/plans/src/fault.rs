//! What is wrong with a plan: everything at once, each with its place in the document and what to do.
//!
//! Invariant: the same document gives the same faults in the same order. A document can have more faults than anybody reads;
//! the rest is counted.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeStruct};

/// The most faults that are told of one document.
pub const MOST_FAULTS: usize = 1_000;

/// All faults of a document. It is refused whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    faults: Vec<Fault>,
    /// How many there are besides.
    more: usize,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: a JSON pointer (RFC 6901); empty for the document itself.
    pub at: String,
    /// What is wrong, and what to do.
    pub what: What,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// More bytes than there may be.
    #[error("longer than {0} bytes; make it shorter")]
    TooLong(usize),
    /// Neither JSON nor TOML.
    #[error("{0}; correct the document")]
    Syntax(String),
    /// Lists in tables in lists.
    #[error("nested deeper than {0}; flatten it")]
    TooDeep(usize),
    /// A key that stands twice in one table.
    #[error("`{0}` stands twice in one table; keep one")]
    DoubledKey(String),
    /// A key that there is not.
    #[error("there is no `{key}` here; {}", known_keys(.known))]
    UnknownKey {
        /// As written.
        key: String,
        /// What there is.
        known: &'static [&'static str],
    },
    /// A key that must be there.
    #[error("`{0}` is missing; add it")]
    Missing(&'static str),
    /// Another kind of value.
    #[error("{found} stands where {expected} belongs")]
    Kind {
        /// What belongs here.
        expected: &'static str,
        /// What stands here.
        found: &'static str,
    },
    /// A number beyond its bounds.
    #[error("{found} is out of bounds; from {least} to {most}")]
    Bounds {
        /// As written.
        found: String,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A list or table with too many or too few.
    #[error("{count} of them; from {least} to {most} are allowed")]
    Count {
        /// How many there are.
        count: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A text that is none of its kind.
    #[error("`{}` is not {expected}", .found.escape_debug())]
    Word {
        /// As written, cut.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Two items of one name.
    #[error("the id `{id}` is taken by the item at `{first}`; choose another")]
    DuplicateId {
        /// The name.
        id: String,
        /// Where the first one stands.
        first: String,
    },
    /// Two items whose names nobody can tell apart.
    #[error("the id `{id}` differs from `{other}` at `{first}` only in capitals; choose another")]
    AlikeId {
        /// The name.
        id: String,
        /// The other one's.
        other: String,
        /// Where the other one stands.
        first: String,
    },
    /// An item that there is not.
    #[error("there is no item `{id}`{}", meant(.near))]
    UnknownItem {
        /// As written.
        id: String,
        /// What may have been meant.
        near: Option<String>,
    },
    /// The same edge twice.
    #[error("`{0}` is named twice; keep one")]
    Twice(String),
    /// Items that wait for each other.
    #[error("these wait for each other: {0}; remove one of the edges")]
    Cycle(String),
    /// A product of an item that is not waited for.
    #[error("a product of `{0}` is needed, but this item does not wait for it; add `{0}` to `after`")]
    NeedWithoutDependency(String),
    /// A product of an item that may have failed.
    #[error("a product of `{0}` is needed, but `after` lets it fail; remove `on` from that edge")]
    NeedOfFailure(String),
    /// Something that leaves no product.
    #[error("`{0}` leaves no product: it judges; name what it judged")]
    NoProduct(String),
    /// A word on an edge that means nothing.
    #[error("`{0}` is no tag of an edge; `done` waits for success, `ended` for any ending")]
    EdgeTag(String),
    /// A pattern that there is not.
    #[error("there is no pattern `{0}`; there are `static`, `pipeline`, `map-reduce` and `quorum`")]
    Pattern(String),
    /// Keys that contradict each other.
    #[error("`{0}` and `{1}` do not go together; keep one")]
    Together(&'static str, &'static str),
    /// A field of a dispatch that the run sets.
    #[error("`{0}` is set by the run; remove it")]
    SetByRun(String),
    /// A secret in the document.
    #[error("a plan holds no secret: write the name that it has in the vault")]
    InlineSecret,
    /// More votes than voters.
    #[error("{threshold} of {reviewers} reviewers can never agree; lower the threshold")]
    Threshold {
        /// How many must agree.
        threshold: u64,
        /// How many there are.
        reviewers: usize,
    },
    /// More items than a run may have, with those that it may make itself.
    #[error("{count} items, with those that the patterns may add; a run has at most {most}")]
    TooManyItems {
        /// How many there would be.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// A name that whoever resolves it does not know, or may not use.
    #[error("{0}")]
    Unresolved(String),
}

impl What {
    /// A word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "too_long",
            Self::Syntax(_) => "syntax",
            Self::TooDeep(_) => "too_deep",
            Self::DoubledKey(_) => "doubled_key",
            Self::UnknownKey { .. } => "unknown_key",
            Self::Missing(_) => "missing",
            Self::Kind { .. } => "kind",
            Self::Bounds { .. } => "bounds",
            Self::Count { .. } => "count",
            Self::Word { .. } => "word",
            Self::DuplicateId { .. } => "duplicate_id",
            Self::AlikeId { .. } => "alike_id",
            Self::UnknownItem { .. } => "unknown_item",
            Self::Twice(_) => "twice",
            Self::Cycle(_) => "cycle",
            Self::NeedWithoutDependency(_) => "need_without_dependency",
            Self::NeedOfFailure(_) => "need_of_failure",
            Self::NoProduct(_) => "no_product",
            Self::EdgeTag(_) => "edge_tag",
            Self::Pattern(_) => "pattern",
            Self::Together(..) => "together",
            Self::SetByRun(_) => "set_by_run",
            Self::InlineSecret => "inline_secret",
            Self::Threshold { .. } => "threshold",
            Self::TooManyItems { .. } => "too_many_items",
            Self::Unresolved(_) => "unresolved",
        }
    }
}

fn known_keys(known: &[&str]) -> String {
    match known {
        [] => "remove it".to_owned(),
        [one] => format!("there is `{one}`"),
        all => format!("there are `{}`", all.join("`, `")),
    }
}

fn meant(near: &Option<String>) -> String {
    near.as_ref().map_or_else(|| "; name one of this plan".to_owned(), |near| format!("; is `{near}` meant?"))
}

impl Faults {
    pub(crate) fn add(&mut self, at: impl Into<String>, what: What) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault { at: at.into(), what });
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    pub(crate) fn one(what: What) -> Self {
        Self { faults: vec![Fault { at: String::new(), what }], more: 0 }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether there are so many that not all are told.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// Each of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    /// `value`, if nothing is wrong; otherwise the faults by their places, those of one place as they were found.
    pub(crate) fn or<T>(mut self, value: T) -> Result<T, Self> {
        if self.is_empty() {
            return Ok(value);
        }
        // A number is shorter if it is less.
        let place =
            |part: &str| (part.bytes().all(|byte| byte.is_ascii_digit()), part.len(), part.to_owned());
        self.faults.sort_by_cached_key(|fault| fault.at.split('/').map(place).collect::<Vec<_>>());
        Err(self)
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Fault", 3)?;
        fields.serialize_field("at", &self.at)?;
        fields.serialize_field("code", self.what.code())?;
        fields.serialize_field("message", &self.what.to_string())?;
        fields.end()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() {
            write!(out, "{}", self.what)
        } else {
            write!(out, "{}: {}", self.at, self.what)
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{fault}")?;
        }
        if self.more > 0 {
            write!(out, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
