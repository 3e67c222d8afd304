//! Who is signed in here, and at which daemon: one private file, replaced whole.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What is kept after signing in.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    /// The daemon.
    pub(crate) url: String,
    /// Who.
    pub(crate) user: String,
    /// For the Authorization header.
    pub(crate) access_token: String,
    /// When it ends.
    pub(crate) access_expires: i64,
    /// For the next one.
    pub(crate) refresh_token: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}, ***)", self.url)
    }
}

impl Credentials {
    /// What an answer to signing in leaves.
    pub(crate) fn of(url: &str, tokens: api::TokenResponse) -> Self {
        Self {
            url: url.to_owned(),
            user: tokens.user,
            access_token: tokens.access_token.0,
            access_expires: tokens.access_expires,
            refresh_token: tokens.refresh_token.0,
        }
    }
}

/// The file that credentials are in.
#[derive(Clone, Debug)]
pub(crate) struct CredentialsFile(pub(crate) PathBuf);

impl CredentialsFile {
    /// Reads it, if it is there. One that others could read is refused.
    pub(crate) fn read(&self) -> Result<Option<Credentials>, Failure> {
        let text = match fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file(&self.0)(error)),
        };
        let mode = fs::metadata(&self.0).map_err(Failure::file(&self.0))?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = self.0.display();
            return Err(Failure::Usage(format!(
                "`{path}` can be read by others (mode {mode:o}); run `chmod 600 {path}`"
            )));
        }
        let parsed = toml::from_str(&text);
        let broken =
            |_| Failure::Usage(format!("`{}` is damaged; run `palisade login` again", self.0.display()));
        parsed.map(Some).map_err(broken)
    }

    /// Replaces it whole.
    pub(crate) fn write(&self, credentials: &Credentials) -> Result<(), Failure> {
        let text = toml::to_string(credentials).map_err(|error| Failure::Program(error.to_string()))?;
        let folder = self.0.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Failure::file(folder))?;
        let draft = self.0.with_extension(format!("draft-{}", std::process::id()));
        let failed = || Failure::file(&draft);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&draft)
            .map_err(failed())?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed())?;
        fs::rename(&draft, &self.0).map_err(Failure::file(&self.0))
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file(&self.0)(error)),
            _ => Ok(()),
        }
    }

    /// Holds the file against other processes of this person while tokens are traded.
    pub(crate) fn hold(&self) -> Result<fs::File, Failure> {
        let path = self.0.with_extension("lock");
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(Failure::file(&path))?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| Failure::file(&path)(error.into()))?;
        Ok(file)
    }
}
