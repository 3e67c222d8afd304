//! A sealed copy of everything: rows and ledger, in one stream that cannot be read, altered or cut.
//!
//! Form: a first line with magic and a random id, then frames `[length][sealed chunk]`. Each chunk is sealed
//! under the installation's key for its place (backup id, number, whether it is the last), so a chunk that is
//! missing, moved, foreign or altered does not open. The master key is not in it.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use ::ledger::{Decision, Draft, Ledger, Options};
use access::{CreateBackup, Permit, Principal};
use model::Clock;
use store::MIGRATIONS;
use store::engine::Engine;
use vault::{KeyRing, Place, Sealed};

use crate::boot::{Source, ledger_keys, open_engine};
use crate::{ActError, Runtime};

const MAGIC: &str = "palisade-backup-1";
const CHUNK: usize = 1024 * 1024;
/// A sealed chunk is a little longer than the chunk.
const MOST: u32 = 2 * 1024 * 1024;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The gate refused.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The store could not be copied.
    #[error("the store could not be copied")]
    Store(#[from] store::backup::DumpError),
    /// A file could not be read or written.
    #[error("the backup could not be written")]
    Io(#[from] io::Error),
}

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something already.
    #[error("`{0}` is not empty; restore into a new data directory")]
    NotEmpty(String),
    /// Altered, cut, or made under another key.
    #[error("the backup is damaged, cut, or was made under another master key")]
    Foreign,
    /// The database could not be opened.
    #[error("the store could not be opened: {0}")]
    Open(#[from] store::engine::OpenError),
    /// The rows were not taken.
    #[error("the store was not restored: {0}")]
    Store(#[from] store::backup::RestoreError),
    /// The ledger does not open.
    #[error("the restored ledger does not open: {0}")]
    Ledger(#[from] ::ledger::OpenError),
    /// The restoration could not be recorded.
    #[error("the restoration could not be recorded: {0}")]
    Record(#[from] ::ledger::AppendError),
    /// A file could not be read or written.
    #[error("a file could not be read or written")]
    Io(#[from] io::Error),
}

impl Runtime {
    /// Writes a sealed copy of everything to the file that `place` makes, once it is allowed.
    ///
    /// It runs as a task of its own: a caller who goes away leaves no record open.
    pub async fn backup(
        self: &Arc<Self>,
        who: &Principal,
        place: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<File, BackupError> {
        let (this, who) = (Arc::clone(self), who.clone());
        let whole = async move {
            let permit = this.look(&who, CreateBackup {}).await?;
            let record = permit.record();
            let outcome = match place() {
                Ok(file) => this.copy(permit, file).await,
                Err(error) => Err(error.into()),
            };
            this.gate.close(record, outcome.as_ref().map(drop).map_err(ToString::to_string)).await;
            outcome
        };
        tokio::spawn(whole).await.unwrap_or(Err(ActError::Interrupted.into()))
    }

    async fn copy(&self, _permit: Permit<CreateBackup>, file: File) -> Result<File, BackupError> {
        let out = file.try_clone()?;
        let mut seal = Sealing::start(Arc::clone(&self.ring), out)?;
        section(&mut seal, "store")?;
        let mut pieces = Pieces(&mut seal);
        self.store.engine().dump(&mut pieces).await?;
        section_end(&mut seal)?;
        let ledger = Arc::clone(&self.ledger);
        let whole = move || -> io::Result<()> {
            // A failing disk does not keep a copy from being made.
            drop(ledger.checkpoint_now());
            copy_ledger(&mut seal, ledger.dir())?;
            seal.finish()
        };
        tokio::task::spawn_blocking(whole).await.map_err(io::Error::other)??;
        Ok(file)
    }
}

/// Makes a new installation in `data` from a backup; a word about it goes to the restored ledger.
pub async fn restore(
    data: &Path,
    source: &Source,
    ring: &Arc<KeyRing>,
    clock: Arc<dyn Clock>,
    input: File,
) -> Result<u64, RestoreError> {
    let folder = data.join("ledger");
    if folder.exists() {
        return Err(RestoreError::NotEmpty(folder.display().to_string()));
    }
    let store = data.join("store");
    if matches!(source, Source::Embedded) && store.exists() {
        return Err(RestoreError::NotEmpty(store.display().to_string()));
    }
    let mut opened = Opening::start(Arc::clone(ring), input)?;
    // Everything is checked to its end before anything is written.
    io::copy(&mut opened, &mut io::sink()).map_err(foreign_or_io)?;
    let mut opened = opened.again()?;
    let rows = match unpack_into(data, source, ring, &mut opened, &folder).await {
        Ok(rows) => rows,
        Err(error) => {
            // Neither was there before; half of them is worth nothing.
            drop(std::fs::remove_dir_all(&folder));
            if matches!(source, Source::Embedded) {
                drop(std::fs::remove_dir_all(data.join("store")));
            }
            return Err(error);
        }
    };
    let made_empty = Box::new(|text: &str| text.to_owned());
    let (ledger, _) = Ledger::open(&folder, ledger_keys(ring), clock, made_empty, Options::default())?;
    ledger.append(Draft::new("local", "backup.restored", Decision::Noted).with("rows", rows.to_string()))?;
    drop(ledger);
    Ok(rows)
}

async fn unpack_into(
    data: &Path,
    source: &Source,
    ring: &KeyRing,
    opened: &mut Opening,
    folder: &Path,
) -> Result<u64, RestoreError> {
    let engine = open_engine(data, source, ring).await?;
    let rows = unpack(&engine, opened, folder).await?;
    engine.close().await.map_err(store::backup::RestoreError::from)?;
    Ok(rows)
}

async fn unpack(engine: &Engine, opened: &mut Opening, folder: &Path) -> Result<u64, RestoreError> {
    let mut rows = 0;
    while let Some(name) = read_name(opened)? {
        let mut body = Section { from: opened, left: 0, ended: false };
        if name == "store" {
            rows = engine.restore(&mut body, MIGRATIONS).await?;
            io::copy(&mut body, &mut io::sink())?;
        } else {
            let known = name == "checkpoints.jsonl"
                || name
                    .strip_prefix("segments/")
                    .and_then(|rest| rest.strip_suffix(".seg"))
                    .is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
            if !known {
                return Err(RestoreError::Foreign);
            }
            let path = folder.join(&name);
            make_private_dir(path.parent().unwrap_or(folder))?;
            let mut file = private_file(&path)?;
            io::copy(&mut body, &mut file)?;
            file.sync_all()?;
        }
    }
    Ok(rows)
}

/// What does not open is foreign; what cannot be read is a matter of files.
fn foreign_or_io(error: io::Error) -> RestoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => RestoreError::Foreign,
        _ => RestoreError::Io(error),
    }
}

fn make_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn copy_ledger(seal: &mut Sealing, dir: &Path) -> io::Result<()> {
    let mut names = vec!["checkpoints.jsonl".to_owned()];
    for entry in std::fs::read_dir(dir.join("segments"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".seg") {
            names.push(format!("segments/{name}"));
        }
    }
    // Checkpoints first: whatever they claim is then surely in the segments that follow.
    names.sort();
    for name in names {
        let path = dir.join(&name);
        if !path.exists() {
            continue;
        }
        section(seal, &name)?;
        let mut file = BufReader::new(File::open(&path)?);
        io::copy(&mut file, &mut Pieces(seal))?;
        section_end(seal)?;
    }
    Ok(())
}

/// `[name length][name]`, then pieces `[length][bytes]`, then a piece of length zero.
fn section(out: &mut Sealing, name: &str) -> io::Result<()> {
    let length = u8::try_from(name.len()).map_err(io::Error::other)?;
    out.write_all(&[length])?;
    out.write_all(name.as_bytes())
}

fn section_end(out: &mut Sealing) -> io::Result<()> {
    out.write_all(&0u32.to_be_bytes())
}

struct Pieces<'a>(&'a mut Sealing);

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

fn read_name(from: &mut Opening) -> Result<Option<String>, RestoreError> {
    let mut length = [0u8; 1];
    if from.read(&mut length)? == 0 {
        return Ok(None);
    }
    let mut name = vec![0; usize::from(u8::from_be_bytes(length))];
    from.read_exact(&mut name)?;
    String::from_utf8(name).map(Some).map_err(|_| RestoreError::Foreign)
}

/// The bytes of one section.
struct Section<'a> {
    from: &'a mut Opening,
    left: usize,
    ended: bool,
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
struct Sealing {
    ring: Arc<KeyRing>,
    out: File,
    id: String,
    number: u64,
    buffer: Vec<u8>,
}

impl Sealing {
    fn start(ring: Arc<KeyRing>, mut out: File) -> io::Result<Self> {
        let id = model::RequestId::random().to_string();
        writeln!(out, "{MAGIC} {id}")?;
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

    fn finish(mut self) -> io::Result<()> {
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

/// Opens what was sealed, in order and to its end.
struct Opening {
    ring: Arc<KeyRing>,
    from: BufReader<File>,
    id: String,
    number: u64,
    chunk: io::Cursor<Vec<u8>>,
    last: bool,
}

impl Opening {
    fn start(ring: Arc<KeyRing>, file: File) -> Result<Self, RestoreError> {
        let mut from = BufReader::new(file);
        let mut line = Vec::new();
        // The first line is short and fixed; a file without a line end is not read whole.
        io::BufRead::read_until(&mut (&mut from).take(128), b'\n', &mut line)?;
        let line = String::from_utf8(line).map_err(|_| RestoreError::Foreign)?;
        let id = line.strip_prefix(MAGIC).map(str::trim).ok_or(RestoreError::Foreign)?.to_owned();
        Ok(Self { ring, from, id, number: 0, chunk: io::Cursor::default(), last: false })
    }

    /// The same from the start.
    fn again(self) -> Result<Self, RestoreError> {
        let mut file = self.from.into_inner();
        io::Seek::rewind(&mut file)?;
        Self::start(self.ring, file)
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let foreign = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the backup is damaged, cut, or was made under another master key",
            )
        };
        let mut length = [0u8; 4];
        self.from.read_exact(&mut length).map_err(|_| foreign())?;
        let length = u32::from_be_bytes(length);
        if length > MOST {
            return Err(foreign());
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.from.read_exact(&mut bytes).map_err(|_| foreign())?;
        let sealed = Sealed::parse(bytes).map_err(|_| foreign())?;
        let owner = self.number.to_string();
        for (field, last) in [("chunk", false), ("last", true)] {
            let place = Place { record: &self.id, owner: &owner, field };
            if let Ok(plain) = self.ring.open(&place, &sealed) {
                self.chunk = io::Cursor::new(plain.expose().clone());
                self.number += 1;
                self.last = last;
                // Nothing follows the last chunk.
                if last && self.from.read(&mut [0])? != 0 {
                    return Err(foreign());
                }
                return Ok(());
            }
        }
        Err(foreign())
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
