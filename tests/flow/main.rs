//! The real daemon through its public API: one file per area of the specification.

mod cli;
mod skeleton;
