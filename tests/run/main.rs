//! `palisade run` and the person's own files: the git boundary, and what a run may leave behind.
//!
//! Every test runs the real program on the real kernel, as root where the suite is root's, and as a user.

mod commits;
mod cut_off;
mod environment;
mod faults;
mod hostile;
mod joins;
mod limits;
mod planted;
mod room;
mod started;
mod tools;
mod worktrees;
