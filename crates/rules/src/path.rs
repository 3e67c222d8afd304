//! Turns the path of a request into one that can be read in one way only, or refuses it.
//!
//! Invariant: nothing is rewritten. A path that two servers could read as two different ones is refused; the bytes
//! that were judged are the bytes that are sent.

use std::borrow::Cow;
use std::fmt;

/// More than any honest client sends.
const LONGEST: usize = 8192;

/// A path that can be read in one way only. Only [`canonical`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlPath<'a> {
    text: &'a str,
    scope: Scope,
}

/// Whether there is an encoded slash in it, as npm writes between a scope and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Plain,
    Encoded,
}

/// Why a path can be read in more than one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Odd {
    /// Does not begin with a slash.
    #[error("a path begins with `/`")]
    NotAbsolute,
    /// Longer than any honest one.
    #[error("a path has at most 8192 characters")]
    Long,
    /// Two slashes in a row.
    #[error("two slashes in a row")]
    EmptySegment,
    /// `.` or `..`, also with parameters or encoded.
    #[error("a segment of dots")]
    Dots,
    /// A semicolon, which some servers cut off with what follows.
    #[error("a semicolon")]
    Parameter,
    /// A character that has to be encoded: space, backslash, fragment, quotes, anything beyond ASCII.
    #[error("a character that is not allowed in a path")]
    Character,
    /// `%` without two hexadecimal digits.
    #[error("a broken percent-encoding")]
    Escape,
    /// An encoded slash or backslash.
    #[error("an encoded slash or backslash")]
    EncodedSlash,
    /// An encoded control character.
    #[error("an encoded control character")]
    Control,
    /// A letter, digit, dot, hyphen or underscore that needs no encoding.
    #[error("a plain character that is encoded without need")]
    Needless,
    /// An encoded percent sign before two hexadecimal digits.
    #[error("something that is encoded twice")]
    Twice,
    /// Encoded bytes that are no UTF-8, or a look-alike of a slash or dot.
    #[error("encoded bytes that are no plain text")]
    Text,
}

/// Checks a path, without its query. Gives back the very same text.
///
/// # Errors
/// The first thing in it that two servers could read differently.
pub fn canonical(text: &str) -> Result<UrlPath<'_>, Odd> {
    if !text.starts_with('/') {
        return Err(Odd::NotAbsolute);
    }
    if text.len() > LONGEST {
        return Err(Odd::Long);
    }
    let scope = if has_encoded_scope(text) { Scope::Encoded } else { Scope::Plain };
    let mut segments = text.split('/').skip(1).enumerate().peekable();
    while let Some((index, segment)) = segments.next() {
        if segment.is_empty() && segments.peek().is_some() {
            return Err(Odd::EmptySegment);
        }
        match segment.split_once(['%']).filter(|_| index == 0 && scope == Scope::Encoded) {
            // The digits `2f` of the one slash that may be encoded.
            Some((before, after)) => {
                check_segment(before)?;
                check_segment(after.get(2..).unwrap_or_default())?;
            }
            None => check_segment(segment)?,
        }
    }
    Ok(UrlPath { text, scope })
}

/// `/@scope%2fname`, as npm asks for packages of a scope: the one encoded slash that is let through, and only to
/// rules that know what it means.
fn has_encoded_scope(text: &str) -> bool {
    let first = text.strip_prefix("/@").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let parts = first.split_once("%2f").or_else(|| first.split_once("%2F"));
    let plain = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
        !part.is_empty() && !part.starts_with('.') && part.bytes().all(fits)
    };
    parts.is_some_and(|(scope, name)| plain(scope) && plain(name))
}

fn check_segment(segment: &str) -> Result<(), Odd> {
    if segment == "." || segment == ".." || segment.starts_with(".;") || segment.starts_with("..;") {
        return Err(Odd::Dots);
    }
    let mut rest = segment.as_bytes();
    let mut beyond_ascii = false;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'%' => {
                let [high, low, after @ ..] = rest else { return Err(Odd::Escape) };
                let decoded = byte_of(*high, *low).ok_or(Odd::Escape)?;
                rest = after;
                check_escape(decoded, rest)?;
                beyond_ascii |= !decoded.is_ascii();
            }
            b';' => return Err(Odd::Parameter),
            _ if is_plain(*byte) => {}
            _ => return Err(Odd::Character),
        }
    }
    if beyond_ascii { check_text(segment) } else { Ok(()) }
}

/// What RFC 3986 lets stand in a segment as it is, but for the semicolon.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b'='
                | b':'
                | b'@'
        )
}

fn check_escape(decoded: u8, rest: &[u8]) -> Result<(), Odd> {
    match decoded {
        b'/' | b'\\' => Err(Odd::EncodedSlash),
        0..=0x1f | 0x7f => Err(Odd::Control),
        b';' => Err(Odd::Parameter),
        b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Err(Odd::Needless),
        b'%' => match rest {
            [high, low, ..] if byte_of(*high, *low).is_some() => Err(Odd::Twice),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Overlong and broken sequences are no text; some servers turn look-alikes into the real thing.
fn check_text(segment: &str) -> Result<(), Odd> {
    let bytes = decoded_bytes(segment);
    let text = std::str::from_utf8(&bytes).map_err(|_| Odd::Text)?;
    let looks_alike = |one: char| {
        one.is_control()
            || matches!(
                one,
                '\u{2024}'..='\u{2026}' | '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29f5}' | '\u{29f8}' | '\u{29f9}'
                | '\u{fe52}' | '\u{fe68}' | '\u{ff01}'..='\u{ff5e}'
            )
    };
    if text.chars().any(looks_alike) { Err(Odd::Text) } else { Ok(()) }
}

fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

fn decoded_bytes(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [byte, after @ ..] = rest {
        rest = after;
        let escape = match rest {
            [high, low, ..] if *byte == b'%' => byte_of(*high, *low),
            _ => None,
        };
        bytes.push(escape.unwrap_or(*byte));
        if escape.is_some() {
            rest = rest.get(2..).unwrap_or_default();
        }
    }
    bytes
}

/// Text with its percent-encodings undone, for comparing; `None` if one is broken or it is no UTF-8.
pub(crate) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut pieces = text.split('%').skip(1);
    let whole = |piece: &str| matches!(piece.as_bytes(), [high, low, ..] if byte_of(*high, *low).is_some());
    if !pieces.all(whole) {
        return None;
    }
    String::from_utf8(decoded_bytes(text)).ok().map(Cow::Owned)
}

impl<'a> UrlPath<'a> {
    /// As it was sent and will be sent.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Whether it has the encoded slash of a scoped npm package, which other rules must not read.
    pub(crate) fn has_encoded_slash(&self) -> bool {
        self.scope == Scope::Encoded
    }

    /// As it is compared with patterns: without percent-encodings. No slash comes or goes by that, but for the one of
    /// a scope.
    pub(crate) fn meaning(&self) -> Cow<'a, str> {
        decoded(self.text).unwrap_or(Cow::Borrowed(self.text))
    }
}

impl fmt::Display for UrlPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text)
    }
}
