//! Turns one query of the name system, as a program in the sandbox sent it, into a question, and our word into its answer.
//!
//! Flow: a datagram, or a message cut out of a stream by [`message`] -> [`read`] -> [`Query`] -> [`Query::reply`].
//!
//! Invariants: one question in the class of the internet, a name of plain labels, nothing behind it but one EDNS record;
//! an answer repeats the question as it was sent, letter case included, and fits into 512 bytes; an answer that came as
//! a query gets none. Not here: which names have an address.

use std::net::IpAddr;

use crate::cursor::Cursor;
use crate::host::{BadHost, HostName};
use crate::prefix::Prefix;

/// The longest query. With padding, programs send about 500 bytes.
pub const MAX_QUERY: usize = 1232;
const HEADER: usize = 12;
const CLASS_IN: u16 = 1;
const TYPE_OPT: u16 = 41;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An IPv4 address.
    A,
    /// An IPv6 address.
    Aaaa,
    /// How to reach a service.
    Svcb,
    /// How to reach a web server.
    Https,
    /// Anything else, by its number.
    Other(u16),
}

impl From<u16> for Kind {
    fn from(number: u16) -> Self {
        match number {
            1 => Self::A,
            28 => Self::Aaaa,
            64 => Self::Svcb,
            65 => Self::Https,
            other => Self::Other(other),
        }
    }
}

/// How an answer begins, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    id: u16,
    /// The flags that an answer repeats: operation, recursion desired, checking disabled.
    kept: u16,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    header: Header,
    /// The name that is asked for.
    pub name: HostName,
    /// What is asked for.
    pub kind: Kind,
    /// As it was sent.
    question: Vec<u8>,
    edns: bool,
}

/// What we say to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This address, for so many seconds. To a question for the other kind of address, or for anything else, this is the
    /// same as [`Answer::Empty`]: the name exists.
    Address(IpAddr, u32),
    /// The name exists and has nothing of that kind.
    Empty,
    /// There is no such name.
    NoSuchName,
    /// We cannot tell now.
    Failure,
    /// We do not want to tell.
    Refused,
}

impl Answer {
    fn code(self) -> Code {
        match self {
            Self::Address(..) | Self::Empty => Code::NoError,
            Self::NoSuchName => Code::NxDomain,
            Self::Failure => Code::ServFail,
            Self::Refused => Code::Refused,
        }
    }
}

/// The result codes that we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
    BadVers = 16,
}

/// What is wrong with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// It is cut short or goes on after its end.
    #[error("the query is cut short, too long, or goes on after its end")]
    Length,
    /// It is an answer.
    #[error("the message is an answer, not a query")]
    IsAnswer,
    /// Something other than a plain query.
    #[error("the operation is not a plain query")]
    Operation,
    /// Not one question, or records that no query has.
    #[error("the query has not exactly one question, or has records that no query has")]
    Counts,
    /// A pointer instead of a label, or a kind of label that nobody uses.
    #[error("the question is compressed")]
    Compressed,
    /// A name that we do not serve.
    #[error("the name is not one that can exist: {0}")]
    Name(#[source] BadHost),
    /// Not the internet's.
    #[error("the class is not that of the internet")]
    Class,
    /// An EDNS record that cannot be read.
    #[error("the EDNS record is malformed")]
    Edns,
    /// A version of EDNS that does not exist yet.
    #[error("the version of EDNS is not 0")]
    EdnsVersion,
}

impl BadQuery {
    fn code(self) -> Code {
        match self {
            Self::Length | Self::IsAnswer | Self::Counts | Self::Compressed | Self::Edns => Code::FormErr,
            Self::Operation => Code::NotImp,
            Self::Name(_) | Self::Class => Code::Refused,
            Self::EdnsVersion => Code::BadVers,
        }
    }
}

/// A message that holds no question that we could answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// What is wrong with it.
    #[source]
    pub why: BadQuery,
    header: Option<Header>,
    /// As it was sent, if that much could be read.
    question: Vec<u8>,
}

impl Refusal {
    /// What to send back, if anything: nobody answers an answer, or less than a header.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let header = self.header?;
        Some(begin(header, self.why.code(), &self.question, 0, self.why == BadQuery::EdnsVersion))
    }
}

/// Reads one query.
pub fn read(message: &[u8]) -> Result<Query, Refusal> {
    let mut cursor = Cursor::new(message);
    let silent = |why| Refusal { why, header: None, question: Vec::new() };
    let (id, flags) = header(&mut cursor).ok_or(silent(BadQuery::Length))?;
    if flags & 0x8000 != 0 {
        return Err(silent(BadQuery::IsAnswer));
    }
    let header = Header { id, kept: flags & 0x7910 };
    // A resolver waits on if the answer to a question that it sent does not repeat it.
    let mut question = Vec::new();
    match read_rest(message, flags, cursor, &mut question) {
        Ok((name, kind, edns)) => Ok(Query { header, name, kind, question, edns }),
        Err(why) => Err(Refusal { why, header: Some(header), question }),
    }
}

fn header(cursor: &mut Cursor<'_>) -> Option<(u16, u16)> {
    let mut whole = Cursor::new(cursor.rest().get(..HEADER)?);
    cursor.take(4)?;
    Some((whole.u16()?, whole.u16()?))
}

fn read_rest(
    message: &[u8],
    flags: u16,
    mut cursor: Cursor<'_>,
    question: &mut Vec<u8>,
) -> Result<(HostName, Kind, bool), BadQuery> {
    if message.len() > MAX_QUERY {
        return Err(BadQuery::Length);
    }
    if flags & 0x7800 != 0 {
        return Err(BadQuery::Operation);
    }
    let mut count = || cursor.u16().ok_or(BadQuery::Length);
    let (questions, answers, authorities, others) = (count()?, count()?, count()?, count()?);
    // A query is not cut, is no authority, and its result is not known.
    if questions != 1 || answers != 0 || authorities != 0 || others > 1 || flags & 0x060f != 0 {
        return Err(BadQuery::Counts);
    }
    let start = cursor.rest();
    let name = name(&mut cursor)?;
    let kind = Kind::from(cursor.u16().ok_or(BadQuery::Length)?);
    let class = cursor.u16().ok_or(BadQuery::Length)?;
    question.extend(start.get(..start.len() - cursor.rest().len()).unwrap_or_default());
    if others == 1 {
        edns(&mut cursor)?;
    }
    if !cursor.is_empty() {
        return Err(BadQuery::Length);
    }
    if class != CLASS_IN {
        return Err(BadQuery::Class);
    }
    Ok((name.map_err(BadQuery::Name)?, kind, others == 1))
}

/// The name of a question. What follows is malformed if the labels are; if only the name is odd, it is not.
fn name(cursor: &mut Cursor<'_>) -> Result<Result<HostName, BadHost>, BadQuery> {
    let mut labels = Vec::new();
    let mut total = 1;
    loop {
        let length = usize::from(cursor.u8().ok_or(BadQuery::Length)?);
        if length == 0 {
            break;
        }
        if length > crate::host::MAX_LABEL {
            return Err(BadQuery::Compressed);
        }
        total += length + 1;
        if total > 255 {
            return Err(BadQuery::Length);
        }
        labels.push(cursor.take(length).ok_or(BadQuery::Length)?);
    }
    Ok(HostName::from_labels(labels))
}

/// One record that belongs to the root and says what the asker can take.
fn edns(cursor: &mut Cursor<'_>) -> Result<(), BadQuery> {
    let root = cursor.u8().ok_or(BadQuery::Length)?;
    let kind = cursor.u16().ok_or(BadQuery::Length)?;
    if root != 0 || kind != TYPE_OPT {
        return Err(BadQuery::Counts);
    }
    let _payload = cursor.u16().ok_or(BadQuery::Length)?;
    let _result = cursor.u8().ok_or(BadQuery::Length)?;
    let version = cursor.u8().ok_or(BadQuery::Length)?;
    let _flags = cursor.u16().ok_or(BadQuery::Length)?;
    let mut options = Cursor::new(cursor.piece().ok_or(BadQuery::Length)?);
    if version != 0 {
        return Err(BadQuery::EdnsVersion);
    }
    while !options.is_empty() {
        let _code = options.u16().ok_or(BadQuery::Edns)?;
        options.piece().ok_or(BadQuery::Edns)?;
    }
    Ok(())
}

impl Query {
    /// The message that says `answer` to this question.
    pub fn reply(&self, answer: Answer) -> Vec<u8> {
        let record = self.record(answer);
        let mut message =
            begin(self.header, answer.code(), &self.question, u16::from(record.is_some()), self.edns);
        if let Some(record) = record {
            // Records of answers stand before those of EDNS.
            let at = message.len() - if self.edns { OPT.len() } else { 0 };
            message.splice(at..at, record);
        }
        message
    }

    /// The record that goes with an answer. Its name is a pointer to the question's.
    fn record(&self, answer: Answer) -> Option<Vec<u8>> {
        let Answer::Address(address, ttl) = answer else { return None };
        let (kind, bytes) = match (address, self.kind) {
            (IpAddr::V4(v4), Kind::A) => (1_u16, v4.octets().to_vec()),
            (IpAddr::V6(v6), Kind::Aaaa) => (28, v6.octets().to_vec()),
            _ => return None,
        };
        let mut record = vec![0xc0, 0x0c];
        record.extend(kind.to_be_bytes());
        record.extend(CLASS_IN.to_be_bytes());
        record.extend(ttl.min(i32::MAX as u32).to_be_bytes());
        record.extend([0, if kind == 1 { 4 } else { 16 }]);
        record.extend(bytes);
        Some(record)
    }
}

/// The EDNS record of our answers: version 0, messages of up to 1232 bytes, no options.
const OPT: [u8; 11] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];

/// A message without records of answers.
fn begin(header: Header, code: Code, question: &[u8], answers: u16, edns: bool) -> Vec<u8> {
    let code = code as u16;
    // An answer, and recursion is at hand: without that some resolvers take an empty answer for a referral.
    let flags = 0x8080 | header.kept | (code & 0x0f);
    let mut message = Vec::with_capacity(HEADER + question.len() + 28 + OPT.len());
    for number in [header.id, flags, u16::from(!question.is_empty()), answers, 0, u16::from(edns)] {
        message.extend(number.to_be_bytes());
    }
    message.extend(question);
    if edns {
        let mut record = OPT;
        let [_, _, _, _, _, extended, ..] = &mut record;
        *extended = (code >> 4) as u8;
        message.extend(record);
    }
    message
}

/// The first message of a stream, where each has its length before it. One that is too long is a reason to hang up.
pub fn message(stream: &[u8]) -> Result<Prefix<&[u8]>, BadQuery> {
    let mut cursor = Cursor::new(stream);
    let Some(length) = cursor.u16() else { return Ok(Prefix::NeedMore) };
    let length = usize::from(length);
    if !(HEADER..=MAX_QUERY).contains(&length) {
        return Err(BadQuery::Length);
    }
    let whole = |value| Prefix::Whole { value, len: 2 + length };
    Ok(cursor.take(length).map_or(Prefix::NeedMore, whole))
}

/// An answer as it goes into a stream.
pub fn framed(answer: &[u8]) -> Vec<u8> {
    let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
    let mut stream = length.to_be_bytes().to_vec();
    stream.extend(answer.iter().take(usize::from(length)));
    stream
}
