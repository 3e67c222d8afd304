//! `palisade run --explain`: the real program on the real kernel says what refused what, and what would allow it.
//!
//! As root where the suite is root's, and as a user that nobody is.

mod layers;
mod processes;
mod scene;
