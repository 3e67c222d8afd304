//! Exact values that were made known at run time, and the forms they travel in.
//!
//! Values are searched as they are, and as JSON, URLs and shells write them; base64 and hex are read and searched for the
//! values themselves, wherever in them a value begins; other writings are read line by line ([`views`]). A piece of a long
//! value is found too.
//!
//! Invariants: every byte of every occurrence of every form is masked, wherever the search starts. A value that was
//! learned twice is known until it was forgotten twice. Values stay in memory in the clear while they are known (the
//! price of finding them) and are wiped afterwards.

pub(crate) mod decode;
mod forms;
mod index;
mod rows;
#[cfg(test)]
mod tests;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;

use index::Index;
use zeroize::Zeroizing;

/// Shortest value that can be learned: shorter ones occur by chance.
const MIN_VALUE: usize = 8;
/// Longest.
const MAX_VALUE: usize = 64 * 1024;
/// Most values.
const MOST: usize = 1 << 20;
/// No occurrence that is found reaches further than this from where it begins to be one.
pub(crate) const REACH: usize = 3 * 1024;

/// Why a value was not learned. It will not be masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LearnError {
    /// Too short to be told from ordinary text.
    #[error(
        "a value of fewer than {MIN_VALUE} bytes, or of such lines, cannot be masked; use a longer secret"
    )]
    TooShort,
    /// Larger than any secret.
    #[error("a value of more than {MAX_VALUE} bytes cannot be masked; use a shorter secret")]
    TooLong,
    /// More values than can be searched for.
    #[error("too many values are known; none was added")]
    TooMany,
}

#[derive(PartialEq, Eq)]
struct Bytes(Zeroizing<Vec<u8>>);

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.as_slice().cmp(other.0.as_slice())
    }
}

type Value = Arc<Bytes>;

fn value(bytes: &[u8]) -> Value {
    Arc::new(Bytes(Zeroizing::new(bytes.to_vec())))
}

/// Values, how often each was learned, and what finds them.
#[derive(Clone, Default)]
struct Tier {
    values: BTreeMap<Value, usize>,
    index: Option<Arc<Index>>,
}

impl Tier {
    fn of(values: BTreeMap<Value, usize>) -> Self {
        let index = Index::new(values.keys().flat_map(|value| forms::of(&value.0)));
        Self { index: (!values.is_empty()).then(|| Arc::new(index)), values }
    }
}

/// What is known. Most values rest in a large tier; new ones come into a small one, so that learning one is cheap.
#[derive(Clone, Default)]
pub(crate) struct Known {
    settled: Tier,
    fresh: Tier,
}

/// Whether such a value can be searched for at all.
pub(crate) fn fits(value: &[u8]) -> Result<(), LearnError> {
    if value.len() > MAX_VALUE {
        return Err(LearnError::TooLong);
    }
    // Text is read by lines: one of them at least must be told from others.
    let longest = value.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::len).max();
    if longest < Some(MIN_VALUE) { Err(LearnError::TooShort) } else { Ok(()) }
}

impl Known {
    /// This set and further values.
    pub(crate) fn with(&self, values: &[&[u8]]) -> Result<Self, LearnError> {
        values.iter().try_for_each(|value| fits(value))?;
        if self.settled.values.len() + self.fresh.values.len() + values.len() > MOST {
            return Err(LearnError::TooMany);
        }
        let mut next = self.clone();
        let mut is_new = false;
        for value in values {
            let value = self::value(value);
            match next.settled.values.get_mut(&value) {
                Some(times) => *times += 1,
                None => {
                    is_new = true;
                    *next.fresh.values.entry(value).or_default() += 1;
                }
            }
        }
        if next.fresh.values.len() > 64 + next.settled.values.len() / 16 {
            let mut all = std::mem::take(&mut next.settled.values);
            all.append(&mut next.fresh.values);
            next = Self { settled: Tier::of(all), fresh: Tier::default() };
        } else if is_new {
            next.fresh = Tier::of(next.fresh.values);
        }
        Ok(next)
    }

    /// This set without one time of each of these values.
    pub(crate) fn without(&self, values: &[&[u8]]) -> Self {
        let mut next = self.clone();
        for tier in [&mut next.settled, &mut next.fresh] {
            let before = tier.values.len();
            for value in values {
                let value = self::value(value);
                if let Some(times) = tier.values.get_mut(&value) {
                    *times -= 1;
                    if *times == 0 {
                        tier.values.remove(&value);
                    }
                }
            }
            if tier.values.len() < before {
                *tier = Tier::of(std::mem::take(&mut tier.values));
            }
        }
        next
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.settled.index.is_none() && self.fresh.index.is_none()
    }

    /// Runs that are shorter cannot hold a value.
    pub(crate) fn shortest_run(&self) -> Option<usize> {
        self.indices().map(Index::shortest_of_runs).min()
    }

    fn indices(&self) -> impl Iterator<Item = &Index> {
        [&self.settled, &self.fresh].into_iter().filter_map(|tier| tier.index.as_deref())
    }

    /// Tells every occurrence in `text[from..]`, as it is written, and in the runs as base64 and hex.
    pub(crate) fn find(
        &self,
        text: &[u8],
        from: usize,
        runs: &[(usize, usize)],
        room: &mut decode::Room,
        mut tell: impl FnMut(usize, usize),
    ) {
        for index in self.indices() {
            index.find_all(text, from, runs, room, &mut tell);
            views::find(index, text, from, room, &mut tell);
        }
    }
}
