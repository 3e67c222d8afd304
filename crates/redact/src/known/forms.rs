//! The ways in which text holds a value without hiding it, as far as they are few: [`super::views`] reads the others.

use std::collections::BTreeSet;
use std::fmt::Write;

use zeroize::Zeroizing;

use super::MIN_VALUE;

/// One text to search for.
pub(super) struct Form {
    pub(super) text: Zeroizing<Vec<u8>>,
    /// Whether it stands in text as it is; otherwise only within what was decoded.
    pub(super) is_plain: bool,
}

/// Every form of a value.
pub(super) fn of(value: &[u8]) -> Vec<Form> {
    let mut texts: BTreeSet<Vec<u8>> = BTreeSet::new();
    let is_line = !value.contains(&b'\n') && !value.contains(&b'\r');
    // A line of a value shows up alone in line-wise output.
    for line in value.split(|byte| matches!(byte, b'\n' | b'\r')) {
        texts.insert(line.to_vec());
        // In quotes a line break is one, and what stands around it is written as a shell wants it.
        if !is_line && line.len() >= MIN_VALUE {
            texts.extend(quoted(line));
        }
    }
    if value.iter().any(|byte| !(byte.is_ascii_alphanumeric() || b"-_.~".contains(byte))) {
        for is_short in [true, false] {
            texts.extend([false, true].map(|is_ascii| json(value, is_ascii, is_short).into_bytes()));
        }
        texts.extend(quoted(value));
        for (blank, is_lower) in [("%20", false), ("+", false), ("%20", true)] {
            texts.insert(percent(value, blank, is_lower).into_bytes());
        }
        texts.insert(replaced(json(value, false, true).as_bytes(), b"/", b"\\/"));
        // JSON within JSON.
        texts.insert(json(json(value, false, true).as_bytes(), false, true).into_bytes());
    }
    texts.retain(|text| text.len() >= MIN_VALUE && !text.contains(&b'\n'));
    let mut forms: Vec<Form> =
        texts.into_iter().map(|text| Form { text: Zeroizing::new(text), is_plain: true }).collect();
    if !is_line {
        forms.push(Form { text: Zeroizing::new(value.to_vec()), is_plain: false });
    }
    forms
}

/// As shells write it.
fn quoted(text: &[u8]) -> [Vec<u8>; 5] {
    [
        shell(text, b"").into_bytes(),
        shell(text, b"\"$`\\").into_bytes(),
        shell(text, b"'\\").into_bytes(),
        replaced(text, b"'", b"'\\''"),
        replaced(text, b"'", b"'\"'\"'"),
    ]
}

/// Some writers have signs of their own for all that has one, others for the most usual only.
fn json(value: &[u8], is_ascii: bool, is_short: bool) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(value).chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' if is_short => text.push_str("\\b"),
            '\u{c}' if is_short => text.push_str("\\f"),
            other if (other.is_control() && other.is_ascii()) || (is_ascii && !other.is_ascii()) => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            other => text.push(other),
        }
    }
    text
}

fn percent(value: &[u8], blank: &str, is_lower: bool) -> String {
    let mut text = String::new();
    for byte in value {
        match byte {
            b' ' => text.push_str(blank),
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte if is_lower => text.push_str(&format!("%{byte:02x}")),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// A backslash before these, or before all that a shell might act on.
fn shell(value: &[u8], these: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(value).chars() {
        let acts = match u8::try_from(character) {
            Ok(byte) if these.is_empty() => {
                byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"-_./:=@%+,".contains(&byte)
            }
            Ok(byte) => these.contains(&byte),
            Err(_) => false,
        };
        if acts {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

fn replaced(value: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut from = 0;
    for place in memchr::memmem::find_iter(value, old) {
        out.extend_from_slice(crate::bytes::slice(value, from, place));
        out.extend_from_slice(new);
        from = place + old.len();
    }
    out.extend_from_slice(crate::bytes::slice(value, from, value.len()));
    out
}
