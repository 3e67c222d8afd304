//! A ledger that was let go of, to be taken again by the same process: if nobody wrote meanwhile, nothing is read.
//!
//! Invariant: what is gone on with is what the files hold. Every write makes the segment, the checkpoint file or the
//! reserve differ from what is remembered here, and so does another directory in the place of this one.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use super::{Once, start};
use crate::draft::Scrub;
use crate::error::OpenError;
use crate::startup::Recovery;
use crate::writer::Writer;
use crate::{checkpoint, reserve, segment};

/// A ledger that this process had and will have again. It holds no lock.
pub struct Resting {
    writer: Writer,
    scrub: Scrub,
    covered: u64,
    synced: bool,
}

impl Once {
    /// Signs the chain if that is due, and lets go for a while. A checkpoint that the disk refuses is tried again by
    /// whoever comes next.
    #[must_use]
    pub fn rest(mut self) -> Resting {
        if self.is_due() {
            let _ = self.checkpoint();
        }
        let Self { writer, scrub, covered, synced, _lock } = self;
        Resting { writer, scrub, covered, synced }
    }
}

impl Resting {
    /// Takes the ledger again; mends what a crash of others left, and says what that was.
    ///
    /// # Errors
    /// As [`Once::open`].
    pub fn again(self) -> Result<(Once, Recovery), OpenError> {
        let Self { writer, scrub, covered, synced } = self;
        match start::wait_for_lock(&writer.dir, writer.options.lock_wait) {
            Ok(lock) if is_as_left(&writer) => {
                return Ok((Once { writer, scrub, covered, synced, _lock: lock }, Recovery::default()));
            }
            Ok(_) => {}
            // The whole directory is gone: opening makes another.
            Err(OpenError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let Writer { dir, keys, clock, options, .. } = writer;
        Once::open_with(&dir, keys, clock, scrub, options)
    }
}

impl std::fmt::Debug for Resting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Resting").finish_non_exhaustive()
    }
}

/// Whether the files are the ones that the writer has, and end where it left them.
fn is_as_left(writer: &Writer) -> bool {
    let is_here = |path: &Path, file: &File, bytes: Option<u64>| {
        let (Ok(there), Ok(own)) = (path.symlink_metadata(), file.metadata()) else { return false };
        (there.dev(), there.ino()) == (own.dev(), own.ino()) && bytes.is_none_or(|bytes| own.len() == bytes)
    };
    let is_empty = || {
        let mut first = [1];
        matches!(writer.reserve.file.read_at(&mut first, 0), Ok(1)) && first == [0]
    };
    !writer.failing
        && !writer.records.failing
        && writer.reserve.waiting.is_empty()
        && is_here(
            &segment::path(&writer.dir, writer.current.number),
            &writer.current.file,
            Some(writer.current.bytes),
        )
        && is_here(&writer.dir.join(checkpoint::FILE), &writer.records.file, Some(writer.records.bytes))
        && is_here(&writer.dir.join(reserve::FILE), &writer.reserve.file, None)
        && is_empty()
}
