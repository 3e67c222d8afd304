//! Turns the first bytes of a connection into what a TLS client says of itself before anything is encrypted.
//!
//! Flow: a prefix that grows -> [`read`] -> [`Reading`].
//!
//! Invariants: the whole ClientHello is there and well-formed before anything of it is told; it ends where its record ends;
//! no extension stands in it twice; it names one host at most, as a name and never as an address. While more is needed a
//! call looks at record headers only, of which there are few: a client that sends single bytes costs no more than others.
//!
//! Not here: whether the name is the one that was dialled, and TLS itself.

use crate::cursor::Cursor;
use crate::host::{BadHost, HostName};

/// The longest ClientHello, without the headers of its records.
pub const MAX_HELLO: usize = 16 * 1024;
/// The most records that a ClientHello may be split over.
pub const MAX_RECORDS: usize = 32;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;

mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const ALPN: u16 = 16;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    /// Only ever inside of an encrypted hello.
    pub(super) const OUTER_EXTENSIONS: u16 = 0xfd00;
    pub(super) const ENCRYPTED_HELLO: u16 = 0xfe0d;
    /// What came before encrypted hellos.
    pub(super) const ENCRYPTED_NAME: u16 = 0xffce;
}

/// What the first bytes of a connection are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The beginning of a ClientHello, perhaps.
    NeedMore,
    /// Something else than TLS.
    NotTls,
    /// A whole ClientHello.
    Hello(Hello),
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which host it wants.
    pub server_name: Option<HostName>,
    /// The protocols that it offers, in its order.
    pub alpn: Vec<Vec<u8>>,
    /// Whether there is, or seems to be, a second hello in it that only the server can read. Some clients always send
    /// such an extension and fill it with noise; nobody can tell the difference, so whoever must know the name cannot
    /// pass this hello on.
    pub ech: bool,
    /// The versions that it offers, in its order: `0x0304` is TLS 1.3.
    pub versions: Vec<u16>,
    /// How many bytes of the connection it takes, with the headers of its records.
    pub len: usize,
}

/// Why a ClientHello is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHello {
    /// Another message first.
    #[error("the first message of the connection is not a client hello")]
    OtherMessage,
    /// In the form of an earlier time.
    #[error("the client greets in a form that cannot name a host")]
    Old,
    /// A record that is empty, too long, of another type or version, or one too many.
    #[error("the client hello is split over records that are odd or too many")]
    Records,
    /// More than anyone sends.
    #[error("the client hello is longer than {MAX_HELLO} bytes")]
    TooLong,
    /// Lengths that do not fit, or something behind the end.
    #[error("the client hello is malformed")]
    Malformed,
    /// An extension stands there twice.
    #[error("the client hello has an extension twice")]
    Duplicate,
    /// No name, several, or another kind of name.
    #[error("the client hello names not exactly one host")]
    Names,
    /// A name that cannot be.
    #[error("the client hello names a host that cannot be: {0}")]
    Name(#[source] BadHost),
}

/// The kinds of records that TLS has. Some servers take others before the first hello.
const RECORDS: std::ops::RangeInclusive<u8> = 20..=24;

/// Whether bytes that begin with this one could be TLS.
#[must_use]
pub fn could_be(first: u8) -> bool {
    RECORDS.contains(&first) || first >= 0x80
}

/// Reads what there is so far.
pub fn read(prefix: &[u8]) -> Result<Reading, BadHello> {
    match *prefix {
        [kind] if RECORDS.contains(&kind) => return Ok(Reading::NeedMore),
        [kind, 3, ..] if kind != HANDSHAKE && RECORDS.contains(&kind) => return Err(BadHello::OtherMessage),
        // As clients greeted before there were names in it; there are servers that answer it with any version.
        [0x80..=0xff, _, CLIENT_HELLO, 3, ..] | [0x80..=0xff, _, CLIENT_HELLO, 0, 2, ..] => {
            return Err(BadHello::Old);
        }
        [0x80..=0xff]
        | [0x80..=0xff, _]
        | [0x80..=0xff, _, CLIENT_HELLO]
        | [0x80..=0xff, _, CLIENT_HELLO, 0] => {
            return Ok(Reading::NeedMore);
        }
        _ => {}
    }
    if !prefix.iter().zip([HANDSHAKE, 3]).all(|(is, must)| *is == must) {
        return Ok(Reading::NotTls);
    }
    match fragments(prefix)? {
        None => Ok(Reading::NeedMore),
        Some((len, fragments)) => parse(&fragments, len).map(Reading::Hello),
    }
}

/// The whole message without its header, and how many bytes its records take.
fn fragments(prefix: &[u8]) -> Result<Option<(usize, Vec<u8>)>, BadHello> {
    let mut cursor = Cursor::new(prefix);
    let mut have = 0;
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut start = [0; MESSAGE_HEADER];
    loop {
        if parts.len() == MAX_RECORDS {
            return Err(BadHello::Records);
        }
        let Some(length) = record_header(&mut cursor)? else { return Ok(None) };
        let part = cursor.rest().get(..length);
        let seen = part.unwrap_or(cursor.rest());
        for (to, from) in start.iter_mut().skip(have).zip(seen) {
            *to = *from;
        }
        let total = message_length(&start, have + seen.len())?;
        let Some(part) = part else { return Ok(None) };
        cursor.take(length);
        parts.push(part);
        have += length;
        if total.is_some_and(|total| have >= total) {
            let message = parts.concat().split_off(MESSAGE_HEADER);
            return if total == Some(have) {
                Ok(Some((prefix.len() - cursor.rest().len(), message)))
            } else {
                Err(BadHello::Malformed)
            };
        }
    }
}

/// The length of the next record, if its header is there; what is wrong with the header is told as soon as it is seen.
fn record_header(cursor: &mut Cursor<'_>) -> Result<Option<usize>, BadHello> {
    let header = cursor.rest().get(..RECORD_HEADER).unwrap_or(cursor.rest());
    let mut seen = Cursor::new(header);
    let (kind, major, minor) = (seen.u8(), seen.u8(), seen.u8());
    let odd = kind.is_some_and(|it| it != HANDSHAKE)
        || major.is_some_and(|it| it != 3)
        || minor.is_some_and(|it| it > 4);
    if odd {
        return Err(BadHello::Records);
    }
    let Some(length) = seen.u16().map(usize::from) else { return Ok(None) };
    if length == 0 || length > MAX_HELLO {
        return Err(BadHello::Records);
    }
    cursor.take(RECORD_HEADER);
    Ok(Some(length))
}

/// How long the message is with its header, as far as that was seen.
fn message_length(start: &[u8; MESSAGE_HEADER], seen: usize) -> Result<Option<usize>, BadHello> {
    let mut start = Cursor::new(start);
    if seen > 0 && start.u8() != Some(CLIENT_HELLO) {
        return Err(BadHello::OtherMessage);
    }
    if seen < MESSAGE_HEADER {
        return Ok(None);
    }
    let length = start.u24().and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX);
    if length > MAX_HELLO { Err(BadHello::TooLong) } else { Ok(Some(MESSAGE_HEADER + length)) }
}

fn parse(message: &[u8], len: usize) -> Result<Hello, BadHello> {
    let (version, extensions) = split(message).ok_or(BadHello::Malformed)?;
    if !(0x0300..=0x0303).contains(&version) {
        return Err(BadHello::Malformed);
    }
    let mut hello = Hello { server_name: None, alpn: Vec::new(), ech: false, versions: vec![version], len };
    let mut seen = Vec::new();
    let mut cursor = Cursor::new(extensions);
    while !cursor.is_empty() {
        let kind = cursor.u16().ok_or(BadHello::Malformed)?;
        let content = cursor.piece().ok_or(BadHello::Malformed)?;
        seen.push(kind);
        take_extension(&mut hello, kind, content)?;
    }
    seen.sort_unstable();
    if seen.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(BadHello::Duplicate);
    }
    Ok(hello)
}

/// The version and the extensions, when everything else is well-formed.
fn split(message: &[u8]) -> Option<(u16, &[u8])> {
    let mut cursor = Cursor::new(message);
    let version = cursor.u16()?;
    let _random = cursor.take(32)?;
    let session = cursor.short_piece()?;
    let suites = cursor.piece()?;
    let compressions = cursor.short_piece()?;
    let extensions = if cursor.is_empty() { &[] } else { cursor.piece()? };
    let fits = session.len() <= 32
        && !suites.is_empty()
        && suites.len() % 2 == 0
        && compressions.contains(&0)
        && cursor.is_empty();
    fits.then_some((version, extensions))
}

fn take_extension(hello: &mut Hello, kind: u16, content: &[u8]) -> Result<(), BadHello> {
    match kind {
        extension::SERVER_NAME => hello.server_name = Some(server_name(content)?),
        extension::ALPN => hello.alpn = protocols(content).ok_or(BadHello::Malformed)?,
        extension::SUPPORTED_VERSIONS => hello.versions = versions(content).ok_or(BadHello::Malformed)?,
        extension::ENCRYPTED_HELLO | extension::ENCRYPTED_NAME => hello.ech = true,
        extension::OUTER_EXTENSIONS => return Err(BadHello::Malformed),
        _ => {}
    }
    Ok(())
}

fn server_name(content: &[u8]) -> Result<HostName, BadHello> {
    let mut cursor = Cursor::new(content);
    let mut list = Cursor::new(cursor.piece().ok_or(BadHello::Malformed)?);
    if !cursor.is_empty() {
        return Err(BadHello::Malformed);
    }
    let kind = list.u8().ok_or(BadHello::Names)?;
    let name = list.piece().ok_or(BadHello::Malformed)?;
    if kind != 0 || !list.is_empty() {
        return Err(BadHello::Names);
    }
    // The protocol has names without the last dot, and what we judge is what a server compares.
    if name.ends_with(b".") {
        return Err(BadHello::Name(BadHost::EmptyLabel));
    }
    HostName::parse(name).map_err(BadHello::Name)
}

fn protocols(content: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut cursor = Cursor::new(content);
    let mut list = Cursor::new(cursor.piece()?);
    let mut found = Vec::new();
    while !list.is_empty() {
        found.push(list.short_piece().filter(|name| !name.is_empty())?.to_vec());
    }
    (cursor.is_empty() && !found.is_empty()).then_some(found)
}

fn versions(content: &[u8]) -> Option<Vec<u16>> {
    let mut cursor = Cursor::new(content);
    let mut list = Cursor::new(cursor.short_piece()?);
    let mut found = Vec::new();
    while !list.is_empty() {
        found.push(list.u16()?);
    }
    (cursor.is_empty() && !found.is_empty()).then_some(found)
}
