//! Control files at any depth.
