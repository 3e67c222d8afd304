//! The record that can be checked: an append-only, keyed chain of entries with signed checkpoints.
//!
//! Flow: [`Draft`] (what happened) -> [`Ledger`] (durable, chained, signed) -> [`read()`] (entries again) and
//! [`verify`] (is it still what was written?); [`Selection`] -> [`Bundle`] (some entries, proved elsewhere).
//! On disk: `segments/00000001.seg` (one JSON entry per line), `checkpoints.jsonl`, `reserve`, `lock`.
//!
//! Invariants: an acknowledged entry is durable; sequence numbers have no gaps; the stored bytes are the
//! hashed bytes; no text is stored that did not pass the scrubber. Absent: any knowledge of HTTP, policies
//! or keys' storage, and any async runtime. The verifier uses nothing of the writer but formats.

mod bundle;
mod checkpoint;
mod disk;
mod draft;
mod entry;
mod error;
mod keys;
mod ledger;
mod lock;
mod merkle;
mod once;
mod open;
mod queue;
mod read;
mod records;
mod recover;
mod reserve;
mod retention;
mod run;
mod sealing;
mod segment;
mod startup;
mod state;
mod tail;
pub mod verify;
mod writer;

pub use bundle::{
    Bundle, BundleError, Input, InputKind, Layout, LayoutError, Selected, Selection, reference,
};
pub use checkpoint::{Checkpoint, RecordKind};
#[doc(hidden)]
pub use disk::{Fault, Faults};
pub use draft::{Decision, Draft, MAX_DETAILS, MAX_TEXT, Scrub};
pub use entry::Entry;
pub use error::{AppendError, CheckpointError, DropError, OpenError, ReadError};
pub use keys::{ChainKey, Keys};
pub use ledger::{Held, Ledger, Options};
pub use once::{BadSeed, Once, Resting, Seed};
pub use queue::{Recorded, Ticket};
pub use read::{Entries, ExportError, Stored, export, read};
pub use recover::Torn;
pub use segment::is_segment;
pub use startup::Recovery;
pub use state::{Head, Health};
pub use tail::Tail;
