//! Names what happened to the lines of a segment: edited, deleted, inserted, reordered, forked.
//!
//! Turns lines that were read (with or without the chain key) into findings, going on after each so that one
//! change gives one finding. Invariant: lines that follow from each other and carry their codes give none.
//! Without the chain key a changed text is invisible here; the signed root shows it ([`super::chain`]).

use std::collections::{HashMap, HashSet};

use super::report::{Finding, Findings, Kind};
use crate::keys::Code;

/// One line of a segment, as far as it says something.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: u64,
    /// `None` if the line is no entry.
    pub(crate) entry: Option<SeenEntry>,
}

/// What an entry says about its place.
#[derive(Clone, Debug)]
pub(crate) struct SeenEntry {
    pub(crate) seq: u64,
    pub(crate) prev: Option<Code>,
    pub(crate) code: Code,
    /// Whether the code fits; `None` without the chain key.
    pub(crate) genuine: Option<bool>,
}

/// Where the chain stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) expected: u64,
    /// The code the next entry must name; `None` after a line that cannot be relied on.
    pub(crate) prev: Option<Code>,
}

/// What one line turned out to be.
enum Step {
    /// The next entry.
    Next(Code),
    /// In the place of the next entry, but not what was written.
    Changed,
    /// Does not belong here; the next entry is still to come.
    Extra,
    /// An entry from further on or further back.
    Jump(u64, Code),
}

/// Which lines of the segment claim one place. No line is looked for among others: a segment that someone made
/// to be slow takes as long as any other.
struct Claims<'a> {
    first: (usize, &'a SeenEntry),
    last: usize,
    last_genuine: Option<usize>,
    /// The last one that an entry at the next place names.
    last_followed: Option<usize>,
}

struct Segment<'a> {
    number: u32,
    places: HashMap<u64, Claims<'a>>,
    /// What entries name as the one before, with their place.
    followed: HashSet<(u64, Code)>,
    displaced: HashSet<u64>,
    /// How many more may become displaced.
    displaceable: usize,
    /// The last entry of another past; what follows it belongs to the same finding.
    fork: Option<Code>,
    findings: &'a mut Findings,
}

/// Goes through the lines of segment `number` and returns where the chain stands after them.
pub(crate) fn follow(seen: &[Seen], number: u32, mut place: Place, findings: &mut Findings) -> Place {
    let mut segment = Segment::new(seen, number, findings);
    for (index, line) in seen.iter().enumerate() {
        let step = match &line.entry {
            None => segment.no_entry(line.line, place),
            Some(entry) => segment.judge(index, line.line, entry, place),
        };
        place = match step {
            Step::Next(code) => Place { expected: place.expected.saturating_add(1), prev: Some(code) },
            Step::Changed => Place { expected: place.expected.saturating_add(1), prev: None },
            Step::Extra => place,
            Step::Jump(seq, code) => Place { expected: seq.saturating_add(1), prev: Some(code) },
        };
    }
    place
}

impl<'a> Segment<'a> {
    fn new(seen: &'a [Seen], number: u32, findings: &'a mut Findings) -> Self {
        let entries =
            || seen.iter().enumerate().filter_map(|(index, seen)| Some((index, seen.entry.as_ref()?)));
        let followed = entries().filter_map(|(_, it)| Some((it.seq, it.prev?))).collect();
        let mut segment = Self {
            number,
            places: HashMap::with_capacity(seen.len()),
            followed,
            displaced: HashSet::new(),
            displaceable: seen.len().saturating_mul(2),
            fork: None,
            findings,
        };
        for (index, entry) in entries() {
            let is_followed = segment.has_follower(entry);
            let claims = segment.places.entry(entry.seq).or_insert(Claims {
                first: (index, entry),
                last: index,
                last_genuine: None,
                last_followed: None,
            });
            claims.last = index;
            if entry.genuine == Some(true) {
                claims.last_genuine = Some(index);
            }
            if is_followed {
                claims.last_followed = Some(index);
            }
        }
        segment
    }

    fn no_entry(&mut self, line: u64, place: Place) -> Step {
        if self.comes_later(place.expected, None) {
            self.add(Kind::Inserted, place.expected, line, "the line is not an entry");
            return Step::Extra;
        }
        self.add(Kind::Edited, place.expected, line, "the line is not an entry any more");
        Step::Changed
    }

    fn judge(&mut self, index: usize, line: u64, entry: &SeenEntry, place: Place) -> Step {
        if entry.genuine == Some(false) {
            return self.not_genuine(index, line, place);
        }
        if entry.seq > place.expected {
            return self.ahead(index, line, entry, place);
        }
        if entry.seq < place.expected {
            return self.behind(index, line, entry);
        }
        if place.prev.is_none() || entry.prev == place.prev {
            return if self.is_copy_of_next(index, entry) {
                self.forged(line, entry)
            } else {
                Step::Next(entry.code)
            };
        }
        match entry.genuine {
            Some(_) => {
                self.add(
                    Kind::Fork,
                    entry.seq,
                    line,
                    "a genuine entry follows another one than the one before it",
                );
                Step::Next(entry.code)
            }
            None if self.comes_later(entry.seq, Some(index)) => self.forged(line, entry),
            None => {
                self.add(Kind::Edited, entry.seq, line, "the entry does not name the one before it");
                Step::Next(entry.code)
            }
        }
    }

    /// The code does not fit: an edit, unless the genuine entry is still to come.
    fn not_genuine(&mut self, index: usize, line: u64, place: Place) -> Step {
        let genuine = self.places.get(&place.expected).and_then(|claims| claims.last_genuine);
        if genuine.is_some_and(|other| other > index) {
            self.add(Kind::Inserted, place.expected, line, "the entry was not written by the ledger");
            return Step::Extra;
        }
        self.add(Kind::Edited, place.expected, line, "the entry is not what was written");
        Step::Changed
    }

    fn ahead(&mut self, index: usize, line: u64, entry: &SeenEntry, place: Place) -> Step {
        let last = entry.seq.saturating_sub(1);
        if self.comes_later(place.expected, Some(index)) {
            let span = usize::try_from(entry.seq.saturating_sub(place.expected)).unwrap_or(usize::MAX);
            let span = span.min(self.displaceable);
            self.displaced.extend((place.expected..=last).take(span));
            self.displaceable = self.displaceable.saturating_sub(span);
            self.add(
                Kind::Reordered,
                place.expected,
                line,
                &format!("entry {} stands in its place", entry.seq),
            );
        } else {
            self.add(
                Kind::Deleted,
                place.expected,
                line,
                &format!("entries {} to {last} are missing", place.expected),
            );
        }
        Step::Jump(entry.seq, entry.code)
    }

    fn behind(&mut self, index: usize, line: u64, entry: &SeenEntry) -> Step {
        if self.displaced.remove(&entry.seq) {
            return Step::Extra;
        }
        if self.fork.is_some() && entry.prev == self.fork {
            self.fork = Some(entry.code);
            return Step::Extra;
        }
        let first = self.places.get(&entry.seq).map(|claims| claims.first);
        let Some((_, earlier)) = first.filter(|(other, _)| *other < index) else {
            self.add(Kind::Inserted, entry.seq, line, "the entry belongs further up");
            return Step::Jump(entry.seq, entry.code);
        };
        let copy = earlier.code == entry.code;
        let same_past = earlier.prev == entry.prev;
        if !copy && (entry.genuine == Some(true) || (same_past && self.has_follower(entry))) {
            self.fork = Some(entry.code);
            self.add(Kind::Fork, entry.seq, line, "two writers wrote this entry");
        } else {
            self.add(Kind::Inserted, entry.seq, line, "the entry is there twice");
        }
        Step::Extra
    }

    fn forged(&mut self, line: u64, entry: &SeenEntry) -> Step {
        self.add(Kind::Inserted, entry.seq, line, "the entry that others follow is another one");
        Step::Extra
    }

    /// Without the key: another line claims this place too, and that is the one the next entry follows.
    fn is_copy_of_next(&self, index: usize, entry: &SeenEntry) -> bool {
        let rival = self.places.get(&entry.seq).and_then(|claims| claims.last_followed);
        entry.genuine.is_none() && !self.has_follower(entry) && rival.is_some_and(|other| other > index)
    }

    fn has_follower(&self, entry: &SeenEntry) -> bool {
        self.followed.contains(&(entry.seq.saturating_add(1), entry.code))
    }

    fn comes_later(&self, seq: u64, index: Option<usize>) -> bool {
        let claims = self.places.get(&seq);
        claims.is_some_and(|claims| index.is_none_or(|index| claims.last > index))
    }

    fn add(&mut self, kind: Kind, seq: u64, line: u64, message: &str) {
        let message = format!("entry {seq}: {message}");
        self.findings.add(Finding {
            kind,
            index: Some(seq),
            segment: Some(self.number),
            line: Some(line),
            message,
        });
    }
}
