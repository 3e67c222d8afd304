//! Names of secrets that are only named: in a sentence, as an argument, as a part of something longer.
//!
//! Most names are, and the bytes beside them tell. Invariant: what is said here to be named in passing has no value that
//! [`field`] would find by looking at all of it; so only time is saved.

use super::dull::Dull;
use super::{field, value};
use crate::bytes::{at, before, is_one_of, skip_blanks, slice, until_blank};

/// Whether the name at `first..last`, with an anchor at `start..end`, is only named. It is not said of names that go on in
/// an unusual way.
pub(super) fn is(
    text: &[u8],
    (start, end): (usize, usize),
    (first, last): (usize, usize),
    dull: &Dull,
) -> bool {
    let (anchor, tail) = (slice(text, start, end), slice(text, end, last));
    if !tail.is_empty() {
        return tail == b"word" && is_followed(text, start, first, last);
    }
    is_part(text, first, last)
        || is_dull(text, anchor, last, dull)
        || !anchor.eq_ignore_ascii_case(b"cookie") && is_followed(text, start, first, last)
}

/// Whether what follows is no value.
fn is_followed(text: &[u8], start: usize, first: usize, last: usize) -> bool {
    let behind = match at(text, last) {
        Some(b' ') => skip_blanks(text, last, field::BLANKS),
        Some(b':') => skip_blanks(text, last + 1, field::BLANKS),
        Some(b'=') => return is_repeated(text, start, last),
        Some(b'\\') => return is_escaped(text, last),
        // A word at the end of its line, and no key or part of a form before it that says what it is.
        Some(b'\n' | b'\r') => {
            return before(text, first).is_none_or(|byte| !is_one_of(byte, b" \t\"':"));
        }
        _ => return false,
    };
    let Some(next) = at(text, behind).filter(u8::is_ascii_alphabetic) else { return false };
    if at(text, last) == Some(b' ') {
        // `the token is …`, `ENV API_KEY …`, `aws configure set NAME …`, `<password a="b">`, `--token …`, `password …`
        let lead = slice(text, first.saturating_sub(2), first);
        let is_set = matches!(lead, [b'V' | b'G' | b't' | b'x', b' '] | [.., b'<' | b':']);
        return !is_set
            && !is_one_of(next, b"iw")
            && at(text, first) != Some(b'-')
            && !before(text, last).is_some_and(|byte| is_one_of(byte, b"dD"));
    }
    // `Some("…")`, `b"…"`, `X-Api-Key: …`
    let may_be_wrapped =
        is_one_of(next, b"SP") || at(text, behind + 1).is_some_and(|byte| is_one_of(byte, b"\"'`"));
    let may_be_key = slice(text, first, last).contains(&b'-') || at(text, first) == Some(b'A');
    if may_be_wrapped || may_be_key {
        return false;
    }
    let word = slice(text, behind, behind + value::LOOK);
    let small = word.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let small = small + usize::from(at(word, small).is_some_and(|byte| is_one_of(byte, b",.:")));
    let is_word = at(word, small).is_some_and(|byte| byte.is_ascii_whitespace()) || {
        !value::looks_random(slice(word, 0, until_blank(word)))
    };
    is_word && !value::begins_line(text, first)
}

/// `a:b:secret:c`
fn is_part(text: &[u8], first: usize, last: usize) -> bool {
    at(text, last) == Some(b':')
        && before(text, first) == Some(b':')
        && at(text, last + 1).is_some_and(|byte| byte.is_ascii_alphabetic() && byte != b'S')
}

/// `auth="` before what is no key: only what looks drawn by lot is a secret there.
fn is_dull(text: &[u8], anchor: &[u8], last: usize, dull: &Dull) -> bool {
    let from = last + 1;
    dull.has(from, from + field::OPENING + field::LOOK)
        && [&b"auth"[..], b"sig"].iter().any(|whole| anchor.eq_ignore_ascii_case(whole))
        && at(text, last) == Some(b'=')
        && at(text, from).is_some_and(|byte| is_one_of(byte, b"\"'"))
}

/// Whether the backslashes here escape no quote that closes the name: `token\nnext`.
fn is_escaped(text: &[u8], last: usize) -> bool {
    let slashes = slice(text, last, last + 4).iter().take_while(|byte| **byte == b'\\').count();
    !at(text, last + slashes).is_some_and(|byte| is_one_of(byte, b"\"'`"))
}

/// `token=token`
fn is_repeated(text: &[u8], start: usize, last: usize) -> bool {
    let end = last + 1 + last - start;
    let is_over = at(text, end).is_none_or(|byte| byte.is_ascii_whitespace() || is_one_of(byte, b",;)"));
    is_over && last - start >= 3 && slice(text, last + 1, end) == slice(text, start, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_named_in_passing_unless_a_value_may_follow() {
        for (text, expected) in [
            ("the token expires", true),
            ("the token is aB3dE5fG", false),
            ("ENV TOKEN word", false),
            ("git set token word", false),
            ("run --token word", false),
            ("<token a=\"b\">", false),
            ("a secret: be kind", true),
            ("a secret: Some(\"word\")", false),
            ("a secret: b\"word\"", false),
            ("a secret: hunter22", false),
            ("secret: word", false),
            ("x-token: word", false),
            ("f(token=token)", true),
            ("f(token=tokens)", false),
            ("Secret=Secret(\"word\")", false),
            ("a:token:b", true),
            ("a:token:=b", false),
            ("token\\nnext", true),
            ("{\\\"token\\\": 1}", false),
            ("the-token\n", true),
            ("name: token\n", false),
            ("token\r\n", true),
        ] {
            let small = text.to_lowercase();
            let (start, length) =
                small.find("token").map_or_else(|| (small.find("secret"), 6), |at| (Some(at), 5));
            let (start, end) = (start.unwrap(), start.unwrap() + length);
            let first = start - text[..start].bytes().rev().take_while(|b| b"-x".contains(b)).count();
            let is = is(text.as_bytes(), (start, end), (first, end), &Dull::default());
            assert_eq!(is, expected, "{text}");
        }
    }
}
