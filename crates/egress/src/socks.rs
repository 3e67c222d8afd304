//! Turns what a SOCKS5 client sends into the destination that it wants, and our word into replies.
//!
//! Flow: a prefix that grows -> [`greeting`] -> [`WELCOME`] -> a new prefix -> [`request`] -> [`Wanted`] -> [`reply`].
//!
//! Invariants: version 5 without a password, and connections only; a name is one that can exist, an address has one
//! form; each refusal knows the bytes that tell the client. Not here: which destinations are allowed.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::cursor::Cursor;
use crate::host::{BadHost, Host};
use crate::prefix::Prefix;

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const CONNECT: u8 = 1;

/// The answer to a greeting that was taken: go on, without a password.
pub const WELCOME: [u8; 2] = [VERSION, NO_PASSWORD];

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// To whom.
    pub host: Host,
    /// To which port, which is not zero.
    pub port: u16,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The tunnel is there.
    Succeeded = 0,
    /// Something went wrong on our side.
    Failed = 1,
    /// No rule allows it.
    NotAllowed = 2,
    /// There is no way to that network.
    NetworkUnreachable = 3,
    /// There is no way to that host.
    HostUnreachable = 4,
    /// The host does not want it.
    Refused = 5,
    /// It took too long.
    Expired = 6,
    /// Not a connection.
    CommandNotSupported = 7,
    /// Neither a name nor an address.
    AddressNotSupported = 8,
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSocks {
    /// Another version, or another protocol.
    #[error("the client does not speak SOCKS version 5")]
    Version,
    /// It insists on a password.
    #[error("the client does not offer to go on without a password")]
    Method,
    /// It wants to listen, or to send datagrams.
    #[error("the client asks for something other than a connection")]
    Command,
    /// An address of an unknown kind.
    #[error("the client names its destination by an unknown kind of address")]
    AddressKind,
    /// A byte that must be zero is not.
    #[error("the request of the client is malformed")]
    Reserved,
    /// A name that cannot be.
    #[error("the client wants a host that cannot be: {0}")]
    Host(#[source] BadHost),
    /// No port.
    #[error("the client wants port 0")]
    Port,
}

impl BadSocks {
    /// What to send before hanging up. A client of another protocol gets nothing.
    pub fn reply(self) -> Vec<u8> {
        match self {
            Self::Version => Vec::new(),
            Self::Method => vec![VERSION, 0xff],
            Self::Command => reply(Reply::CommandNotSupported).to_vec(),
            Self::AddressKind => reply(Reply::AddressNotSupported).to_vec(),
            Self::Reserved | Self::Port => reply(Reply::Failed).to_vec(),
            Self::Host(_) => reply(Reply::NotAllowed).to_vec(),
        }
    }
}

/// Reads the first message of a client. What it offers besides does not matter.
pub fn greeting(prefix: &[u8]) -> Result<Prefix<()>, BadSocks> {
    let mut cursor = Cursor::new(prefix);
    check_version(cursor.u8())?;
    let Some(methods) = cursor.short_piece() else { return Ok(Prefix::NeedMore) };
    if !methods.contains(&NO_PASSWORD) {
        return Err(BadSocks::Method);
    }
    Ok(Prefix::Whole { value: (), len: prefix.len() - cursor.rest().len() })
}

fn check_version(byte: Option<u8>) -> Result<(), BadSocks> {
    if byte.is_none_or(|version| version == VERSION) { Ok(()) } else { Err(BadSocks::Version) }
}

/// Reads the second message of a client. What is wrong is told as soon as it is seen.
pub fn request(prefix: &[u8]) -> Result<Prefix<Wanted>, BadSocks> {
    let mut cursor = Cursor::new(prefix);
    check_version(cursor.u8())?;
    if cursor.u8().is_some_and(|command| command != CONNECT) {
        return Err(BadSocks::Command);
    }
    if cursor.u8().is_some_and(|reserved| reserved != 0) {
        return Err(BadSocks::Reserved);
    }
    let Some(kind) = cursor.u8() else { return Ok(Prefix::NeedMore) };
    let Some(host) = host(kind, &mut cursor)? else { return Ok(Prefix::NeedMore) };
    match cursor.u16() {
        None => Ok(Prefix::NeedMore),
        Some(0) => Err(BadSocks::Port),
        Some(port) => {
            Ok(Prefix::Whole { value: Wanted { host, port }, len: prefix.len() - cursor.rest().len() })
        }
    }
}

/// The destination, if it is there as a whole. A name may be an address in letters.
fn host(kind: u8, cursor: &mut Cursor<'_>) -> Result<Option<Host>, BadSocks> {
    match kind {
        1 => {
            let bytes = cursor.take(4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
            Ok(bytes.map(|bytes| Ipv4Addr::from(bytes).into()))
        }
        3 => cursor.short_piece().map(Host::parse_bare).transpose().map_err(BadSocks::Host),
        4 => {
            let bytes = cursor.take(16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            Ok(bytes.map(|bytes| Ipv6Addr::from(bytes).into()))
        }
        _ => Err(BadSocks::AddressKind),
    }
}

/// The message that tells a client what became of its request. Which address we went out from is nobody's business.
pub fn reply(code: Reply) -> [u8; 10] {
    [VERSION, code as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}
