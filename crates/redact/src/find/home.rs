//! Home folders: `/home/ana/x`, `/Users/ana/x`, `C:\Users\ana\x`, `\\host\Users\ana\x`, `/root/x`, `~ana/x` and
//! homes that were named become `~/x`.

use super::{Body, Hit, With};
use crate::bytes::{ByteSet, at, before, slice, stands_before};

/// Longest name of a user.
const NAME: usize = 64;

static NAMED: ByteSet = ByteSet::alphanumeric_and(b"._-@%+$");
static PATH: ByteSet = ByteSet::alphanumeric_and(b"._-~@+");

/// Homes that stand in unusual places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes(Vec<Vec<u8>>);

impl Homes {
    /// These and another.
    pub(crate) fn and(mut self, home: &[u8]) -> Self {
        let home = home.trim_ascii_end();
        let length = home.iter().rposition(|byte| !matches!(byte, b'/' | b'\\')).map_or(0, |last| last + 1);
        if let Some(home) = home.get(..length).filter(|home| home.len() > 1) {
            self.0.push(home.to_vec());
        }
        self
    }

    /// Adds the homes of the list, and those of the form `~name/`.
    pub(crate) fn find(&self, text: &[u8], from: usize, limit: usize, hits: &mut Vec<Hit>) {
        let rest = slice(text, from, text.len());
        for home in &self.0 {
            let found = memchr::memmem::find_iter(rest, home).map(|offset| from + offset);
            let found = found.filter(|start| *start < limit && begins_path(text, *start));
            let ends = found.map(|start| (start, start + home.len()));
            hits.extend(
                ends.filter(|(_, end)| ends_part(text, *end)).map(|(start, end)| hit(text, start, end)),
            );
        }
        for start in
            memchr::memchr_iter(b'~', rest).map(|offset| from + offset).filter(|start| *start < limit)
        {
            let end = NAMED.run(slice(text, 0, start + 1 + NAME), start + 1);
            let is_name = at(text, start + 1).is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
            let begins = before(text, start).is_none_or(|byte| b" \t\n\"'`=:(,[<>|;".contains(&byte));
            if is_name && begins && at(text, end) == Some(b'/') {
                hits.push(hit(text, start, end));
            }
        }
    }
}

/// What an anchor tells of. `end` is after it.
pub(super) fn find(text: &[u8], start: usize, end: usize) -> Option<Hit> {
    let anchor = slice(text, start, end);
    if anchor.eq_ignore_ascii_case(b"/root") {
        let is_home = anchor == b"/root" && begins_path(text, start) && ends_part(text, end);
        return is_home.then(|| hit(text, start, end));
    }
    if anchor.first() == Some(&b'/') && !matches!(anchor, b"/home/" | b"/Users/") {
        return None; // Paths know case here.
    }
    let is_windows = anchor.first() == Some(&b'\\');
    // `C:\\Users\\ana` in JSON
    let slashes = slice(text, end, end + 3).iter().take_while(|byte| is_windows && **byte == b'\\').count();
    let name = end + slashes;
    let after = NAMED.run(slice(text, 0, name + NAME), name);
    // Other letters than ours are part of a name too.
    let more = slice(text, after, name + NAME).iter().take_while(|byte| **byte >= 0x80 || NAMED.has(**byte));
    let after = after + more.count();
    // A stop belongs to the sentence.
    let stops = slice(text, name, after).iter().rev().take_while(|byte| b".%".contains(byte)).count();
    let after = after - stops;
    if after == name {
        return None;
    }
    let first = if is_windows { windows_start(text, start)? } else { unix_start(text, start)? };
    Some(hit(text, first, whole_name(text, first, name, after, is_windows)))
}

/// Where a name ends that may have several words, as `/Users/Ana Maria/x` has; `after` is where its first word ends. A blank also
/// parts the words of a command, so further ones count where a part of a path ends behind them and there is another sign: a
/// quote before the path, a separator that only Windows has, or words that begin as names of people do.
fn whole_name(text: &[u8], first: usize, name: usize, after: usize, is_windows: bool) -> usize {
    let (mut end, mut last) = (after, name);
    loop {
        let blank = match (at(text, end), at(text, end + 1)) {
            (Some(b' '), _) => 1,
            // As shells write it.
            (Some(b'\\'), Some(b' ')) if !is_windows => 2,
            _ => break,
        };
        last = end + blank;
        let word =
            slice(text, last, name + NAME).iter().take_while(|byte| **byte >= 0x80 || NAMED.has(**byte));
        end = last + word.count();
        if end == last || end >= name + NAME {
            return after;
        }
    }
    let quote = before(text, first).filter(|byte| b"\"'`".contains(byte));
    let is_named = |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_uppercase() || *byte >= 0x80);
    let ends = match at(text, end) {
        Some(b'/') => quote.is_some() || is_named(name) && is_named(last),
        Some(b'\\') => is_windows,
        other => quote.is_some() && other == quote,
    };
    if ends { end } else { after }
}

fn hit(text: &[u8], start: usize, end: usize) -> Hit {
    let slashes = slice(text, end, end + 4).iter().take_while(|byte| **byte == b'\\').count();
    let end = if at(text, end) == Some(b'/') { end + 1 } else { end + slashes };
    Hit { start, end, body: Body::Ended, with: With::Home }
}

/// Some systems keep homes elsewhere and have a link.
fn unix_start(text: &[u8], start: usize) -> Option<usize> {
    let leads: [&[u8]; 6] = [b"/var", b"/usr", b"/export", b"/mnt/c", b"/c", b"/System/Volumes/Data"];
    let lead = leads.iter().find(|lead| {
        stands_before(text, start, lead)
            && start.checked_sub(lead.len()).is_some_and(|at| begins_path(text, at))
    });
    match lead {
        Some(lead) => Some(start - lead.len()),
        None => begins_path(text, start).then_some(start),
    }
}

/// The drive, or the host and its share.
fn windows_start(text: &[u8], start: usize) -> Option<usize> {
    let lead = slice(text, start.saturating_sub(NAME), start);
    let lead = slice(lead, 0, lead.iter().rposition(|byte| *byte != b'\\').map_or(0, |last| last + 1));
    let start = start - (slice(text, start.saturating_sub(NAME), start).len() - lead.len());
    if lead.last() == Some(&b':') {
        let drive =
            start.checked_sub(2).filter(|drive| at(text, *drive).is_some_and(|b| b.is_ascii_alphabetic()))?;
        return Some(drive);
    }
    let host = lead.iter().rev().take_while(|byte| PATH.has(**byte) || **byte == b'\\').count();
    let first = start - host;
    (slice(text, first, first + 2) == b"\\\\").then_some(first)
}

/// Whether a path can begin here: its first part has nothing before it.
fn begins_path(text: &[u8], start: usize) -> bool {
    before(text, start).is_none_or(|byte| !(PATH.has(byte) || byte >= 0x80))
        || super::begins_word(text, start)
            && before(text, start).is_some_and(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a part of a path ends here.
fn ends_part(text: &[u8], end: usize) -> bool {
    match at(text, end) {
        None => true,
        Some(b'.') => at(text, end + 1).is_none_or(|byte| byte.is_ascii_whitespace()),
        Some(byte) => !(PATH.has(byte) || byte >= 0x80),
    }
}
