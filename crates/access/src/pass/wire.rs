//! The bytes of a Pass: libmacaroons' binary format, version 2.
//!
//! ```text
//! 2 | identifier, end | (caveat, end)* end | signature
//! field = type, length, bytes;  types: 0 end, 1 location, 2 identifier, 4 third party, 6 signature
//! ```
//!
//! Invariants: one spelling per Pass (lengths are written as short as they can be, nothing follows the
//! signature). The location is not covered by a macaroon's signature, so only an empty one is taken;
//! some libraries write it. First-party caveats only.

use super::{MAX_CAVEATS, PassError};

const VERSION: u8 = 2;
const END: u8 = 0;
const LOCATION: u8 = 1;
const IDENTIFIER: u8 = 2;
const THIRD_PARTY: u8 = 4;
const SIGNATURE: u8 = 6;

pub(super) const SIGNATURE_LEN: usize = 32;
/// Type, length and bytes of the signature, which end every Pass.
const SIGNATURE_FIELD: usize = 2 + SIGNATURE_LEN;

/// A Pass taken apart; nothing in it is believed yet.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) identifier: &'a [u8],
    /// Caveats as written, each with its end.
    body: &'a [u8],
    pub(super) count: usize,
    pub(super) signature: &'a [u8; SIGNATURE_LEN],
}

impl<'a> Raw<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, PassError> {
        let mut rest = Cursor(bytes);
        if rest.byte()? != VERSION {
            return Err(PassError::Malformed);
        }
        if rest.0.first() == Some(&LOCATION) && !rest.field(LOCATION)?.is_empty() {
            return Err(PassError::Malformed);
        }
        let identifier = rest.field(IDENTIFIER)?;
        rest.end()?;
        let body = rest.0;
        let mut count = 0;
        while rest.0.first() != Some(&END) {
            rest.caveat()?;
            count += 1;
            if count > MAX_CAVEATS {
                return Err(PassError::TooLarge);
            }
        }
        let length = body.len() - rest.0.len();
        rest.end()?;
        let signature = rest.field(SIGNATURE)?.try_into().map_err(|_| PassError::Malformed)?;
        if !rest.0.is_empty() {
            return Err(PassError::Malformed);
        }
        let body = body.get(..length).ok_or(PassError::Malformed)?;
        Ok(Self { identifier, body, count, signature })
    }

    /// The caveats, in order.
    pub(super) fn caveats(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = Cursor(self.body);
        std::iter::from_fn(move || rest.caveat().ok())
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, PassError> {
        let (first, rest) = self.0.split_first().ok_or(PassError::Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn end(&mut self) -> Result<(), PassError> {
        if self.byte()? == END { Ok(()) } else { Err(PassError::Malformed) }
    }

    fn field(&mut self, kind: u8) -> Result<&'a [u8], PassError> {
        if self.byte()? != kind {
            return Err(PassError::Malformed);
        }
        let length = self.length()?;
        let (field, rest) = self.0.split_at_checked(length).ok_or(PassError::Malformed)?;
        self.0 = rest;
        Ok(field)
    }

    /// One or two bytes are enough for any Pass; a longer spelling of the same number is refused.
    fn length(&mut self) -> Result<usize, PassError> {
        let low = self.byte()?;
        if low < 0x80 {
            return Ok(usize::from(low));
        }
        match self.byte()? {
            high @ 1..0x80 => Ok(usize::from(low & 0x7f) | usize::from(high) << 7),
            _ => Err(PassError::Malformed),
        }
    }

    fn caveat(&mut self) -> Result<&'a [u8], PassError> {
        let is_third_party = |kind: Option<&u8>| matches!(kind, Some(&(LOCATION | THIRD_PARTY)));
        if is_third_party(self.0.first()) {
            return Err(PassError::ThirdParty);
        }
        let caveat = self.field(IDENTIFIER)?;
        if is_third_party(self.0.first()) {
            return Err(PassError::ThirdParty);
        }
        self.end()?;
        Ok(caveat)
    }
}

/// The bytes of a Pass without caveats.
pub(super) fn begin(identifier: &[u8], signature: &[u8; SIGNATURE_LEN]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    field(&mut bytes, IDENTIFIER, identifier);
    bytes.extend([END, END]);
    field(&mut bytes, SIGNATURE, signature);
    bytes
}

/// The bytes of a well-formed Pass with one more caveat and the signature that covers it.
pub(super) fn append(pass: &[u8], caveat: &[u8], signature: &[u8; SIGNATURE_LEN]) -> Vec<u8> {
    // Before the end of the caveats and the signature field.
    let kept = pass.len().saturating_sub(SIGNATURE_FIELD + 1);
    let mut bytes = Vec::with_capacity(pass.len() + caveat.len() + 4);
    bytes.extend_from_slice(pass.get(..kept).unwrap_or_default());
    field(&mut bytes, IDENTIFIER, caveat);
    bytes.extend([END, END]);
    field(&mut bytes, SIGNATURE, signature);
    bytes
}

fn field(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    bytes.push(kind);
    let mut length = value.len();
    loop {
        let [low, ..] = length.to_le_bytes();
        length >>= 7;
        bytes.push(if length == 0 { low & 0x7f } else { low | 0x80 });
        if length == 0 {
            break;
        }
    }
    bytes.extend_from_slice(value);
}
