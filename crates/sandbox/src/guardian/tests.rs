//! How a tree is watched.
