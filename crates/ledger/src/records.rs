//! Turns the end of the checkpoint file into what the writer goes on from.
//!
//! Invariants: every record that is used carries our signature and names the record before it; bytes after the
//! last line feed are a torn write, any other damage is an error; nothing is changed here. Not here: whether
//! the segments hold what a record says ([`crate::recover`]).

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::checkpoint::{self, Checkpoint, RecordKind};
use crate::disk;
use crate::error::OpenError;
use crate::keys::Keys;
use crate::merkle::Hash;

/// As much of the file's end as is looked at first: a few records without many open entries.
const FIRST_WINDOW: u64 = 8 * 1024;

/// What the checkpoint file ends with.
#[derive(Debug)]
pub(crate) struct Records {
    /// The number of the newest record; 0 before the first.
    pub(crate) n: u64,
    /// Its hash.
    pub(crate) hash: Hash,
    /// Where it ends.
    pub(crate) bytes: u64,
    /// Whether a torn write follows it.
    pub(crate) torn: bool,
    /// The first segment that is kept.
    pub(crate) from: u32,
    /// The newest checkpoint.
    pub(crate) last: Option<Checkpoint>,
}

impl Records {
    /// No record yet, in a file of this length.
    fn none(length: u64) -> Self {
        Self { n: 0, hash: Hash::default(), bytes: 0, torn: length > 0, from: 1, last: None }
    }
}

/// Reads the end of the checkpoint file in `dir`.
pub(crate) fn read(dir: &Path, keys: &Keys) -> Result<Records, OpenError> {
    let path = dir.join(checkpoint::FILE);
    let at = |source| OpenError::Io { path: path.clone(), source };
    let mut file = match disk::open_to_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Records::none(0)),
        Err(error) => return Err(at(error)),
    };
    let length = file.metadata().map_err(at)?.len();
    // The window nearly always holds what is needed; if not, a larger one or the whole file does.
    let window = u64::try_from(checkpoint::MAX_RECORD * 4).unwrap_or(u64::MAX);
    for start in [length.saturating_sub(FIRST_WINDOW), length.saturating_sub(window), 0] {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start)).map_err(at)?;
        file.read_to_end(&mut bytes).map_err(at)?;
        if let Some(records) = parse(&bytes, start, keys)? {
            return Ok(records);
        }
    }
    Ok(Records::none(length))
}

/// The newest record and the newest checkpoint among `bytes`, which start at `offset`; `None` if more must be
/// read, or if there is no whole line at all.
fn parse(bytes: &[u8], offset: u64, keys: &Keys) -> Result<Option<Records>, OpenError> {
    // The first line of a window lacks its beginning.
    let skipped = match offset {
        0 => Some(0),
        _ => bytes.iter().position(|byte| *byte == b'\n').map(|place| place.saturating_add(1)),
    };
    let whole_lines = skipped.and_then(|start| Some((start, bytes.get(start..)?)));
    let Some((start, lines)) = whole_lines else { return Ok(None) };
    let Some(end) = lines.iter().rposition(|byte| *byte == b'\n') else { return Ok(None) };
    let after = start.saturating_add(end).saturating_add(1);
    let mut newest: Option<Records> = None;
    let mut lines = lines.get(..end).unwrap_or_default().rsplit(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let before = lines.peek().copied();
        if before.is_none() && offset > 0 {
            return Ok(None);
        }
        let number = newest.as_ref().map(|records| records.n.saturating_sub(1));
        let record = genuine(line, before, keys).map_err(|claimed| {
            let follows = || before.and_then(checkpoint::parse).map(|record| record.n.saturating_add(1));
            OpenError::BadCheckpoint(claimed.or(number).or_else(follows).unwrap_or(1))
        })?;
        let records = newest.get_or_insert_with(|| Records {
            n: record.n,
            hash: checkpoint::hash(line),
            bytes: offset.saturating_add(u64::try_from(after).unwrap_or(u64::MAX)),
            torn: after < bytes.len(),
            from: record.from,
            last: None,
        });
        if record.kind == RecordKind::Checkpoint {
            if record.segment < records.from {
                return Err(OpenError::BadCheckpoint(record.n));
            }
            records.last = Some(record);
            return Ok(newest);
        }
    }
    // Segments are dropped only after a checkpoint, so a file of other records is not ours.
    Err(OpenError::BadCheckpoint(newest.map_or(1, |records| records.n)))
}

/// The record in `line`, if we signed it and it follows `before`; otherwise the number it claims.
fn genuine(line: &[u8], before: Option<&[u8]>, keys: &Keys) -> Result<Checkpoint, Option<u64>> {
    let record = checkpoint::parse(line).ok_or(None)?;
    let prev = before.map_or(Hash::default(), checkpoint::hash);
    let fits = keys.signed(line, &record) && record.prev == hex::encode(prev);
    if fits { Ok(record) } else { Err(Some(record.n)) }
}
