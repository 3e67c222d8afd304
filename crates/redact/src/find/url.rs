//! Credentials in URLs: `scheme://user:secret@host` and `scheme://secret@host`.

use super::Hit;
use crate::bytes::{ByteSet, before, mixed, slice};

/// Longest user information that is looked for.
const LOOK: usize = 1024;

/// What may end an address: blanks, what controls, quotes, and a colon, which may be the next one's.
static OVER: ByteSet = ByteSet::of(
    b"\0\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f \"'`<>:",
);

/// `start` is the colon of `://`, `end` what follows it.
pub(super) fn find(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    if !before(text, start).is_some_and(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let window = slice(text, end, end + LOOK);
    // The next address is looked at for itself.
    let is_next = |place: usize| slice(window, place, place + 3) == b"://";
    let may_end = |(place, byte): (usize, &u8)| OVER.has(*byte) && (*byte != b':' || is_next(place));
    let over = window.iter().enumerate().position(may_end);
    let word = window.get(..over.unwrap_or(window.len()))?;
    let authority = word.get(..word.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(word.len()))?;
    let colon = authority.iter().position(|byte| *byte == b':');
    let at_sign = authority.iter().rposition(|byte| *byte == b'@');
    match (colon, at_sign) {
        (Some(colon), Some(at_sign)) if colon < at_sign => secret(end, word, colon + 1, at_sign),
        (None, Some(at_sign)) => {
            let user = word.get(..at_sign)?;
            (user.len() >= 16 && mixed(user)).then_some(Hit::ended(end, end + at_sign))
        }
        // A secret with a raw slash; a port is digits.
        (Some(colon), None) if authority.len() < word.len() => {
            let is_port = authority.get(colon + 1..)?.iter().all(u8::is_ascii_digit);
            let at_sign = word.iter().rposition(|byte| *byte == b'@').filter(|_| !is_port)?;
            secret(end, word, colon + 1, at_sign)
        }
        _ => None,
    }
}

fn secret(base: usize, word: &[u8], from: usize, to: usize) -> Option<Hit> {
    let secret = word.get(from..to)?;
    let is_shown = word.starts_with(b"user") && [&b"password"[..], b"pass", b"secret"].contains(&secret);
    let is_masked = is_shown || secret.iter().all(|byte| *byte == b'*') || super::value::is_harmless(secret);
    (!is_masked).then_some(Hit::ended(base + from, base + to))
}
