//! What a reader says of a beginning that may still grow.

/// What was found at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix<T> {
    /// Nothing is wrong so far, and more has to come.
    NeedMore,
    /// One whole thing, and how many bytes it takes. What follows was not looked at.
    Whole {
        /// What was read.
        value: T,
        /// How many bytes it takes.
        len: usize,
    },
}

impl<T> Prefix<T> {
    /// The value, if it is there as a whole.
    pub fn whole(self) -> Option<T> {
        match self {
            Self::NeedMore => None,
            Self::Whole { value, len: _ } => Some(value),
        }
    }
}
