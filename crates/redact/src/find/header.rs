//! Headers whose whole value is secret: `Authorization` of any scheme, `Cookie`, `Set-Cookie`.

use super::dull::Dull;
use super::value::{Opening, Written, is_code, is_harmless, is_identifier, looks_random};
use super::{Body, Hit, field, list};
use crate::bytes::{at, before, is_one_of, skip_blanks, slice};

pub(super) fn find(text: &[u8], first: usize, last: usize, dull: &mut Dull) -> Option<Hit> {
    let (from, written) = field::separator(text, first, last).or_else(|| by_scheme(text, last))?;
    // `Authorization:[Bearer …]` of Go
    if at(text, from) == Some(b'[')
        && at(text, from + 1).is_some_and(|byte| !b"\"'` ]".contains(&byte))
        && from > last
    {
        let hit = list::brackets(text, from).filter(|_| at(text, from + 1) != Some(b']'));
        return hit.filter(|hit| !is_empty(slice(text, hit.start, hit.end.min(hit.start + LOOK))));
    }
    // `Into<Cookie>`
    if matches!(written, Written::Element) {
        return super::value::find(text, first, from, written);
    }
    if let Some(opening) = Opening::at(text, from) {
        let body = opening.body();
        let end = body.end(text, opening.start);
        let value = slice(text, opening.start, end.min(opening.start + LOOK));
        // `["Authorization", "Content-Type"]`
        if written == Written::Passed && !value.iter().any(|byte| b" =".contains(byte)) {
            return None;
        }
        // `Authorization = ["feature"]`
        let is_list =
            at(text, from) == Some(b'[') && value.len() < 20 && !value.iter().any(|b| b" =".contains(b));
        // `'Cookie': 'http.cookies'`
        let is_cookie = before(text, last).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e'));
        let is_other = is_cookie && !value.contains(&b'=') && !looks_random(value);
        let is_empty = is_empty(value) || is_other || is_list && written == Written::Assigned;
        return (!is_empty).then_some(Hit::of(opening.start, end, body));
    }
    // Within a quoted string the header ends where the string does: -H 'Authorization: Basic …'
    let quote = before(text, first).filter(|byte| b"\"'`".contains(byte));
    // Whether it is one is decided by its first bytes; only then is its end looked for.
    let head = slice(text, 0, from.saturating_add(LOOK));
    if !may_hold(from, text, first, last, written, dull) {
        return None;
    }
    let value = slice(text, from, unquoted_end(head, from, quote)).trim_ascii();
    let is_cookie = at(text, last.saturating_sub(1)).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e'));
    let is_word = match written {
        _ if is_declared(value) => true,
        _ if is_cookie => !value.contains(&b'='),
        // `Authorization: the service decides`
        Written::Told | Written::Keyed => {
            quote.is_none() && before(text, first) != Some(b'=') && !has_scheme(value)
        }
        // `authorization: if … {`
        Written::Line => value.iter().any(|byte| b"{}".contains(byte)) && !has_scheme(value),
        Written::Compared | Written::Passed | Written::Header => true,
        Written::Assigned => {
            let word = value.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            is_code(word) || (word.len() == value.len() && is_identifier(word))
        }
        Written::Set | Written::Element => false,
    };
    let is_empty = is_word || is_empty(value);
    (!is_empty).then(|| Hit::of(from, unquoted_end(text, from, quote), Body::Line))
}

/// `NAME_COOKIE: c_int = 7;`, `HeaderAuthorization = 24,`, [`Authorization`]: https://…
fn is_declared(value: &[u8]) -> bool {
    let word = slice(
        value,
        0,
        value.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count(),
    );
    let rest = slice(value, word.len(), value.len());
    let is_number = word.iter().all(u8::is_ascii_digit) && matches!(rest, [] | [b',' | b';', ..]);
    rest.starts_with(b" = ") || rest.starts_with(b"://") || (is_number && word.len() < 6)
}

/// `Authorization Bearer …`, `Authorization => Bearer …`: a scheme says what follows.
fn by_scheme(text: &[u8], last: usize) -> Option<(usize, Written)> {
    let from = skip_blanks(text, last, 4);
    let from = if slice(text, from, from + 2) == b"=>" { skip_blanks(text, from + 2, 4) } else { from };
    let schemes: [&[u8]; 4] = [b"Bearer ", b"Basic ", b"Token ", b"Digest "];
    let scheme = schemes.iter().find(|scheme| slice(text, from, from + scheme.len()) == **scheme)?;
    let word = slice(text, from + scheme.len(), from + scheme.len() + LOOK);
    let word = word.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let is_secret = from > last && (scheme.starts_with(b"Bea") && word.len() >= 8 || looks_random(word));
    is_secret.then_some((from, Written::Set))
}

/// What is decided most often, and by what stands there whether or not it is all of the value: a cookie has a sign in it,
/// and a sentence names no scheme.
fn may_hold(from: usize, text: &[u8], first: usize, last: usize, written: Written, dull: &mut Dull) -> bool {
    let is_cookie = before(text, last).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e'));
    if is_cookie {
        return dull.has_sign(text, from, from.saturating_add(LOOK));
    }
    let is_apart = before(text, first).is_none_or(|byte| !is_one_of(byte, b"\"'`="));
    let head = slice(text, from, from.saturating_add(LOOK));
    !(matches!(written, Written::Told | Written::Keyed) && is_apart) || has_scheme(head.trim_ascii_start())
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
