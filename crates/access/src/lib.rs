//! Turns credentials into a [`Principal`], and (principal, act) into a [`Permit`] or a refusal.
//!
//! Flow: [`Authenticator`] (who is calling) -> [`Gate::authorize`] (may they, and is it on the record) ->
//! [`Permit`], which the effect takes by value.
//!
//! Invariants: only this crate can make a `Principal` or a `Permit`; a permit for an act that changes
//! anything exists only after its ledger entry is durable; what is not known is refused.
//!
//! Not here: HTTP (`server`), what an act does (`store`, `runtime`), rows (`store` implements [`Backing`]).

mod act;
mod acts;
mod authn;
mod backing;
mod epoch;
mod gate;
pub mod pass;
mod permit;
mod policy;
mod principal;
mod record;
mod refusal;

pub use act::{ACTIONS, Act, Action, Asks, Class, Resource, Scope, action_named};
pub use acts::*;
pub use authn::*;
pub use backing::*;
pub use epoch::Epoch;
pub use gate::{Gate, GateConfig, Trial, TrialError};
pub use permit::{Permit, Record};
pub use policy::{Decision, Policies, PolicyError, SHIPPED, Subject, Target, Why};
pub use principal::{Principal, Via};
pub use refusal::{Denied, Reason};
