//! Turns the entries of a segment into one root, as RFC 6962 does, without keeping them; and proves that some
//! of them are under it.
//!
//! A [`Tree`] holds one hash per set bit of its size (the peaks), so that adding an entry is O(1) on
//! average and the root is O(log n). Invariant: the root equals the RFC's recursive definition; leaf and
//! node hashes carry different prefixes. A proof ([`prove`]) is the roots of the largest subtrees without a
//! chosen entry, from left to right: with the chosen entries it gives the root ([`proved_root`]) or nothing.
//! Not here: what an entry is.

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

/// What must be known besides the leaves at `chosen` (ascending places) to compute the root over all leaves.
pub(crate) fn prove(leaves: &[Hash], chosen: &[u64]) -> Vec<Hash> {
    let mut proof = Vec::new();
    prove_part(leaves, 0, chosen, &mut proof);
    proof
}

fn prove_part(leaves: &[Hash], start: u64, chosen: &[u64], proof: &mut Vec<Hash>) {
    let half = left_size(leaves.len() as u64);
    if chosen.is_empty() {
        let mut tree = Tree::default();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        proof.push(tree.root());
    } else if let Some(parts) = usize::try_from(half).ok().filter(|half| *half > 0)
        && let Some((left, right)) = leaves.split_at_checked(parts)
    {
        let middle = start.saturating_add(half);
        let (before, after) = chosen.split_at(chosen.partition_point(|place| *place < middle));
        prove_part(left, start, before, proof);
        prove_part(right, middle, after, proof);
    }
}

/// The root over `size` leaves of which some are known by place (ascending), if the proof fits exactly.
pub(crate) fn proved_root(size: u64, chosen: &[(u64, Hash)], proof: &[Hash]) -> Option<Hash> {
    let mut rest = proof.iter();
    let root = root_of_part(0, size, chosen, &mut rest)?;
    rest.next().is_none().then_some(root)
}

fn root_of_part(
    start: u64,
    size: u64,
    chosen: &[(u64, Hash)],
    proof: &mut std::slice::Iter<'_, Hash>,
) -> Option<Hash> {
    if size == 0 {
        return None;
    }
    match (chosen, left_size(size)) {
        ([], _) => proof.next().copied(),
        ([(place, leaf)], 0) => (*place == start).then_some(*leaf),
        (_, 0) => None,
        (_, half) => {
            let middle = start.checked_add(half)?;
            let (before, after) = chosen.split_at(chosen.partition_point(|(place, _)| *place < middle));
            let left = root_of_part(start, half, before, proof)?;
            let right = root_of_part(middle, size.checked_sub(half)?, after, proof)?;
            Some(join(&left, &right))
        }
    }
}

/// How many of `size` leaves are under the left child: the largest power of two below it; 0 for a single leaf.
fn left_size(size: u64) -> u64 {
    size.checked_sub(1).and_then(u64::checked_ilog2).map_or(0, |bits| 1 << bits)
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

    #[test]
    fn led_10_a_proof_gives_the_root_for_every_choice_and_for_no_other_leaf_place_or_size() {
        for size in 1..=9u32 {
            let leaves: Vec<Hash> = (0..size).map(|i| leaf(&i.to_be_bytes())).collect();
            let root = by_the_book(&leaves);
            for mask in 1..1u32 << size {
                let chosen: Vec<u64> = (0..size).filter(|i| mask >> i & 1 == 1).map(u64::from).collect();
                let proof = prove(&leaves, &chosen);
                let known: Vec<(u64, Hash)> =
                    chosen.iter().map(|i| (*i, leaves[usize::try_from(*i).unwrap()])).collect();
                let with = |known: &[(u64, Hash)], proof: &[Hash]| proved_root(size.into(), known, proof);
                assert_eq!(with(&known, &proof), Some(root), "size {size} mask {mask:b}");
                for place in 0..known.len() {
                    let mut other = known.clone();
                    other[place].1[0] ^= 1;
                    assert_ne!(with(&other, &proof), Some(root));
                    other = known.clone();
                    other.remove(place);
                    assert_ne!(with(&other, &proof), Some(root));
                }
                for place in 0..proof.len() {
                    let mut other = proof.clone();
                    other[place][31] ^= 1;
                    assert_ne!(with(&known, &other), Some(root));
                    other.remove(place);
                    assert_ne!(with(&known, &other), Some(root));
                }
                assert_ne!(with(&known, &[proof.clone(), vec![root]].concat()), Some(root), "one too many");
                let moved: Vec<(u64, Hash)> = known.iter().map(|(i, leaf)| (i + 1, *leaf)).collect();
                assert_ne!(with(&moved, &proof), Some(root));
            }
        }
        assert_eq!(proved_root(0, &[], &[]), None);
    }
}
