//! Where the content of a message ends: the one question that two programs must never answer differently.

use super::error::BadHead;
use super::fields::{Fields, write_field};
use super::head::Version;

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing.
    Empty,
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its size.
    Chunked,
    /// Everything until the connection ends. Answers only.
    UntilClose,
    /// No HTTP any more: a tunnel, or the protocol that was agreed to. Answers only.
    Tunnel,
}

/// What the fields of a head say about its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

impl Declared {
    /// Reads it and takes it out of the fields.
    pub(super) fn take(fields: &mut Fields, version: Version) -> Result<Self, BadHead> {
        let coded = chunked(fields, version)?;
        let length = length(fields)?;
        fields.remove("transfer-encoding");
        fields.remove("content-length");
        match (coded, length) {
            (true, Some(_)) => Err(BadHead::TwoLengths),
            (true, None) => Ok(Self::Chunked),
            (false, Some(length)) => Ok(Self::Length(length)),
            (false, None) => Ok(Self::Nothing),
        }
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Nothing => {}
            Self::Length(length) => write_field(out, b"Content-Length", length.to_string().as_bytes()),
            Self::Chunked => write_field(out, b"Transfer-Encoding", b"chunked"),
        }
    }
}

fn chunked(fields: &Fields, version: Version) -> Result<bool, BadHead> {
    if fields.all("transfer-encoding").next().is_none() {
        return Ok(false);
    }
    let coding = fields.only("transfer-encoding").filter(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    coding.filter(|_| version == Version::V11).map(|_| true).ok_or(BadHead::Coding)
}

fn length(fields: &Fields) -> Result<Option<u64>, BadHead> {
    if fields.all("content-length").next().is_none() {
        return Ok(None);
    }
    let text = fields.only("content-length").ok_or(BadHead::Length)?;
    // With fifteen digits no program loses count, not even one that counts in floating point.
    let plain = (1..=15).contains(&text.len())
        && text.iter().all(u8::is_ascii_digit)
        && (text.len() == 1 || !text.starts_with(b"0"));
    let number = str::from_utf8(text).ok().filter(|_| plain).and_then(|text| text.parse().ok());
    number.map(Some).ok_or(BadHead::Length)
}
