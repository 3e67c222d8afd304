//! Turns a body into a stored line and a stored line back into an [`Entry`].
//!
//! A line is `{"v":1,"seq":..,"at":..,"checkpoint":..,"prev":"..",<body>,"mac":".."}`. Invariant: the code
//! covers the exact stored bytes before `,"mac"`, so re-hashing the file gives the chain; there is one way
//! to write the end of a line. Not here: whether a line is the right one at its place ([`crate::verify`]).

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::{Deserialize, Serialize};

use crate::draft::{Decision, MAX_LINE};
use crate::keys::{ChainKey, Code};

/// The version of the line format.
pub(crate) const VERSION: u8 = 1;

const MAC_START: &[u8] = b",\"mac\":\"";
const MAC_END: &[u8] = b"\"}";

/// One recorded entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Version of the format.
    pub v: u8,
    /// Its place, from 1, without gaps.
    pub seq: u64,
    /// When, in milliseconds since the epoch, as this machine's clock said.
    pub at: i64,
    /// The number of the last checkpoint written before it.
    pub checkpoint: u64,
    /// The code of the entry before, in hex.
    pub prev: String,
    /// Who acted.
    pub who: String,
    /// What was done.
    pub action: String,
    /// On what.
    pub resource: String,
    /// What came of it.
    pub decision: Decision,
    /// Why.
    pub cause: String,
    /// An effect follows and another entry closes this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opens: bool,
    /// The entry this one closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes: Option<u64>,
    /// More, by name.
    pub detail: BTreeMap<String, String>,
    /// The code of this entry, in hex.
    pub mac: String,
}

impl Entry {
    /// Whether it waited in the reserve and was chained later than it happened.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.detail.get("late").is_some_and(|word| word == "true")
    }
}

/// Where a line goes in the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    pub(crate) checkpoint: u64,
    pub(crate) prev: Code,
}

/// Appends one line with its line feed to `out` and returns its code.
pub(crate) fn write_line(out: &mut Vec<u8>, place: Place, body: &[u8], key: &ChainKey) -> Code {
    let start = out.len();
    let Place { seq, at, checkpoint, prev } = place;
    // Writing to a `Vec` cannot fail.
    let _ =
        write!(out, "{{\"v\":{VERSION},\"seq\":{seq},\"at\":{at},\"checkpoint\":{checkpoint},\"prev\":\"");
    push_hex(out, &prev);
    out.extend_from_slice(b"\",");
    out.extend_from_slice(body);
    let code = key.code(out.get(start..).unwrap_or_default());
    out.extend_from_slice(MAC_START);
    push_hex(out, &code);
    out.extend_from_slice(MAC_END);
    out.push(b'\n');
    code
}

/// A body with the mark of an entry that waited in the reserve.
pub(crate) fn mark_late(body: &[u8]) -> Vec<u8> {
    let mut out = body.strip_suffix(b"}").unwrap_or(body).to_vec();
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    out.extend_from_slice(b"\"late\":\"true\"}");
    out
}

/// Splits a line into the bytes its code covers and the code, if it ends as a line must.
pub(crate) fn split(line: &[u8]) -> Option<(&[u8], Code)> {
    let rest = line.strip_suffix(MAC_END)?;
    let (rest, hex) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    Some((rest.strip_suffix(MAC_START)?, from_hex(hex)?))
}

/// Why a line is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("the line is longer than {MAX_LINE} bytes")]
    TooLong,
    #[error("the line is not an entry")]
    NotAnEntry,
    #[error("the line has a version this program does not know")]
    Version,
}

/// Reads a line (without its line feed).
pub(crate) fn parse(line: &[u8]) -> Result<(Entry, Code), BadLine> {
    if line.len() > MAX_LINE {
        return Err(BadLine::TooLong);
    }
    let (_, code) = split(line).ok_or(BadLine::NotAnEntry)?;
    let entry: Entry = serde_json::from_slice(line).map_err(|_| BadLine::NotAnEntry)?;
    if entry.v != VERSION {
        return Err(BadLine::Version);
    }
    Ok((entry, code))
}

/// Appends lower-case hex.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'));
        }
    }
}

/// Reads lower-case hex and nothing else: one value has one spelling, or a changed case would go unseen.
pub(crate) fn from_hex<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    if hex.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    let mut out = [0; N];
    hex::decode_to_slice(hex, &mut out).ok()?;
    Some(out)
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
