//! Real stores for tests: an encrypted file in a private folder, and a database on a PostgreSQL server that
//! this process starts.
//!
//! One server per test process, one database per store. The server is stopped and its folder removed when the
//! process ends, however it ends: a shell waits for the other end of a pipe that only this process holds.
//! Without PostgreSQL the tests fail and say what to install.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Engine;

mod server;

pub(crate) use server::Server;

/// The key of every SQLite store made here.
pub(crate) const KEY: [u8; 32] = [7; 32];

/// An open, empty store.
pub(crate) struct Store {
    /// The store.
    pub(crate) engine: Engine,
    /// How to open it again.
    pub(crate) place: Place,
    _folder: Option<tempfile::TempDir>,
}

/// Where a store is.
#[derive(Clone)]
pub(crate) enum Place {
    /// An encrypted file.
    File(PathBuf),
    /// A database.
    Url(String),
}

impl Place {
    /// Opens the store that is there.
    pub(crate) async fn open(&self) -> Engine {
        match self {
            Self::File(path) => Engine::open_sqlite(path, &KEY).await.unwrap(),
            Self::Url(url) => Engine::open_postgres(url).await.unwrap(),
        }
    }
}

/// One empty store of each engine. Every test of the suite loops over them.
pub(crate) async fn both() -> [Store; 2] {
    [sqlite().await, postgres().await]
}

/// An empty SQLite store.
pub(crate) async fn sqlite() -> Store {
    let folder = folder();
    let place = Place::File(folder.path().join("store.db"));
    Store { engine: place.open().await, place, _folder: Some(folder) }
}

/// An empty PostgreSQL store.
pub(crate) async fn postgres() -> Store {
    let place = Place::Url(Server::shared().database());
    Store { engine: place.open().await, place, _folder: None }
}

/// A folder only we can enter.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}

/// The name of the database in an address made by [`Server::database`].
pub(crate) fn database_of(place: &Place) -> &str {
    match place {
        Place::Url(url) => url.rsplit('/').next().unwrap(),
        Place::File(_) => panic!("not a database"),
    }
}

/// Runs one test of this binary in a process of its own, with `PALISADE_CHILD` set to `argument`.
pub(crate) fn child(test: &str, argument: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("PALISADE_CHILD", argument);
    command
}

/// What [`child`] was given; `None` in an ordinary run, where such a test has nothing to do.
pub(crate) fn child_argument() -> Option<PathBuf> {
    std::env::var_os("PALISADE_CHILD").map(PathBuf::from)
}
