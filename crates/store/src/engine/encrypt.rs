//! Turns an unencrypted SQLite file into an encrypted store, once, on request.
//!
//! Flow: lock the old file -> copy into a draft beside it -> check the draft -> make it durable -> rename.
//!
//! Invariant: interrupted anywhere, the path holds the whole old or the whole new store. Not here: wiping the
//! old blocks from the medium; a file system does not promise that, so the keys that were inside should be
//! replaced.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::EngineError;
use super::open::OpenError;
use super::sqlite::{connect, fault, place};

/// What has been done so far, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncryptStep {
    /// Nobody else has the old file open, and its log is folded in.
    Locked,
    /// Every row is in the draft.
    Copied,
    /// The draft was read back under the key and is intact.
    Checked,
    /// The draft is on the disk.
    Durable,
    /// The draft took the place of the old file.
    Replaced,
    /// The new directory entry is on the disk.
    Done,
}

/// Why a store was not encrypted; the old file is untouched.
#[derive(Debug, thiserror::Error)]
pub enum EncryptError {
    /// The path holds no unencrypted store.
    #[error("`{0}` is not an unencrypted store; there is nothing to encrypt")]
    NotPlain(PathBuf),
    /// Another process has it open.
    #[error("the store is in use; stop the daemon first")]
    InUse,
    /// The copy is not whole.
    #[error("the encrypted copy is not intact and was removed; the old store is unchanged")]
    Damaged,
    /// A file or directory could not be used.
    #[error(transparent)]
    Place(#[from] OpenError),
    /// SQLite failed, perhaps for lack of space.
    #[error("the store could not be copied; the old one is unchanged")]
    Engine(#[from] EngineError),
}

/// Encrypts the store at `path` in place.
pub async fn encrypt_plain(path: &Path, key: &[u8; 32]) -> Result<(), EncryptError> {
    encrypt_plain_reporting(path, key, |_| {}).await
}

/// Like [`encrypt_plain`], telling after each step that it is done.
pub async fn encrypt_plain_reporting(
    path: &Path,
    key: &[u8; 32],
    done: impl FnMut(EncryptStep) + Send + 'static,
) -> Result<(), EncryptError> {
    let (path, key) = (path.to_owned(), *key);
    let work = tokio::task::spawn_blocking(move || encrypt(&path, &key, done));
    work.await.map_err(|_| EngineError::Gone(None))?
}

fn encrypt(path: &Path, key: &[u8; 32], mut done: impl FnMut(EncryptStep)) -> Result<(), EncryptError> {
    let path = place::private_directory(path)?;
    if !path.is_file() || !place::begins_plain(&path)? {
        return Err(EncryptError::NotPlain(path));
    }
    let plain = lock(&path)?; // held until the new store is in place
    done(EncryptStep::Locked);
    let draft = Draft::beside(&path)?;
    draft.fill(&plain, key)?;
    done(EncryptStep::Copied);
    draft.check(&plain, key)?;
    done(EncryptStep::Checked);
    let at = |source| OpenError::Io { path: draft.0.clone(), source };
    File::open(&draft.0).and_then(|file| file.sync_all()).map_err(at)?;
    done(EncryptStep::Durable);
    fs::rename(&draft.0, &path).map_err(at)?;
    done(EncryptStep::Replaced);
    connect::sync_directory(&path).map_err(at)?;
    done(EncryptStep::Done);
    Ok(())
}

/// Opens the old store for us alone and leaves it as a single file: a log left behind would be replayed into
/// the new one.
fn lock(path: &Path) -> Result<Connection, EncryptError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(path, flags).map_err(fault)?;
    let steps = "PRAGMA cipher_log_level = NONE; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;
                 PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; COMMIT;";
    conn.busy_timeout(std::time::Duration::ZERO).map_err(fault)?;
    conn.execute_batch(steps).map_err(|error| match fault(error) {
        EngineError::Busy => EncryptError::InUse,
        other => other.into(),
    })?;
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(fault)?;
    if mode == "delete" { Ok(conn) } else { Err(EncryptError::InUse) }
}

/// The encrypted copy while it is made; removed unless it took the old one's place.
struct Draft(PathBuf);

impl Draft {
    fn beside(path: &Path) -> Result<Self, EncryptError> {
        let draft = place::sibling(path, ".encrypting");
        let at = |source| OpenError::Io { path: draft.clone(), source };
        // What an interrupted run left; we hold the lock, so nobody is at it.
        for suffix in ["", "-journal", "-wal", "-shm"] {
            match fs::remove_file(place::sibling(&draft, suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error).into()),
                Ok(()) | Err(_) => {}
            }
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(at)?;
        Ok(Self(draft))
    }

    fn fill(&self, plain: &Connection, key: &[u8; 32]) -> Result<(), EncryptError> {
        let path = self.0.to_str().ok_or_else(|| OpenError::NotAStore(self.0.clone()))?;
        let mut attach = format!(
            "ATTACH DATABASE '{}' AS sealed KEY {}",
            path.replace('\'', "''"),
            connect::key_literal(key)
        );
        let attached = plain.execute_batch(&attach).map_err(fault);
        connect::wipe(&mut attach);
        attached?;
        plain.query_row("SELECT sqlcipher_export('sealed')", [], |_| Ok(())).map_err(fault)?;
        Ok(plain.execute_batch("DETACH DATABASE sealed").map_err(fault)?)
    }

    /// Reads every page under the key, and compares the number of rows of every table.
    fn check(&self, plain: &Connection, key: &[u8; 32]) -> Result<(), EncryptError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sealed = connect::keyed(&self.0, key, flags).map_err(fault)?;
        let verdict: String =
            sealed.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(fault)?;
        let whole = verdict == "ok" && counts(plain)? == counts(&sealed)? && !place::begins_plain(&self.0)?;
        if whole { Ok(()) } else { Err(EncryptError::Damaged) }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0)); // after the rename there is nothing under this name
    }
}

fn counts(conn: &Connection) -> Result<Vec<(String, i64)>, EngineError> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
    let mut statement = conn.prepare(sql).map_err(fault)?;
    let names = statement.query_map([], |row| row.get::<_, String>(0)).map_err(fault)?;
    let counts = names.map(|name| {
        let name = name?;
        let sql = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        conn.query_row(&sql, [], |row| row.get(0)).map(|count| (name, count))
    });
    counts.collect::<rusqlite::Result<_>>().map_err(fault)
}
