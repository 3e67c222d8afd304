//! Turns the ledger's files into one stream of lines that a client can lay out again.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use axum::body::Bytes;

const PIECE: usize = 64 * 1024;

/// Sends every stored line as `{"file": …, "line": …}`, until `send` says that nobody listens.
pub(crate) fn lines(dir: &Path, mut send: impl FnMut(io::Result<Bytes>) -> bool) {
    let mut piece = Vec::with_capacity(PIECE);
    let outcome = walk(dir, &mut |file, line| {
        let object = serde_json::json!({ "file": file, "line": line });
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

fn walk(dir: &Path, each: &mut impl FnMut(&str, &str) -> io::Result<()>) -> io::Result<()> {
    // Checkpoints first: whatever they claim is then surely in the segments that follow.
    let mut names = vec!["checkpoints.jsonl".to_owned()];
    let mut segments: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir.join("segments"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".seg") {
            segments.push(format!("segments/{name}"));
        }
    }
    segments.sort();
    names.append(&mut segments);
    for name in names {
        let file = match File::open(dir.join(&name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut reader = BufReader::new(file);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 {
            // An unfinished last line is being written; it comes with the next export.
            if let Some(whole) = line.strip_suffix('\n') {
                each(&name, whole)?;
            }
            line.clear();
        }
    }
    Ok(())
}
