//! The certificates that a sandbox trusts, in files that it reads: those of this machine, and its own authority's.
//!
//! Invariant: the files are gone with their owner; what a killed run left is gone with the next run.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sandbox::RunId;

use crate::failure::Failure;

/// A file of certificates, and maybe one for Java beside it.
pub(super) struct Bundle(PathBuf);

impl Bundle {
    /// What this machine trusts, and the sandbox's own authority.
    pub(super) fn new(certificate: &str, state: &Path, run: &RunId) -> Result<Self, Failure> {
        let folder = state.join("trusted");
        std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        sweep(&folder, &state.join("live"));
        let path = folder.join(format!("{run}.pem"));
        let host =
            sandbox::trust::BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        let bundle = Self(path);
        written(&bundle.0, &[host.as_slice(), b"\n", certificate.as_bytes()].concat())?;
        Ok(bundle)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn java(&self) -> PathBuf {
        self.0.with_extension("jks")
    }

    /// The same for Java, as its key store.
    pub(super) fn add_java(&self, store: &[u8]) -> Result<(), Failure> {
        written(&self.java(), store)
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.java());
    }
}

/// Removes what killed runs left: those that nobody can be asked about any more.
fn sweep(folder: &Path, live: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let run = path.file_stem().map(|run| live.join(run).with_extension("sock"));
        if run.is_some_and(|socket| !socket.exists()) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A new file that everybody may read.
fn written(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut new = std::fs::OpenOptions::new();
    let file = new.write(true).create_new(true).mode(0o644).open(path);
    file.and_then(|mut file| file.write_all(bytes)).map_err(Failure::file(path))
}
