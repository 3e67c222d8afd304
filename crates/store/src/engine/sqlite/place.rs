//! Where a SQLite store lives: a private directory, a private file, and how to tell what a file is.
//!
//! Invariant: looking never writes. The key is tried on an immutable view of the file, which takes no lock,
//! makes no `-wal` or `-shm` and runs no recovery; only a file the key opens is opened for real.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use super::connect;
use crate::engine::open::OpenError;

/// The page size SQLCipher writes; no store is smaller.
const PAGE: u64 = 4096;
/// How an unencrypted SQLite file begins.
const PLAIN: &[u8; 16] = b"SQLite format 3\0";

/// What is at the path of a store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing: a store may be made here.
    Nothing,
    /// A store that the key opens.
    Store,
}

/// Makes the directory of `path` if needed, refuses one that others can enter, and gives back the path of the
/// store with every link in its directory resolved.
pub(crate) fn private_directory(path: &Path) -> Result<PathBuf, OpenError> {
    let name = path.file_name().ok_or_else(|| OpenError::NotAStore(path.into()))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(io_at(parent))?;
    let parent = parent.canonicalize().map_err(io_at(parent))?;
    let mode = fs::metadata(&parent).map_err(io_at(&parent))?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(OpenError::OpenDirectory { path: parent, mode });
    }
    Ok(parent.join(name))
}

/// Says what is at `path`, without changing a byte anywhere near it.
pub(crate) fn examine(path: &Path, key: &[u8; 32]) -> Result<Found, OpenError> {
    let wal = sibling(path, "-wal");
    let about = match fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // SQLite would throw away a log without its database: those may be somebody's last rows.
            return if size(&wal)? > 0 { Err(OpenError::NotAStore(wal)) } else { Ok(Found::Nothing) };
        }
        Err(error) => return Err(io_at(path)(error)),
    };
    if !about.is_file() {
        return Err(OpenError::NotAStore(path.into()));
    }
    if begins_plain(path)? {
        return Err(OpenError::PlainText(path.into()));
    }
    let log = size(&wal)?;
    if about.size() < PAGE || (about.size() % PAGE != 0 && log == 0) {
        return Err(OpenError::NotAStore(path.into()));
    }
    if opens(path, key, "?immutable=1") || (log > 0 && opens_through_log(path, &wal, key)?) {
        return Ok(Found::Store);
    }
    Err(OpenError::WrongKey(path.into()))
}

/// Whether the file at `path` begins like an unencrypted SQLite database.
pub(crate) fn begins_plain(path: &Path) -> Result<bool, OpenError> {
    let mut head = Vec::with_capacity(PLAIN.len());
    let file = File::open(path).map_err(io_at(path))?;
    file.take(PLAIN.len() as u64).read_to_end(&mut head).map_err(io_at(path))?;
    Ok(head == PLAIN)
}

/// Power lost while page 1 was copied back from the log leaves it torn in the file and whole in the log. So
/// before a key is called wrong it is tried on a private copy of the first pages and the log.
fn opens_through_log(path: &Path, wal: &Path, key: &[u8; 32]) -> Result<bool, OpenError> {
    // Nobody else can make it first: the name is drawn.
    let drawn = RandomState::new().hash_one(std::process::id());
    let unique = format!("palisade-probe-{drawn:016x}");
    let scratch = std::env::temp_dir().join(unique);
    DirBuilder::new().mode(0o700).create(&scratch).map_err(io_at(&scratch))?;
    let copy = scratch.join("store");
    let answer = copy_head(path, &copy)
        .and_then(|()| fs::copy(wal, sibling(&copy, "-wal")).map(drop))
        .map_err(io_at(&scratch))
        .map(|()| opens(&copy, key, ""));
    // A scratch copy is ciphertext; failing to remove it must not hide the answer.
    drop(fs::remove_dir_all(&scratch));
    answer
}

fn copy_head(from: &Path, to: &Path) -> io::Result<()> {
    io::copy(&mut File::open(from)?.take(16 * PAGE), &mut File::create_new(to)?).map(drop)
}

/// Whether page 1 decrypts and authenticates under `key`.
fn opens(path: &Path, key: &[u8; 32], query: &str) -> bool {
    let flags = match query {
        "" => OpenFlags::SQLITE_OPEN_READ_WRITE,
        _ => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let flags = flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let uri = format!("file:{}{query}", percent_encoded(path));
    connect::keyed(Path::new(&uri), key, flags)
        .and_then(|conn| conn.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)))
        .is_ok()
}

fn percent_encoded(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut out, byte| {
        match byte {
            b'/' | b'-' | b'_' | b'.' => out.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(*byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

/// `path` with `suffix` appended to its last component.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn size(path: &Path) -> Result<u64, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(about.size()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io_at(path)(error)),
    }
}

/// Wraps an I/O error with the path it is about.
pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> OpenError + '_ {
    move |source| OpenError::Io { path: path.into(), source }
}
