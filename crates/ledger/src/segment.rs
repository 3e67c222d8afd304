//! Turns the segment files of a directory into lines with their places.
//!
//! Invariant: a [`Line`] ends where the file said so; what follows the last line feed is the torn tail, never
//! a line. Reading is bounded: a line longer than the format allows is cut into pieces that do not parse.
//! Not here: whether lines belong together.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::draft::MAX_LINE;

/// The folder of segments inside a ledger directory.
pub(crate) const FOLDER: &str = "segments";

/// The path of segment `number`.
pub(crate) fn path(dir: &Path, number: u32) -> PathBuf {
    dir.join(FOLDER).join(format!("{number:08}.seg"))
}

/// How entries of the ledger itself name a segment.
pub(crate) fn name(number: u32) -> String {
    format!("segment/{number:08}")
}

/// The numbers of the segments that are there, in order. No folder means none.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let items = match std::fs::read_dir(dir.join(FOLDER)) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
        Err(error) => return Err(error),
    };
    for item in items {
        let name = item?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg")).filter(|stem| stem.len() == 8);
        numbers.extend(number.and_then(|stem| stem.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the lines of one file from an offset up to a limit.
#[derive(Debug)]
pub(crate) struct Lines {
    file: BufReader<io::Take<File>>,
    offset: u64,
    buffer: Vec<u8>,
}

/// What reading a file gives next.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    /// A whole line, without its line feed, and where it starts.
    Line(&'a [u8], u64),
    /// Bytes without a line feed start here: the end of the file, or a line that is too long.
    Torn(u64),
    /// Nothing is left.
    End,
}

impl Lines {
    /// Lines of `path` from byte `from` to byte `to`.
    pub(crate) fn open(path: &Path, from: u64, to: Option<u64>) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from))?;
        let length = to.unwrap_or(u64::MAX).saturating_sub(from);
        let file = BufReader::with_capacity(256 * 1024, file.take(length));
        Ok(Self { file, offset: from, buffer: Vec::new() })
    }

    /// The next line, of at most the length an entry may have.
    pub(crate) fn next(&mut self) -> io::Result<Piece<'_>> {
        self.next_within(MAX_LINE)
    }

    pub(crate) fn next_within(&mut self, max: usize) -> io::Result<Piece<'_>> {
        self.buffer.clear();
        let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
        let count = (&mut self.file).take(limit).read_until(b'\n', &mut self.buffer)?;
        let start = self.offset;
        self.offset = start.saturating_add(u64::try_from(count).unwrap_or(0));
        Ok(match self.buffer.split_last() {
            None => Piece::End,
            Some((b'\n', line)) => Piece::Line(line, start),
            Some(_) => Piece::Torn(start),
        })
    }
}

/// The last whole line that ends before byte `end` of a file.
pub(crate) fn line_before(path: &Path, end: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < end {
        return Ok(None);
    }
    let window = u64::try_from(MAX_LINE).unwrap_or(u64::MAX).saturating_add(2).min(end);
    file.seek(SeekFrom::Start(end.saturating_sub(window)))?;
    let mut bytes = Vec::new();
    file.take(window).read_to_end(&mut bytes)?;
    let Some(body) = bytes.strip_suffix(b"\n") else { return Ok(None) };
    let line = body.rsplit(|byte| *byte == b'\n').next();
    Ok(line.map(<[u8]>::to_vec))
}
