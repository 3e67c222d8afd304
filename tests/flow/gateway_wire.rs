//! HTTP/1.1 by hand, for requests that no client library would send; and small helpers shared by the files here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use api::Problem;
use tests::Host;

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// Reads an answer to its end (the request asked to close).
    pub fn read(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        // A refusal may come with a reset, when the rest of the request was not wanted.
        drop(stream.read_to_end(&mut bytes));
        Self::parse(&bytes)
    }

    /// Reads an answer of a connection that stays open: as much as its length says.
    pub fn read_one(stream: &mut TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
            bytes.extend_from_slice(&piece[..count]);
            let length = |reply: &Self| reply.header("content-length").and_then(|text| text.parse().ok());
            match Self::parse(&bytes) {
                Some(reply) if reply.body.len() >= length(&reply).unwrap_or(0) => return Some(reply),
                _ => {}
            }
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let pair =
            |line: &str| line.split_once(':').map(|(k, v)| (k.to_ascii_lowercase(), v.trim().to_owned()));
        let headers = lines.filter_map(pair).collect();
        Some(Self { status, headers, body: bytes[end + 4..].to_vec() })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The problem, which every error must be.
    pub fn problem(&self) -> Problem {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: Problem = serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"));
        assert_eq!(problem.status, self.status);
        assert!(problem.request_id.starts_with("req_"), "{problem:?}");
        assert_eq!(self.header("x-request-id"), Some(problem.request_id.as_str()));
        problem
    }
}

/// The address without its scheme.
pub fn authority(host: &Host) -> &str {
    host.base().split_once("://").unwrap().1
}

/// A connection that does not wait for ever.
pub fn connect(host: &Host) -> TcpStream {
    let stream = TcpStream::connect(authority(host)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Sends bytes as they are and reads the answer.
pub fn speak(host: &Host, bytes: &[u8]) -> Reply {
    let mut stream = connect(host);
    drop(stream.write_all(bytes));
    Reply::read(&mut stream).unwrap_or_else(|| panic!("no answer to {:?}", String::from_utf8_lossy(bytes)))
}

/// A request line, the usual headers, further ones, and a body with its length.
pub fn request(
    host: &Host,
    token: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: {}\r\n", authority(host)));
    }
    if !token.is_empty() {
        text.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let chunked = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
    if !chunked && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The owner sends this.
pub fn ask(host: &Host, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let token = host.owner().client.token().unwrap();
    speak(host, &request(host, token, method, path, headers, body))
}

/// A body in chunks, whose length nobody told.
pub fn chunks(size: usize) -> Vec<u8> {
    let piece = vec![b' '; 64 * 1024];
    let mut out = Vec::new();
    let mut left = size;
    while left > 0 {
        let now = left.min(piece.len());
        out.extend_from_slice(format!("{now:x}\r\n").as_bytes());
        out.extend_from_slice(&piece[..now]);
        out.extend_from_slice(b"\r\n");
        left -= now;
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

/// Asks again and again until it is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs SQL on a test database and gives what `psql` prints.
pub fn psql(url: &str, sql: &str) -> String {
    let output = std::process::Command::new("psql")
        .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `who action decision resource` of entries, without what differs from run to run.
pub fn told(entries: &[api::LedgerEntry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.action.clone(), entry.decision.clone())).collect()
}
