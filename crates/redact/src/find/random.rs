//! Runs of characters that look drawn by lot: keys without a prefix or a name.
//!
//! What counts is not the length but how the characters follow each other. In a key the kinds of characters (small
//! letters, capitals, digits) change at most steps; names and paths are made of words. What is known to be public has a
//! shape or a place of its own: digests, ids, lock files, data with a declared type, parts of paths.

use super::look::{Candidate, Kinds, counts, is_varied};
use super::{Body, Hit};
use crate::bytes::{ByteSet, at, before, is_one_of, line_start, slice, stands_before, within};

/// Shortest run that is judged.
pub(crate) const LEAST: usize = 20;
/// Longer ones are data.
pub(super) const MOST: usize = 256;
/// How far back a name may stand.
const REACH: usize = 40;

static TAIL: ByteSet = ByteSet::alphanumeric_and(b"+/_-=");
static WORD: ByteSet = ByteSet::alphanumeric_and(b"_-");
static HEX: ByteSet = ByteSet::of(b"0123456789abcdefABCDEF");

/// Names of what is public although it looks random.
const PUBLIC: &[&str] = &[
    "id",
    "ids",
    "uid",
    "guid",
    "uuid",
    "etag",
    "hash",
    "hashes",
    "digest",
    "integrity",
    "checksum",
    "sum",
    "sha",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "md5",
    "crc",
    "blake2",
    "blake3",
    "fingerprint",
    "signature",
    "commit",
    "revision",
    "rev",
    "ref",
    "tree",
    "parent",
    "object",
    "blob",
    "index",
    "trace",
    "span",
    "traceparent",
    "cursor",
    "version",
    "build",
    "layer",
    "image",
    "cid",
    "serial",
    "publickey",
    "pubkey",
    "base64",
    "narhash",
    "h1",
    "merge",
    "cache",
    "resolved",
    "gist",
    "nonce",
    "modulus",
    "name",
    "file",
    "path",
    "class",
    "type",
    "test",
    "fn",
    "function",
    "def",
];

/// What runs that are public begin with.
const PUBLIC_STARTS: &[&str] = &[
    "sha1-",
    "sha256-",
    "sha384-",
    "sha512-",
    "md5-",
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNh",
    "AAAAGnNr",
    "iVBORw0KGgo",
    "R0lGOD",
    "UklGR",
];

/// Of base64 in both alphabets, also as URLs write it.
#[inline]
pub(crate) const fn is_run(byte: u8) -> bool {
    // A slash stands right before the digits.
    within(byte | 0x20, b'a', b'z')
        | within(byte, b'/', b'9')
        | (byte == b'+')
        | (byte == b'-')
        | (byte == b'_')
        | (byte == b'%')
}

/// Judges a run. A percent sign parts it, unless `+` or `/` is written so.
pub(super) fn find(text: &[u8], start: usize, end: usize, hits: &mut Vec<Hit>) {
    let raw = slice(text, start, end);
    let Some(candidate) = Candidate::at(text, start, end) else { return };
    if !candidate.may_be_parted || !raw.iter().fold(false, |has, byte| has | (*byte == b'%')) {
        let first = unescaped(text, start);
        let run = slice(text, first, end);
        if raw.len() <= MOST && run.len() >= LEAST {
            let kinds = candidate.kinds(text, (first, end), first == start);
            hits.extend(judge(text, run, &kinds, first, end));
        }
        return;
    }
    let mut plain = [0; MOST + 1];
    let mut from = start;
    while from < end {
        let (mut length, mut place) = (0, from);
        while place < end {
            let (byte, width) = match slice(text, place, place + 3) {
                [b'%', b'2', b'B' | b'b'] => (b'+', 3),
                [b'%', b'2', b'F' | b'f'] => (b'/', 3),
                [b'%', ..] => break,
                [byte, ..] => (*byte, 1),
                [] => break,
            };
            if let Some(slot) = plain.get_mut(length) {
                *slot = byte;
            }
            length += 1;
            place += width;
        }
        let skipped = unescaped(text, from) - from;
        if length <= MOST
            && let Some(run) = plain.get(skipped..length).filter(|run| run.len() >= LEAST)
        {
            hits.extend(judge(text, run, &Kinds::of(run), from + skipped, place.min(end)));
        }
        from = place + 3;
    }
}

fn judge(text: &[u8], run: &[u8], kinds: &Kinds, start: usize, end: usize) -> Option<Hit> {
    // Names, ids and digests: everything below asks for a capital, or for small letters and digits alone.
    if kinds.capitals == 0 && kinds.others > 0 {
        return None;
    }
    let is_hex = kinds.others == 0 && run.iter().fold(true, |is_hex, byte| is_hex & byte.is_ascii_hexdigit());
    if is_hex && !matches!(run.len(), 32 | 34 | 48) {
        return None;
    }
    if kinds.capitals > 0
        && let Some(hit) = named(text, kinds, start, end)
    {
        return Some(hit);
    }
    let is_secret = if is_hex {
        matches!(run.len(), 32 | 48) && mixed_hex(run) && stands_alone(text, start, end)
    } else {
        !kinds.is_spoken(run.len()) && !begins_public(run) && is_random(text, run, kinds, start, end)
    };
    (is_secret && !is_public(text, run, start)).then(|| Hit::of(start, tail(text, end), Body::Of(&TAIL)))
}

/// Where what belongs to a run that ends here is over.
pub(super) fn tail(text: &[u8], end: usize) -> usize {
    TAIL.run(text, end)
}

/// What is known by its letters: they are capitals.
fn named(text: &[u8], kinds: &Kinds, start: usize, end: usize) -> Option<Hit> {
    let raw = slice(text, start, end);
    // Whatever it is glued to: its first part has only letters and digits. Those of `raw` may be more than were judged.
    if at(text, end) == Some(b'.') {
        let last = raw.iter().rposition(|byte| !byte.is_ascii_alphanumeric()).map_or(0, |other| other + 1);
        if let Some(end) = discord(text, start + last, end) {
            return Some(Hit::of(start + last, end, Body::Of(&WORD)));
        }
    }
    if raw.len() < ACCOUNT || kinds.capitals < 2 || kinds.others == 0 && raw.len() > ACCOUNT {
        return None;
    }
    let mut part = start;
    for segment in raw.split(|byte| *byte == b'/') {
        if is_account(segment) {
            return Some(Hit::ended(part, part + segment.len()));
        }
        part += segment.len() + 1;
    }
    None
}

/// Past the rest of an escape: `\n`, `%2F`.
fn unescaped(text: &[u8], start: usize) -> usize {
    match (before(text, start), at(text, start)) {
        (Some(b'\\'), Some(b'n' | b'r' | b't' | b'b' | b'f')) => start + 1,
        (Some(b'\\'), Some(b'u')) => start + 5,
        (Some(b'['), Some(b'0'..=b'9')) if before(text, start - 1) == Some(0x1b) => {
            // The last part of a colour.
            start + slice(text, start, start + 4).iter().position(|byte| *byte == b'm').map_or(0, |m| m + 1)
        }
        (Some(b';'), Some(b'0'..=b'9')) => {
            let m = slice(text, start, start + 4).iter().position(|byte| *byte == b'm');
            m.filter(|m| super::follows_colour(text, start + m)).map_or(start, |m| start + m + 1)
        }
        _ => start,
    }
}

/// Three parts, of which the first is the base64 of digits.
fn discord(text: &[u8], start: usize, end: usize) -> Option<usize> {
    let first = end - start;
    if !(23..=30).contains(&first)
        || !matches!(at(text, start), Some(b'M' | b'N' | b'O'))
        || at(text, end) != Some(b'.')
    {
        return None;
    }
    let second = WORD.run(slice(text, 0, end + 10), end + 1);
    let third = WORD.run(text, second + 1);
    let fits = (5..=8).contains(&(second - end - 1)) && at(text, second) == Some(b'.') && third - second > 25;
    fits.then_some(third)
}

/// Twilio's two letters and 32 hex digits.
const ACCOUNT: usize = 34;

fn is_account(run: &[u8]) -> bool {
    if run.len() != ACCOUNT {
        return false;
    }
    let digits = run.strip_prefix(b"SK").or_else(|| run.strip_prefix(b"AC"));
    digits.is_some_and(|digits| digits.iter().all(|byte| HEX.has(*byte)) && mixed_hex(digits))
}

/// Letters and digits, many of both, in one case.
fn mixed_hex(run: &[u8]) -> bool {
    let letters = run.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let has_both_cases = run.iter().any(u8::is_ascii_lowercase) && run.iter().any(u8::is_ascii_uppercase);
    let counts = counts(run);
    let distinct = counts.iter().filter(|count| **count > 0).count();
    !has_both_cases && letters >= 4 && run.len() - letters >= 4 && distinct >= 9 && !is_listed(run)
}

/// Nothing beside it makes it a part of something else: an id with its kind in front, a part of a path or a file name.
fn stands_alone(text: &[u8], start: usize, end: usize) -> bool {
    let is_other = |byte: Option<u8>| byte.is_some_and(|byte| b".@#~%$\\".contains(&byte) || byte >= 0x80);
    // Signs beyond ASCII, such as quotes, arrows and lines of tables, part words as ours do: U+2000 to U+2BFF.
    let is_sign = |first: Option<u8>, second: Option<u8>| {
        first == Some(0xe2) && second.is_some_and(|byte| (0x80..=0xaf).contains(&byte))
    };
    let back = |n: usize| start.checked_sub(n).and_then(|place| at(text, place));
    let (begins, ends) = (is_sign(back(3), back(2)), is_sign(at(text, end), at(text, end + 1)));
    (begins || !is_other(before(text, start)))
        && (ends || !is_other(at(text, end).filter(|byte| *byte != b'.' && *byte != b'\\')))
        && !is_followed_by_name(text, end)
}

/// `….js`, `…(`
fn is_followed_by_name(text: &[u8], end: usize) -> bool {
    match at(text, end) {
        Some(b'.') => at(text, end + 1).is_some_and(|byte| byte.is_ascii_alphanumeric()),
        Some(b'(' | b'[' | b'@') => true,
        // The names that tools print digests of.
        Some(b' ') => {
            at(text, end + 1) == Some(b' ')
                && at(text, end + 2).is_some_and(|byte| !byte.is_ascii_whitespace())
        }
        _ => false,
    }
}

/// A word and then an id of that kind: `toolu_…`, `call_…`, `chatcmpl-…`, `index-…`.
fn has_kind(run: &[u8]) -> bool {
    let word = run.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    (2..=16).contains(&word) && matches!(at(run, word), Some(b'_' | b'-'))
}

fn is_random(text: &[u8], run: &[u8], kinds: &Kinds, start: usize, end: usize) -> bool {
    let length = run.len();
    let letters_and_digits = length - kinds.others;
    // More separators than lot would give.
    if letters_and_digits < LEAST || kinds.others * 6 > length {
        return false;
    }
    if before(text, start) == Some(b'.') || has_kind(run) || !stands_alone(text, start, end) {
        return false;
    }
    let look = kinds.look(run);
    // Numbers in hundredths.
    let of = |part: usize| part * 100 / letters_and_digits;
    let is_key = if kinds.capitals == 0 || kinds.small == 0 {
        // Two kinds only: more is asked of it.
        length >= 32
            && kinds.others == 0
            && kinds.capitals == 0
            && of(look.changes) >= 30
            && (15..=55).contains(&of(kinds.digits))
            && of(look.spoken) <= 55
    } else if kinds.others > 0 && run.contains(&b'/') {
        let is_aws = length == 40 && kinds.others == run.iter().filter(|byte| b"+/".contains(byte)).count();
        let enough = if is_aws { 28 } else { 40 };
        // A path begins with a slash, and so does one key of 64, and one line of a long one.
        let may_begin = at(run, 0) != Some(b'/') || ((is_aws || length == 64) && is_lone(text, start, end));
        length >= 32 && may_begin && of(look.changes) >= enough && of(look.spoken) <= 25
    } else {
        // A short one must not read like `Chacha20Poly1305Aead`.
        of(look.changes) >= 35 && of(look.spoken) <= 25 && (length >= 32 || of(look.titled) <= 55)
    };
    is_key && !is_listed(run) && is_varied(run)
}

/// Between blanks, quotes or signs of a query: no part of a longer path.
fn is_lone(text: &[u8], start: usize, end: usize) -> bool {
    let is_border =
        |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`=&,;:".contains(&byte));
    is_border(before(text, start)) && is_border(at(text, end))
}

/// `abcdef…`, `0123456789`: an alphabet is no key.
fn is_listed(run: &[u8]) -> bool {
    let steps =
        run.windows(2).filter(|pair| matches!(pair, [a, b] if a.wrapping_add(1) == *b || a == b)).count();
    steps * 3 > run.len()
}

/// Whether its first letters say that it is public.
fn begins_public(run: &[u8]) -> bool {
    // Most often the first one alone decides.
    run.first().is_some_and(|byte| is_one_of(*byte, b"smAiRU"))
        && PUBLIC_STARTS.iter().any(|first| run.starts_with(first.as_bytes()))
}

/// Whether its beginning, or the name before it, says that it is public.
fn is_public(text: &[u8], run: &[u8], start: usize) -> bool {
    if begins_public(run) || stands_before(text, start, b"base64,") {
        return true;
    }
    let lead = slice(text, start.saturating_sub(REACH), start);
    let signs = lead.iter().rev().take_while(|byte| b" \t\"'`=:(\\[<".contains(byte)).count();
    if signs == 0 {
        return false;
    }
    let lead = slice(lead, 0, lead.len() - signs);
    if lead.last() == Some(&b')') {
        // `MD5 (name) = …`
        let line = slice(text, line_start(text, start, 4 * MOST), start);
        return [&b"MD5 ("[..], b"SHA", b"BLAKE", b"RIPEMD"].iter().any(|name| line.starts_with(name));
    }
    let length =
        lead.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte)).count();
    let name = slice(lead, lead.len() - length, lead.len());
    let last = name.last().map(u8::to_ascii_lowercase);
    PUBLIC.iter().any(|public| public.as_bytes().last().copied() == last && names(name, public.as_bytes()))
}

/// Whether a name is this word, or ends with it as a word of its own: `request_id`, `requestId`, `ETag`.
fn names(name: &[u8], word: &[u8]) -> bool {
    let Some(lead) = name.len().checked_sub(word.len()) else { return false };
    let (first, last) = (slice(name, 0, lead), slice(name, lead, name.len()));
    if !last.eq_ignore_ascii_case(word) {
        return false;
    }
    match first.last() {
        None => true,
        Some(byte) if byte.is_ascii_alphanumeric() => {
            // `requestId`, and long words that stand for themselves: `filehash`.
            last.first().is_some_and(u8::is_ascii_uppercase) && byte.is_ascii_lowercase() || word.len() >= 4
        }
        Some(_) => true,
    }
}
