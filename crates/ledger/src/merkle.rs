//! Turns the entries of a segment into one root, as RFC 6962 does, without keeping them.
//!
//! A [`Tree`] holds one hash per set bit of its size (the peaks), so that adding an entry is O(1) on
//! average and the root is O(log n). Invariant: the root equals the RFC's recursive definition; leaf and
//! node hashes carry different prefixes. Not here: what an entry is.

use sha2::{Digest as _, Sha256};

/// A SHA-256 value.
pub(crate) type Hash = [u8; 32];

/// An append-only Merkle tree, kept as its peaks (largest first).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    size: u64,
    peaks: Vec<Hash>,
}

impl Tree {
    /// A tree from a size and its peaks, if they fit together.
    pub(crate) fn from_peaks(size: u64, peaks: Vec<Hash>) -> Option<Self> {
        (u64::from(size.count_ones()) == peaks.len() as u64).then_some(Self { size, peaks })
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn peaks(&self) -> &[Hash] {
        &self.peaks
    }

    /// Adds one entry by its leaf hash.
    pub(crate) fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.peaks.pop() else { break };
            node = join(&left, &node);
        }
        self.peaks.push(node);
        self.size = self.size.saturating_add(1);
    }

    /// The root over everything added so far.
    pub(crate) fn root(&self) -> Hash {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return Sha256::digest([]).into() };
        peaks.fold(*last, |right, left| join(left, &right))
    }
}

/// The leaf hash of one stored line (without its line feed).
pub(crate) fn leaf(line: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(line).finalize().into()
}

fn join(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962, section 2.1, word for word.
    fn by_the_book(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Sha256::digest([]).into(),
            [one] => *one,
            more => {
                let half = more.len().next_power_of_two() / 2;
                join(&by_the_book(&more[..half]), &by_the_book(&more[half..]))
            }
        }
    }

    #[test]
    fn the_incremental_root_equals_the_recursive_one_at_every_size() {
        let leaves: Vec<Hash> = (0..200u32).map(|i| leaf(&i.to_be_bytes())).collect();
        let mut tree = Tree::default();
        for size in 0..leaves.len() {
            assert_eq!(tree.root(), by_the_book(&leaves[..size]), "size {size}");
            let again = Tree::from_peaks(tree.size(), tree.peaks().to_vec()).unwrap();
            assert_eq!(again, tree);
            tree.push(leaves[size]);
        }
    }
}
