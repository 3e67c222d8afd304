//! Patterns that an organisation adds to what is masked: a file, one a line, in force for everything that the daemon keeps or says.
//!
//! Flow: the file named by `redact.patterns` -> read at start, where a fault keeps the daemon from starting -> looked at again every
//! second; what changed is in force from then on. What is in force is also kept in the data directory, where launchers read it, so that
//! what they say and keep of sessions is masked by it as well. Invariants: all of a file is in force or none of it; a file that has a
//! fault, or is gone, changes nothing and is told of once; no pattern is in any message, since it may be a secret itself.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use redact::{BadPattern, Redactor};
use tokio::sync::watch;

use crate::logs;

/// The most bytes of the file.
const MOST: u64 = 1 << 20;
/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Why a file of patterns is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PatternsError {
    /// It cannot be read.
    #[error("`redact.patterns`: `{0}` cannot be read")]
    File(PathBuf, #[source] std::io::Error),
    /// One of them cannot be used.
    #[error("`redact.patterns`: the pattern in line {} of `{}` cannot be used: {}", .1.index + 1, .0.display(), .1.flaw)]
    Bad(PathBuf, BadPattern),
    /// Launchers cannot be given them.
    #[error("`redact.patterns`: what is in force cannot be kept in `{0}`")]
    Kept(PathBuf, #[source] std::io::Error),
}

/// The file, as it was when it was looked at last.
#[derive(Debug)]
pub(crate) struct Patterns {
    file: PathBuf,
    /// What is in force, for launchers.
    kept: PathBuf,
    seen: Option<Stamp>,
}

/// What changes when a file does.
type Stamp = (SystemTime, u64, u64);

fn stamp(file: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}

impl Patterns {
    /// Puts them in force, wherever this process masks anything; `kept` is where launchers will find them.
    ///
    /// # Errors
    /// [`PatternsError`]; then none of them is in force.
    pub(crate) fn start(file: PathBuf, kept: PathBuf) -> Result<Self, PatternsError> {
        // Looked at before it is read: what is written in between is seen the next time.
        let seen = stamp(&file);
        put(logs::near(), &file, None)?;
        Ok(Self { file, kept, seen })
    }

    /// Also gives them to launchers, once the data directory is ours.
    ///
    /// # Errors
    /// [`PatternsError`]; then launchers have none.
    pub(crate) fn hand_on(&self) -> Result<(), PatternsError> {
        put(logs::near(), &self.file, Some(&self.kept)).map(drop)
    }

    /// Follows changes until the daemon ends.
    pub(crate) async fn follow(mut self, mut stop: watch::Receiver<bool>) {
        let mut every = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                _ = every.tick() => self.look(),
                () = crate::up::stopped(&mut stop) => break,
            }
        }
    }

    fn look(&mut self) {
        let now = stamp(&self.file);
        if now == self.seen {
            return;
        }
        match put(logs::near(), &self.file, Some(&self.kept)) {
            Ok(count) => {
                self.seen = now;
                tracing::info!(count, "the patterns of `redact.patterns` changed and are in force");
            }
            // Tried again until there is room.
            Err(error @ PatternsError::Kept(..)) => {
                let error = anyhow::Error::from(error);
                tracing::error!("{error:#}; launchers have those before");
            }
            Err(error) => {
                self.seen = now;
                let error = anyhow::Error::from(error);
                tracing::error!("{error:#}; those before stay in force");
            }
        }
    }
}

/// All of them or none; how many there are.
fn put(redactor: &Redactor, file: &Path, kept: Option<&Path>) -> Result<usize, PatternsError> {
    let unread = |error: std::io::Error| PatternsError::File(file.to_owned(), error);
    let bytes = files::read(file, MOST, files::Rule::Any).map_err(|error| unread(error.into()))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| unread(std::io::Error::new(std::io::ErrorKind::InvalidData, "it is no text")))?;
    let listed = redact::listed(&text);
    let patterns = || listed.iter().map(|(_, pattern)| *pattern);
    // Tried apart first: one that has a fault must not take away those that are in force.
    if let Some(bad) = Redactor::new().set_patterns(patterns()).into_iter().next() {
        let line = listed.get(bad.index).map_or(bad.index, |(line, _)| *line);
        return Err(PatternsError::Bad(file.to_owned(), BadPattern { index: line, ..bad }));
    }
    let bad = redactor.set_patterns(patterns());
    debug_assert!(bad.is_empty());
    // In force here whether there is room for it or not.
    let is_kept =
        |kept: &Path| files::read(kept, MOST, files::Rule::Any).is_ok_and(|there| there == text.as_bytes());
    if let Some(kept) = kept.filter(|kept| !is_kept(kept)) {
        replace(kept, text.as_bytes()).map_err(|error| PatternsError::Kept(kept.to_owned(), error))?;
    }
    Ok(listed.len())
}

/// Whoever reads it meanwhile finds all of the one or all of the other.
fn replace(file: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let whole = file.with_extension("new");
    let mut new = std::fs::OpenOptions::new();
    let mut written = new.write(true).create(true).truncate(true).mode(0o600).open(&whole)?;
    written.write_all(text)?;
    std::fs::rename(&whole, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SEC-17: a change is in force at the next look; a fault changes nothing and is told by its line, not by its text.
    #[test]
    fn sec_17_patterns_of_a_file_are_in_force_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("patterns");
        std::fs::write(&file, "# ours\n\nPAL-[0-9]{6}\n").unwrap();
        let redactor = Redactor::new();
        let copy = redactor.clone();
        let kept = folder.path().join("kept");
        let put = |redactor: &Redactor, file: &Path| super::put(redactor, file, Some(&kept));
        assert_eq!(put(&redactor, &file).unwrap(), 1);
        assert_eq!(copy.scrub("card PAL-123456 of TEAM-77"), "card *** of TEAM-77");
        std::fs::write(&file, "# ours\n\nTEAM-[0-9]+\nbad(hunter2\n").unwrap();
        let error = put(&redactor, &file).unwrap_err().to_string();
        assert!(error.contains("line 4") && !error.contains("hunter2"), "{error}");
        assert!(std::fs::read_to_string(&kept).unwrap().contains("PAL-"), "launchers have what is in force");
        assert_eq!(copy.scrub("card PAL-123456 of TEAM-77"), "card *** of TEAM-77");
        std::fs::write(&file, "TEAM-[0-9]+\n").unwrap();
        assert_eq!(put(&redactor, &file).unwrap(), 1);
        assert_eq!(copy.scrub("card PAL-123456 of TEAM-77"), "card PAL-123456 of ***");
        std::fs::remove_file(&file).unwrap();
        assert!(put(&redactor, &file).is_err());
        assert_eq!(copy.scrub("TEAM-77"), "***");
    }
}
