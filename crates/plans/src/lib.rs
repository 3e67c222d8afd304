//! Turns a document into a checked plan, and a plan with what happened into what is to be started.
//!
//! Flow: bytes -> [`Plan::read`] -> [`Plan::pinned`] -> [`Run::begin`] -> [`Run::handle`] for each [`Event`], until
//! [`Decision::Over`]. [`Shared`] is what all runs share: locks and queues. With the feature `schedules`: a line of cron and a
//! time zone -> the moments at which a run begins.
//!
//! Invariants: no I/O, no clock and no chance: time is a parameter, and the same input gives the same output. A document with one
//! fault is refused whole, with all its faults. What is kept of a run is one record and one for each item, however much
//! happens. Authority is nobody's here: whoever calls has asked the gate.
//!
//! ```
//! use plans::{Actor, Decision, Format, Hash, Pins, Plan, Run, RunId, Shared, Submission, Writes};
//!
//! let text = br#"{ "version": 1, "items": [
//!   { "id": "build", "effect": "read", "dispatch": { "subagent": "builder" } },
//!   { "id": "test", "effect": "read", "after": ["build"], "dispatch": { "subagent": "tester" } } ] }"#;
//! let plan = Plan::read(text, Format::Json)?;
//! let plan = plan.pinned(Pins::default(), |_, name| Ok(Hash::of("example", &[name.name.as_bytes()])))?;
//! let by = Actor::person("usr_1");
//! let submission = Submission { id: RunId::of([7; 16]), by, at: 0, writes: Writes::Ask, four_eyes: false };
//! let (_run, step) = Run::begin(plan, submission, &mut Shared::new());
//! assert!(matches!(&step.decisions[..], [Decision::Start(start)] if start.item.as_str() == "build"));
//! # Ok::<(), plans::Faults>(())
//! ```
//!
//! Not here: who may submit or approve (`access`), what names stand for, dispatches, records on a disk, and when it is time.

#![forbid(unsafe_code)]

mod check;
mod document;
mod fault;
mod graph;
mod name;
mod plan;
mod read;
mod request;
mod run;
#[cfg(feature = "schedules")]
pub mod schedule;
mod shared;
mod tree;

pub use document::{
    ATTEMPTS, Approval, CONCURRENCY, Edge, Effect, MOST_ATTEMPTS, MOST_ITEMS, Need, On, Over, Product, Task,
};
pub use fault::{Fault, Faults, MOST_FAULTS, What};
pub use name::{Actor, BadName, DispatchId, Hash, ItemId, LockName, QueueName, RunId, ScheduleId};
pub use plan::{Definition, Group, Kind, Noun, Outline, Pinned, Pins, Plan};
pub use request::{Callback, DEADLINE_SECONDS, MOST_DEADLINE_SECONDS, MOST_INPUT, Ref, Request, Resources};
pub use run::{
    Approved, BadRows, Cause, Decision, Ended, Event, Head, Input, Known, Millis, Outcome, Products,
    Progress, Question, Refused, Row, Run, Start, State, Step, Stopping, Submission, Verdict, Waits, Why,
    Writes,
};
pub use shared::{Holder, Shared};
pub use tree::{Format, MOST_BYTES, MOST_DEPTH};
