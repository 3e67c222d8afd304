//! Proof, inside the program, that one act was authorized and is on the record.

use ledger::Recorded;
use model::UserId;

use crate::{Act, Action, Principal};

/// Proof that this one act may happen. Effects take it by value; it is used once.
///
/// Not `Clone`, not `Serialize`, never in a queue: it lives for one act.
#[must_use = "a permit that is dropped was recorded as opened and never closed"]
#[derive(Debug)]
pub struct Permit<A: Act> {
    act: A,
    who: Principal,
    /// None for reads, which leave no entry.
    record: Option<Record>,
}

impl<A: Act> Permit<A> {
    pub(crate) fn new(act: A, who: Principal, record: Option<Record>) -> Self {
        Self { act, who, record }
    }

    /// What was authorized.
    pub fn act(&self) -> &A {
        &self.act
    }

    /// Who it was authorized for.
    pub fn user(&self) -> UserId {
        self.who.user()
    }

    /// The caller it was authorized for, as they proved who they are.
    pub fn who(&self) -> &Principal {
        &self.who
    }

    /// Uses the permit up and gives the act, to be carried out now.
    pub fn into_act(self) -> A {
        self.act
    }

    /// What closes the record afterwards; a read has none.
    pub fn record(&self) -> Option<Record> {
        self.record.clone()
    }
}

/// The open entry of an act, to be closed with what became of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// `None` for a narrowing act that not even the reserve could hold.
    pub(crate) opened: Option<Recorded>,
    pub(crate) action: &'static Action,
    pub(crate) resource: String,
    pub(crate) who: Principal,
}
