//! The bytes of a backup: sections, in chunks that are sealed for their place.
//!
//! Form: a first line with magic, a random id and a length; a key ring of that length, as its file is, sealed under the
//! master key (length 0, or an earlier form without a ring: the master alone makes it); then frames `[length][sealed chunk]`. Each chunk is sealed
//! under the installation's key for its place (backup id, number, whether it is the last), so a chunk that is
//! missing, moved, foreign or altered does not open. Inside: sections `[name length][name]`, then pieces
//! `[length][bytes]`, then a piece of length zero.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;

use vault::{KeyRing, Place, Sealed};

use ::ledger::is_segment;

const MAGIC: &str = "palisade-backup-2";
/// Of builds before there were rings: the same without one.
const MAGIC_1: &str = "palisade-backup-1";
/// A ring is far shorter.
const MOST_RING: u64 = 64 * 1024;
const CHUNK: usize = 1024 * 1024;
/// A sealed chunk is a little longer than the chunk.
const MOST: u32 = 2 * 1024 * 1024;

/// What a section holds.
pub(super) enum Part {
    /// The rows.
    Store,
    /// A file of the ledger, by its name there.
    Ledger(String),
}

impl Part {
    fn of(name: String) -> Option<Self> {
        if name == "store" {
            return Some(Self::Store);
        }
        let segment = name.strip_prefix("segments/").is_some_and(is_segment);
        (segment || name == "checkpoints.jsonl" || name == "reserve").then_some(Self::Ledger(name))
    }
}

/// Begins a section.
pub(super) fn section(out: &mut Sealing, name: &str) -> io::Result<()> {
    let length = u8::try_from(name.len()).map_err(io::Error::other)?;
    out.write_all(&[length])?;
    out.write_all(name.as_bytes())
}

/// Ends a section.
pub(super) fn section_end(out: &mut Sealing) -> io::Result<()> {
    out.write_all(&0u32.to_be_bytes())
}

/// Writes what belongs to a section.
pub(super) struct Pieces<'a>(pub(super) &'a mut Sealing);

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..bytes.len().min(CHUNK)).unwrap_or(bytes);
        if piece.is_empty() {
            return Ok(0);
        }
        let length = u32::try_from(piece.len()).map_err(io::Error::other)?;
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the next section holds; none at the end. A section that nobody knows is damage.
pub(super) fn next_part(from: &mut Opening) -> io::Result<Option<Part>> {
    let mut length = [0u8; 1];
    if from.read(&mut length)? == 0 {
        return Ok(None);
    }
    let mut name = vec![0; usize::from(u8::from_be_bytes(length))];
    from.read_exact(&mut name)?;
    String::from_utf8(name).ok().and_then(Part::of).map(Some).ok_or_else(damaged)
}

/// Reads everything to its end, and throws it away: what passes this can be unpacked.
pub(super) fn check(from: &mut Opening) -> io::Result<()> {
    while next_part(from)?.is_some() {
        io::copy(&mut Section::of(from), &mut io::sink())?;
    }
    Ok(())
}

/// What does not open.
fn damaged() -> io::Error {
    let text = "the backup is damaged, cut, or was made under another master key";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The bytes of one section.
pub(super) struct Section<'a> {
    from: &'a mut Opening,
    left: usize,
    ended: bool,
}

impl<'a> Section<'a> {
    pub(super) fn of(from: &'a mut Opening) -> Self {
        Self { from, left: 0, ended: false }
    }
}

impl Read for Section<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended {
            let mut length = [0u8; 4];
            self.from.read_exact(&mut length)?;
            self.left = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
            self.ended = self.left == 0;
        }
        let most = into.len().min(self.left);
        let Some(into) = into.get_mut(..most).filter(|_| !self.ended) else { return Ok(0) };
        let count = self.from.read(into)?;
        self.left -= count;
        Ok(count)
    }
}

/// Seals what is written, chunk by chunk.
pub(super) struct Sealing {
    ring: Arc<KeyRing>,
    out: File,
    id: String,
    number: u64,
    buffer: Vec<u8>,
}

impl Sealing {
    pub(super) fn start(ring: Arc<KeyRing>, mut out: File) -> io::Result<Self> {
        let id = model::RequestId::random().to_string();
        let kept = ring.kept().unwrap_or_default();
        writeln!(out, "{MAGIC} {id} {}", kept.len())?;
        out.write_all(&kept)?;
        Ok(Self { ring, out, id, number: 0, buffer: Vec::with_capacity(CHUNK) })
    }

    fn emit(&mut self, field: &str) -> io::Result<()> {
        let owner = self.number.to_string();
        let place = Place { record: &self.id, owner: &owner, field };
        let sealed = self.ring.seal(&place, &self.buffer).map_err(io::Error::other)?;
        let length = u32::try_from(sealed.as_bytes().len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(sealed.as_bytes())?;
        self.buffer.clear();
        self.number += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.emit("last")?;
        self.out.sync_all()
    }
}

impl Write for Sealing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK - self.buffer.len();
        let taken = bytes.get(..bytes.len().min(room)).unwrap_or(bytes);
        self.buffer.extend_from_slice(taken);
        if self.buffer.len() >= CHUNK {
            self.emit("chunk")?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The id of a backup, and the ring that it was sealed under.
fn head(from: &mut impl io::BufRead) -> io::Result<(String, Vec<u8>)> {
    let mut line = Vec::new();
    // The first line is short and fixed; a file without a line end is not read whole.
    io::BufRead::read_until(&mut from.by_ref().take(128), b'\n', &mut line)?;
    let line = String::from_utf8(line).map_err(|_| damaged())?;
    if let Some(id) = line.strip_prefix(MAGIC_1) {
        return Ok((id.trim().to_owned(), Vec::new()));
    }
    let (id, length) =
        line.strip_prefix(MAGIC).and_then(|rest| rest.trim().split_once(' ')).ok_or_else(damaged)?;
    let length = length.parse().ok().filter(|length| *length <= MOST_RING).ok_or_else(damaged)?;
    let mut ring = Vec::new();
    if u64::try_from(from.by_ref().take(length).read_to_end(&mut ring)?).ok() != Some(length) {
        return Err(damaged());
    }
    Ok((id.to_owned(), ring))
}

/// The ring that a backup was sealed under, as its file was; empty where the master alone makes it.
pub(super) fn ring_in(file: &mut File) -> io::Result<Vec<u8>> {
    io::Seek::rewind(file)?;
    let (_, ring) = head(&mut BufReader::new(&mut *file))?;
    io::Seek::rewind(file)?;
    Ok(ring)
}

/// Opens what was sealed, in order and to its end.
pub(super) struct Opening {
    ring: Arc<KeyRing>,
    from: BufReader<File>,
    id: String,
    number: u64,
    chunk: io::Cursor<Vec<u8>>,
    last: bool,
}

impl Opening {
    pub(super) fn start(ring: Arc<KeyRing>, file: File) -> io::Result<Self> {
        let mut from = BufReader::new(file);
        let (id, _) = head(&mut from)?;
        Ok(Self { ring, from, id, number: 0, chunk: io::Cursor::default(), last: false })
    }

    /// The same from the start.
    pub(super) fn again(self) -> io::Result<Self> {
        let mut file = self.from.into_inner();
        io::Seek::rewind(&mut file)?;
        Self::start(self.ring, file)
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let mut length = [0u8; 4];
        self.from.read_exact(&mut length).map_err(|_| damaged())?;
        let length = u32::from_be_bytes(length);
        if length > MOST {
            return Err(damaged());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.from.read_exact(&mut bytes).map_err(|_| damaged())?;
        let sealed = Sealed::parse(bytes).map_err(|_| damaged())?;
        let owner = self.number.to_string();
        for (field, last) in [("chunk", false), ("last", true)] {
            let place = Place { record: &self.id, owner: &owner, field };
            if let Ok(plain) = self.ring.open(&place, &sealed) {
                self.chunk = io::Cursor::new(plain.expose().clone());
                self.number += 1;
                self.last = last;
                // Nothing follows the last chunk.
                if last && self.from.read(&mut [0])? != 0 {
                    return Err(damaged());
                }
                return Ok(());
            }
        }
        Err(damaged())
    }
}

impl Read for Opening {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.chunk.read(into)?;
            if count > 0 || self.last || into.is_empty() {
                return Ok(count);
            }
            self.next_chunk()?;
        }
    }
}
