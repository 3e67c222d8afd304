//! Headers whose whole value is secret: `Authorization` of any scheme, `Cookie`, `Set-Cookie`.

use super::value::{Opening, Written, is_harmless};
use super::{Body, Hit, field};
use crate::bytes::{before, slice};

pub(super) fn find(text: &[u8], first: usize, last: usize) -> Option<Hit> {
    let (from, written) = field::separator(text, first, last)?;
    if let Some(opening) = Opening::at(text, from) {
        let body = opening.body();
        let end = body.end(text, opening.start);
        let is_empty = is_harmless(slice(text, opening.start, end));
        return (!is_empty).then_some(Hit { start: opening.start, end, body });
    }
    if matches!(written, Written::Element) {
        return super::value::find(text, first, from, written);
    }
    // Within a quoted string the header ends where the string does: -H 'Authorization: Basic …'
    let quote = before(text, first).filter(|byte| b"\"'`".contains(byte));
    let end = unquoted_end(text, from, quote);
    let is_empty = is_harmless(slice(text, from, end).trim_ascii());
    (!is_empty).then_some(Hit { start: from, end, body: Body::Line })
}

/// The end of the line, of the string it stands in, or a line break that is written out.
fn unquoted_end(text: &[u8], from: usize, quote: Option<u8>) -> usize {
    let (mut previous, mut is_in_parameter) = (0, false);
    for (offset, byte) in slice(text, from, text.len()).iter().enumerate() {
        match (*byte, previous) {
            (b'\n' | b'\r', _) => return from + offset,
            (b'n' | b'r', b'\\') => return from + offset - 1,
            (b'"', b'=') => is_in_parameter = true,
            (b'"', _) if is_in_parameter => is_in_parameter = false,
            (b'"', b'\\') => return from + offset - 1,
            (byte, _) if byte == quote.unwrap_or(b'"') => return from + offset,
            _ => {}
        }
        previous = *byte;
    }
    text.len()
}
