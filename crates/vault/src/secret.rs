//! A value that cannot leak by accident.
//!
//! Invariant: no `Display`, `Clone`, `Serialize` or `PartialEq`; `Debug` prints a fixed mark; the
//! memory is wiped on drop. What this cannot do: wipe copies the compiler makes when a value is
//! moved, so keep secrets short-lived and pass them by reference.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// A secret of any kind. Reading it takes the word [`Secret::expose`], which is easy to search for.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes a value into custody.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; every use of this word is a place to review.
    #[must_use]
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize + AsRef<[u8]>> Secret<T> {
    /// Whether a candidate equals this secret, in time that depends on the lengths only.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_ref().ct_eq(candidate).into()
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    struct Witness(Rc<Cell<u32>>);
    impl Zeroize for Witness {
        fn zeroize(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn sec_07_memory_is_wiped_on_drop() {
        let wiped = Rc::new(Cell::new(0));
        drop(Secret::new(Witness(Rc::clone(&wiped))));
        assert_eq!(wiped.get(), 1);
    }

    #[test]
    fn sec_07_debug_prints_a_fixed_mark() {
        assert_eq!(format!("{:?}", Secret::new([7_u8; 32])), "Secret(***)");
        assert_eq!(format!("{:#?}", Secret::new(String::from("hunter2"))), "Secret(***)");
    }

    #[test]
    fn a_secret_matches_only_itself() {
        let secret = Secret::new(b"correct horse".to_vec());
        assert!(secret.matches(b"correct horse"));
        for other in [&b"correct hors"[..], b"correct horsf", b"correct horse ", b""] {
            assert!(!secret.matches(other));
        }
    }
}
