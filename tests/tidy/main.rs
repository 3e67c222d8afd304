//! The house rules that a compiler does not check.

mod edges;
mod house;
mod opened;
