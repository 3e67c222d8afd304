//! Names what happened to the lines of a segment: edited, deleted, inserted, reordered, forked.
//!
//! Turns lines that were read (with or without the chain key) into findings, going on after each so that one
//! change gives one finding. Invariant: lines that follow from each other and carry their codes give none.
//! Without the chain key a changed text is invisible here; the signed root shows it ([`super::chain`]).

use std::collections::{BTreeSet, HashMap};

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

struct Segment<'a> {
    number: u32,
    places: HashMap<u64, Vec<(usize, &'a SeenEntry)>>,
    displaced: BTreeSet<u64>,
    /// The last entry of another past; what follows it belongs to the same finding.
    fork: Option<Code>,
    findings: &'a mut Findings,
}

/// Goes through the lines of segment `number` and returns where the chain stands after them.
pub(crate) fn follow(seen: &[Seen], number: u32, mut place: Place, findings: &mut Findings) -> Place {
    let mut places: HashMap<u64, Vec<(usize, &SeenEntry)>> = HashMap::with_capacity(seen.len());
    for (index, entry) in
        seen.iter().enumerate().filter_map(|(index, seen)| Some((index, seen.entry.as_ref()?)))
    {
        places.entry(entry.seq).or_default().push((index, entry));
    }
    let mut segment = Segment { number, places, displaced: BTreeSet::new(), fork: None, findings };
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

impl Segment<'_> {
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
        let genuine_follows = self.places.get(&place.expected).is_some_and(|all| {
            all.iter().any(|(other, entry)| *other > index && entry.genuine == Some(true))
        });
        if genuine_follows {
            self.add(Kind::Inserted, place.expected, line, "the entry was not written by the ledger");
            return Step::Extra;
        }
        self.add(Kind::Edited, place.expected, line, "the entry is not what was written");
        Step::Changed
    }

    fn ahead(&mut self, index: usize, line: u64, entry: &SeenEntry, place: Place) -> Step {
        let last = entry.seq.saturating_sub(1);
        if self.comes_later(place.expected, Some(index)) {
            self.displaced.extend((place.expected..=last).take(100_000));
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
        let earlier =
            self.places.get(&entry.seq).and_then(|all| all.iter().find(|(other, _)| *other < index));
        let Some((_, earlier)) = earlier else {
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
        let rivals = self.places.get(&entry.seq);
        let rival_followed = || {
            rivals.is_some_and(|all| {
                all.iter().any(|(other, rival)| *other > index && self.has_follower(rival))
            })
        };
        entry.genuine.is_none() && !self.has_follower(entry) && rival_followed()
    }

    fn has_follower(&self, entry: &SeenEntry) -> bool {
        let next = self.places.get(&entry.seq.saturating_add(1));
        next.is_some_and(|all| all.iter().any(|(_, next)| next.prev == Some(entry.code)))
    }

    fn comes_later(&self, seq: u64, index: Option<usize>) -> bool {
        let all = self.places.get(&seq);
        all.is_some_and(|all| all.iter().any(|(other, _)| index.is_none_or(|index| *other > index)))
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
