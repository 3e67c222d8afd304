//! What a client inside is told in place of an answer.

use std::time::Duration;

use egress::http1::Request;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a client may take to read why it was refused.
const LINGER: Duration = Duration::from_millis(500);

/// What every such answer says of itself.
pub(crate) const FIELDS: [(&str, &str); 3] =
    [("content-type", "application/problem+json"), ("cache-control", "no-store"), ("x-palisade", "refused")];

/// A problem: its title, and what is told of it.
pub(crate) fn problem(status: u16, why: &str) -> (&'static str, serde_json::Value) {
    let title = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        502 => "Bad Gateway",
        _ => "Refused",
    };
    let body = serde_json::json!({
        "title": title, "status": status, "code": "network_refused", "detail": why,
        "see": "http://palisade.local/",
    });
    (title, body)
}

/// A whole answer: a problem in JSON, and whether more requests may follow.
pub(crate) fn text(status: u16, why: &str, stays: bool) -> Vec<u8> {
    let (title, body) = problem(status, why);
    json(status, title, &body, stays)
}

/// The same to a request: one that asks for the head only gets no more.
pub(crate) fn to(request: &Request, status: u16, why: &str, stays: bool) -> Vec<u8> {
    let mut whole = text(status, why, stays);
    if request.method.as_str() == "HEAD"
        && let Some(end) = whole.windows(4).position(|four| four == b"\r\n\r\n")
    {
        whole.truncate(end + 4);
    }
    whole
}

/// A whole answer with a document.
pub(crate) fn json(status: u16, title: &str, body: &serde_json::Value, stays: bool) -> Vec<u8> {
    let body = format!("{body}\n");
    let connection = if stays { "" } else { "Connection: close\r\n" };
    let length = body.len();
    format!(
        "HTTP/1.1 {status} {title}\r\nContent-Type: application/problem+json\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nX-Palisade: refused\r\n{connection}\r\n{body}"
    )
    .into_bytes()
}

/// Says why, and lets the client read it.
pub(crate) async fn refused(inside: &TcpStream, why: &str) {
    say(inside, &text(403, why, false)).await;
}

/// Says something short as the last thing.
pub(crate) async fn say(inside: &TcpStream, answer: &[u8]) {
    let _ = inside.try_write(answer);
    linger(inside).await;
}

/// Ends so that the other side sees what was said last: unread bytes would turn the end into a break.
pub(crate) async fn linger(inside: &TcpStream) {
    let _ = rustix::net::shutdown(inside, rustix::net::Shutdown::Write);
    let drains = async {
        // Not a part of what every connection that waits has.
        let mut bytes = vec![0; 4096];
        for _ in 0..64 {
            if inside.readable().await.is_err() {
                return;
            }
            match inside.try_read(&mut bytes) {
                Ok(0) => return,
                Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {}
            }
        }
    };
    let _ = timeout(LINGER, drains).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_the_head_gets_no_more() {
        let asked = |method: &str| {
            let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
            String::from_utf8(to(&Request::parse(request.as_bytes()).unwrap(), 403, "no", true)).unwrap()
        };
        assert!(asked("HEAD").ends_with("\r\n\r\n") && asked("GET").ends_with("}\n"));
    }

    #[test]
    fn an_answer_is_whole_and_says_why_whatever_the_words_are() {
        let text = String::from_utf8(text(403, "a \"quoted\"\r\nSet-Cookie: x", true)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"));
        assert!(!head.contains("Set-Cookie") && !head.contains("Connection"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["detail"], "a \"quoted\"\r\nSet-Cookie: x");
    }
}
