//! Key blocks: `-----BEGIN … KEY-----` to its end line, in lines or in one line with `\n` written out,
//! whole or cut. Certificates, public keys and signatures stay.

use super::{Body, Hit};
use crate::bytes::{ByteSet, at, line_end, slice};

pub(super) const BEGIN: &str = "-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";
/// Longest label that is looked for.
const LABEL: usize = 64;
/// A line that is at least this long is no last line.
const FULL: usize = 40;
/// How much of a line is looked at.
const LOOK: usize = 128;

static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=");
static INLINE: ByteSet = ByteSet::alphanumeric_and(b"+/= \t\r\\:,-");
const PUBLIC: [&[u8]; 6] =
    [b"CERTIFICATE", b"PUBLIC KEY", b"SIGNATURE", b"SIGNED MESSAGE", b"PARAMETERS", b"CRL"];

/// Within the lines of a block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// The last line was short, so only an end line can follow.
    is_over: bool,
}

pub(super) enum Found {
    Inline(Hit),
    Block(Hit, Block),
}

pub(super) enum Rest {
    /// The lines from here on are text again.
    Ends(usize),
    GoesOn,
}

pub(super) fn find(text: &[u8], start: usize, label: usize) -> Option<Found> {
    if slice(text, start, label) != BEGIN.as_bytes() {
        return None;
    }
    let window = slice(text, label, label + LABEL);
    let length = position(window, DASHES)?;
    let name = window.get(..length)?;
    if name.contains(&b'\n') || PUBLIC.iter().any(|public| position(name, public).is_some()) {
        return None;
    }
    let body = label + length + DASHES.len();
    let blanks =
        slice(text, body, text.len()).iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    if matches!(at(text, body + blanks), None | Some(b'\n')) {
        let hit = Hit { start, end: body, body: Body::Ended };
        return Some(Found::Block(hit, Block { is_over: false }));
    }
    Some(Found::Inline(inline(text, start, body)))
}

/// All in one line: to the end mark, else to whatever cannot be in a key with its newlines written out.
fn inline(text: &[u8], start: usize, body: usize) -> Hit {
    let mut end = body;
    while at(text, end).is_some_and(|byte| INLINE.has(byte)) {
        if slice(text, end, end + END.len()) == END {
            let after = end + END.len();
            let close = position(slice(text, after, line_end(slice(text, 0, after + LABEL), after)), DASHES);
            let end = close.map_or(after, |close| after + close + DASHES.len());
            return Hit { start, end, body: Body::Ended };
        }
        end += 1;
    }
    Hit { start, end, body: Body::Of(&INLINE) }
}

impl Block {
    /// Goes on through the lines at `from`.
    pub(super) fn end(&mut self, text: &[u8], mut from: usize) -> Rest {
        while from < text.len() {
            let end = line_end(text, from);
            let line = slice(text, from, end);
            if let Some(after) = closing(line) {
                let is_rest_blank = slice(line, after, line.len()).iter().all(u8::is_ascii_whitespace);
                return Rest::Ends(if is_rest_blank { (end + 1).min(text.len()) } else { from + after });
            }
            match classify(line) {
                Line::Full if !self.is_over => {}
                Line::Short if !self.is_over => self.is_over = true,
                Line::Header => {}
                Line::Full | Line::Short | Line::Other => return Rest::Ends(from),
            }
            from = (end + 1).min(text.len());
        }
        Rest::GoesOn
    }
}

enum Line {
    Full,
    Short,
    Header,
    Other,
}

fn classify(line: &[u8]) -> Line {
    let line = unprefixed(slice(line, 0, LOOK));
    if line.is_empty()
        || [&b"Proc-Type:"[..], b"DEK-Info:", b"Version:", b"Comment:"].iter().any(|h| line.starts_with(h))
    {
        return Line::Header;
    }
    if !line.iter().all(|byte| BASE64.has(*byte)) {
        return Line::Other;
    }
    if line.len() >= FULL { Line::Full } else { Line::Short }
}

/// Without indentation and quotation signs in front and blanks behind.
fn unprefixed(line: &[u8]) -> &[u8] {
    let lead = line
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'>' | b'|' | b'#' | b'*' | b'-'))
        .count();
    line.get(lead..).unwrap_or_default().trim_ascii_end()
}

/// Where the end mark of a line ends.
fn closing(line: &[u8]) -> Option<usize> {
    let line = slice(line, 0, LOOK);
    let after = position(line, END)? + END.len();
    let close = position(slice(line, after, line.len()), DASHES)?;
    Some(after + close + DASHES.len())
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
