//! What is needed to try agents that speak ACP, and whoever drives them.
//!
//! | to | use |
//! |---|---|
//! | see whether an agent keeps the contract, whichever it is | [`conforms::conforms`] |
//! | have a model that plays a script, in four wire formats, and can be ill | [`model::Model`] |
//! | have every message read by the protocol's own types | [`schema`] |
//! | have an agent that does what its prompt says, also what no agent should | the program `acp-fake` |

pub mod conforms;
pub mod model;
pub mod schema;
