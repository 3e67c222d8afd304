//! Reads the lines of one segment: once in constant memory, and if they are wrong once more to see how.
//!
//! [`Chain::pass`] goes on while each line is the entry that must follow, and compares the signed roots on the way;
//! it keeps no line. [`Chain::load`] keeps what lines say about their place, for [`super::order`]. Invariants: lines
//! that `pass` goes through give no finding in `order`; what is kept is about as much as what was read, and reading to
//! name changes ends after [`MAX_BAD_LINES`] lines that are no entries or [`MAX_KEPT_BYTES`] bytes, for whoever
//! changed a segment chooses how large it is.

use std::io;

use super::chain::Chain;
use super::order::{Place, Seen, SeenEntry};
use super::records::Record;
use super::report::{Finding, Kind};
use crate::draft::Decision;
use crate::entry;
use crate::keys::Code;
use crate::merkle::{Tree, leaf};
use crate::segment::{self, Lines, Piece};

/// Lines of one segment that are no entries, before the rest of it is not looked at any more.
pub(crate) const MAX_BAD_LINES: u64 = 1000;
/// Bytes of one segment whose lines are kept to name what was done to them.
const MAX_KEPT_BYTES: u64 = 128 * 1024 * 1024;
/// Remarks about the clock in one segment.
const MAX_JUMPS: usize = 1000;

/// What going through a segment gave.
pub(crate) struct Passed<'a> {
    /// Where the chain stood before it.
    pub(crate) start: Place,
    /// Where it stands after the last line that follows.
    pub(crate) place: Place,
    pub(crate) lines: u64,
    /// The number and line of the entry that should come and does not; nothing was read after it.
    pub(crate) broken: Option<(u64, u64)>,
    /// The last entry under a root that fits, if there is any.
    pub(crate) covered: Option<u64>,
    /// The first record that does not fit.
    pub(crate) misfit: Option<&'a Record>,
    /// The first record that was not found to fit.
    pub(crate) unmatched: Option<&'a Record>,
    /// Where the clock went back; worth saying only if the lines are in their order.
    pub(crate) jumps: Vec<Finding>,
    /// Where an unfinished line is.
    pub(crate) torn: Option<u64>,
}

/// The lines of a segment in memory, as far as they say something about their place.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) seen: Vec<Seen>,
    pub(crate) torn: Option<u64>,
    /// Not all of it was read.
    pub(crate) cut: bool,
}

impl Loaded {
    pub(crate) fn lines(&self) -> u64 {
        u64::try_from(self.seen.len()).unwrap_or(u64::MAX)
    }
}

/// Compares the lines of a segment, as they come, with the records about it.
struct Roots<'r, 'a> {
    tree: Tree,
    first: u64,
    due: std::slice::Iter<'r, &'a Record>,
    covered: Option<u64>,
    misfit: Option<&'a Record>,
}

impl<'r, 'a> Roots<'r, 'a> {
    fn new(about: &'r [&'a Record], start: Place) -> Self {
        let (tree, due) = (Tree::default(), about.iter());
        let mut roots = Self { tree, first: start.expected, due, covered: None, misfit: None };
        roots.compare(start.prev);
        roots
    }

    fn push(&mut self, line: &[u8], code: Code) {
        self.tree.push(leaf(line));
        self.compare(Some(code));
    }

    /// Compares the records about as many lines as there were, of which the last has the code `head`.
    fn compare(&mut self, head: Option<Code>) {
        while self.misfit.is_none()
            && let Some(record) = self.due.as_slice().first()
        {
            let it = &record.checkpoint;
            let size = it.last.saturating_add(1).saturating_sub(it.first);
            if size > self.tree.size() {
                break;
            }
            let fits = it.first == self.first
                && size == self.tree.size()
                && it.root == hex::encode(self.tree.root())
                && head.is_some()
                && head == it.head_code();
            if fits {
                // A record about no line says where the segment begins and proves nothing.
                self.covered = if size > 0 { Some(it.last) } else { self.covered };
                self.due.next();
            } else {
                self.misfit = Some(record);
            }
        }
    }
}

impl<'a> Chain<'a> {
    /// Goes through a segment until its end or a line that is not the next entry. Who is `lost` starts with the
    /// entry that a record names, or else with the first that is there.
    pub(super) fn pass(
        &mut self,
        number: u32,
        mut place: Place,
        (lost, signed_start): (bool, Option<u64>),
        about: &[&'a Record],
    ) -> io::Result<Passed<'a>> {
        let mut lines = self.open(number)?;
        let mut start = place;
        let mut roots: Option<Roots<'_, 'a>> = None;
        let (mut count, mut jumps, mut torn, mut broken) = (0u64, Vec::new(), None, None);
        for line_number in 1u64.. {
            let line = match lines.next()? {
                Piece::End => break,
                Piece::Torn(..) => {
                    torn = torn.or(Some(line_number));
                    continue;
                }
                Piece::Line(line, _) => line,
            };
            let entry = self.look_at(line, number, line_number, &mut jumps);
            if lost && count == 0 {
                let found = signed_start.or(entry.as_ref().map(|it| it.seq)).unwrap_or(0);
                place = Place { expected: found.max(place.expected), prev: None };
                start = place;
            }
            let follows = |it: &SeenEntry| {
                it.genuine != Some(false)
                    && it.seq == place.expected
                    && (place.prev.is_none() || it.prev == place.prev)
            };
            // What was torn was not the end after all.
            let Some(entry) = entry.filter(|it| torn.is_none() && follows(it)) else {
                broken = Some((place.expected, torn.unwrap_or(line_number)));
                break;
            };
            roots.get_or_insert_with(|| Roots::new(about, start)).push(line, entry.code);
            place = Place { expected: place.expected.saturating_add(1), prev: Some(entry.code) };
            count = count.saturating_add(1);
        }
        let roots = roots.unwrap_or_else(|| Roots::new(about, start));
        let unmatched = roots.due.as_slice().first().copied();
        let (covered, misfit) = (roots.covered, roots.misfit);
        Ok(Passed { start, place, lines: count, broken, covered, misfit, unmatched, jumps, torn })
    }

    /// Reads a segment into memory, within bounds.
    pub(super) fn load(&mut self, number: u32) -> io::Result<Loaded> {
        let mut lines = self.open(number)?;
        let mut loaded = Loaded::default();
        let mut bad = 0u64;
        for line_number in 1u64.. {
            match lines.next()? {
                Piece::End => break,
                Piece::Torn(..) => loaded.torn = loaded.torn.or(Some(line_number)),
                Piece::Line(line, offset) => {
                    let entry = self.look_at(line, number, line_number, &mut Vec::new());
                    if let Some(line) = loaded.torn.take() {
                        loaded.seen.push(Seen { line, entry: None });
                        bad = bad.saturating_add(1);
                    }
                    bad = bad.saturating_add(u64::from(entry.is_none()));
                    loaded.seen.push(Seen { line: line_number, entry });
                    if bad > MAX_BAD_LINES || offset > MAX_KEPT_BYTES {
                        loaded.cut = true;
                        break;
                    }
                }
            }
        }
        Ok(loaded)
    }

    fn open(&self, number: u32) -> io::Result<Lines> {
        let limit = self.limits.filter(|limits| limits.segment == number).map(|limits| limits.bytes);
        Lines::open(&segment::path(self.dir, number), 0, limit)
    }

    /// Reads one line, and notes what it says beyond its place.
    fn look_at(
        &mut self,
        line: &[u8],
        segment: u32,
        number: u64,
        jumps: &mut Vec<Finding>,
    ) -> Option<SeenEntry> {
        let (entry, code) = entry::parse(line).ok()?;
        let genuine =
            self.key.map(|key| entry::split(line).is_some_and(|(covered, code)| key.code(covered) == code));
        self.outcome.decisions |= matches!(entry.decision, Decision::Allowed | Decision::Refused);
        if entry.checkpoint > self.newest_record && genuine != Some(false) {
            let message = format!(
                "entry {} was written after checkpoint {}, the last one there is {}",
                entry.seq, entry.checkpoint, self.newest_record
            );
            self.newest_record = entry.checkpoint; // said once
            self.add(Kind::CheckpointsCut, Some(entry.seq), Some(segment), Some(number), message);
        }
        if !entry.is_late() {
            if entry.at < self.latest && jumps.len() < MAX_JUMPS {
                let back = self.latest.saturating_sub(entry.at);
                let message = format!("entry {}: the clock went back {back} ms", entry.seq);
                let (index, segment, line) = (Some(entry.seq), Some(segment), Some(number));
                jumps.push(Finding { kind: Kind::ClockJump, index, segment, line, message });
            }
            self.latest = entry.at;
        }
        Some(SeenEntry { seq: entry.seq, prev: entry::from_hex(entry.prev.as_bytes()), code, genuine })
    }
}
