//! The heads of frames, and masks.

use super::BadFrame;
use crate::cursor::Cursor;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    /// More of the message before it.
    Continuation,
    /// A text, or its beginning.
    Text,
    /// Bytes, or their beginning.
    Binary,
    /// The end.
    Close,
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
}

impl Opcode {
    fn parse(number: u8) -> Result<Self, BadFrame> {
        match number {
            0 => Ok(Self::Continuation),
            1 => Ok(Self::Text),
            2 => Ok(Self::Binary),
            8 => Ok(Self::Close),
            9 => Ok(Self::Ping),
            10 => Ok(Self::Pong),
            _ => Err(BadFrame::Opcode),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(super) fn is_control(self) -> bool {
        match self {
            Self::Close | Self::Ping | Self::Pong => true,
            Self::Continuation | Self::Text | Self::Binary => false,
        }
    }
}

/// What stands before the content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) fin: bool,
    /// The first reserved bit.
    pub(super) compressed: bool,
    pub(super) opcode: Opcode,
    pub(super) length: u64,
    pub(super) mask: Option<[u8; 4]>,
}

/// The longest head of a frame.
const MAX_HEADER: usize = 14;

/// A head that is not there as a whole.
#[derive(Default)]
pub(super) struct Header {
    bytes: [u8; MAX_HEADER],
    have: usize,
}

/// Whether a head is there as a whole.
pub(super) enum Decoded {
    NeedMore,
    Whole(Head),
}

impl Header {
    /// Takes bytes of the head and says how many.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, Decoded), BadFrame> {
        let mut used = 0;
        for byte in input {
            let Some(place) = self.bytes.get_mut(self.have) else { return Err(BadFrame::Length) };
            *place = *byte;
            self.have += 1;
            used += 1;
            if let Some(head) = decode(self.bytes.get(..self.have).unwrap_or_default())? {
                return Ok((used, Decoded::Whole(head)));
            }
        }
        Ok((used, Decoded::NeedMore))
    }
}

/// The head, if these bytes are all of it. What is wrong is told as soon as it is there.
fn decode(bytes: &[u8]) -> Result<Option<Head>, BadFrame> {
    let mut cursor = Cursor::new(bytes);
    let Some(first) = cursor.u8() else { return Ok(None) };
    if first & 0x30 != 0 {
        return Err(BadFrame::Reserved);
    }
    let opcode = Opcode::parse(first & 0x0f)?;
    let Some(second) = cursor.u8() else { return Ok(None) };
    let Some(length) = length(second & 0x7f, &mut cursor)? else { return Ok(None) };
    let mask = if second & 0x80 == 0 {
        None
    } else {
        let Some(mask) = cursor.take(4).and_then(|mask| mask.try_into().ok()) else { return Ok(None) };
        Some(mask)
    };
    Ok(Some(Head { fin: first & 0x80 != 0, compressed: first & 0x40 != 0, opcode, length, mask }))
}

/// A length in the shortest way that holds it.
fn length(short: u8, cursor: &mut Cursor<'_>) -> Result<Option<u64>, BadFrame> {
    let (width, least) = match short {
        126 => (2, 126),
        127 => (8, 1 << 16),
        short => return Ok(Some(u64::from(short))),
    };
    let Some(bytes) = cursor.take(width) else { return Ok(None) };
    let length = bytes.iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    let good = (least..=i64::MAX as u64).contains(&length);
    if good { Ok(Some(length)) } else { Err(BadFrame::Length) }
}

/// Masks or unmasks content that begins `offset` bytes into its frame.
pub(super) fn mask(bytes: &mut [u8], mask: Option<[u8; 4]>, offset: u64) {
    let Some(mut mask) = mask else { return };
    mask.rotate_left((offset % 4) as usize);
    for chunk in bytes.chunks_mut(4) {
        for (byte, key) in chunk.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
}

/// One frame to be written.
pub(super) struct Frame<'a> {
    pub(super) opcode: Opcode,
    pub(super) fin: bool,
    pub(super) compressed: bool,
    pub(super) content: &'a [u8],
}

impl Frame<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>, key: Option<[u8; 4]>) {
        let bits = if self.fin { 0x80 } else { 0 } | if self.compressed { 0x40 } else { 0 };
        out.push(self.opcode.number() | bits);
        let masked = if key.is_some() { 0x80 } else { 0 };
        let length = self.content.len();
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(length @ 0..=125), _) => out.push(masked | length),
            (_, Ok(length)) => {
                out.push(masked | 126);
                out.extend_from_slice(&length.to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(key.as_ref().map_or(&[], |key| &key[..]));
        let start = out.len();
        out.extend_from_slice(self.content);
        mask(out.get_mut(start..).unwrap_or_default(), key, 0);
    }
}
