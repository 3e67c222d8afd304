//! Finds secrets by their shape: anchors (literals, all searched at once) and a finder for each.
//!
//! Invariants, which keep the time linear: a finder that finds nothing has looked at a bounded number of
//! bytes around its anchor; what a finder found is not searched again. No finder looks past a newline.

mod field;
mod header;
pub(crate) mod pem;
mod token;
mod url;
mod value;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input};

use crate::bytes::{ByteSet, at, before, line_end, slice};
use crate::machine::Carry;

/// What to mask.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// How the secret goes on if it reaches the end of a piece.
    pub(crate) body: Body,
}

/// What belongs to a secret once it has begun.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Nothing more.
    Ended,
    /// Bytes of a set.
    Of(&'static ByteSet),
    /// Everything up to a quote with at most so many backslashes before it.
    Quoted { quote: u8, escapes: usize },
    /// Everything up to a blank.
    Word,
    /// The rest of the line.
    Line,
}

impl Body {
    /// Where the body that starts at `from` ends.
    pub(crate) fn end(self, text: &[u8], from: usize) -> usize {
        let rest = slice(text, from, text.len());
        let until = |stop: fn(&u8) -> bool| from + rest.iter().position(stop).unwrap_or(rest.len());
        match self {
            Self::Ended => from,
            Self::Of(set) => set.run(text, from),
            Self::Word => until(u8::is_ascii_whitespace),
            Self::Line => until(|byte| *byte == b'\n'),
            Self::Quoted { quote, escapes } => quoted_end(text, from, quote, escapes),
        }
    }
}

/// The first quote that closes: for a plain one, an even number of backslashes before it; for an escaped
/// one (JSON within JSON), no more backslashes than the opening quote had.
fn quoted_end(text: &[u8], from: usize, quote: u8, escapes: usize) -> usize {
    let mut backslashes = usize::from(before(text, from) == Some(b'\\'));
    for (offset, byte) in slice(text, from, text.len()).iter().enumerate() {
        let closes = if escapes == 0 { backslashes % 2 == 0 } else { backslashes <= escapes };
        match *byte {
            b'\n' => return from + offset,
            byte if byte == quote && closes => return from + offset - backslashes.min(offset).min(escapes),
            b'\\' => backslashes += 1,
            _ => backslashes = 0,
        }
    }
    text.len()
}

/// Which finder an anchor wakes.
#[derive(Clone, Copy)]
enum Kind {
    Token(&'static token::Rule),
    Field,
    Url,
    Bearer,
    Pem,
}

struct Anchors {
    search: AhoCorasick,
    kinds: Vec<Kind>,
}

static ANCHORS: OnceLock<Anchors> = OnceLock::new();

/// The first texts are looked at without the automaton, which takes longer to build, if they are no longer than this.
const SHORT: usize = 512;
const FIRST: u32 = 64;
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Every anchor, and which finder it wakes.
fn table() -> impl Iterator<Item = (&'static str, Kind)> {
    let tokens = token::RULES.iter().map(|rule| (rule.prefix, Kind::Token(rule)));
    let fields = field::WORDS.iter().map(|word| (*word, Kind::Field));
    let others = [("://", Kind::Url), ("bearer ", Kind::Bearer), (pem::BEGIN, Kind::Pem)];
    tokens.chain(fields).chain(others)
}

/// An anchor that was found: where it starts, where it ends, which finder it wakes.
type Found = (usize, usize, Kind);

/// Every anchor from a place on, in the order in which the automaton tells them: by end, then by start. For programs
/// that mask a few words in all their life.
fn by_hand(text: &[u8], from: usize) -> Vec<Found> {
    let mut begins = [false; 256];
    for byte in table().filter_map(|(literal, _)| literal.bytes().next()) {
        for byte in [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] {
            if let Some(begins) = begins.get_mut(usize::from(byte)) {
                *begins = true;
            }
        }
    }
    let may_begin = |byte: u8| begins.get(usize::from(byte)).is_some_and(|begins| *begins);
    let mut found = Vec::new();
    for (start, _) in text.iter().enumerate().skip(from).filter(|(_, byte)| may_begin(**byte)) {
        for (literal, kind) in table() {
            let end = start + literal.len();
            if text.get(start..end).is_some_and(|part| part.eq_ignore_ascii_case(literal.as_bytes())) {
                found.push((start, end, kind));
            }
        }
    }
    found.sort_by_key(|(start, end, _)| (*end, *start));
    found
}

#[expect(clippy::expect_used, reason = "a fixed table, built by every test of this crate")]
fn anchors() -> Anchors {
    let (literals, kinds): (Vec<_>, Vec<_>) = table().unzip();
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA));
    Anchors { search: builder.build(literals).expect("the table of anchors is valid"), kinds }
}

/// Finds what begins in `text[from..limit]`; it may end later. Lines that are left out entirely go to
/// `dropped`.
pub(crate) fn families(
    text: &[u8],
    mut from: usize,
    limit: usize,
    carry: &mut Carry,
    hits: &mut Vec<Hit>,
    dropped: &mut Vec<(usize, usize)>,
) {
    loop {
        let resumed = resume(text, from, carry);
        if resumed > from {
            dropped.push((from, resumed));
        }
        if !matches!(carry, Carry::Nothing) {
            return; // All of it was in the block or the secret.
        }
        match until_block(text, resumed, limit, hits) {
            Some((next, block)) => (from, *carry) = (next, Carry::Block(block)),
            None => return,
        }
        if from >= text.len() {
            return;
        }
    }
}

/// Where what was carried over ends.
fn resume(text: &[u8], from: usize, carry: &mut Carry) -> usize {
    let end = match carry {
        Carry::Nothing => return from,
        Carry::Body(body) => body.end(text, from),
        Carry::Block(block) => match block.end(text, from) {
            pem::Rest::Ends(end) => {
                *carry = Carry::Nothing;
                return end;
            }
            pem::Rest::GoesOn => return text.len(),
        },
    };
    if end < text.len() {
        *carry = Carry::Nothing;
    }
    end
}

/// Finds everything up to the first block of key lines; where that block's lines begin.
fn until_block(text: &[u8], from: usize, limit: usize, hits: &mut Vec<Hit>) -> Option<(usize, pem::Block)> {
    let is_short = text.len().saturating_sub(from) <= SHORT;
    if is_short && ANCHORS.get().is_none() && SEEN.fetch_add(1, Ordering::Relaxed) < FIRST {
        return judged(text, from, limit, hits, by_hand(text, from));
    }
    let anchors = ANCHORS.get_or_init(anchors);
    let all = anchors.search.find_overlapping_iter(Input::new(text).range(from..));
    let all = all.filter_map(|found| {
        Some((found.start(), found.end(), *anchors.kinds.get(found.pattern().as_usize())?))
    });
    judged(text, from, limit, hits, all)
}

fn judged(
    text: &[u8],
    from: usize,
    limit: usize,
    hits: &mut Vec<Hit>,
    all: impl IntoIterator<Item = Found>,
) -> Option<(usize, pem::Block)> {
    let mut last = (from, from);
    for (start, end, kind) in all {
        if start >= limit || (last.0 <= start && start < last.1) {
            continue;
        }
        let hit = match kind {
            Kind::Token(rule) => token::find(text, start, rule),
            Kind::Bearer => token::bearer(text, end),
            Kind::Field => field::find(text, start, end),
            Kind::Url => url::find(text, start, end),
            Kind::Pem => match pem::find(text, start, end) {
                Some(pem::Found::Inline(hit)) => Some(hit),
                Some(pem::Found::Block(hit, block)) => {
                    hits.push(hit);
                    return Some((line_end(text, hit.end) + 1, block));
                }
                None => None,
            },
        };
        if let Some(hit) = hit {
            last = (hit.start, hit.end);
            hits.push(hit);
        }
    }
    None
}

/// Whether a word can begin here: after no letter or digit, or after one that belongs to an escape.
fn begins_word(text: &[u8], start: usize) -> bool {
    let Some(previous) = before(text, start) else { return true };
    if !(previous.is_ascii_alphanumeric() || previous == b'_') {
        return true;
    }
    let back = |n: usize| start.checked_sub(n).and_then(|position| at(text, position));
    let is_json_escape = matches!(previous, b'n' | b'r' | b't') && back(2) == Some(b'\\');
    let is_percent = back(3) == Some(b'%')
        && previous.is_ascii_hexdigit()
        && back(2).is_some_and(|b| b.is_ascii_hexdigit());
    is_json_escape || is_percent || (previous == b'm' && follows_colour(text, start - 1))
}

/// Whether the bytes before `m` are a terminal colour sequence, such as `ESC [ 1 ; 31`.
fn follows_colour(text: &[u8], m: usize) -> bool {
    let window = slice(text, m.saturating_sub(12), m);
    let digits = window.iter().rev().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    window.get(..window.len() - digits).is_some_and(|lead| lead.ends_with(b"\x1b["))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What looks by hand finds what the automaton finds, in its order.
    #[test]
    fn both_ways_find_the_same() {
        let anchors = anchors();
        let literals: Vec<&str> = table().map(|(literal, _)| literal).collect();
        let mut state = 1u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..2_000 {
            let mut text = Vec::new();
            for _ in 0..next(8) {
                let literal = literals[next(literals.len())].as_bytes();
                let part =
                    &literal[next(2).min(literal.len())..literal.len() - next(3).min(literal.len() - 1)];
                match next(3) {
                    0 => text.extend(part.to_ascii_uppercase()),
                    _ => text.extend(part),
                }
                text.extend(&b"a \n=:/"[..next(4)]);
            }
            let from = next(text.len() + 1);
            let all = anchors.search.find_overlapping_iter(Input::new(&text).range(from..));
            let by_machine: Vec<_> = all.map(|found| (found.start(), found.end())).collect();
            let by_hand: Vec<_> =
                by_hand(&text, from).into_iter().map(|(start, end, _)| (start, end)).collect();
            assert_eq!(by_hand, by_machine, "{:?} from {from}", String::from_utf8_lossy(&text));
        }
    }
}
