//! Turns the ledger's files, or those of a bundle, into one stream of lines that a client can lay out again.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use axum::body::Bytes;
use ledger::{Bundle, BundleError};

use crate::problem::Problem;

const PIECE: usize = 64 * 1024;
/// No line of the ledger is longer.
const LONGEST: u64 = 64 * 1024;

/// Sends every stored line as `{"file": …, "line": …}`, until `send` says that nobody listens. Bytes that are no
/// such line (not text, or longer than any entry) come as they are, in pieces `{"file": …, "hex": …}`: a ledger
/// that was tampered with can be looked at elsewhere all the more.
pub(crate) fn lines(dir: &Path, mut send: impl FnMut(io::Result<Bytes>) -> bool) {
    let mut piece = Vec::with_capacity(PIECE);
    let outcome = walk(dir, &mut |file, found| {
        let object = match found {
            Found::Line(line) => serde_json::json!({ "file": file, "line": line }),
            Found::Bytes(bytes) => serde_json::json!({ "file": file, "hex": hex::encode(bytes) }),
        };
        serde_json::to_writer(&mut piece, &object)?;
        piece.push(b'\n');
        if piece.len() < PIECE || send(Ok(Bytes::from(std::mem::take(&mut piece)))) {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::BrokenPipe))
    });
    match outcome {
        Ok(()) => drop(send(Ok(Bytes::from(piece)))),
        // A stream that ends in an error is not mistaken for a whole one.
        Err(error) => drop(send(Err(error))),
    }
}

/// What stands in a file of the ledger.
enum Found<'a> {
    /// A line, without its end.
    Line(&'a str),
    /// Anything else, with its end if it has one.
    Bytes(&'a [u8]),
}

type Each<'a> = dyn FnMut(&str, Found<'_>) -> io::Result<()> + 'a;

fn walk(dir: &Path, each: &mut Each<'_>) -> io::Result<()> {
    let mut segments: Vec<String> = Vec::new();
    let root = files::Root::open(dir)?;
    for entry in std::fs::read_dir(dir.join("segments"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if ledger::is_segment(&name) {
            segments.push(format!("segments/{name}"));
        }
    }
    segments.sort();
    // Checkpoints first: whatever they claim is then surely in the segments that follow.
    for name in std::iter::once("checkpoints.jsonl".to_owned()).chain(segments) {
        match root.file(Path::new(&name), files::Rule::Any) {
            Ok(file) => walk_file(BufReader::new(file), &mut |found| each(&name, found))?,
            Err(files::FileError::Missing) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn walk_file(mut from: impl BufRead, each: &mut impl FnMut(Found<'_>) -> io::Result<()>) -> io::Result<()> {
    let (mut bytes, mut inside) = (Vec::new(), false);
    loop {
        bytes.clear();
        if (&mut from).take(LONGEST).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        match bytes.strip_suffix(b"\n") {
            Some(line) if !inside => each(str::from_utf8(line).map_or(Found::Bytes(&bytes), Found::Line))?,
            Some(_) => each(Found::Bytes(&bytes))?,
            // An unfinished last line is being written; it comes with the next export.
            None if !inside && from.fill_buf()?.is_empty() => {}
            None => each(Found::Bytes(&bytes))?,
        }
        inside = !bytes.ends_with(b"\n");
    }
}

/// Sends the files of a bundle as pieces `{"file": …, "text": …}`, or `"hex"` for what is no text.
pub(crate) fn pieces(bundle: &Bundle, mut send: impl FnMut(io::Result<Bytes>) -> bool) {
    for (file, bytes) in &bundle.files {
        let (name, mut rest) = match str::from_utf8(bytes) {
            Ok(text) => ("text", text.to_owned()),
            Err(_) => ("hex", bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        };
        loop {
            // An empty file is one empty piece; hex is cut between bytes, for `PIECE` is even.
            let later = rest.split_off(rest.floor_char_boundary(PIECE));
            let line = format!("{}\n", serde_json::json!({ "file": file, name: rest }));
            if !send(Ok(Bytes::from(line))) {
                return;
            }
            if later.is_empty() {
                break;
            }
            rest = later;
        }
    }
}

/// Why there is no bundle, for the caller.
pub(crate) fn no_bundle(error: &BundleError) -> Problem {
    match error {
        BundleError::Nothing | BundleError::TooMany => Problem::unprocessable(error.to_string()),
        BundleError::Changed(_) | BundleError::InputMissing { .. } => Problem::conflict(error.to_string()),
        BundleError::Input(_) | BundleError::Io(_) => {
            tracing::error!(%error, "no bundle was made");
            Problem::unavailable(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, LONGEST, walk_file};

    /// LED-11: whatever stands in a file comes out as it is, in pieces of a bounded length.
    #[test]
    fn led_11_bytes_that_are_no_lines_are_exported_as_they_are() {
        let long = usize::try_from(LONGEST).unwrap();
        let torn = b"{\"seq\":4".to_vec();
        for (bytes, rest) in [
            (b"one\ntwo\n".to_vec(), 0),
            (b"one\nt\xffwo\nthree\n\n".to_vec(), 0),
            ([b"one\n".to_vec(), vec![b'x'; 3 * long], b"\nend\n".to_vec()].concat(), 0),
            ([b"one\n".to_vec(), vec![0xfe; 2 * long + 7]].concat(), 0),
            ([b"one\n".to_vec(), torn.clone()].concat(), torn.len()),
        ] {
            let mut out = Vec::new();
            walk_file(&bytes[..], &mut |found| {
                match found {
                    Found::Line(line) => out.extend([line.as_bytes(), b"\n"].concat()),
                    Found::Bytes(bytes) => {
                        assert!(bytes.len() <= long);
                        out.extend_from_slice(bytes);
                    }
                }
                Ok(())
            })
            .unwrap();
            assert!(out == bytes[..bytes.len() - rest], "{} bytes of {}", out.len(), bytes.len());
        }
    }
}
