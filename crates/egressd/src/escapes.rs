//! Text with escapes in it into what the escapes stand for, and back to where they stood.

use std::ops::Range;

use zeroize::Zeroizing;

/// The most bytes that an escape writes one as.
pub(crate) const LONGEST: usize = 6;

/// What is behind escapes.
pub(crate) struct Plain {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    /// Where each of these bytes was written, and where the text ends.
    from: Vec<usize>,
}

impl Plain {
    /// Where this part of it is written.
    pub(crate) fn written(&self, part: &Range<usize>) -> Range<usize> {
        let place = |at: usize| self.from.get(at).or(self.from.last()).copied().unwrap_or_default();
        place(part.start)..place(part.end)
    }
}

/// What is behind the escapes of addresses and of JSON, however many of the characters they stand for; none if there are
/// no escapes.
pub(crate) fn unescaped(bytes: &[u8]) -> Option<Plain> {
    memchr::memchr2(b'%', b'\\', bytes)?;
    let mut plain = Plain { bytes: Zeroizing::new(Vec::with_capacity(bytes.len())), from: Vec::new() };
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (meant, length) = escape(bytes.get(at..).unwrap_or_default()).unwrap_or((*byte, 1));
        plain.bytes.push(meant);
        plain.from.push(at);
        at += length;
    }
    plain.from.push(at);
    Some(plain)
}

/// How many of the last bytes may be the beginning of an escape.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(LONGEST - 1);
    let tail = bytes.get(last..).unwrap_or_default();
    let begins = |at: &usize| {
        let rest = tail.get(*at..).unwrap_or_default();
        let needs = match rest {
            [b'%', ..] => 3,
            [b'\\'] => 2,
            [b'\\', b'u', ..] => LONGEST,
            _ => 0,
        };
        rest.len() < needs
    };
    (0..tail.len()).find(begins).map_or(0, |at| tail.len() - at)
}

/// The byte that an escape stands for, and how long it is. Those for other characters are none: no word has them.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let code = |digits: Option<&[u8]>| u32::from_str_radix(str::from_utf8(digits?).ok()?, 16).ok();
    let (meant, length) = match bytes {
        [b'%', ..] => (code(bytes.get(1..3)), 3),
        [b'\\', b'u', ..] => (code(bytes.get(2..6)), LONGEST),
        [b'\\', b'/', ..] => (Some(u32::from(b'/')), 2),
        _ => (None, 1),
    };
    Some((u8::try_from(meant?).ok()?, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_all_else_stays() {
        let cases = [
            ("%73k", "sk"),
            ("%2F%2f", "//"),
            ("\\u0073\\u006B", "sk"),
            ("a\\/b", "a/b"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("\\u12", "\\u12"),
            ("\\u2215", "\\u2215"),
            ("\\n\\\"", "\\n\\\""),
            // Once: what comes out is not read again.
            ("%2573", "%73"),
        ];
        for (text, meant) in cases {
            let read = unescaped(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&read.bytes), meant, "{text}");
            assert_eq!(read.written(&(0..read.bytes.len())), 0..text.len());
        }
        let read = unescaped(b"a%62\\u0063d").unwrap();
        assert_eq!((read.written(&(1..2)), read.written(&(2..4))), (1..4, 4..11));
        assert!(unescaped(b"nothing of it").is_none());
    }

    #[test]
    fn what_may_become_an_escape_is_known() {
        let cases = [
            ("", 0),
            ("a", 0),
            ("%", 1),
            ("a%4", 2),
            ("%41", 0),
            ("x\\", 1),
            ("\\u004", 5),
            ("\\u0041", 0),
            ("\\n", 0),
        ];
        for (text, count) in cases {
            assert_eq!(unfinished(text.as_bytes()), count, "{text}");
        }
    }
}
