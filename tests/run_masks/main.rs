//! `palisade run` and covers that must stay: secrets that appear later, files that the host replaces, stubs.
//!
//! Every test runs the real program on the real kernel, as root where the suite is root's, and as a user.

mod protected;
mod scene;
mod secrets;
mod stopped;
mod stubs;
