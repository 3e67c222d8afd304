//! Writes text as other formats write it. Marks (see `sample`) pass through unchanged.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::sample::{CLOSE, OPEN};

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn base64_url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The inside of a JSON string; source code of many languages takes it too.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ => out.push(letter),
        }
    }
    out
}

/// A value in a query or a URL's user part.
pub(crate) fn url(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || "-_.~".contains(letter) || [OPEN, CLOSE].contains(&letter) {
            out.push(letter);
        } else {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    out
}

/// A word of a shell: as it is where that is safe, else in single quotes.
pub(crate) fn shell(text: &str) -> String {
    let safe =
        |letter: char| letter.is_ascii_alphanumeric() || "-_.~/:=+,@%".contains(letter) || letter > '\u{7f}';
    if text.chars().all(safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The inside of a literal in single quotes.
pub(crate) fn single(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")
}

/// Text of XML and HTML, and the inside of an attribute.
pub(crate) fn markup(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

/// As GitHub's and npm's tokens end: a checksum of what stands before, six digits of base 62. Scanners that look at
/// it shall not be told that ours are wrong.
pub(crate) fn with_checksum(random: &str) -> String {
    let mut crc = u32::MAX;
    for byte in random.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (0_u32.wrapping_sub(crc & 1)));
        }
    }
    let (mut rest, mut digits) = (!crc, Vec::new());
    for _ in 0..6 {
        digits.push(char::from(crate::dice::ALNUM.as_bytes()[(rest % 62) as usize]));
        rest /= 62;
    }
    digits.iter().rev().fold(random.to_owned(), |mut all, digit| {
        all.push(*digit);
        all
    })
}
