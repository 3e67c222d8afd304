//! EGR-09, ADV-N11: requests and answers are read in one way or refused, and what is judged is what is sent.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod answers;
mod bodies;
mod requests;
mod smuggling;

use egress::http1::{BadHead, Body, HeadEnd, Request};

fn request(text: &str) -> Result<Request, BadHead> {
    Request::parse(text.as_bytes())
}

fn written(request: &Request) -> String {
    let mut out = Vec::new();
    request.write(&mut out);
    assert!(out.len() <= request.most_written());
    String::from_utf8(out).unwrap()
}

/// A reader of a whole connection, as a proxy has one: how many requests it took, what their content was, and whether it
/// refused one.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    taken: Vec<(String, Vec<u8>)>,
    refused: bool,
}

/// Feeds a connection in the given pieces.
fn connection<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let mut heard = Heard { taken: Vec::new(), refused: false };
    let (mut buffer, mut end, mut body) = (Vec::new(), HeadEnd::new(), None::<Body>);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let step = advance(&mut buffer, &mut end, &mut body, &mut heard);
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(()) => {
                    heard.refused = true;
                    return heard;
                }
            }
        }
    }
    heard
}

/// One step: whether there may be another.
fn advance(
    buffer: &mut Vec<u8>,
    end: &mut HeadEnd,
    body: &mut Option<Body>,
    heard: &mut Heard,
) -> Result<bool, ()> {
    if let Some(reading) = body {
        let step = reading.read(buffer).map_err(|_| ())?;
        let (used, done) = (step.used, step.done);
        heard.taken.last_mut().unwrap().1.extend_from_slice(step.data);
        buffer.drain(..used);
        if done {
            *body = None;
        }
        return Ok(done || used > 0);
    }
    let Some(length) = end.find(buffer).map_err(|_| ())? else { return Ok(false) };
    let request = Request::parse(&buffer[..length]).map_err(|_| ())?;
    buffer.drain(..length);
    *end = HeadEnd::new();
    heard.taken.push((written(&request), Vec::new()));
    *body = Some(Body::new(request.framing()));
    Ok(true)
}
