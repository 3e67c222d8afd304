//! Which denial is what, without a kernel.
