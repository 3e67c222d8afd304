//! Git turned against the host.
