//! A text in parts, as a stream brings it.

use std::io::Write;

use redact::{Redactor, Sink};

/// What comes out of a sink that was given these parts.
pub(crate) fn streamed<'a>(redactor: &Redactor, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sink = Sink::new(redactor.clone(), Vec::new());
    for part in parts {
        sink.write_all(part).unwrap();
        sink.flush().unwrap();
    }
    sink.finish().unwrap()
}
