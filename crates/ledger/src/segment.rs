//! Turns the segment files of a directory into lines with their places.
//!
//! Invariant: a [`Line`] ends where the file said so; what follows the last line feed is the torn tail, never
//! a line. Reading is bounded: a line longer than the format allows is cut into pieces that do not parse.
//! Not here: whether lines belong together.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::disk;
use crate::draft::MAX_LINE;

/// The folder of segments inside a ledger directory.
pub(crate) const FOLDER: &str = "segments";

/// Holds most lines.
const SHORT_WINDOW: usize = 4096;

/// The path of segment `number`.
pub(crate) fn path(dir: &Path, number: u32) -> PathBuf {
    dir.join(FOLDER).join(format!("{number:08}.seg"))
}

/// The number of the segment that a file of this name holds: eight digits, from 1, and `.seg`. Any other name is
/// not a segment, for the writer and the verifier alike.
pub(crate) fn number_of(name: &OsStr) -> Option<u32> {
    let stem = name.to_str()?.strip_suffix(".seg")?;
    let exact = stem.len() == 8 && stem.bytes().all(|byte| byte.is_ascii_digit());
    stem.parse().ok().filter(|number| exact && *number >= 1)
}

/// Whether a file in the folder of segments is one, by its name.
#[must_use]
pub fn is_segment(name: &str) -> bool {
    number_of(OsStr::new(name)).is_some()
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
        numbers.extend(number_of(&item?.file_name()));
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
        let mut file = disk::open_to_read(path)?;
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
    let mut file = disk::open_to_read(path)?;
    if file.metadata()?.len() < end {
        return Ok(None);
    }
    // Most lines are short; a window that holds no beginning of one is read again at full size.
    let longest = MAX_LINE.saturating_add(2);
    for size in [SHORT_WINDOW, longest] {
        let window = u64::try_from(size).unwrap_or(u64::MAX).min(end);
        file.seek(SeekFrom::Start(end.saturating_sub(window)))?;
        let mut bytes = Vec::with_capacity(size);
        (&mut file).take(window).read_to_end(&mut bytes)?;
        let Some(body) = bytes.strip_suffix(b"\n") else { return Ok(None) };
        if size == longest || window == end || body.contains(&b'\n') {
            return Ok(body.rsplit(|byte| *byte == b'\n').next().map(<[u8]>::to_vec));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn led_05_only_eight_digits_name_a_segment() {
        for (name, number) in [
            ("00000001.seg", Some(1)),
            ("99999999.seg", Some(99_999_999)),
            ("00000000.seg", None),
            ("+0000001.seg", None),
            ("-0000001.seg", None),
            (" 0000001.seg", None),
            ("0000001.seg", None),
            ("000000001.seg", None),
            ("00000001.SEG", None),
            ("00000001.seg.seg", None),
            ("\u{660}000001.seg", None),
            ("00000001", None),
        ] {
            assert_eq!(number_of(OsStr::new(name)), number, "{name}");
        }
    }

    #[test]
    fn led_05_a_listing_has_no_file_with_another_name() {
        let home = tempfile::TempDir::new().unwrap();
        let folder = home.path().join(FOLDER);
        std::fs::create_dir(&folder).unwrap();
        for name in ["00000002.seg", "+0000001.seg", "00000000.seg", "00000001.seg"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        assert_eq!(list(home.path()).unwrap(), [1, 2]);
    }
}
