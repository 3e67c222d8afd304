//! What can go wrong, one enum per operation.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a ledger was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it.
    #[error("the ledger is in use by process `{}`; stop it first", .pid.map_or("unknown".to_owned(), |pid| pid.to_string()))]
    Locked {
        /// The other's process id, if it could be read.
        pid: Option<u32>,
    },
    /// Less is there than a checkpoint says.
    #[error(
        "the ledger was cut or rolled back: checkpoint `{checkpoint}` covers {claimed} entries, {found} are there; \
         restore the missing files or move the directory aside and check it with `palisade-verify`"
    )]
    RolledBack {
        /// The number of the checkpoint.
        checkpoint: u64,
        /// Entries it covers.
        claimed: u64,
        /// Entries found.
        found: u64,
    },
    /// The checkpoint file is shorter than entries say.
    #[error(
        "the checkpoint file was cut: entry `{seq}` was written after checkpoint `{claimed}`, the last one there is \
         `{found}`"
    )]
    CheckpointsCut {
        /// The entry that knows more.
        seq: u64,
        /// The checkpoint it names.
        claimed: u64,
        /// The last one found.
        found: u64,
    },
    /// An entry does not follow from the one before.
    #[error(
        "entry `{seq}` in segment `{segment}` is not what was written, or the chain key is another one; check the \
         directory with `palisade-verify`"
    )]
    Broken {
        /// The sequence number that should be there.
        seq: u64,
        /// The segment.
        segment: u32,
    },
    /// Bytes that are no entry stand before entries.
    #[error(
        "entry `{seq}` cannot be read at byte {offset} of segment `{segment}`, and there is more behind it; nothing was \
         changed, because entries that were acknowledged may be among it; restore the segment from a backup, or \
         move the ledger directory aside as evidence (`palisade-verify` says what it still proves) and start anew"
    )]
    Damaged {
        /// The sequence number that should be there.
        seq: u64,
        /// The segment.
        segment: u32,
        /// Where the damage begins.
        offset: u64,
    },
    /// A segment between others is missing.
    #[error("segment `{0}` is missing; restore it")]
    SegmentMissing(u32),
    /// One of the last records of the checkpoint file is damaged, does not carry our signature, does not follow
    /// the one before it, or does not describe the segment.
    #[error(
        "checkpoint `{0}` is not what was written, or the signing key is another one; nothing was changed; restore \
         `checkpoints.jsonl` or the key, or check the directory with `palisade-verify`"
    )]
    BadCheckpoint(u64),
    /// A file could not be used.
    #[error("`{path}` could not be used")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The writer's thread could not be started.
    #[error("the ledger's writer could not be started")]
    Thread(#[source] io::Error),
    /// What recovery found could not be recorded, not even in the reserve.
    #[error("the recovery could not be recorded; free some disk space")]
    Unrecorded(#[source] AppendError),
}

/// Why an entry was not recorded. Nothing may happen on its behalf.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk refused; nothing of the entry is left there.
    #[error("the entry could not be written; check the disk of the ledger")]
    Storage(#[source] Arc<io::Error>),
    /// The disk refused, and the reserve is used up.
    #[error("the entry could not be written and the reserve is full; free some disk space")]
    ReserveFull(#[source] Arc<io::Error>),
    /// Too many entries wait already.
    #[error("too many entries wait to be written; try again")]
    Busy,
    /// Too many acts are under way.
    #[error("too many recorded acts are still open; let some finish")]
    TooManyOpen,
    /// The ledger is closed.
    #[error("the ledger is closed")]
    Closed,
}

/// Why no checkpoint was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk refused.
    #[error("the checkpoint could not be written; check the disk of the ledger")]
    Storage(#[source] Arc<io::Error>),
    /// The ledger is closed.
    #[error("the ledger is closed")]
    Closed,
}

/// Why old segments were not dropped.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DropError {
    /// The entry about it could not be written; nothing was dropped.
    #[error("that old segments go could not be recorded; nothing was dropped")]
    Unrecorded(#[from] AppendError),
    /// The continuity record could not be written; nothing was dropped.
    #[error("the continuity record could not be written; nothing was dropped")]
    Record(#[from] CheckpointError),
    /// A segment could not be read or removed; dropping goes on at the next start.
    #[error("an old segment could not be removed; it goes at the next start")]
    Storage(#[source] Arc<io::Error>),
    /// The ledger is closed.
    #[error("the ledger is closed")]
    Closed,
}

/// Why a ledger could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file could not be read.
    #[error("`{path}` could not be read")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line is not an entry.
    #[error("segment `{segment}`, line {line}: not an entry; check the directory with `palisade-verify`")]
    NotAnEntry {
        /// The segment.
        segment: u32,
        /// The line, from 1.
        line: u64,
    },
}
