//! Values in XML and HTML: `<ns:password a="b">…</ns:password>`, `<entry key="password">…</entry>`, `<input name="password"
//! value="…">`, `<key>password</key><string>…</string>`.

use super::Hit;
use super::value::{self, Written};
use crate::bytes::{at, before, skip_blanks, slice, stands_before};

/// How far the end of a tag may be.
const TAG: usize = 128;
/// Most attributes that are looked at.
const ATTRIBUTES: usize = 6;
/// Longest prefix of an element's name.
const PREFIX: usize = 16;

/// Whether an element's name begins here: `<name`, `<ns:name`.
pub(super) fn begins_element(text: &[u8], first: usize) -> bool {
    match before(text, first) {
        Some(b'<') => true,
        Some(b':') => {
            let lead = slice(text, first.saturating_sub(PREFIX), first - 1);
            let length = lead.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            length > 0 && before(text, first - 1 - length) == Some(b'<')
        }
        _ => false,
    }
}

/// Where the text of an element begins, whose tag goes on at `from`; with `<value>` in it past that.
pub(super) fn inside(text: &[u8], from: usize) -> Option<usize> {
    let tag = slice(text, from, from + TAG);
    let close =
        tag.iter().position(|byte| b"<>\n".contains(byte)).filter(|at| tag.get(*at) == Some(&b'>'))?;
    if before(text, from + close) == Some(b'/') {
        return None;
    }
    let start = from + close + 1;
    let inner: [&[u8]; 2] = [b"<value>", b"<string>"];
    let inner = inner.iter().find(|inner| slice(text, start, start + inner.len()) == **inner);
    Some(start + inner.map_or(0, |inner| inner.len()))
}

/// Where the text of an element begins that a name in its tag tells about, if it can be a secret: people are told about a
/// field by its name too.
pub(super) fn described(text: &[u8], first: usize, from: usize) -> Option<usize> {
    let is_name = [&b"name=\""[..], b"key=\""].iter().any(|name| stands_before(text, first, name));
    let start = is_name.then(|| inside(text, from)).flatten()?;
    let word = slice(text, start, start + TAG);
    let word =
        slice(word, 0, word.iter().position(|byte| *byte <= b' ' || *byte == b'<').unwrap_or(word.len()));
    value::looks_random(word).then_some(start)
}

/// What the element after `<key>name</key>` holds.
pub(super) fn after_key(text: &[u8], last: usize) -> Option<usize> {
    let key = b"</key>";
    if slice(text, last, last + key.len()) != key {
        return None;
    }
    let from = skip_blanks(text, last + key.len(), 8);
    (slice(text, from, from + 8) == b"<string>").then_some(from + 8)
}

/// The attribute `value` of the tag in which a name is the value of another: after it, else before it.
pub(super) fn attribute(text: &[u8], first: usize, closed: usize) -> Option<Hit> {
    if !stands_before(text, first, b"=\"") {
        return None;
    }
    let find = |from: usize| value::find(text, first, from, Written::Set);
    let (lead, after) =
        (slice(text, first.saturating_sub(2 * TAG), first), slice(text, closed, closed + 2 * TAG));
    // Most often there is no such attribute.
    let may_have = |tag: &[u8]| memchr::memchr2(b'v', b'V', tag).is_some();
    if !may_have(after) && !may_have(lead) {
        return None;
    }
    let end = memchr::memchr_iter(b'=', after).nth(ATTRIBUTES).unwrap_or(after.len());
    let after = slice(after, 0, memchr::memchr3(b'<', b'>', b'\n', slice(after, 0, end)).unwrap_or(end));
    if let Some(place) = value_of(after) {
        return find(closed + place);
    }
    let back = memchr::memrchr_iter(b'=', lead).nth(ATTRIBUTES).map_or(0, |place| place + 1);
    let lead = slice(lead, back, lead.len());
    let open = memchr::memrchr3(b'<', b'>', b'\n', lead)?;
    let lead = slice(lead, open, lead.len());
    let place = value_of(lead).filter(|_| at(lead, 0) == Some(b'<'))?;
    find(first - lead.len() + place).filter(|hit| hit.start != first)
}

/// Where the quote after ` value=` stands.
fn value_of(tag: &[u8]) -> Option<usize> {
    let name = b" value=";
    let is_it = |end: &usize| {
        end.checked_sub(name.len()).is_some_and(|start| slice(tag, start, *end).eq_ignore_ascii_case(name))
    };
    let found = memchr::memchr_iter(b'=', tag).map(|place| place + 1).find(is_it)?;
    Some(found).filter(|place| at(tag, *place).is_some_and(|byte| b"\"'".contains(&byte)))
}
