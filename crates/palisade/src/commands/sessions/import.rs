//! A transcript of Claude Code, line by line and page by page, to the daemon.
//!
//! Invariant: however long a line or the file is, little of it is held at once; a line that cannot be sent is told at its place.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use api::{Client, Hidden, ImportRequest, Session};

use crate::failure::Failure;

/// Bytes of a line, and of a page, as they are written in JSON; the daemon takes a mebibyte at once.
const LINE: usize = 768 << 10;
const PAGE: usize = 800 << 10;
/// Lines of a page.
const LINES: usize = 500;

/// Sends it all; the session that it became.
pub(super) fn sent(
    client: &Client,
    file: &Path,
    worktree: &str,
    title: Option<String>,
) -> Result<Session, Failure> {
    let mut from = BufReader::new(File::open(file).map_err(Failure::file(file))?);
    let mut page = ImportRequest {
        worktree: worktree.to_owned(),
        session: None,
        title,
        after: 0,
        lines: Vec::new(),
        lost: Vec::new(),
        last: false,
    };
    let mut bytes = 0;
    loop {
        let line = next(&mut from).map_err(Failure::file(file))?;
        let size = line.as_ref().map_or(0, Line::size);
        if line.is_none() || page.lines.len() == LINES || bytes + size > PAGE {
            page.last = line.is_none();
            let made = client.import_session(&page).map_err(|error| match &page.session {
                Some(id) => {
                    Failure::Program(format!("{error}; {id} has the first {} lines of it", page.after))
                }
                None => error.into(),
            })?;
            if page.last {
                return Ok(made);
            }
            page.after += i64::try_from(page.lines.len()).unwrap_or(i64::MAX);
            page.session = Some(made.id);
            (page.lines, page.lost, bytes) = (Vec::new(), Vec::new(), 0);
        }
        bytes += size;
        let place = i64::try_from(page.lines.len()).unwrap_or(i64::MAX);
        match line {
            Some(Line::Text(text)) => page.lines.push(Hidden(text)),
            Some(Line::Lost(why)) => {
                page.lost.push(place);
                page.lines.push(Hidden(why));
            }
            None => {}
        }
    }
}

/// A line of a file.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Text(String),
    /// It cannot be sent, and why.
    Lost(String),
}

impl Line {
    /// Bytes that it takes in a page.
    fn size(&self) -> usize {
        let (Self::Text(text) | Self::Lost(text)) = self;
        written(text) + 1
    }
}

/// How long a text is in JSON.
fn written(text: &str) -> usize {
    let length = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\x08' | '\x0c' => 2,
        '\0'..='\x1f' => 6,
        c => c.len_utf8(),
    };
    2 + text.chars().map(length).sum::<usize>()
}

fn next(from: &mut impl BufRead) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let most = LINE as u64 + 1;
    if from.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > LINE {
        let mut length = line.len() as u64;
        drop(line);
        loop {
            let piece = from.fill_buf()?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            from.consume(taken);
            length += (taken - usize::from(end.is_some())) as u64;
            if end.is_some() || taken == 0 {
                return Ok(Some(Line::Lost(format!("the line has {length} bytes, which is too long"))));
            }
        }
    }
    Ok(Some(match String::from_utf8(line) {
        Ok(text) if written(&text) > LINE => {
            Line::Lost(format!("the line has {} bytes, which is too long", text.len()))
        }
        Ok(text) => Line::Text(text),
        Err(error) => Line::Lost(format!("the line is no text: {}", error.utf8_error())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_12_lines_that_cannot_be_sent_are_told_at_their_places() {
        let mut bytes = b"one\n\n".to_vec();
        bytes.extend(vec![b'x'; 3 * LINE]);
        bytes.extend(b"\n\xff\xfe\n");
        bytes.extend(vec![b'"'; LINE - 10]);
        bytes.extend(b"\nlast");
        let mut from = BufReader::with_capacity(1000, bytes.as_slice());
        let lines: Vec<Line> = std::iter::from_fn(|| next(&mut from).unwrap()).collect();
        let text = |text: &str| Line::Text(text.into());
        assert_eq!(lines.len(), 6);
        assert_eq!((&lines[0], &lines[1], &lines[5]), (&text("one"), &text(""), &text("last")));
        let long = format!("{} bytes", 3 * LINE);
        assert!(matches!(&lines[2], Line::Lost(why) if why.contains(&long)), "{:?}", lines[2]);
        assert!(matches!(&lines[3], Line::Lost(_)) && matches!(&lines[4], Line::Lost(_)));
    }

    #[test]
    fn the_length_in_json_is_known() {
        for sample in ["", "a\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}ä\u{1f600}/"] {
            assert_eq!(written(sample), serde_json::to_string(sample).unwrap().len());
        }
    }
}
