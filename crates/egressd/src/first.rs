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
/// The longest first line that is waited for, with what stands before it. Nobody but a client of the web says so much without
/// an end, and our reader of requests takes no more.
const LINE: usize = 16 * 1024;
/// The one blank that Rust does not count.
const VERTICAL_TAB: u8 = 0x0b;

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
    if bytes.first().is_some_and(|first| hello::could_be(*first)) {
        return match hello::read(bytes) {
            Ok(Reading::NeedMore) => None,
            Ok(Reading::NotTls) => Some(First::Other),
            Ok(Reading::Hello(hello)) => Some(First::Tls(Box::new(hello))),
            Err(bad) => Some(First::OddTls(bad)),
        };
    }
    // Some servers take empty lines before a request, other blanks than one space in its first line, methods that nobody has
    // heard of and lines of any length: what could be a request to one of them is taken for it, and read by our rules.
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == VERTICAL_TAB;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let blanks = bytes.iter().take_while(|byte| is_blank(byte)).count();
    let rest = bytes.get(blanks..).unwrap_or_default();
    let mut words = rest.split(is_blank).filter(|word| !word.is_empty());
    if !words.next().unwrap_or_default().iter().all(is_plain) {
        return Some(First::Other);
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    let has_version = line.windows(5).any(|word| word.eq_ignore_ascii_case(b"HTTP/"));
    if has_version || bytes.len() > LINE {
        return Some(First::Http);
    }
    end.map(|_| if is_request(line, is_blank) { First::Http } else { First::Other })
}

/// Whether a line without a version asks for something, as the first servers of the web had it.
fn is_request(line: &[u8], is_blank: impl Fn(&u8) -> bool) -> bool {
    let mut words = line.split(is_blank).filter(|word| !word.is_empty());
    let method = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default().to_ascii_lowercase();
    method.iter().all(u8::is_ascii_alphabetic) && (target.starts_with(b"/") || target.starts_with(b"http:"))
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
        let long = "A".repeat(70);
        for undecided in [
            "",
            "G",
            "GET / ",
            "POS",
            "\u{16}",
            "\u{15}",
            "\r\n",
            "\r\nGET",
            "SSH-2.0-x",
            "EHLO x",
            &long,
            "\t ",
        ] {
            assert_eq!(word(undecided.as_bytes()), None, "{undecided:?}");
        }
        let requests = [
            "GET / HTTP/1.1",
            "PRI * HTTP/2.0",
            "PROPFIND /x HTTP/1.1\r\n",
            "get / http/1.1",
            "GET /a\u{7f}\u{0}b HTTP/1.1\r\n",
            "\r\n\nGET / HTTP/1.1 \r\n",
            // What some servers take for a request all the same.
            "GET\t/\tHTTP/1.1\r\n",
            "\tGET / HTTP/1.1\r\n",
            "GET\u{b}/ HTTP/1.1\r\n",
            "GET /\r\n",
            "GET  /x\n",
            "GET http://other.test/\r\n",
            &format!("{long} / HTTP/1.1\r\n"),
            &format!("GET /{}", "a".repeat(LINE)),
            &"A".repeat(LINE + 1),
            &"\r\n".repeat(LINE),
        ];
        for http in requests {
            assert_eq!(word(http.as_bytes()).as_deref(), Some("Http"), "{http:?}");
        }
        for other in
            ["SSH-2.0-x\r\n", "\u{0}", "EHLO x\r\n", "*1\r\n$4\r\nPING\r\n", "\u{1}abc", "get key\r\n"]
        {
            assert_eq!(word(other.as_bytes()).as_deref(), Some("Other"), "{other:?}");
        }
        // Greetings of TLS that name nobody: another record first, and the form of an earlier time.
        for odd in [
            &[0x15, 3, 1, 0, 2, 1, 0][..],
            &[0x14, 3, 3, 0, 1, 1],
            &[0x80, 0x2e, 1, 3, 1, 0],
            &[0x80, 0x2e, 1, 0, 2, 0],
        ] {
            assert!(word(odd).is_some_and(|word| word.starts_with("OddTls")), "{odd:?}");
        }
        assert_eq!(word(&[0x80, 0x2e]), None);
        assert_eq!(word(&[0x80, 0x2e, 7]).as_deref(), Some("Other"));
    }

    #[tokio::test(start_paused = true)]
    async fn adv_n16_whoever_does_not_say_what_they_want_is_given_up() {
        use tokio::io::AsyncWriteExt;
        // A greeting of TLS that is said to be long, and a request without an end.
        let greeting = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[0; 400]].concat();
        let cases: [(Waits, &[u8], Duration); 4] = [
            (Waits::Speaks, b"", PATIENCE),
            (Waits::Speaks, &greeting, PATIENCE),
            (Waits::Glances, b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", PATIENCE),
            (Waits::Glances, b"", GLANCE),
        ];
        for (waits, said, bound) in cases {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let inside = listener.accept().await.unwrap().0;
            let begun = Instant::now();
            let says = async {
                for byte in said {
                    client.write_all(&[*byte]).await.unwrap();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut bytes = Vec::new();
            let first = tokio::select! {
                first = read(&inside, &mut bytes, waits) => first,
                () = says => unreachable!("it waits for ever"),
            };
            let took = begun.elapsed();
            assert!(took >= bound && took < bound + Duration::from_secs(2), "{waits:?} {said:?} {took:?}");
            match bound {
                GLANCE => assert!(matches!(first, Ok(First::Silent)), "{first:?}"),
                _ => assert_eq!(first.unwrap_err().kind(), io::ErrorKind::TimedOut),
            }
        }
    }
}
