//! Fetches a page, within bounds that hold while it comes in. What may be reached is decided outside of the sandbox.

use std::io::Read;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use model::HostPattern;
use serde::Deserialize;
use serde_json::Value;

use super::place::plain_text;
use super::{Desk, Prepared, ToolError, arguments, failed, refused};
use crate::cancel::Cancel;

pub(super) fn web_fetch(input: Value, desk: &Arc<Desk>) -> Result<Prepared, ToolError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given {
        url: String,
    }
    let given: Given = arguments(input)?;
    let host = host_of(&given.url)?;
    if !desk.grant.hosts.allows(&host) {
        return Err(refused("grant_hosts", "the grant of this session does not have that host"));
    }
    let (url, desk) = (given.url.clone(), Arc::clone(desk));
    let run = move |cancel: &Cancel| {
        // In a thread of its own, so that whoever stops it need not wait for a slow server.
        let (told, heard) = sync_channel(1);
        let until = Instant::now() + Duration::from_millis(desk.limits.fetch_ms + 1_000);
        std::thread::spawn(move || told.send(fetched(&desk, &url)));
        loop {
            match heard.recv_timeout(Duration::from_millis(20)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(failed("the fetch broke off")),
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(failed("stopped")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => return Err(slow()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    };
    Ok(Prepared::plain(format!("fetch {}", given.url), &host.to_string(), run))
}

/// The host and port of a plain web address.
fn host_of(url: &str) -> Result<HostPattern, ToolError> {
    let bad = || {
        refused("url", "expected `https://HOST/…` or `http://HOST/…`, with a name for a host and no password")
    };
    if url.len() > 2_048 || url.bytes().any(|byte| !(0x21..0x7f).contains(&byte) || byte == b'\\') {
        return Err(bad());
    }
    let (rest, port) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, 443),
        (_, Some(rest)) => (rest, 80),
        (None, None) => return Err(bad()),
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains(['@', '*', '[']) {
        return Err(bad());
    }
    let host = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    host.parse().map_err(|_| bad())
}

fn slow() -> ToolError {
    refused("fetch_time", "the page did not come in time")
}

fn fetched(desk: &Desk, url: &str) -> Result<String, ToolError> {
    let time = Duration::from_millis(desk.limits.fetch_ms);
    let request = desk.web.agent().get(url).config().timeout_global(Some(time)).build();
    let request =
        request.header("accept", "text/*, application/json;q=0.9").header("accept-encoding", "gzip");
    let answer = request.call().map_err(|error| match error {
        ureq::Error::Timeout(_) => slow(),
        other => failed(format!("could not be fetched: {other}")),
    })?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let status = answer.status().as_u16();
    if answer.status().is_redirection() {
        let to: String = header("location").chars().filter(|c| !c.is_control()).take(2_048).collect();
        return Ok(format!("[status {status}: it leads to {to}]"));
    }
    let coding = header("content-encoding").trim().to_ascii_lowercase();
    let most = desk.limits.fetch_bytes;
    let reader = answer.into_body().into_reader();
    let bytes = match coding.as_str() {
        "" | "identity" => bounded(reader, most)?,
        // What comes in is bounded by what comes out and by the time; both are counted while it comes.
        "gzip" | "x-gzip" => bounded(flate2::read::MultiGzDecoder::new(reader.take(most)), most)?,
        _ => return Err(refused("encoding", "the page is compressed in a way that was not asked for")),
    };
    let text = plain_text(bytes).ok_or_else(|| refused("binary", "the page is no text"))?;
    Ok(format!("[status {status}]\n{text}"))
}

fn bounded(reader: impl Read, most: u64) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    let read = reader.take(most + 1).read_to_end(&mut bytes);
    if bytes.len() as u64 > most {
        return Err(refused("fetch_size", format!("the page has more than {most} bytes")));
    }
    read.map_err(|error| {
        let slowly = error.kind() == std::io::ErrorKind::TimedOut || error.to_string().contains("timeout");
        if slowly { slow() } else { failed(format!("the page broke off: {error}")) }
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_web_addresses_are_fetched() {
        assert_eq!(host_of("https://Docs.Example.org/a?b#c").unwrap().to_string(), "docs.example.org:443");
        assert_eq!(host_of("http://x.org:8080").unwrap().to_string(), "x.org:8080");
        for bad in [
            "",
            "x.org",
            "file:///etc/passwd",
            "ftp://x.org",
            "https://",
            "https://u:p@x.org/",
            "https://*.x.org/",
            "https://x.org/ y",
            "https://x.org\\@y.org/",
            "https://[::1]/",
            "https://x.org:0/",
            "javascript:x",
        ] {
            assert!(host_of(bad).is_err(), "{bad}");
        }
    }
}
