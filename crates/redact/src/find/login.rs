//! Names with their passwords: `Basic bmFtZTp3b3Jk` without its header, `curl -u name:word`.

use super::value::is_harmless;
use super::{Body, Hit, begins_word};
use crate::bytes::{ByteSet, line_start, slice};
use crate::known::decode;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=_-");
/// How much is decoded.
const LOOK: usize = 64;
/// How far back the program may stand.
const REACH: usize = 256;

/// What follows the word `basic`, if it is base64 of text with a colon.
pub(super) fn basic(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    let word = slice(text, end, BASE64.run(slice(text, 0, end + LOOK), end));
    let plain = decode::base64(word);
    let is_login = word.len() >= 8
        && plain.contains(&b':')
        && plain.iter().all(|byte| *byte >= 0x80 || byte.is_ascii_graphic() || *byte == b' ');
    (is_login && begins_word(text, start)).then(|| Hit::of(end, BASE64.run(text, end), Body::Of(&BASE64)))
}

/// What follows `-u` or `--user` of a program that takes a password there.
pub(super) fn option(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    let quote = slice(text, end, end + 1).first().copied().filter(|byte| b"\"'".contains(byte));
    let from = end + usize::from(quote.is_some());
    let word = slice(text, from, from + LOOK);
    let is_over =
        |byte: &u8| quote.map_or(byte.is_ascii_whitespace(), |quote| *byte == quote) || *byte == b'\n';
    let word = slice(word, 0, word.iter().position(is_over).unwrap_or(word.len()));
    let colon = word.iter().position(|byte| *byte == b':')?;
    let secret = slice(word, colon + 1, word.len());
    let lead = slice(text, line_start(text, start, REACH), start);
    let takes = |name: &[u8]| lead.windows(name.len()).any(|word| word.eq_ignore_ascii_case(name));
    if is_harmless(secret) || !(takes(b"curl") || takes(b"wget") || takes(b"http")) {
        return None;
    }
    let body = quote.map_or(Body::Word, |quote| Body::Quoted { quote, escapes: 0 });
    let first = from + colon + 1;
    Some(Hit::of(first, body.end(text, first), body))
}
