//! Turns a sealed copy into a new installation, whole or not at all.
//!
//! Order: everything is checked to its end; then a folder `restoring` says on the disk that something is under
//! way; in it rows and ledger are made, recorded and synced; then they are moved to their places, on PostgreSQL
//! with the rows committed last; then the folder goes, in one step. Invariant: while `restoring` is there no daemon
//! starts, and what stands beside it was put there by the restore that made it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::ledger::{Decision, Draft, Ledger, Options};
use model::Clock;
use store::MIGRATIONS;
use store::engine::EngineError;
use vault::{KeyRing, Master};

use super::sealed::{Opening, Part, Section, check, next_part, ring_in};
use crate::boot::{Source, ledger_keys, open_engine};
use crate::keeper::ring_file;

const FOLDER: &str = "restoring";
/// What it is called while it goes: half of it must not look like a restore that has not begun.
const DONE: &str = "restored";
/// The file in it that says what was being restored into.
const INTO: &str = "into";

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is something already.
    #[error("`{0}` is not empty; restore into a new data directory")]
    NotEmpty(String),
    /// A daemon works on the database.
    #[error("another daemon uses this database; stop it, or restore into an empty database")]
    Taken,
    /// Altered, cut, or made under another key.
    #[error("the backup is damaged, cut, or was made under another master key")]
    Foreign,
    /// The database could not be opened.
    #[error("the store could not be opened")]
    Open(#[from] store::engine::OpenError),
    /// The rows were not taken.
    #[error("the store was not restored")]
    Store(#[from] store::backup::RestoreError),
    /// The connection was lost while the rows were being committed.
    #[error("whether the rows were written is not known; empty the database, then restore again")]
    Unsure(#[source] EngineError),
    /// The ledger does not open.
    #[error("the restored ledger does not open")]
    Ledger(#[from] ::ledger::OpenError),
    /// The restoration could not be recorded.
    #[error("the restoration could not be recorded")]
    Record(#[from] ::ledger::AppendError),
    /// The restoration could not be signed.
    #[error("the restored ledger could not be signed")]
    Sign(#[from] ::ledger::CheckpointError),
    /// A file could not be read or written.
    #[error("a file could not be read or written")]
    Io(#[from] io::Error),
}

/// A restore began here and did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a restore into `{}` did not come to its end; run `palisade backup restore FILE` again (a PostgreSQL database that \
     has tables by now must be emptied first)",
    .0.display()
)]
pub struct Unfinished(pub PathBuf);

/// Refuses a data directory in which a restore did not come to its end.
pub fn unfinished(data: &Path) -> Result<(), Unfinished> {
    if fs::symlink_metadata(data.join(FOLDER)).is_ok() { Err(Unfinished(data.to_owned())) } else { Ok(()) }
}

/// Makes a new installation in `data` from a backup; a word about it goes to the restored ledger.
pub async fn restore(
    data: &Path,
    source: &Source,
    master: Master,
    clock: Arc<dyn Clock>,
    mut input: File,
) -> Result<u64, RestoreError> {
    occupied(data, source)?;
    let kept = ring_in(&mut input).map_err(foreign_or_io)?;
    let ring = &Arc::new(match (kept.is_empty(), master) {
        (true, Master::Key(key)) => KeyRing::new(key),
        (true, Master::Passphrase(_)) => return Err(RestoreError::Foreign),
        (false, master) => master.open(&kept).map_err(|_| RestoreError::Foreign)?,
    });
    let mut opened = Opening::start(Arc::clone(ring), input).map_err(foreign_or_io)?;
    // Everything is checked to its end before anything is written.
    check(&mut opened).map_err(foreign_or_io)?;
    clear(data)?;
    remove(&data.join(DONE))?;
    begin(data, source)?;
    let restored = fill(data, source, (ring, &kept), clock, opened).await;
    // Neither was there before; half of them is worth nothing. Where nobody knows, the folder stays and says so.
    if !matches!(restored, Err(RestoreError::Unsure(_))) {
        match &restored {
            Ok(_) => {
                fs::rename(data.join(FOLDER), data.join(DONE))?;
                remove(&data.join(DONE))?;
            }
            Err(_) => drop(clear(data)),
        }
        sync(data)?;
    }
    restored
}

/// What is there already is left alone, unless an interrupted restore put it there.
fn occupied(data: &Path, source: &Source) -> Result<(), RestoreError> {
    if unfinished(data).is_err() {
        return Ok(());
    }
    let mut places = vec![data.join("ledger"), ring_file(data).path().to_owned()];
    match source {
        Source::Embedded => places.push(data.join("store")),
        Source::Postgres(_) => {}
    }
    match places.into_iter().find(|place| place.exists()) {
        Some(place) => Err(RestoreError::NotEmpty(place.display().to_string())),
        None => Ok(()),
    }
}

/// Says on the disk that a restore is under way, and what it is allowed to take back.
fn begin(data: &Path, source: &Source) -> io::Result<()> {
    let folder = data.join(FOLDER);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let mut into = private_file(&folder.join(INTO))?;
    into.write_all(match source {
        Source::Embedded => b"embedded",
        Source::Postgres(_) => b"postgres",
    })?;
    into.sync_all()?;
    sync(&folder)?;
    sync(data)
}

/// Takes back what a restore that did not end has put in place.
fn clear(data: &Path) -> io::Result<()> {
    let folder = data.join(FOLDER);
    let into = files::read(&folder.join(INTO), 64, files::Rule::Any);
    match into.as_deref() {
        Ok(b"embedded") => {
            remove(&data.join("store"))?;
            remove(&data.join("ledger"))?;
            take_ring_back(data)?;
        }
        Ok(b"postgres") => {
            remove(&data.join("ledger"))?;
            take_ring_back(data)?;
        }
        // It had not begun to put anything anywhere.
        Ok(_) | Err(_) => {}
    }
    remove(&folder)
}

/// Keeps the ring that the rows and the ledger belong to; one that the master alone makes needs no file.
fn put_ring(data: &Path, kept: &[u8]) -> io::Result<()> {
    if kept.is_empty() {
        return Ok(());
    }
    ring_file(data).put(kept).map_err(io::Error::other)
}

fn take_ring_back(data: &Path) -> io::Result<()> {
    match fs::remove_file(ring_file(data).path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn fill(
    data: &Path,
    source: &Source,
    (ring, kept): (&Arc<KeyRing>, &[u8]),
    clock: Arc<dyn Clock>,
    opened: Opening,
) -> Result<u64, RestoreError> {
    if let Source::Embedded = source {
        put_ring(data, kept)?;
    }
    let draft = data.join(FOLDER);
    let engine = open_engine(&draft, source, ring).await?;
    if !engine.hold().await.map_err(store::backup::RestoreError::from)? {
        return Err(RestoreError::Taken);
    }
    let folder = draft.join("ledger");
    let opened = unpack_ledger(opened, &folder)?;
    // Read once more: the rows come first in the stream, and are committed last.
    let mut opened = opened.again()?;
    let mut written = None;
    while let Some(part) = next_part(&mut opened)? {
        let mut body = Section::of(&mut opened);
        match part {
            Part::Store if written.is_none() => written = Some(engine.refill(&mut body, MIGRATIONS).await?),
            Part::Store => return Err(RestoreError::Foreign),
            Part::Ledger(_) => {}
        }
        io::copy(&mut body, &mut io::sink())?;
    }
    let mut written = written.ok_or(RestoreError::Foreign)?;
    let rows = written.rows();
    match source {
        // It is in the file, and only there.
        Source::Embedded => drop(written.keep_ring(None).await?),
        // Rows that are older than rings in a database have it in a file until they are migrated.
        Source::Postgres(_) => match written.keep_ring(Some(kept).filter(|kept| !kept.is_empty())).await? {
            true => {}
            false => put_ring(data, kept)?,
        },
    }
    record(&folder, ring, clock, rows)?;
    match source {
        Source::Embedded => {
            written.commit().await?;
            engine.close().await.map_err(store::backup::RestoreError::from)?;
            sync_all(&draft)?;
            fs::rename(&folder, data.join("ledger"))?;
            fs::rename(draft.join("store"), data.join("store"))?;
            sync(data)?;
        }
        Source::Postgres(_) => {
            sync_all(&draft)?;
            fs::rename(&folder, data.join("ledger"))?;
            sync(data)?;
            written.commit().await.map_err(|error| match error {
                store::backup::RestoreError::Engine(error @ EngineError::Unknown(_)) => {
                    RestoreError::Unsure(error)
                }
                known => known.into(),
            })?;
            engine.close().await.map_err(store::backup::RestoreError::from)?;
        }
    }
    Ok(rows)
}

/// The restoration is on the restored record.
fn record(folder: &Path, ring: &KeyRing, clock: Arc<dyn Clock>, rows: u64) -> Result<(), RestoreError> {
    let as_it_is = Box::new(|text: &str| text.to_owned());
    let (ledger, _) = Ledger::open(folder, ledger_keys(ring), clock, as_it_is, Options::default())?;
    ledger.append(Draft::new("local", "backup.restored", Decision::Noted).with("rows", rows.to_string()))?;
    ledger.close()?;
    Ok(())
}

pub(super) fn unpack_ledger(opened: Opening, folder: &Path) -> io::Result<Opening> {
    let mut opened = opened.again()?;
    make_private_dir(&folder.join("segments"))?;
    while let Some(part) = next_part(&mut opened)? {
        let mut body = Section::of(&mut opened);
        match part {
            Part::Store => io::copy(&mut body, &mut io::sink())?,
            Part::Ledger(name) => io::copy(&mut body, &mut private_file(&folder.join(name))?)?,
        };
    }
    Ok(opened)
}

/// What does not open is foreign; what cannot be read is a matter of files.
fn foreign_or_io(error: io::Error) -> RestoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => RestoreError::Foreign,
        _ => RestoreError::Io(error),
    }
}

fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes everything below a folder durable, and the folder.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_all(&entry.path())?,
            false => sync(&entry.path())?,
        }
    }
    sync(folder)
}
