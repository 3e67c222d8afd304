//! Compares the lines of a bundle's entries with the signed list of them, and names what was done to them.
//!
//! Invariant: no finding means that the lines are exactly the listed ones, in their order. Not here: whether the
//! list is genuine ([`super::bundle`]).

use std::collections::HashMap;

use super::report::{Finding, Kind};
use crate::merkle::Hash;

/// A line that is there: its hash if it is a whole line, and the number it claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) hash: Option<Hash>,
    pub(crate) seq: Option<u64>,
}

/// What was done to `found`, which should be `listed` (numbers and hashes).
pub(crate) fn compare(listed: &[(u64, Hash)], found: &[Line]) -> Vec<Finding> {
    let place_listed: HashMap<Hash, usize> =
        listed.iter().enumerate().map(|(place, (_, hash))| (*hash, place)).collect();
    let mut place_found: HashMap<Hash, usize> = HashMap::new();
    for (place, line) in found.iter().enumerate() {
        if let Some(hash) = line.hash {
            place_found.insert(hash, place); // the last of several
        }
    }
    let mut findings = Vec::new();
    let (mut i, mut j) = (0usize, 0usize);
    loop {
        let at = |kind, index, message: String| Finding {
            kind,
            index: Some(index),
            segment: None,
            line: u64::try_from(j).ok().map(|line| line.saturating_add(1)),
            message,
        };
        match (listed.get(i), found.get(j)) {
            (None, None) => return findings,
            (Some((seq, _)), None) => {
                findings.push(at(Kind::Truncated, *seq, format!("from entry {seq} on they are missing")));
                return findings;
            }
            (None, Some(line)) => {
                let after = listed.last().map_or(1, |(seq, _)| seq.saturating_add(1));
                let index = line.seq.unwrap_or(after);
                findings.push(at(Kind::Inserted, index, "a line follows the last listed entry".to_owned()));
                return findings;
            }
            (Some((_, hash)), Some(line)) if line.hash == Some(*hash) => {
                i = i.saturating_add(1);
                j = j.saturating_add(1);
            }
            (Some((seq, hash)), Some(line)) => {
                let comes = place_found.get(hash).is_some_and(|place| *place > j);
                let belongs =
                    line.hash.and_then(|hash| place_listed.get(&hash)).is_some_and(|place| *place > i);
                match (comes, belongs) {
                    (true, true) => {
                        findings.push(at(Kind::Reordered, *seq, format!("entry {seq} is not in its place")));
                        return findings;
                    }
                    (false, true) => {
                        findings.push(at(Kind::Deleted, *seq, format!("entry {seq} is missing")));
                        i = i.saturating_add(1);
                    }
                    (true, false) => {
                        let index = line.seq.unwrap_or(*seq);
                        findings.push(at(Kind::Inserted, index, "a line is not in the list".to_owned()));
                        j = j.saturating_add(1);
                    }
                    (false, false) => {
                        let cut = line.hash.is_none() && j.saturating_add(1) == found.len();
                        let (kind, word) =
                            if cut { (Kind::Truncated, "is cut") } else { (Kind::Edited, "is another one") };
                        findings.push(at(kind, *seq, format!("entry {seq} {word}")));
                        i = i.saturating_add(1);
                        j = j.saturating_add(1);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &[u8]) -> Vec<(Kind, u64)> {
        let listed: Vec<(u64, Hash)> = (1..=5u8).map(|n| (u64::from(n), [n; 32])).collect();
        let found: Vec<Line> = found
            .iter()
            .map(|n| Line { hash: (*n > 0).then_some([*n; 32]), seq: Some((*n).into()) })
            .collect();
        compare(&listed, &found).into_iter().map(|it| (it.kind, it.index.unwrap())).collect()
    }

    #[test]
    fn led_05_what_was_done_to_the_lines_is_named_and_located() {
        assert_eq!(check(&[1, 2, 3, 4, 5]), []);
        assert_eq!(check(&[1, 2, 9, 4, 5]), [(Kind::Edited, 3)]);
        assert_eq!(check(&[1, 2, 4, 5]), [(Kind::Deleted, 3)]);
        assert_eq!(check(&[2, 3, 4, 5]), [(Kind::Deleted, 1)]);
        assert_eq!(check(&[1, 2, 9, 3, 4, 5]), [(Kind::Inserted, 9)]);
        assert_eq!(check(&[1, 2, 2, 3, 4, 5]), [(Kind::Inserted, 2)]);
        assert_eq!(check(&[1, 2, 3, 4, 5, 1]), [(Kind::Inserted, 1)]);
        assert_eq!(check(&[1, 3, 2, 4, 5]), [(Kind::Reordered, 2)]);
        assert_eq!(check(&[5, 1, 2, 3, 4]), [(Kind::Reordered, 1)]);
        assert_eq!(check(&[1, 2, 3]), [(Kind::Truncated, 4)]);
        assert_eq!(check(&[]), [(Kind::Truncated, 1)]);
        assert_eq!(check(&[1, 2, 3, 4, 0]), [(Kind::Truncated, 5)]);
        assert_eq!(check(&[1, 0, 3, 4, 5]), [(Kind::Edited, 2)]);
        assert_eq!(check(&[1, 9, 4, 5]), [(Kind::Edited, 2), (Kind::Deleted, 3)]);
    }
}
