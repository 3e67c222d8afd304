//! Proof that one launch may happen.

/// Proof that one launch may happen; used up by it.
///
/// Not `Clone`, not `Serialize`: it lives for one launch.
#[must_use = "a permit that is dropped launched nothing"]
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    /// The constant local rule: whoever confines a process of their own widens nothing.
    ///
    /// For programs that a person started to do just that. What acts for somebody else asks the gate.
    pub fn own_process() -> Self {
        Self(())
    }
}
