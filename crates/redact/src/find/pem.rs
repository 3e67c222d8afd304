//! Key blocks: `-----BEGIN … KEY-----` to its end line, in lines or in one line with `\n` written out,
//! whole or cut. Certificates, public keys and signatures stay.

use super::{Body, Hit};
use crate::bytes::{ByteSet, at, line_end, line_start, slice};

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
    /// A certificate or a public key, whose lines begin here.
    Public(usize, Block),
    /// The same in one line, to here.
    PublicInline(usize),
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
    if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b" -".contains(byte)) {
        return None;
    }
    let body = label + length + DASHES.len();
    if PUBLIC.iter().any(|public| position(name, public).is_some()) {
        return Some(match slice(text, body, body + 1) {
            [] | [b'\n' | b'\r' | b' '] => Found::Public(line_end(text, body) + 1, Block { is_over: false }),
            _ => Found::PublicInline(inline(text, start, body).end),
        });
    }
    let blanks =
        slice(text, body, text.len()).iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    if matches!(at(text, body + blanks), None | Some(b'\n')) {
        let hit = Hit::ended(start, body);
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
            return Hit::ended(start, end);
        }
        end += 1;
    }
    Hit::of(start, end, Body::Of(&INLINE))
}

/// A key without its first line: the base64 around what only private keys begin with.
pub(super) fn body(text: &[u8], start: usize) -> Option<Hit> {
    let lead = slice(text, line_start(text, start, LABEL), start);
    let first = start - lead.iter().rev().take_while(|byte| BASE64.has(**byte)).count();
    // It stands in the first bytes; elsewhere it is chance.
    (start - first <= FULL).then(|| Hit::of(first, BASE64.run(text, start), Body::Of(&BASE64)))
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
    // A cut key in a string ends with its quote.
    let quotes = line.iter().rev().take_while(|byte| b"\"'`,;".contains(byte)).count();
    let line = slice(line, 0, line.len() - quotes);
    // A mark stands where something was masked already.
    if line.is_empty() || !line.iter().all(|byte| BASE64.has(*byte) || *byte == b'*') {
        return Line::Other;
    }
    if line.len() >= FULL { Line::Full } else { Line::Short }
}

/// Without indentation and quotation signs in front and blanks behind.
fn unprefixed(line: &[u8]) -> &[u8] {
    let lead = line
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'>' | b'|' | b'#' | b'*' | b'-' | b'+'))
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
