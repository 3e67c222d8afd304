//! A value that cannot leak by accident.
//!
//! Invariant: no `Display`, `Clone`, `Serialize` or `PartialEq`; `Debug` prints a fixed mark; the
//! memory is wiped on drop. What this cannot do: wipe copies the compiler makes when a value is
//! moved, so keep secrets short-lived and pass them by reference.

use std::fmt;

use subtle::ConstantTimeEq;

/// Memory that can be overwritten so that the compiler does not leave it out.
pub trait Wipe {
    /// Overwrites all of it with zeros, also what a vector keeps beyond its end.
    fn wipe(&mut self);
}

impl<const N: usize> Wipe for [u8; N] {
    fn wipe(&mut self) {
        self.fill(0);
        // Whoever looks behind it must find zeros: the filling cannot be left out. A volatile write for each byte
        // costs more than the cipher.
        zeroize::optimization_barrier(self);
    }
}

impl Wipe for Vec<u8> {
    fn wipe(&mut self) {
        self.clear();
        // Not moved: it has this much room already.
        self.resize(self.capacity(), 0);
        zeroize::optimization_barrier(self.as_slice());
        self.clear();
    }
}

impl Wipe for String {
    fn wipe(&mut self) {
        std::mem::take(self).into_bytes().wipe();
    }
}

/// A secret of any kind. Reading it takes the word [`Secret::expose`], which is easy to search for.
pub struct Secret<T: Wipe>(T);

impl<T: Wipe> Secret<T> {
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

impl<T: Wipe> Secret<T> {
    /// Changes the value where it is; for what makes values here.
    pub(crate) fn with<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.0)
    }
}

impl<T: Wipe + AsRef<[u8]>> Secret<T> {
    /// Whether a candidate equals this secret, in time that depends on the lengths only.
    #[must_use]
    pub fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_ref().ct_eq(candidate).into()
    }
}

impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    struct Witness(Rc<Cell<u32>>);
    impl Wipe for Witness {
        fn wipe(&mut self) {
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
    fn sec_07_nothing_stays_of_what_is_wiped() {
        let mut array = [7_u8; 48];
        array.wipe();
        assert_eq!(array, [0; 48]);
        let mut bytes = Vec::with_capacity(4_096);
        bytes.extend_from_slice(&[7_u8; 1_000]);
        bytes.truncate(10);
        let (place, room) = (bytes.as_ptr(), bytes.capacity());
        bytes.wipe();
        assert!(bytes.is_empty() && bytes.as_ptr() == place && bytes.capacity() == room, "it was not moved");
        bytes.resize(room, 1);
        bytes.wipe();
        let mut text = String::from("hunter2");
        text.wipe();
        assert!(text.is_empty());
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
