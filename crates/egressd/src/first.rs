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
/// What a request begins with.
const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"TRACE ",
    b"CONNECT ",
    b"PRI ",
];

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

/// Reads until it is clear what comes; what was read is in `bytes`. `waits`: whether a client that says nothing is waited for.
pub(crate) async fn read(stream: &TcpStream, bytes: &mut Vec<u8>, waits: bool) -> io::Result<First> {
    let until = Instant::now() + if waits { PATIENCE } else { GLANCE };
    loop {
        if let Some(found) = judged(bytes) {
            return Ok(found);
        }
        match timeout_at(until, more(stream, bytes)).await {
            Ok(Ok(0)) if bytes.is_empty() => return Ok(First::Gone),
            Ok(Ok(0)) => return Ok(First::Other),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
            Err(_) if bytes.is_empty() && !waits => return Ok(First::Silent),
            Err(_) if !waits => return Ok(First::Other),
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
    if METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Some(First::Http);
    }
    let could = METHODS.iter().any(|method| method.starts_with(bytes));
    (!could).then_some(First::Other)
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
        for undecided in ["", "G", "GET", "POS", "\u{16}"] {
            assert_eq!(word(undecided.as_bytes()), None, "{undecided:?}");
        }
        assert_eq!(word(b"GET / HTTP/1.1").as_deref(), Some("Http"));
        assert_eq!(word(b"PRI * HTTP/2.0").as_deref(), Some("Http"));
        for other in ["SSH-2.0-x", "GETX", "get / ", "\u{0}", "EHLO x"] {
            assert_eq!(word(other.as_bytes()).as_deref(), Some("Other"), "{other:?}");
        }
    }
}
