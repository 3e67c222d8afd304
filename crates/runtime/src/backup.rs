//! A sealed copy of everything: rows and ledger, in one stream that cannot be read, altered or cut.
//!
//! The master key is not in it. Invariant: a copy is called done only after it was read back whole, by what
//! restores it. Not here: its bytes ([`sealed`]), and the way back ([`restore`](mod@restore)).

mod restore;
mod sealed;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use access::{CreateBackup, Permit, Principal};

pub use self::restore::{RestoreError, Unfinished, restore, unfinished};
use self::sealed::{Opening, Pieces, Sealing, check, section, section_end};
use crate::{ActError, Runtime};

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The gate refused.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The store could not be copied.
    #[error("the store could not be copied")]
    Store(#[from] store::backup::DumpError),
    /// A file could not be read or written.
    #[error("the backup could not be written")]
    Io(#[from] io::Error),
    /// What was written does not read back.
    #[error("the backup was written and does not read back; it is worth nothing, check the disk")]
    Unreadable(#[source] io::Error),
}

impl Runtime {
    /// Writes a sealed copy of everything to the file that `place` makes, once it is allowed.
    ///
    /// It runs as a task of its own: a caller who goes away leaves no record open.
    pub async fn backup(
        self: &Arc<Self>,
        who: &Principal,
        place: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<File, BackupError> {
        let (this, who) = (Arc::clone(self), who.clone());
        let whole = async move {
            let permit = this.look(&who, CreateBackup {}).await?;
            let record = permit.record();
            let outcome = match place() {
                Ok(file) => this.copy(permit, file).await,
                Err(error) => Err(error.into()),
            };
            this.gate.close(record, outcome.as_ref().map(drop).map_err(ToString::to_string)).await;
            outcome
        };
        tokio::spawn(whole).await.unwrap_or(Err(ActError::Interrupted.into()))
    }

    async fn copy(self: &Arc<Self>, permit: Permit<CreateBackup>, file: File) -> Result<File, BackupError> {
        // The ring and the rows of one copy belong together.
        let _copying = self.copying.read().await;
        let out = file.try_clone()?;
        let mut seal = Sealing::start(Arc::clone(&self.ring), out)?;
        section(&mut seal, "store")?;
        let mut pieces = Pieces(&mut seal);
        let permit = self.store.dump(permit, &mut pieces).await?;
        section_end(&mut seal)?;
        let this = Arc::clone(self);
        let whole = move || -> Result<File, BackupError> {
            let (dir, _held) = this.ledger.copied(permit);
            copy_ledger(&mut seal, dir)?;
            seal.finish()?;
            read_back(Arc::clone(&this.ring), &file).map_err(BackupError::Unreadable)?;
            Ok(file)
        };
        tokio::task::spawn_blocking(whole).await.map_err(io::Error::other)?
    }
}

fn read_back(ring: Arc<vault::KeyRing>, file: &File) -> io::Result<()> {
    let mut from = file.try_clone()?;
    from.rewind()?;
    check(&mut Opening::start(ring, from)?)
}

fn copy_ledger(seal: &mut Sealing, dir: &Path) -> io::Result<()> {
    let mut names = vec!["checkpoints.jsonl".to_owned(), "reserve".to_owned()];
    let root = files::Root::open(dir)?;
    for entry in std::fs::read_dir(dir.join("segments"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if ::ledger::is_segment(&name) {
            names.push(format!("segments/{name}"));
        }
    }
    // Checkpoints and reserve first: whatever they claim is then surely in the segments that follow, or can
    // still follow them.
    names.sort();
    for name in names {
        let mut file = match root.file(Path::new(&name), files::Rule::Any) {
            Ok(file) => BufReader::new(file),
            Err(files::FileError::Missing) => continue,
            Err(error) => return Err(error.into()),
        };
        section(seal, &name)?;
        match name.as_str() {
            // A file of fixed size, nearly always zeros.
            "reserve" => drop(io::copy(&mut used(file)?.as_slice(), &mut Pieces(seal))?),
            _ => drop(io::copy(&mut file, &mut Pieces(seal))?),
        }
        section_end(seal)?;
    }
    Ok(())
}

/// What stands in a reserve before its zeros.
fn used(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    Ok(bytes)
}
