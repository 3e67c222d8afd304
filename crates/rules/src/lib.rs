//! Turns rules of what may leave a sandbox into verdicts on names, connections, requests and addresses.
//!
//! Flow: TOML, a preset or `--allow` -> [`Rule`] (data, as written) -> [`Rules`] (checked as a whole) ->
//! [`Rules::could_allow`] for a name that is asked for, [`Rules::connect`] for a connection, [`Rules::request`] for
//! each request in it, [`Rules::dial`] for the address that a name turned out to have.
//!
//! Invariants: what no rule allows is refused, and no rules allow nothing; a deny beats every allow; a set with one
//! fault is refused whole, with all its faults; a second set can only narrow ([`Rules::narrowed_by`]); a verdict costs
//! the same with ten rules and with ten thousand.
//!
//! ```
//! use rules::{Host, Request, Rules, path};
//!
//! let rules = Rules::from_toml("[[rule]]\nhost = 'api.x.example'\nmethods = 'read-only'").unwrap();
//! let host: Host = "api.x.example".parse().unwrap();
//! assert!(rules.connect(&host, 443).is_allowed());
//! let path = path::canonical("/v1/items").unwrap();
//! let request = Request { method: "POST", path, query: None, websocket: false, git: None };
//! assert!(!rules.request(&host, 443, &request).is_allowed());
//! assert!(!rules.dial(&host, 443, [127, 0, 0, 1].into()).is_allowed());
//! ```
//!
//! Not here: sockets, resolvers, TLS, bytes of HTTP (whoever calls has read them), who may write which rule
//! ([`Rule::is_admin_only`] only says which need an administrator).

#![forbid(unsafe_code)]

pub mod address;
mod build;
mod clash;
mod deed;
mod fault;
pub mod git;
mod limits;
mod messages;
mod name;
pub mod path;
mod pattern;
pub mod presets;
mod registry;
mod rule;
mod rules;
mod set;
mod site;
mod trie;
mod verdict;
mod within;

pub use deed::Deed;
pub use fault::{Fault, Faults, What};
pub use limits::{Answer, Limits, MOST_CONNECTIONS, MOST_SECONDS};
pub use messages::{Direction, Messages, Shape};
pub use name::{BadHost, HOST_LOOPBACK, Host, Name};
pub use rule::{
    Access, Git, Methods, MethodsWord, PublishTo, Push, Query, READ_ONLY, Registry, RegistryKind, Rule,
};
pub use rules::Rules;
pub use verdict::{Decision, Look, Request, RuleId, Why};
pub use within::{Hosts, cut};
