//! What a request is for: a path at a host, a host to be connected to, or a server as such.

use std::fmt::{self, Debug, Formatter};

use zeroize::Zeroize;

use super::error::BadHead;
use super::{MAX_TARGET, Method};
use crate::host::Authority;

/// How a request says what it is for. Whom it is for is [`super::Request::authority`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `/path?query`, as servers get it.
    Origin(Resource),
    /// `http://host/path?query`, as proxies get it.
    Absolute(Scheme, Resource),
    /// `host:port`, with CONNECT only.
    Connect,
    /// `*`, with OPTIONS only.
    Server,
}

impl Target {
    /// The path and the query, if the target has them.
    pub fn resource(&self) -> Option<&Resource> {
        match self {
            Self::Origin(resource) | Self::Absolute(_, resource) => Some(resource),
            Self::Connect | Self::Server => None,
        }
    }
}

/// The scheme of an absolute target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The port that is meant when none is said.
    pub fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A path that begins with a slash, and perhaps a query: visible ASCII without space, fragment or half an escape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    text: Box<str>,
    path: usize,
}

impl Resource {
    /// From text as it stands in a request.
    pub fn parse(text: &[u8]) -> Result<Self, BadHead> {
        if text.len() > MAX_TARGET {
            return Err(BadHead::TooLong);
        }
        let path = memchr::memchr(b'?', text).unwrap_or(text.len());
        let (before, after) = text.split_at_checked(path).ok_or(BadHead::Target)?;
        let query = after.get(1..).unwrap_or_default();
        let good = before.starts_with(b"/")
            && before.iter().all(|byte| is_path_byte(*byte))
            && query.iter().all(|byte| is_query_byte(*byte))
            && escapes_are_whole(text);
        let text = str::from_utf8(text).ok().filter(|_| good).ok_or(BadHead::Target)?;
        Ok(Self { text: text.into(), path })
    }

    /// Leaves nothing of it in memory.
    pub(super) fn wipe(&mut self) {
        self.text.zeroize();
        self.path = 0;
    }

    /// Path and query, as they are sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.text.get(..self.path).unwrap_or_default()
    }

    /// What stands after the question mark, if there is one.
    pub fn query(&self) -> Option<&str> {
        self.text.get(self.path + 1..)
    }
}

/// Without the text, in which there may be a secret.
impl Debug for Resource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").finish_non_exhaustive()
    }
}

/// What the standard has in paths, and three more that browsers leave as they are.
fn is_path_byte(byte: u8) -> bool {
    let mark = matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b'/' | b'%');
    byte.is_ascii_alphanumeric() || mark || matches!(byte, b':' | b';' | b'=' | b'@' | b'[' | b']' | b'|')
}

/// Browsers leave more as it is in queries.
fn is_query_byte(byte: u8) -> bool {
    is_path_byte(byte) || matches!(byte, b'?' | b'{' | b'}' | b'^' | b'`' | b'\\')
}

fn escapes_are_whole(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text)
        .all(|at| text.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)))
}

/// A target, and the authority that it says itself.
pub(super) fn parse(method: &Method, text: &[u8]) -> Result<(Target, Option<Authority>), BadHead> {
    if text.len() > MAX_TARGET {
        return Err(BadHead::TooLong);
    }
    if method.as_str() == "CONNECT" {
        let authority = Authority::parse(text).map_err(BadHead::Host)?;
        authority.port.ok_or(BadHead::Target)?;
        return Ok((Target::Connect, Some(authority)));
    }
    match text {
        b"*" if method.as_str() == "OPTIONS" => Ok((Target::Server, None)),
        [b'/', ..] => Ok((Target::Origin(Resource::parse(text)?), None)),
        _ => absolute(method, text),
    }
}

fn absolute(method: &Method, text: &[u8]) -> Result<(Target, Option<Authority>), BadHead> {
    let (scheme, rest) = [(Scheme::Http, &b"http://"[..]), (Scheme::Https, b"https://")]
        .into_iter()
        .find_map(|(scheme, start)| {
            let (found, rest) = text.split_at_checked(start.len())?;
            found.eq_ignore_ascii_case(start).then_some((scheme, rest))
        })
        .ok_or(BadHead::Target)?;
    let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let (authority, resource) = rest.split_at_checked(end).ok_or(BadHead::Target)?;
    let authority = Authority::parse(authority).map_err(BadHead::Host)?;
    let target = match resource {
        // With OPTIONS this would be the server itself, which nobody asks for in this way.
        b"" if method.as_str() == "OPTIONS" => return Err(BadHead::Target),
        b"" => Target::Absolute(scheme, Resource::parse(b"/")?),
        [b'?', ..] => Target::Absolute(scheme, Resource::parse(&[b"/", resource].concat())?),
        _ => Target::Absolute(scheme, Resource::parse(resource)?),
    };
    Ok((target, Some(with_port(authority, scheme))))
}

/// Says the port only where it is not the usual one, so that two ways to say the same are the same.
pub(super) fn with_port(authority: Authority, scheme: Scheme) -> Authority {
    Authority { port: authority.port.filter(|port| *port != scheme.port()), ..authority }
}
