//! What a head says about one connection only, which is taken out of it and never passed on.

use super::error::BadHead;
use super::fields::{Fields, is_token, write_field};
use super::head::Version;

/// The most names that a Connection header may have.
const MAX_NAMES: usize = 32;

/// Another protocol on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// None. HTTP/2 is among those that are not passed on.
    None,
    /// Messages in both directions.
    WebSocket,
}

/// What a head said about its connection.
pub(super) struct Connection {
    /// Whether another message may follow.
    pub(super) persistent: bool,
    /// The protocol that is asked for or agreed to.
    pub(super) upgrade: Upgrade,
}

impl Connection {
    /// Reads what is about the connection and takes it out of the fields.
    pub(super) fn take(fields: &mut Fields, version: Version) -> Result<Self, BadHead> {
        let names = names(fields)?;
        let says = |word: &str| names.iter().any(|name| name == word);
        let persistent = match version {
            Version::V10 => says("keep-alive") && !says("close"),
            Version::V11 => !says("close"),
        };
        let websocket = says("upgrade")
            && version == Version::V11
            && fields.only("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
        fields.retain(|name| {
            !is_about_connection(name) && !names.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
        });
        let upgrade = if websocket { Upgrade::WebSocket } else { Upgrade::None };
        Ok(Self { persistent, upgrade })
    }
}

/// What Connection headers name, in lower case.
fn names(fields: &Fields) -> Result<Vec<String>, BadHead> {
    let mut names = Vec::new();
    for value in fields.all("connection") {
        for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty())
        {
            let name = str::from_utf8(word).ok().filter(|_| is_token(word)).ok_or(BadHead::Connection)?;
            let name = name.to_ascii_lowercase();
            if names.len() == MAX_NAMES || is_about_message(&name) {
                return Err(BadHead::Connection);
            }
            names.push(name);
        }
    }
    Ok(names)
}

/// Fields that the next program must not see.
fn is_about_connection(name: &[u8]) -> bool {
    let known = [&b"connection"[..], b"keep-alive", b"te", b"trailer", b"upgrade", b"http2-settings"];
    known.iter().any(|it| name.eq_ignore_ascii_case(it))
        || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"proxy-"))
}

/// Fields without which a message means something else: who names them as his connection's wants them gone after they
/// were judged.
fn is_about_message(name: &str) -> bool {
    let known =
        ["host", "transfer-encoding", "authorization", "cookie", "set-cookie", "expect", "range", "origin"];
    known.contains(&name)
        || ["content-", "sec-", "x-", "if-", "access-control-"].iter().any(|it| name.starts_with(it))
}

/// Says our own word about the connection.
pub(super) fn write(out: &mut Vec<u8>, version: Version, persistent: bool, upgrade: Upgrade) {
    match (upgrade, version, persistent) {
        (Upgrade::WebSocket, ..) => {
            write_field(out, b"Connection", b"Upgrade");
            write_field(out, b"Upgrade", b"websocket");
        }
        (Upgrade::None, Version::V10, true) => write_field(out, b"Connection", b"keep-alive"),
        (Upgrade::None, _, false) => write_field(out, b"Connection", b"close"),
        (Upgrade::None, Version::V11, true) => {}
    }
}
