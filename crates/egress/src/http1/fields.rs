//! The fields of a head, in their order.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;

use zeroize::Zeroize;

use super::error::BadField;

/// What may be added after something was put in, before memory has to be had anew.
const ROOM: usize = 256;

/// Fields that concern the message itself. Each has a plain name and a value without control characters.
#[derive(Clone, Default)]
pub struct Fields {
    /// All names and values, one after the other: a head has many, and one piece of memory is quickly had.
    text: Vec<u8>,
    places: Vec<Field>,
}

/// Where a field stands in the text.
#[derive(Clone)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

impl Fields {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        // A name is always ASCII.
        self.parts().map(|(name, value)| (str::from_utf8(name).unwrap_or_default(), value))
    }

    fn parts(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| self.text.get(range.clone()).unwrap_or_default();
        self.places.iter().map(move |field| (part(&field.name), part(&field.value)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All values of one name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let name = name.as_bytes();
        self.parts().filter(move |(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a name that stands there once. Several are none.
    pub fn only(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.all(name);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        check_name(name.as_bytes())?;
        check_value(value)?;
        let field = Field { name: self.add(name.as_bytes()), value: self.add(value.trim_ascii()) };
        self.places.push(field);
        Ok(())
    }

    fn add(&mut self, text: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }

    /// Makes this the only field of its name.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), BadField> {
        let before = self.len();
        self.push(name, value)?;
        let mut at = 0;
        self.retain(|found| {
            at += 1;
            at > before || !found.eq_ignore_ascii_case(name.as_bytes())
        });
        Ok(())
    }

    /// Takes all fields of a name out, and says how many there were.
    pub fn remove(&mut self, name: &str) -> usize {
        let before = self.len();
        self.retain(|found| !found.eq_ignore_ascii_case(name.as_bytes()));
        before - self.len()
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        let text = &self.text;
        self.places.retain(|field| keep(text.get(field.name.clone()).unwrap_or_default()));
    }

    /// Gives some fields another value. If one of the new values is refused, nothing changed.
    pub fn rewrite(
        &mut self,
        mut change: impl FnMut(&str, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<(), BadField> {
        let mut changed = Vec::new();
        for (at, (name, value)) in self.iter().enumerate() {
            if let Some(value) = change(name, value) {
                check_value(&value)?;
                changed.push((at, value));
            }
        }
        // A secret may be in it, and what grows leaves copies behind.
        let more = changed.iter().map(|(_, value)| value.len()).sum::<usize>() + ROOM;
        let mut text = Vec::with_capacity(self.text.len() + more);
        text.extend_from_slice(&self.text);
        self.text = text;
        for (at, mut value) in changed {
            let place = self.add(value.trim_ascii());
            value.zeroize();
            if let Some(field) = self.places.get_mut(at) {
                field.value = place;
            }
        }
        Ok(())
    }

    /// Leaves nothing of them in memory.
    pub fn wipe(&mut self) {
        self.text.zeroize();
        self.places.clear();
    }

    /// Takes the lines of a head after the first.
    pub(super) fn from_lines(lines: &[&[u8]]) -> Result<Self, BadField> {
        let total = lines.iter().map(|line| line.len()).sum();
        let mut fields = Self { text: Vec::with_capacity(total), places: Vec::with_capacity(lines.len()) };
        for line in lines {
            fields.take_line(line)?;
        }
        Ok(fields)
    }

    /// Takes one line.
    pub(super) fn take_line(&mut self, line: &[u8]) -> Result<(), BadField> {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(BadField::Folded);
        }
        let colon = memchr::memchr(b':', line).ok_or(BadField::NoColon)?;
        let (name, value) = line.split_at_checked(colon).ok_or(BadField::NoColon)?;
        let name = str::from_utf8(name).map_err(|_| BadField::Name)?;
        self.push(name, value.get(1..).unwrap_or_default())
    }

    /// As much as [`Self::write`] writes, or more.
    pub(super) fn most_written(&self) -> usize {
        self.text.len() + self.len() * ": \r\n".len()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in self.parts() {
            write_field(out, name, value);
        }
    }
}

pub(super) fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// By what they say.
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.parts().eq(other.parts())
    }
}

impl Eq for Fields {}

/// Without values, which may be secret.
impl Debug for Fields {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

pub(super) fn is_token(text: &[u8]) -> bool {
    let mark = |byte: &u8| {
        matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
    };
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || mark(byte))
}

fn check_name(name: &[u8]) -> Result<(), BadField> {
    if !is_token(name) || (name.contains(&b'_') && is_disguise(name)) {
        return Err(BadField::Name);
    }
    Ok(())
}

/// Gateways of old turn underscores into hyphens, and then these mean something.
fn is_disguise(name: &[u8]) -> bool {
    let plain: Vec<u8> = name.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect();
    let guarded = [&b"content-length"[..], b"transfer-encoding", b"content-encoding", b"content-type"];
    guarded.iter().any(|name| plain.eq_ignore_ascii_case(name))
}

fn check_value(value: &[u8]) -> Result<(), BadField> {
    let plain = |byte: &u8| *byte == b'\t' || (*byte >= 0x20 && *byte != 0x7f);
    if value.iter().all(plain) { Ok(()) } else { Err(BadField::Value) }
}
