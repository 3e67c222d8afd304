//! What tells of a person: cards, e-mail, phone and social security numbers, addresses of hosts.
//!
//! Only on request ([`crate::Redactor::with_personal_data`]): the client's own answers name people and hosts.

use super::Hit;
use crate::bytes::{ByteSet, at, before, slice};

/// Longest part before the sign of an e-mail address.
const LOCAL: usize = 64;
/// Longest part after it.
const DOMAIN: usize = 253;
/// Shortest run of numbers that is looked at.
const LEAST: usize = 7;
/// Most characters of one number with its signs.
const MOST: usize = 40;

static LOCAL_PART: ByteSet = ByteSet::alphanumeric_and(b"._%+-");
static DOMAIN_PART: ByteSet = ByteSet::alphanumeric_and(b".-");
static SIX: ByteSet = ByteSet::of(b"0123456789abcdefABCDEF:.");

/// A digit, or what stands between the digits of one number.
const fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() | matches!(byte, b'.' | b'-' | b'(' | b')' | b' ' | b'+')
}

/// Finds what begins in `text[from..limit]`.
pub(super) fn find(text: &[u8], from: usize, limit: usize, hits: &mut Vec<Hit>) {
    let rest = slice(text, from, text.len());
    let mails = memchr::memchr_iter(b'@', rest).filter_map(|offset| mail(text, from + offset));
    hits.extend(mails.filter(|hit| hit.start < limit));
    let mut runs = Vec::new();
    crate::bytes::runs(text, from, LEAST, is_number, &mut runs);
    for (start, end) in runs.into_iter().filter(|(start, _)| *start < limit) {
        numbers(text, start, end, hits);
    }
    for offset in memchr::memchr_iter(b':', rest) {
        let place = from + offset;
        if place < limit && before(text, place) != Some(b':') {
            hits.extend(six(text, place));
        }
    }
}

fn mail(text: &[u8], sign: usize) -> Option<Hit> {
    let local = slice(text, sign.saturating_sub(LOCAL), sign);
    let local = local.iter().rev().take_while(|byte| LOCAL_PART.has(**byte)).count();
    let end = DOMAIN_PART.run(slice(text, 0, sign + 1 + DOMAIN), sign + 1);
    let domain = slice(text, sign + 1, end);
    let domain = slice(domain, 0, domain.iter().rposition(u8::is_ascii_alphanumeric)? + 1);
    let top = domain.rsplit(|byte| *byte == b'.').next()?;
    let has_top = top.len() < domain.len() && top.len() >= 2 && top.iter().all(u8::is_ascii_alphabetic);
    let starts = domain.first().is_some_and(u8::is_ascii_alphanumeric);
    // `git@host:path` is an address of a repository.
    let is_login = slice(text, sign - local, sign) == b"git";
    (local > 0 && has_top && starts && !is_login).then(|| Hit::ended(sign - local, sign + 1 + domain.len()))
}

/// Takes a run of digits and signs apart: each number begins with a digit, `+` or `(`.
fn numbers(text: &[u8], start: usize, end: usize, hits: &mut Vec<Hit>) {
    let mut from = start;
    while from < end {
        let begins = at(text, from).is_some_and(|byte| byte.is_ascii_digit() || b"+(".contains(&byte));
        let is_inside =
            before(text, from).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte));
        if !begins || is_inside {
            from += 1;
            continue;
        }
        let window = slice(text, from, end.min(from + MOST));
        let length =
            four(window).or_else(|| security(window)).or_else(|| card(window)).or_else(|| phone(window));
        let ends = |length: &usize| {
            at(text, from + length).is_none_or(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
        };
        match length.filter(ends) {
            Some(length) => {
                hits.push(Hit::ended(from, from + length));
                from += length;
            }
            None => {
                from += window.iter().position(|byte| *byte == b' ').map_or(window.len(), |blank| blank + 1)
            }
        }
    }
}

/// Four numbers with dots; not a version of four parts that begins with a zero, nor this machine itself.
fn four(window: &[u8]) -> Option<usize> {
    let length = window.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let text = slice(window, 0, length);
    let text = text.strip_suffix(b".").unwrap_or(text);
    let mut parts = 0;
    for part in text.split(|byte| *byte == b'.') {
        if part.is_empty() || part.len() > 3 || (part.len() > 1 && part.first() == Some(&b'0')) {
            return None;
        }
        let number = part.iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        if number > 255 {
            return None;
        }
        parts += 1;
    }
    let is_own = text.starts_with(b"127.") || text.starts_with(b"0.") || text == b"255.255.255.255";
    (parts == 4 && !is_own).then_some(text.len())
}

/// Three, two and four digits with hyphens, as they are given out.
fn security(window: &[u8]) -> Option<usize> {
    let text = window.get(..11)?;
    let shape = text
        .iter()
        .enumerate()
        .all(|(place, byte)| if matches!(place, 3 | 6) { *byte == b'-' } else { byte.is_ascii_digit() });
    let is_given = !text.starts_with(b"000") && !text.starts_with(b"666") && !text.starts_with(b"9");
    let is_filled = text.get(4..6)? != b"00" && text.get(7..)? != b"0000";
    (shape
        && is_given
        && is_filled
        && !window.get(11).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-'))
    .then_some(11)
}

/// 13 to 19 digits of a known maker, perhaps in groups, whose last one checks the others.
fn card(window: &[u8]) -> Option<usize> {
    let mut digits: Vec<u8> = Vec::new();
    let (mut length, mut previous) = (0, b' ');
    for (place, byte) in window.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                digits.push(byte - b'0');
                length = place + 1;
            }
            b' ' | b'-' if previous.is_ascii_digit() && digits.len() >= 4 => {}
            _ => break,
        }
        if digits.len() > 19 {
            return None;
        }
        previous = *byte;
    }
    let has_maker = matches!(
        digits.as_slice(),
        [4, ..] | [5, 1..=5, ..] | [2, 2..=7, ..] | [3, 4 | 7, ..] | [6, 0 | 5, ..]
    );
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(*digit);
            if place % 2 == 0 {
                digit
            } else if digit > 4 {
                digit * 2 - 9
            } else {
                digit * 2
            }
        })
        .sum();
    (has_maker && (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)).then_some(length)
}

/// With a country, or in the groups of North America.
fn phone(window: &[u8]) -> Option<usize> {
    let length = window.iter().take_while(|byte| is_number(**byte)).count();
    let last = slice(window, 0, length).iter().rposition(u8::is_ascii_digit)? + 1;
    let text = slice(window, 0, last);
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let signs = last - digits;
    if text.first() == Some(&b'+') {
        return ((8..=15).contains(&digits) && at(text, 1).is_some_and(|byte| byte.is_ascii_digit()))
            .then_some(last);
    }
    let plain: Vec<u8> = text.iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte }).collect();
    let shapes: [&[u8]; 5] =
        [b"(000) 000-0000", b"000-000-0000", b"000.000.0000", b"(000)000-0000", b"0-000-000-0000"];
    (signs >= 2 && shapes.contains(&plain.as_slice())).then_some(last)
}

/// Groups of hex digits with colons: eight, or fewer with one gap.
fn six(text: &[u8], colon: usize) -> Option<Hit> {
    let lead = slice(text, colon.saturating_sub(4), colon);
    let start = colon - lead.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_inside =
        before(text, start).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte));
    let end = SIX.run(slice(text, 0, start + MOST), start);
    let word = slice(text, start, end);
    let word = slice(word, 0, word.iter().rposition(|byte| *byte != b'.')? + 1);
    if is_inside
        || at(text, start + word.len()).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return None;
    }
    let address: std::net::Ipv6Addr = std::str::from_utf8(word).ok()?.parse().ok()?;
    let has_much = word.iter().filter(|byte| byte.is_ascii_hexdigit()).count() >= 4;
    (has_much && !address.is_loopback() && !address.is_unspecified())
        .then(|| Hit::ended(start, start + word.len()))
}
