//! What a client says first, as far as it tells what the connection is for.

use std::io;
use std::time::Duration;

use egress::hello::{self, BadHello, Hello, Reading};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long a client that must speak first may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long one that may wait for the server is listened to.
const GLANCE: Duration = Duration::from_millis(200);
/// The most that is read before it is known what it is.
const MOST: usize = hello::MAX_HELLO + 1024;
/// The longest word that may be a method.
const WORD: usize = 64;
/// The longest first line that is waited for.
const LINE: usize = 16 * 1024;

/// What a connection is for.
#[derive(Debug)]
pub(crate) enum First {
    /// TLS, with this greeting.
    Tls(Box<Hello>),
    /// TLS that cannot be read.
    OddTls(BadHello),
    /// A request that anybody can read.
    Http,
    /// Something else.
    Other,
    /// Nothing yet: the server is to speak first.
    Silent,
    /// Nothing at all: the client is gone.
    Gone,
}

/// How long a client is listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It must speak first.
    Speaks,
    /// The server may be the one who speaks first.
    Glances,
    /// It may speak whenever it likes, because its server has spoken or may.
    Ever,
}

/// Reads until it is clear what comes; what was read is in `bytes`. Whoever has begun to speak is waited for.
pub(crate) async fn read(stream: &TcpStream, bytes: &mut Vec<u8>, waits: Waits) -> io::Result<First> {
    let mut until = match waits {
        Waits::Speaks => Some(Instant::now() + PATIENCE),
        Waits::Glances => Some(Instant::now() + GLANCE),
        Waits::Ever => None,
    };
    let mut has_begun = waits == Waits::Speaks;
    loop {
        if let Some(found) = judged(bytes) {
            return Ok(found);
        }
        if !bytes.is_empty() && !has_begun {
            (has_begun, until) = (true, Some(Instant::now() + PATIENCE));
        }
        let read = match until {
            Some(until) => timeout_at(until, more(stream, bytes)).await,
            None => Ok(more(stream, bytes).await),
        };
        match read {
            Ok(Ok(0)) if bytes.is_empty() => return Ok(First::Gone),
            Ok(Ok(0)) => return Ok(First::Other),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) if bytes.is_empty() && waits == Waits::Glances => return Ok(First::Silent),
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// What these bytes begin; none if they are too few.
fn judged(bytes: &[u8]) -> Option<First> {
    if bytes.len() > MOST {
        return Some(First::Other);
    }
    if bytes.first() == Some(&0x16) {
        return match hello::read(bytes) {
            Ok(Reading::NeedMore) => None,
            Ok(Reading::NotTls) => Some(First::Other),
            Ok(Reading::Hello(hello)) => Some(First::Tls(Box::new(hello))),
            Err(bad) => Some(First::OddTls(bad)),
        };
    }
    // Some servers take empty lines before a request, and methods that nobody has heard of: what says that it is HTTP
    // somewhere in its first line is taken for it, and read by our rules.
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let rest = bytes.get(blank..).unwrap_or_default();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let word = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    if word.len() > WORD || !word.iter().all(is_plain) {
        return Some(First::Other);
    }
    if word.len() == rest.len() {
        return None;
    }
    let (line, is_whole) = match rest.iter().position(|byte| *byte == b'\n') {
        Some(end) => (rest.get(..end).unwrap_or_default(), true),
        None => (rest, rest.len() > LINE),
    };
    if line.windows(5).any(|word| word.eq_ignore_ascii_case(b"HTTP/")) {
        return Some(First::Http);
    }
    is_whole.then_some(First::Other)
}

/// Reads what there is.
pub(crate) async fn more(stream: &TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        bytes.reserve(4096);
        match stream.try_read_buf(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_comes() {
        let word = |bytes: &[u8]| judged(bytes).map(|first| format!("{first:?}"));
        for undecided in ["", "G", "GET / ", "POS", "\u{16}", "\r\n", "\r\nGET", "SSH-2.0-x", "EHLO x"] {
            assert_eq!(word(undecided.as_bytes()), None, "{undecided:?}");
        }
        let requests = [
            "GET / HTTP/1.1",
            "PRI * HTTP/2.0",
            "PROPFIND /x HTTP/1.1\r\n",
            "get / http/1.1",
            "GET /a\u{7f}\u{0}b HTTP/1.1\r\n",
            "\r\n\nGET / HTTP/1.1 \r\n",
        ];
        for http in requests {
            assert_eq!(word(http.as_bytes()).as_deref(), Some("Http"), "{http:?}");
        }
        for other in ["SSH-2.0-x\r\n", "GET /\r\n", "\u{0}", "EHLO x\r\n", "*1\r\n$4\r\nPING\r\n", "\u{1}abc"]
        {
            assert_eq!(word(other.as_bytes()).as_deref(), Some("Other"), "{other:?}");
        }
    }
}
