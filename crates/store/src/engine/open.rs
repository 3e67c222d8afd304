//! Why a store did not open. Every message says what to do next.

use std::path::PathBuf;

use super::error::{EngineError, Fault};

/// Why a store did not open. Nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The key does not open this file (or the file is not one of ours; ciphertext does not tell).
    #[error("the key does not open the store `{0}`; give the key it was made with, nothing was changed")]
    WrongKey(PathBuf),
    /// The file is an unencrypted database.
    #[error(
        "the store `{0}` is not encrypted and is refused; run `palisade backup encrypt-store` to encrypt it"
    )]
    PlainText(PathBuf),
    /// The file is no database.
    #[error("`{0}` is not a store; move it away or restore a backup")]
    NotAStore(PathBuf),
    /// Other accounts can reach the directory.
    #[error("the directory `{path}` is open to other accounts (mode {mode:03o}); run `chmod 700` on it")]
    OpenDirectory {
        /// The directory of the store.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory or file could not be made or read.
    #[error("`{path}` cannot be used")]
    Io {
        /// What was touched.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The address is not a PostgreSQL URL we accept.
    #[error("the database address is not usable: {0}")]
    BadUrl(&'static str),
    /// A remote server would be spoken to in the clear.
    #[error(
        "the database on `{host}` would be reached without verified TLS; add `sslmode=verify-full` to its address, \
         or `sslmode=disable` if the network is trusted"
    )]
    Insecure {
        /// The remote host.
        host: String,
    },
    /// The certificates to trust could not be read.
    #[error("no certificate authority could be read from `{0}`; name one with `sslrootcert=`")]
    NoRoots(PathBuf),
    /// The server does not let us in.
    #[error("the database refused the login; check user, password and database name")]
    Refused(#[source] Fault),
    /// The server did not answer, or its certificate was not accepted.
    #[error("the database could not be reached")]
    Unreachable(#[source] Fault),
    /// The database does not store text as UTF-8.
    #[error("the database uses the encoding `{0}`; create it with `ENCODING 'UTF8'`")]
    Encoding(String),
    /// It opened but did not work.
    #[error("the store opened but does not work")]
    Engine(#[from] EngineError),
}
