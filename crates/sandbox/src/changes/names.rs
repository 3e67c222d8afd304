//! Turns paths of any bytes into plain text and back.
//!
//! Invariant: the text has no control characters and nothing that turns the direction of writing, so a name cannot
//! act on a terminal or break a line of a journal; `unescaped(escaped(path))` is `path`.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path as one line of plain text: `\n`, `\\`, `\x1b`.
#[must_use]
pub fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if is_plain(c) => text.push(c),
                c => hex(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text),
            }
        }
        hex(chunk.invalid(), &mut text);
    }
    text
}

fn hex(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Neither a control character nor one that turns or hides text.
fn is_plain(c: char) -> bool {
    !c.is_control() && !redact::is_unseen(c)
}

/// The path that a text stands for; none if the text is not one of ours.
#[must_use]
pub fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'\\' => b'\\',
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'x' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(rest.next()?)? << 4 | digit(rest.next()?)?
            }
            _ => return None,
        });
    }
    Some(OsString::from_vec(bytes).into())
}

/// For `serde`: a path as its text.
pub(super) mod text {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::escaped(path))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        super::unescaped(&text).ok_or_else(|| D::Error::custom("not a path"))
    }
}
