//! The machine under both the redactor and the sink: text -> units -> edits.
//!
//! A unit is any number of whole lines, or a piece of a line longer than [`LONG_LINE`]. Finders never
//! look past a newline, so it does not matter how many lines make a unit; and where a long line is cut
//! depends on its content only. That is why the result does not depend on how a stream was split.
//!
//! In a piece, what starts in its last [`GUARD`] bytes is left to the next piece, which may look back
//! [`CONTEXT`] bytes. A secret that reaches the end of a piece is carried on ([`Carry`]).

use crate::MARK;
use crate::bytes::slice;
use crate::find::pem::Block;
use crate::find::{Body, Hit, families};
use crate::known::{Known, MAX_FORM};

/// A line without a newline in this many bytes is handled in pieces.
pub(crate) const LONG_LINE: usize = 64 * 1024;
/// How far the next piece may look back.
pub(crate) const CONTEXT: usize = GUARD;
/// Every known form fits, with as much again for what a finder looks at.
const GUARD: usize = 2 * MAX_FORM;

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
    /// A secret that was longer than a piece.
    Body(Body),
}

/// Bytes to leave out, with or without a mark in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_marked: bool,
}

impl Edit {
    /// Appends `text[from..to]` with the edits, which are in order and within it.
    pub(crate) fn apply(edits: &[Self], text: &[u8], mut from: usize, to: usize, out: &mut Vec<u8>) {
        for edit in edits {
            out.extend_from_slice(slice(text, from, edit.start));
            if edit.is_marked {
                out.extend_from_slice(MARK.as_bytes());
            }
            from = edit.end;
        }
        out.extend_from_slice(slice(text, from, to));
    }
}

#[derive(Default)]
pub(crate) struct Machine {
    carry: Carry,
    is_inside_line: bool,
    hits: Vec<Hit>,
    dropped: Vec<(usize, usize)>,
}

impl Machine {
    /// Handles one unit at `from` and says where the next begins; nothing when more text is needed.
    pub(crate) fn step(
        &mut self,
        known: &Known,
        text: &[u8],
        from: usize,
        end: End,
        edits: &mut Vec<Edit>,
    ) -> Option<usize> {
        let window = slice(text, from, from.saturating_add(LONG_LINE));
        let last_newline = window.iter().rposition(|byte| *byte == b'\n');
        let (to, is_piece) = match last_newline {
            Some(newline) => (from + newline + 1, false),
            None if window.len() == LONG_LINE => (from + LONG_LINE, true),
            None if end == End::OfText && !window.is_empty() => (text.len(), false),
            None => return None,
        };
        self.hits.clear();
        self.dropped.clear();
        let unit = slice(text, 0, to);
        let next = if is_piece { self.piece(known, unit, from) } else { self.lines(known, unit, from) };
        self.is_inside_line = is_piece;
        self.edit(from, edits);
        Some(next)
    }

    fn lines(&mut self, known: &Known, unit: &[u8], from: usize) -> usize {
        families(unit, from, unit.len(), &mut self.carry, &mut self.hits, &mut self.dropped);
        self.known(known, unit, from, unit.len());
        if let Carry::Body(_) = self.carry {
            self.carry = Carry::Nothing; // The line is over.
        }
        unit.len()
    }

    fn piece(&mut self, known: &Known, unit: &[u8], from: usize) -> usize {
        let guard = unit.len() - GUARD;
        let cut = self.known(known, unit, from, guard).max(guard);
        families(unit, from, cut, &mut self.carry, &mut self.hits, &mut self.dropped);
        let masked = self.hits.iter().map(|hit| hit.end).chain(self.dropped.iter().map(|(_, end)| *end));
        let cut = masked.max().unwrap_or(0).max(cut);
        if cut == unit.len() {
            let last = self.hits.iter().rfind(|hit| hit.end == cut);
            self.carry = last.map_or(self.carry, |hit| Carry::Body(hit.body));
        }
        cut
    }

    /// Adds the known values that start before `limit`; the end of the last.
    fn known(&mut self, known: &Known, unit: &[u8], from: usize, limit: usize) -> usize {
        let back = if self.is_inside_line { from.saturating_sub(MAX_FORM) } else { from };
        let before = self.hits.len();
        let found = known.find(unit, back).filter(|(start, end)| *end > from && *start < limit);
        self.hits.extend(found.map(|(start, end)| Hit { start: start.max(from), end, body: Body::Ended }));
        self.hits.iter().skip(before).map(|hit| hit.end).max().unwrap_or(0)
    }

    /// Joins hits that touch, leaves out what is dropped anyway, and orders everything.
    fn edit(&mut self, from: usize, edits: &mut Vec<Edit>) {
        self.hits.sort_unstable_by_key(|hit| hit.start);
        let mut dropped = self.dropped.iter().copied().peekable();
        let mut done = from;
        let mut open: Option<Edit> = None;
        for hit in &self.hits {
            while let Some((start, end)) = dropped.next_if(|(start, _)| *start <= hit.start) {
                edits.extend(open.take());
                edits.push(Edit { start, end, is_marked: false });
                done = done.max(end);
            }
            let (start, end) = (hit.start.max(done), hit.end);
            if start >= end {
                continue;
            }
            match &mut open {
                Some(edit) if start <= edit.end => edit.end = edit.end.max(end),
                _ => edits.extend(open.replace(Edit { start, end, is_marked: true })),
            }
            done = done.max(end);
        }
        edits.extend(open);
        edits.extend(dropped.map(|(start, end)| Edit { start, end, is_marked: false }));
    }
}
