//! Who is signed in here, and at which daemon: one private file, replaced whole.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How long another process may hold the file, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(50);

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
    /// For the next one; a paired device has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
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
            access_token: tokens.access_token.into_text(),
            access_expires: tokens.access_expires,
            refresh_token: Some(tokens.refresh_token.into_text()),
        }
    }

    /// What pairing leaves.
    pub(crate) fn of_device(url: &str, made: api::NewApiKey) -> Self {
        Self {
            url: url.to_owned(),
            user: made.key.user,
            access_token: made.secret.into_text(),
            access_expires: made.key.expires,
            refresh_token: None,
        }
    }
}

/// The file that credentials are in.
#[derive(Clone, Debug)]
pub(crate) struct CredentialsFile(pub(crate) PathBuf);

impl CredentialsFile {
    /// Reads it, if it is there. One that others could read or have written is refused.
    pub(crate) fn read(&self) -> Result<Option<Credentials>, Failure> {
        let mut file = match fs::File::open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::file(&self.0)(error)),
        };
        // Of the file that is open: the name could stand for another one by now.
        let found = file.metadata().map_err(Failure::file(&self.0))?;
        let (path, mode) = (self.0.display(), found.mode() & 0o777);
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(Failure::Usage(format!(
                "`{path}` belongs to someone else; remove it and sign in again"
            )));
        }
        if mode & 0o077 != 0 {
            return Err(Failure::Usage(format!(
                "`{path}` can be read by others (mode {mode:o}); run `chmod 600 {path}`"
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(Failure::file(&self.0))?;
        let parsed = toml::from_str(&text);
        let broken =
            |_| Failure::Usage(format!("`{}` is damaged; run `palisade login` again", self.0.display()));
        parsed.map(Some).map_err(broken)
    }

    /// Replaces it whole.
    pub(crate) fn write(&self, credentials: &Credentials) -> Result<(), Failure> {
        let text = toml::to_string(credentials).map_err(|error| Failure::Program(error.to_string()))?;
        let folder = self.folder();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Failure::file(folder))?;
        let mode = fs::metadata(folder).map_err(Failure::file(folder))?.mode() & 0o777;
        if mode & 0o022 != 0 {
            let path = folder.display();
            return Err(Failure::Usage(format!(
                "others can write in `{path}` (mode {mode:o}); run `chmod go-w {path}`"
            )));
        }
        let draft =
            self.0.with_extension(format!("draft-{:016x}", RandomState::new().build_hasher().finish()));
        let failed = || Failure::file(&draft);
        // A new file or none: nobody has put something else there.
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed())?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let replaced = written.and_then(|()| fs::rename(&draft, &self.0));
        replaced.map_err(|error| {
            drop(fs::remove_file(&draft));
            Failure::file(&self.0)(error)
        })
    }

    fn folder(&self) -> &Path {
        self.0.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
        self.hold_within(PATIENCE)
    }

    fn hold_within(&self, patience: Duration) -> Result<fs::File, Failure> {
        hold_beside(&self.0, patience)
    }
}

/// Holds the lock of a file, so that one `palisade` changes it at a time; for a while, if another has it.
pub(crate) fn hold_beside(path: &Path, patience: Duration) -> Result<fs::File, Failure> {
    let path = path.with_extension("lock");
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(Failure::file(&path))?;
    let start = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK | Errno::INTR) if start.elapsed() < patience => {
                std::thread::sleep(AGAIN);
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(Failure::Program(format!(
                    "another `palisade` has held `{}` for {} s; end it and try again",
                    path.display(),
                    patience.as_secs()
                )));
            }
            Err(error) => return Err(Failure::file(&path)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn credentials() -> Credentials {
        Credentials {
            url: "http://127.0.0.1:1".into(),
            user: "usr_1".into(),
            access_token: "a".into(),
            access_expires: 1,
            refresh_token: None,
        }
    }

    /// A private folder that goes when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("palisade-{name}-{}", std::process::id()));
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> CredentialsFile {
            CredentialsFile(self.0.join("credentials.toml"))
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn idn_06_credentials_are_kept_in_a_private_file() {
        let folder = Folder::new("kept");
        let file = folder.file();
        assert!(file.read().unwrap().is_none());
        file.write(&credentials()).unwrap();
        assert_eq!(fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(file.read().unwrap().unwrap().user, "usr_1");
        assert_eq!(folder.names(), ["credentials.toml"], "no draft is left");
        fs::set_permissions(&file.0, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn idn_06_nothing_is_kept_where_others_can_write() {
        let folder = Folder::new("shared");
        for mode in [0o770, 0o707, 0o1777] {
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
            let refused = folder.file().write(&credentials()).unwrap_err();
            assert!(refused.to_string().contains("chmod go-w"), "{refused}");
            assert!(folder.names().is_empty());
        }
    }

    #[test]
    fn idn_06_a_held_file_is_not_waited_for_without_end() {
        let folder = Folder::new("held");
        let held = folder.file().hold().unwrap();
        let refused = folder.file().hold_within(Duration::from_millis(200)).unwrap_err();
        assert!(refused.to_string().contains("another `palisade`"), "{refused}");
        drop(held);
        assert!(folder.file().hold_within(Duration::ZERO).is_ok());
    }
}
