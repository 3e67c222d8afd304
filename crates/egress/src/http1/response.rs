//! The head of an answer.

use super::connection::{self, Connection, Upgrade};
use super::error::BadHead;
use super::fields::Fields;
use super::framing::{Declared, Framing};
use super::head::{self, Version};
use super::request::Method;

/// What was asked, as far as an answer cannot be read without knowing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    kind: Kind,
    version: Version,
    upgrade: Upgrade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head,
    Connect,
    Other,
}

impl Asked {
    pub(super) fn new(method: &Method, version: Version, upgrade: Upgrade) -> Self {
        let kind = match method.as_str() {
            "HEAD" => Kind::Head,
            "CONNECT" => Kind::Connect,
            _ => Kind::Other,
        };
        Self { kind, version, upgrade }
    }
}

/// An answer, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The version that the server speaks.
    pub version: Version,
    /// What came of the request.
    pub status: u16,
    /// The same in words, which mean nothing.
    pub reason: Vec<u8>,
    /// The fields that go on to the client, without those about the length and the connection.
    pub fields: Fields,
    declared: Declared,
    framing: Framing,
    persistent: bool,
    upgrade: Upgrade,
}

impl Response {
    /// Reads a whole head, as [`super::HeadEnd`] found it.
    pub fn parse(head: &[u8], asked: Asked) -> Result<Self, BadHead> {
        let lines = head::lines(head)?;
        let (first, rest) = lines.split_first().ok_or(BadHead::FirstLine)?;
        let (version, status, reason) = first_line(first)?;
        let mut fields = Fields::from_lines(rest)?;
        let declared = Declared::take(&mut fields, version)?;
        let Connection { persistent, upgrade } = Connection::take(&mut fields, version)?;
        let upgrade = check_upgrade(status, upgrade, asked)?;
        let (declared, framing) = framing(status, declared, asked)?;
        let persistent = persistent && !matches!(framing, Framing::UntilClose | Framing::Tunnel);
        Ok(Self { version, status, reason, fields, declared, framing, persistent, upgrade })
    }

    /// What follows the head.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// The length that the head says, also where no content follows.
    pub fn length(&self) -> Option<u64> {
        match self.declared {
            Declared::Length(length) => Some(length),
            Declared::Nothing | Declared::Chunked => None,
        }
    }

    /// Whether the server will take more requests.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Which other protocol follows.
    pub fn upgrade(&self) -> Upgrade {
        self.upgrade
    }

    /// Whether the real answer is still to come.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Says another length than the server did, for content that was changed. An answer without content stays without.
    pub fn set_length(&mut self, length: u64) {
        if matches!(self.framing, Framing::Length(_) | Framing::Chunked | Framing::UntilClose) {
            (self.framing, self.declared) = (Framing::Length(length), Declared::Length(length));
        }
    }

    /// Says no length, for content that is changed on its way: chunks where both sides know them, else the connection's end.
    pub fn forget_length(&mut self, asked: Asked) {
        if !matches!(self.framing, Framing::Length(_) | Framing::Chunked | Framing::UntilClose) {
            return;
        }
        if asked.version == Version::V11 && self.version == Version::V11 {
            (self.framing, self.declared) = (Framing::Chunked, Declared::Chunked);
        } else {
            (self.framing, self.declared, self.persistent) = (Framing::UntilClose, Declared::Nothing, false);
        }
    }

    /// Writes the head. Whether the client may send more on its connection is for the caller to say.
    pub fn write(&self, out: &mut Vec<u8>, persistent: bool) {
        out.extend_from_slice(self.version.text());
        out.extend_from_slice(format!(" {:03} ", self.status).as_bytes());
        out.extend_from_slice(&self.reason);
        out.extend_from_slice(b"\r\n");
        self.fields.write(out);
        self.declared.write(out);
        if !self.is_interim() && (self.framing != Framing::Tunnel || self.upgrade != Upgrade::None) {
            let persistent = persistent && self.framing != Framing::UntilClose;
            connection::write(out, self.version, persistent, self.upgrade);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Version, three digits, and words, of which there may be none.
fn first_line(line: &[u8]) -> Result<(Version, u16, Vec<u8>), BadHead> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let version = Version::parse(parts.next().unwrap_or_default())?;
    let digits = parts.next().ok_or(BadHead::FirstLine)?;
    let plain = digits.len() == 3 && digits.iter().all(u8::is_ascii_digit) && !digits.starts_with(b"0");
    let status = str::from_utf8(digits).ok().filter(|_| plain).and_then(|digits| digits.parse().ok());
    let status = status.ok_or(BadHead::Status)?;
    let reason = parts.next().unwrap_or_default();
    let odd = |byte: &u8| *byte != b'\t' && (*byte < 0x20 || *byte == 0x7f);
    if reason.iter().any(odd) {
        return Err(BadHead::FirstLine);
    }
    Ok((version, status, reason.to_vec()))
}

/// A server changes the protocol to the one that was asked for, or not at all.
fn check_upgrade(status: u16, upgrade: Upgrade, asked: Asked) -> Result<Upgrade, BadHead> {
    match (status, upgrade, asked.upgrade) {
        (101, Upgrade::WebSocket, Upgrade::WebSocket) => Ok(Upgrade::WebSocket),
        (101, ..) => Err(BadHead::Upgrade),
        _ => Ok(Upgrade::None),
    }
}

/// What the head may go on saying about content, and what really follows.
fn framing(status: u16, declared: Declared, asked: Asked) -> Result<(Declared, Framing), BadHead> {
    // Who speaks 1.0 does not know chunks.
    if declared == Declared::Chunked && asked.version == Version::V10 {
        return Err(BadHead::Coding);
    }
    let tunnel = status == 101 || (asked.kind == Kind::Connect && (200..300).contains(&status));
    let none = (100..200).contains(&status) || status == 204;
    if tunnel || none {
        // A client that believed a length here would wait for it, so it is not passed on.
        let framing = if tunnel { Framing::Tunnel } else { Framing::Empty };
        let bad = declared == Declared::Chunked;
        return if bad { Err(BadHead::Content) } else { Ok((Declared::Nothing, framing)) };
    }
    if asked.kind == Kind::Head || status == 304 {
        return Ok((declared, Framing::Empty));
    }
    let framing = match declared {
        Declared::Nothing => Framing::UntilClose,
        Declared::Length(length) => Framing::Length(length),
        Declared::Chunked => Framing::Chunked,
    };
    Ok((declared, framing))
}
