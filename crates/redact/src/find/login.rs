//! Names with their passwords: `Basic bmFtZTp3b3Jk` without its header, `curl -u name:word`, `IDENTIFIED BY 'word'`,
//! `host:5432:database:name:word`.

use super::value::{self, Written, is_harmless};
use super::{Body, Hit, begins_word};
use crate::bytes::{ByteSet, at, before, line_end, line_start, skip_blanks, slice};
use crate::known::decode;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=_-");
/// Of a part of an account.
static PART: ByteSet = ByteSet::alphanumeric_and(b"*_-.$");
/// How much is decoded.
const LOOK: usize = 64;
/// How far back the program may stand.
const REACH: usize = 256;
/// Longest line of a file of accounts.
const LINE: usize = 256;

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
pub(super) fn option(text: &[u8], start: usize, end: usize, programless: &mut Programless) -> Option<Hit> {
    // `"-u", "name:word"`
    let is_listed = before(text, end) == Some(b'"');
    let end = if is_listed { skip_blanks(text, end, 2) + 1 } else { end };
    if is_listed && before(text, end) != Some(b',') {
        return None;
    }
    let end = skip_blanks(text, end, 4);
    let quote = at(text, end).filter(|byte| b"\"'".contains(byte));
    let from = end + usize::from(quote.is_some());
    let word = slice(text, from, from + LOOK);
    let is_over =
        |byte: &u8| quote.map_or(byte.is_ascii_whitespace(), |quote| *byte == quote) || *byte == b'\n';
    // `smbclient -U name%word`
    let is_share = at(text, start + 2) == Some(b'U');
    let sign = if is_share { b'%' } else { b':' };
    let colon = word.iter().position(|byte| *byte == sign || is_over(byte))?;
    if at(word, colon) != Some(sign) {
        return None;
    }
    let lead = line_start(text, start, REACH);
    let has_program =
        if is_share { holds(slice(text, lead, start), b"smb") } else { !programless.is(text, lead, start) };
    if !has_program {
        return None;
    }
    let secret = slice(word, colon + 1, word.len());
    if is_harmless(slice(secret, 0, secret.iter().position(is_over).unwrap_or(secret.len()))) {
        return None;
    }
    let body = quote.map_or(Body::Word, |quote| Body::Quoted { quote, escapes: 0 });
    let first = from + colon + 1;
    Some(Hit::of(first, body.end(text, first), body))
}

/// Text in which no program is named that takes a login: what was met last, so that each of many logins looks at what is new.
#[derive(Default)]
pub(super) struct Programless {
    from: usize,
    to: usize,
}

impl Programless {
    fn is(&mut self, text: &[u8], from: usize, to: usize) -> bool {
        let programs: [&[u8]; 3] = [b"curl", b"wget", b"http"];
        let is_known = self.from <= from && from <= self.to && self.to <= to;
        // One may begin where the last look ended.
        let new = if is_known { self.to.saturating_sub(3).max(from) } else { from };
        if programs.iter().any(|program| holds(slice(text, new, to), program)) {
            return false;
        }
        (self.from, self.to) = (if is_known { self.from } else { from }, to);
        true
    }
}

/// Whether this stands in a text, in letters of any size. A command may have several logins: each looks back as far, so only
/// at places where the first letter stands.
fn holds(text: &[u8], name: &[u8]) -> bool {
    let Some(first) = name.first() else { return false };
    memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .any(|place| slice(text, place, place + name.len()).eq_ignore_ascii_case(name))
}

/// What follows `IDENTIFIED BY` or `IDENTIFIED WITH plugin BY`.
pub(super) fn sql(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    let is_plain = slice(text, end - 3, end).eq_ignore_ascii_case(b"by ");
    let from = if is_plain {
        skip_blanks(text, end, 8)
    } else {
        let window = slice(text, end, line_end(slice(text, 0, end + LOOK), end));
        let by = window.windows(4).position(|word| word.eq_ignore_ascii_case(b" by "))?;
        skip_blanks(text, end + by + 4, 8)
    };
    match at(text, from) {
        Some(b'\'' | b'"') => value::find(text, start, from, Written::Set),
        // Without quotes only a statement says it, and statements shout.
        Some(byte)
            if is_plain && byte.is_ascii_alphanumeric() && slice(text, start, end) == b"IDENTIFIED BY " =>
        {
            value::find(text, start, from, Written::Told)
        }
        _ => None,
    }
}

/// A line of `.pgpass`: five parts, of which the last is the password.
pub(super) fn account(text: &[u8], start: usize) -> Option<Hit> {
    let from = line_start(text, start, LINE);
    let line = slice(text, from, line_end(slice(text, 0, from + LINE), from)).trim_ascii_end();
    // Part by part, as most lines end to be one at the first.
    let mut parts = line.splitn(5, |byte| *byte == b':');
    let is_word = |part: &&[u8]| !part.is_empty() && PART.run(part, 0) == part.len();
    parts.next().filter(is_word)?;
    parts.next().filter(|port| *port == b"*" || port.iter().all(u8::is_ascii_digit))?;
    parts.next().filter(is_word)?;
    parts.next().filter(is_word)?;
    let secret = parts.next()?;
    let is_secret = secret.len() >= 6
        && memchr::memchr2(b' ', b':', secret).is_none()
        && !secret.iter().all(u8::is_ascii_digit)
        && !is_harmless(secret);
    let end = from + line.len();
    is_secret.then_some(Hit::ended(end - secret.len(), end))
}
