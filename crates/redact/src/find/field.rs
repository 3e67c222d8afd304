//! Values by the name in front of them: `password=…`, `"api_key": "…"`, `--token …`, `<secret>…</secret>`.
//!
//! The name decides whether it is a secret; how it is written decides where the value is and how sure
//! we are ([`Written`]); [`super::value`] decides whether that value is one.

use super::value::{self, Written};
use super::{Hit, header};
use crate::bytes::{ByteSet, at, before, skip_blanks, slice};

/// Anchors: every secret name contains one of these.
pub(super) const WORDS: &[&str] =
    &["passw", "passphrase", "passcode", "pwd", "secret", "token", "key", "authorization", "cookie", "_auth"];

/// A name is secret if it ends so, in lower case and without `_`, `-` and `.`.
const ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "passwordhash",
    "secret",
    "clientsecret",
    "secretkeybase",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "accountkey",
    "sharedkey",
    "sharedaccesskey",
    "sessionkey",
    "deploykey",
    "appkey",
    "openaikey",
    "anthropickey",
];

/// Names whose whole line is the value.
const HEADERS: &[&str] = &["authorization", "cookie"];

/// Longest part of a name that is looked at before the anchor.
const REACH: usize = 48;
/// No secret name goes on this long after its last anchor.
const TAIL: usize = 12;
/// Most blanks around a separator.
const BLANKS: usize = 16;

static NAME: ByteSet = ByteSet::alphanumeric_and(b"_-.");

pub(super) fn find(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    let tail = slice(text, end, end + TAIL).iter().take_while(|byte| NAME.has(**byte)).count();
    if tail == TAIL {
        return None;
    }
    let last = end + tail;
    let left = slice(text, start.saturating_sub(REACH), start);
    let first = unescaped(text, start - left.iter().rev().take_while(|byte| NAME.has(**byte)).count());
    // The anchor of the last word of a name does the work for the whole name.
    let mut plain = [0; 2 * REACH];
    let name = normal(slice(text, first, last), &mut plain);
    let ends = |ending: &&str| name.ends_with(ending.as_bytes());
    if HEADERS.iter().any(ends) {
        return header::find(text, first, last);
    }
    if !(ENDINGS.iter().any(ends) || name == b"auth") {
        return None;
    }
    let (from, written) = separator(text, first, last)?;
    value::find(text, first, from, written)
}

/// Past the rest of an escape in front of the name: `\nname`, `%0Aname`.
fn unescaped(text: &[u8], first: usize) -> usize {
    let is_break = at(text, first).is_some_and(|byte| b"nrt".contains(&byte));
    match before(text, first) {
        Some(b'\\') if is_break => first + 1,
        Some(b'%') => first + 2,
        _ => first,
    }
}

fn normal<'a>(name: &[u8], into: &'a mut [u8]) -> &'a [u8] {
    let kept = name.iter().filter(|byte| !matches!(byte, b'_' | b'-' | b'.'));
    let mut length = 0;
    for (slot, byte) in into.iter_mut().zip(kept) {
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    into.get(..length).unwrap_or_default()
}

/// Where the value starts, and how it is written.
pub(super) fn separator(text: &[u8], first: usize, last: usize) -> Option<(usize, Written)> {
    // `"name"`, `'name'`, `\"name\"`, `['name']`
    let slashes = slice(text, last, last + 4).iter().take_while(|byte| **byte == b'\\').count();
    let is_quote = |position| at(text, position).is_some_and(|byte| b"\"'`".contains(&byte));
    let closed = if is_quote(last + slashes) { last + slashes + 1 } else { last };
    let closed = if at(text, closed) == Some(b']') { closed + 1 } else { closed };
    let is_option = at(text, first) == Some(b'-');
    let is_quoted = closed > last;

    let sign = skip_blanks(text, closed, BLANKS);
    let spaced = |after| {
        if sign > closed || skip_blanks(text, after, 1) > after { Written::Assigned } else { Written::Set }
    };
    let (after, written) = match (at(text, sign)?, at(text, sign + 1)) {
        (b'=', Some(b'=' | b'>')) | (b':', Some(b'=')) => (sign + 2, Written::Assigned),
        (b'=', _) => (sign + 1, spaced(sign + 1)),
        (b':', _) if is_quoted => (sign + 1, Written::Set),
        // `name::other` is code, `name://` an address.
        (b':', Some(b':' | b'/')) => return None,
        (b':', _) if value::begins_line(text, first) => (sign + 1, Written::Line),
        (b':', _) => (sign + 1, Written::Told),
        (b'%', Some(b'3')) if at(text, sign + 2).is_some_and(|byte| b"DdAa".contains(&byte)) => {
            (sign + 3, Written::Set)
        }
        (b'>', _) if before(text, first) == Some(b'<') => (sign + 1, Written::Element),
        // `["--token", "…"]`
        (b',', _) if is_option && is_quoted => (sign + 1, Written::Set),
        _ if is_option && sign > closed => (sign, Written::Set),
        _ => return None,
    };
    Some((skip_blanks(text, after, BLANKS), written))
}
