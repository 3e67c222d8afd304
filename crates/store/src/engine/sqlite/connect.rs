//! Opens single SQLite connections: the key, the settings, and a store's first file.
//!
//! Invariant: the key is set before the first page is read, and a wrong key prints nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::place::{io_at, sibling};
use super::statement::fault;
use crate::engine::error::EngineError;
use crate::engine::open::OpenError;

/// How long opening may wait for another process; afterwards waiting is done asynchronously.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// Prepared statements kept per connection.
const STATEMENTS: usize = 256;

/// For both kinds of connections. `case_sensitive_like` is what PostgreSQL does.
const SETTINGS: &str = "
    PRAGMA foreign_keys = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA cell_size_check = ON;
    PRAGMA case_sensitive_like = ON;
";

/// FULL: a commit that returned is on the disk.
const WRITER: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA journal_size_limit = 67108864;
";

/// Opens `path` and gives the connection its key. Nothing is read yet.
pub(crate) fn keyed(path: &Path, key: &[u8; 32], flags: OpenFlags) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, flags)?;
    conn.execute_batch("PRAGMA cipher_log_level = NONE")?;
    let mut statement = format!("PRAGMA key = {}", key_literal(key));
    let result = conn.execute_batch(&statement);
    wipe(&mut statement);
    result.map(|()| conn)
}

/// The key as the raw literal SQLCipher takes without deriving (a millisecond instead of 258).
pub(crate) fn key_literal(key: &[u8; 32]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(80);
    text.push_str("\"x'");
    for byte in key {
        let _ = write!(text, "{byte:02x}");
    }
    text.push_str("'\"");
    text
}

/// Overwrites text that held the key. Best effort: SQLite had copies of its own.
pub(crate) fn wipe(text: &mut String) {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

/// Makes an empty store at `path`, whole or not at all: it is built beside and linked into place.
/// If somebody else was faster, theirs stays.
pub(crate) fn create(path: &Path, key: &[u8; 32]) -> Result<(), OpenError> {
    let draft = sibling(path, &format!(".new-{}", std::process::id()));
    let result = build(&draft, key).and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(io_at(path)(error)),
        Ok(()) | Err(_) => sync_directory(path).map_err(io_at(path)),
    });
    drop(fs::remove_file(&draft));
    result
}

fn build(draft: &Path, key: &[u8; 32]) -> Result<(), OpenError> {
    drop(fs::remove_file(draft));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map_err(io_at(draft))?;
    let conn = writer(draft, key)?;
    conn.close().map_err(|(_, error)| fault(error))?;
    File::open(draft).and_then(|file| file.sync_all()).map_err(io_at(draft))
}

/// Makes the directory entry of `path` durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Opens the connection that writes, and recovers what a crash left.
pub(crate) fn writer(path: &Path, key: &[u8; 32]) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let conn = keyed(path, key, flags | strict_flags()).map_err(fault)?;
    conn.busy_timeout(OPEN_WAIT).map_err(fault)?;
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fault)?;
    if mode != "wal" {
        return Err(EngineError::misuse("the file system does not support a write-ahead log"));
    }
    conn.execute_batch(WRITER).map_err(fault)?;
    finish(conn)
}

/// Opens one connection that reads.
pub(crate) fn reader(path: &Path, key: &[u8; 32]) -> Result<Connection, EngineError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = keyed(path, key, flags | strict_flags()).map_err(fault)?;
    conn.busy_timeout(OPEN_WAIT).map_err(fault)?;
    conn.execute_batch("PRAGMA query_only = ON").map_err(fault)?;
    finish(conn)
}

fn strict_flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW
}

fn finish(conn: Connection) -> Result<Connection, EngineError> {
    conn.execute_batch(SETTINGS).map_err(fault)?;
    // A mistyped "column" must be an error as in PostgreSQL, not a string.
    for (setting, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        conn.set_db_config(setting, on).map_err(fault)?;
    }
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    conn.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(())).map_err(fault)?;
    // From here on nobody sleeps inside SQLite: the async side retries.
    conn.busy_timeout(Duration::ZERO).map_err(fault)?;
    Ok(conn)
}
