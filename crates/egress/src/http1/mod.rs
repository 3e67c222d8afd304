//! Turns HTTP/1 as it was sent into requests and answers that can be judged, and those into HTTP/1 again.
//!
//! Flow: bytes -> [`HeadEnd`] (is the head there as a whole?) -> [`Request::parse`] or [`Response::parse`] -> its parts, which
//! are judged and perhaps changed -> [`Request::write`] or [`Response::write`]; then [`Body`], which says which of the bytes
//! that follow are content and where it ends.
//!
//! Invariants:
//! * there is one way to read what is accepted: a line ends with CR LF, a field has a plain name and a colon, a message has
//!   one length, a request is for one host. Everything else is refused whole, also where the protocol lets a recipient
//!   be kind;
//! * what is written comes from the parts: the length from [`Framing`], the host from the checked authority, the fields from
//!   [`Fields`], which holds none of those that are about one connection or about the length;
//! * a head is bounded, and content is never kept.
//!
//! Not here: rules, what a path means to a server, compression of content, the frames of HTTP/2 (whose heads are read here
//! all the same, once they are written as lines).

mod body;
mod chunked;
mod connection;
mod error;
mod fields;
mod framing;
mod head;
mod request;
mod response;
mod target;

pub use body::{Body, Step};
pub use chunked::{trailers, write_chunk, write_last_chunk};
pub use connection::Upgrade;
pub use error::{BadBody, BadField, BadHead};
pub use fields::Fields;
pub use framing::Framing;
pub use head::{HeadEnd, Version};
pub use request::{Method, Request};
pub use response::{Asked, Response};
pub use target::{Resource, Scheme, Target};

/// The longest head, with its last empty line.
pub const MAX_HEAD: usize = 64 * 1024;
/// The most fields of a head.
pub const MAX_FIELDS: usize = 100;
/// The longest target of a request.
pub const MAX_TARGET: usize = 16 * 1024;
/// The longest method.
pub const MAX_METHOD: usize = 32;
/// How long the fields after content may be, together.
pub const MAX_TRAILERS: usize = 8 * 1024;
