//! Several values after one name, in a line: `tokens: [a, b]`, `"tokens": ["a", "b"]`, `Cookie:[…]` of Go.

use super::below::is_secret;
use super::value::Opening;
use super::{Body, Hit};
use crate::bytes::{ByteSet, at, skip_blanks, slice};

/// How much is looked at until the first secret of a list.
const LOOK: usize = 128;
/// Most blanks around a comma.
const BLANKS: usize = 8;

/// What no value without quotes has in it.
static STOPS: ByteSet = ByteSet::of(b",]\n\"'{} \t[:=(");

/// The list whose bracket stands at `from`: from its first secret to its last value.
pub(super) fn find(text: &[u8], from: usize) -> Option<Hit> {
    let mut place = skip_blanks(text, from + 1, BLANKS);
    let mut found: Option<Hit> = None;
    while let Some((start, end, body, after)) = value(text, place) {
        match &mut found {
            Some(hit) => (hit.end, hit.body) = (end, body),
            None if is_secret(slice(text, start, end.min(start + 2 * LOOK))) => {
                found = Some(Hit::of(start, end, body));
            }
            None if after > from + LOOK => return None,
            None => {}
        }
        let comma = skip_blanks(text, after, BLANKS);
        if at(text, comma) != Some(b',') {
            break;
        }
        place = skip_blanks(text, comma + 1, BLANKS);
    }
    found
}

/// Where the value at `from` begins and ends, and where what follows it stands.
fn value(text: &[u8], from: usize) -> Option<(usize, usize, Body, usize)> {
    if at(text, from) == Some(b'[') {
        return None;
    }
    if let Some(opening) = Opening::at(text, from) {
        let body = opening.body();
        let end = body.end(text, opening.start);
        // A quote that nobody closed ends with its line, and the list with it.
        if matches!(at(text, end), None | Some(b'\n')) {
            return Some((opening.start, end, body, end));
        }
        let slashes = slice(text, end, end + 8).iter().take_while(|byte| **byte == b'\\').count();
        return Some((opening.start, end, body, end + slashes + 1));
    }
    let stop = slice(text, from, text.len()).iter().position(|byte| STOPS.has(*byte));
    let end = from + stop.unwrap_or(text.len() - from.min(text.len()));
    (end > from).then_some((from, end, Body::Word, end))
}

/// `[value]` of a header: all in the brackets.
pub(super) fn brackets(text: &[u8], from: usize) -> Option<Hit> {
    let rest = slice(text, from + 1, text.len());
    let end = from + 1 + memchr::memchr2(b']', b'\n', rest).unwrap_or(rest.len());
    (end > from + 1).then_some(Hit::of(from + 1, end, Body::Line))
}
