//! HTTP/1.1 as far as the benchmarks need it: one request out, one answer with a `Content-Length` back.
//!
//! By hand, so that the load costs as little of the shared processors as it can.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(8192) })
    }

    /// Sends bytes that are a whole request; gives the status and where the body is in [`Self::answer`].
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, std::ops::Range<usize>)> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, body)) = whole(&self.buffer) {
                return Ok((status, body));
            }
        }
    }

    /// The bytes of the last answer.
    pub(crate) fn answer(&self) -> &[u8] {
        &self.buffer
    }

    /// A call of the API with JSON both ways; anything but success is an error.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (status, at) = self.exchange(&request(method, path, token, &body)).await?;
        let answer = self.buffer.get(at).unwrap_or_default();
        anyhow::ensure!(
            (200..300).contains(&status),
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(answer)
        );
        if answer.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(answer).context("not JSON") }
    }
}

/// A request as bytes.
pub(crate) fn request(method: &str, path: &str, token: &str, body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    if !token.is_empty() {
        text.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

/// The status and the place of the body, if all of it is there.
fn whole(bytes: &[u8]) -> Option<(u16, std::ops::Range<usize>)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let status = std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()?;
    let length = length(bytes.get(..head)?);
    (bytes.len() >= head + length).then_some((status, head..head + length))
}

fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length: ";
    let lines = head.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| {
        line.get(..NAME.len()).filter(|name| name.eq_ignore_ascii_case(NAME)).map(|_| &line[NAME.len()..])
    });
    let value = values.next().and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
