//! No bytes make the readers of HTTP/1 stumble; where a connection is cut does not matter; what is written again is read as
//! it was judged, by strict rules.
#![no_main]

use egress::http1::{Body, HeadEnd, Request, Response, write_chunk, write_last_chunk};
use libfuzzer_sys::fuzz_target;

/// What a server gets of a connection, written from its parts, and whether anything was refused.
fn relayed(pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let (mut out, mut buffer, mut end, mut body) = (Vec::new(), Vec::new(), HeadEnd::new(), None::<Body>);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            if let Some(reading) = &mut body {
                let Ok(step) = reading.read(&buffer) else { return (out, true) };
                let (used, done) = (step.used, step.done);
                assert!(done || used > 0 || buffer.is_empty());
                out.extend_from_slice(step.data);
                buffer.drain(..used);
                if done {
                    body = None;
                } else if used == 0 {
                    break;
                }
                continue;
            }
            let length = match end.find(&buffer) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(_) => return (out, true),
            };
            let Ok(request) = Request::parse(&buffer[..length]) else { return (out, true) };
            check(&request);
            request.write(&mut out);
            buffer.drain(..length);
            end = HeadEnd::new();
            body = Some(Body::new(request.framing()));
        }
    }
    (out, false)
}

/// What is written is clean, and reads as the same request.
fn check(request: &Request) {
    let mut out = Vec::new();
    request.write(&mut out);
    let text = out.strip_suffix(b"\r\n\r\n").expect("a head has an end");
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    assert!(lines.iter().all(|line| !line.is_empty() && !line.starts_with(b" ") && !line.contains(&0)));
    assert_eq!(text.iter().filter(|byte| **byte == b'\r').count(), lines.len() - 1);
    let named = |name: &[u8]| {
        let is = |line: &&&[u8]| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        lines.iter().filter(is).count()
    };
    assert_eq!(named(b"host:"), 1);
    assert!(named(b"content-length:") + named(b"transfer-encoding:") <= 1);
    assert!(named(b"connection:") <= 1 && named(b"proxy-") == 0 && named(b"te:") == 0);
    let again = Request::parse(&out).expect("what we write we read");
    let mut twice = Vec::new();
    again.write(&mut twice);
    assert_eq!(out, twice);
    assert_eq!(
        (again.framing(), &again.fields, &again.method),
        (request.framing(), &request.fields, &request.method)
    );
}

/// Content in chunks that was read is the same after it was written.
fn rechunked(bytes: &[u8]) {
    let mut body = Body::new(egress::http1::Framing::Chunked);
    let (mut rest, mut content, mut out) = (bytes, Vec::new(), Vec::new());
    while !rest.is_empty() && !body.is_done() {
        let Ok(step) = body.read(rest) else { return };
        content.extend_from_slice(step.data);
        write_chunk(&mut out, step.data);
        rest = &rest[step.used..];
    }
    if !body.is_done() {
        return;
    }
    write_last_chunk(&mut out, body.trailers());
    let mut second = Body::new(egress::http1::Framing::Chunked);
    let (mut rest, mut again) = (&out[..], Vec::new());
    while !second.is_done() {
        let step = second.read(rest).expect("what we write we read");
        again.extend_from_slice(step.data);
        rest = &rest[step.used..];
    }
    assert!(rest.is_empty() && again == content && second.trailers() == body.trailers());
}

/// Where a connection is cut does not matter.
fn cut(bytes: &[u8], cuts: &[u16]) {
    let mut places: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
    assert_eq!(relayed(&pieces), relayed(&[bytes]), "cuts matter");
}

fn answered(bytes: &[u8], method: &str) {
    let target = if method == "CONNECT" { "a:1" } else { "/" };
    let asked = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let asked = Request::parse(asked.as_bytes()).expect("a request").asked();
    if let Ok(response) = Response::parse(bytes, asked) {
        let mut out = Vec::new();
        response.write(&mut out, true);
        let again = Response::parse(&out, asked).expect("what we write we read");
        assert_eq!((again.framing(), again.status), (response.framing(), response.status));
        assert_eq!(again.fields, response.fields);
    }
}

fuzz_target!(|input: (&[u8], Vec<u16>, u8)| {
    let (bytes, cuts, which) = input;
    cut(bytes, &cuts);
    // With a beginning that is good, so that more of what follows is reached.
    let beginnings = [
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://a",
    ];
    cut(&[beginnings[usize::from(which) % 4].as_bytes(), bytes].concat(), &cuts);
    rechunked(bytes);

    let method = ["GET", "HEAD", "CONNECT"][usize::from(which) % 3];
    answered(bytes, method);
    answered(&[b"HTTP/1.1 200 OK\r\n", bytes, b"\r\n\r\n"].concat(), method);
});
