//! Turns what is allowed into a confined process.
//!
//! Flow: [`Spec`] (what is allowed) -> [`Plan`] (what this kernel will enforce) -> [`Running`].
//!
//! Invariant: no command is started without a `Plan`; a missing kernel feature is an error, never a warning.
//! Not here: who may run what (`access`), where output is kept (`store`), what leaves over the network.

mod begun;
pub mod capture;
pub mod changes;
mod control;
mod cut;
pub mod doctor;
mod ending;
mod explain;
mod files;
mod filter;
mod freeze;
mod given;
mod groups;
mod guardian;
mod holders;
mod homes;
mod inside;
mod join;
mod launch;
mod line;
mod measure;
mod meter;
mod note;
mod permit;
mod plan;
pub mod probe;
pub mod profile;
mod raw;
pub mod receipt;
mod repo;
mod root;
mod running;
mod sought;
pub mod spawner;
mod spec;
mod standard;
mod sys;
pub mod trust;
mod variables;
mod wall;
mod watch;
mod worktree;

pub use begun::{Begun, Coming};
pub use control::{Ask, Control, Said};
pub use cut::{BadPart, Cut};
pub use ending::{Ending, Fate, Finding, Watch};
pub use explain::{Denial, ExplainError, Explained, Layer, Observer, Weight};
pub use filter::{Filter, Instruction, Listed, Tracing, allowed, name_of, why_refused};
pub use given::{Caller, Prepared};
pub use guardian::{Kept, Unguarded};
pub use holders::{Holder, Inhabitants};
pub use launch::{Held, LaunchError, Refused};
pub use measure::Account;
pub use meter::Meter;
pub use note::{CutOff, Late, Note, cut_off};
pub use permit::Permit;
pub use plan::{Part, Plan};
pub use receipt::RunId;
pub use repo::{Became, Commit, TakeError, Unusable};
pub use running::{Attendant, Ended, Running};
pub use sought::{Carried, Looks, Seeks, Sink};
pub use spec::{Spec, Unenforceable};
pub use standard::{Kind, Standard};
pub use watch::Over;
pub use worktree::{Stubs, sweep};
