//! Why HTTP/1 is refused.

use super::{MAX_FIELDS, MAX_HEAD, MAX_TARGET, MAX_TRAILERS};
use crate::host::BadHost;

/// Why a field is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadField {
    /// A line that begins with a space goes on where the one before ended.
    #[error("a header is folded over several lines")]
    Folded,
    /// No colon.
    #[error("a header has no colon")]
    NoColon,
    /// An empty name, or one with a space or another byte that stands in no name.
    #[error("the name of a header is odd")]
    Name,
    /// A control character.
    #[error("the value of a header has a control character")]
    Value,
}

/// Why the head of a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// Too many bytes.
    #[error("the head of the message is longer than {MAX_HEAD} bytes, or its target than {MAX_TARGET}")]
    TooLong,
    /// Too many fields.
    #[error("the head of the message has more than {MAX_FIELDS} headers")]
    TooMany,
    /// A line that ends with LF alone, or has a CR elsewhere.
    #[error("a line of the head does not end with CR and LF")]
    LineEnd,
    /// No three parts, or an empty line before them.
    #[error("the first line of the message is malformed")]
    FirstLine,
    /// No method, or one with other than upper-case letters.
    #[error("the method is no word of upper-case letters")]
    Method,
    /// Another version than 1.0 and 1.1.
    #[error("the version is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    /// A target of a form that does not go with the method, or with bytes that do not belong there.
    #[error("the target of the request is malformed")]
    Target,
    /// A field that is none.
    #[error("{0}")]
    Field(#[source] BadField),
    /// A host that cannot be.
    #[error("the request is for a host that cannot be: {0}")]
    Host(#[source] BadHost),
    /// No host, or several.
    #[error("the request has not exactly one Host header")]
    Hosts,
    /// The target says one host and the field another.
    #[error("the Host header and the target of the request do not agree")]
    HostMismatch,
    /// Not one plain number.
    #[error("the length of the content is not one plain number")]
    Length,
    /// Anything but `chunked`, once, in version 1.1.
    #[error("the transfer coding is not exactly `chunked`")]
    Coding,
    /// A length and a transfer coding.
    #[error("the message has both a length and a transfer coding")]
    TwoLengths,
    /// Content where there can be none.
    #[error("the message has content where there can be none")]
    Content,
    /// It names what is not about the connection, or is malformed.
    #[error("the Connection header is malformed or names a header that is not about the connection")]
    Connection,
    /// A field that says one thing only stands there twice, and programs disagree about which one counts.
    #[error("a header that can stand in a request once stands in it twice")]
    Twice,
    /// An expectation that nobody knows.
    #[error("the Expect header asks for something other than `100-continue`")]
    Expect,
    /// A WebSocket that is not asked for as it must be, or another protocol than was asked for.
    #[error("the change of protocol is malformed or was not asked for")]
    Upgrade,
    /// No three digits.
    #[error("the status of the answer is malformed")]
    Status,
}

impl From<BadField> for BadHead {
    fn from(why: BadField) -> Self {
        Self::Field(why)
    }
}

/// Why content is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// No plain number in base 16.
    #[error("the size of a chunk is malformed or too large")]
    ChunkSize,
    /// Something after the size of a chunk.
    #[error("a chunk has an extension")]
    Extension,
    /// A chunk that does not end where it said.
    #[error("a chunk does not end with CR and LF where it should")]
    ChunkEnd,
    /// Too much after the content.
    #[error("the trailers are longer than {MAX_TRAILERS} bytes")]
    TrailersTooLong,
    /// A field that is none.
    #[error("a trailer is malformed: {0}")]
    Trailer(#[source] BadField),
    /// A field that means something before the content only.
    #[error("a trailer has a name that must stand before the content")]
    Forbidden,
    /// The connection ended too early.
    #[error("the connection ended before the content did")]
    Truncated,
}
