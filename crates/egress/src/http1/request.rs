//! The head of a request.

use super::MAX_METHOD;
use super::connection::{self, Connection, Upgrade};
use super::error::BadHead;
use super::fields::{Fields, write_field};
use super::framing::{Declared, Framing};
use super::head::{self, Version};
use super::response::Asked;
use super::target::{self, Resource, Scheme, Target};
use crate::host::Authority;

/// What is to be done: a word of upper-case letters, so that `get` cannot be taken for `GET` by one and not by another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method(Box<str>);

impl Method {
    /// From text.
    pub fn parse(text: &[u8]) -> Result<Self, BadHead> {
        let plain = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_');
        let good = (1..=MAX_METHOD).contains(&text.len())
            && text.iter().all(plain)
            && text.first().is_some_and(u8::is_ascii_uppercase);
        let text = str::from_utf8(text).ok().filter(|_| good).ok_or(BadHead::Method)?;
        Ok(Self(text.into()))
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// To what.
    pub target: Target,
    /// The version that the client speaks.
    pub version: Version,
    /// Whom it is for, as the target and the Host header say in agreement. In an absolute target, the port is left out
    /// when it is the scheme's own.
    pub authority: Authority,
    /// The fields that go on to the server, without Host and those about the length and the connection.
    pub fields: Fields,
    framing: Framing,
    persistent: bool,
    upgrade: Upgrade,
}

impl Request {
    /// Reads a whole head, as [`super::HeadEnd`] found it.
    pub fn parse(head: &[u8]) -> Result<Self, BadHead> {
        let lines = head::lines(head)?;
        let (first, rest) = lines.split_first().ok_or(BadHead::FirstLine)?;
        let (method, target, version) = first_line(first)?;
        let (target, said) = target::parse(&method, target)?;
        let mut fields = Fields::from_lines(rest)?;
        let authority = agree(&target, said, host(&mut fields, &target, version)?)?;
        let framing = framing(&mut fields, &method, version)?;
        let Connection { persistent, upgrade } = Connection::take(&mut fields, version)?;
        let upgrade = check_upgrade(upgrade, &method, framing, &fields)?;
        check_expect(&fields)?;
        check_single(&fields)?;
        Ok(Self { method, target, version, authority, fields, framing, persistent, upgrade })
    }

    /// What follows the head.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Whether the client wants to send more requests.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Which other protocol the client asks for.
    pub fn upgrade(&self) -> Upgrade {
        self.upgrade
    }

    /// Whether the client waits to be told before it sends content.
    pub fn expects_continue(&self) -> bool {
        self.framing != Framing::Empty && self.fields.only("expect").is_some()
    }

    /// Says another length than the client did, for content that was changed.
    pub fn set_length(&mut self, length: u64) {
        self.framing = Framing::Length(length);
    }

    /// Gives the path and the query another text. A target without them stays as it is.
    pub fn set_resource(&mut self, new: Resource) {
        match &mut self.target {
            Target::Origin(resource) | Target::Absolute(_, resource) => *resource = new,
            Target::Connect | Target::Server => {}
        }
    }

    /// Leaves nothing in memory of what may have been put in.
    pub fn wipe(&mut self) {
        self.fields.wipe();
        match &mut self.target {
            Target::Origin(resource) | Target::Absolute(_, resource) => resource.wipe(),
            Target::Connect | Target::Server => {}
        }
    }

    /// What has to be known to read the answer.
    pub fn asked(&self) -> Asked {
        Asked::new(&self.method, self.version, self.upgrade)
    }

    /// As much as [`Self::write`] writes, or more.
    pub fn most_written(&self) -> usize {
        // Version, Host, what is said of length and connection, and the marks around them.
        const REST: usize = 512;
        let target = self.target.resource().map_or(0, |resource| resource.as_str().len());
        self.method.as_str().len() + target + self.fields.most_written() + REST
    }

    /// Writes the head as a server gets it: with the path for a target, whatever the client's form was.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        match &self.target {
            Target::Origin(resource) | Target::Absolute(_, resource) => {
                out.extend_from_slice(resource.as_str().as_bytes());
            }
            Target::Connect => out.extend_from_slice(self.authority.to_string().as_bytes()),
            Target::Server => out.push(b'*'),
        }
        out.push(b' ');
        out.extend_from_slice(self.version.text());
        out.extend_from_slice(b"\r\n");
        write_field(out, b"Host", self.authority.to_string().as_bytes());
        self.fields.write(out);
        match self.framing {
            Framing::Length(length) => Declared::Length(length).write(out),
            Framing::Chunked => Declared::Chunked.write(out),
            Framing::Empty | Framing::UntilClose | Framing::Tunnel => {}
        }
        connection::write(out, self.version, self.persistent, self.upgrade);
        out.extend_from_slice(b"\r\n");
    }
}

/// Method, target and version, with one space between each.
fn first_line(line: &[u8]) -> Result<(Method, &[u8], Version), BadHead> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (Some(method), Some(target), Some(version)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(BadHead::FirstLine);
    };
    if version.contains(&b' ') {
        return Err(BadHead::FirstLine);
    }
    Ok((Method::parse(method)?, target, Version::parse(version)?))
}

/// What the one Host header says. Old clients leave it out when they connect, where the target says it all.
fn host(fields: &mut Fields, target: &Target, version: Version) -> Result<Option<Authority>, BadHead> {
    if *target == Target::Connect && version == Version::V10 && fields.all("host").next().is_none() {
        return Ok(None);
    }
    let text = fields.only("host").ok_or(BadHead::Hosts)?;
    let authority = Authority::parse(text).map_err(BadHead::Host)?;
    fields.remove("host");
    Ok(Some(authority))
}

/// The one authority that target and header agree on.
fn agree(target: &Target, said: Option<Authority>, host: Option<Authority>) -> Result<Authority, BadHead> {
    match (said, host) {
        (None, host) => host.ok_or(BadHead::Hosts),
        (Some(said), None) => Ok(said),
        (Some(said), Some(host)) => {
            let same_port = match target {
                Target::Absolute(scheme, _) => port_of(&host, *scheme) == port_of(&said, *scheme),
                // Some clients leave out what is usual after the tunnel is there.
                Target::Connect => host.port.is_none_or(|port| said.port == Some(port)),
                Target::Origin(_) | Target::Server => host.port == said.port,
            };
            if same_port && said.host == host.host { Ok(said) } else { Err(BadHead::HostMismatch) }
        }
    }
}

fn port_of(authority: &Authority, scheme: Scheme) -> u16 {
    authority.port.unwrap_or(scheme.port())
}

fn framing(fields: &mut Fields, method: &Method, version: Version) -> Result<Framing, BadHead> {
    let framing = match Declared::take(fields, version)? {
        Declared::Nothing => Framing::Empty,
        Declared::Length(length) => Framing::Length(length),
        Declared::Chunked => Framing::Chunked,
    };
    let none = matches!(framing, Framing::Empty | Framing::Length(0));
    match method.as_str() {
        "CONNECT" | "TRACE" if !none => Err(BadHead::Content),
        "CONNECT" => Ok(Framing::Empty),
        _ => Ok(framing),
    }
}

/// A WebSocket is asked for with GET, without content, with one key and the one version.
fn check_upgrade(
    upgrade: Upgrade,
    method: &Method,
    framing: Framing,
    fields: &Fields,
) -> Result<Upgrade, BadHead> {
    if upgrade == Upgrade::None {
        return Ok(upgrade);
    }
    let key = fields.only("sec-websocket-key").is_some_and(|key| key.len() == 24);
    let version = fields.only("sec-websocket-version") == Some(b"13");
    let empty = matches!(framing, Framing::Empty | Framing::Length(0));
    let good = method.as_str() == "GET" && empty && key && version;
    if good { Ok(upgrade) } else { Err(BadHead::Upgrade) }
}

fn check_expect(fields: &Fields) -> Result<(), BadHead> {
    let known = fields.only("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
    if known || fields.all("expect").next().is_none() { Ok(()) } else { Err(BadHead::Expect) }
}

/// What decides how a server takes a request is said once.
fn check_single(fields: &Fields) -> Result<(), BadHead> {
    let twice = |name: &&str| fields.all(name).nth(1).is_some();
    let single = ["authorization", "content-type", "content-encoding", "cookie", "origin", "range"];
    if single.iter().any(twice) { Err(BadHead::Twice) } else { Ok(()) }
}
