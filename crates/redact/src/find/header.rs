//! Headers whose whole value is secret: `Authorization` of any scheme, `Cookie`, `Set-Cookie`.

use super::value::{Opening, Written, is_harmless};
use super::{Body, Hit, field};
use crate::bytes::{at, before, slice};

pub(super) fn find(text: &[u8], first: usize, last: usize) -> Option<Hit> {
    let (from, written) = field::separator(text, first, last)?;
    if let Some(opening) = Opening::at(text, from) {
        let body = opening.body();
        let end = body.end(text, opening.start);
        let value = slice(text, opening.start, end.min(opening.start + LOOK));
        // `["Authorization", "Content-Type"]`
        if written == Written::Passed && !value.iter().any(|byte| b" =".contains(byte)) {
            return None;
        }
        let is_empty = is_empty(value);
        return (!is_empty).then_some(Hit::of(opening.start, end, body));
    }
    if matches!(written, Written::Element) {
        return super::value::find(text, first, from, written);
    }
    // Within a quoted string the header ends where the string does: -H 'Authorization: Basic …'
    let quote = before(text, first).filter(|byte| b"\"'`".contains(byte));
    // Whether it is one is decided by its first bytes; only then is its end looked for.
    let head = slice(text, 0, from.saturating_add(LOOK));
    let value = slice(text, from, unquoted_end(head, from, quote)).trim_ascii();
    let is_cookie = at(text, last.saturating_sub(1)).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e'));
    let is_word = match written {
        _ if is_cookie => !value.contains(&b'='),
        // `Authorization: the service decides`
        Written::Told | Written::Keyed => quote.is_none() && !has_scheme(value),
        // `authorization: if … {`
        Written::Line => value.iter().any(|byte| b"{}".contains(byte)) && !has_scheme(value),
        Written::Compared | Written::Passed | Written::Header => true,
        Written::Set | Written::Assigned | Written::Element => false,
    };
    let is_empty = is_word || is_empty(value);
    (!is_empty).then(|| Hit::of(from, unquoted_end(text, from, quote), Body::Line))
}

/// How much of a value is looked at.
const LOOK: usize = 256;

/// A reference, or a scheme and then one: `Bearer $TOKEN`.
fn is_empty(value: &[u8]) -> bool {
    let scheme = value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let rest = slice(value, scheme, value.len()).trim_ascii_start();
    is_harmless(value) || (scheme > 0 && rest.len() < value.len() - scheme && is_harmless(rest))
}

fn has_scheme(value: &[u8]) -> bool {
    const SCHEMES: &[&str] = &[
        "bearer",
        "basic",
        "digest",
        "token",
        "apikey",
        "negotiate",
        "ntlm",
        "hawk",
        "dpop",
        "signature",
        "key",
        "aws",
    ];
    let word = value.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    let word = slice(value, 0, word);
    let is_scheme = |scheme: &&str| slice(word, 0, scheme.len()).eq_ignore_ascii_case(scheme.as_bytes());
    SCHEMES.iter().any(is_scheme) || word.iter().any(u8::is_ascii_digit)
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
