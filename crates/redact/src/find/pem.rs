//! Key blocks: `-----BEGIN … KEY-----` to its end line, in lines or in one line with `\n` written out,
//! whole or cut, with or without its first line. Certificates, public keys and signatures stay.

use super::{Body, Hit};
use crate::bytes::{ByteSet, at, line_end, line_start, slice};

pub(super) const BEGIN: &str = "----BEGIN ";
const FIRST: &[u8] = b"-----BEGIN ";
/// As some programs write it.
pub(super) const SPACED: &str = "---- BEGIN ";
const ENDS: [&[u8]; 3] = [b"-----END ", b"----END ", b"---- END "];
/// What all of them end with.
const END: &[u8] = b"END ";
const DASHES: &[u8] = b"----";
/// Longest label that is looked for.
const LABEL: usize = 64;
/// A line that is at least this long is no last line.
const FULL: usize = 40;
/// Shortest lines that a key is written in, all alike but the last.
const NARROW: usize = 16;
/// How many signs of the alphabet may be taken for indentation.
const SIGNED: usize = 2;
/// How much of a line is looked at.
const LOOK: usize = 128;
/// Most bytes before a first line that are remembered.
const LEAD: usize = 96;
/// How much longer or shorter they may be elsewhere: numbers of lines grow.
const SLACK: usize = 6;
/// Most signs after a first line that a program has there.
const SIGNS: usize = 16;

/// Line breaks that markup writes out, before a newline.
const BREAKS: [&[u8]; 5] = [b"<br>", b"<br/>", b"&#13;", b"&#xD;", b"&#xd;"];

/// Of a first line between its dashes.
static LABELLED: ByteSet = ByteSet::alphanumeric_and(b" -");
static BASE64: ByteSet = ByteSet::alphanumeric_and(b"+/=");
/// With `\n` and `&#10;` for line breaks.
static INLINE: ByteSet = ByteSet::alphanumeric_and(b"+/= \t\r\\:,-&#;");
static URL: ByteSet = ByteSet::alphanumeric_and(b"+/=%-_.");
const PUBLIC: [&[u8]; 6] =
    [b"CERTIFICATE", b"PUBLIC KEY", b"SIGNATURE", b"SIGNED MESSAGE", b"PARAMETERS", b"CRL"];

/// Within the lines of a block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// The last line was short, so only an end line can follow.
    is_over: bool,
    /// How long the first line of the key was, once it was seen.
    width: usize,
    /// Something beside blanks follows the first line, as in a program: a line of the key must come next.
    is_doubtful: bool,
    /// How many bytes stand before the first line: as many, or nearly, stand before the others.
    lead: usize,
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

/// `start` is the first of the last four dashes, `label` where the name begins.
pub(super) fn find(text: &[u8], start: usize, label: usize) -> Option<Found> {
    let start =
        start - slice(text, start.saturating_sub(1), start).iter().filter(|byte| **byte == b'-').count();
    let window = slice(text, label, label + LABEL);
    let length = position(window, DASHES)?;
    let name = window.get(..length)?;
    if !name.iter().all(|byte| LABELLED.has(*byte)) {
        return None;
    }
    let is_public = is_public(name);
    // Written so by hand: only what says that it is private is a key.
    let is_loose = slice(text, start, start + FIRST.len()) != FIRST;
    if is_loose && !is_public && position(name, b"PRIVATE").is_none() {
        return None;
    }
    let body = after_dashes(text, label + length);
    let blanks =
        slice(text, body, text.len()).iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    let after = body + blanks;
    let lead = start - line_start(text, start, LEAD);
    let block = Block { is_over: false, width: 0, is_doubtful: false, lead };
    let is_bare = matches!(at(text, after), None | Some(b'\n'));
    // `"-----BEGIN PRIVATE KEY-----\n" +`
    let close = closed_line(text, body);
    match (is_public, is_bare, close) {
        (true, true, _) => Some(Found::Public(after + 1, block)),
        (true, false, Some(newline)) => Some(Found::Public(newline + 1, block)),
        (true, false, None) => Some(Found::PublicInline(inline(text, start, body, Stop::AtNext).end)),
        (false, true, _) => Some(Found::Block(Hit::ended(start, body), block)),
        (false, false, Some(_)) => {
            Some(Found::Block(Hit::ended(start, body), Block { is_doubtful: true, ..block }))
        }
        (false, false, None) => Some(Found::Inline(inline(text, start, body, Stop::AtEnd))),
    }
}

/// Whether a label says that what follows may be seen.
fn is_public(name: &[u8]) -> bool {
    // What all of them begin with.
    static FIRST: ByteSet = ByteSet::of(b"CPScps");
    let mut places = (0..name.len()).filter(|place| at(name, *place).is_some_and(|byte| FIRST.has(byte)));
    places.any(|place| PUBLIC.iter().any(|public| stands(name, place, public)))
}

/// The newline after what a program has behind a line: quotes, a written line break, a plus.
fn closed_line(text: &[u8], from: usize) -> Option<usize> {
    let rest = slice(text, from, from + SIGNS);
    let signs =
        rest.iter().position(|byte| !b" \t\r\\nr\"'`,;+|)\x1b[0m".contains(byte)).unwrap_or(rest.len());
    let close = from + signs;
    let written = BREAKS.iter().find(|written| slice(text, close, close + written.len()) == **written);
    let close = close + written.map_or(0, |written| written.len());
    (at(text, close) == Some(b'\n')).then_some(close)
}

/// As URLs write it: `-----BEGIN%20PRIVATE%20KEY-----%0A…`.
pub(super) fn url(text: &[u8], start: usize, label: usize) -> Option<Hit> {
    let window = slice(text, label, label + LABEL);
    let name = window.get(..position(window, DASHES)?)?;
    let is_private = position(name, b"PRIVATE").is_some() && name.iter().all(|byte| URL.has(*byte));
    is_private.then(|| Hit::of(start, URL.run(text, label), Body::Of(&URL)))
}

/// What a key in one line ends at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtEnd,
    /// Or where the next begins, which is looked at for itself.
    AtNext,
}

/// All in one line: to the end mark, else to whatever cannot be in a key with its newlines written out.
fn inline(text: &[u8], start: usize, body: usize, stop: Stop) -> Hit {
    let mut end = body;
    while at(text, end).is_some_and(|byte| INLINE.has(byte)) {
        let is_dash = at(text, end) == Some(b'-');
        if is_dash && stop == Stop::AtNext && stands(text, end, BEGIN.as_bytes()) {
            break;
        }
        let close = ENDS.iter().find(|close| is_dash && stands(text, end, close));
        if let Some(after) = close.map(|close| end + close.len()) {
            let close = position(slice(text, after, line_end(slice(text, 0, after + LABEL), after)), DASHES);
            let end = close.map_or(after, |close| after_dashes(text, after + close));
            return Hit::ended(start, end);
        }
        end += 1;
    }
    Hit::of(start, end, Body::Of(&INLINE))
}

/// A key without its first line: the base64 around what only private keys begin with, and the lines after it.
pub(super) fn body(text: &[u8], start: usize) -> Option<Found> {
    let lead = slice(text, line_start(text, start, LABEL), start);
    let first = start - lead.iter().rev().take_while(|byte| BASE64.has(**byte)).count();
    // The last part of a colour is no part of a key: `ESC[31mMIIE…`.
    let colour = slice(text, first, first + 4).iter().position(|byte| *byte == b'm');
    let colour = colour.filter(|m| super::follows_colour(text, first + m)).map_or(0, |m| m + 1);
    let first = first + colour;
    // It stands in the first bytes; elsewhere it is chance.
    if start - first > FULL {
        return None;
    }
    let end = BASE64.run(text, start);
    let hit = Hit::of(first, end, Body::Of(&BASE64));
    if end - first >= FULL && closed_line(text, end).is_some() {
        let lead = first - line_start(text, first, LEAD);
        return Some(Found::Block(hit, Block { is_over: false, width: FULL, is_doubtful: false, lead }));
    }
    let goes_on = end - first >= FULL && at(text, end).is_some_and(|byte| b"\\&".contains(&byte));
    Some(Found::Inline(if goes_on { inline(text, first, end, Stop::AtEnd) } else { hit }))
}

impl Block {
    /// Goes on through the lines at `from`.
    pub(super) fn end(&mut self, text: &[u8], mut from: usize) -> Rest {
        while from < text.len() {
            let end = line_end(text, from);
            let line = slice(text, from, end);
            // An empty line, as markup writes it.
            if BREAKS.contains(&line.trim_ascii()) {
                from = (end + 1).min(text.len());
                continue;
            }
            if let Some(after) = closing(line).filter(|_| !self.is_doubtful) {
                let is_rest_blank = slice(line, after, line.len()).iter().all(u8::is_ascii_whitespace);
                return Rest::Ends(if is_rest_blank { (end + 1).min(text.len()) } else { from + after });
            }
            // The next block, which is looked at for itself.
            let is_next = line.starts_with(FIRST) && at(line, FIRST.len()).is_some_and(|byte| byte > b' ');
            if is_next && self.lead == 0 {
                return Rest::Ends(from);
            }
            match self.classify(line) {
                Line::Full if !self.is_over => {}
                Line::Short(length) if !self.is_over && !self.is_doubtful => {
                    self.is_over = length < NARROW || length.abs_diff(self.width) > SIGNED;
                }
                Line::Header if !self.is_doubtful => {}
                Line::Full | Line::Short(_) | Line::Header | Line::Other => return Rest::Ends(from),
            }
            self.is_doubtful = false;
            from = (end + 1).min(text.len());
        }
        Rest::GoesOn
    }

    /// What a line is, perhaps with as much before it as stood before the first line.
    fn classify(&mut self, line: &[u8]) -> Line {
        let is_prefixed = self.lead > 0;
        let whole = slice(line, 0, LOOK + 2 * LEAD);
        let line = match kind(slice(whole, 0, LOOK), self.width > 0) {
            Line::Other if is_prefixed => {
                let bare = unclosed(whole);
                let run = bare.iter().rev().take_while(|byte| BASE64.has(**byte) || **byte == b'*').count();
                if (bare.len() - run).abs_diff(self.lead) <= SLACK {
                    kind(slice(bare, bare.len() - run, bare.len()), true)
                } else if slice(whole, 0, self.lead + SLACK).len() >= whole.trim_ascii_end().len() && run < 2
                {
                    Line::Header // An empty line, with what stands before all.
                } else {
                    kind(slice(whole, self.lead, whole.len()), self.width > 0)
                }
            }
            line => line,
        };
        if self.width == 0 {
            self.width = match line {
                Line::Full => FULL,
                Line::Short(length) => length,
                Line::Header | Line::Other => 0,
            };
        }
        line
    }
}

enum Line {
    Full,
    /// Of so many bytes.
    Short(usize),
    Header,
    Other,
}

fn kind(line: &[u8], has_begun: bool) -> Line {
    let line = unprefixed(line);
    if line.is_empty()
        || [&b"Proc-Type:"[..], b"DEK-Info:", b"Version:", b"Comment:"].iter().any(|h| line.starts_with(h))
        || (!has_begun && is_header(line))
    {
        return Line::Header;
    }
    // A cut key in a string ends with its quote.
    let line = unclosed(line);
    // A mark stands where something was masked already.
    if line.is_empty() || !line.iter().all(|byte| BASE64.has(*byte) || *byte == b'*') {
        return Line::Other;
    }
    if line.len() >= FULL { Line::Full } else { Line::Short(line.len()) }
}

/// `Name: value`
fn is_header(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    line.first().is_some_and(u8::is_ascii_uppercase) && slice(line, name, name + 2) == b": "
}

/// Without what closes a string, a cell or a colour, and without a line break that is written out.
fn unclosed(line: &[u8]) -> &[u8] {
    let bare = |line: &[u8]| {
        let signs = line.iter().rev().take_while(|byte| b"\"'`,; \t\r|)".contains(byte)).count();
        line.len() - signs
    };
    let mut line = slice(line, 0, bare(line));
    // `…\n" +`; a plus with no quote before it is of the key.
    if let Some(rest) = line.strip_suffix(b"+").filter(|rest| bare(rest) < rest.len()) {
        line = slice(rest, 0, bare(rest));
    }
    for end in [&b"\x1b[0m"[..], b"<br>", b"<br/>", b"&#13", b"&#xD", b"&#xd", b"\\n", b"\\r", b"\\"] {
        line = line.strip_suffix(end).unwrap_or(line);
    }
    line
}

/// Without indentation and quotation signs in front and blanks behind.
fn unprefixed(line: &[u8]) -> &[u8] {
    let lead = line
        .iter()
        .take_while(|byte| {
            matches!(byte, b' ' | b'\t' | b'>' | b'|' | b'#' | b'*' | b'-' | b'+' | b'"' | b'\'')
        })
        .count();
    line.get(lead..).unwrap_or_default().trim_ascii_end()
}

/// Where the end mark of a line ends.
fn closing(line: &[u8]) -> Option<usize> {
    let line = slice(line, 0, LOOK + LEAD);
    // Most lines do not have the word.
    let word = position(line, END)?;
    let ends = |end: &[u8]| {
        let mark = slice(line, (word + END.len()).saturating_sub(end.len()), line.len());
        position(mark, end).map(|place| line.len() - mark.len() + place + end.len())
    };
    let after = ENDS.iter().find_map(|end| ends(end))?;
    let close = position(slice(line, after, line.len()), DASHES)?;
    Some(after_dashes(line, after + close))
}

/// Past the dashes here, of which four or five are a mark.
fn after_dashes(text: &[u8], from: usize) -> usize {
    from + slice(text, from, from + 5).iter().take_while(|byte| **byte == b'-').count()
}

/// Whether this stands here, in whatever case.
fn stands(text: &[u8], from: usize, wanted: &[u8]) -> bool {
    slice(text, from, from + wanted.len()).eq_ignore_ascii_case(wanted)
}

/// Where this stands first, in whatever case.
fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = wanted.first()?.to_ascii_lowercase();
    // The first byte tells most often; what makes letters small may make another of a sign, too.
    let begins = |window: &[u8]| window.first().is_some_and(|byte| byte | 0x20 == first);
    text.windows(wanted.len()).position(|window| begins(window) && window.eq_ignore_ascii_case(wanted))
}
