//! The machine under the redactor, the sink and the search: text -> units -> edits -> text.
//!
//! A unit is any number of whole lines, or a piece of a line longer than [`LONG_LINE`]. Finders never
//! look past a newline, so it does not matter how many lines make a unit; and where a long line is cut
//! depends on its content only. That is why the result does not depend on how a stream was split.
//!
//! In a piece, what starts in its last [`GUARD`] bytes is left to the next piece, which may look back
//! [`CONTEXT`] bytes. A secret that reaches the end of a piece is carried on ([`Carry`]).
//!
//! Text is looked at in blocks of bytes, all of a block together ([`crate::bytes::members`]): for places where a literal may
//! begin, for runs of characters that a key could have, for characters that cannot be seen. Only there a finder looks at
//! single bytes. A line in which a word is parted by what cannot be seen is searched once more without it.
//!
//! Lines that were changed are searched again until nothing more is found ([`Machine::emit`]), so that masking twice is
//! masking once.

use std::cell::Cell;

use zeroize::Zeroize;

use crate::MARK;
use crate::bytes::{at, before, line_end, line_start, runs, slice};
use crate::find::below::Below;
use crate::find::pem::Block;
use crate::find::{
    Body, Finds, Hit, Homes, RANDOM, Seen, With, families, homes, is_run, parted, personal, random,
};
use crate::known::decode::Room;
use crate::known::{Known, REACH};
use crate::patterns::Patterns;

/// A line without a newline in this many bytes is handled in pieces.
pub(crate) const LONG_LINE: usize = 64 * 1024;
/// How far the next piece may look back.
pub(crate) const CONTEXT: usize = GUARD;
/// As far as known values reach, with as much again for what a finder looks at.
const GUARD: usize = 2 * REACH;
/// A line that still changes after so many rounds is masked as a whole.
const ROUNDS: usize = 8;

/// Fewest dashes in the first line of a key block.
const DASHES: usize = 8;

/// What changes while text flows.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) known: Known,
    pub(crate) patterns: Patterns,
}

/// What is masked beside secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Also {
    pub(crate) homes: Option<Homes>,
    pub(crate) personal: bool,
}

/// Whether more text may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    OfText,
}

/// What the first byte of the next unit is in.
#[derive(Clone, Copy, Default)]
pub(crate) enum Carry {
    #[default]
    Nothing,
    /// A block of key lines.
    Block(Block),
    /// Lines below a secret name.
    Below(Below),
    /// A block of key lines among those.
    Key(Block, Below),
    /// A secret that was longer than a piece.
    Body(Body),
}

/// Bytes to leave out, and what stands in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) with: With,
}

impl Edit {
    /// Appends `text[from..to]` with the edits, which are in order and within it; notes where something else stands now.
    fn apply(
        edits: &[Self],
        text: &[u8],
        mut from: usize,
        to: usize,
        out: &mut Vec<u8>,
        places: &mut Vec<usize>,
    ) {
        for edit in edits {
            out.extend_from_slice(slice(text, from, edit.start));
            // What is left of a line reads differently without what stood before it.
            if edit.with != With::Nothing || before(text, edit.end) != Some(b'\n') {
                places.push(out.len());
            }
            out.extend_from_slice(match edit.with {
                With::Mark => MARK.as_bytes(),
                With::Home => b"~/",
                With::Nothing => b"",
            });
            from = edit.end;
        }
        out.extend_from_slice(slice(text, from, to));
    }
}

/// Where the unit at `from` ends, in which a word is parted for the first time at `first`: after the first line that may begin
/// a key block only as a reader sees it. So what follows is read as lines of that block, however many lines came at once.
fn opened(text: &[u8], from: usize, first: usize) -> usize {
    let mut next = Some(first);
    while let Some(place) = next {
        let (start, end) = (line_start(text, place, place - from), line_end(text, place));
        if memchr::memchr_iter(b'-', slice(text, start, end)).count() >= DASHES {
            return (end + 1).min(text.len());
        }
        next = parted(text, end);
    }
    text.len()
}

#[derive(Default)]
pub(crate) struct Machine {
    carry: Carry,
    is_inside_line: bool,
    finds: Finds,
    /// Of the last unit, in order.
    edits: Vec<Edit>,
    runs: Vec<(usize, usize)>,
    room: Room,
    seen: Seen,
    /// For lines that are searched again, and for text without what cannot be seen.
    second: Option<Box<Machine>>,
}

thread_local! {
    /// The machine that this thread used last, for its room: most texts are events of a few KiB.
    static LAST: Cell<Option<Machine>> = const { Cell::new(None) };
}

impl Machine {
    /// A machine at the beginning of a text.
    pub(crate) fn borrowed() -> Self {
        LAST.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Leaves its room to the next text of this thread, and nothing that it read.
    pub(crate) fn give_back(mut self) {
        self.wipe();
        if let Some(second) = &mut self.second {
            second.wipe();
        }
        // A thread that ends has no next text.
        let _ = LAST.try_with(|last| last.set(Some(self)));
    }

    fn wipe(&mut self) {
        self.begin(0, false);
        self.edits.clear();
        self.runs.clear();
        self.room.zeroize();
        self.seen = Seen::default();
    }

    /// Handles one unit at `from` and says where the next begins; nothing when more text is needed.
    pub(crate) fn step(
        &mut self,
        rules: &Rules,
        also: &Also,
        text: &[u8],
        from: usize,
        end: End,
    ) -> Option<usize> {
        let window = slice(text, from, from.saturating_add(LONG_LINE));
        let last_newline = memchr::memrchr(b'\n', window);
        let (to, is_piece) = match last_newline {
            Some(newline) => (from + newline + 1, false),
            None if window.len() == LONG_LINE => (from + LONG_LINE, true),
            None if end == End::OfText && !window.is_empty() => (text.len(), false),
            None => return None,
        };
        self.finds.clear();
        let first = parted(slice(text, 0, to), from);
        let to = first.filter(|_| !is_piece).map_or(to, |first| opened(slice(text, 0, to), from, first));
        let unit = slice(text, 0, to);
        let next = if is_piece {
            self.piece(rules, also, unit, from, first)
        } else {
            self.search(rules, also, unit, from, unit.len(), first);
            if let Carry::Body(_) = self.carry {
                self.carry = Carry::Nothing; // The line is over.
            }
            unit.len()
        };
        self.is_inside_line = is_piece;
        self.edit(unit, from);
        Some(next)
    }

    fn piece(&mut self, rules: &Rules, also: &Also, unit: &[u8], from: usize, first: Option<usize>) -> usize {
        let guard = unit.len() - GUARD;
        self.search(rules, also, unit, from, guard, first);
        let dropped = self.finds.dropped.iter().map(|(_, end)| *end);
        let cut = self.finds.hits.iter().map(|hit| hit.end).chain(dropped).max().unwrap_or(0).max(guard);
        if cut == unit.len() {
            let last = self.finds.hits.iter().rfind(|hit| hit.end == cut && !matches!(hit.body, Body::Ended));
            self.carry = last.map_or(self.carry, |hit| Carry::Body(hit.body));
        }
        cut
    }

    /// Finds everything that begins in `unit[from..limit]`, where a word is parted for the first time at `next`.
    fn search(
        &mut self,
        rules: &Rules,
        also: &Also,
        unit: &[u8],
        from: usize,
        limit: usize,
        mut next: Option<usize>,
    ) {
        self.finds.go_on(unit, from);
        families(unit, from, limit, also.homes.as_ref(), &mut self.carry, &mut self.finds);
        let back = if self.is_inside_line { from.saturating_sub(REACH) } else { from };
        self.runs.clear();
        // One of a few lengths: a number that the compiler knows is worth more than a few runs that hold nothing.
        let least = match rules.known.shortest_run() {
            None | Some(RANDOM..) => RANDOM,
            Some(16..) => 16,
            Some(shorter) => shorter.min(8),
        };
        runs(unit, back, least, is_run, &mut self.runs);
        // What began in the piece before was judged there.
        let is_judged = self.is_inside_line && before(unit, from).is_some_and(is_run);
        let first = self.runs.partition_point(|(start, _)| *start < from + usize::from(is_judged));
        random(unit, self.runs.get(first..).unwrap_or_default(), limit, &mut self.finds);
        if !rules.known.is_empty() {
            let hits = &mut self.finds.hits;
            rules.known.find(unit, back, &self.runs, &mut self.room, |start, end| {
                if end > from && start < limit {
                    hits.push(Hit::ended(start.max(from), end));
                }
            });
        }
        rules.patterns.find(unit, from, limit, &mut self.finds.hits);
        if let Some(list) = &also.homes {
            homes(unit, from, limit, list, &mut self.finds);
        }
        if also.personal {
            personal(unit, from, limit, &mut self.finds);
        }
        while let Some(place) = next {
            let start = line_start(unit, place, place - from);
            let place = line_end(unit, place);
            next = parted(unit, place);
            let carry = self.without_unseen(rules, also, slice(unit, 0, place), start, from, limit);
            // A key block that the line begins as a reader sees it goes on in the lines that follow, which are the next unit.
            if let Some(block @ Carry::Block(_)) = carry
                && place + 1 >= unit.len()
            {
                self.carry = block;
            }
        }
        self.finds.reread(unit, &self.runs, limit);
    }

    /// Searches the line at the end of `unit` once more as a reader sees it; what it ends in, if that is not what
    /// was found there anyway.
    fn without_unseen(
        &mut self,
        rules: &Rules,
        also: &Also,
        unit: &[u8],
        start: usize,
        from: usize,
        limit: usize,
    ) -> Option<Carry> {
        let is_inside_line = self.is_inside_line && start == from;
        let base = if is_inside_line { start.saturating_sub(CONTEXT) } else { start };
        let begin = self.seen.read(slice(unit, base, unit.len()), start - base);
        let limit_here = self.seen.here(limit.saturating_sub(base));
        let second = self.second.get_or_insert_default();
        let quiet = if self.finds.is_quiet(start) { self.seen.text().len() } else { 0 };
        second.begin(quiet, is_inside_line);
        let next = parted(self.seen.text(), begin);
        second.search(rules, also, self.seen.text(), begin, limit_here, next);
        let found = self.finds.hits.len();
        let mut is_new = false;
        for hit in &second.finds.hits {
            let (first, end) = self.seen.place(hit.start, hit.end);
            let (first, end) = ((base + first).max(start), base + end);
            if end > first && first < limit {
                // Only what a block begins with is looked for among the others.
                if matches!(second.carry, Carry::Block(_)) && at(unit, first) == Some(b'-') {
                    let covers = |hit: &Hit| hit.start <= first && first < hit.end;
                    is_new |= !self.finds.hits.iter().take(found).any(covers);
                }
                self.finds.hits.push(Hit { start: first, end, ..*hit });
            }
        }
        is_new.then_some(second.carry)
    }

    fn begin(&mut self, quiet: usize, is_inside_line: bool) {
        (self.carry, self.is_inside_line) = (Carry::Nothing, is_inside_line);
        self.finds.begin(quiet);
    }

    /// Joins hits that touch, leaves out what is dropped anyway, and orders everything.
    fn edit(&mut self, unit: &[u8], from: usize) {
        self.edits.clear();
        self.finds.hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        self.finds.dropped.sort_unstable();
        let mut dropped = self.finds.dropped.iter().copied().peekable();
        let mut done = from;
        let mut open: Option<Edit> = None;
        for hit in &self.finds.hits {
            while let Some((start, end)) = dropped.next_if(|(start, _)| *start <= hit.start) {
                self.edits.extend(open.take());
                self.edits.push(Edit { start: start.max(done), end: end.max(done), with: With::Nothing });
                done = done.max(end);
            }
            // A hit may reach into one that is open, and not into what is dropped.
            let floor = open.map_or(done, |edit| edit.start);
            let (start, end) = (hit.start.max(floor), hit.end);
            if start >= end {
                continue;
            }
            match &mut open {
                Some(edit)
                    if start < edit.end
                        || (start == edit.end && (edit.with, hit.with) == (With::Mark, With::Mark)) =>
                {
                    edit.end = edit.end.max(end);
                    if hit.with == With::Mark {
                        edit.with = With::Mark;
                    }
                }
                _ => self.edits.extend(open.replace(Edit { start, end, with: hit.with })),
            }
            done = done.max(end);
        }
        self.edits.extend(open);
        for (start, end) in dropped {
            self.edits.push(Edit { start: start.max(done), end: end.max(done), with: With::Nothing });
            done = done.max(end);
        }
        // What is a mark already stays one.
        self.edits
            .retain(|edit| edit.with != With::Mark || slice(unit, edit.start, edit.end) != MARK.as_bytes());
    }

    /// What is to be changed in the last unit, in order.
    pub(crate) fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Appends the last unit, `text[from..to]`, as it leaves.
    pub(crate) fn emit(
        &mut self,
        rules: &Rules,
        also: &Also,
        text: &[u8],
        from: usize,
        to: usize,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        let mut places = Vec::new();
        Edit::apply(&self.edits, text, from, to, out, &mut places);
        if self.is_inside_line {
            return;
        }
        for round in 0..=ROUNDS {
            places = self.again(rules, also, begin, out, &places, round == ROUNDS);
            if places.is_empty() {
                break;
            }
        }
    }

    /// Searches the lines of `out[begin..]` that were changed at these places once more; where they changed again.
    fn again(
        &mut self,
        rules: &Rules,
        also: &Also,
        begin: usize,
        out: &mut Vec<u8>,
        places: &[usize],
        is_last: bool,
    ) -> Vec<usize> {
        let second = self.second.get_or_insert_default();
        let (mut changed, mut copied, mut line) = (Vec::new(), begin, begin);
        let mut next = Vec::new();
        // The last line in which nothing was found: the same again is not searched again.
        let mut settled: &[u8] = &[];
        for place in places {
            if *place < line {
                continue; // In the line that was searched last.
            }
            let start = line_start(out, *place, place - line);
            let end = line_end(out, *place);
            let text = slice(out, start, end);
            // A mark alone is nothing else.
            if text == MARK.as_bytes() || text == settled {
                line = end;
                continue;
            }
            second.begin(0, false);
            if second.step(rules, also, text, 0, End::OfText) == Some(text.len()) && !second.edits.is_empty()
            {
                if copied == begin {
                    changed.reserve(out.len() - begin);
                }
                changed.extend_from_slice(slice(out, copied, start));
                if is_last {
                    changed.extend_from_slice(MARK.as_bytes());
                } else {
                    Edit::apply(&second.edits, text, 0, text.len(), &mut changed, &mut next);
                }
                copied = end;
            } else {
                settled = text;
            }
            line = end;
        }
        if copied > begin {
            changed.extend_from_slice(slice(out, copied, out.len()));
            out.truncate(begin);
            out.append(&mut changed);
        }
        next.iter_mut().for_each(|place| *place += begin);
        next
    }
}
